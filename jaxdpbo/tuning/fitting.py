"""Code shared by the searches that train: arguments, calibrated noise, a training and its score."""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import accounting, cells, checks, silence, user_values
from jaxdpbo import notes as _notes
from jaxdpbo.accounting import requested_budget, stage
from jaxdpbo.drivers.release_notes import error_notes
from jaxdpbo.guarantee import assumptions, recording
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import calibration, private_mean
from jaxdpbo.report import records as reports
from jaxdpbo.tuning import measured_error, selection
from jaxdpbo.tuning import training as trainings
from jaxdpbo.tuning.training import Rows, Setting, Training

TRAIN, VALIDATION = "training rows", "validation rows"
HELD_OUT = 0.2  # of the rows, where no validation rows are given
NOISE = "exact"
LARGEST = 50.0  # of epsilon
DRAWS = 1e-20  # more than the total variation of a search's noise, or of a score's
LEAST_SHARE = 0.02  # least share of epsilon for one training
LEAST_ROWS = 10
SHRUNK = 0.985  # factor on the cost of a training, until the total fits


class TuningResult(NamedTuple):
    """Everything you may publish.

    Attributes:
      model: of the private training.
      setting: of the training.
      noise: of the training, by its own measure.
      guarantees: a guarantee for each set of rows.
      error: mean loss of the model on validation rows that took no part in the choice, noised once: without bias.
      error_deviation: the standard deviation of the noise of ``error``.
      interval: holds the error on new rows with a probability of 95 %, over the noise and the draw of the rows.
    """

    model: Any
    setting: Setting
    noise: float
    guarantees: tuple[_guarantee.Guarantee, ...]
    error: float = np.nan
    error_deviation: float = np.nan
    interval: tuple[float, float] = (0.0, 1.0)

    @property
    def notes(self) -> _notes.Notes:
        """That the noise hides the error, see ``jaxdpbo.notes``."""
        return error_notes(self.error, self.error_deviation)

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the record of the model, to sign; see ``Run.report``."""
        details = {"setting": self.setting, "noise": self.noise, "noised error on validation rows": self.error}
        details["standard deviation of the error's noise"] = self.error_deviation
        release = tuple(self._replace(guarantees=()))
        made = reports.report(
            "a private model, tuned and trained", self.guarantees, release=release, details=details, notes=self.notes
        )
        return made if path is None else made.save(path)

    def __repr__(self) -> str:
        """Show the guarantees, the notes and what was chosen, without the model."""
        chosen = f"setting: {self.setting}", f"error: {self.error}, noised"
        return "\n".join([*map(str, self.guarantees), *_notes.lines(self.notes), *chosen])

    def _repr_html_(self) -> str:
        """The record, for notebooks."""
        return self.report()._repr_html_()


class TuningArguments(NamedTuple):
    """Checked arguments; ``epsilon`` is the largest of all rows, and ``delta`` is for ideal noise."""

    training: Training
    settings: tuple[Setting, ...]
    epsilon: float
    delta: float
    ledgers: Mapping[str, recording.Recording] | None
    key: jax.Array | None
    insecure_key: bool
    on_error: str


def check_rows(training: Training, rows: Any, validation: Any) -> tuple[Rows, Rows | None]:
    """Check training and validation rows, before anything is charged.

    Raises:
      ValueError: rows of a shape not supported by the training, or the same rows in both roles.
      TypeError: not arrays.
    """
    rows, validation = _of_torch("rows", rows), _of_torch("validation", validation)
    validation = _order_columns(rows, validation)
    checked = _check_arrays("rows", rows, training)
    if validation is None:
        return checked, None
    checked_validation = _check_arrays("validation", validation, training)
    shared = any(np.shares_memory(*pair) for pair in itertools.product(checked, checked_validation))
    if shared or any(one is other for one, other in itertools.product(rows, validation)):  # converted, both are copies
        raise ValueError("validation must not share memory with rows: pass rows that do not train")
    return checked, checked_validation


def expect_small_delta(delta: float, rows: Rows, validation: Rows | None) -> None:
    """Refuse a ``delta`` of one over the number of rows, of those that train or of those that validate, or more."""
    requested_budget.expect_small_delta(delta, max(len(part[1]) for part in (rows, validation) if part is not None))


def _of_torch(name: str, rows: Any) -> Any:
    """The tensors of a ``TensorDataset``, or of a loader of one: each row once, in the order of the dataset."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(rows, (tuple, list)):
        return rows
    data: Any = torch.utils.data
    if isinstance(rows, data.DataLoader):
        rows = rows.dataset
    if isinstance(rows, data.TensorDataset):
        return rows.tensors
    if isinstance(rows, data.Dataset):
        raise TypeError(f"{name} must be (features, labels) or a TensorDataset: pass opacus.stack(dataset)")
    return rows


def _order_columns(rows: Any, validation: Any) -> Any:
    """Bring the columns of validation rows into the order of the training rows, if both are frames with names.

    Raises:
      ValueError: the names differ, or one is there twice; names are public.
    """
    parts = rows, validation
    if not all(isinstance(part, (tuple, list)) and len(part) == 2 for part in parts):
        return validation
    ours, theirs = (list(getattr(features, "columns", ())) for features, _ in parts)
    if not ours or not theirs or ours == theirs:
        return validation
    if len(set(ours)) < len(ours) or len(theirs) != len(ours) or {*ours} != {*theirs}:
        raise ValueError(f"validation must have the columns of rows, each once: {ours!r}, got {theirs!r}")
    return validation[0][ours], validation[1]


def row_assumptions(training: Training) -> tuple[str, ...]:
    """What a guarantee of rows assumes: of the rows as they were passed, and of the training."""
    return assumptions.OWN_ROWS, assumptions.ONE_ROW, *training.assumptions()


def _check_arrays(name: str, rows: Any, training: Training) -> Rows:
    """Check two arrays of numbers, for any elements of object arrays."""
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise TypeError(f"{name} must be (features, labels), got {type(rows).__name__}")
    rows = tuple(leaf if isinstance(leaf, (np.ndarray, jax.Array)) else _to_array(name, leaf) for leaf in rows)
    features, labels = map(np.asarray, user_values.to_data(rows))
    if not {features.dtype.kind, labels.dtype.kind} <= set("fiub"):
        raise TypeError(f"{name} must be two arrays of real numbers")
    if features.ndim < 1 or features.shape[:1] != labels.shape[:1] or len(labels) < LEAST_ROWS:
        raise ValueError(
            f"{name} must be {LEAST_ROWS} or more features and as many labels, got {features.shape}, {labels.shape}"
        )
    training.expect((features, labels))
    return features, labels


def _to_array(name: str, leaf: Any) -> np.ndarray:
    """Convert a data frame, a column or a tensor. Columns of a frame become float64: a cell may have chosen a dtype."""
    if not hasattr(leaf, "__array__"):  # in a list, an odd label would change the dtype
        raise TypeError(f"{name} must be two arrays, tensors or data frames of numbers")
    if hasattr(leaf, "columns"):
        return cells.frame_numbers(leaf)
    return cells.real_numbers(leaf) if hasattr(leaf, "to_numpy") else np.asarray(leaf)


def ideal_delta(arguments: TuningArguments, times: float, records: int, once: float = 0.0) -> float:
    """Remaining ``delta`` for ideal noise, after the total variation of exact noise, and of what is drawn ``once``."""
    variation = max(arguments.training.total_variation(setting, records) for setting in arguments.settings) + DRAWS
    if arguments.epsilon > LARGEST:
        raise ValueError(f"epsilon must be at most {LARGEST:g}, got {arguments.epsilon:g}")
    left = arguments.delta - (1 + np.exp(arguments.epsilon)) * (times * variation + once)
    if not left > arguments.delta / 2:
        raise ValueError(
            f"delta must be larger, or epsilon smaller: exact noise alone takes {arguments.delta - left:g}"
        )
    return float(left)


def split_rows(rows: Rows, validation: Rows | None) -> tuple[Rows, Rows]:
    """Split into rows to train on and rows to score on: as given, or by a public permutation of row numbers.

    Both are read-only: a training that changed its rows would change those of the next run.
    """
    if validation is not None:
        return _read_only(rows), _read_only(validation)
    held, kept = held_out_rows(len(rows[1]))
    (train_x, train_y), (held_x, held_y) = (tuple(leaf[part] for leaf in rows) for part in (kept, held))
    return _read_only((train_x, train_y)), _read_only((held_x, held_y))


def count_held_out(count: int) -> int:
    """The number of rows, or people, to hold out."""
    return round(HELD_OUT * count)


def held_out_rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to hold out, a fifth, and of the others, by a public permutation."""
    order, cut = np.random.default_rng(0).permutation(count), count_held_out(count)
    return order[:cut], order[cut:]


def halve(rows: Rows) -> tuple[Rows, Rows]:
    """Rows to choose by, and rows to measure the choice on: neither half sees what the other is used for."""
    features, labels = rows
    return (features[::2], labels[::2]), (features[1::2], labels[1::2])


def _read_only(rows: Rows) -> Rows:
    features, labels = (leaf.view() for leaf in rows)
    features.flags.writeable = labels.flags.writeable = False
    return features, labels


def release_score(training: Training, model: Any, rows: Rows, noise: calibration.SumNoise, key: jax.Array) -> float:
    """Noised mean loss on ``rows``, a release of the budget of ``noise``.

    Raises:
      ValueError: the training returns losses of another shape.
    """
    returned = training.losses(model, rows)
    lost = user_values.to_losses("losses", returned, (noise.users,), jnp.result_type(float))
    return float(_noisy_mean(key, noise, jnp.asarray(lost)))


def release_score_silently(
    arguments: TuningArguments, model: Any, rows: Rows, noise: calibration.SumNoise, key: jax.Array
) -> float:
    """Compute ``release_score`` silently; inf for a failed model."""
    with silence.isolate():
        try:
            return np.inf if model is None else release_score(arguments.training, model, rows, noise, key)
        except silence.STOPS:
            raise
        except BaseException:
            if arguments.on_error == "raise":
                raise
            return np.inf


def measure_unseen(
    arguments: TuningArguments, model: Any, rows: Rows, guarantee: _guarantee.Guarantee, key: jax.Array
) -> tuple[float, float, tuple[float, float]]:
    """Measure the error of a chosen model on rows that took no part in the choice, with all that ``guarantee`` allows.

    Formal guarantee: within ``guarantee``, an (epsilon, delta) of the rows that scored: these are other rows.

    Returns:
      The noised error, the standard deviation of its noise, and its ``measured_error.interval``.
    """
    mu = requested_budget.requested_mu(epsilon=guarantee.level, delta=guarantee.delta)
    users, dtype = len(rows[1]), jnp.result_type(float)
    noise = calibration.sum_noise(checks.round_down(mu, dtype), NOISE, users=users, steps=1, dimension=1, dtype=dtype)
    error = release_score_silently(arguments, model, rows, noise, key)
    deviation = private_mean.loss_deviation(noise, 0.0, 1.0)
    return error, deviation, measured_error.interval(error, deviation, users)


def fit_silently(
    arguments: TuningArguments, setting: Setting, noise: float, rows: Rows, key: jax.Array, of_globals: jax.Array
) -> Any:
    """Train a model silently; None if the training fails: an exception may quote rows."""
    with silence.isolate():
        try:
            selection.seed_globals(of_globals)
            return selection.own_output(arguments.training.fit(deepcopy(setting), noise, rows, key))
        except silence.STOPS:
            raise
        except BaseException:
            if arguments.on_error == "raise":
                raise
            return None


@lru_cache(maxsize=256)  # public numbers, equal for all folds and repetitions of a caller
def largest_mu(repetitions: accounting.Repetitions, epsilon: float, delta: float) -> float:
    """Largest GDP level of one run that keeps the selection within ``(epsilon, delta)``."""
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        fits = accounting.selection_epsilon(repetitions, partial(accounting.gdp_delta, middle), delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def noises(arguments: TuningArguments, records: int, epsilon: float, delta: float) -> list[float]:
    """Noise of each setting at which one training costs ``(epsilon, delta)``."""
    return [trainings.noise_for(arguments.training, setting, records, epsilon, delta) for setting in arguments.settings]


def costs(arguments: TuningArguments, noises: Sequence[float], records: int) -> list[stage.Stage]:
    """Cost of one training with each setting."""
    return [
        arguments.training.cost(setting, noise, records)
        for setting, noise in zip(arguments.settings, noises, strict=True)
    ]


def worst_stage(what: str, costs: Sequence[stage.Stage]) -> stage.Stage:
    """Cost of a training with a drawn setting, or a setting chosen from releases: a curve above all costs."""
    return stage.curve_stage(accounting.worst_profile([cost.profile for cost in costs]), what)


def calibrate(
    arguments: TuningArguments,
    records: int,
    epsilon: float,
    delta: float,
    of_all: Callable[[Sequence[stage.Stage]], float],
) -> tuple[list[float], list[stage.Stage]]:
    """Calibrate the noise of each setting: equal cost a training, ``of_all`` within the requested epsilon; no data."""
    while True:
        noise_levels = noises(arguments, records, epsilon, delta)
        of_each = costs(arguments, noise_levels, records)
        if of_all(of_each) <= arguments.epsilon:
            return noise_levels, of_each
        epsilon *= SHRUNK
        if epsilon < LEAST_SHARE * arguments.epsilon:
            raise ValueError(f"delta must be smaller for epsilon = {arguments.epsilon:g}, got {arguments.delta:g}")


@jax.jit
def _noisy_mean(key: jax.Array, noise: calibration.SumNoise, losses: jax.Array) -> jax.Array:
    zero = jnp.zeros((), losses.dtype)
    return private_mean.noisy_mean_loss(key, noise, losses[None], zero, zero + 1)[0]
