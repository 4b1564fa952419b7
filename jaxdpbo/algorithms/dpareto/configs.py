"""What a search is told before it starts."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks
from jaxdpbo.surrogate import gp, kernels
from jaxdpbo.types import ArrayLike

ACQUISITIONS = ("hvpoi", "hvpoi_transformed", "ehvi")


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["bounds", "initial_design", "reference", "model"],
    meta_fields=[
        "steps",
        "batch",
        "integer_mask",
        "acquisition",
        "fit_steps",
        "raw_samples",
        "num_restarts",
        "ascent_steps",
        "users",
    ],
)
@dataclass(frozen=True)
class Config:
    """What a search is told before it starts; made by ``config``.

    Traced: ``bounds (2, d)``; ``initial_design (s, d)``, the seeds; ``reference (2,)``, the anti-ideal ``(epsilon,
      error)``;
    the numbers of ``model``, where the fits begin. The rest is static.
    """

    bounds: jax.Array
    initial_design: jax.Array
    reference: jax.Array
    model: tuple[gp.Model, gp.Model]
    steps: int
    batch: int
    integer_mask: tuple[bool, ...]
    acquisition: str
    fit_steps: int
    raw_samples: int
    num_restarts: int
    ascent_steps: int
    users: None  # one measurement a setting


def config(
    *,
    bounds: ArrayLike,
    initial_design: ArrayLike,
    proposals: int,
    reference: tuple[float, float] = (10.0, 0.999),
    integer_mask: ArrayLike | None = None,
    batch: int = 1,
    acquisition: str = "hvpoi",
    fit_steps: int = 5,
    raw_samples: int = 512,
    num_restarts: int = 4,
    ascent_steps: int = 12,
) -> Config:
    """Check a configuration.

    Args:
      bounds: ``(2, d)``, finite.
      initial_design: ``(s, d)`` seeds inside of them, a multiple of ``batch``: ``random_settings`` of the problem, say.
      proposals: settings after the seeds, a multiple of ``batch``.
      reference: the anti-ideal point: what is not below it in both is worth nothing.
      integer_mask: ``(d,)``, True where a hyper-parameter is a whole number; its bounds are too.
      batch: ``b``, proposed at once: each but the first as if those before had come out as believed.
      acquisition: of ``ACQUISITIONS``. "hvpoi" counts what a front gains in epsilon and error themselves, as
        ``Release.hypervolume`` does; "hvpoi_transformed" in their logarithm and logit, where a factor of epsilon counts
        the same however small: for fronts at small epsilon. "ehvi", the expected improvement, counts likewise.
      fit_steps: gradient steps of a refit, from where the last ended.
      raw_samples: points tried before the ascents.
      num_restarts: ascents; at most ``raw_samples``.
      ascent_steps: gradient steps of each.

    Raises:
      ValueError: a number out of range, a wrong shape; names it.
      TypeError: an argument of the wrong kind.
    """
    box = _checks.box("bounds", bounds)
    dimension = box.shape[1]
    seeds = _checks.rows("initial_design", initial_design)
    if seeds.shape[1] != dimension or np.any(seeds < box[0]) or np.any(seeds > box[1]):
        raise ValueError(
            f"initial_design must be inside bounds, got shape {seeds.shape} for {dimension} hyper-parameters"
        )
    size = _checks.size("batch", batch)
    proposed = _checks.size("proposals", proposals)
    for name, count in (("initial_design", len(seeds)), ("proposals", proposed)):
        if count % size:
            raise ValueError(f"{name} must be a multiple of the batch {size}, got {count}")
    try:
        marks = np.asarray([False] * dimension if integer_mask is None else integer_mask)
    except ValueError:  # of uneven lengths
        marks = np.zeros(0, bool)
    if marks.shape != (dimension,) or marks.dtype != bool:
        raise ValueError(f"integer_mask must be {dimension} booleans, got {integer_mask}")
    if np.any(box[:, marks] != np.round(box[:, marks])):
        raise ValueError(f"bounds of whole numbers must be whole numbers, got {box[:, marks].tolist()}")
    largest, worst = _checks.vector("reference", reference, 2).tolist()
    worst = _checks.positive("reference", largest), _checks.probability("reference", worst)
    dtype = jnp.result_type(float)
    params = kernels.stationary(0.5 * math.sqrt(dimension), dimension)
    exact = gp.Model(kernels.matern52, params, jnp.asarray(max(1e-6, gp.jitter(dtype)), dtype))
    measured = gp.Model(kernels.matern52, params, jnp.asarray(1e-2, dtype))
    return Config(
        bounds=jnp.asarray(box, dtype),
        initial_design=jnp.asarray(seeds, dtype),
        reference=jnp.asarray(worst, dtype),
        model=(exact, measured),
        steps=(len(seeds) + proposed) // size,
        batch=size,
        integer_mask=tuple(marks.tolist()),
        acquisition=_checks.choice("acquisition", acquisition, ACQUISITIONS),
        fit_steps=_checks.size("fit_steps", fit_steps),
        raw_samples=_checks.size("raw_samples", raw_samples),
        num_restarts=_checks.size("num_restarts", num_restarts),
        ascent_steps=_checks.size("ascent_steps", ascent_steps),
        users=None,
    )


def snapped(config: Config, unit: jax.Array) -> jax.Array:
    """``unit (d,)`` of the cube with whole coordinates rounded; a gradient passes as if they had not been."""
    low, high = config.bounds
    width = high - low
    rounded = jnp.clip((jnp.round(low + width * unit) - low) / width, 0.0, 1.0)
    return jnp.where(jnp.asarray(config.integer_mask), unit + jax.lax.stop_gradient(rounded - unit), unit)


def unit_of(config: Config, points: jax.Array) -> jax.Array:
    """``points (k, d)`` in the unit cube, rounded and inside."""
    low, high = config.bounds
    return jax.vmap(lambda unit: snapped(config, unit))(jnp.clip((points - low[None]) / (high - low)[None], 0.0, 1.0))


def point_of(config: Config, units: jax.Array) -> jax.Array:
    """``units (k, d)`` as settings."""
    low, high = config.bounds
    points = low[None] + (high - low)[None] * units
    return jnp.where(jnp.asarray(config.integer_mask)[None], jnp.round(points), points)
