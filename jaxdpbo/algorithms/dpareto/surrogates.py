"""What is believed of both objectives, how it is fitted, and which settings it makes worth measuring.

Two independent processes, of ``log epsilon`` and of ``logit error``, each at mean 0 and variance 1 over what was
measured, over the unit cube.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.algorithms.dpareto.configs import Config, snapped
from jaxdpbo.surrogate import front_improvement, gp, maximize, pareto

CLIP = 1e-4  # of an error: its logit at 0 and 1


class Measured(NamedTuple):
    """Settings and what they came to, as the processes have it.

    Attributes:
      units: ``(m, d)``.
      values: ``(m, 2)``, standard; the worst seen of each objective where a setting failed, so that the search leaves
        it; 0 where there is none.
      mask: ``(m,)``, True where a setting counts.
      known: ``(m,)``, True where it counts or failed.
      mean: ``(2,)``, and
      spread: ``(2,)``, of ``transformed`` values.
      reference: ``(2,)``, standard.
      priors: of both processes.
    """

    units: jax.Array
    values: jax.Array
    mask: jax.Array
    known: jax.Array
    mean: jax.Array
    spread: jax.Array
    reference: jax.Array
    priors: tuple[gp.Prior, gp.Prior]


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
    priors: tuple[gp.Prior, gp.Prior],
) -> Measured:
    """Of ``values (m, 2)`` as returned, where ``known (m,)``, and where ``usable (m,)`` too."""
    raw = transformed(jnp.where(usable[:, None], values, 1.0))
    weight = jnp.where(usable, 1.0, 0.0)[:, None] / jnp.maximum(jnp.sum(usable), 1)
    mean = jnp.sum(raw * weight, axis=0)
    spread = jnp.sqrt(jnp.sum(jnp.square(raw - mean[None]) * weight, axis=0))
    spread = jnp.where(spread > 1e-6, spread, 1.0)
    standard = (raw - mean[None]) / spread[None]
    worst = jnp.max(jnp.where(usable[:, None], standard, 1.0), axis=0)
    standard = jnp.where(usable[:, None], standard, jnp.where(known[:, None], worst[None], 0.0))
    reference = (transformed(config.reference) - mean) / spread
    return Measured(units, standard, usable, known, mean, spread, reference, priors)


def fitted(key: jax.Array, config: Config, given: Measured) -> tuple[gp.Prior, gp.Prior]:
    """Both priors, by a few steps up the marginal likelihood from where the last fit ended."""
    keys = jax.random.split(key)

    def fit(number):
        return gp.fit(
            keys[number], config.prior[number], given.units, given.values[:, number], given.known, starts=1,
            steps=config.fit_steps, initial=given.priors[number],
        )  # fmt: skip

    return fit(0), fit(1)


def condition(given: Measured) -> tuple[gp.Posterior, gp.Posterior]:
    """Both processes, given everything measured."""
    first, second = (gp.condition(prior, given.units, given.known) for prior in given.priors)
    return first, second


def believed(
    given: Measured, posteriors: tuple[gp.Posterior, gp.Posterior], unit: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Mean and standard deviation ``(2,)`` of both standard objectives at ``unit (d,)``."""
    found = [
        gp.predict(prior, posterior, given.values[:, number], unit[None])
        for number, (prior, posterior) in enumerate(zip(given.priors, posteriors, strict=True))
    ]
    variance = jnp.stack([variance[0] for _, variance in found])
    return jnp.stack([mean[0] for mean, _ in found]), jnp.sqrt(jnp.maximum(variance, 1e-12))


def proposed(key: jax.Array, config: Config, given: Measured) -> jax.Array:
    """The next batch ``(b, d)``: one after the other, each believed to come out as expected."""
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
        mean, _ = believed(given, posteriors, unit)
        given = given._replace(
            units=given.units.at[place].set(unit),
            values=given.values.at[place].set(mean),
            mask=given.mask.at[place].set(True),
            known=given.known.at[place].set(True),
        )
    return given.units[room:]


class Undominated(NamedTuple):
    """What the front leaves, of the standard objectives and of epsilon and error."""

    standard: pareto.Strips
    original: pareto.Strips


def undominated(config: Config, given: Measured) -> Undominated:
    """Once for many questions of ``improvement``."""
    original = jax.vmap(lambda value: _original(given, value))(given.values)
    return Undominated(
        pareto.strips(given.values, given.mask, given.reference),
        pareto.strips(original, given.mask, config.reference),
    )


def improvement(
    config: Config, given: Measured, left: Undominated, mean: jax.Array, deviation: jax.Array, *, log: bool
) -> jax.Array:
    """Of the front, by what is believed of a setting: ``config.acquisition``, or its logarithm."""
    if config.acquisition == "ehvi":
        of = front_improvement.log_ehvi if log else front_improvement.expected_hypervolume_improvement
        return of(mean, deviation, left.standard)
    if config.acquisition == "hvpoi":
        gain = front_improvement.gained_hypervolume(_original(given, mean), left.original)
    else:
        gain = front_improvement.gained_hypervolume(mean, left.standard)
    of = front_improvement.log_hvpoi if log else front_improvement.hvpoi
    return of(mean, deviation, left.standard, gain)


def _original(given: Measured, standard: jax.Array) -> jax.Array:
    """Epsilon and error ``(2,)`` of standard objectives; far beyond the reference no farther."""
    raw = given.mean + given.spread * jnp.minimum(standard, given.reference + 1.0)
    return jnp.stack([jnp.exp(raw[0]), jax.nn.sigmoid(raw[1])])


def _searched(key, config, given, posteriors):
    left = undominated(config, given)

    def utility(unit):
        return improvement(config, given, left, *believed(given, posteriors, snapped(config, unit)), log=True)

    search_key, front_key = jax.random.split(key)
    front = pareto.non_dominated(given.values, given.mask)
    incumbent = given.units[jnp.argmax(jax.random.uniform(front_key, front.shape) + front)]  # one of the front
    zero, one = jnp.zeros_like(incumbent), jnp.ones_like(incumbent)
    found, _ = maximize.scatter_and_climb(
        search_key, utility, zero, one, incumbent=incumbent, scatter=config.scatter, starts=config.starts,
        steps=config.climb_steps,
    )  # fmt: skip
    return snapped(config, found)
