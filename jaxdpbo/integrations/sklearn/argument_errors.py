"""Name the arguments of ``PrivateSearchCV`` in errors for the arguments of scikit-learn's searches."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

from sklearn.base import is_classifier, is_regressor

from jaxdpbo.integrations.sklearn.losses import LOSSES
from jaxdpbo.integrations.sklearn.type_aliases import Estimator, Loss

Arguments = ParamSpec("Arguments")
LOSS_OF = {  # scikit-learn's score -> the nearest loss of a record
    "accuracy": "zero_one", "neg_log_loss": "log_loss",
    "neg_mean_squared_error": "squared", "neg_root_mean_squared_error": "squared", "r2": "squared",
    "neg_mean_absolute_error": "absolute", "neg_median_absolute_error": "absolute",
}  # fmt: skip
SPACE = "give space={...}, its values lists, scipy.stats distributions or dimensions such as space.real(0.1, 10)"
ADVICE = {
    "param_grid": SPACE,
    "param_distributions": SPACE,
    "search_spaces": SPACE,
    "random_state": (
        "anyone who knows the seed can remove the noise, so the operating system draws the key; run=Execution(key=...) "
        "is for tests alone"
    ),
    "return_train_score": (
        "there is no cv_results_, which leaks; search=Search(estimate_share=0.1) buys best_loss_, with noise"
    ),
    "n_candidates": "give n_iter",
    "n_points": "settings of a batch are tried at once by n_jobs",
    "pre_dispatch": "n_jobs alone says how many settings are tried at once",
}
CLASSIFIERS, REGRESSORS = ("log_loss", "hinge", "zero_one"), ("squared", "absolute")


def refuse_others(init: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Wrap ``__init__`` so that the ``TypeError`` for an unknown argument names the argument to use.

    The wrapper keeps the signature of ``__init__``, since scikit-learn reads the parameters there.
    """
    names = signature(init).parameters

    @wraps(init)
    def call(*positional: Arguments.args, **named: Arguments.kwargs) -> None:
        refusals = [f"{name}: {_advice(name, value)}" for name, value in named.items() if name not in names]
        if refusals:
            raise TypeError(f"PrivateSearchCV takes no {'; no '.join(refusals)}")
        init(*positional, **named)

    return call


def _advice(name: str, value: Any) -> str:
    if name != "scoring":
        return ADVICE.get(name, "see help(PrivateSearchCV) for its arguments")
    loss = LOSS_OF.get(value) if isinstance(value, str) else None
    usual = "loss=, by name or as (estimator, X, y) -> losses (n,), see docs/tutorials/sklearn.md"
    spelling = usual if loss is None else f"loss={loss!r}"
    return f"a score is of all records at once, and each record needs a loss of its own: give {spelling}"


def expect_response(loss: Loss, estimator: Estimator) -> None:
    """Refuse an estimator without the method of the loss, before any budget is spent.

    Raises:
      ValueError: the estimator lacks the method; names usable losses.
    """
    if not isinstance(loss, str) or _responds(estimator, LOSSES[loss].response):
        return
    suited = CLASSIFIERS if is_classifier(estimator) else REGRESSORS if is_regressor(estimator) else tuple(LOSSES)
    able = [f"loss={name!r}" for name in suited if _responds(estimator, LOSSES[name].response)]
    raise ValueError(
        f"loss={loss!r} needs {LOSSES[loss].response}, which {type(estimator).__name__} lacks with these parameters: "
        f"give {' or '.join(able) or 'a loss of your own'}"
    )


def _responds(estimator: Any, response: str) -> bool:
    """True if an estimator, fitted or not, has the method ``response``."""
    while hasattr(estimator, "steps"):  # a pipeline
        estimator = estimator.steps[-1][1]
    made_by_fit = getattr(estimator, "final_estimator", estimator) is None  # the default of a stack
    return made_by_fit or hasattr(estimator, response)
