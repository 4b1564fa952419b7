"""Whether a loss of many rows mixes them, by trying it on public rows: the losses of others must stay as they are."""

from collections.abc import Callable

import numpy as np

TOLERANCE = 1e-6  # of the largest loss: libraries round a product of matrices differently for other values


def mixes_rows(measure: Callable[[np.ndarray], np.ndarray], rows: int) -> bool:
    """True if a row in the place of another changes the loss of a third. Random losses are not compared.

    >>> import numpy as np
    >>> from jaxdpbo.separable import replaced_rows
    >>> numbers = np.array([3.0, 1.0, 2.0])
    >>> replaced_rows.mixes_rows(lambda order: numbers[order] ** 2, 3)
    False
    >>> replaced_rows.mixes_rows(lambda order: numbers[order] - numbers[order].mean(), 3)
    True

    Args:
      measure: the losses ``(rows,)`` of the public rows with these numbers.
      rows: the number of rows.
    """
    usual = np.arange(rows)
    before = measure(usual)
    if not _are_equal(before, measure(usual)):
        return False
    middle = rows // 2
    for replaced, taken in ((0, rows - 1), (rows - 1, 0), (middle, 0), (0, middle)):
        order = usual.copy()
        order[replaced] = taken
        others = np.delete(usual, replaced)
        if not _are_equal(before[others], measure(order)[others]):
            return True
    return False


def _are_equal(left: np.ndarray, right: np.ndarray) -> bool:
    sizes = np.abs(left[np.isfinite(left)])
    return np.allclose(left, right, rtol=0, atol=TOLERANCE * np.max(sizes, initial=0.0), equal_nan=True)
