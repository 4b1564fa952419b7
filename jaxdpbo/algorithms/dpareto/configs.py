"""What a search is told before it starts."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks
from jaxdpbo.surrogate import gp, kernels

ACQUISITIONS = ("hvpoi", "hvpoi_transformed", "ehvi")


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["bounds", "initial", "reference", "prior"],
    meta_fields=["steps", "batch", "whole", "acquisition", "fit_steps", "scatter", "starts", "climb_steps"],
)
@dataclass(frozen=True)
class Config:
    """What a search is told before it starts; made by ``config``.

    Traced: ``bounds (2, d)``; ``initial (s, d)``, the seeds; ``reference (2,)``, the anti-ideal ``(epsilon, error)``;
    the numbers of ``prior``, where the fits begin. The rest is static.
    """

    bounds: jax.Array
    initial: jax.Array
    reference: jax.Array
    prior: tuple[gp.Prior, gp.Prior]
    steps: int
    batch: int
    whole: tuple[bool, ...]
    acquisition: str
    fit_steps: int
    scatter: int
    starts: int
    climb_steps: int


def config(
    *,
    bounds: Any,
    initial: Any,
    proposals: int,
    reference: tuple[float, float] = (10.0, 0.999),
    whole: Any = None,
    batch: int = 1,
    acquisition: str = "hvpoi",
    fit_steps: int = 5,
    scatter: int = 512,
    starts: int = 4,
    climb_steps: int = 12,
) -> Config:
    """Check a configuration.

    Args:
      bounds: ``(2, d)``, finite.
      initial: ``(s, d)`` seeds inside of them, a multiple of ``batch``: ``random_settings`` of the problem, say.
      proposals: settings after the seeds, a multiple of ``batch``.
      reference: the anti-ideal point: what is not below it in both is worth nothing.
      whole: ``(d,)``, True where a hyper-parameter is a whole number; its bounds are too.
      batch: ``b``, proposed at once: each but the first as if those before had come out as believed.
      acquisition: of ``ACQUISITIONS``. "hvpoi" counts what a front gains in epsilon and error themselves, as
        ``Release.hypervolume`` does; "hvpoi_transformed" in their logarithm and logit, where a factor of epsilon counts
        the same however small: for fronts at small epsilon. "ehvi", the expected improvement, counts likewise.
      fit_steps: gradient steps of a refit, from where the last ended.
      scatter: points tried before the climbs.
      starts: climbs; at most ``scatter``.
      climb_steps: gradient steps of each.

    Raises:
      ValueError: a number out of range, a wrong shape; names it.
      TypeError: an argument of the wrong kind.
    """
    box = _checks.box("bounds", bounds)
    dimension = box.shape[1]
    seeds = _checks.rows("initial", initial)
    if seeds.shape[1] != dimension or np.any(seeds < box[0]) or np.any(seeds > box[1]):
        raise ValueError(f"initial must be inside bounds, got shape {seeds.shape} for {dimension} hyper-parameters")
    size = _checks.size("batch", batch)
    proposed = _checks.size("proposals", proposals)
    for name, count in (("initial", len(seeds)), ("proposals", proposed)):
        if count % size:
            raise ValueError(f"{name} must be a multiple of the batch {size}, got {count}")
    try:
        marks = np.asarray([False] * dimension if whole is None else whole)
    except ValueError:  # of uneven lengths
        marks = np.zeros(0, bool)
    if marks.shape != (dimension,) or marks.dtype != bool:
        raise ValueError(f"whole must be {dimension} booleans, got {whole}")
    if np.any(box[:, marks] != np.round(box[:, marks])):
        raise ValueError(f"bounds of whole numbers must be whole numbers, got {box[:, marks].tolist()}")
    largest, worst = _checks.vector("reference", reference, 2).tolist()
    worst = _checks.positive("reference", largest), _checks.probability("reference", worst)
    dtype = jnp.result_type(float)
    params = kernels.stationary(0.5 * math.sqrt(dimension), dimension)
    exact = gp.Prior(kernels.matern52, params, jnp.asarray(max(1e-6, gp.jitter(dtype)), dtype))
    measured = gp.Prior(kernels.matern52, params, jnp.asarray(1e-2, dtype))
    return Config(
        bounds=jnp.asarray(box, dtype),
        initial=jnp.asarray(seeds, dtype),
        reference=jnp.asarray(worst, dtype),
        prior=(exact, measured),
        steps=(len(seeds) + proposed) // size,
        batch=size,
        whole=tuple(marks.tolist()),
        acquisition=_checks.choice("acquisition", acquisition, ACQUISITIONS),
        fit_steps=_checks.size("fit_steps", fit_steps),
        scatter=_checks.size("scatter", scatter),
        starts=_checks.size("starts", starts),
        climb_steps=_checks.size("climb_steps", climb_steps),
    )


def snapped(config: Config, unit: jax.Array) -> jax.Array:
    """``unit (d,)`` of the cube with whole coordinates rounded; a gradient passes as if they had not been."""
    low, high = config.bounds
    width = high - low
    rounded = jnp.clip((jnp.round(low + width * unit) - low) / width, 0.0, 1.0)
    return jnp.where(jnp.asarray(config.whole), unit + jax.lax.stop_gradient(rounded - unit), unit)


def unit_of(config: Config, points: jax.Array) -> jax.Array:
    """``points (k, d)`` in the unit cube, rounded and inside."""
    low, high = config.bounds
    return jax.vmap(lambda unit: snapped(config, unit))(jnp.clip((points - low[None]) / (high - low)[None], 0.0, 1.0))


def point_of(config: Config, units: jax.Array) -> jax.Array:
    """``units (k, d)`` as settings."""
    low, high = config.bounds
    points = low[None] + (high - low)[None] * units
    return jnp.where(jnp.asarray(config.whole)[None], jnp.round(points), points)
