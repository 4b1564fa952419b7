"""Errors that say what to type: for arguments of scikit-learn's searches, and for all that is missing at once."""

from collections.abc import Callable
from typing import Any

from sklearn.base import is_classifier, is_regressor

from jaxdpbo.integrations.sklearn.losses import LOSSES
from jaxdpbo.integrations.sklearn.type_aliases import Estimator, Loss

LOSS_OF = {  # scikit-learn's score -> the nearest loss of a record
    "accuracy": "zero_one", "neg_log_loss": "log_loss",
    "roc_auc": "roc_auc", "balanced_accuracy": "balanced_accuracy",
    "neg_mean_squared_error": "squared", "neg_root_mean_squared_error": "squared", "r2": "squared",
    "neg_mean_absolute_error": "absolute", "neg_median_absolute_error": "absolute",
}  # fmt: skip
SPACE = "give space={...}, its values lists, scipy.stats distributions or dimensions such as space.real(0.1, 10)"
ADVICE = {
    "param_grid": SPACE,
    "param_distributions": SPACE,
    "search_spaces": SPACE,
    "random_state": (
        "anyone who knows the seed can remove the noise, so the operating system draws the key; key= is for tests alone"
    ),
    "return_train_score": (
        "there is no cv_results_, which leaks; search=Search(estimate_share=0.1) buys best_loss_, with noise"
    ),
    "n_candidates": "give n_iter",
    "n_points": "settings of a batch are tried at once by n_jobs",
    **dict.fromkeys(
        ("callback", "callbacks"),
        "settings are released together, at the end; verbose=True shows how many are evaluated",
    ),
    **dict.fromkeys(
        ("timeout", "max_time"),
        "how long a fit takes may depend on records, and how many settings there are would reveal it: give n_iter",
    ),
    "pre_dispatch": "n_jobs alone says how many settings are tried at once",
}
MODEL_ADVICE = {
    "random_state": ADVICE["random_state"],
    **dict.fromkeys(
        ("C", "alpha", "learning_rate", "max_iter", "tol", "batch_size", "n_estimators"),
        "nothing is tuned; settings=[...] chooses among settings of your own",
    ),
    "warm_start": "each fit spends a budget of its own",
    "n_jobs": "models are trained one after another",
}
CLASSIFIERS = "log_loss", "hinge", "zero_one", "roc_auc", "balanced_accuracy"
REGRESSORS = "squared", "absolute"


def raise_together(*checks: Callable[[], Any]) -> None:
    """Call all checks, and raise what they raised as one error, with a sentence in each line.

    Raises:
      TypeError: one check or more raised a TypeError, and no other.
      ValueError: a check raised a ValueError.
    """
    failed: list[Exception] = []
    for check in checks:
        try:
            check()
        except (TypeError, ValueError) as error:
            failed.append(error)
    if not failed:
        return
    kind = TypeError if all(isinstance(error, TypeError) for error in failed) else ValueError
    raise kind("\n".join(map(str, failed))) from None


def expect_given(name: str, value: Any, example: str) -> None:
    """Raise a TypeError for None, with what to type."""
    if value is None:
        raise TypeError(f"{name} must be given: type {example}")


def advice(name: str, value: Any) -> str:
    """What to type in place of an argument of scikit-learn's searches."""
    if name != "scoring":
        return ADVICE.get(name, "see help(PrivateSearchCV) for its arguments")
    loss = LOSS_OF.get(value) if isinstance(value, str) else None
    usual = "loss=, by name or as (estimator, X, y) -> losses (n,), see docs/tutorials/sklearn.md"
    spelling = usual if loss is None else f"loss={loss!r}"
    return f"a score is of all records at once, and each record needs a loss of its own: give {spelling}"


def model_advice(name: str, value: Any) -> str:
    """What to type in place of an argument of scikit-learn's models."""
    del value
    return MODEL_ADVICE.get(name, "see help(PrivateClassifier) for its arguments")


def expect_response(loss: Loss, estimator: Estimator) -> None:
    """Refuse an estimator without the method of the loss, before any budget is spent.

    Raises:
      ValueError: the estimator lacks the method, and names usable losses; or a score of classes of no classifier.
    """
    if isinstance(loss, str) and LOSSES[loss].beside is not None and not is_classifier(estimator):
        raise ValueError(f"loss={loss!r} needs a classifier, got {type(estimator).__name__}")
    if not isinstance(loss, str) or _responds(estimator, LOSSES[loss].responses):
        return
    suited = CLASSIFIERS if is_classifier(estimator) else REGRESSORS if is_regressor(estimator) else tuple(LOSSES)
    needed = " or ".join(LOSSES[loss].responses)
    able = [f"loss={name!r}" for name in suited if _responds(estimator, LOSSES[name].responses)]
    raise ValueError(
        f"loss={loss!r} needs {needed}, which {type(estimator).__name__} lacks with these parameters: "
        f"give {' or '.join(able) or 'a loss of your own'}"
    )


def _responds(estimator: Any, responses: tuple[str, ...]) -> bool:
    """True if an estimator, fitted or not, has one of the methods."""
    while hasattr(estimator, "steps"):  # a pipeline
        estimator = estimator.steps[-1][1]
    made_by_fit = getattr(estimator, "final_estimator", estimator) is None  # the default of a stack
    return made_by_fit or any(hasattr(estimator, name) for name in responses)
