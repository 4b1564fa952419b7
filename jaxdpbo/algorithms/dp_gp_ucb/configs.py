"""What a run of DP-GP-UCB is told before it starts, sensitivities included: computed here, on the host, from public
numbers.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks
from jaxdpbo.privacy import calibration, guarantee
from jaxdpbo.surrogate import gp, information_gain, kernels, preprocessing
from jaxdpbo.theory import dp_gp_ucb as theory
from jaxdpbo.types import ArrayLike, Kernel, KernelParams

NOISES = ("exact", "float")

GAUSSIAN_PROCESS = "the utilities of all data sets are one draw of the stated Gaussian process (Assumption 1)"
GAUSSIAN_NOISE = "each utility is observed with independent Gaussian noise of the stated variance"
EXACT_UTILITY = "each utility is observed without noise"
BEST_QUERIES = "every query maximises the upper confidence bound over the box"
# Rounding of the posterior mean, in deviations of the prior: no bound holds for every path of queries, since triangular
# solves lose digits where points crowd. Over ten times the largest seen (tests/test_finite.py), for 1 to 2 %.
MEAN_ERROR = 0.05
COMPUTED_MEAN = f"the posterior mean is computed to within {MEAN_ERROR:g} deviations of the prior"
PRINTED_VALUE = "the sensitivity that theorems 3 and 5 print for the largest utility is no bound"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "candidates", "bounds", "grid", "model", "centre", "scale", "limits", "beta_offset", "beta_slope",
        "epsilon_point", "epsilon_value", "point_units", "value_units", "point_sensitivity", "value_sensitivity",
        "delta", "gain_grids",
    ],
    meta_fields=[
        "steps", "release", "acquisition", "assumptions", "no_guarantee_reason", "raw_samples", "num_restarts",
        "ascent_steps",
        "noise", "point_rate", "value_rate", "users",
    ],
)  # fmt: skip
@dataclass(frozen=True)
class Config:
    """What a run is told before it starts; made by ``config`` or ``lipschitz_config``.

    Traced, in standard units:
      ``candidates (c, d)``, or ``bounds (2, d)`` and ``grid (g, d)``, the others None; the numbers of ``model``;
      ``centre ()`` and ``scale ()``; ``limits (2,)``, to which utilities are clipped; ``beta_t`` as ``beta_offset +
      beta_slope log t``; the budgets, sensitivities and ``delta ()``; ``gain_grids``, of ``lipschitz_config`` with
      exact noise, one for the point and one for the value, if released (``gains.Grid``).

    Static: ``steps``; ``release`` "point", "value" or "both"; ``acquisition``; ``assumptions``;
    ``no_guarantee_reason``, why there is no guarantee, or ""; sizes of the search of a box; ``noise`` and the rates of
    the exact one, see ``privacy.calibration``; ``users``, ``n`` where the objective returns gains ``(n,)``, otherwise
    None.
    """

    candidates: jax.Array | None
    bounds: jax.Array | None
    grid: jax.Array | None
    model: gp.Model
    centre: jax.Array
    scale: jax.Array
    limits: jax.Array
    beta_offset: jax.Array
    beta_slope: jax.Array
    epsilon_point: jax.Array
    epsilon_value: jax.Array
    point_units: jax.Array
    value_units: jax.Array
    point_sensitivity: jax.Array
    value_sensitivity: jax.Array
    delta: jax.Array
    gain_grids: tuple[Any, ...]
    steps: int
    release: str
    acquisition: str
    assumptions: tuple[str, ...]
    no_guarantee_reason: str
    raw_samples: int
    num_restarts: int
    ascent_steps: int
    noise: str
    point_rate: Fraction
    value_rate: Fraction
    users: int | None

    @property
    def shortlist(self) -> jax.Array:
        """The points ``(c, d)`` or ``(g, d)`` that may be released."""
        points = self.grid if self.candidates is None else self.candidates
        assert points is not None
        return points


def config(
    *,
    steps: int,
    epsilon: float,
    delta: float,
    correlation: float,
    candidates: ArrayLike | None = None,
    bounds: ArrayLike | None = None,
    grid: ArrayLike | None = None,
    slope: tuple[float, float] | None = None,
    release: str = "point",
    point_share: float = 0.5,
    noise_variance: float = 0.0,
    kernel: Kernel = kernels.matern52,
    kernel_params: KernelParams = None,
    centre: float = 0.0,
    scale: float = 1.0,
    decay: tuple[float, float] | None = None,
    constants: str = "corrected",
    raw_samples: int = 1000,
    num_restarts: int = 8,
    ascent_steps: int = 50,
    noise: str = "exact",
) -> Config:
    """Algorithm 1 (noisy) or 2 (exact observations). Everything here must be public, the kernel's numbers too.

    Formal guarantee: ``(epsilon, delta)``, replace-one, AVERAGED OVER THE PRIOR: ``delta`` counts the draws of the
    utilities for which the sensitivity bound fails, for a fixed pair of data sets. It is not differential privacy,
    which is about the worst pair, and it is nothing where the prior is wrong. With ``constants="paper"`` it is the same
    for the point alone (theorem 1 holds as printed) and none for the value (theorems 3 and 5 do not).

    Args:
      steps: ``T``, each one evaluation.
      epsilon: the whole budget.
      delta: the whole failure probability, in (0, 1).
      correlation: the least ``k1(V, V')`` of neighbouring data sets, in [0, 1]: 1 would mean that nobody matters.
      candidates: ``(c, d)``, finite and distinct, to search a finite set: this or ``bounds``.
      bounds: ``(2, d)``, finite, to search a box by Algorithm 1.
      grid: ``(g, d)``, the points that may be released where ``bounds`` is given and a point is wanted.
      slope: ``(a, b)``, of ``theory.Box``, where ``bounds`` is given and a value is wanted.
      release: "point", "value" (the largest utility), or "both".
      point_share: of ``epsilon``, and over a box of ``delta``, for the point, where both are released.
      noise_variance: of one observation, in standard units; 0 for exact ones, over a finite set.
      kernel: ``k2``, with ``k2(x, x) = 1``.
      kernel_params: its numbers; a lengthscale of ``sqrt(d) / 4`` of each side of the search where not given.
      centre: the prior's mean, in units of the utility.
      scale: its standard deviation, in units of the utility.
      decay: ``(A, tau)``, PUBLIC constants of de Freitas et al. (2012), in standard units, in place of the computed
        regret bound of exact observations.
      constants: "corrected", or "paper" for the printed ones.
      raw_samples: points tried before the ascents, over a box.
      num_restarts: ascents, over a box; at most ``raw_samples``.
      ascent_steps: gradient steps of each.
      noise: "exact", on an integer grid, or "float", for research sweeps.

    Raises:
      ValueError: a number out of range, empty or duplicated candidates, a kernel whose variance is not 1, a combination
        that no theorem covers; names it.
      TypeError: an argument of the wrong kind.
    """
    steps, delta = _checks.size("steps", steps), _checks.probability("delta", delta)
    _checks.choice("release", release, theory.RELEASES)
    _checks.choice("constants", constants, theory.CONSTANTS)
    correlation = _checks.fraction("correlation", correlation)
    variance = _checks.nonnegative("noise_variance", noise_variance)
    if (bounds is None) == (candidates is None):
        raise ValueError("exactly one of bounds and candidates must be given")
    if variance and variance < gp.jitter(jnp.result_type(float)):
        raise ValueError(f"noise_variance must be 0 or at least {gp.jitter(jnp.result_type(float)):g}, got {variance}")
    _checks.size("num_restarts", num_restarts)
    if num_restarts > _checks.size("raw_samples", raw_samples):
        raise ValueError(f"num_restarts must be at most raw_samples = {raw_samples}, got {num_restarts}")
    shares = split(epsilon, release, point_share)
    if decay is not None:
        amplitude, rate = _checks.vector("decay", decay, 2).tolist()
        decay = _checks.positive("decay", amplitude), _checks.positive("decay", rate)
    numbers = {
        "steps": steps, "delta": delta, "correlation": correlation, "noise_variance": variance, "release": release,
    }  # fmt: skip
    if bounds is None:
        rows = _checks.distinct_rows("candidates", candidates)
        model = unit_prior(kernel, kernel_params, rows, variance)
        found = theory.over_candidates(
            candidates=len(rows),
            dimension=rows.shape[1],
            information=lambda noise: information_gain.gain_bound(_noised(model, noise), rows, steps),
            constants=constants,
            decay=decay,
            skip_threshold=gp.jitter(jnp.result_type(float)),
            **numbers,
        )
        place = {"candidates": rows}
    else:
        if not variance or decay is not None or constants == "paper":
            raise ValueError("over bounds no theorem covers noise_variance = 0, decay or the paper's constants")
        limits = _checks.box("bounds", bounds)
        if (grid is None) != (release == "value"):
            raise ValueError("grid must be given over a box where a point is released, and only there")
        if (slope is None) != (release == "point"):
            raise ValueError("slope must be given over a box where a value is released, and only there")
        points = None if grid is None else _checks.distinct_rows("grid", grid)
        model = unit_prior(kernel, kernel_params, limits, variance)
        mass, steep = (1.0, 1.0) if slope is None else _checks.vector("slope", slope, 2).tolist()
        found = theory.over_box(
            box=theory.Box(limits.shape[1], float(np.max(limits[1] - limits[0])), mass, steep),
            grid=1 if points is None else len(points),
            delta_point=_checks.probability("point_share", point_share) * delta,
            information=lambda noise: information_gain.gain_bound_of_box(_noised(model, noise), limits, steps),
            **numbers,
        )
        place = {"bounds": limits, "grid": points}
    assumptions = (
        *of_noise(noise),
        *((COMPUTED_MEAN,) if noise == "exact" and release != "value" else ()),
        *(guarantee.PUBLIC_CONFIG, GAUSSIAN_PROCESS),
        GAUSSIAN_NOISE if variance else EXACT_UTILITY,
        *((BEST_QUERIES,) if bounds is not None and release != "point" else ()),
    )
    middle, scale = _checks.number("centre", centre), _checks.positive("scale", scale)
    point_sensitivity, value_sensitivity = found.point_sensitivity, found.value_sensitivity
    if noise == "exact" and release != "value":
        if not variance and jnp.result_type(float) != jnp.float64:
            raise ValueError(
                "noise_variance must be positive where a point is released in float32 with exact noise, got 0: float32 "
                "loses the posterior mean of exact observations (jax_enable_x64 keeps it; noise='float' has no grid)"
            )
        point_sensitivity += 2.0 * MEAN_ERROR
    if noise == "exact" and release != "point":
        value_sensitivity += _rounding(middle, scale, value_sensitivity)
    return canonical(
        **place,
        model=model,
        centre=middle,
        scale=scale,
        limits=np.array([-preprocessing.MAX_STANDARDIZED, preprocessing.MAX_STANDARDIZED]),
        beta_offset=found.beta_offset,
        beta_slope=found.beta_slope,
        point_sensitivity=point_sensitivity,
        value_sensitivity=value_sensitivity,
        delta=delta,
        shares=shares,
        units=tuple(
            calibration.units("epsilon", part if noise == "exact" else 0.0, moves)
            for part, moves in zip(shares, (2, 1), strict=True)
        ),
        steps=steps,
        release=release,
        acquisition="ucb",
        assumptions=assumptions,
        no_guarantee_reason=PRINTED_VALUE if constants == "paper" and release != "point" else "",
        raw_samples=raw_samples,
        num_restarts=num_restarts,
        ascent_steps=_checks.size("ascent_steps", ascent_steps),
        noise=noise,
    )


def split(epsilon: float, release: str, share: float) -> tuple[float, float]:
    """What the point and the value are given of the budget."""
    budget, share = _checks.positive("epsilon", epsilon), _checks.probability("point_share", share)
    parts = {"point": (1.0, 0.0), "value": (0.0, 1.0), "both": (share, 1.0 - share)}[release]
    return budget * parts[0], budget * parts[1]


def _rounding(centre: float, scale: float, sensitivity: float) -> float:
    """How far rounding moves two utilities, in standard units: ``(value - centre) / scale``, clipped.

    A value within the limits is at most ``|centre| + MAX_STANDARDIZED scale``: rounded to the dtype, subtracted,
    divided.
    """
    dtype = jnp.result_type(float)
    both = 2.0 * 3.0 * float(jnp.finfo(dtype).eps) * (preprocessing.MAX_STANDARDIZED + abs(centre) / scale)
    if both > 0.1 * sensitivity:
        raise ValueError(
            f"centre must be nearer to 0 for exact noise, got {centre:g} with scale = {scale:g}: {dtype} cannot tell "
            f"such utilities apart (jax_enable_x64 can, and noise='float' has no grid)"
        )
    return both


def of_noise(noise: str) -> tuple[str, ...]:
    """What a release rests on because of its noise."""
    if _checks.choice("noise", noise, NOISES) == "float":
        return (guarantee.IDEAL_NOISE,)
    return (guarantee.RANDOM_BITS,)


def unit_prior(kernel: Kernel, params: KernelParams, points: np.ndarray, noise: float) -> gp.Model:
    """A kernel of variance 1 at every one of ``points (k, d)``, or the corners of a box."""
    dimension = points.shape[1]
    if params is None:
        params = kernels.stationary_over(np.stack([points.min(axis=0), points.max(axis=0)]))
    kernels.check(kernel, params, dimension)
    dtype = jnp.result_type(float)
    variances = np.asarray(kernels.diagonal(kernel, params, jnp.asarray(points, dtype)))
    if np.max(np.abs(variances - 1.0)) > 1e-5:
        raise ValueError(f"kernel must have variance 1 (scale is for the utility's), got {variances.max():g}")
    return gp.Model(kernel, params, jnp.asarray(noise, dtype))


def _noised(model: gp.Model, noise: float) -> gp.Model:
    return replace(model, noise_variance=jnp.asarray(noise, model.noise_variance.dtype))


def canonical(
    *, shares, units, candidates=None, bounds=None, grid=None, model, steps, release, acquisition, assumptions,
    no_guarantee_reason,
    noise, raw_samples=1, num_restarts=1, ascent_steps=1, users=None, grids=(), **numbers,
) -> Config:  # fmt: skip
    """The record, its numbers arrays of one dtype."""

    def leaf(value: Any) -> Any:
        return None if value is None else jnp.asarray(value, jnp.result_type(float))

    point, value = units
    return Config(
        candidates=leaf(candidates),
        bounds=leaf(bounds),
        grid=leaf(grid),
        model=model,
        epsilon_point=leaf(shares[0]),
        epsilon_value=leaf(shares[1]),
        point_units=point.units,
        value_units=value.units,
        gain_grids=grids,
        steps=steps,
        release=release,
        acquisition=acquisition,
        assumptions=assumptions,
        no_guarantee_reason=no_guarantee_reason,
        raw_samples=raw_samples,
        num_restarts=num_restarts,
        ascent_steps=ascent_steps,
        noise=noise,
        point_rate=point.rate,
        value_rate=value.rate,
        users=users,
        **{name: leaf(value) for name, value in numbers.items()},
    )
