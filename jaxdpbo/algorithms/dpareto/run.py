"""Steps of the search: state, ask, tell, and the released front."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.algorithms.dpareto import surrogates
from jaxdpbo.algorithms.dpareto.configs import Config, to_points, to_units
from jaxdpbo.guarantee import guarantees
from jaxdpbo.surrogate import batched_gp, gp, pareto
from jaxdpbo.types import Algorithm, Info, Query, State

REFIT_EVERY = 16  # steps between refits, from MANY settings on
MANY = 64
USABLE, BAD_EPSILON, BAD_ERROR, UNMEASURED = 0, 1, 2, 3  # why a setting counts for nothing


class PublicState(NamedTuple):
    """``step ()``: steps taken; ``noise``: None, since nothing is spent."""

    step: jax.Array
    noise: None


class Raw(NamedTuple):
    """Raw measurements.

    Attributes:
      units: ``(m, d)`` settings in the unit cube, whole coordinates rounded.
      values: ``(m, 2)`` epsilon and error as returned.
      failed: ``(m,)`` ``USABLE``, or why a setting counts for nothing.
      models: of ``log epsilon`` and of ``logit error``, as last fitted.
      whitening: ``(2, m, m)`` of the settings for both models: between fits rows are only added.
    """

    units: jax.Array
    values: jax.Array
    failed: jax.Array
    models: tuple[gp.GPModel, gp.GPModel]
    whitening: jax.Array


class Release(NamedTuple):
    """The front. NOT PRIVATE.

    Attributes:
      point: ``(d,)``, the setting of the front that alone dominates the largest area.
      points: ``(m, d)`` settings.
      values: ``(m, 2)`` epsilon and error.
      failed: ``(m,)`` why a setting counts for nothing; ``USABLE`` if it counts.
      front: ``(m,)``, True where nothing dominates the setting.
      hypervolume: ``()``.
      models: as last fitted, for ``best_setting``.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    points: jax.Array
    values: jax.Array
    failed: jax.Array
    front: jax.Array
    hypervolume: jax.Array
    models: tuple[gp.GPModel, gp.GPModel]
    params: dict[str, Any] | None = None


def init(key: jax.Array, config: Config) -> State:
    """Make the initial state: no measurements. ``key`` is unused."""
    del key
    capacity = config.steps * config.batch
    raw = Raw(
        units=jnp.zeros((capacity, config.bounds.shape[1]), config.bounds.dtype),
        values=jnp.ones((capacity, 2), config.bounds.dtype),
        failed=jnp.full(capacity, UNMEASURED, jnp.int32),
        models=config.model,
        whitening=batched_gp.prior(batched_gp.stack(config.model), capacity, 1).whitening,
    )
    return State(PublicState(jnp.zeros((), jnp.int32), None), raw)


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Propose the seeds, then the settings of largest expected improvement of the front (Algorithm 2, lines 5 to 7)."""
    step, batch = state.public.step, config.batch
    seeds = config.initial_design.shape[0]
    start = jnp.minimum(step * batch, seeds - batch)
    seed = jax.lax.dynamic_slice_in_dim(to_units(config, config.initial_design), start, batch)

    def search(raw):
        measured = _standardise(config, raw)
        return surrogates.propose(key, config, measured, _posterior(raw, measured, step * batch))

    units = jax.lax.cond(step * batch < seeds, lambda _: seed, search, state.raw)
    return Query(to_points(config, units), jnp.ones(batch, bool))


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """Store the measurements, and refit the surrogates.

    Refits happen after the seeds, then at every step, from ``MANY`` settings on at every sixteenth.

    =====================================  ===================================================================
    case                                   result
    =====================================  ===================================================================
    ``state.public.step == T``             the state unchanged
    epsilon 0, negative, infinite, NaN     the setting failed: ``BAD_EPSILON``
    an error outside [0, 1], or NaN        the setting failed: ``BAD_ERROR``
    a masked setting                       ``UNMEASURED``
    =====================================  ===================================================================

    A failed setting is kept with its returned values and is no part of a front; the surrogates treat it as bad as the
    worst.

    Args:
      key: of the refit.
      config: of the search.
      state: before the step.
      query: from ``ask``.
      values: ``(b, 2)``, epsilon and error.

    Returns:
      The state after the step, and ``Info``, NOT PRIVATE: ``failed (b,)``, why a setting counts for nothing, ``USABLE``
      if it counts; ``hypervolume ()``, between the front so far and the reference.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    if values.shape != (config.batch, 2):
        raise ValueError(f"values must have shape ({config.batch}, 2), got {values.shape}")
    raw, step = state.raw, state.public.step
    active, start = step < config.steps, step * config.batch
    epsilon, error = values[:, 0], values[:, 1]
    failed = jnp.where(
        ~(jnp.isfinite(epsilon) & (epsilon > 0)),
        BAD_EPSILON,
        jnp.where((error >= 0) & (error <= 1), USABLE, BAD_ERROR),
    )
    failed = jnp.where(query.mask, failed, UNMEASURED).astype(jnp.int32)
    values = jnp.where(query.mask[:, None], values, 1.0)
    after = Raw(
        units=gp.write(raw.units, to_units(config, query.points), start, active),
        values=gp.write(raw.values, values.astype(raw.values.dtype), start, active),
        failed=gp.write(raw.failed, failed, start, active),
        models=raw.models,
        whitening=raw.whitening,
    )
    count = start + config.batch
    seeds = config.initial_design.shape[0]
    due = active & ((count == seeds) | ((count > seeds) & ((count <= MANY) | (step % REFIT_EVERY == 0))))

    measured = _standardise(config, after)
    models = jax.lax.cond(due, lambda: surrogates.fit_models(config, measured, count), lambda: after.models)
    measured = measured._replace(models=models)
    bare = jnp.eye(len(after.failed), dtype=after.whitening.dtype)[None]  # a refit changes every row
    started = after._replace(whitening=jnp.where(due, bare, after.whitening))
    posterior = _posterior(started, measured, jnp.where(due, 0, start))
    whitening = batched_gp.extend(posterior, jnp.where(active, count, 0)).whitening
    after = after._replace(models=models, whitening=whitening)
    info = Info({"failed": failed, "hypervolume": _volume(config, after)})
    return State(PublicState(jnp.where(active, step + 1, step), None), after), info


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return all measurements, and mark the settings of the front. ``key`` is unused. NOT PRIVATE."""
    del key
    raw = state.raw
    usable = raw.failed == USABLE
    values = jnp.where(usable[:, None], raw.values, jnp.inf)
    points = to_points(config, raw.units)
    alone = jnp.prod(jnp.maximum(config.reference[None] - values, 0.0), axis=1)
    return Release(
        point=points[jnp.argmax(jnp.where(usable, alone, -1.0))],
        points=points,
        values=raw.values,
        failed=raw.failed,
        front=pareto.is_non_dominated(values, usable),
        hypervolume=_volume(config, raw),
        models=raw.models,
    )


def privacy(config: Config) -> guarantees.Guarantee:
    """No guarantee: measurements are raw."""
    del config
    return guarantees.no_guarantee(
        "the records that the measured algorithm was trained and tested on",
        "a front is made of errors measured on them; each training is private by itself, choosing among them is not",
    )


algorithm = Algorithm(init, ask, tell, release, privacy)


def _volume(config, raw):
    """Hypervolume between the front and the reference, in epsilon and error themselves."""
    return pareto.hypervolume(raw.values, raw.failed == USABLE, config.reference)


def _standardise(config, raw):
    failed = raw.failed
    return surrogates.standardise_values(
        config, raw.units, raw.values, failed == USABLE, failed != UNMEASURED, raw.models
    )


def _posterior(raw, measured, used):
    return batched_gp.Posterior(batched_gp.stack(measured.models), measured.units, measured.known, raw.whitening, used)
