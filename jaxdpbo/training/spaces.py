"""Hyper-parameters of DP-SGD and DP-Adam searched by Avent et al. (2020), and their random settings.

A setting is ``(epochs, batch, learning rate, noise multiplier, clip norm)``, the first two whole numbers. Table 1 calls
the fourth a noise variance; in the paper's code, and here, it is the multiplier ``z``. Random settings follow tables 3
and 4, as implemented in that code: drawn again where they leave their range, then rounded; their learning rates have
another range than the search's.
"""

from typing import NamedTuple

import numpy as np

from jaxdpbo import checks

HYPER_PARAMETERS = ("epochs", "batch", "learning_rate", "noise_multiplier", "clip_norm")
INTEGER_MASK = (True, True, False, False, False)


class Ranges(NamedTuple):
    """Ranges ``bounds (2, 5)`` of the search, ``sampled (2, 5)`` of random settings, and their distributions.

    >>> import numpy as np
    >>> from jaxdpbo import training
    >>> bounds = np.array([[1, 8, 5e-4, 0.1, 0.1], [64, 512, 5e-2, 16, 4]])
    >>> training.Ranges(bounds, bounds, (128, 64), (10, 0.1, 0.1)).bounds.shape
    (2, 5)

    Attributes:
      bounds: Table 1.
      sampled: Tables 3 and 4; a grid covers this range too.
      batch: mean and standard deviation of a normal batch.
      rates: of the exponential learning rate, noise multiplier and clip norm, each starting at its least value.
    """

    bounds: np.ndarray
    sampled: np.ndarray
    batch: tuple[float, float]
    rates: tuple[float, float, float]


SPACES = {
    "adult": Ranges(
        np.array([[1, 8, 5e-4, 0.1, 0.1], [64, 512, 5e-2, 16, 4]]),
        np.array([[1, 8, 1e-3, 0.1, 0.1], [64, 512, 0.1, 16, 4]]),
        (128, 64),
        (10, 0.1, 0.1),
    ),
    "mnist": Ranges(
        np.array([[1, 16, 1e-3, 0.1, 0.1], [400, 4000, 0.5, 16, 12]]),
        np.array([[1, 16, 1e-3, 0.1, 0.1], [400, 4000, 0.5, 16, 12]]),
        (800, 800),
        (10, 0.5, 0.5),
    ),
}


def random_settings(space: Ranges, count: int, seed: int) -> np.ndarray:
    """Draw ``(count, 5)`` independent settings.

    >>> import numpy as np
    >>> from jaxdpbo import training
    >>> bounds = np.array([[1, 8, 5e-4, 0.1, 0.1], [64, 512, 5e-2, 16, 4]])
    >>> training.random_settings(training.Ranges(bounds, bounds, (128, 64), (10, 0.1, 0.1)), 3, seed=0).shape
    (3, 5)
    """
    count, rng = checks.size("count", count), np.random.default_rng(checks.size("seed", seed, minimum=0))
    low, high = space.sampled

    def clip(draw, column):
        values = np.empty(0)
        while len(values) < count:
            draws = draw(2 * count)
            values = np.append(values, draws[(draws >= low[column]) & (draws <= high[column])])
        return values[:count]

    columns = [
        clip(lambda size: rng.uniform(low[0], high[0], size), 0),
        clip(lambda size: rng.normal(*space.batch, size), 1),
        *(
            clip(lambda size, c=column, r=rate: low[c] + rng.exponential(1 / r, size), column)
            for column, rate in zip((2, 3, 4), space.rates, strict=True)
        ),
    ]
    settings = np.stack(columns, axis=1)
    settings[:, INTEGER_MASK] = np.round(settings[:, INTEGER_MASK])
    return settings


def grid_settings(space: Ranges, size: int) -> np.ndarray:
    """Make ``(size^5, 5)`` settings: all combinations of ``size`` equally spaced values; whole numbers rounded."""
    size = checks.size("size", size)
    axes = [np.linspace(low, high, size) for low, high in space.sampled.T]
    settings = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    settings[:, INTEGER_MASK] = np.round(settings[:, INTEGER_MASK])
    return settings
