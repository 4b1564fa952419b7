"""Labels of a classification: the classes are public, and other labels raise no exception."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxdpbo import checks
from jaxdpbo.types import Unchecked

BOOLEAN = "b"  # a kind of dtypes
Classes = tuple[int, ...]


def check_classes(classes: Unchecked, count: int | None = None) -> Classes:
    """Check that ``classes`` are different whole numbers: ``count`` of them, or at least two.

    Raises:
      TypeError: not a sequence of whole numbers.
      ValueError: equal numbers, or another count.
    """
    if not isinstance(classes, (Sequence, np.ndarray)) or isinstance(classes, str):
        raise TypeError(f"classes must be a sequence of whole numbers, got {classes!r}")
    numbers = tuple(checks.size("classes", label, minimum=-checks.MAX_SIZE) for label in classes)
    if len(set(numbers)) != len(numbers) or len(numbers) < 2 or count not in (None, len(numbers)):
        raise ValueError(f"classes must be {count or 'two or more'} different numbers for this model, got {classes!r}")
    return numbers


def expect_label_dtype(labels: Any, classes: Classes | None, count: int) -> None:
    """Check that the dtype of the labels can hold every class. Only shape and dtype are read, which are public.

    Args:
      labels: an array.
      classes: None: labels are booleans.
      count: number of classes of the model.

    Raises:
      ValueError: a wrong shape or dtype, or ``classes`` missing.
    """
    dtype = labels.dtype
    if labels.ndim != 1 or dtype.kind not in "iubf":
        raise ValueError(f"labels must be numbers of shape (n,), got {dtype} {labels.shape}")
    if classes is None:
        if dtype.kind == BOOLEAN and count == 2:
            return
        raise ValueError(
            f"classes must be given for labels of {dtype}: pass DPSGD(..., classes={tuple(range(count))}) if "
            "labels are these numbers"
        )
    if dtype.kind == "f":  # also from an array of objects, if some label was not a number
        return
    low, high = (0, 1) if dtype.kind == BOOLEAN else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not all(low <= label <= high for label in classes):
        raise ValueError(f"classes must be numbers that labels of {dtype} can be, got {classes}")


def class_numbers(labels: Any, classes: Classes | None) -> np.ndarray:
    """Return the position of each label in ``classes``, by default (0, 1): ``(n,)``, -1 for other labels."""
    labels = np.asarray(labels)
    numbers = np.full(labels.shape, -1, np.int32)
    for number, label in enumerate(classes or (0, 1)):
        numbers[labels == label] = number
    return numbers
