"""Fronts by brute force: every pair compared, every cell of the grid that the coordinates make counted."""

import itertools

import numpy as np


def dominated(point, others) -> bool:
    """Whether any of ``others`` is as small everywhere and smaller somewhere."""
    return any(
        all(a <= b for a, b in zip(o, point, strict=True)) and any(a < b for a, b in zip(o, point, strict=True))
        for o in others
    )


def hypervolume(values, reference) -> float:
    """The volume of the union of the boxes between each value and the reference."""
    values = np.array([v for v in np.reshape(values, (-1, len(reference))) if np.all(v < reference)])
    if not len(values):
        return 0.0
    axes = [np.unique(np.append(values[:, k], reference[k])) for k in range(len(reference))]
    total = 0.0
    for cell in itertools.product(*(range(len(axis) - 1) for axis in axes)):
        low = np.array([axis[i] for axis, i in zip(axes, cell, strict=True)])
        if np.any(np.all(values <= low, axis=1)):
            total += float(np.prod([axis[i + 1] - axis[i] for axis, i in zip(axes, cell, strict=True)]))
    return total
