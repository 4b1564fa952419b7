"""Sensitivities: how far one user moves a statistic. Every guarantee takes its sensitivity from here.

The relation is replace-one throughout: neighbouring data sets have the same public ``n`` and differ in the record of
one user, or for a transform in one row of ``X``. Each function bounds the move of a single statistic:

===================================  ==========================================  =======================================
statistic                            moves by at most                            used by
===================================  ==========================================  =======================================
sum of vectors of norm ``B``         ``clipped_sum``: ``2 B`` in l2              DP-GIBO, DP-GD, DP-SGD
sum of integers of norm ``radius``   ``integer_sum``: ``2 radius`` in l2         the first two and ``mean_loss``, exact
sum of ``x x^T`` of integers ``x``   ``gram_squared``: ``sqrt(2) radius^2``      private linear models
                                     in l2
mean of losses in a range            ``mean_loss``: ``(high - low) / n``         private evaluations
count of numbers below another       ``count``: 1                                ``private_scale``
difference of two scores             ``between_scores``: twice a score's         private choice, sparse vector
gains of ``n`` users, Algorithm 3    ``gains_in_order``, ``gains_along_lambda``  ``dp_gp_ucb.in_order_config``,
                                     or ``gains_anywhere``                       ``lipschitz_config``
posterior mean, largest observation  ``posterior_mean``,                         ``dp_gp_ucb``, on one draw of the prior
                                     ``largest_observation``                     only: ``prior_averaged_constants``
a row of ``X``                       ``row_distance``; on a grid ``cells_l1``    ``transforms``
                                     or ``cells_fit``
last iterate of permutation SGD      ``permutation_sgd``                         ``training.train_by_permutation``
===================================  ==========================================  =======================================

Functions of a clip norm, a radius or a score take numbers or traced arrays, and check nothing: the config makers
check. The others run on the host and name the argument that they refuse.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxdpbo import checks

Real = TypeVar("Real", float, jax.Array)  # traced or not: the result is of the same kind
Number = TypeVar("Number", int, float, Fraction, jax.Array, "jax.Array | float")
Whole = TypeVar("Whole", int, jax.Array)
LEARNER_BOUNDS = ("tight", "paper")
GAIN_CONSTANTS = ("corrected", "paper")


def clipped_sum(clip_norm: Real) -> Real:
    """Return the l2 sensitivity of a sum over users of vectors of l2 norm at most ``clip_norm``: ``2 B``.

    Replacing a user takes a vector out and puts another in (Sopa et al. 2025, lemma 3.1, for the mean: this over
    ``n``). A user with a vector that is not finite counts as the zero vector, so NaN and infinities move the sum no
    further (``noise.clip_by_l2_norm``). Floats hold this up to rounding; ``integer_sum`` is exact. The sum over a
    sampled batch moves as far, if the user is in the batch.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.clipped_sum(0.7)
    1.4
    """
    return 2.0 * clip_norm


def integer_sum(radius: Number) -> Number:
    """Return the exact l2 sensitivity of a sum over users of integer vectors of norm at most ``radius``: ``2 radius``.

    This holds for any vectors in any order of addition, if the sum fits the integers. In one dimension, integers lie in
    ``[-radius, radius]``.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.integer_sum(56)
    112
    """
    return 2 * radius


def gram_squared(radius: Number) -> Number:
    """Return the square of the exact l2 sensitivity of ``sum x x^T`` of integer vectors of norm at most ``radius``.

    Entries above the diagonal count twice, as in the Frobenius norm: ``|x|^4 + |y|^4 - 2 (x y)^2`` is at most
    ``2 radius^4`` (docs/theorems.md).

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.gram_squared(3)
    162
    """
    return 2 * radius**4


def error_and_cell_squared(error: Number, cell: Number) -> Number:
    """Return the square of the exact l2 sensitivity of a count of errors and a table of counts: ``error^2 + 2 cell^2``.

    A user counts ``error`` in the number of wrong predictions or nothing, and ``cell`` in one cell of the table. A
    replaced user may leave one cell, enter another, and be wrong in one of both.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.error_and_cell_squared(3, 2)
    17
    """
    return error**2 + 2 * cell**2


def error_and_moments_squared(error: Number, moment: Number) -> Number:
    """Return a bound on the square of the l2 sensitivity of sums of an error and two moments: ``error^2 + 4 moment^2``.

    A user adds an error in ``[0, error]``, and ``(moment u, moment u^2)`` of a number ``u`` in ``[-1, 1]``, rounded
    towards zero: 1 and -1 are ``2 moment`` apart, and no other two numbers are farther (docs/theorems.md).

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.error_and_moments_squared(3, 2)
    25
    """
    return error**2 + 4 * moment**2


def histograms_squared(cell: Number, columns: int, releases: int) -> Number:
    """Return the square of the exact l2 sensitivity of histograms: ``2 releases columns cell^2``.

    There are ``releases`` histograms of each of ``columns`` columns. A user counts ``cell`` in one cell of each, or
    nowhere. A replaced user may leave one cell and enter another, in all of them.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.histograms_squared(2, 3, 1)
    24
    """
    return 2 * releases * columns * cell**2


def largest_radius(distance: Whole) -> Whole:
    """Return the largest radius with an ``integer_sum`` of at most ``distance``."""
    return distance // 2


def mean_loss(low: Real, high: Real, users: int) -> Real:
    """Return the sensitivity of the mean of ``n`` losses, each clipped to ``[low, high]``: ``(high - low) / n``.

    ``n`` is public and the same on both sides. A loss that is not finite counts as the upper end.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.mean_loss(0.0, 3.0, 6)
    0.5
    """
    return (high - low) / users


def count(units: Number) -> Number:
    """Return the sensitivity of a count of users' numbers up to a bound, each counting ``units``: ``units``.

    A user has a single number: a replacement changes only whether this number is counted.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.count(1)
    1
    """
    return units


def between_scores(moved: Number) -> Number:
    """Return the sensitivity of a difference of two statistics, each moving by at most ``moved``: twice ``moved``.

    One score may rise while the other falls. So a choice among scores costs ``epsilon = 2 moved rate`` (McSherry and
    Talwar 2007, theorem 6), and an answer of the sparse vector technique twice the query's move, for the difference
    from the threshold (Lyu, Su and Li 2017, theorem 4). A single released value moves by ``moved`` alone.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.between_scores(3)
    6
    """
    return 2 * moved


def add_computation_error(exact: Number, error: Number) -> Number:
    """Return the sensitivity of a statistic computed to within ``error`` on both sides: ``exact + 2 error``."""
    return exact + 2 * error


# Algorithm 3 of Kusner et al. (2015): gains, as shares of the bound g* of their clip.


class Gains(NamedTuple):
    """How far one user moves the released gains.

    Attributes:
      share: of ``g*``, by which the best mean gain moves at most.
      slope: the sum of gains rounded to integers in ``[0, levels]`` moves by at most ``slope levels + rest``.
      rest: for rounding, if the bound is for real gains: both integer sums are within ``n`` of the real sums. 0 if the
        bound is the range of a gain, or of all: integers keep this range.
    """

    share: Fraction
    slope: Fraction
    rest: int


def gains_in_order(users: int) -> Gains:
    """Return the sensitivity if every candidate is always evaluated: a user moves each mean gain by at most ``g* / n``.

    Gains are clipped to ``[0, g*]``; a gain that is no number counts as 0, for this user alone.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.gains_in_order(10).share
    Fraction(1, 10)
    """
    return Gains(Fraction(1, users), Fraction(1), 0)


def gains_anywhere(users: int) -> Gains:
    """Return the sensitivity if neighbours may query different candidates: the largest mean gain's range, ``g*``."""
    return Gains(Fraction(1), Fraction(users), 0)


def gains_along_lambda(
    lambdas: Sequence[float] | np.ndarray,
    users: int,
    largest_gain: float,
    *,
    gain_lipschitz: float,
    loss_lipschitz: float,
    constants: str = "corrected",
) -> Gains:
    """Bound the largest mean gain's move if queries differ in ``lambda`` alone: theorem 7, or ``gains_anywhere``.

    Let ``f`` and ``f'`` be the mean gains of neighbours, ``R`` the ``regularisation`` of the smallest and the largest
    candidate. Training records are public, so ``w`` is the same function of ``lambda`` on both sides:
    ``|f(a) - f(b)| <= R`` and ``|f(b) - f'(b)| <= g* / n`` for any two candidates, so ``f(a) <= f'(b) + R + g* / n``.
    Let ``a`` be the best queried on a side, and ``b`` ANY queried on the other; the best there is no lower than ``b``:
    neither maximum is above the other by more than ``R + g* / n``, for any two sets.

    ``g* / n`` replaces the second term of theorem 7: the printed term is no bound for a user with a gain that is no
    number, counting as 0. ``constants="paper"`` takes the printed term, half of the attainable move: no guarantee.

    Raises:
      ValueError: a ``lambda`` that is not positive.
    """
    least, most = float(np.min(lambdas)), float(np.max(lambdas))
    if least <= 0:
        raise ValueError(f"candidates must be positive, as each is a lambda, got {least:g}")
    slopes = {"gain_lipschitz": gain_lipschitz, "loss_lipschitz": loss_lipschitz}
    one_user = Fraction(largest_gain) / users
    if constants == "paper":
        one_user = Fraction(mean_gain(users, largest_gain=largest_gain, smallest=least, constants=constants, **slopes))
    between = regularisation(smallest=least, largest=most, **slopes)
    if isinstance(between, float):
        return gains_anywhere(users)
    share = (between + one_user) / Fraction(largest_gain)
    return Gains(share, users * share, 2 * users) if share < 1 else gains_anywhere(users)


def _constants(name, value):
    return checks.one_of(name, value, GAIN_CONSTANTS)


@checks.takes(
    users=checks.size,
    largest_gain=checks.positive,
    smallest=checks.positive,
    constants=_constants,
    gain_lipschitz=checks.nonnegative_or_infinite,
    loss_lipschitz=checks.nonnegative_or_infinite,
)
def mean_gain(
    users: int,
    *,
    largest_gain: float,
    smallest: float,
    gain_lipschitz: float,
    loss_lipschitz: float,
    constants: str = "corrected",
) -> float:
    """Return the sensitivity of a model's mean gain, theorem 7's second term: ``min(g*, 2 L_g L_l / lambda_min) / n``.

    The second bound needs ``g(0, z)`` equal for all ``z``, as in margin losses. ``constants="paper"`` leaves out the
    2: the example in the tests exceeds this value.
    """
    factor = 2.0 if constants == "corrected" else 1.0
    return min(largest_gain, factor * gain_lipschitz * loss_lipschitz / smallest) / users


@checks.takes(
    smallest=checks.positive,
    largest=checks.positive,
    gain_lipschitz=checks.nonnegative_or_infinite,
    loss_lipschitz=checks.nonnegative_or_infinite,
)
def regularisation(
    *, smallest: float, largest: float, gain_lipschitz: float, loss_lipschitz: float
) -> Fraction | float:
    """Return the gain between two ``lambda``, theorem 7's first term: ``L_g L_l (1 / lambda_min - 1 / lambda_max)``.

    The result is exact, or inf for an infinite constant. ``w`` is the exact minimiser of
    ``lambda |w|^2 / 2 + mean loss``; add ``2 L_g error`` for a ``w`` up to ``error`` away.

    Raises:
      ValueError: ``smallest`` above ``largest``.
    """
    if smallest > largest:
        raise ValueError(f"smallest must be at most largest, got {smallest} and {largest}")
    apart = 1 / Fraction(smallest) - 1 / Fraction(largest)
    if not apart:
        return Fraction(0)  # not inf times 0
    if math.isinf(gain_lipschitz) or math.isinf(loss_lipschitz):
        return math.inf
    return Fraction(gain_lipschitz) * Fraction(loss_lipschitz) * apart


# Algorithms 1 and 2 of Kusner et al. (2015): in units of the prior's standard deviation, and only where the events of
# ``prior_averaged_constants`` hold, on one draw of the prior for both data sets. NOT a worst case over data sets.


@checks.takes(candidates=checks.positive, correlation=checks.fraction, share=checks.probability)
def utilities(candidates: float, correlation: float, share: float) -> float:
    """Return the sensitivity of any candidate's utility: ``c = 2 sqrt((1 - k1) log(c / share))`` (proof of theorem 1).

    ``f(x) - f'(x)`` is normal with variance ``2 (1 - k1)``; the bound fails with probability ``share``.
    """
    return 2.0 * math.sqrt((1.0 - correlation) * math.log(max(1.0, candidates / share)))


@checks.takes(beta=checks.nonnegative_or_infinite, gap=checks.nonnegative_or_infinite)
def posterior_mean(beta: float, gap: float) -> float:
    """Return the posterior mean's sensitivity: ``2 sqrt(beta_{T+1}) + c`` (theorem 1), with ``gap`` of ``utilities``.

    The printed ``beta_{T+1}`` counts failures at every step; the corrected value, for a point released alone, at the
    last only: the bound is a fifth to a quarter smaller, and holds with the same probability.
    """
    return 2.0 * math.sqrt(beta) + gap


@checks.takes(
    regret=checks.nonnegative_or_infinite,
    gap=checks.nonnegative_or_infinite,
    noise_gap=checks.nonnegative_or_infinite,
)
def largest_observation(regret: float, gap: float, noise_gap: float = 0.0) -> float:
    """Return the largest observation's sensitivity: ``Omega + c + q`` (theorems 3, 5;
    ``prior_averaged_constants``).
    """
    return regret + gap + noise_gap


# Transforms: one row of X, in units of distance and in the cells of a grid.


def row_distance(radius: float | None) -> float:
    """Return the l2 distance of a row from its replacement: a unit ("unit_distance") or a diameter ("replace_one").

    With ``radius`` all rows are brought into this ball; a row that is not finite counts as the centre.

    Raises:
      ValueError: ``radius`` not positive and finite.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.row_distance(None), sensitivity.row_distance(2.5)
    (1.0, 5.0)
    """
    return 1.0 if radius is None else 2.0 * checks.positive("radius", radius)


def cells_apart(unit: Fraction, limit: float) -> Fraction:
    """Return ``row_distance`` in cells, exactly: of a ``unit``, or of the diameter of a ball of ``limit`` cells."""
    return unit if math.isinf(limit) else 2 * Fraction(limit)


def row_l1(dimension: int) -> float:
    """Return the l1 distance of rows a unit apart in l2: ``sqrt(d)``."""
    return math.sqrt(dimension)


def cells_l1(apart: int, dimension: int) -> int:
    """Return the whole cells in l1 between the cells of two rows ``apart`` cells from each other in l2.

    Rounding down moves each coordinate of the difference by less than a cell; another is kept back for floats.
    """
    return math.ceil(row_l1(dimension) * apart) + 2 * dimension


def rounding_l2(dimension: int, each: float = 2.0) -> float:
    """Return the cells that rounding adds to the l2 distance of two rows, ``each`` of them in every coordinate.

    Rounding down moves each coordinate of the difference by less than a cell; by default another is kept for floats.
    """
    return each * math.sqrt(dimension)


def cells_fit(
    paid: int | Fraction, apart: Fraction, dimension: int, rounding: Fraction, *, in_l1: bool = False
) -> bool:
    """Return whether rows ``apart`` cells from each other move cells by at most ``paid``; exact, roots by squaring.

    Each coordinate of the difference moves by at most ``rounding`` more: a cell for rounding down, and the floats'.
    """
    if in_l1:
        left, root = paid - dimension * rounding, dimension * apart**2
    else:
        left, root = paid - apart, dimension * rounding**2
    return left >= 0 and left**2 >= root


def projected_row(projection: Any) -> float:
    """Return the move of a row times ``projection (d, r)``, for a unit's replacement: the largest singular value.

    The result is larger by more than the rounding of float64's LAPACK.
    """
    return float(np.linalg.norm(np.asarray(projection, np.float64), ord=2)) * (1 + 2.0**-16)


# Training.


def permutation_sgd(*, regularisation: float, records: int, batch: int = 1, bound: str = "tight") -> float:
    """Bound the l2 move of ``training.train_by_permutation``'s last iterate by one record, for any number of passes.

    Wu et al. (2017), "Bolt-on differential privacy", algorithm 2: projected permutation SGD on
    ``log(1 + exp(-y w.x)) + gamma |w|^2 / 2`` with ``|x| <= 1``, steps ``min(1 / beta, 1 / (gamma t))`` and
    ``|w| <= 1 / gamma``. "paper" is ``2 L / (gamma n)`` with ``L = 1 + gamma R = 2``, of the regularised loss. "tight"
    is half as much: both records have the same regulariser, and the rest of the loss is 1-Lipschitz. A batch does not
    divide the sensitivity: its mean moves by ``1 / b``, but the difference shrinks over ``b`` times fewer steps. If
    ``b`` does not divide ``n``, each pass drops the remainder: ``n`` becomes ``b floor(n / b)``.

    Args:
      regularisation: ``gamma``, positive.
      records: ``n``, public.
      batch: ``b``, at most ``n``.
      bound: of ``LEARNER_BOUNDS``.

    Raises:
      ValueError: a number out of range, an unknown bound.

    >>> from jaxdpbo import sensitivity
    >>> sensitivity.permutation_sgd(regularisation=0.1, records=200)
    0.1
    """
    gamma, count = checks.positive("regularisation", regularisation), checks.size("records", records)
    size = checks.size("batch", batch)
    if size > count:
        raise ValueError(f"batch must be at most the records {count}, got {size}")
    lipschitz = 1.0 if checks.one_of("bound", bound, LEARNER_BOUNDS) == "tight" else 2.0
    return 2.0 * lipschitz / (gamma * size * (count // size))
