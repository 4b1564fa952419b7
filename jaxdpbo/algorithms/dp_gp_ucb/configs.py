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
from jaxdpbo.privacy import budgets, guarantee
from jaxdpbo.surrogate import gp, information, kernels, observations
from jaxdpbo.theory import dp_gp_ucb as theory
from jaxdpbo.types import Kernel

NOISES = ("exact", "float")
ACQUISITIONS = ("ucb", "expected_improvement", "in_order")

GAUSSIAN_PROCESS = "the utilities of all data sets are one draw of the stated Gaussian process (Assumption 1)"
GAUSSIAN_NOISE = "each utility is observed with independent Gaussian noise of the stated variance"
EXACT_UTILITY = "each utility is observed without noise"
BEST_QUERIES = "every query maximises the upper confidence bound over the box"
BOUNDED_GAINS = "the utility is the mean over n users of gains in [0, largest_gain], gain i from user i's record alone"
EXACT_TRAINING = "w is the exact minimiser of the regularised convex loss on public records; gains and losses Lipschitz"
PRINTED_VALUE = "the sensitivity that theorems 3 and 5 print for the largest utility is no bound"
PRINTED_GAIN = "the second term that theorem 7 prints is half of what one user can move"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "candidates", "bounds", "grid", "prior", "centre", "scale", "limits", "width_offset", "width_slope",
        "epsilon_point", "epsilon_value", "point_units", "value_units", "point_sensitivity", "value_sensitivity",
        "delta",
    ],
    meta_fields=[
        "steps", "release", "acquisition", "rests_on", "voids", "scatter", "starts", "climb_steps",
        "noise", "point_rate", "value_rate",
    ],
)  # fmt: skip
@dataclass(frozen=True)
class Config:
    """What a run is told before it starts; made by ``config`` or ``lipschitz_config``.

    Traced, in standard units:
      ``candidates (c, d)``, or ``bounds (2, d)`` and ``grid (g, d)``, the others None; the numbers of ``prior``;
      ``centre ()`` and ``scale ()``; ``limits (2,)``, to which utilities are clipped; ``beta_t`` as ``width_offset +
      width_slope log t``; the budgets, sensitivities and ``delta ()``.

    Static: ``steps``; ``release`` "point", "value" or "both"; ``acquisition``; ``rests_on``, the assumptions;
    ``voids``, why there is no guarantee, or ""; sizes of the search of a box; ``noise`` and the rates of the exact one,
    see ``privacy.budgets``.
    """

    candidates: jax.Array | None
    bounds: jax.Array | None
    grid: jax.Array | None
    prior: gp.Prior
    centre: jax.Array
    scale: jax.Array
    limits: jax.Array
    width_offset: jax.Array
    width_slope: jax.Array
    epsilon_point: jax.Array
    epsilon_value: jax.Array
    point_units: jax.Array
    value_units: jax.Array
    point_sensitivity: jax.Array
    value_sensitivity: jax.Array
    delta: jax.Array
    steps: int
    release: str
    acquisition: str
    rests_on: tuple[str, ...]
    voids: str
    scatter: int
    starts: int
    climb_steps: int
    noise: str
    point_rate: Fraction
    value_rate: Fraction

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
    candidates: Any = None,
    bounds: Any = None,
    grid: Any = None,
    slope: tuple[float, float] | None = None,
    release: str = "point",
    point_share: float = 0.5,
    noise_variance: float = 0.0,
    kernel: Kernel = kernels.matern52,
    kernel_params: Any = None,
    centre: float = 0.0,
    scale: float = 1.0,
    decay: tuple[float, float] | None = None,
    constants: str = "corrected",
    scatter: int = 1000,
    starts: int = 8,
    climb_steps: int = 50,
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
      scatter: points tried before the climbs, over a box.
      starts: climbs, over a box; at most ``scatter``.
      climb_steps: gradient steps of each.
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
    _checks.size("starts", starts)
    if starts > _checks.size("scatter", scatter):
        raise ValueError(f"starts must be at most scatter = {scatter}, got {starts}")
    share = _checks.probability("point_share", point_share)
    if decay is not None:
        amplitude, rate = _checks.vector("decay", decay, 2).tolist()
        decay = _checks.positive("decay", amplitude), _checks.positive("decay", rate)
    numbers = {
        "steps": steps, "delta": delta, "correlation": correlation, "noise_variance": variance, "release": release,
    }  # fmt: skip
    if bounds is None:
        rows = _checks.distinct_rows("candidates", candidates)
        prior = _prior(kernel, kernel_params, rows, variance)
        found = theory.over_candidates(
            candidates=len(rows),
            dimension=rows.shape[1],
            information=lambda noise: information.gain_bound(_noised(prior, noise), rows, steps),
            constants=constants,
            decay=decay,
            unlearnt=gp.jitter(jnp.result_type(float)),
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
        prior = _prior(kernel, kernel_params, limits, variance)
        mass, steep = (1.0, 1.0) if slope is None else _checks.vector("slope", slope, 2).tolist()
        found = theory.over_box(
            box=theory.Box(limits.shape[1], float(np.max(limits[1] - limits[0])), mass, steep),
            grid=1 if points is None else len(points),
            delta_point=share * delta,
            information=lambda noise: information.gain_bound_of_box(_noised(prior, noise), limits, steps),
            **numbers,
        )
        place = {"bounds": limits, "grid": points}
    rests_on = (
        *_of_noise(noise),
        *(guarantee.PUBLIC_CONFIG, GAUSSIAN_PROCESS),
        GAUSSIAN_NOISE if variance else EXACT_UTILITY,
        *((BEST_QUERIES,) if bounds is not None and release != "point" else ()),
    )
    return _canonical(
        **place,
        prior=prior,
        centre=_checks.number("centre", centre),
        scale=_checks.positive("scale", scale),
        limits=np.array([-observations.WILDEST, observations.WILDEST]),
        width_offset=found.width_offset,
        width_slope=found.width_slope,
        point_sensitivity=found.point_sensitivity,
        value_sensitivity=found.value_sensitivity,
        delta=delta,
        budget=_checks.positive("epsilon", epsilon),
        share=share,
        steps=steps,
        release=release,
        acquisition="ucb",
        rests_on=rests_on,
        voids=PRINTED_VALUE if constants == "paper" and release != "point" else "",
        scatter=scatter,
        starts=starts,
        climb_steps=_checks.size("climb_steps", climb_steps),
        noise=noise,
    )


def lipschitz_config(
    *,
    candidates: Any,
    users: int,
    epsilon: float,
    largest_gain: float,
    steps: int | None = None,
    regularisation: tuple[float, float] | None = None,
    gain_lipschitz: float = np.inf,
    loss_lipschitz: float = np.inf,
    acquisition: str = "ucb",
    release: str = "value",
    point_share: float = 0.5,
    kernel: Kernel = kernels.matern52,
    kernel_params: Any = None,
    width: float = 4.0,
    constants: str = "corrected",
    noise: str = "exact",
) -> Config:
    """Algorithm 3: the utility is the mean gain of ``n`` users, and its own smoothness bounds the sensitivity.

    Formal guarantee: ``epsilon``-DP, replace-one, for every pair of data sets. With an acquisition that follows the
    utilities any two regularisations may be compared, and the noise does not shrink with ``n``. "in_order" evaluates
    every candidate whatever is seen: one user then moves each utility by ``theory.gain_sensitivity`` alone. With
    ``constants="paper"`` there is no guarantee: the printed second term is half of what can be attained.

    Args:
      candidates: ``(c, d)``, finite and distinct.
      users: ``n``, the size of the validation set.
      epsilon: the whole budget.
      largest_gain: ``g*``: every gain lies in ``[0, g*]``, and utilities are clipped there.
      steps: ``T``; ``c``, and not to be given, for "in_order".
      regularisation: ``(lambda_min, lambda_max)`` of all candidates; needed unless "in_order".
      gain_lipschitz: ``L_g``, of the gain in ``w``; where finite, ``g(0, z)`` is equal for all ``z`` (margin losses).
      loss_lipschitz: ``L_l``, of the training loss in ``w``.
      acquisition: "ucb", "expected_improvement" or "in_order".
      release: "value"; with "in_order" also "point" or "both".
      point_share: of ``epsilon``, for the point, where both are released.
      kernel: of the surrogate, which steers the search and carries no privacy.
      kernel_params: its numbers; a lengthscale of ``sqrt(d) / 4`` of each side of the search where not given.
      width: ``beta`` of "ucb".
      constants: "corrected", or "paper".
      noise: "exact", on an integer grid, or "float", for research sweeps.

    Raises:
      ValueError: a number out of range, empty or duplicated candidates, a combination that no theorem covers; names it.
      TypeError: an argument of the wrong kind.
    """
    _checks.choice("acquisition", acquisition, ACQUISITIONS)
    _checks.choice("release", release, theory.RELEASES)
    _checks.choice("constants", constants, theory.CONSTANTS)
    users, largest_gain = _checks.size("users", users), _checks.positive("largest_gain", largest_gain)
    slopes = {
        "gain_lipschitz": _checks.positive("gain_lipschitz", gain_lipschitz, finite=False),
        "loss_lipschitz": _checks.positive("loss_lipschitz", loss_lipschitz, finite=False),
    }
    rows = _checks.distinct_rows("candidates", candidates)
    count = len(rows)
    in_order = acquisition == "in_order"
    if in_order and steps is not None and _checks.size("steps", steps) != count:
        raise ValueError(f"steps must not be given where every candidate is evaluated, got {steps}")
    if not in_order and release != "value":
        raise ValueError(f"release must be 'value' unless acquisition is 'in_order', got {release!r}")
    smooth = all(map(np.isfinite, slopes.values()))
    if regularisation is None and (smooth or not in_order):
        raise ValueError("regularisation must be given, got None")
    smallest, largest = _regularisation(regularisation) if regularisation is not None else (1.0, 1.0)
    moved = theory.gain_sensitivity(users, largest_gain=largest_gain, smallest=smallest, constants=constants, **slopes)
    if not in_order:
        moved += theory.regularisation_sensitivity(smallest=smallest, largest=largest, **slopes)
    rests_on = (
        *_of_noise(noise),
        *(guarantee.PUBLIC_CONFIG, BOUNDED_GAINS),
        *((EXACT_TRAINING,) if smooth or not in_order else ()),
    )
    scale = largest_gain / 4.0  # so that all gains lie within two of the prior's deviations
    sensitivity = min(moved, largest_gain) / scale  # no gain moves by more than its range
    return _canonical(
        candidates=rows,
        prior=_prior(kernel, kernel_params, rows, 0.0),
        centre=largest_gain / 2.0,
        scale=scale,
        limits=np.array([-2.0, 2.0]),
        width_offset=_checks.nonnegative("width", width),
        width_slope=0.0,
        point_sensitivity=sensitivity,
        value_sensitivity=sensitivity,
        delta=0.0,
        budget=_checks.positive("epsilon", epsilon),
        share=_checks.probability("point_share", point_share),
        steps=count if in_order else _checks.size("steps", steps),
        release=release,
        acquisition=acquisition,
        rests_on=rests_on,
        voids=PRINTED_GAIN if constants == "paper" else "",
        noise=noise,
    )


def _of_noise(noise: str) -> tuple[str, ...]:
    """What a release rests on because of its noise."""
    if _checks.choice("noise", noise, NOISES) == "float":
        return (guarantee.IDEAL_NOISE,)
    return guarantee.RANDOM_BITS, guarantee.FLOAT_SENSITIVITY


def _regularisation(value: Any) -> tuple[float, float]:
    smallest, largest = _checks.vector("regularisation", value, 2).tolist()
    if not 0 < smallest <= largest:
        raise ValueError(f"regularisation must be 0 < lambda_min <= lambda_max, got {smallest}, {largest}")
    return smallest, largest


def _prior(kernel: Kernel, params: Any, points: np.ndarray, noise: float) -> gp.Prior:
    """A kernel of variance 1 at every one of ``points (k, d)``, or the corners of a box."""
    dimension = points.shape[1]
    if params is None:
        params = kernels.stationary_over(np.stack([points.min(axis=0), points.max(axis=0)]))
    kernels.check(kernel, params, dimension)
    dtype = jnp.result_type(float)
    variances = np.asarray(kernels.diagonal(kernel, params, jnp.asarray(points, dtype)))
    if np.max(np.abs(variances - 1.0)) > 1e-5:
        raise ValueError(f"kernel must have variance 1 (scale is for the utility's), got {variances.max():g}")
    return gp.Prior(kernel, params, jnp.asarray(noise, dtype))


def _noised(prior: gp.Prior, noise: float) -> gp.Prior:
    return replace(prior, noise_variance=jnp.asarray(noise, prior.noise_variance.dtype))


def _canonical(
    *, budget, share, release, candidates=None, bounds=None, grid=None, prior, steps, acquisition, rests_on, voids,
    noise, scatter=1, starts=1, climb_steps=1, **numbers,
) -> Config:  # fmt: skip
    """The record, its numbers arrays of one dtype."""

    def leaf(value: Any) -> Any:
        return None if value is None else jnp.asarray(value, jnp.result_type(float))

    shares = {"point": (1.0, 0.0), "value": (0.0, 1.0), "both": (share, 1.0 - share)}[release]
    point, value = (
        budgets.units("epsilon", budget * part if noise == "exact" else 0.0, moves)
        for part, moves in zip(shares, (2, 1), strict=True)
    )
    return Config(
        candidates=leaf(candidates),
        bounds=leaf(bounds),
        grid=leaf(grid),
        prior=prior,
        epsilon_point=leaf(budget * shares[0]),
        epsilon_value=leaf(budget * shares[1]),
        point_units=point.units,
        value_units=value.units,
        steps=steps,
        release=release,
        acquisition=acquisition,
        rests_on=rests_on,
        voids=voids,
        scatter=scatter,
        starts=starts,
        climb_steps=climb_steps,
        noise=noise,
        point_rate=point.rate,
        value_rate=value.rate,
        **{name: leaf(value) for name, value in numbers.items()},
    )
