"""Code shared by the trainings of other libraries: rows, losses, and seeds for another library's generator."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import checks, silence
from jaxdpbo.guarantee import assumptions
from jaxdpbo.tuning import labels as _labels
from jaxdpbo.tuning import measured_error

LOSSES = ("cross_entropy", "squared")
MAX_FEATURE = 1e3  # and largest label of a regression, so that no square of a gradient overflows
DRAWS = assumptions.IDEAL_NOISE, assumptions.POISSON_BATCHES, assumptions.FOREIGN_DRAWS
ONE_STEP = {"learning_rate": 1.0, "batch": 2, "epochs": 1, "clip_norm": 1.0}  # of DP-SGD on two rows
Rows = tuple[Any, Any]
MODEL, OPTIMIZER = "model", "optimizer"  # of a setting, by name
Choice = Mapping[str, Callable[..., Any]] | None


class Examples(NamedTuple):
    """Rows of finite numbers: features ``(n, ...)``, targets ``(n,)``, and 0 for a row without a label, ``(n,)``."""

    features: np.ndarray
    targets: np.ndarray
    mask: np.ndarray


def check_choices(name: str, models: Any, optimizers: Choice) -> None:
    """Check what a setting chooses by name: dicts of functions, or one function for all settings.

    Args:
      name: of the argument of the models.
      models: a function, or a dict of them.
      optimizers: a dict of functions, or None.

    Raises:
      TypeError: neither a function nor a dict of functions by text.
      ValueError: an empty dict.
    """
    for what, given in ((name, models), ("optimizers", optimizers)):
        if given is None or (callable(given) and what == name):
            continue
        if not isinstance(given, Mapping) or not all(
            isinstance(label, str) and callable(of) for label, of in given.items()
        ):
            raise TypeError(f"{what} must be a dict of functions by names, got {type(given).__name__}")
        if not given:
            raise ValueError(f"{what} must have at least one name")


def choices(models: Any, optimizers: Choice) -> tuple[str, ...]:
    """What a setting must have beside the numbers of DP-SGD."""
    return (MODEL,) * isinstance(models, Mapping) + (OPTIMIZER,) * (optimizers is not None)


def all_choices(models: Any, optimizers: Choice) -> list[dict[str, str]]:
    """All pairs of a model and an optimizer, as parts of a setting."""
    of_models = [{MODEL: name} for name in models] if isinstance(models, Mapping) else [{}]
    of_optimizers = [{}] if optimizers is None else [{OPTIMIZER: name} for name in optimizers]
    return [one | other for one in of_models for other in of_optimizers]


def chosen(given: Any, name: str, setting: Mapping[str, Any], default: Any = None) -> Any:
    """The function that a setting names; the only one, or the default, where there is no choice.

    Raises:
      ValueError: another name.
    """
    if not isinstance(given, Mapping):
        return default if given is None else given
    return given[checks.one_of(name, setting[name], tuple(given))]


def finite_examples(rows: Rows, classes: _labels.Classes | None, *, regression: bool) -> Examples:
    """Make every row finite by itself; the mask is 0 for a row without a known label.

    NaN and infinite features become 0, and all numbers are clipped to [-1000, 1000]. Targets are positions in
    ``classes``, or the labels of a regression.
    """
    features = np.clip(np.nan_to_num(rows[0], nan=0.0, posinf=0.0, neginf=0.0), -MAX_FEATURE, MAX_FEATURE).astype(
        np.float32
    )
    if regression:
        with np.errstate(over="ignore"):
            labels = np.asarray(rows[1]).astype(np.float32)
        has_target = np.isfinite(labels)
        targets = np.clip(np.where(has_target, labels, 0), -MAX_FEATURE, MAX_FEATURE)
        return Examples(features, targets.astype(np.float32), has_target.astype(np.float32))
    numbers = _labels.class_numbers(rows[1], classes)
    return Examples(features, np.maximum(numbers, 0), (numbers >= 0).astype(np.float32))


def row_losses(scores: Any, examples: Examples, *, regression: bool) -> np.ndarray:
    """Return 1 where a class is wrong or unknown, 0 elsewhere; for a regression squared errors, 1/4 without a target.

    No error is above 1, that of a score that is not finite.

    Args:
      scores: ``(n,)`` or ``(n, k)``: if there is one score, a positive score predicts the second class.
      examples: the rows.
      regression: the scores are predicted labels.
    """
    scores = np.asarray(scores, float).reshape(len(examples.targets), -1)
    if regression:
        errors = np.minimum(np.square(scores[:, 0] - examples.targets), 1.0)
        errors = np.where(examples.mask > 0, errors, measured_error.MIDDLE_ERROR)
        return np.where(np.isfinite(scores[:, 0]), errors, 1.0)
    predicted = np.argmax(scores, axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
    errors = np.asarray(predicted != examples.targets, float)
    return np.where((examples.mask > 0) & np.all(np.isfinite(scores), axis=1), errors, 1.0)


def expect_rows(rows: Rows, shape: tuple[int, ...], classes: _labels.Classes | None, *, regression: bool) -> None:
    """Check dtypes and shapes of rows, which are public, against the shape of the scores of one row.

    Raises:
      ValueError: a wrong dtype or shape.
    """
    features, labels = rows
    count = math.prod(shape)
    if len(shape) > 1 or (regression and count != 1):
        raise ValueError(f"the model must return {'one number' if regression else 'one score a class'}, got {shape}")
    if features.dtype.kind != "f":
        raise ValueError(f"features must be floats, got {features.dtype}")
    if not regression:
        count = max(2, count)
        _labels.expect_label_dtype(labels, None if classes is None else _labels.check_classes(classes, count), count)
    elif labels.ndim != 1 or labels.dtype.kind != "f":
        raise ValueError(f"labels must be floats of shape (n,), got {labels.dtype} {labels.shape}")


@contextlib.contextmanager
def dry_run(demand: str) -> Iterator[None]:
    """Run another library on zeros, before anything is charged: an error is public, and global generators stay.

    Raises:
      ValueError: the code inside raised, so it could not train; the message begins with ``demand``.
    """
    with silence.isolate():
        try:
            yield
        except Exception as error:
            raise ValueError(f"{demand}; on rows of zeros it raised {type(error).__name__}: {error}") from error


def try_one_step(training: Any, setting: dict[str, Any], rows: Rows, classes: _labels.Classes | None) -> None:
    """Train a model on two rows of zeros, as a training trains on ``rows``, and score it. Call it in ``dry_run``."""
    features, labels = rows
    label = classes[0] if classes else 0
    zeros = np.zeros((2, *features.shape[1:]), features.dtype), np.full(2, label, labels.dtype)
    training.losses(training.fit(setting, 1.0, zeros, jax.random.key(0)), zeros)


def poisson_event(noise: float, rate: float, steps: int) -> Any:
    """Describe steps of DP-SGD with Poisson batches to dp-accounting; the noise is over the clipping norm."""
    events = checks.extra("dp_accounting", "accounting", "the cost of a training by another library")
    step = events.PoissonSampledDpEvent(rate, events.GaussianDpEvent(noise))
    return events.SelfComposedDpEvent(step, steps)


def seed_words(key: jax.Array, count: int) -> list[int]:
    """Numbers of 32 bits from a key of JAX, to seed the generator of another library."""
    return [int(word) for word in np.asarray(jax.random.bits(key, (count,), "uint32"))]
