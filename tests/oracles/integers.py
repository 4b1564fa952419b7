"""Two words of 32 bits as Python's own integers."""

import numpy as np


def value(low, high):
    """Integers of any size, ``high 2^32 + low``, as an array of objects."""
    return np.asarray(high).astype(object) * 2**32 + np.asarray(low).astype(object)
