"""Private choice among evaluated points: the exponential mechanism on differences of users' losses, in integers.

Each user's own least loss is subtracted from that user's losses, and differences count up to a public width. The
results lie in ``[0, width]`` for any losses, depend on that user alone, and order points as the mean loss does if no
difference is wider. A choice with a prior costs no more than a choice without.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr

from jaxdpbo import accounting, checks, sensitivity
from jaxdpbo.accounting import requested_budget
from jaxdpbo.arrays import to_device
from jaxdpbo.noise import mechanisms, totals, wide_integers
from jaxdpbo.types import ArrayLike, DTypeLike

RATE = Fraction(1, 2**10)  # of the exponential mechanism: scores are in units of 1/1024 nat
BIN_BITS = 20
MAX_BINS = 2**BIN_BITS  # of one user's integers; float32 errs by less than a bin
TOTAL_VARIATION = 2.0**-128  # of one choice, see ``mechanisms.exact_exponential``


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ChoiceNoise:
    """Settings for the accuracy of a choice; made by ``choice_noise``.

    Attributes:
      mu: ``()``, traced: the GDP budget of one choice.
      units: ``()``, traced: one user's largest move of a score; 0 unless ``noise`` is "exact".
      digits: ``()``, traced: bins within a unit while users are added up.
      kind: "exact", "float" or "none".
    """

    mu: jax.Array
    units: jax.Array
    digits: jax.Array
    kind: str = field(metadata={"static": True})


def choice_noise(mu: float, noise: str, *, dtype: DTypeLike) -> ChoiceNoise:
    """Make the noise of a choice; the budget is rounded down.

    Args:
      mu: of one choice; ``inf`` with ``noise="none"``.
      noise: "exact", "float" or "none".
      dtype: of ``mu``.

    Raises:
      ValueError: too little budget for exact noise; an infinite budget with noise, or a finite budget without.
    """
    units = digits = 0
    mu = checks.positive("mu", mu, finite=False)
    if (noise == "none") != math.isinf(mu):
        raise ValueError(f"mu must be inf with noise='none' and finite with any other, got {mu}, {noise!r}")
    mu = mu if math.isinf(mu) else checks.round_down(mu, dtype)
    if noise == "exact":
        units = min(_units(mu), MAX_BINS)
        if not units:
            least = accounting.bounded_range_mu(float(_range(1)))
            raise requested_budget.BudgetError("least", 1.01 * least, mu, "for an exact choice, got {}")
        digits = MAX_BINS // units
    return ChoiceNoise(to_device(mu, dtype), to_device(units, jnp.int32), to_device(digits, jnp.int32), noise)


def level(noise: ChoiceNoise) -> float:
    """Return the GDP level of one choice: ``mu``, or the level of the integers."""
    if noise.kind != "exact":
        return float(noise.mu)
    return accounting.bounded_range_mu(float(_range(int(noise.units))))


def pure_level(noise: ChoiceNoise) -> float:
    """Return the ``epsilon`` of a choice's additional ``epsilon``-DP: its range."""
    if noise.kind != "exact":
        return accounting.bounded_range_eta(float(noise.mu))
    return float(_range(int(noise.units)))


def choice_sharpness(mu: float, width: float, users: int) -> float:
    """Return ``s``: the log-odds of a point over another with a mean loss higher by 1.

    The chosen point is worse than the best of ``m``, in expectation and if no difference is wider than ``width``, by
    at most ``log(m) / s`` (McSherry and Talwar 2007).

    >>> from jaxdpbo.noise import choice_sharpness
    >>> round(choice_sharpness(1.0, 1.0, 1000), 2)
    806.97

    Raises:
      ValueError: a number out of range.
      TypeError: an argument that is no number.
    """
    width, users = checks.positive("width", width), checks.size("users", users)
    return users * accounting.bounded_range_eta(mu) / sensitivity.between_scores(width)


def choose_row(
    key: jax.Array, noise: ChoiceNoise, losses: jax.Array, width: jax.Array, favoured: ArrayLike | None = None
) -> jax.Array:
    """Choose a point at random: a lower mean of ``relative_losses`` makes a point more likely.

    Formal guarantee: ``level(noise)``-GDP and ``pure_level(noise)``-DP, replace-one, within ``TOTAL_VARIATION``,
    for any losses. Replacing a user moves the sums by a vector in ``[-units digits, units digits]``; dividing by
    ``digits``, rounding down, subtracting the best score and clamping leave the scores' moves in an interval of
    length ``2 units`` that contains 0, and weights follow scores exactly. The logarithms of all ratios of probabilities
    then lie in an interval of length ``2 units RATE``, for any prior: docs/theorems.md.

    ==================================  ===========================================================
    case                                result
    ==================================  ===========================================================
    a loss NaN or infinite              counts as ``width``, for that user alone
    no finite loss of a user            that user prefers no point
    differences beyond ``width``        count as ``width``
    a score far below the best          about ``e^-61`` times as likely, and no less
    ``mu = inf``                        the first point of the least mean
    ==================================  ===========================================================

    Args:
      key: used once.
      noise: of ``choice_noise``.
      losses: ``(m, n)``, ``m < 2^16``.
      width: ``()``, public.
      favoured: ``()``, the row with half of the prior, the others sharing the rest; None for equal weights. Public.

    Returns:
      The row, ``()``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import secret_key
    >>> from jaxdpbo.noise import choice
    >>> chosen, losses = choice.choice_noise(1.0, "exact", dtype=float), jnp.outer(jnp.arange(3.0), jnp.ones(500))
    >>> int(choice.choose_row(secret_key(), chosen, losses, jnp.asarray(2.0)))
    0
    """
    return draw(key, noise, sum_losses(noise, losses, width), favoured)


def sum_losses(
    noise: ChoiceNoise, losses: jax.Array, width: jax.Array, present: jax.Array | None = None
) -> totals.UserSum:
    """Sum users' ``relative_losses`` for a choice: ``(m,)``, in integers if noise is exact.

    Args:
      noise: of ``choice_noise``.
      losses: ``(m, s)``, of any ``s`` users.
      width: ``()``, public.
      present: ``(s,)``, False at columns that stand for nobody.
    """
    lost = relative_losses(losses, width)
    if noise.kind == "exact":
        bins = noise.units * noise.digits
        lost = jnp.rint(lost * bins.astype(lost.dtype)).astype(jnp.int32)
    lost = lost if present is None else jnp.where(present[None], lost, 0)
    return wide_integers.total(lost, BIN_BITS) if noise.kind == "exact" else jnp.sum(lost, axis=1)


def draw(key: jax.Array, noise: ChoiceNoise, total: totals.UserSum, favoured: ArrayLike | None = None) -> jax.Array:
    """Draw the row ``()`` of ``choose_row`` by the ``sum_losses`` ``(m,)`` of all users."""
    if isinstance(total, wide_integers.Wide):
        return mechanisms.exact_exponential(key, scores(noise, total, favoured), RATE).astype(jnp.int32)
    if noise.kind == "none":
        return jnp.argmin(total).astype(jnp.int32)
    wide = 2 * (log_ndtr(noise.mu / 2) - log_ndtr(-noise.mu / 2))
    narrow = 4 * jnp.arctanh(jax.scipy.special.erf(jnp.minimum(noise.mu, 1.0) / 8**0.5))  # where wide cancels
    eta = jnp.where(noise.mu < 1, narrow, wide)
    logits = _prior(len(total), favoured, total.dtype) - total * eta / sensitivity.between_scores(1)
    return mechanisms.exponential(key, logits, epsilon=2.0, sensitivity=1.0).astype(jnp.int32)  # by exp(logits)


def scores(noise: ChoiceNoise, total: wide_integers.Wide, favoured: ArrayLike | None = None) -> jax.Array:
    """Return integer scores ``(m,)`` in units of ``RATE``, the best at ``mechanisms.top(RATE)``: ``choose_row``'s,
    raw.

    Args:
      noise: of ``choice_noise``, its kind "exact".
      total: ``(m,)``, ``sum_losses`` of all users.
      favoured: see ``choose_row``.
    """
    top, points = mechanisms.top(RATE), len(total.low)
    lost = wide_integers.divide(total, noise.digits)
    prior = jnp.rint(_prior(points, favoured, noise.mu.dtype) / float(RATE)).astype(jnp.int32)
    farthest = top + math.ceil(math.log(points) / RATE)  # beyond, no prior counts, and no difference wraps
    worse = wide_integers.add(lost, wide_integers.negate(wide_integers.minimum(lost)))
    total_scores = prior - wide_integers.narrow(worse, farthest)
    return total_scores - jnp.max(total_scores) + top


def _prior(count: int, favoured: ArrayLike | None, dtype: DTypeLike) -> jax.Array:
    """Return logarithms of weights ``(m,)``: a row may have as much as all others."""
    equal = jnp.zeros(count, dtype)
    if favoured is None:
        return equal
    at = jnp.arange(count, dtype=jnp.int32) == jnp.asarray(favoured, jnp.int32)
    return jnp.where(at, jnp.asarray(math.log(max(count - 1, 1)), dtype), equal)


def relative_losses(losses: jax.Array, width: jax.Array) -> jax.Array:
    """Return losses ``(m, n)`` less each user's least finite loss, over ``width``, in [0, 1]; 1 if not finite."""
    losses = jnp.asarray(losses)

    def fill_nonfinite(row):
        return jnp.where(jnp.isfinite(row), row, jnp.inf)

    least = jax.lax.fori_loop(  # XLA's reduction over the leading axis takes 3 to 8 times as long on CPUs
        1, losses.shape[0], lambda i, least: jnp.minimum(least, fill_nonfinite(losses[i])), fill_nonfinite(losses[0])
    )
    shares = jnp.clip((losses - jnp.where(jnp.isfinite(least), least, 0.0)[None]) / width, 0.0, 1.0)
    return jnp.where(jnp.isfinite(losses) & (shares >= 0), shares, 1.0)


def _range(units: int) -> Fraction:
    return sensitivity.between_scores(units) * RATE


def _units(mu: float) -> int:
    """Return the most units with a range within ``mu``."""
    return math.floor(Fraction(accounting.bounded_range_eta(mu)) / _range(1))
