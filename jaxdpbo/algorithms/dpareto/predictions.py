"""Predictions of a finished search: for any setting, and the best setting at a given epsilon. NOT PRIVATE."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import checks
from jaxdpbo.algorithms.dpareto import surrogates
from jaxdpbo.algorithms.dpareto.configs import Config, snap, to_points, to_units
from jaxdpbo.algorithms.dpareto.run import UNMEASURED, USABLE, Release
from jaxdpbo.surrogate import box_search

RAW_SAMPLES, NUM_RESTARTS, STEPS = 4096, 8, 60


class Prediction(NamedTuple):
    """A setting with its posterior: medians and central 95 % intervals.

    Attributes:
      point: ``(d,)``.
      epsilon: ``(3,)``: 2.5 %, median, 97.5 %. A privacy oracle computes epsilon exactly: call one before a release.
      error: ``(3,)``: 2.5 %, median, 97.5 % of the mean error.
    """

    point: jax.Array
    epsilon: jax.Array
    error: jax.Array


def predict_settings(config: Config, released: Release, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and standard deviation ``(k, 2)`` of ``log epsilon`` and ``logit error`` at ``points (k, d)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import dpareto, surrogate
    >>> config = dpareto.config(
    ...     bounds=[[0.0], [1.0]], initial_design=[[0.2], [0.8]], proposals=2, search=surrogate.BoxSearch(16, 1, 2)
    ... )
    >>> points, values = jnp.array([[0.2], [0.8]]), jnp.array([[2.0, 0.1], [0.5, 0.4]])  # epsilon and error
    >>> failed = jnp.zeros(2, jnp.int32)
    >>> release = dpareto.Release(points[0], points, values, failed, failed == 0, jnp.asarray(1.0), config.model)
    >>> mean, deviation = dpareto.predict_settings(config, release, jnp.array([[0.5]]))
    >>> mean.shape, deviation.shape
    ((1, 2), (1, 2))
    """
    return _predict(config, released, jnp.asarray(points, config.bounds.dtype))


@jax.jit
def _predict(config, released, points):
    measured = _standardise(config, released)
    both = _condition(measured)
    mean, deviation = jax.lax.map(lambda unit: _predict_unit(both, unit), to_units(config, points))
    return measured.mean[None] + measured.scale[None] * mean, measured.scale[None] * deviation


@jax.jit
def improvement(config: Config, released: Release, points: jax.Array) -> jax.Array:
    """Acquisition ``config.acquisition`` at ``points (k, d)``: ``(k,)``, in its own units."""
    measured = _standardise(config, released)
    both, left = _condition(measured), surrogates.undominated_region(config, measured)
    return jax.lax.map(
        lambda unit: surrogates.standard_improvement(config, measured, left, *_predict_unit(both, unit), log=False),
        to_units(config, points),
    )


def best_setting(key: jax.Array, config: Config, released: Release, *, epsilon: float) -> Prediction:
    """Find the setting of least expected error among those predicted to have at most this ``epsilon``.

    The front has points only where the search measured; the surrogates predict everywhere (the open problem of Avent et
    al. 2020, section 6). NOT PRIVATE: reads the measured errors.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import dpareto, surrogate
    >>> config = dpareto.config(
    ...     bounds=[[0.0], [1.0]], initial_design=[[0.2], [0.8]], proposals=2, search=surrogate.BoxSearch(16, 1, 2)
    ... )
    >>> points, values = jnp.array([[0.2], [0.8]]), jnp.array([[2.0, 0.1], [0.5, 0.4]])  # epsilon and error
    >>> failed = jnp.zeros(2, jnp.int32)
    >>> release = dpareto.Release(points[0], points, values, failed, failed == 0, jnp.asarray(1.0), config.model)
    >>> dpareto.best_setting(jax.random.key(0), config, release, epsilon=1.0).point.shape
    (1,)

    Args:
      key: for the search.
      config: of the finished search.
      released: the release of the search.
      epsilon: the largest allowed.

    Raises:
      ValueError: ``epsilon`` is not positive, or no setting counted.
      TypeError: ``key`` is not a typed key.
    """
    if not bool(jnp.any(released.failed == USABLE)):
        raise ValueError("released must hold a setting that counts, got none: released.failed says why each failed")
    limit = jnp.asarray(checks.positive("epsilon", epsilon), config.bounds.dtype)
    return _best_setting(checks.key("key", key), config, released, limit)


@jax.jit
def _best_setting(key, config, released, epsilon):
    measured = _standardise(config, released)
    both = _condition(measured)
    limit = (jnp.log(epsilon) - measured.mean[0]) / measured.scale[0]

    def utility(unit):
        mean, _ = _predict_unit(both, snap(config, unit))
        return -mean[1] - 100.0 * jnp.maximum(mean[0] - limit, 0.0)

    within = measured.mask & (measured.values[:, 0] <= limit)
    best = measured.units[jnp.argmin(jnp.where(within, measured.values[:, 1], jnp.inf))]
    unit, _ = box_search.sample_and_ascend(
        key, utility, jnp.zeros_like(best), jnp.ones_like(best), incumbent=best, raw_samples=RAW_SAMPLES,
        num_restarts=NUM_RESTARTS, steps=STEPS,
    )  # fmt: skip
    unit = snap(config, unit)
    mean, deviation = _predict_unit(both, unit)
    middle, wide = measured.mean + measured.scale * mean, measured.scale * deviation
    ends = middle[:, None] + wide[:, None] * jnp.array([-1.96, 0.0, 1.96])[None]
    return Prediction(to_points(config, unit[None])[0], jnp.exp(ends[0]), jax.nn.sigmoid(ends[1]))


def _condition(measured):
    return surrogates.condition_surrogates(measured, surrogates.surrogate_posterior(measured))


def _predict_unit(both, unit):
    mean, deviation = surrogates.predict_standard(both, unit[None])
    return mean[0], deviation[0]


def _standardise(config, released):
    usable, measured = released.failed == USABLE, released.failed != UNMEASURED
    units = to_units(config, released.points)
    return surrogates.standardise_values(config, units, released.values, usable, measured, released.models)
