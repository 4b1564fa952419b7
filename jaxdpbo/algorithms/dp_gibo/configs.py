"""What a run of DP-GIBO is configured with."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import _arrays, _checks
from jaxdpbo import space as spaces
from jaxdpbo.privacy import calibration, private_scale
from jaxdpbo.space import Space
from jaxdpbo.surrogate import descent, gp, kernels
from jaxdpbo.types import ArrayLike, Bounds, Kernel, KernelParams

MEMORIES = ("all", "nearest", "recent", "none")
COUNTED = ("nearest", "recent")  # memories of a number of points


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """What a run needs before it starts; made by ``config``. All of it is public.

    Traced (a sweep over these compiles once): the numbers of ``budget``, ``clip_norm ()``, ``step_size (d,)``,
    ``tolerance ()``, the numbers of ``model``, ``bounds (2, d)``, ``theta0 (d,)``; ``origin (d,)`` and ``unit (d,)`` of
    the search, and ``gradient_unit ()`` of what the optimizer gets. The rest is static. ``budget`` holds ``n`` and
    ``T`` too: see ``privacy.calibration``.
    """

    budget: calibration.SumBudget
    clip_norm: jax.Array
    step_size: jax.Array
    tolerance: jax.Array
    model: gp.Model
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
        """``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """``T``."""
        return self.budget.steps

    @property
    def search_bounds(self) -> jax.Array:
        """The box ``(2, d)`` in the units of the search."""
        return self.to_search(self.bounds)

    @property
    def points(self) -> int:
        """``m``, of the surrogate in one step, at most."""
        return self.batch * self.steps if self.memory == "all" else self.remembered + self.batch

    @property
    def surrogate(self) -> gp.Model:
        """``model`` with a noise variance at which the factorisation of so many points is safe."""
        least = gp.jitter(self.theta0.dtype, self.points)
        variance = kernels.diagonal(self.model.kernel, self.model.params, self.to_search(self.theta0[None]))[0]
        return replace(self.model, noise_variance=jnp.maximum(self.model.noise_variance, least * variance))

    @property
    def capacity(self) -> int:
        """``m``: rows of the memory, of the evaluated points and of users' losses there; 0 with memory "none"."""
        longest = self.steps * self.batch
        if self.memory == "recent":
            return min(longest, self.remembered + self.batch)
        return 0 if self.memory == "none" else longest

    def to_search(self, points: jax.Array) -> jax.Array:
        """Points ``(m, d)`` of parameters in the units of the search."""
        return (points - self.origin[None]) / self.unit[None]

    def to_parameters(self, points: jax.Array) -> jax.Array:
        """And back, inside the box whatever rounding did."""
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

    Every argument must be chosen without looking at the users' losses; the guarantee says so.

    Args:
      users: ``n``, how many losses the objective returns; taken to be public.
      steps: ``T``.
      mu: the total GDP budget; ``inf`` is exactly the non-private algorithm.
      bounds: ``(2, d)``, lower and upper, or a ``Space``; iterates and evaluations stay inside. Infinite sides are
        allowed where ``step_size``, ``theta0`` and ``kernel_params`` are given.
      batch: ``b``, evaluations a step; with ``tolerance``, the cap. ``d + 1`` where not given.
      clip_norm: ``B``, the bound on one user's gradient: in box units the change of a loss over half a side. Noise
        grows with it, bias shrinks. "private" finds it in the first step, from the median of their norms, for 5 % of
        ``mu^2``; the optimizer then gets gradients in units of it.
      theta0: where to start; the middle of the box where not given.
      box_units: whether ``clip_norm``, ``step_size``, ``kernel_params`` and ``tolerance`` are of the box as
        ``[-1, 1]^d``, and the optimizer gets gradients in units of ``clip_norm``; or all are of the parameters as
        they are. Where not given, whether the box is finite.
      step_size: one number or ``(d,)``, passed to ``optimizer``; half a side of the box where not given.
      optimizer: an optax factory called as ``optimizer(step_size)``, such as ``optax.sgd``, ``optax.adagrad`` (which
        begins its sum of squares at 0.1, the published rule at 0: plain descent while gradients stay under that).
      output: what ``release`` names ``point``: "last", the last iterate, or "last_half_mean", the mean of the
        second half of the path. Both are post-processing.
      kernel: of the surrogate, from ``jaxdpbo.surrogate.kernels``.
      kernel_params: its numbers; for a stationary kernel, half a side of the box as lengthscales where not given.
      noise_variance: of one observation (section 3.4). Under ``gp.jitter(dtype, m) k(x, x)``, for the ``m`` points that
        a step may use, it is raised to that: in float32 above 1e-4 from 105 points on.
      tolerance: Algorithm 2's epsilon, on the trace of the gradient's covariance.
      memory: which earlier points a step uses: "all"; of a number, the "nearest" in correlation, or the most "recent",
        for many users, whose other losses are forgotten; or "none".
      remembered: that number, for "nearest" and "recent"; for the latter a multiple of ``batch``.
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
    limits = _checks.box("bounds", bounds, finite=False)
    dimension = limits.shape[1]
    start = _checks.inside("theta0", _checks.from_box("theta0", theta0, limits, _checks.middle), limits)
    boxed = _in_box(box_units, limits)
    origin, unit = _units(boxed, limits)
    searched = (limits - origin) / unit
    sizes = _checks.step_size(step_size, searched)
    if kernel_params is None:
        lengthscale = _checks.from_box("kernel_params", None, searched, _checks.half_width)
        kernel_params = kernels.stationary(lengthscale, dimension)
    kernels.check(kernel, kernel_params, dimension)
    _checks.optimizer("optimizer", optimizer, dimension)

    points = dimension + 1 if batch is None else _checks.size("batch", batch)
    _checks.choice("memory", memory, MEMORIES)
    if memory == "none" and points < dimension + 1:
        raise ValueError(
            f"batch must be at least d + 1 = {dimension + 1} with memory='none', got {points}: fewer points can "
            "not determine a gradient"
        )
    remembered = _checks.size("remembered", remembered, minimum=1 if memory in COUNTED else 0)
    if memory not in COUNTED and remembered:
        raise ValueError(f"remembered must be 0 unless memory is 'nearest' or 'recent', got {remembered}")
    if memory == "recent" and remembered % points:
        raise ValueError(f"remembered must be a multiple of batch = {points} with memory='recent', got {remembered}")
    dtype = jnp.result_type(float)
    leaf = partial(_arrays.to_device, dtype=dtype)
    clip = private_scale.clip_norm(clip_norm, dtype)
    return Config(
        budget=calibration.budget(
            mu, noise, users=users, steps=steps, dimension=dimension, dtype=dtype, find_scale=isinstance(clip_norm, str)
        ),
        clip_norm=leaf(clip),
        step_size=leaf(sizes),
        tolerance=leaf(0.0 if tolerance is None else _checks.positive("tolerance", tolerance, dtype=dtype)),
        model=gp.Model(kernel, kernel_params, leaf(_checks.positive("noise_variance", noise_variance, dtype=dtype))),
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
        output=_checks.choice("output", output, descent.OUTPUTS),
        polish_steps=_checks.size("polish_steps", polish_steps, minimum=0),
        space=space,
    )


def _in_box(box_units: bool | None, limits: np.ndarray) -> bool:
    """Whether the units of the search are the box's."""
    finite = bool(np.all(np.isfinite(limits)))
    wanted = finite if box_units is None else _checks.flag("box_units", box_units)
    if wanted and not finite:
        raise ValueError(f"box_units must be False where bounds are infinite, got {limits.tolist()}")
    return wanted


def _units(boxed: bool, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the search has its origin, and its unit: one of each a parameter."""
    if not boxed:
        return np.zeros(limits.shape[1]), np.ones(limits.shape[1])
    return _checks.middle(limits), _checks.half_width(limits)
