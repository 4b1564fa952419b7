"""Algorithm 3: the gains of ``n`` users, rounded to integers before the sum.

Each gain becomes one of ``0, 1, ..., bins`` (``round_gains``), their sum is exact, and a score is this sum without
its last ``shift`` binary digits. Where neighbours move the sum by at most ``units 2^shift``, they move the score by at
most ``units``: in any dtype, and in any order of summation.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, rounding, sensitivity
from jaxdpbo import space as spaces
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.algorithms.dp_gp_ucb import configs
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.noise import calibration, wide_integers
from jaxdpbo.space import Space
from jaxdpbo.surrogate import kernels
from jaxdpbo.types import ArrayLike, Kernel, KernelParams

ACQUISITIONS = ("ucb", "expected_improvement")
IN_ORDER = "in_order"  # in place of an acquisition
BETA = 4.0  # unused in order, except in the checksum of a state
BIN_BITS = 20
BINS = (
    2**BIN_BITS
)  # of one gain; a float32 of this size is right to a quarter, so rounding moves no gain by a whole bin
RATES = tuple(Fraction(1, 2**digits) for digits in (6, 9, 12, 16))
CHOICE_RATES = RATES[1:3]  # of a choice: coarser rates differ among usual budgets, finer tables would be large
USUAL = 2  # of RATES, for usual budgets
MIN_UNITS = 32  # rounding a budget down to whole units then loses at most 3 %
PRINTED_GAIN = "the second term printed in theorem 7 is half of the change that one user can make"


def in_order_config(
    *,
    candidates: ArrayLike,
    users: int,
    epsilon: float,
    largest_gain: float,
    release: str = "value",
    point_share: float = 0.5,
    kernel: Kernel = kernels.matern52,
    kernel_params: KernelParams = None,
    noise: str = "exact",
    space: Space | None = None,
) -> configs.Config:
    """Configure Algorithm 3 without a search: evaluate every candidate once, in order; choose privately by mean gain.

    The objective returns the gains ``(n,)`` of all users.

    Formal guarantee: ``epsilon``-DP, replace-one, for every pair of data sets; a point alone is chosen by the
    exponential mechanism and also ``accounting.bounded_range_mu(epsilon)``-GDP. Gains are clipped to ``[0, g*]``; a
    gain that is not finite counts as 0, for its user alone. The run evaluates every candidate for any data, so one user
    moves each mean gain by at most ``g* / n`` (``sensitivity.gains_in_order``). Where gains are known to lie in a
    narrower range, shift them to begin at 0 and pass the width as ``largest_gain``.

    Args:
      candidates: ``(c, d)``, finite and distinct; the run has ``T = c`` steps.
      users: ``n``, the size of the validation set.
      epsilon: the whole budget.
      largest_gain: ``g*``: gains are clipped to ``[0, g*]``.
      release: "point", "value" (the largest mean gain), or "both".
      point_share: share of ``epsilon`` for the point, if both are released.
      kernel: of the prior in ``preview_release``; the run does not use it.
      kernel_params: parameters of the kernel; default: a lengthscale of ``sqrt(d) / 4`` of each side of the candidates.
      noise: "exact", on an integer grid, or "float", for research sweeps.
      space: the ``Space`` of the ``candidates``, if any.

    Raises:
      ValueError: a number out of range, empty or duplicated candidates; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gp_ucb
    >>> chosen = dp_gp_ucb.in_order_config(candidates=[[0.1], [1.0]], users=500, epsilon=1.0, largest_gain=1.0)
    >>> chosen.steps, dp_gp_ucb.algorithm.privacy(chosen).notion
    (2, 'dp')
    """
    checks.one_of("release", release, prior_averaged_constants.RELEASES)
    rows, users, largest_gain = _check_gains(candidates, users, largest_gain, noise)
    return _make_config(
        rows,
        users,
        largest_gain,
        sensitivity.gains_in_order(users),
        shares=configs.split_budget(epsilon, release, point_share),
        noise=noise,
        assumptions=(_assumptions.SEPARABLE_GAINS,),
        model=configs.unit_prior(kernel, kernel_params, rows, 0.0),
        beta_offset=BETA,
        steps=len(rows),
        release=release,
        acquisition=IN_ORDER,
        no_guarantee_reason="",
        space=space,
    )


def lipschitz_config(
    *,
    candidates: ArrayLike,
    users: int,
    epsilon: float,
    largest_gain: float,
    steps: int,
    gain_lipschitz: float = np.inf,
    loss_lipschitz: float = np.inf,
    acquisition: str = "ucb",
    kernel: Kernel = kernels.matern52,
    kernel_params: KernelParams = None,
    beta: float = BETA,
    constants: str = "corrected",
    noise: str = "exact",
    space: Space | None = None,
) -> configs.Config:
    """Configure Algorithm 3: search the candidates adaptively for the largest mean gain, and release this gain.

    The objective returns the gains ``(n,)`` of all users.

    Formal guarantee: ``epsilon``-DP, replace-one, for every pair of data sets. Gains are clipped to ``[0, g*]``; a gain
    that is not finite counts as 0, for its user alone. Neighbours move the largest mean gain by at most:

    ==============================  ==================================================================================
    ``d = 1``, ``L_g`` and ``L_l``  ``L_g L_l (1 / lambda_min - 1 / lambda_max) + g* / n``, or ``g*`` if less:
    given                           see ``sensitivity.gains_along_lambda``. The noise does not shrink with ``n``
    otherwise                       ``g*``: neighbours may query different candidates, and then only the
                                    range of a gain bounds the difference
    ==============================  ==================================================================================

    The first row needs candidates that differ in nothing but ``lambda``: each IS its ``lambda``. With
    ``constants="paper"`` there is no guarantee: the printed second term is half of the attainable difference.

    Args:
      candidates: ``(c, d)``, finite and distinct; positive where ``d = 1`` and both Lipschitz constants are given, each
        then its own ``lambda``.
      users: ``n``, the size of the validation set.
      epsilon: the whole budget.
      largest_gain: ``g*``: gains are clipped to ``[0, g*]``.
      steps: ``T``.
      gain_lipschitz: ``L_g``, of the gain in ``w``; unused where ``d > 1``.
      loss_lipschitz: ``L_l``, of the training loss in ``w``; unused where ``d > 1``.
      acquisition: "ucb" or "expected_improvement".
      kernel: of the surrogate, which guides the search and does not affect privacy.
      kernel_params: parameters of the kernel; default: a lengthscale of ``sqrt(d) / 4`` of each side of the search.
      beta: ``beta`` of "ucb".
      constants: "corrected", or "paper".
      noise: "exact", on an integer grid, or "float", for research sweeps.
      space: the ``Space`` of the ``candidates``, if any.

    Raises:
      ValueError: a number out of range, empty or duplicated candidates, a combination not covered by a theorem; names
        the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gp_ucb
    >>> chosen = dp_gp_ucb.lipschitz_config(
    ...     candidates=[[1.0], [1.2]], users=500, epsilon=1.0, largest_gain=1.0, steps=2, gain_lipschitz=0.5,
    ...     loss_lipschitz=1.0
    ... )
    >>> chosen.release, dp_gp_ucb.algorithm.privacy(chosen).notion
    ('value', 'dp')
    """
    checks.one_of("acquisition", acquisition, ACQUISITIONS)
    checks.one_of("constants", constants, prior_averaged_constants.CONSTANTS)
    slopes = {
        "gain_lipschitz": checks.positive("gain_lipschitz", gain_lipschitz, finite=False),
        "loss_lipschitz": checks.positive("loss_lipschitz", loss_lipschitz, finite=False),
    }
    rows, users, largest_gain = _check_gains(candidates, users, largest_gain, noise)
    moved, assumptions = sensitivity.gains_anywhere(users), ()  # the range of a gain needs no assumption
    if rows.shape[1] == 1 and np.all(np.isfinite(list(slopes.values()))):
        lambdas = rows.astype(jnp.result_type(float))[:, 0]
        moved = sensitivity.gains_along_lambda(lambdas, users, largest_gain, constants=constants, **slopes)
        assumptions = _assumptions.SEPARABLE_GAINS, _assumptions.EXACT_TRAINING
    return _make_config(
        rows,
        users,
        largest_gain,
        moved,
        shares=configs.split_budget(epsilon, "value", 0.5),
        noise=noise,
        assumptions=assumptions,
        model=configs.unit_prior(kernel, kernel_params, rows, 0.0),
        beta_offset=checks.nonnegative("beta", beta),
        steps=checks.size("steps", steps),
        release="value",
        acquisition=acquisition,
        no_guarantee_reason=PRINTED_GAIN if constants == "paper" else "",
        space=space,
    )


def _check_gains(candidates: ArrayLike, users: int, largest_gain: float, noise: str) -> tuple[np.ndarray, int, float]:
    """Check the candidates ``(c, d)``, ``n`` and ``g*``."""
    checks.one_of("noise", noise, configs.NOISES)
    dtype = np.dtype(jnp.result_type(float))
    users, largest_gain = checks.size("users", users), checks.positive("largest_gain", largest_gain, dtype=dtype)
    low, high = BINS * np.finfo(dtype).tiny, np.finfo(dtype).max / BINS
    if not low <= largest_gain <= high:
        ends = f"[{rounding.shorten_up(low, 3)}, {rounding.shorten_down(high, 3)}]"
        raise ValueError(f"largest_gain must be within {ends} in {dtype}, got {largest_gain:g}")
    return checks.distinct_rows("candidates", candidates), users, largest_gain


def _make_config(
    rows: np.ndarray,
    users: int,
    largest_gain: float,
    moved: sensitivity.Gains,
    *,
    shares: tuple[float, float],
    noise: str,
    assumptions: tuple[str, ...],
    space: Space | None,
    **fields: Any,
) -> configs.Config:
    """Make the config of gains with sensitivity ``moved``; ``fields`` are those of ``configs.Config``."""
    units = [
        _units(part if noise == "exact" else 0.0, moves, rates)
        for part, moves, rates in zip(shares, configs.MOVES, (CHOICE_RATES, RATES), strict=True)
    ]
    return configs.canonical_config(
        **fields,
        candidates=rows,
        centre=largest_gain / 2.0,
        scale=largest_gain / 4.0,  # so that all gains lie within two of the prior's deviations
        limits=np.array([-2.0, 2.0]),
        beta_slope=0.0,
        point_sensitivity=4.0 * float(moved.share),
        value_sensitivity=4.0 * float(moved.share),
        delta=0.0,
        shares=shares,
        units=units,
        assumptions=(*configs.noise_assumptions(noise), _assumptions.PUBLIC_CONFIG, *assumptions),
        noise=noise,
        users=users,
        gain_grids=tuple(_grid(int(part.units), moved) for part in units if int(part.units)),
        space=spaces.box(None, space)[1],
    )


class Grid(NamedTuple):
    """Grid of one statistic: ``bins ()`` and ``shift ()``, ``int32``."""

    bins: jax.Array
    shift: jax.Array


def _units(epsilon: float, moves: int, rates: tuple[Fraction, ...]) -> calibration.Units:
    """``calibration.units`` with one rate for usual budgets; for a choice, the coarsest (shortest table)."""
    if epsilon == 0:
        return calibration.Units(jnp.zeros((), jnp.int32), rates[0])
    usual = USUAL if rates is RATES else 0
    counts = {place: int(Fraction(epsilon) / (moves * rate) // 1) for place, rate in enumerate(rates)}
    counts[0] = min(counts[0], BINS)  # a cap for very large budgets
    fitting = [place for place, count in counts.items() if MIN_UNITS <= count <= BINS]
    if fitting:
        place = min(fitting, key=lambda place: abs(place - usual))
        return calibration.Units(jnp.asarray(counts[place], jnp.int32), rates[place])
    smallest = rounding.shorten_up(float(MIN_UNITS * moves * rates[-1]), 3)
    raise ValueError(
        f"epsilon must be at least {smallest} with exact noise, got {epsilon:g} (noise='float' takes less)"
    )


def _grid(units: int, moved: sensitivity.Gains) -> Grid:
    """Finest grid with ``slope bins + rest <= units 2^shift``."""
    shift, bins = 0, _bins(units, moved, 0)
    while (finer := _bins(units, moved, shift + 1)) <= BINS:
        shift, bins = shift + 1, finer
    if bins < BINS // 4:  # too few bins after rounding: better to leave half of the units unused
        shift, bins = shift + 1, finer
    return Grid(jnp.asarray(min(bins, BINS), jnp.int32), jnp.asarray(shift, jnp.int32))


def _bins(units: int, moved: sensitivity.Gains, shift: int) -> int:
    return int(((units << shift) - moved.rest) / moved.slope // 1)


def clip_gains(gains: jax.Array, largest: jax.Array) -> jax.Array:
    """Clip gains ``(n,)`` to ``[0, largest]``; NaN and infinities count as 0."""
    return jnp.clip(jnp.where(jnp.isfinite(gains), gains, 0.0), 0.0, largest)


def score_gains(gains: jax.Array, largest: jax.Array, grid: Grid) -> wide_integers.Wide:
    """Score ``()`` of ``clip_gains`` gains ``(n,)``. Exact, for any ``n``: see the module docstring."""
    whole = round_gains(gains, largest, grid.bins)
    return wide_integers.shift_right(wide_integers.total(whole, BIN_BITS), grid.shift)


def round_gains(gains: jax.Array, largest: jax.Array, bins: jax.Array) -> jax.Array:
    """Round ``gains / largest bins`` to integers ``(n,)`` in ``[0, bins]``, for any gains; right to within 1."""
    whole = jnp.rint(gains / largest * bins.astype(gains.dtype)).astype(jnp.int32)
    return jnp.clip(whole, 0, bins)


def unit(config: configs.Config, grid: Grid) -> jax.Array:
    """Mean gain of one unit of a score, ``()``."""
    dtype = config.scale.dtype
    ratio = jnp.ldexp(jnp.ones((), dtype), grid.shift) / grid.bins.astype(dtype)
    assert config.users is not None
    return largest_gain(config) * ratio / config.users


def largest_gain(config: configs.Config) -> jax.Array:
    """Largest gain ``g*``, ``()``: the limits are two deviations either way."""
    return 4.0 * config.scale
