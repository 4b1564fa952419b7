"""Objective of a DPareto search over DP-SGD or DP-Adam: both oracles at one setting.

Avent et al. (2020), section 4. A point is a setting in the order of ``spaces.HYPER_PARAMETERS``.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import accounting, checks
from jaxdpbo.training import dp_optim, models, oracles

Objective = Callable[..., jax.Array]  # (point (5,), data: Data) -> (2,)


class Data(NamedTuple):
    """Data for measurements. Nothing here is protected.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import training
    >>> features, labels = jnp.ones((4, 2)), jnp.zeros(4, int)
    >>> data = training.Data(training.examples(features, labels), (features, labels), jax.random.key(0))
    >>> data.train.features.shape
    (4, 2)

    Attributes:
      train: of ``training.examples``.
      test: ``features (t, d)`` and ``labels (t,)``.
      key: a typed key for all trainings: each setting derives its own.
    """

    train: models.Examples
    test: tuple[jax.Array, jax.Array]
    key: jax.Array


class Accountant(Protocol):
    """A privacy oracle, such as ``training.training_epsilon``."""

    def __call__(self, settings: dp_optim.Settings, *, records: int, delta: float) -> accounting.Bound:
        """Epsilon of concrete ``settings`` on ``records`` examples."""
        ...


class _Measure(NamedTuple):
    """Settings fixed for a whole search; hashable, so static."""

    model: models.Model
    delta: float
    largest: int
    repeats: int
    optimizer: str
    accountant: Accountant


def objective(
    model: models.Model,
    *,
    delta: float,
    largest: int,
    repeats: int = 1,
    optimizer: str = "sgd",
    accountant: Accountant = oracles.training_epsilon,
) -> Objective:
    """Make an objective ``(point (5,), data) -> (epsilon, error)`` for ``run_scan`` and ``run_loop``.

    The objective trains ``repeats`` times with the setting and returns the proved epsilon of one training and the mean
    error on ``data.test``, both of the same ``training.Settings``. Equal arguments give the same function, and one
    compilation serves all settings.

    Formal guarantee: none. The error is a raw function of ``data``, and a search that uses the error protects nobody.
    The epsilon is the cost of ONE training with the setting, if only this training is published and the setting was
    chosen without the data; ``accounting.compose_epsilon`` gives the cost of publishing several.

    The epsilon is computed on the host, also within a compiled program, by ``jax.pure_callback``: milliseconds to a
    second for a setting, no gradients, and no ``checkpoint`` of ``run_scan``. The trainings run on JAX's device.

    =================================  ===================================================================
    case                               result
    =================================  ===================================================================
    batch above ``largest`` or ``n``   trained and accounted for as this limit
    epochs or batch below 1, or NaN    counts as 1
    noise multiplier not positive      epsilon is inf: the search marks the setting ``BAD_EPSILON``
    training diverged                  its error is 1
    =================================  ===================================================================

    Args:
      model: of ``models``.
      delta: of every epsilon, in (0, 1).
      largest: the largest batch of the search: its upper bound.
      repeats: ``R``, trainings of a setting.
      optimizer: of ``dp_optim.OPTIMIZERS``.
      accountant: the privacy oracle, a module-level function.

    Returns:
      A function of ``point`` and ``data``, a ``Data``. The keys of its trainings are derived from ``data.key`` and the
      setting: the function is deterministic, and two settings, rounded by ``to_settings``, share no key. In your own
      loop you may pass ``keys (R,)``.

    Raises:
      ValueError: a number out of range, an unknown optimizer.
      TypeError: a number of the wrong kind.

    Examples:
      >>> import jax, jax.numpy as jnp, numpy as np
      >>> import jaxdpbo
      >>> from jaxdpbo import training
      >>> features = jax.random.normal(jax.random.key(0), (40, 2))
      >>> labels = (features[:, 0] > 0).astype(int)
      >>> data = training.Data(training.examples(features, labels), (features, labels), jax.random.key(1))
      >>> measure = training.objective(training.logistic_regression(2), delta=1e-3, largest=8)
      >>> epsilon, error = measure(jnp.array([4, 8, 0.5, 2.0, 1.0]), data)  # epochs, batch, rate, noise, clip norm
      >>> bool(epsilon < 6), bool(error < 0.3)
      (True, True)

      The same function in a search:

      >>> bounds = np.array([[1, 4, 0.1, 0.5, 0.1], [4, 8, 1.0, 4.0, 2.0]])
      >>> config = jaxdpbo.dpareto.config(
      ...     bounds=bounds, initial_design=bounds, proposals=1, integer_mask=training.INTEGER_MASK
      ... )
      >>> run = jaxdpbo.run_loop(jaxdpbo.dpareto.algorithm, measure, data, config)
      >>> run.release.values.shape, run.guarantee.notion
      ((3, 2), 'none')

    References:
      Avent et al. (2020), algorithms 2 to 4.
    """
    return _objective(
        _Measure(
            model,
            checks.probability("delta", delta),
            checks.size("largest", largest),
            checks.size("repeats", repeats),
            checks.one_of("optimizer", optimizer, tuple(dp_optim.OPTIMIZERS)),
            accountant,
        )
    )


def to_settings(point: jax.Array, *, records: int, largest: int) -> dp_optim.Settings:
    """Convert ``point (5,)`` to the settings of a training on ``records`` examples. Traceable.

    Epochs become steps as in ``dp_optim.steps_of_epochs``: ``T round(n / m)``, at least one, halves to even.

    Args:
      point: epochs, batch, learning rate, noise multiplier, clip norm; the first two are rounded, and at least 1;
        NaN counts as 1.
      records: ``n``.
      largest: the largest batch; a larger batch counts as ``largest``, and a batch above ``n`` as ``n``.
    """
    point = jnp.asarray(point, jnp.float32).astype(
        jnp.result_type(float)
    )  # the precision of their key, see ``_settings_key``
    epochs, batch = jnp.fmax(jnp.round(point[:2]), 1).astype(jnp.int32)
    batch = jnp.minimum(batch, min(largest, records))
    whole, rest = records // batch, records % batch
    up = (2 * rest > batch) | ((2 * rest == batch) & (whole % 2 == 1))  # whole numbers: exact in float32 too
    return dp_optim.Settings(epochs * jnp.maximum(whole + up.astype(jnp.int32), 1), batch, point[2], point[3], point[4])


@cache
def _objective(measure: _Measure) -> Objective:
    """Return one function object for equal arguments, so no program is compiled twice; the function pickles."""
    return partial(_measure_point, measure)


def _measure_point(measure, point, data, keys=None):
    records = data.train.features.shape[0]
    settings, error = _train(measure, point, data, keys)
    epsilon = partial(_epsilon, measure, records)
    if isinstance(settings.steps, Tracer):
        like = jax.ShapeDtypeStruct((), error.dtype)
        value = jax.pure_callback(epsilon, like, settings, vmap_method="sequential")
    else:
        value = jnp.asarray(epsilon(settings), error.dtype)
    return jnp.stack([value, error])


@partial(jax.jit, static_argnames="measure")
def _train(measure, point, data, keys):
    settings = to_settings(point, records=data.train.features.shape[0], largest=measure.largest)
    if keys is None:
        keys = jax.random.split(_settings_key(data.key, settings), measure.repeats)
    errors = oracles.training_errors(
        keys, measure.model, data.train, data.test, settings, largest=measure.largest, optimizer=measure.optimizer
    )
    return settings, errors.mean.astype(settings.learning_rate.dtype)


def _settings_key(key, settings):
    """Derive a key from these settings: fold in each number as 32 bits.

    With 64 bits, rounding in the last would give a compiled search and the point it reports different keys.
    """
    for number in jax.tree.leaves(settings):
        kept = number.astype(jnp.float32) if jnp.issubdtype(number.dtype, jnp.floating) else number
        key = jax.random.fold_in(key, jax.lax.bitcast_convert_type(kept, jnp.uint32))
    return key


def _epsilon(measure, records, settings):
    """Compute epsilon on the host, also from within a compiled program: NumPy alone."""
    epsilon = math.inf
    if float(settings.noise_multiplier) > 0:
        epsilon = measure.accountant(settings, records=records, delta=measure.delta).epsilon
    return np.asarray(epsilon, settings.noise_multiplier.dtype)
