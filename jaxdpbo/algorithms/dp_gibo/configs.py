"""Configuration of a run of DP-GIBO."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import arrays, checks
from jaxdpbo import space as spaces
from jaxdpbo.noise import calibration, private_scale
from jaxdpbo.space import Space
from jaxdpbo.surrogate import descent, gp, kernels
from jaxdpbo.types import ArrayLike, Bounds, Kernel, KernelParams

MEMORIES = ("all", "nearest", "recent", "none")
COUNTED = ("nearest", "recent")  # memories with a given number of points


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of a run; made by ``config``. All of it is public.

    Traced (a sweep over these compiles once): the numbers of ``noise``, ``clip_norm ()``, ``step_size (d,)``,
    ``tolerance ()``, the numbers of ``model``, ``bounds (2, d)``, ``theta0 (d,)``; ``origin (d,)`` and ``unit (d,)`` of
    the search, and ``gradient_unit ()`` of the optimizer's input. The rest is static. ``noise`` holds ``n`` and ``T``
    too: see ``noise.calibration``.
    """

    noise: calibration.SumNoise
    clip_norm: jax.Array
    step_size: jax.Array
    tolerance: jax.Array
    model: gp.GPModel
    bounds: jax.Array
    theta0: jax.Array
    origin: jax.Array
    unit: jax.Array
    gradient_unit: jax.Array
    batch: int = field(metadata={"static": True})
    remembered: int = field(metadata={"static": True})
    memory: str = field(metadata={"static": True})
    optimizer: Callable[..., optax.GradientTransformation] = field(metadata={"static": True})
    adaptive: bool = field(metadata={"static": True})
    output: str = field(metadata={"static": True})
    polish_steps: int = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """Number of users ``n``."""
        return self.noise.users

    @property
    def steps(self) -> int:
        """Number of steps ``T``."""
        return self.noise.steps

    @property
    def search_bounds(self) -> jax.Array:
        """The box ``(2, d)`` in the units of the search."""
        return self.to_search(self.bounds)

    @property
    def points(self) -> int:
        """Largest number ``m`` of the surrogate's points in one step."""
        return self.batch * self.steps if self.memory == "all" else self.remembered + self.batch

    @property
    def surrogate(self) -> gp.GPModel:
        """``model`` with a noise variance safe for factoring ``points`` points."""
        least = gp.jitter(self.theta0.dtype, self.points)
        variance = kernels.diagonal(self.model.kernel, self.model.params, self.to_search(self.theta0[None]))[0]
        return replace(self.model, noise_variance=jnp.maximum(self.model.noise_variance, least * variance))

    @property
    def capacity(self) -> int:
        """Number ``m`` of rows for evaluated points and for users' losses there; 0 with memory "none"."""
        longest = self.steps * self.batch
        if self.memory == "recent":
            return min(longest, self.remembered + self.batch)
        return 0 if self.memory == "none" else longest

    def to_search(self, points: jax.Array) -> jax.Array:
        """Convert points ``(m, d)`` of parameters to search units."""
        return (points - self.origin[None]) / self.unit[None]

    def to_parameters(self, points: jax.Array) -> jax.Array:
        """Convert points to the parameters' units, clipped to the box."""
        return jnp.clip(self.origin[None] + self.unit[None] * points, self.bounds[:1], self.bounds[1:])


def config(
    *,
    users: int,
    steps: int,
    mu: float,
    bounds: Bounds,
    batch: int | None = None,
    clip_norm: float | str = 1.0,
    theta0: ArrayLike | None = None,
    box_units: bool | None = None,
    step_size: ArrayLike | None = None,
    optimizer: Callable[..., optax.GradientTransformation] = optax.sgd,
    output: str = "last",
    kernel: Kernel = kernels.rbf,
    kernel_params: KernelParams = None,
    noise_variance: float = 1e-4,
    tolerance: float | None = None,
    memory: str = "all",
    remembered: int = 0,
    noise: str = "exact",
    polish_steps: int = 16,
) -> Config:
    """Check a configuration and make its leaves canonical.

    With ``box_units=False`` the defaults are Algorithm 1 as published.

    Choose every argument without looking at the users' losses: the guarantee assumes this.

    Args:
      users: ``n``, the number of losses returned by the objective; taken to be public.
      steps: ``T``.
      mu: the total GDP budget; ``inf`` is exactly the non-private algorithm.
      bounds: ``(2, d)``, lower and upper, or a ``Space``; iterates and evaluations stay inside. Infinite sides are
        allowed if you pass ``step_size``, ``theta0`` and ``kernel_params``.
      batch: ``b``, evaluations a step; with ``tolerance``, the cap; default ``d + 1``.
      clip_norm: ``B``, the bound on one user's gradient: in box units the change of a loss over half a side. A larger
        norm means more noise and less bias. "private" finds the norm in the first step, from the median of the
        gradients' norms, for 5 % of ``mu^2``; the optimizer then gets gradients in units of this norm.
      theta0: the start; default: the middle of the box.
      box_units: True: ``clip_norm``, ``step_size``, ``kernel_params`` and ``tolerance`` refer to the box as
        ``[-1, 1]^d``, and the optimizer gets gradients in units of ``clip_norm``. False: all refer to the parameters as
        they are. Default: whether the box is finite.
      step_size: a number or ``(d,)``, passed to ``optimizer``; default: half a side of the box.
      optimizer: an optax factory called as ``optimizer(step_size)``, such as ``optax.sgd``, ``optax.adagrad`` (its sum
        of squares begins at 0.1, in the published rule at 0: plain descent while gradients stay under 0.1).
      output: the ``point`` of ``release``: "last", the last iterate, or "last_half_mean", the mean of the second half
        of the path. Both are post-processing.
      kernel: of the surrogate, from ``jaxdpbo.kernels``.
      kernel_params: parameters of the kernel; default for a stationary kernel: half a side of the box as lengthscales.
      noise_variance: of one observation (section 3.4). Raised to ``gp.jitter(dtype, m) k(x, x)`` if lower, for the
        ``m`` points of a step: in float32 above 1e-4 from 105 points on.
      tolerance: Algorithm 2's epsilon, on the trace of the gradient's covariance.
      memory: earlier points used by a step: "all"; a number of points, "nearest" in correlation or most "recent" (for
        many users: older losses are forgotten); or "none".
      remembered: the number of points for "nearest" and "recent"; for "recent" a multiple of ``batch``.
      noise: "exact", on an integer grid; "float", faster, for research sweeps; or "none" (only with ``mu = inf``).
      polish_steps: gradient steps on the acquisition after the best structured start.

    Raises:
      ValueError: a number out of range, a wrong shape, bounds reversed, ``theta0`` outside; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gibo
    >>> chosen = dp_gibo.config(users=500, steps=5, mu=1.0, bounds=[(0, 6)] * 3)
    >>> dp_gibo.algorithm.privacy(chosen).level <= 1.0
    True
    """
    bounds, space = spaces.box(bounds)
    spaces.refuse_branches(space, f"a descent has no gradient from branch to branch: {spaces.SEARCHES}")
    limits = checks.box("bounds", bounds, finite=False)
    dimension = limits.shape[1]
    start = checks.inside("theta0", checks.from_box("theta0", theta0, limits, checks.middle), limits)
    boxed = _in_box(box_units, limits)
    origin, unit = _units(boxed, limits)
    searched = (limits - origin) / unit
    sizes = checks.step_size(step_size, searched)
    if kernel_params is None:
        lengthscale = checks.from_box("kernel_params", None, searched, checks.half_width)
        kernel_params = kernels.stationary_params(lengthscale, dimension)
    kernels.check(kernel, kernel_params, dimension)
    checks.optimizer("optimizer", optimizer, dimension)

    points = dimension + 1 if batch is None else checks.size("batch", batch)
    checks.one_of("memory", memory, MEMORIES)
    if memory == "none" and points < dimension + 1:
        raise ValueError(
            f"batch must be at least d + 1 = {dimension + 1} with memory='none', got {points}: fewer points do "
            "not determine a gradient"
        )
    remembered = checks.size("remembered", remembered, minimum=0)
    if memory in COUNTED and not remembered:
        raise ValueError(f"remembered must be given with memory={memory!r}, such as {5 * points}, got 0")
    if memory not in COUNTED and remembered:
        raise ValueError(f"remembered must be 0 unless memory is 'nearest' or 'recent', got {remembered}")
    if memory == "recent" and remembered % points:
        raise ValueError(f"remembered must be a multiple of batch = {points} with memory='recent', got {remembered}")
    dtype = jnp.result_type(float)
    leaf = partial(arrays.to_device, dtype=dtype)
    clip = private_scale.clip_norm(clip_norm, dtype)
    return Config(
        noise=calibration.sum_noise(
            mu, noise, users=users, steps=steps, dimension=dimension, dtype=dtype, find_scale=isinstance(clip_norm, str)
        ),
        clip_norm=leaf(clip),
        step_size=leaf(sizes),
        tolerance=leaf(0.0 if tolerance is None else checks.positive("tolerance", tolerance, dtype=dtype)),
        model=gp.GPModel(kernel, kernel_params, leaf(checks.positive("noise_variance", noise_variance, dtype=dtype))),
        bounds=leaf(limits),
        theta0=leaf(start),
        origin=leaf(origin),
        unit=leaf(unit),
        gradient_unit=leaf(clip if boxed and not isinstance(clip_norm, str) else 1.0),
        batch=points,
        remembered=remembered,
        memory=memory,
        optimizer=optimizer,
        adaptive=tolerance is not None,
        output=checks.one_of("output", output, descent.OUTPUTS),
        polish_steps=checks.size("polish_steps", polish_steps, minimum=0),
        space=space,
    )


def _in_box(box_units: bool | None, limits: np.ndarray) -> bool:
    """Return whether the search uses box units."""
    finite = bool(np.all(np.isfinite(limits)))
    boxed = finite if box_units is None else checks.flag("box_units", box_units)
    if boxed and not finite:
        raise ValueError(f"box_units must be False where bounds are infinite, got {limits.tolist()}")
    return boxed


def _units(boxed: bool, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Origin and unit of the search for each parameter."""
    if not boxed:
        return np.zeros(limits.shape[1]), np.ones(limits.shape[1])
    return checks.middle(limits), checks.half_width(limits)
