"""What both trainings do with rows: each becomes a row of small finite numbers, by itself."""

import jax
import numpy as np

LARGEST = 1e3  # of a feature, so that no square of a gradient overflows


def expect(rows, features):
    """Shapes and dtypes are public; values are not, and raise nothing."""
    x, y = rows
    if x.shape[1:] != (features,) or x.dtype.kind != "f" or y.ndim != 1:
        raise ValueError(f"rows must be floats of shape (n, {features}) and labels (n,), got {x.shape}, {y.shape}")


def finite(rows):
    """Features clipped, 0 where they are no number; labels 0 or 1."""
    x, y = rows
    x = np.clip(np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0), -LARGEST, LARGEST)
    return x.astype(np.float32), (y > 0).astype(np.float32)


def wrong(weights, bias, rows):
    """1 for each row that a linear model classifies wrongly."""
    x, y = finite(rows)
    return np.asarray((x @ weights + bias > 0) != (y > 0), float)


def words_of(key, count):
    """Numbers of 32 bits out of a key of JAX: what another library's generator is seeded with."""
    return [int(word) for word in np.asarray(jax.random.bits(key, (count,), "uint32"))]
