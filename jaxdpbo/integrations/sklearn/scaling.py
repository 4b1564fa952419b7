"""Scale the best setting for blocks of rows to all rows: post-processing, by numbers of rows alone."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from sklearn.linear_model import SGDClassifier

from jaxdpbo import checks
from jaxdpbo.integrations.sklearn.type_aliases import Estimator

EXPONENTS: dict[tuple[type, str], float] = {
    (SGDClassifier, "eta0"): -0.25,
    (SGDClassifier, "alpha"): -0.75,
}


def scale(estimator: Estimator, params: Mapping[str, Any], rows_block: int, rows_all: int) -> dict[str, Any]:
    """Scale the best setting for blocks of rows to all rows.

    ==================================  ==============================================
    parameter                           multiplied by ``rows_all / rows_block`` to the
    ==================================  ==============================================
    ``SGDClassifier``: ``eta0``         -1/4
    ``SGDClassifier``: ``alpha``        -3/4
    any other, or not a number          0: unchanged
    ==================================  ==============================================

    ``scripts/bench blocks`` measured the exponents; each exponent here was better than 0 on every data set. For ``C``
    of a logistic regression and ``alpha`` of a ridge the gain was close to nothing. For ``min_samples_leaf`` of trees
    and forests and for ``n_neighbors``, data sets disagree: growth helped on some data sets only.

    Formal guarantee: the guarantee of ``params``, since numbers of rows are public.

    >>> from sklearn.linear_model import SGDClassifier
    >>> from jaxdpbo.integrations.sklearn import scale
    >>> scale(SGDClassifier(), {"alpha": 0.1, "l1_ratio": 0.5}, rows_block=200, rows_all=3200)
    {'alpha': 0.0125, 'l1_ratio': 0.5}

    Args:
      estimator: the estimator of ``params``; a pipeline, or any holder of estimators, has names ``step__param``.
      params: parameters by name.
      rows_block: the number of training rows in a block.
      rows_all: the number of training rows of the final model.

    Raises:
      ValueError: ``rows_block`` is above ``rows_all``, or below 1.
      TypeError: ``rows_block`` or ``rows_all`` is not a whole number.
    """
    block, rows = checks.size("rows_block", rows_block), checks.size("rows_all", rows_all)
    if block > rows:
        raise ValueError(f"rows_block must be at most rows_all, {rows}, got {block}")
    ratio = rows / block
    exponents = {name: find_exponent(estimator, name, params) for name in params}
    return {
        name: value * ratio ** exponents[name] if exponents[name] and isinstance(value, Real) else value
        for name, value in params.items()
    }


def find_exponent(estimator: Estimator, name: str, params: Mapping[str, Any]) -> float:
    """The exponent of a parameter of an estimator, or ``step__param`` of one that it holds, or that ``params`` set."""
    holder, _, own = name.rpartition("__")
    return EXPONENTS.get((type(_find_holder(estimator, holder, params)), own), 0.0)


def _find_holder(estimator: Estimator, holder: str, params: Mapping[str, Any]) -> Any:
    """Raises nothing: a run has been charged by then, and a chosen model may lack a parameter."""
    if not holder:
        return estimator
    if holder in params:
        return params[holder]
    outer, _, step = holder.rpartition("__")
    found = _find_holder(estimator, outer, params)
    return found.get_params().get(step) if hasattr(found, "get_params") else None
