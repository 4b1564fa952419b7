"""What ``tune_and_train`` tunes: a private training that says what it costs. DP-SGD and DP-Adam of this package."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxdpbo import _checks
from jaxdpbo.privacy import guarantee
from jaxdpbo.privacy.accounting import stage
from jaxdpbo.training import dp_optim, models

HYPER_PARAMETERS = ("learning_rate", "batch", "epochs", "clip_norm")
LARGEST_NOISE, LEAST_NOISE = 1e4, 0.05
PRECISION = 1e-6  # of a noise multiplier, relative
STRIDE, FAR = 0.5, 50.0  # in logarithms: between noises that are tried, and of epsilons that are far off
Setting = dict[str, Any]
Rows = tuple[Any, Any]


class Training(Protocol):
    """A training of any library; rows are whatever it takes, with a leading axis."""

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """What one training with this setting and this noise costs each of its ``records`` training rows."""
        ...

    def total_variation(self, setting: Setting, records: int) -> float:
        """How far, at most, a training is from one with ideal noise."""
        ...

    def assumptions(self) -> tuple[str, ...]:
        """That the cost rests on, by name."""
        ...

    def expect(self, rows: Rows) -> None:
        """Raise where shapes or dtypes, which are public, are not what it takes: before anything is charged."""
        ...

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> Any:
        """A model."""
        ...

    def fit_block(self, setting: Setting, noise: float, rows: Rows, records: int, key: jax.Array) -> Any:
        """A model of a block of the rows, of which there are ``records``, as like the whole's as may be; no privacy."""
        ...

    def losses(self, model: Any, rows: Rows) -> Any:
        """The loss of each row, ``(n,)``."""
        ...


@runtime_checkable
class Reaching(Training, Protocol):
    """A training that can be told how far to go: for the route "trials"."""

    def reach(self, setting: Setting, records: int) -> float:
        """How far it goes at most, such as learning rate times steps."""
        ...

    def with_reach(self, setting: Setting, reach: float, records: int) -> Setting:
        """The setting that goes as far; it must cost the same."""
        ...


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD, or DP-Adam, of ``jaxdpbo.training``.

    Settings have a ``learning_rate``, a ``batch``, ``epochs`` and a ``clip_norm``. Rows are ``(features (n, d), labels
    (n,))``; a row's loss is 0 or 1, whether it is classified wrongly, and of a regression its squared error, at most 1:
    bring targets to some [0, 1] by a public scale.

    >>> from jaxdpbo import tuning
    >>> from jaxdpbo.training import models
    >>> training = tuning.DPSGD(models.logistic_regression(5))
    >>> setting = {"learning_rate": 0.5, "batch": 64, "epochs": 10, "clip_norm": 1.0}
    >>> round(training.cost(setting, 2.0, 5000).epsilon(1e-5), 1)
    0.8

    Attributes:
      model: of ``training.models``.
      optimizer: "sgd" or "adam".
      noise: "exact", or "float" for research.
    """

    model: models.Model
    optimizer: str = "sgd"
    noise: str = "exact"

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Batches of fixed size without replacement, replace-one: ``accounting.sampled_gaussian_epsilon``."""
        steps, batch = self._sizes(setting, records)
        return stage.sampled_gaussian(rate=batch / records, noise_multiplier=noise, steps=steps, what="the training")

    def total_variation(self, setting: Setting, records: int) -> float:
        """0 for noise in floats, which is no more than assumed to be ideal."""
        return dp_optim.total_variation(self.model, self._sizes(setting, records)[0]) if self.noise == "exact" else 0.0

    def assumptions(self) -> tuple[str, ...]:
        """That noise in floats is as ideal noise is; none of exact noise."""
        return () if self.noise == "exact" else (guarantee.IDEAL_NOISE,)

    def expect(self, rows: Rows) -> None:
        """Features as wide as the model, in floats; whole numbers for labels, of a regression floats.

        Raises:
          ValueError: they are not.
        """
        features, labels = rows
        width, kinds, said = self.model.sizes[0], *(("f", "floats") if self._regresses else ("iub", "whole numbers"))
        if features.shape[1:] != (width,) or features.dtype.kind != "f":
            raise ValueError(f"features must be floats of shape (n, {width}), got {features.dtype} {features.shape}")
        if labels.ndim != 1 or labels.dtype.kind not in kinds:
            raise ValueError(f"labels must be {said} of shape (n,), got {labels.dtype} {labels.shape}")

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> models.Params:
        """The parameters after all steps."""
        steps, batch = self._sizes(setting, len(rows[1]))
        return self._trained(setting, steps, batch, noise, rows, key, self.noise)

    def fit_block(self, setting: Setting, noise: float, rows: Rows, records: int, key: jax.Array) -> models.Params:
        """As many steps, as large a share of the rows, and as much noise on the mean gradient as in the whole."""
        steps, batch = self._sizes(setting, records)
        size = max(1, round(batch * len(rows[1]) / records))
        return self._trained(setting, steps, size, noise * size / batch, rows, key, "float")

    def losses(self, model: models.Params, rows: Rows) -> np.ndarray:
        """1 where a row is classified wrongly; of a regression squared errors, at most 1."""
        scores = np.asarray(models.scores(model, jnp.asarray(rows[0])))
        if self._regresses:
            return np.minimum(np.square(scores[:, 0].astype(float) - np.asarray(rows[1], float)), 1.0)
        found = np.argmax(scores, axis=1) if scores.ndim == 2 and scores.shape[1] > 1 else scores.reshape(-1) > 0
        return np.asarray(found != np.asarray(rows[1]), float)

    def reach(self, setting: Setting, records: int) -> float:
        """Learning rate times steps times clip norm: of SGD, no parameter moves further but for the noise."""
        return setting["learning_rate"] * self._sizes(setting, records)[0] * setting["clip_norm"]

    def with_reach(self, setting: Setting, reach: float, records: int) -> Setting:
        """By the learning rate alone, which costs nothing."""
        return setting | {"learning_rate": setting["learning_rate"] * reach / self.reach(setting, records)}

    @property
    def _regresses(self) -> bool:
        return self.model.loss == models.SQUARED

    def _sizes(self, setting: Setting, records: int) -> tuple[int, int]:
        if set(setting) != set(HYPER_PARAMETERS):
            raise ValueError(f"settings must have {', '.join(HYPER_PARAMETERS)}, got {', '.join(map(str, setting))}")
        batch = min(_checks.size("batch", setting["batch"]), records)
        return dp_optim.steps_of_epochs(setting["epochs"], records, batch), batch

    def _trained(
        self, setting: Setting, steps: int, batch: int, noise: float, rows: Rows, key: jax.Array, kind: str
    ) -> models.Params:
        numbers = dp_optim.settings(
            steps=steps,
            batch=batch,
            learning_rate=setting["learning_rate"],
            noise_multiplier=noise,
            clip_norm=setting["clip_norm"],
        )
        examples = models.examples(*map(jnp.asarray, rows))
        room = max(dp_optim.MIN_CAPACITY, 1 << (batch - 1).bit_length())  # a program for each power of two that is used
        options = {"largest": room, "smallest": room, "optimizer": self.optimizer, "noise": kind}
        return _train(key, self.model, examples, numbers, **options)


_train = jax.jit(dp_optim.train, static_argnames=("model", "largest", "smallest", "optimizer", "noise"))


def noise_for(training: Training, setting: Setting, records: int, epsilon: float, delta: float) -> float:
    """The least noise, rounded up, with which one training is ``(epsilon, delta)``-DP; host arithmetic, no data.

    Raises:
      ValueError: no noise suffices.
    """
    asked = math.log(max(epsilon, 1e-300))

    def over(log_noise: float) -> float:
        """By how much, in logarithms, a training with this noise costs more than was asked for."""
        found = training.cost(setting, noise=math.exp(log_noise), records=records).epsilon(delta)
        return min(max(math.log(found) - asked, -FAR), FAR) if found > 0 else -FAR

    least, most = math.log(LEAST_NOISE), math.log(LARGEST_NOISE)
    low, high = 0.0, STRIDE  # around 1, as trainings with little noise take accountants long
    while over(high) > 0:
        if high == most:
            raise ValueError(
                f"epsilon must be larger: no noise up to {LARGEST_NOISE:g} makes {setting!r} cost {epsilon:g}"
            )
        low, high = high, min(2 * high, most)
    while low > least and over(low) <= 0:
        low, high = max(low - STRIDE, least), low
    if over(low) <= 0:
        return math.exp(low)
    root = float(scipy.optimize.brentq(over, low, high, xtol=PRECISION))  # pyright: ignore[reportArgumentType]
    while over(root) > 0:  # a root-finder may stop on the wrong side
        root += PRECISION
    return math.exp(root)
