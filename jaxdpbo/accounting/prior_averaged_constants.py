"""The events behind prior-averaged guarantees: Kusner et al. (2015), Algorithms 1 and 2 of DP-GP-UCB, corrected.

The paper's theorems rest on Assumption 1: the utilities of all data sets are one draw of a Gaussian process with
covariance ``k1(V, V') k2(x, x')``, both kernels known, normalised to 1 on the diagonal. ``correlation`` is the least
``k1`` of any two neighbouring data sets. Values are in units of the prior's standard deviation.

The proofs need one good event for a fixed pair of neighbours: confidence bounds that hold at every step on
``V`` and on ``V'`` (Srinivas et al. 2010, lemma 5.1), a gap between the two functions under ``sensitivity.utilities``
everywhere, and no observation noise above half of ``noise_gap`` in either run. ``Shares`` divides ``delta`` among them;
``finite_constants`` and ``box_constants`` compute the sensitivities on this event.

If the printed result is false, this module implements a provable version, and keeps the printed version under
``constants="paper"``:

- Theorem 3 bounds the noise of the largest of ``T`` observations as if of a single observation, and charges the regret
  bound, needed on ``V`` and on ``V'``, once: its failures sum to more than ``delta`` (tests/test_dp_gp_ucb_theory.py).
- Theorem 5 charges the regret bound once, and holds with constants ``A`` and ``tau`` that depend on the data.
- Theorem 7 bounds ``|g(w, z) - g(w, z')|`` by ``L^2 / lambda_min``; the difference can reach ``2 L^2 / lambda_min``
  (``sensitivity.mean_gain``).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from jaxdpbo import checks, sensitivity

RELEASES = ("point", "value", "both")
CONSTANTS = ("corrected", "paper")
FICTITIOUS_NOISE = tuple(10.0 ** (i / 4) for i in range(-24, 5))


def _constants(name, value):
    return checks.one_of(name, value, CONSTANTS)


def _release(name, value):
    return checks.one_of(name, value, RELEASES)


class Box(NamedTuple):
    """Parameters of a search over a box: Srinivas et al. (2010), theorem 2.

    Attributes:
      dimension: ``d``.
      side: ``r``, the longest.
      slope_mass: ``a``, and
      slope_scale: ``b``: each partial derivative of a draw exceeds ``L`` somewhere with probability at most
        ``a exp(-(L / b)^2)``.
    """

    dimension: int
    side: float
    slope_mass: float
    slope_scale: float


class Shares(NamedTuple):
    """Failure probabilities of the parts of the good event; their total is at most ``delta``.

    Attributes:
      confidence: of lemma 5.1, for each of the two data sets.
      gap: of ``|f - f'| <= gap`` on all candidates.
      noise: of all ``2 T`` observation noises staying under ``noise_gap / 2``; 0 without noise.
    """

    confidence: float
    gap: float
    noise: float

    @property
    def total(self) -> float:
        """Return ``2 confidence + gap + noise``."""
        return 2.0 * self.confidence + self.gap + self.noise


@checks.takes(exact=checks.flag)
def shares(delta: float, release: str, *, exact: bool, constants: str = "corrected") -> Shares:
    """Divide ``delta``: into thirds where no noise matters, into quarters otherwise.

    The posterior mean's sensitivity (theorem 1) does not involve the observation noise; the largest observation's does
    (theorem 3), unless observations are exact. ``constants="paper"`` gives the printed formulas' shares, of total
    ``4/3 delta`` or more: ``3 delta`` under the logarithm of ``beta`` is lemma 5.1 at ``delta / 2``.

    Args:
      delta: in (0, 1).
      release: "point", "value" or "both".
      exact: observations without noise.
      constants: "corrected" or "paper".
    """
    delta = checks.probability("delta", delta)
    noisy = checks.one_of("release", release, RELEASES) != "point" and not exact
    if checks.one_of("constants", constants, CONSTANTS) == "paper":
        return Shares(delta / 2, delta / (2 if exact else 3), delta / 3 if noisy else 0.0)
    parts = 4 if noisy else 3
    return Shares(delta / parts, delta / parts, delta / parts if noisy else 0.0)


@checks.takes(candidates=checks.size, step=checks.size, share=checks.probability)
def confidence_beta(candidates: float, step: int, share: float) -> float:
    """Return ``beta_t = 2 log(c t^2 pi^2 / (6 share))``: Srinivas et al. (2010), lemma 5.1, on one data set."""
    return 2.0 * math.log(candidates * step**2 * math.pi**2 / (6.0 * share))


@checks.takes(candidates=checks.size, share=checks.probability)
def final_confidence_beta(candidates: float, share: float) -> float:
    """Return ``2 log(c / share)``: ``confidence_beta`` at a single step fixed in advance, enough for theorem 1."""
    return 2.0 * math.log(candidates / share)


@checks.takes(step=checks.size, share=checks.probability)
def box_confidence_beta(box: Box, step: int, share: float) -> float:
    """Return ``beta_t`` over a box: Srinivas et al. (2010), theorem 2, on one data set, its Lipschitz event included.

    ``2 log(2 t^2 pi^2 / (3 share)) + 2 d log(t^2 d b r sqrt(log(4 d a / share)))``.
    """
    points_per_axis = net_size(box, step, share) ** (1.0 / box.dimension)
    return 2.0 * math.log(2.0 * step**2 * math.pi**2 / (3.0 * share)) + 2.0 * box.dimension * math.log(points_per_axis)


@checks.takes(step=checks.size, share=checks.probability)
def net_size(box: Box, step: int, share: float) -> float:
    """Return ``(d t^2 b r sqrt(log(4 d a / share)))^d``: the points of the proof's net at step ``t``.

    No point of the box is farther from the net, in utility, than ``1 / t^2``, if the Lipschitz event holds.
    """
    d = box.dimension
    slope = box.slope_scale * math.sqrt(math.log(max(1.0, 4.0 * d * box.slope_mass / share)))
    return max(1.0, d * step**2 * slope * box.side) ** d


@checks.takes(deviation=checks.nonnegative, steps=checks.size, share=checks.probability, constants=_constants)
def noise_gap(deviation: float, steps: int, share: float, constants: str = "corrected") -> float:
    """Return ``q = 2 deviation sqrt(2 log(2 T / s))``: bounds the difference of two noises, at any steps.

    ``constants="paper"`` gives the printed theorem 3's: for the noise at ONE step fixed in advance, unlike the step of
    the largest observation.
    """
    noises = 2 * steps if constants == "corrected" else 1
    return 2.0 * deviation * math.sqrt(2.0 * math.log(noises / share))


@checks.takes(
    noise_variance=checks.positive,
    beta=checks.nonnegative_or_infinite,
    information=checks.nonnegative_or_infinite,
    steps=checks.size,
)
def average_regret(noise_variance: float, beta: float, information: float, steps: int) -> float:
    """Return ``Omega = sqrt(C_1 beta_T gamma_T / T)``, ``C_1 = 8 / log(1 + 1 / noise)``: Srinivas et al., theorem 1.

    The result bounds ``f(x*) - max_t f(x_t)`` if lemma 5.1 holds, the kernel is normalised and every query maximises
    the upper confidence bound.
    """
    return math.sqrt(8.0 / math.log1p(1.0 / noise_variance) * beta * information / steps)


@checks.takes(
    beta=checks.nonnegative_or_infinite,
    steps=checks.size,
    candidates=checks.size,
    skip_threshold=checks.nonnegative_or_infinite,
)
def exact_regret(
    beta: float, steps: int, candidates: int, information: Callable[[float], float], *, skip_threshold: float
) -> float:
    """Return ``Omega_0``: bounds ``f(x*) - max_t f(x_t)`` for exact observations, in place of theorem 5's unknowns.

    Exact observations leave no more variance than noisy observations at the same points, so ``average_regret`` bounds
    the regret for ANY noise variance ``s``: the least over ``FICTITIOUS_NOISE`` is taken. With as many steps as
    candidates, or more, a point repeats or all are observed: the rest is what was not learnt.

    Args:
      beta: ``beta_T``.
      steps: ``T``.
      candidates: ``c``.
      information: ``s -> gamma_T(s)``, or a bound on it.
      skip_threshold: the variance at and below which an observation is not learnt (``surrogate.finite_gp.observe``);
        such a step adds at most ``4 beta_T skip_threshold`` to the sum of squared regrets.
    """
    rest = 4.0 * beta * skip_threshold
    if steps >= candidates:
        return math.sqrt(rest)
    return min(
        math.sqrt(average_regret(noise, beta, information(noise), steps) ** 2 + rest) for noise in FICTITIOUS_NOISE
    )


@checks.takes(
    steps=checks.size,
    dimension=checks.size,
    amplitude=checks.positive,
    rate=checks.positive,
    constants=_constants,
)
def decayed_regret(steps: int, dimension: int, amplitude: float, rate: float, constants: str = "corrected") -> float:
    """Return ``A exp(-tau T / (log T)^(d/4))``: de Freitas et al. (2012), for PUBLIC ``A`` and ``tau``.

    They depend on the utility itself: take them from elsewhere. The printed theorem 5 has ``T = 2``; the bound
    is valid at ``T`` from ``e^(d/4)`` on, where its values begin to fall.

    Raises:
      ValueError: fewer steps.
    """
    checks.positive("amplitude", amplitude)
    checks.positive("rate", rate)
    if constants == "paper":
        steps = 2
    elif steps < max(2.0, math.exp(dimension / 4.0)):
        raise ValueError(f"steps must be at least e^(d/4) = {math.exp(dimension / 4.0):.1f}, got {steps}")
    return amplitude * math.exp(-rate * steps / math.log(steps) ** (dimension / 4.0))


class Constants(NamedTuple):
    """All numbers for a run of Algorithm 1 or 2, and the parts of its utility guarantees.

    Attributes:
      beta_offset: ``beta_t = beta_offset + beta_slope log t``.
      beta_slope: see ``beta_offset``.
      regret: bounds ``f(x*) - max_t f(x_t)``; inf if no value is released.
      noise_gap: ``q``; 0 where no noise matters.
      last_width: ``beta_{T+1}``, of the confidence bounds behind the released point; inf without a point.
      point_sensitivity: of the posterior mean; over a box, on the grid.
      value_sensitivity: of the largest observation; inf if no value is released.
    """

    beta_offset: float
    beta_slope: float
    regret: float
    noise_gap: float
    last_width: float
    point_sensitivity: float
    value_sensitivity: float


@checks.takes(
    candidates=checks.size,
    dimension=checks.size,
    steps=checks.size,
    delta=checks.probability,
    correlation=checks.fraction,
    noise_variance=checks.nonnegative,
    constants=_constants,
    skip_threshold=checks.nonnegative_or_infinite,
)
def finite_constants(
    *,
    candidates: int,
    dimension: int,
    steps: int,
    delta: float,
    correlation: float,
    noise_variance: float,
    release: str,
    information: Callable[[float], float],
    constants: str = "corrected",
    decay: tuple[float, float] | None = None,
    skip_threshold: float = 0.0,
) -> Constants:
    """Compute the constants of Algorithm 1, lines 2 and 5 to 9, or of Algorithm 2 if ``noise_variance`` is 0.

    Args:
      candidates: ``c``.
      dimension: ``d``, for ``decay``.
      steps: ``T``.
      delta: the whole failure probability.
      correlation: the least ``k1`` of neighbours.
      noise_variance: of an observation.
      release: "point", "value" or "both".
      information: ``noise variance -> gamma_T``.
      constants: "corrected" or "paper".
      decay: public ``(A, tau)`` for exact observations.
      skip_threshold: see ``exact_regret``.

    Raises:
      ValueError: the printed Algorithm 2 without ``decay``, or ``decay`` with noise.
    """
    exact = noise_variance == 0
    if decay is not None and not exact:
        raise ValueError(f"decay must be None unless observations are exact, got noise_variance={noise_variance}")
    share = shares(delta, release, exact=exact, constants=constants)
    everywhere = sensitivity.utilities(candidates, correlation, share.gap)
    if release == "point" and constants == "corrected":
        last = final_confidence_beta(candidates, share.confidence)
    else:
        last = confidence_beta(candidates, steps + 1, share.confidence)
    point = sensitivity.posterior_mean(last, everywhere)
    beta, noises, regret = confidence_beta(candidates, steps, share.confidence), 0.0, math.inf
    if release != "point":
        if not exact:
            noises = noise_gap(math.sqrt(noise_variance), steps, share.noise, constants)
            regret = average_regret(noise_variance, beta, information(noise_variance), steps)
        elif decay is not None:
            amplitude, rate = checks.vector("decay", decay, 2).tolist()
            regret = decayed_regret(steps, dimension, amplitude, rate, constants=constants)
        elif constants == "paper":
            raise ValueError("decay must be given with constants='paper' and exact observations, got None")
        else:
            regret = exact_regret(beta, steps, candidates, information, skip_threshold=skip_threshold)
    offset = confidence_beta(candidates, 1, share.confidence)
    value = sensitivity.largest_observation(regret, everywhere, noises)
    return Constants(offset, 4.0, regret, noises, last, point, value)


@checks.takes(
    grid=checks.size,
    steps=checks.size,
    delta=checks.probability,
    delta_point=checks.probability,
    correlation=checks.fraction,
    noise_variance=checks.positive,
    release=_release,
)
def box_constants(
    *,
    box: Box,
    grid: int,
    steps: int,
    delta: float,
    delta_point: float,
    correlation: float,
    noise_variance: float,
    release: str,
    information: Callable[[float], float],
) -> Constants:
    """Compute the constants of Algorithm 1 over a box (the paper's supplement; derived anew, its text being lost).

    The value takes the four parts of ``shares``, the gap on the proof's net, and the error between its points. The
    point takes the exponential mechanism on a public ``grid``, with the three parts of theorem 1 there, after any
    evaluations. Released together they split ``delta``, with ``delta_point`` for the point: two guarantees, composed.

    Args:
      box: see ``Box``; unused if only a point is released.
      grid: ``g``; unused if only a value is released.
      steps: ``T``.
      delta: the whole failure probability.
      delta_point: the point's part of ``delta``.
      correlation: the least ``k1`` of neighbours.
      noise_variance: of an observation, positive.
      release: "point", "value" or "both".
      information: ``noise variance -> gamma_T`` of the box.
    """
    point = value = regret = last = math.inf
    noises = 0.0
    offset, slope = 0.0, 0.0
    if release != "value":
        share = shares(delta_point if release == "both" else delta, "point", exact=False)
        offset, slope = confidence_beta(grid, 1, share.confidence), 4.0
        last = final_confidence_beta(grid, share.confidence)
        point = sensitivity.posterior_mean(last, sensitivity.utilities(grid, correlation, share.gap))
    if release != "point":
        share = shares(delta - delta_point if release == "both" else delta, "value", exact=False)
        offset, slope = box_confidence_beta(box, 1, share.confidence), 4.0 + 4.0 * box.dimension
        beta = box_confidence_beta(box, steps, share.confidence)
        regret = average_regret(noise_variance, beta, information(noise_variance), steps) + 2.0 / steps
        noises = noise_gap(math.sqrt(noise_variance), steps, share.noise)
        net = sensitivity.utilities(net_size(box, steps + 1, share.confidence), correlation, share.gap)
        value = sensitivity.largest_observation(regret, net + 1.0 / (steps + 1) ** 2, noises)
    return Constants(offset, slope, regret, noises, last, point, value)
