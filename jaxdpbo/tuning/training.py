"""Trainings for ``tune_and_train``: private trainings with known costs. DP-SGD and DP-Adam of this package."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from jaxdpbo import checks
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.training import dp_optim, integer_sums, models
from jaxdpbo.tuning import labels as _labels
from jaxdpbo.tuning import measured_error

HYPER_PARAMETERS = ("learning_rate", "batch", "epochs", "clip_norm")
LARGEST_NOISE, LEAST_NOISE = 1e4, 0.05
PRECISION = 1e-6  # of the noise, relative
FACTOR = math.log(4.0)
MOST = 1e3  # cap on epsilon in the root search: epsilon may be inf
Setting = dict[str, Any]
Rows = tuple[Any, Any]


class Training(Protocol):
    """Training of any library; rows are in the format of the library, with a leading axis."""

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Cost of one training with this setting and this noise to each of its ``records`` training rows."""
        ...

    def total_variation(self, setting: Setting, records: int) -> float:
        """Bound on the total variation between a training and one with ideal noise."""
        ...

    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the cost, by name."""
        ...

    def expect(self, rows: Rows) -> None:
        """Raise if the training cannot take these shapes or dtypes, which are public: before anything is charged."""
        ...

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> Any:
        """Train a model, with all randomness from ``key``, or from NumPy's and Python's generators, seeded with it."""
        ...

    def losses(self, model: Any, rows: Rows) -> Any:
        """Compute the loss of each row, ``(n,)``, in [0, 1]."""
        ...


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD, or DP-Adam, of ``jaxdpbo.training``.

    Settings have a ``learning_rate``, a ``batch``, ``epochs`` and a ``clip_norm``. Rows are ``(features (n, d), labels
    (n,))``; a row's loss is 1 if classified wrongly, otherwise 0; for a regression its squared error, at most 1, and
    1/4 without a target: scale targets to some [0, 1] by a public factor.

    Labels are booleans, or whole numbers listed in ``classes``, in the order of the model's scores: of two classes a
    positive score means the second. ``classes`` is public, so write it down; do not read it off the labels. A label not
    among the classes has a zero gradient and a loss of 1, without an error, since labels are private.

    >>> from jaxdpbo import training, tuning
    >>> training = tuning.DPSGD(training.logistic_regression(5), classes=(0, 1))
    >>> setting = {"learning_rate": 0.5, "batch": 64, "epochs": 10, "clip_norm": 1.0}
    >>> round(training.cost(setting, 2.0, 5000).epsilon(1e-5), 1)
    0.8

    Attributes:
      model: of ``training.Model``.
      optimizer: "sgd" or "adam".
      noise: "exact", or "float" for research.
      classes: the labels of the model's classes, different whole numbers such as ``(1, 2)``; required unless labels are
        booleans; not for a regression.
    """

    model: models.Model
    optimizer: str = "sgd"
    noise: str = "exact"
    classes: Sequence[int] | None = None

    def __post_init__(self):
        """Raise ValueError for an unknown optimizer or noise, or for ``classes`` that do not match the model."""
        checks.one_of("optimizer", self.optimizer, tuple(dp_optim.OPTIMIZERS))
        checks.one_of("noise", self.noise, dp_optim.NOISES)
        if self.classes is not None:
            object.__setattr__(self, "classes", self._checked_classes(self.classes))

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Cost of one training with batches of fixed size, replace-one: ``accounting.sampled_gaussian_epsilon``."""
        steps, batch = check_setting(setting, records)
        return stage.sampled_gaussian_stage(
            rate=batch / records, noise_multiplier=noise, steps=steps, description="the training"
        )

    def total_variation(self, setting: Setting, records: int) -> float:
        """Total variation of exact noise; 0 for noise in floats, which is only assumed to be ideal."""
        return (
            dp_optim.total_variation(self.model, check_setting(setting, records)[0]) if self.noise == "exact" else 0.0
        )

    def assumptions(self) -> tuple[str, ...]:
        """Ideal noise, for noise in floats; none for exact noise."""
        return () if self.noise == "exact" else (_assumptions.IDEAL_NOISE,)

    def expect(self, rows: Rows) -> None:
        """Check features (as wide as the model, float32 or float64) and labels (numbers; for a regression floats).

        Raises:
          ValueError: a wrong shape or dtype, ``classes`` missing for numbers, or a model too large for exact noise.
        """
        if self.noise == "exact":
            integer_sums.expect(self.model)
        features, labels = rows
        width = self.model.sizes[0]
        if features.shape[1:] != (width,) or features.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"features must be floats of 32 or 64 bits and shape (n, {width}), got {features.dtype} "
                f"{features.shape}"
            )
        if not self._regresses:
            classes = None if self.classes is None else self._classes
            _labels.expect_label_dtype(labels, classes, self._count)
        elif labels.ndim != 1 or labels.dtype.kind != "f":
            raise ValueError(f"labels must be floats of shape (n,), got {labels.dtype} {labels.shape}")

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> models.Params:
        """Train, and return the parameters after all steps."""
        steps, batch = check_setting(setting, len(rows[1]))
        examples, numbers = models.examples(*self._examples(rows)), _numbers(setting, steps, batch, noise)
        room = _room(batch)
        options = {"largest": room, "smallest": room, "optimizer": self.optimizer, "noise": self.noise}
        return _train(key, self.model, examples, numbers, **options)

    def losses(self, model: models.Params, rows: Rows) -> np.ndarray:
        """Return 1 where a row is classified wrongly; for a regression squared errors, at most 1, 1/4 for no target."""
        return np.asarray(_losses(self.model, model, rows[0], self._targets(rows[1])), float)

    @property
    def _regresses(self) -> bool:
        return self.model.loss == models.SQUARED

    @property
    def _count(self) -> int:
        """Number of classes."""
        return max(2, self.model.sizes[-1])

    def _checked_classes(self, classes: Any) -> _labels.Classes:
        if self._regresses:
            raise ValueError(f"classes must not be given for a regression, got {classes!r}")
        return _labels.check_classes(classes, self._count)

    def _targets(self, labels: Any) -> np.ndarray:
        """Class numbers, -1 for an unknown label; for a regression the labels themselves."""
        return np.asarray(labels) if self._regresses else _labels.class_numbers(labels, self._classes)

    @property
    def _classes(self) -> _labels.Classes:
        return tuple(self.classes or range(self._count))

    def _examples(self, rows: Rows) -> tuple[jax.Array, jax.Array]:
        """Features and targets; a row with an unknown label gets NaN features, and so a zero gradient."""
        features, targets = jnp.asarray(rows[0]), jnp.asarray(self._targets(rows[1]))
        if self._regresses:
            return features, targets
        return jnp.where((targets < 0)[..., None], jnp.nan, features), jnp.maximum(targets, 0)


def check_setting(setting: Setting, records: int, *choices: str) -> tuple[int, int]:
    """Check a setting of DP-SGD, with these ``choices``, and return its numbers of steps and of rows in a batch."""
    names = *HYPER_PARAMETERS, *choices
    if set(setting) != set(names):
        raise ValueError(f"settings must have {', '.join(names)}, got {', '.join(map(str, setting))}")
    for name in ("learning_rate", "clip_norm"):  # before anything is charged: a refused training counts as failed
        checks.positive(name, setting[name])
    batch = min(checks.size("batch", setting["batch"]), records)
    return dp_optim.steps_of_epochs(setting["epochs"], records, batch), batch


_train = jax.jit(dp_optim.train, static_argnames=("model", "largest", "smallest", "optimizer", "noise"))


def _room(batch: int) -> int:
    """Batch size of the compiled program: a power of two."""
    return max(dp_optim.MIN_CAPACITY, 1 << (batch - 1).bit_length())


def _numbers(setting: Setting, steps: int, batch: int, noise: float) -> dp_optim.Settings:
    return dp_optim.settings(
        steps=steps,
        batch=batch,
        learning_rate=setting["learning_rate"],
        noise_multiplier=noise,
        clip_norm=setting["clip_norm"],
    )


@partial(jax.jit, static_argnums=0)
def _losses(model: models.Model, params: models.Params, features: jax.Array, labels: jax.Array) -> jax.Array:
    scores = models.model_scores(params, features)
    if model.loss == models.SQUARED:
        errors = jnp.minimum(jnp.square(scores[:, 0] - labels.astype(scores.dtype)), 1.0)
        return jnp.where(jnp.isfinite(labels), errors, measured_error.MIDDLE_ERROR)
    predicted = jnp.argmax(scores, axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
    return (predicted.astype(jnp.int32) != labels).astype(scores.dtype)


def noise_for(training: Training, setting: Setting, records: int, epsilon: float, delta: float) -> float:
    """Least noise, rounded up, for ``(epsilon, delta)``-DP of one training; host arithmetic, no data.

    Raises:
      ValueError: no noise suffices.
    """

    def excess(logarithm: float) -> float:
        cost = training.cost(setting, math.exp(logarithm), records).epsilon(delta)
        return min(cost, MOST) - epsilon

    high = 0.0  # start in the middle: at the ends of the range an accountant may be slow
    while excess(high) > 0:
        if high > math.log(LARGEST_NOISE):
            raise ValueError(
                f"epsilon must be larger: no noise up to {LARGEST_NOISE:g} makes {setting!r} cost {epsilon:g}"
            )
        high += FACTOR
    low = high - FACTOR
    while excess(low) <= 0:
        if low < math.log(LEAST_NOISE):
            return math.exp(low)
        low, high = low - FACTOR, low
    root: Any = optimize.brentq(excess, low, high, xtol=PRECISION / 2)
    while excess(root) > 0:
        root += PRECISION / 2
    return math.exp(root)
