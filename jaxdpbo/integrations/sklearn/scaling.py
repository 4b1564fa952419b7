"""A setting that did best on blocks of rows, carried to all rows: post-processing, by numbers of rows alone."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from sklearn.linear_model import SGDClassifier

from jaxdpbo import _checks
from jaxdpbo.integrations.sklearn.type_aliases import Estimator

EXPONENTS: dict[tuple[type, str], float] = {
    (SGDClassifier, "eta0"): -0.25,
    (SGDClassifier, "alpha"): -0.75,
}


def scale(estimator: Estimator, params: Mapping[str, Any], rows_block: int, rows_all: int) -> dict[str, Any]:
    """A setting for all rows, of one that did best on blocks of them.

    ==================================  ==============================================
    parameter                           multiplied by ``rows_all / rows_block`` to the
    ==================================  ==============================================
    ``SGDClassifier``: ``eta0``         -1/4
    ``SGDClassifier``: ``alpha``        -3/4
    any other, or no number             0: it stays
    ==================================  ==============================================

    Measured by ``scripts/bench blocks``: an exponent is here where it was better than 0 on every data set. For ``C`` of
    a logistic regression and ``alpha`` of a ridge next to nothing could be gained; ``min_samples_leaf`` of trees and
    forests and ``n_neighbors`` should have grown with the rows of one data set, and not with another's.

    Formal guarantee: that of ``params``, since numbers of rows are public.

    >>> from sklearn.linear_model import SGDClassifier
    >>> from jaxdpbo.integrations.sklearn import scale
    >>> scale(SGDClassifier(), {"alpha": 0.1, "l1_ratio": 0.5}, rows_block=200, rows_all=3200)
    {'alpha': 0.0125, 'l1_ratio': 0.5}

    Args:
      estimator: whose ``params`` these are. Of a pipeline, or another that holds estimators, ``step__param``.
      params: by name.
      rows_block: that a model of a block was fitted to.
      rows_all: that the last model is fitted to.

    Raises:
      ValueError: ``rows_block`` is more than ``rows_all``, or none.
      TypeError: one of them is no whole number.
    """
    block, rows = _checks.size("rows_block", rows_block), _checks.size("rows_all", rows_all)
    if block > rows:
        raise ValueError(f"rows_block must be at most rows_all, {rows}, got {block}")
    ratio = rows / block
    exponents = {name: find_exponent(estimator, name) for name in params}
    return {
        name: value * ratio ** exponents[name] if exponents[name] and isinstance(value, Real) else value
        for name, value in params.items()
    }


def find_exponent(estimator: Estimator, name: str) -> float:
    """Of a parameter of the estimator itself or, ``step__param``, of one that it holds."""
    holder, _, own = name.rpartition("__")
    owner = estimator.get_params().get(holder) if holder else estimator
    return EXPONENTS.get((type(owner), own), 0.0)
