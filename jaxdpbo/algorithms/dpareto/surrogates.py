"""The surrogates of both objectives: how they are fitted, and which settings they propose.

Two independent Gaussian processes over the unit cube, of ``log epsilon`` and of ``logit error``, each standardised to
mean 0 and variance 1 over the measured settings.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.algorithms.dpareto.configs import Config, snapped
from jaxdpbo.surrogate import acquisition, gp, maximize, pareto

CLIP = 1e-4  # of an error: its logit at 0 and 1


class Measured(NamedTuple):
    """Settings and their values, as the processes use them.

    Attributes:
      units: ``(m, d)``.
      values: ``(m, 2)``, standardised; the worst observed of each objective where a setting failed, so that the search
        avoids it; 0 where there is none.
      mask: ``(m,)``, True where a setting counts.
      known: ``(m,)``, True where it counts or failed.
      mean: ``(2,)``, and
      scale: ``(2,)``, of ``transformed`` values.
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
    models: tuple[gp.Model, gp.Model]


def transformed(values: jax.Array) -> jax.Array:
    """``log epsilon`` and ``logit error``, ``(..., 2)``: increasing, so dominance stays."""
    error = jnp.clip(values[..., 1], CLIP, 1.0 - CLIP)
    return jnp.stack([jnp.log(values[..., 0]), jnp.log(error) - jnp.log1p(-error)], axis=-1)


def measured(
    config: Config,
    units: jax.Array,
    values: jax.Array,
    usable: jax.Array,
    known: jax.Array,
    models: tuple[gp.Model, gp.Model],
) -> Measured:
    """``values (m, 2)`` as returned, where ``known (m,)``, standardised over those ``usable (m,)``."""
    raw = transformed(jnp.where(usable[:, None], values, 1.0))
    weight = usable.astype(raw.dtype)[:, None] / jnp.maximum(jnp.sum(usable.astype(raw.dtype)), 1)
    mean = jnp.sum(raw * weight, axis=0)
    scale = jnp.sqrt(jnp.sum(jnp.square(raw - mean[None]) * weight, axis=0))
    scale = jnp.where(scale > 1e-6, scale, 1.0)
    standard = (raw - mean[None]) / scale[None]
    worst = jnp.max(jnp.where(usable[:, None], standard, 1.0), axis=0)
    standard = jnp.where(usable[:, None], standard, jnp.where(known[:, None], worst[None], 0.0))
    reference = (transformed(config.reference) - mean) / scale
    return Measured(units, standard, usable, known, mean, scale, reference, models)


def fitted(key: jax.Array, config: Config, given: Measured) -> tuple[gp.Model, gp.Model]:
    """Both models, by a few steps up the marginal likelihood from where the last fit ended."""
    keys = jax.random.split(key)

    def fit(number):
        return gp.fit(
            keys[number], config.model[number], given.units, given.values[:, number], given.known, num_restarts=1,
            steps=config.fit_steps, initial=given.models[number],
        )  # fmt: skip

    return fit(0), fit(1)


def condition(given: Measured) -> tuple[gp.Factorization, gp.Factorization]:
    """Both posteriors, given everything measured."""
    first, second = (gp.condition(model, given.units, given.known) for model in given.models)
    return first, second


def predicted(
    given: Measured, posteriors: tuple[gp.Factorization, gp.Factorization], unit: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Posterior mean and standard deviation ``(2,)`` of both standardised objectives at ``unit (d,)``."""
    found = [
        gp.predict(model, factorization, given.values[:, number], unit[None])
        for number, (model, factorization) in enumerate(zip(given.models, posteriors, strict=True))
    ]
    variance = jnp.stack([variance[0] for _, variance in found])
    return jnp.stack([mean[0] for mean, _ in found]), jnp.sqrt(jnp.maximum(variance, 1e-12))


def proposed(key: jax.Array, config: Config, given: Measured) -> jax.Array:
    """The next batch ``(b, d)``: one after the other, each then taken as measured at its posterior mean."""
    room = given.units.shape[0]
    given = given._replace(
        units=jnp.pad(given.units, ((0, config.batch), (0, 0))),
        values=jnp.pad(given.values, ((0, config.batch), (0, 0))),
        mask=jnp.pad(given.mask, (0, config.batch)),
        known=jnp.pad(given.known, (0, config.batch)),
    )
    for place, one in enumerate(jax.random.split(key, config.batch), start=room):
        posteriors = condition(given)
        unit = _searched(one, config, given, posteriors)
        mean, _ = predicted(given, posteriors, unit)
        given = given._replace(
            units=given.units.at[place].set(unit),
            values=given.values.at[place].set(mean),
            mask=given.mask.at[place].set(True),
            known=given.known.at[place].set(True),
        )
    return given.units[room:]


class Undominated(NamedTuple):
    """What the front does not dominate, of the standardised objectives and of epsilon and error."""

    standard: pareto.Strips
    original: pareto.Strips


def undominated(config: Config, given: Measured) -> Undominated:
    """Computed once for many calls of ``improvement``."""
    original = jax.vmap(lambda value: _original(given, value))(given.values)
    return Undominated(
        pareto.strips(given.values, given.mask, given.reference),
        pareto.strips(original, given.mask, config.reference),
    )


def improvement(
    config: Config, given: Measured, left: Undominated, mean: jax.Array, deviation: jax.Array, *, log: bool
) -> jax.Array:
    """Of the front, by the posterior ``mean (2,)`` and ``deviation (2,)``: ``config.acquisition``, or its logarithm."""
    if config.acquisition == "ehvi":
        of = acquisition.log_ehvi if log else acquisition.expected_hypervolume_improvement
        return of(mean, deviation, left.standard)
    if config.acquisition == "hvpoi":
        gain = acquisition.gained_hypervolume(_original(given, mean), left.original)
    else:
        gain = acquisition.gained_hypervolume(mean, left.standard)
    of = acquisition.log_hvpoi if log else acquisition.hvpoi
    return of(mean, deviation, left.standard, gain)


def _original(given: Measured, standard: jax.Array) -> jax.Array:
    """Epsilon and error ``(2,)`` of standardised objectives, capped beyond the reference."""
    raw = given.mean + given.scale * jnp.minimum(standard, given.reference + 1.0)
    return jnp.stack([jnp.exp(raw[0]), jax.nn.sigmoid(raw[1])])


def _searched(key, config, given, posteriors):
    left = undominated(config, given)

    def utility(unit):
        return improvement(config, given, left, *predicted(given, posteriors, snapped(config, unit)), log=True)

    search_key, front_key = jax.random.split(key)
    front = pareto.non_dominated(given.values, given.mask)
    drawn = jax.random.uniform(front_key, front.shape)
    incumbent = given.units[jnp.argmax(drawn + jnp.where(front, 1.0, 0.0))]  # one of the front
    zero, one = jnp.zeros_like(incumbent), jnp.ones_like(incumbent)
    found, _ = maximize.sample_and_ascend(
        search_key, utility, zero, one, incumbent=incumbent, raw_samples=config.search.raw_samples,
        num_restarts=config.search.num_restarts, steps=config.search.ascent_steps,
    )  # fmt: skip
    return snapped(config, found)
