"""Users' values as arrays, whatever one user's is: what it is raises nothing, warns of nothing, and moves no other's.

NumPy's own complaints and warnings would quote the values, or tell a large one from a small one; and one value decides
the type of all, so that beside an integer of 70 bits, or text, the others would be objects, or text, and beside a list
there would be no array.
"""

from collections import Counter
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from jaxdpbo.types import DTypeLike, Unchecked


def of_users(name: str, value: Unchecked, dtype: DTypeLike) -> np.ndarray:
    """Values that a function ``name`` returned; of what is no number NaN.

    Raises:
      TypeError: none is a number, or they are no array; says no more.
    """
    try:
        with np.errstate(all="ignore"):
            found = array(value)
            if found.dtype.kind in "biufV" and not found.dtype.names:
                return found.astype(dtype)
    except Exception:  # whatever an array-like says
        pass
    raise TypeError(f"{name} must return an array of real numbers")  # not above: it would be the context


def array(values: Unchecked) -> np.ndarray:
    """As NumPy has them, but that one value does not decide the type of the others, or whether there is an array."""
    try:
        found = np.asarray(values)
    except Exception:
        if not isinstance(values, (list, tuple)):
            raise
        return _one_by_one(_even(values))
    if found.dtype.kind in "OUSc" and found.ndim:
        return _one_by_one(found if found.dtype.kind == "c" else np.asarray(values, object))
    return found


def _even(values: Sequence[Any]) -> np.ndarray:
    """Objects, in the shape that most of the values have; None where one has another."""
    rows = [_objects(each) for each in values]
    ((shape, _),) = Counter(row.shape for row in rows).most_common(1)
    found = np.full((len(rows), *shape), None, object)
    for place, row in enumerate(rows):
        if row.shape == shape:
            found[place] = row[()]
    return found


def _objects(value: Any) -> np.ndarray:
    try:
        return np.asarray(value, object)
    except Exception:  # whatever it says
        return np.asarray(None, object)


def _one_by_one(values: np.ndarray) -> np.ndarray:
    """Floats, of what is no number NaN; where none is one, the values as they are."""
    found = np.array([_float(each) for each in values.flat], float).reshape(values.shape)
    return found if any(isinstance(each, Real) for each in values.flat) or np.any(~np.isnan(found)) else values


def _float(value: Any) -> float:
    try:
        if isinstance(value, Real):
            return float(value)
        number = np.asarray(value)  # of NumPy's and JAX's scalars
        if number.ndim or number.dtype.kind not in "biufcV" or number.dtype.names:
            return np.nan
        if number.dtype.kind == "c":  # a square root, say, of all: one user's was of a negative number
            whole = complex(number)
            return whole.real if whole.imag == 0 else np.nan
        return float(number.astype(float))  # bfloat16 and its like among them
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # pyright: ignore[reportOperatorIssue]
    except Exception:  # whatever it says
        return np.nan
