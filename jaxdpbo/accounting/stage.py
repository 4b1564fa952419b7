"""Stages of a release: a search, a private training, a selection. ``accounting.total`` composes them.

A stage is a release, or several, about the same rows. Its privacy profile ``epsilon -> delta`` for the replace-one
relation is an upper bound in both directions of neighbours, given all earlier releases. Fix a stage's parameters in
advance; for a stage chosen by an earlier release, see ``curve_stage``.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks
from jaxdpbo.accounting import gdp, grid, sampling
from jaxdpbo.accounting import selection as selections
from jaxdpbo.rounding import shorten_down, shorten_up
from jaxdpbo.types import Unchecked

RELATIONS = ("replace_one", "add_or_remove")
GROUP_PRIVACY = "add-or-remove made replace-one by group privacy, d_R(2e) <= (1 + e^e) d(e)"
POINTS = 2**13  # points of a converted profile
INTERVALS = (3.2e-3, 1.6e-3, 8e-4, 4e-4, 2e-4, 1e-4)  # steps of dp-accounting's grid; the last is its default
CLOSE_AT, CLOSE = (1e-9, 1e-6, 1e-3), 3e-4  # deltas at which to compare two grids' epsilons, and the tolerance
MAX_REACH = 300.0  # beyond this epsilon a foreign profile is constant
Profile = grid.Profile
StageFields = tuple[str, str, float]  # of a guarantee: description, kind, level


class Stage(NamedTuple):
    """A single stage; made by the functions of this module.

    Attributes:
      description: in the caller's words.
      kind: "gaussian", "pure", "bounded_range", "approximate", "sampled_gaussian", "selection", "curve" or "foreign".
      arguments: the kind's parameters.
      how: the guarantee and its reason, in words.
      profile: ``epsilon -> delta``, replace-one, for ``epsilon >= 0``.
    """

    description: str
    kind: str
    arguments: tuple[Any, ...]
    how: str
    profile: Profile

    def epsilon(self, delta: float) -> float:
        """Return the ``epsilon`` of this stage alone, rounded up; inf where nothing is proved."""
        delta = checks.probability("delta", delta)
        if self.kind == "gaussian":
            return gdp.gdp_epsilon(self.arguments[0], delta)
        if self.kind == "sampled_gaussian" and _is_usual(*self.arguments):
            rate, z, steps = self.arguments
            return sampling.sampled_gaussian_epsilon(rate=rate, noise_multiplier=z, steps=steps, delta=delta).epsilon
        return grid.first_below(self.profile, delta)


def stage_from_fields(description: str, kind: str, level: float) -> Stage:
    """Make a stage from the fields of a guarantee: a kind of ``STAGE_MAKERS`` and its level.

    Raises:
      ValueError: another kind, a level out of range, or a description that is no printable line.

    >>> from jaxdpbo.accounting import stage
    >>> stage.stage_from_fields("a choice", "bounded_range", 0.5).how
    'of range 0.5'
    """
    return STAGE_MAKERS[checks.one_of("kind", kind, tuple(STAGE_MAKERS))](level, description)


def gaussian_stage(mu: float, description: str = "a Gaussian mechanism") -> Stage:
    """Make a ``mu``-GDP stage, such as a search of this package.

    Raises:
      ValueError: ``mu`` negative.

    >>> from jaxdpbo import accounting
    >>> round(accounting.gaussian_stage(0.5, "the search").epsilon(1e-5), 3)
    1.993
    """
    mu = checks.number("mu", mu)
    if mu < 0:
        raise ValueError(f"mu must be at least zero, got {mu}")
    return Stage(
        _check_description(description), "gaussian", (mu,), f"{shorten_up(mu)}-GDP", partial(gdp.gdp_delta, mu)
    )


def pure_stage(epsilon: float, description: str = "a mechanism of pure DP") -> Stage:
    """Make an ``epsilon``-DP stage: ``(e^epsilon - a) / (1 + e^epsilon)`` (Kairouz, Oh and Viswanath 2015).

    Raises:
      ValueError: ``epsilon`` negative or infinite.

    >>> from jaxdpbo import accounting
    >>> round(accounting.pure_stage(1.0, "a noisy choice").profile(0.0), 4)
    0.4621
    """
    return _approximate("pure", checks.nonnegative("epsilon", epsilon), 0.0, description)


def approximate_stage(epsilon: float, delta: float, description: str = "a mechanism of approximate DP") -> Stage:
    """Make an ``(epsilon, delta)``-DP stage: the largest profile through this point (Kairouz et al. 2015).

    Raises:
      ValueError: ``epsilon`` negative or infinite, ``delta`` not in (0, 1).

    >>> from jaxdpbo import accounting
    >>> accounting.approximate_stage(1.0, 1e-6).profile(2.0)
    1e-06
    """
    epsilon, delta = checks.nonnegative("epsilon", epsilon), checks.probability("delta", delta)
    return _approximate("approximate", epsilon, delta, description)


def bounded_range_stage(eta: float, description: str = "an exponential mechanism") -> Stage:
    """Make a stage with all log-ratios in an interval of length ``eta``, such as the exponential mechanism.

    The profile is ``(1 - e^((epsilon - eta) / 2))^2 / (1 - e^-eta)`` up to ``eta``, 0 beyond (Dong, Durfee and Rogers
    2020; ours, docs/theorems.md): the sup over all pairs of this range.

    Raises:
      ValueError: ``eta`` not positive and finite.

    >>> from jaxdpbo import accounting
    >>> round(accounting.bounded_range_stage(1.0).profile(0.5), 4)
    0.0774
    """
    eta = checks.positive("eta", eta)

    def profile(epsilon: float) -> float:
        return min(1.0, math.expm1((epsilon - eta) / 2) ** 2 / -math.expm1(-eta)) if epsilon < eta else 0.0

    return Stage(_check_description(description), "bounded_range", (eta,), f"of range {shorten_up(eta)}", profile)


def sampled_gaussian_stage(
    *, rate: float, noise_multiplier: float, steps: int, description: str = "a private training"
) -> Stage:
    """Make a stage of ``steps`` DP-SGD steps with batches of fixed size: as in ``accounting.sampled_gaussian_epsilon``.

    Args:
      rate: ``q = m / n``, in [0, 1].
      noise_multiplier: the noise's standard deviation over the sensitivity ``2 L / m``.
      steps: at least 0.
      description: a printable line.

    Raises:
      ValueError: a number out of range.

    >>> from jaxdpbo import accounting
    >>> training = accounting.sampled_gaussian_stage(rate=0.01, noise_multiplier=1.0, steps=100)
    >>> round(training.epsilon(1e-5), 2)
    0.77
    """
    rate, z = checks.fraction("rate", rate), checks.nonnegative("noise_multiplier", noise_multiplier)
    steps = checks.size("steps", steps, minimum=0)
    how = f"{steps} Gaussian steps of noise multiplier {shorten_down(z)}, batches of {shorten_up(rate)} of the rows"
    profile = _Later(lambda: sampling.sampled_gaussian_profile(rate=rate, noise_multiplier=z, steps=steps))
    return Stage(_check_description(description), "sampled_gaussian", (rate, z, steps), how, profile)


def selection_stage(
    repetitions: selections.Repetitions, run: Stage | Profile, description: str = "a private selection"
) -> Stage:
    """Make a stage for the best alone of a random, hidden number of private runs: ``accounting.selection_epsilon``.

    Args:
      repetitions: distribution of the number of runs, made by ``accounting.repetitions``.
      run: a run's stage or profile (``compose_profile`` of several stages, ``average_profile`` of settings).
      description: a printable line.

    Raises:
      TypeError: ``repetitions`` or ``run`` of another type.

    >>> from jaxdpbo import accounting
    >>> repetitions = accounting.repetitions(0.0, 16)
    >>> run = accounting.gaussian_stage(0.5)
    >>> round(accounting.selection_stage(repetitions, run, "the best of 16").epsilon(1e-5), 5)
    3.09303
    """
    if not isinstance(repetitions, selections.Repetitions):
        raise TypeError(f"repetitions must be made by accounting.repetitions, got {repetitions!r}")
    of_run = _function("run", run.profile if isinstance(run, Stage) else run)
    key = (repetitions, (run.kind, run.arguments) if isinstance(run, Stage) else run)
    how = f"the best of a hidden number of runs, {shorten_up(repetitions.mean)} on average"
    profile = _Later(lambda: selections.selection_profile(repetitions, of_run))
    return Stage(_check_description(description), "selection", key, how, profile)


def curve_stage(curve: Profile, description: str = "a stage under a curve") -> Stage:
    """Make a stage with a replace-one profile of at most ``curve``, in both directions, after any earlier releases.

    Use this for a stage CHOSEN by an earlier release, such as a training with the setting returned by a search. Fix the
    curve in advance, above the whole profile of every option (``worst_profile``). The same (epsilon, delta) for each
    option is not enough: options may trade one part of their profiles for another, and a choice by earlier releases
    combines the worst of all (docs/theorems.md has the numbers).

    Raises:
      TypeError: ``curve`` is no function.

    >>> from jaxdpbo import accounting
    >>> options = [accounting.gaussian_stage(0.5).profile, accounting.bounded_range_stage(0.9).profile]
    >>> round(accounting.curve_stage(accounting.worst_profile(options), "the chosen training").epsilon(1e-5), 3)
    1.993
    """
    clamped = grid.clamp_profile(_function("curve", curve))
    return Stage(_check_description(description), "curve", (curve,), "under a curve fixed in advance", clamped)


def foreign_stage(
    event_or_profile: Unchecked, relation: str, description: str = "a mechanism of another library"
) -> Stage:
    """Make a stage from another library's accounting: a ``dp_accounting`` event, or a profile ``epsilon -> delta``.

    Events and profiles carry no relation: you must pass the relation. An add-or-remove profile, of both directions,
    becomes replace-one by group privacy: a replacement is a removal and an addition, so ``d_R(2e) <= (1 + e^e) d(e)``.
    dp-accounting's PLD accountant (the ``accounting`` extra) computes an event's profile.

    Args:
      event_or_profile: the event, or the profile.
      relation: "replace_one" or "add_or_remove", of the profile or as meant by the event's multipliers.
      description: a printable line.

    Raises:
      ValueError: another relation (dp-accounting's REPLACE_SPECIAL, a record against none, is not replace-one, and no
        theorem converts them), or an event unsupported by the accountant under this relation.
      TypeError: ``event_or_profile`` is neither.

    >>> from jaxdpbo import accounting
    >>> there = accounting.foreign_stage(accounting.gaussian_stage(0.5).profile, "add_or_remove", "their training")
    >>> round(there.epsilon(1e-5), 2), round(accounting.gaussian_stage(1.0).epsilon(1e-5), 2)
    (4.52, 4.38)
    """
    if isinstance(relation, str) and relation.lower() == "replace_special":
        raise ValueError(f"relation must be one of {RELATIONS}, got {relation!r}: a record against none is neither")
    relation = checks.one_of("relation", relation, RELATIONS)
    event = not callable(event_or_profile)
    profile = (
        _profile_of_event(event_or_profile, relation)
        if event
        else grid.clamp_profile(_function("event_or_profile", event_or_profile))
    )
    how = f"a dp-accounting event, {relation}" if event else f"a profile, {relation}"
    if relation == "replace_one":
        return Stage(_check_description(description), "foreign", (event_or_profile, relation), how, profile)
    reach = min(grid.first_below(profile, profile(grid.MAX_EPSILON / 2) + 1e-15), grid.MAX_EPSILON / 2)
    at = np.linspace(0.0, max(reach, 1e-3), POINTS)
    pairs = np.array([(1 + math.exp(epsilon)) * profile(float(epsilon)) for epsilon in at])
    how = f"{'a dp-accounting event' if event else 'a profile'}, {GROUP_PRIVACY}"
    return Stage(
        _check_description(description),
        "foreign",
        (event_or_profile, relation),
        how,
        grid.chords(2 * at, pairs * grid.ABOVE),
    )


def average_profile(weights: Sequence[float], profiles: Sequence[Profile]) -> Profile:
    """Return the profile of a run with a setting drawn from a public distribution, as part of the outcome.

    ``d(e) <= sum_h weight_h d_h(e)``: an average, not the worst setting, as neighbours share the distribution.

    Raises:
      ValueError: weights that are no distribution, or not as many as profiles.

    >>> from jaxdpbo import accounting
    >>> profiles = [accounting.gaussian_stage(mu).profile for mu in (0.5, 1.0)]
    >>> mean = accounting.average_profile([0.5, 0.5], profiles)
    >>> round(mean(1.0), 4)
    0.0669
    """
    clamped = _profiles(profiles)
    distribution = checks.vector("weights", weights, len(clamped))
    if np.any(distribution < 0) or not math.isclose(float(np.sum(distribution)), 1.0, rel_tol=1e-9):
        raise ValueError(f"weights must be at least zero and add up to 1, got {distribution.tolist()}")
    shares = [float(weight) * grid.ABOVE for weight in distribution]
    return lambda epsilon: min(
        1.0, sum(share * profile(epsilon) for share, profile in zip(shares, clamped, strict=True))
    )


def worst_profile(profiles: Sequence[Profile]) -> Profile:
    """Return the curve above all of these profiles, fixed in advance: compose a stage chosen among them by this curve.

    The curve is the largest delta at every epsilon. The largest of convex functions of ``e^epsilon`` is convex.

    Raises:
      ValueError: no profile.

    >>> from jaxdpbo import accounting
    >>> worst = accounting.worst_profile([accounting.gaussian_stage(0.5).profile, accounting.pure_stage(1.0).profile])
    >>> round(worst(0.0), 4), round(worst(1.5), 6)
    (0.4621, 0.000394)
    """
    clamped = _profiles(profiles)
    return lambda epsilon: max(profile(epsilon) for profile in clamped)


STAGE_MAKERS = {"gaussian": gaussian_stage, "bounded_range": bounded_range_stage}


class _Later:
    """A profile built on first use."""

    def __init__(self, make: Callable[[], Profile]) -> None:
        self.make, self.made = make, None

    def __call__(self, epsilon: float) -> float:
        if self.made is None:
            self.made = self.make()
        return self.made(epsilon)


def _is_usual(rate: float, z: float, steps: int) -> bool:
    """Return whether the training's own accountant is quick: its grid has no limit of its own."""
    if rate in (0, 1) or steps == 0 or z < sampling.MIN_NOISE_MULTIPLIER:
        return True
    return sampling.fits(rate, z, sampling.GRID_SHARE * sampling.deviation(rate, z))


def _approximate(kind: str, epsilon: float, delta: float, description: str) -> Stage:
    half, arguments = math.tanh(epsilon / 2), ((epsilon, delta) if kind == "approximate" else (epsilon,))

    def profile(at: float) -> float:
        if at >= epsilon:
            return delta
        return delta + (1 - delta) * -math.expm1(at - epsilon) * (1 + half) / 2

    how = f"({shorten_up(epsilon)}, {shorten_up(delta)})-DP" if delta else f"{shorten_up(epsilon)}-DP"
    return Stage(_check_description(description), kind, arguments, how, profile)


def _profile_of_event(event: Any, relation: str) -> Profile:
    accounting = checks.extra("dp_accounting", "accounting", "a foreign event")
    if not isinstance(event, accounting.DpEvent):
        raise TypeError(f"event_or_profile must be a dp_accounting event or a profile, got {type(event).__name__}")
    pld = checks.extra("dp_accounting.pld", "accounting", "a foreign event")
    named = {"replace_one": "REPLACE_ONE", "add_or_remove": "ADD_OR_REMOVE_ONE"}[relation]
    accountant = _first_close(pld.PLDAccountant, accounting.NeighboringRelation[named], event, relation)
    least = accountant.get_epsilon(accountant.get_delta(MAX_REACH) + 1e-13)
    at = np.linspace(0.0, max(min(least, MAX_REACH), 1e-3), POINTS)
    return grid.chords(at, np.broadcast_to(np.asarray(accountant.get_delta(at.tolist()), float), at.shape))


def _first_close(make: Any, neighbours: Any, event: Any, relation: str) -> Any:
    """Return the accountant on the first grid fine enough: each bounds from above, finer grids are slower."""
    accountant, before = None, np.array([])
    for interval in INTERVALS:
        accountant = make(neighbours, value_discretization_interval=interval)
        try:
            accountant.compose(event)
        except Exception as error:  # any complaint of the library about an event or its numbers
            raise ValueError(
                f"event_or_profile must be an event that dp-accounting supports for {relation}: {error}"
            ) from None
        epsilons = np.array([accountant.get_epsilon(delta) for delta in CLOSE_AT])
        if before.size and np.allclose(epsilons, before, rtol=CLOSE, atol=CLOSE):
            break
        before = epsilons
    return accountant


def _profiles(profiles: Sequence[Profile]) -> list[Profile]:
    if not isinstance(profiles, Sequence) or isinstance(profiles, str) or not all(map(callable, profiles)):
        raise TypeError(f"profiles must be a sequence of functions of epsilon, got {profiles!r:.80}")
    if not profiles:
        raise ValueError("profiles must hold at least one profile, got none")
    return [grid.clamp_profile(profile) for profile in profiles]


def _function(name: str, value: Unchecked) -> Profile:
    if not callable(value):
        raise TypeError(f"{name} must be a function of epsilon, got {value!r:.80}")
    profile: Any = value
    return profile


def _check_description(description: Unchecked) -> str:
    if not isinstance(description, str):
        raise TypeError(f"description must be text, got {description!r:.80}")
    if not description or not description.isprintable():
        raise ValueError(f"description must be one printable line, got {description!r}")
    return description
