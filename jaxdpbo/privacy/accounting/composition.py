"""Everything that leaves, in one statement: stages composed under one relation, replace-one.

Each stage is dominated by one pair of distributions, fixed beforehand; the pairs' product dominates any adaptive
composition of the stages (Zhu, Dong and Wang 2022, theorem 10; docs/theorems.md). Its losses are added by FFT on one
grid, every rounding upwards (Doroshenko et al. 2022). The smallest of all bounds that are proved is returned: that one,
the closed form where all stages are Gaussian DP, and basic composition.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import _checks
from jaxdpbo.privacy.accounting import _grid, bounded_range, gdp, rounded_gaussian, sampling
from jaxdpbo.privacy.accounting.stage import Stage
from jaxdpbo.types import Unchecked

RELATION = "replace_one"
SHARES = (0.1, 0.2, 0.4, 0.8, 1.6)  # the grid's step, in mean standard deviations: the next where one is too fine
POINTS = 10_000  # of a profile at most
LEVELS_AT = 4096  # points at which a profile is held under a Gaussian's
FURTHEST = 20.0  # a step beyond which quadrature between grid points would be long, in deviations of a stage's loss


class Item(NamedTuple):
    """A stage of a total: its words, what is claimed of it, and its own ``epsilon`` at the total's ``delta``."""

    what: str
    how: str
    epsilon: float


class Total(NamedTuple):
    """One statement for all stages: ``(epsilon, delta)``-DP under ``relation``.

    Attributes:
      epsilon: inf where nothing is proved.
      delta: as asked for.
      relation: "replace_one".
      by: the smallest bound: "gaussian", "grid", "basic", or "alone" for one stage.
      items: a row for each stage.
      stages: as given.
    """

    epsilon: float
    delta: float
    relation: str
    by: str
    items: tuple[Item, ...]
    stages: tuple[Stage, ...]

    def to_dp_event(self) -> Any:
        """The stages as one dp-accounting event, for a composition with what is accounted for there.

        Gaussian, pure and bounded-range stages become Gaussian mechanisms of their GDP level, sampled ones
        SampledWithoutReplacementDpEvents, selections RepeatAndSelectDpEvents. Noise multipliers are over replace-one
        sensitivities, as in ``dp_event``. So account for the event under ADD_OR_REMOVE_ONE, whose Gaussian has
        sensitivity 1, or, where a stage is sampled, by the RDP accountant under REPLACE_ONE, which takes no other
        relation for it. The epsilon is then a bound for replace-one, and not smaller than this total's own proof gives.

        Raises:
          ValueError: a stage for which there is no such event, by name.
          ImportError: no dp_accounting.

        >>> from jaxdpbo import accounting
        >>> from jaxdpbo.privacy.accounting import stage
        >>> accounting.total([stage.gaussian(0.5, "the search")], 1e-5).to_dp_event()
        ComposedDpEvent(events=[GaussianDpEvent(noise_multiplier=2.0)])
        """
        events = _checks.extra("dp_accounting", "accounting", "to_dp_event").dp_event
        return events.ComposedDpEvent([_event(events, one.what, one.kind, one.arguments) for one in self.stages])

    def __str__(self) -> str:
        """The statement, and a line for each stage."""
        rows = [f"- {one.what}: {one.how}; alone epsilon {one.epsilon:.4g}" for one in self.items]
        return "\n".join([f"epsilon {self.epsilon:.6g} at delta {self.delta:g} ({self.relation})", *rows])


def total(stages: Sequence[Stage], delta: float) -> Total:
    """The smallest proved ``epsilon`` at which all that the stages release is ``(epsilon, delta)``-DP, replace-one.

    Holds if every stage's profile does for these rows whatever the stages before it released, and all parameters were
    fixed without the rows. A stage chosen by an earlier release enters by one curve above all of its options:
    ``stage.from_curve``. The order of stages does not matter.

    Args:
      stages: made by ``accounting.stage``; all about the same rows.
      delta: of the statement.

    Returns:
      The total, itemised. Its ``epsilon`` is rounded upwards, by some .2 % where the grid gives it.

    Raises:
      ValueError: ``delta`` not in (0, 1).
      TypeError: something else among the stages. A bare epsilon says neither its relation nor its profile, and epsilons
        of two relations do not add up: ``stage.foreign`` takes what another relation bounds.

    >>> from jaxdpbo import accounting
    >>> from jaxdpbo.privacy.accounting import stage
    >>> found = accounting.total([stage.gaussian(0.5, "the search"), stage.pure(0.3, "the choice")], 1e-5)
    >>> print(found)
    epsilon 2.22774 at delta 1e-05 (replace_one)
    - the search: 0.5-GDP; alone epsilon 1.993
    - the choice: 0.3-DP; alone epsilon 0.3
    """
    delta, given = _checks.probability("delta", delta), _stages(stages)
    alone = {id(one): one.epsilon(delta) for one in {id(one): one for one in given}.values()}
    items = tuple(Item(one.what, one.how, alone[id(one)]) for one in given)
    mu, rest = _split_gaussian(given)
    if not rest:
        found = [(gdp.gdp_epsilon(mu, delta), "gaussian")]
    else:
        level, rest_alone = (
            _gaussian_level(mu, rest, 0.0),
            [rest[0].epsilon(delta)] if mu == 0 and len(rest) == 1 else [],
        )
        found = [(gdp.gdp_epsilon(level, delta), "gaussian"), (_basic(mu, rest, delta), "basic")]
        found += [(each, "alone") for each in rest_alone] + [(_grid_epsilon(mu, rest, delta), "grid")]
    epsilon, by = min(found, key=lambda each: each[0])
    return Total(epsilon, delta, RELATION, by, items, given)


def compose_profile(stages: Sequence[Stage]) -> _grid.Profile:
    """The whole profile ``epsilon -> delta`` of stages composed: of a selection's run that releases several.

    By the grid, so that no delta is under some 1e-10; 1 where nothing is proved.

    Raises:
      TypeError: something else among the stages.

    >>> from jaxdpbo import accounting
    >>> from jaxdpbo.privacy.accounting import stage
    >>> profile = accounting.compose_profile([stage.gaussian(0.3, "training"), stage.gaussian(0.4, "score")])
    >>> round(profile(1.0) / accounting.gdp_delta(0.5, 1.0), 6)
    1.0
    """
    mu, rest = _split_gaussian(_stages(stages))
    if not rest:
        return partial(gdp.gdp_delta, mu)
    found = _sum(mu, rest, 1.0, _grid.TRUNCATED)
    return _grid.make_profile(found) if found is not None else lambda epsilon: 1.0


def gdp_level(stages: Sequence[Stage], delta: float = 0.0) -> float:
    """A proved ``mu`` at which all that the stages release is ``mu``-GDP but for ``delta``, replace-one.

    Formal guarantee: the composed profile is at most ``gdp_delta(mu, epsilon) + delta`` at every ``epsilon``. Such
    levels add up in squares and such deltas in sums, also of stages that are chosen by earlier releases: what a ledger
    of notion "gdp" adds up (docs/theorems.md).

    Without a delta a sampled training is no better than whole batches, ``sqrt(steps) / noise_multiplier``: far out its
    losses are theirs. A small delta is what sampling needs to count.

    Args:
      stages: as in ``total``.
      delta: in [0, 1).

    Returns:
      ``mu``, rounded up; inf where nothing is proved, as of a selection, a curve or another library's event at 0.

    Raises:
      ValueError: ``delta`` out of range.
      TypeError: something else among the stages.

    >>> from jaxdpbo import accounting
    >>> from jaxdpbo.privacy.accounting import stage
    >>> training = stage.sampled_gaussian(rate=0.01, noise_multiplier=1.0, steps=100)
    >>> [round(accounting.gdp_level([training], delta), 2) for delta in (0.0, 1e-6)]
    [10.0, 0.22]
    """
    given = _stages(stages)
    if (delta := _checks.number("delta", delta)) != 0:
        delta = _checks.probability("delta", delta)
    mu, rest = _split_gaussian(given)
    least = _gaussian_level(mu, rest, delta)
    if not rest or delta == 0:
        return least
    return min(least, _level_above(compose_profile(given), delta))


def _level_above(profile: _grid.Profile, delta: float) -> float:
    """A ``mu`` whose profile, plus ``delta``, is above this one everywhere.

    Between two points both fall: this one at the first and the Gaussian's at the second are compared.
    """
    reach = _grid.first_below(profile, delta)
    if math.isinf(reach):
        return math.inf
    places, mu = np.linspace(0.0, reach, LEVELS_AT).tolist(), 0.0
    # In any order: in a mixed one few points ask for more than those before them, and each that does is a root.
    for number in np.random.default_rng(0).permutation(LEVELS_AT - 1) if reach > 0 else ():
        wanted = (profile(places[number]) - delta) * _grid.ABOVE
        if wanted >= 1:
            return math.inf
        if wanted > 0 and gdp.gdp_delta(mu, places[number + 1]) < wanted:
            mu = gdp.gdp_mu(places[number + 1], wanted) * (1 + 1e-9)
    return mu


def _stages(stages: Unchecked) -> tuple[Stage, ...]:
    if isinstance(stages, Stage) or not isinstance(stages, (list, tuple)):
        raise TypeError(f"stages must be a list of stages made by accounting.stage, got {stages!r:.80}")
    for one in stages:
        if not isinstance(one, Stage):
            raise TypeError(
                f"stages must be made by accounting.stage, got {one!r:.80}: a bare epsilon has no relation, no profile"
            )
    return tuple(stages)


def _split_gaussian(stages: Sequence[Stage]) -> tuple[float, list[Stage]]:
    """The level of all stages that are Gaussian, rounded up, and the others that cost anything."""
    levels = [_level_as_gaussian(stage) for stage in stages]
    rest = [stage for stage, level in zip(stages, levels, strict=True) if level is None]
    known = [level for level in levels if level]
    if math.inf in known:
        return math.inf, rest
    return (rounded_gaussian.compose_gdp_rounded_up(*known) if known else 0.0), rest


def _level_as_gaussian(stage: Stage) -> float | None:
    """The level of a stage that counts as Gaussian, 0 of one that costs nothing, None of others.

    A sampled training counts as Gaussian where it takes whole batches, or has too little noise for the grid.
    """
    if stage.kind == "gaussian":
        return stage.arguments[0]
    if stage.kind == "pure":
        return None if stage.arguments[0] > 0 else 0.0
    if stage.kind != "sampled_gaussian":
        return None
    rate, z, steps = stage.arguments
    if rate == 0 or steps == 0:
        return 0.0
    if rate < 1 and z >= sampling.MIN_NOISE_MULTIPLIER:
        return None
    return math.inf if z == 0 else math.sqrt(steps) / z


def _level(kind: str, arguments: tuple[Any, ...]) -> float:
    """The GDP level; of an approximate stage but for its delta; inf where there is none.

    Pure ``epsilon``-DP has a range of ``2 epsilon``; a sampled training is no worse than whole batches, and far out no
    better.
    """
    if kind == "gaussian":
        return arguments[0]
    if kind == "sampled_gaussian":
        _, z, steps = arguments
        return math.sqrt(steps) / z if z > 0 else math.inf
    if kind not in ("pure", "approximate", "bounded_range") or arguments[0] == 0:
        return 0.0 if arguments[0] == 0 else math.inf
    try:
        return bounded_range.bounded_range_mu(arguments[0] if kind == "bounded_range" else 2 * arguments[0])
    except ValueError:  # no float holds it
        return math.inf


def _gaussian_level(mu: float, rest: Sequence[Stage], slack: float) -> float:
    """Of all stages together but for ``slack``, where each is Gaussian DP but for a delta of its own; else inf."""
    if math.fsum(one.arguments[1] for one in rest if one.kind == "approximate") * (1 + 1e-15) > slack:
        return math.inf
    return math.hypot(mu, *(_level(one.kind, one.arguments) for one in rest)) * (1 + 1e-15)


def _basic(mu: float, rest: Sequence[Stage], delta: float) -> float:
    """The sum of the stages' own epsilons, which share ``delta``; pure ones take none of it."""
    charged = [one for one in rest if one.kind != "pure"]
    share = delta / max(1, len(charged) + (mu > 0)) * (1 - 1e-15)
    if share == 0:  # of a delta among the least floats
        return math.inf
    found = [one.arguments[0] for one in rest if one.kind == "pure"]
    found += [one.epsilon(share) for one in charged] + ([gdp.gdp_epsilon(mu, share)] if mu > 0 else [])
    return math.fsum(found) * (1 + 1e-15)


def _grid_epsilon(mu: float, rest: Sequence[Stage], delta: float) -> float:
    slack = min(_grid.TRUNCATED, 1e-4 * delta)
    found = _sum(mu, rest, delta, slack)
    return math.inf if found is None else _grid.find_epsilon(found.mass, found.losses, delta - found.lost)


def _sum(mu: float, rest: Sequence[Stage], delta: float, slack: float) -> _grid.Sum | None:
    """All losses added, on the finest grid that is short enough."""
    groups = _groups(mu, rest)
    count = sum(times for _, times in groups)
    if math.isinf(mu) or slack / count < 1e-300:
        return None
    shape = [(times, _deviation(one, slack / count)) for one, times in groups]
    mean = math.sqrt(sum(times * deviation**2 for times, deviation in shape) / count)
    for share in SHARES if mean > 0 else ():
        step = share * mean
        parts = [
            _part(one, times, step, slack / count, deviation)
            for (one, times), (_, deviation) in zip(groups, shape, strict=True)
        ]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and (found := _grid.add_losses(known, step, slack, delta)) is not None:
            return found
    return None


def _groups(mu: float, rest: Sequence[Stage]) -> list[tuple[Stage, int]]:
    """Stages that are alike, once each, and how often: one transform serves all of them."""
    found: list[tuple[Stage, int]] = []
    if mu > 0:
        found.append((Stage("", "gaussian", (mu,), "", partial(gdp.gdp_delta, mu)), 1))
    for one in rest:
        times = one.arguments[2] if one.kind == "sampled_gaussian" else 1
        key = one.kind, one.arguments[:2]
        same = [place for place, (other, _) in enumerate(found) if (other.kind, other.arguments[:2]) == key]
        if same:
            found[same[0]] = (one, found[same[0]][1] + times)
        else:
            found.append((one, times))
    return found


def _group_profile(one: Stage) -> tuple[_grid.Profile, tuple[float, float] | None]:
    """The profile of one of a group, and ``(rate, noise_multiplier)`` where its losses have densities."""
    if one.kind == "gaussian":
        return one.profile, (1.0, 1 / one.arguments[0])
    if one.kind == "sampled_gaussian":
        rate, z, _ = one.arguments
        return partial(sampling.step_delta, rate, z), (rate, z)
    return one.profile, None


def _deviation(one: Stage, tail: float) -> float:
    """The standard deviation of a stage's loss, from a grid of a few hundred points where it has no density."""
    profile, density = _group_profile(one)
    if density is not None:
        return sampling.deviation(*density)
    reach = _grid.first_below(profile, profile(_grid.MAX_EPSILON) + 1e-6)
    part = _grid.from_profile(profile, max(min(reach, _grid.MAX_EPSILON), 1e-6) / 200, max(tail, 1e-6), 200)
    if part is None:
        return 0.0
    half = len(part.mass) // 2
    losses = max(min(reach, _grid.MAX_EPSILON), 1e-6) / 200 * np.arange(-half, half + 1)
    return float(math.sqrt(part.mass @ losses**2))


def _part(one: Stage, times: int, step: float, tail: float, deviation: float) -> _grid.Part | None:
    """A stage's losses on the grid; None where it has not the points for it."""
    profile, density = _group_profile(one)
    if profile(0.0) <= tail:
        return _grid.Part(np.ones(1), tail, times)
    if density is None or step > FURTHEST * deviation:
        part = _grid.from_profile(profile, step, tail, POINTS)
        return None if part is None else part._replace(times=times)
    rate, z = density
    return sampling.discretise_loss(rate, z, step, tail, times) if sampling.fits(rate, z, step) else None


def _event(events: Any, what: str, kind: str, arguments: tuple[Any, ...]) -> Any:
    if kind == "selection" and isinstance(arguments[1], tuple):
        law = arguments[0]
        return events.RepeatAndSelectDpEvent(_event(events, what, *arguments[1]), law.mean, law.eta)
    if kind == "sampled_gaussian":
        rate, z, steps = arguments
        if rate == 0 or steps == 0:
            return events.NoOpDpEvent()
        share = Fraction(rate).limit_denominator(10**6)
        if float(share) != rate:
            share = Fraction(math.ceil(Fraction(rate) * 10**9), 10**9)
        step = events.GaussianDpEvent(z) if z > 0 else events.NonPrivateDpEvent()
        batch = events.SampledWithoutReplacementDpEvent(share.denominator, share.numerator, step)
        return events.SelfComposedDpEvent(batch if share < 1 and z > 0 else step, steps)
    if kind not in ("gaussian", "pure", "bounded_range"):
        raise ValueError(f"stages must have dp-accounting events, got {what!r}, which is {kind} and has none")
    if arguments[0] == 0:
        return events.NoOpDpEvent()
    level = _level(kind, arguments)
    return events.NonPrivateDpEvent() if math.isinf(level) else events.GaussianDpEvent(1 / level)
