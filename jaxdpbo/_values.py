"""Users' values as arrays, whatever one user's is: what it is raises nothing, warns of nothing, and moves no other's.

NumPy's own complaints and warnings would quote the values, or tell a large one from a small one; and one value decides
the type of all, so that beside an integer of 70 bits, or text, the others would be objects, or text.
"""

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
            array = np.asarray(value)
            if array.dtype.kind in "OUSc" and array.ndim:
                array = one_by_one(np.asarray(value, object))
            if array.dtype.kind in "biufV" and not array.dtype.names:
                return array.astype(dtype)
    except Exception:  # whatever an array-like says
        pass
    raise TypeError(f"{name} must return an array of real numbers")  # not above: it would be the context


def one_by_one(values: np.ndarray) -> np.ndarray:
    """Floats, of what is no number NaN; where none is one, the values as they are."""
    found = np.array([_float(each) for each in values.flat], float).reshape(values.shape)
    return found if any(isinstance(each, Real) for each in values.flat) or np.any(~np.isnan(found)) else values


def _float(value: Any) -> float:
    try:
        if isinstance(value, Real):
            return float(value)
        array = np.asarray(value)  # of NumPy's and JAX's scalars
        return float(array) if array.ndim == 0 and array.dtype.kind in "biuf" else np.nan
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # pyright: ignore[reportOperatorIssue]
    except Exception:  # whatever it says
        return np.nan
