"""Configuration of a search, and the searched unit cube."""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks
from jaxdpbo import space as spaces
from jaxdpbo.space import Space
from jaxdpbo.surrogate import box_search, gp, kernels
from jaxdpbo.types import ArrayLike, Bounds

ACQUISITIONS = ("hvpoi", "hvpoi_transformed", "ehvi")
SEARCH = box_search.BoxSearch(raw_samples=512, num_restarts=4, ascent_steps=12)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of a search; made by ``config``. The fields up to ``model`` are traced, the rest is static.

    Attributes:
      bounds: ``(2, d)``.
      initial_design: ``(s, d)``.
      reference: ``(2,)``, the anti-ideal ``(epsilon, error)``.
      model: of ``log epsilon`` and of ``logit error``, where the fits begin.
      steps: ``T``, those of the initial design among them.
      batch: ``b``.
      integer_mask: marks the whole numbers among the ``d`` hyper-parameters.
      acquisition: of ``ACQUISITIONS``.
      fit_steps: of a refit.
      search: for the largest acquisition.
      users: None: an objective returns one measurement of a setting, not one for each user.
      space: of ``bounds``, if they are a ``Space``.
    """

    bounds: jax.Array
    initial_design: jax.Array
    reference: jax.Array
    model: tuple[gp.GPModel, gp.GPModel]
    steps: int = field(metadata={"static": True})
    batch: int = field(metadata={"static": True})
    integer_mask: tuple[bool, ...] = field(metadata={"static": True})
    acquisition: str = field(metadata={"static": True})
    fit_steps: int = field(metadata={"static": True})
    search: box_search.BoxSearch = field(metadata={"static": True})
    users: None = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})


def config(
    *,
    bounds: Bounds,
    initial_design: ArrayLike,
    proposals: int,
    reference: tuple[float, float] = (10.0, 0.999),
    integer_mask: ArrayLike | None = None,
    batch: int = 1,
    acquisition: str = "hvpoi",
    fit_steps: int = 5,
    search: box_search.BoxSearch = SEARCH,
) -> Config:
    """Check a configuration.

    Args:
      bounds: ``(2, d)``, finite; or a ``Space``, to search its unit box, seeds included.
      initial_design: ``(s, d)`` seeds inside the bounds, ``s`` a multiple of ``batch``.
      proposals: settings after the seeds, a multiple of ``batch``.
      reference: the anti-ideal ``(epsilon, error)``: a setting not below it in both adds nothing.
      integer_mask: ``(d,)``, True where a hyper-parameter is a whole number; its bounds are too.
      batch: ``b``, settings proposed at once: each after the first as if the earlier ones had been measured, at their
        posterior mean.
      acquisition: of ``ACQUISITIONS``. "hvpoi" measures the gain of a front in epsilon and error themselves, like
        ``Release.hypervolume``; "hvpoi_transformed" in their logarithm and logit, where a factor of epsilon always
        counts the same: for fronts at small epsilon. "ehvi", the expected improvement, also uses logarithm and logit.
      fit_steps: gradient steps of a refit, from the end of the last.
      search: settings of the search for the largest acquisition.

    Raises:
      ValueError: a number out of range, a wrong shape; names the argument.
      TypeError: an argument of the wrong kind.

    Examples:
      >>> import jax, jax.numpy as jnp
      >>> import jaxdpbo
      >>> from jaxdpbo import surrogate
      >>> def objective(point, data):  # more of the hyper-parameter: less epsilon, more error
      ...     return jnp.stack([jnp.exp(data - 3 * point[0]), point[0]])
      >>> config = jaxdpbo.dpareto.config(
      ...     bounds=[[0.0], [1.0]], initial_design=[[0.2], [0.8]], proposals=2, search=surrogate.BoxSearch(16, 1, 2)
      ... )
      >>> run = jaxdpbo.run_scan(jaxdpbo.dpareto.algorithm, objective, jnp.asarray(1.0), config)
      >>> run.release.values.shape, int(run.release.front.sum()), run.guarantee.notion
      ((4, 2), 4, 'none')
    """
    bounds, space = spaces.box(bounds)
    box = checks.box("bounds", bounds)
    dimension = box.shape[1]
    seeds = checks.rows("initial_design", initial_design)
    if seeds.shape[1] != dimension or np.any(seeds < box[0]) or np.any(seeds > box[1]):
        raise ValueError(
            f"initial_design must be inside bounds, got shape {seeds.shape} for {dimension} hyper-parameters"
        )
    size = checks.size("batch", batch)
    proposed = checks.size("proposals", proposals)
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
        raise ValueError(f"bounds must be whole numbers where integer_mask is True, got {box[:, marks].tolist()}")
    largest, worst = checks.vector("reference", reference, 2).tolist()
    worst = checks.positive("reference", largest), checks.probability("reference", worst)
    dtype = jnp.result_type(float)
    params = kernels.stationary_params(0.5 * math.sqrt(dimension), dimension)
    kernel = kernels.of_space(kernels.matern52, space)
    exact = gp.GPModel(kernel, params, arrays.to_device(max(1e-6, gp.jitter(dtype)), dtype))
    measured = gp.GPModel(kernel, params, arrays.to_device(1e-2, dtype))
    return Config(
        bounds=arrays.to_device(box, dtype),
        initial_design=arrays.to_device(seeds, dtype),
        reference=arrays.to_device(worst, dtype),
        model=(exact, measured),
        steps=(len(seeds) + proposed) // size,
        batch=size,
        integer_mask=tuple(marks.tolist()),
        acquisition=checks.one_of("acquisition", acquisition, ACQUISITIONS),
        fit_steps=checks.size("fit_steps", fit_steps),
        search=box_search.make_search(search),
        users=None,
        space=space,
    )


def snap(config: Config, unit: jax.Array) -> jax.Array:
    """Round the whole coordinates of ``unit (d,)``; gradients pass as if nothing were rounded."""
    low, high = config.bounds
    width = high - low
    rounded = jnp.clip((jnp.round(low + width * unit) - low) / width, 0.0, 1.0)
    return jnp.where(jnp.asarray(config.integer_mask), unit + jax.lax.stop_gradient(rounded - unit), unit)


def to_units(config: Config, points: jax.Array) -> jax.Array:
    """Convert ``points (k, d)`` to the unit cube, rounded and inside."""
    low, high = config.bounds
    return jax.vmap(lambda unit: snap(config, unit))(jnp.clip((points - low[None]) / (high - low)[None], 0.0, 1.0))


def to_points(config: Config, units: jax.Array) -> jax.Array:
    """Convert ``units (k, d)`` to settings."""
    low, high = config.bounds
    points = low[None] + (high - low)[None] * units
    return jnp.where(jnp.asarray(config.integer_mask)[None], jnp.round(points), points)
