"""Configuration of a run of DP-GP-UCB.

The sensitivities are those of ``sensitivity``, computed here on the host from public numbers.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, rounding, sensitivity
from jaxdpbo import space as spaces
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.noise import calibration
from jaxdpbo.space import Space
from jaxdpbo.surrogate import box_search, gp, information_gain, kernels, preprocessing
from jaxdpbo.types import ArrayLike, Bounds, Kernel, KernelParams

NOISES = ("exact", "float")
MOVES = sensitivity.between_scores(1), 1  # in units of a score: for the point a choice among scores, for the value one
SEARCH = box_search.BoxSearch()
TRACED = (
    "candidates", "bounds", "grid", "centre", "scale", "limits", "beta_offset", "beta_slope", "point_sensitivity",
    "value_sensitivity", "delta",
)  # fmt: skip

# Rounding of the posterior mean, in deviations of the prior: no bound holds for every path of queries, since triangular
# solves lose digits where points crowd. Over ten times the largest error seen (tests/test_finite.py), for 1 to 2 %.
MEAN_ERROR = 0.05  # the same number as in ``assumptions.COMPUTED_MEAN``
PRINTED_VALUE = "the sensitivity that theorems 3 and 5 print for the largest utility is no bound"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of a run; made by one of the four config functions.

    Traced, in standard units:
      ``candidates (c, d)``, or ``bounds (2, d)`` and ``grid (g, d)``, the others None; the numbers of ``model``;
      ``centre ()`` and ``scale ()``; ``limits (2,)``, the range of clipped utilities; ``beta_t`` as ``beta_offset +
      beta_slope log t``; the budgets, sensitivities and ``delta ()``; ``gain_grids``, of Algorithm 3 with exact
      noise, one for the point and one for the value, if released (``gains.Grid``).

    Static: ``steps``; ``release`` "point", "value" or "both"; ``acquisition``; ``assumptions``;
    ``no_guarantee_reason``, why there is no guarantee, or ""; ``search`` of a box, otherwise None; ``noise`` and the
    rates of exact noise, see ``noise.calibration``; ``users``, ``n`` if the objective returns gains ``(n,)``,
    otherwise None; ``space``, the searched ``Space``, or None.
    """

    candidates: jax.Array | None
    bounds: jax.Array | None
    grid: jax.Array | None
    model: gp.GPModel
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
    steps: int = field(metadata={"static": True})
    release: str = field(metadata={"static": True})
    acquisition: str = field(metadata={"static": True})
    assumptions: tuple[str, ...] = field(metadata={"static": True})
    no_guarantee_reason: str = field(metadata={"static": True})
    search: box_search.BoxSearch | None = field(metadata={"static": True})
    noise: str = field(metadata={"static": True})
    point_rate: Fraction = field(metadata={"static": True})
    value_rate: Fraction = field(metadata={"static": True})
    users: int | None = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})

    @property
    def shortlist(self) -> jax.Array:
        """Points ``(c, d)`` or ``(g, d)`` available for release."""
        points = self.grid if self.candidates is None else self.candidates
        assert points is not None
        return points


def finite_config(
    *,
    steps: int,
    epsilon: float,
    delta: float,
    correlation: float,
    candidates: ArrayLike,
    release: str = "point",
    point_share: float = 0.5,
    noise_variance: float = 0.0,
    kernel: Kernel = kernels.matern52,
    kernel_params: KernelParams = None,
    centre: float = 0.0,
    scale: float = 1.0,
    decay: tuple[float, float] | None = None,
    constants: str = "corrected",
    noise: str = "exact",
    space: Space | None = None,
) -> Config:
    """Configure Algorithm 1 (noisy) or 2 (exact observations) over a finite set. All arguments must be public.

    Formal guarantee: ``(epsilon, delta)``, replace-one, AVERAGED OVER THE PRIOR: ``delta`` counts the draws of the
    utilities for which the sensitivity bound fails, for a fixed pair of data sets. The guarantee is not differential
    privacy, which covers the worst pair, and it is void where the prior is wrong. With ``constants="paper"`` the
    guarantee is the same for the point alone (theorem 1 holds as printed), and there is none for the value (theorems 3
    and 5 do not hold).

    Args:
      steps: ``T``, number of evaluations.
      epsilon: the whole budget.
      delta: the whole failure probability, in (0, 1).
      correlation: the least ``k1(V, V')`` of neighbouring data sets, in [0, 1]: 1 would mean no influence of any user.
      candidates: ``(c, d)``, finite and distinct.
      release: "point", "value" (the largest utility), or "both".
      point_share: share of ``epsilon`` for the point, if both are released.
      noise_variance: of one observation, in standard units; 0 for exact observations.
      kernel: ``k2``, with ``k2(x, x) = 1``.
      kernel_params: parameters of the kernel, public too; default: a lengthscale of ``sqrt(d) / 4`` of each side of the
        search.
      centre: the prior's mean, in units of the utility.
      scale: the prior's standard deviation, in units of the utility.
      decay: ``(A, tau)``, PUBLIC constants of de Freitas et al. (2012), in standard units, in place of the computed
        regret bound of exact observations.
      constants: "corrected", or "paper" for the printed constants.
      noise: "exact", on an integer grid, or "float", for research sweeps.
      space: the ``Space`` of the ``candidates``, if any.

    Raises:
      ValueError: a number out of range, empty or duplicated candidates, a kernel of variance other than 1, a
        combination not covered by a theorem; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gp_ucb
    >>> chosen = dp_gp_ucb.finite_config(
    ...     steps=5, epsilon=1.0, delta=0.01, correlation=0.99, candidates=[[0.0], [0.5], [1.0]], noise_variance=0.1
    ... )
    >>> chosen.release, chosen.candidates.shape
    ('point', (3, 1))
    """
    numbers = _numbers(steps, delta, correlation, release, checks.nonnegative("noise_variance", noise_variance))
    checks.one_of("constants", constants, prior_averaged_constants.CONSTANTS)
    shares = split_budget(epsilon, release, point_share)
    if decay is not None:
        amplitude, rate = checks.vector("decay", decay, 2).tolist()
        decay = checks.positive("decay", amplitude), checks.positive("decay", rate)
    rows = checks.distinct_rows("candidates", candidates)
    model = unit_prior(kernel, kernel_params, rows, numbers["noise_variance"])
    proof_constants = prior_averaged_constants.finite_constants(
        candidates=len(rows),
        dimension=rows.shape[1],
        information=lambda noise: information_gain.gain_bound(_set_noise(model, noise), rows, numbers["steps"]),
        constants=constants,
        decay=decay,
        skip_threshold=gp.jitter(jnp.result_type(float)),
        **numbers,
    )
    return _make_config(
        proof_constants,
        numbers,
        noise,
        (centre, scale),
        shares=shares,
        candidates=rows,
        space=spaces.box(None, space)[1],
        model=model,
        no_guarantee_reason=PRINTED_VALUE if constants == "paper" and release != "point" else "",
    )


def box_config(
    *,
    steps: int,
    epsilon: float,
    delta: float,
    correlation: float,
    bounds: Bounds,
    noise_variance: float,
    grid: Any = None,
    slope: tuple[float, float] | None = None,
    release: str = "point",
    point_share: float = 0.5,
    kernel: Kernel = kernels.matern52,
    kernel_params: Any = None,
    centre: float = 0.0,
    scale: float = 1.0,
    search: box_search.BoxSearch = SEARCH,
    noise: str = "exact",
) -> Config:
    """Configure Algorithm 1 over a box, with noisy observations: no theorem covers exact observations there.

    Formal guarantee: as ``finite_config``; where a value is released, the guarantee also assumes every query to
    maximise the upper confidence bound over the box.

    Args:
      steps: ``T``, number of evaluations.
      epsilon: the whole budget.
      delta: the whole failure probability, in (0, 1).
      correlation: the least ``k1(V, V')`` of neighbouring data sets, in [0, 1]: 1 would mean no influence of any user.
      bounds: ``(2, d)``, finite; or a ``Space``, to search its unit box, with the ``grid`` in this box.
      noise_variance: of one observation, in standard units, positive.
      grid: ``(g, d)``, the points available for release, if a point is released.
      slope: ``(a, b)``, of ``prior_averaged_constants.Box``, if a value is released.
      release: "point", "value" (the largest utility), or "both".
      point_share: share of ``epsilon`` and of ``delta`` for the point, if both are released.
      kernel: ``k2``, with ``k2(x, x) = 1``.
      kernel_params: parameters of the kernel, public too; default: a lengthscale of ``sqrt(d) / 4`` of each side of the
        box.
      centre: the prior's mean, in units of the utility.
      scale: the prior's standard deviation, in units of the utility.
      search: of the upper confidence bound.
      noise: "exact", on an integer grid, or "float", for research sweeps.

    Raises:
      ValueError: a number out of range, an empty or duplicated grid, a kernel of variance other than 1, ``grid`` or
        ``slope`` unused or missing; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gp_ucb
    >>> chosen = dp_gp_ucb.box_config(
    ...     steps=5, epsilon=1.0, delta=0.01, correlation=0.99, bounds=[(0, 1)], noise_variance=0.1, grid=[[0.0], [0.5]]
    ... )
    >>> chosen.release, chosen.grid.shape
    ('point', (2, 1))
    """
    numbers = _numbers(steps, delta, correlation, release, checks.positive("noise_variance", noise_variance))
    shares = split_budget(epsilon, release, point_share)
    bounds, space = spaces.box(bounds)
    spaces.refuse_branches(space, "DP-GP-UCB over a box has no theorem for them: give candidates to dp_gp_ucb.config")
    limits = checks.box("bounds", bounds)
    if (grid is None) != (release == "value"):
        raise ValueError(f"grid must be given over a box where a point is released, and only then: release={release!r}")
    if (slope is None) != (release == "point"):
        raise ValueError(
            f"slope must be given over a box where a value is released, and only then: release={release!r}"
        )
    points = None if grid is None else checks.distinct_rows("grid", grid)
    model = unit_prior(kernel, kernel_params, limits, numbers["noise_variance"])
    mass, steep = (1.0, 1.0) if slope is None else checks.vector("slope", slope, 2).tolist()
    proof_constants = prior_averaged_constants.box_constants(
        box=prior_averaged_constants.Box(limits.shape[1], float(np.max(limits[1] - limits[0])), mass, steep),
        grid=1 if points is None else len(points),
        delta_point=checks.probability("point_share", point_share) * numbers["delta"],
        information=lambda noise: information_gain.gain_bound_of_box(
            _set_noise(model, noise), limits, numbers["steps"]
        ),
        **numbers,
    )
    return _make_config(
        proof_constants,
        numbers,
        noise,
        (centre, scale),
        shares=shares,
        bounds=limits,
        grid=points,
        space=space,
        model=model,
        search=box_search.make_search(search),
        no_guarantee_reason="",
    )


def _numbers(steps: int, delta: float, correlation: float, release: str, variance: float) -> dict[str, Any]:
    """Check the arguments common to both searches."""
    least = gp.jitter(jnp.result_type(float))
    if variance and variance < least:
        raise ValueError(f"noise_variance must be 0 or at least {rounding.shorten_up(least)}, got {variance}")
    return {
        "steps": checks.size("steps", steps),
        "delta": checks.probability("delta", delta),
        "correlation": checks.fraction("correlation", correlation),
        "release": checks.one_of("release", release, prior_averaged_constants.RELEASES),
        "noise_variance": variance,
    }


def _make_config(
    proof_constants: prior_averaged_constants.Constants,
    numbers: dict[str, Any],
    noise: str,
    units: tuple[float, float],
    **rest: Any,
) -> Config:
    """Make the config of Algorithm 1 or 2, with allowances for rounding added to the sensitivities."""
    release, variance = numbers["release"], numbers["noise_variance"]
    assumptions = (
        *noise_assumptions(noise),
        *((_assumptions.COMPUTED_MEAN,) if noise == "exact" and release != "value" else ()),
        *(_assumptions.PUBLIC_CONFIG, _assumptions.GAUSSIAN_PROCESS),
        _assumptions.GAUSSIAN_NOISE if variance else _assumptions.EXACT_UTILITY,
        *((_assumptions.BEST_QUERIES,) if "bounds" in rest and release != "point" else ()),
    )
    middle, scale = checks.number("centre", units[0]), checks.positive("scale", units[1])
    point_sensitivity, value_sensitivity = proof_constants.point_sensitivity, proof_constants.value_sensitivity
    if noise == "exact" and release != "value":
        if not variance and jnp.result_type(float) != jnp.float64:
            raise ValueError(
                "noise_variance must be positive where a point is released in float32 with exact noise, got 0: float32 "
                "loses the posterior mean of exact observations; set jax_enable_x64, or noise='float' for research"
            )
        point_sensitivity = sensitivity.add_computation_error(point_sensitivity, MEAN_ERROR)
    if noise == "exact" and release != "point":
        value_sensitivity = sensitivity.add_computation_error(
            value_sensitivity, _rounding(middle, scale, value_sensitivity)
        )
    return canonical_config(
        **rest,
        centre=middle,
        scale=scale,
        limits=np.array([-preprocessing.MAX_STANDARDIZED, preprocessing.MAX_STANDARDIZED]),
        beta_offset=proof_constants.beta_offset,
        beta_slope=proof_constants.beta_slope,
        point_sensitivity=point_sensitivity,
        value_sensitivity=value_sensitivity,
        delta=numbers["delta"],
        units=tuple(
            calibration.units("epsilon", part if noise == "exact" else 0.0, moves)
            for part, moves in zip(rest["shares"], MOVES, strict=True)
        ),
        steps=numbers["steps"],
        release=release,
        acquisition="ucb",
        assumptions=assumptions,
        noise=noise,
    )


def split_budget(epsilon: float, release: str, share: float) -> tuple[float, float]:
    """Split the budget between the point and the value."""
    budget, share = checks.positive("epsilon", epsilon), checks.probability("point_share", share)
    parts = {"point": (1.0, 0.0), "value": (0.0, 1.0), "both": (share, 1.0 - share)}[release]
    return budget * parts[0], budget * parts[1]


def _rounding(centre: float, scale: float, moved: float) -> float:
    """Largest effect of rounding on a utility in standard units: ``(value - centre) / scale``, clipped.

    A value within the limits is at most ``|centre| + MAX_STANDARDIZED scale``: rounded to the dtype, subtracted,
    divided.
    """
    dtype = jnp.result_type(float)
    error = 3.0 * float(jnp.finfo(dtype).eps) * (preprocessing.MAX_STANDARDIZED + abs(centre) / scale)
    if 2.0 * error > 0.1 * moved:
        raise ValueError(
            f"centre must be nearer to 0 for exact noise, got {centre:g} with scale={scale:g}: {dtype} cannot tell "
            f"such utilities apart; set jax_enable_x64, or noise='float' for research"
        )
    return error


def noise_assumptions(noise: str) -> tuple[str, ...]:
    """Assumptions of a release about its noise."""
    if checks.one_of("noise", noise, NOISES) == "float":
        return (_assumptions.IDEAL_NOISE,)
    return (_assumptions.RANDOM_BITS,)


def unit_prior(kernel: Kernel, params: KernelParams, points: np.ndarray, noise: float) -> gp.GPModel:
    """Make a model of prior variance 1 at each of ``points (k, d)``, or at the corners of a box."""
    dimension = points.shape[1]
    if params is None:
        params = kernels.stationary_params_from_box(np.stack([points.min(axis=0), points.max(axis=0)]))
    kernels.check(kernel, params, dimension)
    dtype = jnp.result_type(float)
    variances = np.asarray(kernels.diagonal(kernel, params, arrays.to_device(points, dtype)))
    if np.max(np.abs(variances - 1.0)) > 1e-5:
        raise ValueError(f"kernel must have variance 1 (scale is for the utility's), got {variances.max():g}")
    return gp.GPModel(kernel, params, arrays.to_device(noise, dtype))


def _set_noise(model: gp.GPModel, noise: float) -> gp.GPModel:
    return replace(model, noise_variance=arrays.to_device(noise, model.noise_variance.dtype))


def canonical_config(*, shares: tuple[float, float], units: Any, **fields: Any) -> Config:
    """Make the record, with numbers as arrays of one dtype; omitted fields are None or ``()``."""
    point, value = units
    absent: dict[str, Any] = dict.fromkeys(("candidates", "bounds", "grid", "search", "users", "space"))
    values: dict[str, Any] = {**absent, "gain_grids": (), **fields}

    def leaf(value: Any) -> Any:
        return None if value is None else arrays.to_device(value, jnp.result_type(float))

    return Config(
        **{name: leaf(value) if name in TRACED else value for name, value in values.items()},
        epsilon_point=leaf(shares[0]),
        epsilon_value=leaf(shares[1]),
        point_units=point.units,
        value_units=value.units,
        point_rate=point.rate,
        value_rate=value.rate,
    )
