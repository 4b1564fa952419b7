"""What a caller of scikit-learn's searches types, and the spelling that works here."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

from sklearn.base import is_classifier, is_regressor

from jaxdpbo.integrations.sklearn.kinds import Estimator, Loss
from jaxdpbo.integrations.sklearn.losses import LOSSES

Arguments = ParamSpec("Arguments")
LOSS_OF = {  # a score of all records: the loss of a single record that stands for it
    "accuracy": "zero_one", "balanced_accuracy": "zero_one", "neg_log_loss": "log_loss",
    "neg_mean_squared_error": "squared", "neg_root_mean_squared_error": "squared", "r2": "squared",
    "neg_mean_absolute_error": "absolute", "neg_median_absolute_error": "absolute",
}  # fmt: skip
SPACE = "give space={...}, its values lists, scipy.stats distributions or dimensions such as space.real(0.1, 10)"
ADVICE = {
    "param_grid": SPACE,
    "param_distributions": SPACE,
    "search_spaces": SPACE,
    "random_state": (
        "a known seed lets anybody take the noise away, so the seed comes from the operating system; insecure_seed is "
        "for tests alone"
    ),
    "return_train_score": "there is no cv_results_, which leaks; estimate_share=0.1 buys best_loss_, with noise",
    "n_candidates": "give n_iter",
    "n_points": "settings of a batch are tried at once by n_jobs",
    "pre_dispatch": "n_jobs alone says how many settings are tried at once",
}
CLASSIFIERS, REGRESSORS = ("log_loss", "hinge", "zero_one"), ("squared", "absolute")


def refuse_others(init: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """``__init__`` of a search, whose ``TypeError`` for an argument that it lacks says what to write in its place.

    Its signature stays what it is: scikit-learn reads the parameters there.
    """
    names = signature(init).parameters

    @wraps(init)
    def checked(*positional: Arguments.args, **named: Arguments.kwargs) -> None:
        said = [f"{name}: {_advice(name, value)}" for name, value in named.items() if name not in names]
        if said:
            raise TypeError(f"PrivateSearchCV takes no {'; no '.join(said)}")
        init(*positional, **named)

    return checked


def _advice(name: str, value: Any) -> str:
    if name != "scoring":
        return ADVICE.get(name, "see help(PrivateSearchCV) for what it takes")
    known = LOSS_OF.get(value) if isinstance(value, str) else None
    spelling = "loss=, by name or as (estimator, X, y) -> losses (n,)" if known is None else f"loss={known!r}"
    return f"a score is of all records at once, and each record needs a loss of its own: give {spelling}"


def expect_response(loss: Loss, estimator: Estimator) -> None:
    """Refuse an estimator that lacks the method of which a loss is computed, before anything is spent.

    Raises:
      ValueError: it does; says which losses the estimator has.
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
    """Whether an estimator, fitted or not, has a method."""
    while hasattr(estimator, "steps"):  # a pipeline
        estimator = estimator.steps[-1][1]
    unmade = getattr(estimator, "final_estimator", estimator) is None  # a stack's, which fit makes
    return unmade or hasattr(estimator, response)
