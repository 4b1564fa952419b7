"""Surrogates of both objectives: fits and proposals.

Two independent Gaussian processes over the unit cube, of ``log epsilon`` and of ``logit error``, each standardised to
mean 0 and variance 1 over the measured settings.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.algorithms.dpareto.configs import Config, snap
from jaxdpbo.surrogate import acquisition, batched_gp, box_search, gp, pareto, preprocessing

CLIP = 1e-4  # of an error: its logit at 0 and 1


class Observations(NamedTuple):
    """Settings and their values, as the processes use them.

    Attributes:
      units: ``(m, d)``.
      values: ``(m, 2)``, standardised; the worst observed of each objective where a setting failed, so the search
        avoids it; 0 where there is none.
      mask: ``(m,)``, True where a setting counts.
      known: ``(m,)``, True where a setting counts or failed.
      mean: ``(2,)``, of ``transform_values`` values.
      scale: ``(2,)``, of ``transform_values`` values.
      reference: ``(2,)``, standardised.
      models: of both processes.
    """

    units: jax.Array
    values: jax.Array
    mask: jax.Array
    known: jax.Array
    mean: jax.Array
    scale: jax.Array
    reference: jax.Array
    models: tuple[gp.GPModel, gp.GPModel]


def transform_values(values: jax.Array) -> jax.Array:
    """Compute ``log epsilon`` and ``logit error``, ``(..., 2)``: increasing, so dominance stays."""
    error = jnp.clip(values[..., 1], CLIP, 1.0 - CLIP)
    return jnp.stack([jnp.log(values[..., 0]), jnp.log(error) - jnp.log1p(-error)], axis=-1)


def standardise_values(
    config: Config,
    units: jax.Array,
    values: jax.Array,
    usable: jax.Array,
    known: jax.Array,
    models: tuple[gp.GPModel, gp.GPModel],
) -> Observations:
    """Standardise returned ``values (m, 2)``, where ``known (m,)``, over those ``usable (m,)``."""
    raw = transform_values(jnp.where(usable[:, None], values, 1.0))
    weight = usable.astype(raw.dtype)[:, None] / jnp.maximum(jnp.sum(usable.astype(raw.dtype)), 1)
    mean = jnp.sum(raw * weight, axis=0)
    scale = preprocessing.square_root(jnp.sum(jnp.square(raw - mean[None]) * weight, axis=0))
    scale = jnp.where(scale > 1e-6, scale, 1.0)
    standard = (raw - mean[None]) / scale[None]
    worst = jnp.max(jnp.where(usable[:, None], standard, 1.0), axis=0)
    standard = jnp.where(usable[:, None], standard, jnp.where(known[:, None], worst[None], 0.0))
    reference = (transform_values(config.reference) - mean) / scale
    return Observations(units, standard, usable, known, mean, scale, reference, models)


def fit_models(config: Config, observations: Observations, used: jax.Array) -> tuple[gp.GPModel, gp.GPModel]:
    """Fit both models by a few gradient steps on the marginal likelihood, from the last fit; ``used ()`` rows count."""
    first, second = batched_gp.unstack(
        batched_gp.fit(
            batched_gp.stack(config.model), observations.units, observations.values, observations.known, used,
            initial=batched_gp.stack(observations.models), steps=config.fit_steps,
        )
    )  # fmt: skip
    return first, second


def surrogate_posterior(observations: Observations) -> batched_gp.Posterior:
    """Posterior of both processes, given all measurements."""
    capacity, dimension = observations.units.shape
    before = batched_gp.prior(batched_gp.stack(observations.models), capacity, dimension)
    return batched_gp.extend(before._replace(points=observations.units, mask=observations.known), capacity)


class Surrogates(NamedTuple):
    """Both posteriors, with values in the form needed by ``batched_gp.predict``."""

    posterior: batched_gp.Posterior
    white: jax.Array


def condition_surrogates(observations: Observations, posterior: batched_gp.Posterior) -> Surrogates:
    """Combine the posterior of the measured settings with their values."""
    return Surrogates(posterior, batched_gp.whiten(posterior, observations.values))


def predict_standard(both: Surrogates, units: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Posterior mean and standard deviation ``(k, 2)`` of both standardised objectives at ``units (k, d)``."""
    mean, variance = batched_gp.predict(*both, units)
    return mean.T, jnp.sqrt(jnp.maximum(variance, 1e-12)).T


def propose(key: jax.Array, config: Config, observations: Observations, posterior: batched_gp.Posterior) -> jax.Array:
    """Propose the next batch ``(b, d)``, sequentially: each setting counts as measured, at its posterior mean.

    The rows from ``posterior.used`` on are free, at least ``b`` of them.
    """
    start, proposals = posterior.used, []
    for place, step_key in enumerate(jax.random.split(key, config.batch)):
        both = condition_surrogates(observations, posterior)
        unit = _search_unit(step_key, config, observations, both)
        proposals.append(unit)
        if place + 1 == config.batch:
            break
        mean, _ = predict_standard(both, unit[None])
        row = start + place
        observations = observations._replace(
            units=observations.units.at[row].set(unit),
            values=observations.values.at[row].set(mean[0]),
            mask=observations.mask.at[row].set(True),
            known=observations.known.at[row].set(True),
        )
        posterior = batched_gp.extend(posterior._replace(points=observations.units, mask=observations.known), row + 1)
    return jnp.stack(proposals)


class UndominatedRegion(NamedTuple):
    """Undominated region, of the standardised objectives and of epsilon and error."""

    standard: pareto.Strips
    original: pareto.Strips


def undominated_region(config: Config, observations: Observations) -> UndominatedRegion:
    """Compute the undominated region, once for many calls of ``improvement``."""
    standard = pareto.undominated_strips(observations.values, observations.mask, observations.reference)
    to_original = jax.vmap(lambda *edge: _to_original(observations, jnp.stack(edge)))
    edges = to_original(standard.right, standard.height)  # increasing
    right, height = jnp.minimum(edges, config.reference[None]).T
    return UndominatedRegion(standard, pareto.Strips(jnp.append(standard.left[:1], right[:-1]), right, height))


def standard_improvement(
    config: Config,
    observations: Observations,
    left: UndominatedRegion,
    mean: jax.Array,
    deviation: jax.Array,
    *,
    log: bool,
) -> jax.Array:
    """Acquisition ``config.acquisition``, or its logarithm, at the posterior ``mean (2,)`` and ``deviation (2,)``."""
    if config.acquisition == "ehvi":
        of = acquisition.log_ehvi if log else acquisition.expected_hypervolume_improvement
        return of(mean, deviation, left.standard)
    if config.acquisition == "hvpoi":
        gain = acquisition.gained_hypervolume(_to_original(observations, mean), left.original)
    else:
        gain = acquisition.gained_hypervolume(mean, left.standard)
    of = acquisition.log_hvpoi if log else acquisition.hvpoi
    return of(mean, deviation, left.standard, gain)


def _to_original(measured: Observations, standard: jax.Array) -> jax.Array:
    """Convert standardised objectives to epsilon and error ``(2,)``, capped beyond the reference."""
    raw = measured.mean + measured.scale * jnp.minimum(standard, measured.reference + 1.0)
    return jnp.stack([jnp.exp(raw[0]), jax.nn.sigmoid(raw[1])])


def _search_unit(key, config, measured, both):
    left = undominated_region(config, measured)

    def utility(unit):
        mean, deviation = predict_standard(both, snap(config, unit)[None])
        return standard_improvement(config, measured, left, mean[0], deviation[0], log=True)

    draw_key, front_key = jax.random.split(key)
    incumbent = _draw_row(front_key, measured.units, pareto.is_non_dominated(measured.values, measured.mask))
    tried = _draw_around(draw_key, incumbent, config.search.raw_samples)
    scores = _scores(config, measured, left, *predict_standard(both, jax.vmap(lambda unit: snap(config, unit))(tried)))
    best, _ = box_search.ascend_from_best(
        utility, incumbent[None], tried, scores, num_restarts=config.search.num_restarts,
        steps=config.search.ascent_steps,
    )  # fmt: skip
    return snap(config, best)


def _draw_row(key, units, front):
    """Draw a row of the front uniformly; the first setting where there is no front."""
    places = jnp.cumsum(front.astype(units.dtype))
    return units[jnp.argmax(places > jax.random.uniform(key, (), units.dtype) * places[-1])]


def _draw_around(key, incumbent, count):
    """Draw points ``(count, d)`` in one call: half uniform in the cube, half normal around the incumbent."""
    drawn = jax.random.uniform(key, (count, incumbent.shape[0]), incumbent.dtype)
    near = incumbent[None] + 0.05 * jax.scipy.special.ndtri(drawn[: count // 2])
    return jnp.concatenate([drawn[count // 2 :], jnp.clip(near, 0, 1)])


def _scores(config, measured, left, mean, deviation):
    """Logarithms of the improvement ``(k,)``, in single precision: enough to choose starts, at a tenth of the cost."""
    measured, left, mean, deviation = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf,
        (measured, left, mean, deviation),
    )
    return jax.vmap(lambda *at: standard_improvement(config, measured, left, *at, log=True))(mean, deviation)
