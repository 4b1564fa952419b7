"""Composition of all releases into a single guarantee: stages under the replace-one relation.

Each stage is dominated by a pair of distributions, fixed in advance; the pairs' product dominates any adaptive
composition of the stages (Zhu, Dong and Wang 2022, theorem 10; docs/theorems.md). Losses are added by FFT on a shared
grid, with every rounding upwards (Doroshenko et al. 2022). ``total`` takes the smallest proved bound: the grid's, the
closed form if all stages are Gaussian DP, or basic composition.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks, rounding
from jaxdpbo.accounting import bounded_range, gdp, grid, rounded_gaussian, sampling
from jaxdpbo.accounting.stage import Stage, StageFields, stage_from_fields
from jaxdpbo.types import Unchecked

RELATION = "replace_one"
SHARES = (0.1, 0.2, 0.4, 0.8, 1.6)  # grid steps in mean standard deviations: the first that gives a short enough grid
POINTS = 10_000  # largest number of points of a profile
LEVELS_AT = 4096  # points of comparison of a profile with a Gaussian's
FURTHEST = 20.0  # beyond this step, in deviations of a stage's loss, quadrature between grid points would be long


class Item(NamedTuple):
    """A stage of a total: its description, its guarantee in words, and its own ``epsilon`` at the total's ``delta``."""

    description: str
    how: str
    epsilon: float


class Total(NamedTuple):
    """A single guarantee for all stages: ``(epsilon, delta)``-DP under ``relation``.

    Attributes:
      epsilon: inf where nothing is proved.
      delta: as requested.
      relation: "replace_one".
      by: the smallest bound: "gaussian", "grid", "basic", or "alone" for a single stage.
      items: a row for each stage.
      stages: as passed to ``total``.
    """

    epsilon: float
    delta: float
    relation: str
    by: str
    items: tuple[Item, ...]
    stages: tuple[Stage, ...]

    def to_dp_event(self) -> Any:
        """Convert the stages to a dp-accounting event, to compose with mechanisms accounted for there.

        Gaussian, pure and bounded-range stages become Gaussian mechanisms of their GDP level, sampled stages
        SampledWithoutReplacementDpEvents, selections RepeatAndSelectDpEvents. Noise multipliers are over replace-one
        sensitivities, as in ``dp_event``: account for the event under ADD_OR_REMOVE_ONE, with Gaussian sensitivity 1.
        With a sampled stage use the RDP accountant under REPLACE_ONE, the only relation for sampling there. The
        epsilon is then a bound for replace-one, and not smaller than this total's own proof gives.

        Raises:
          ValueError: a stage without such an event, by name.
          ImportError: no dp_accounting.

        >>> from jaxdpbo import accounting
        >>> accounting.total([accounting.gaussian_stage(0.5, "the search")], 1e-5).to_dp_event()
        ComposedDpEvent(events=[GaussianDpEvent(noise_multiplier=2.0)])
        """
        events = checks.extra("dp_accounting", "accounting", "to_dp_event").dp_event
        return events.ComposedDpEvent(
            [_event(events, stage.description, stage.kind, stage.arguments) for stage in self.stages]
        )

    def __str__(self) -> str:
        """Format the guarantee, and a line for each stage."""
        up = rounding.shorten_up
        rows = [f"- {item.description}: {item.how}; alone epsilon {up(item.epsilon, 4)}" for item in self.items]
        return "\n".join([f"epsilon {up(self.epsilon)} at delta {up(self.delta)} ({self.relation})", *rows])


def total(stages: Sequence[Stage], delta: float) -> Total:
    """Compose stages: the smallest proved ``epsilon`` at ``delta`` of everything the stages release, replace-one.

    The guarantee needs every stage's profile to hold for these rows after any releases of earlier stages, and all
    parameters to be fixed without the rows. Pass a stage chosen by an earlier release as a curve above all of its
    options: ``accounting.curve_stage``. The order of stages does not matter.

    Args:
      stages: made by ``accounting.Stage``; all about the same rows.
      delta: of the guarantee.

    Returns:
      The itemised total. Its ``epsilon`` is rounded upwards, by some .2 % from the grid.

    Raises:
      ValueError: ``delta`` not in (0, 1).
      TypeError: an element is no stage. A bare epsilon has neither relation nor profile, and epsilons of two relations
        do not add up: ``accounting.foreign_stage`` takes a bound under another relation.

    >>> from jaxdpbo import accounting
    >>> stages = [accounting.gaussian_stage(0.5, "the search"), accounting.pure_stage(0.3, "the choice")]
    >>> composed = accounting.total(stages, 1e-5)
    >>> print(composed)
    epsilon 2.22774 at delta 1e-05 (replace_one)
    - the search: 0.5-GDP; alone epsilon 1.994
    - the choice: 0.3-DP; alone epsilon 0.3
    """
    delta, checked = checks.probability("delta", delta), _stages(stages)
    alone = {id(stage): stage.epsilon(delta) for stage in {id(stage): stage for stage in checked}.values()}
    items = tuple(Item(stage.description, stage.how, alone[id(stage)]) for stage in checked)
    mu, rest = _split_gaussian(checked)
    if not rest:
        bounds = [(gdp.gdp_epsilon(mu, delta), "gaussian")]
    else:
        level, rest_alone = (
            _gaussian_level(mu, rest, 0.0),
            [rest[0].epsilon(delta)] if mu == 0 and len(rest) == 1 else [],
        )
        bounds = [(gdp.gdp_epsilon(level, delta), "gaussian"), (_basic(mu, rest, delta), "basic")]
        bounds += [(bound, "alone") for bound in rest_alone] + [(_grid_epsilon(mu, rest, delta), "grid")]
    epsilon, by = min(bounds, key=lambda bound: bound[0])
    return Total(epsilon, delta, RELATION, by, items, checked)


@lru_cache(maxsize=4096)
def stages_epsilon(stages: tuple[StageFields, ...], delta: float) -> float:
    """Return the epsilon of ``total`` for the fields of a guarantee's stages.

    >>> from jaxdpbo.accounting import composition
    >>> round(composition.stages_epsilon((("a choice", "bounded_range", 0.25),) * 5, 1e-5), 3)
    1.025
    """
    return total([stage_from_fields(*stage) for stage in stages], delta).epsilon


def compose_profile(stages: Sequence[Stage]) -> grid.Profile:
    """Return the whole profile ``epsilon -> delta`` of composed stages, such as all releases of a selection's run.

    Exact for Gaussian stages alone, otherwise by the grid, with no delta under some 1e-10; 1 where nothing is proved.

    Raises:
      TypeError: an element is no stage.

    >>> from jaxdpbo import accounting
    >>> stages = [accounting.gaussian_stage(0.3, "training"), accounting.gaussian_stage(0.4, "score")]
    >>> profile = accounting.compose_profile(stages)
    >>> round(profile(1.0) / accounting.gdp_delta(0.5, 1.0), 6)
    1.0
    """
    mu, rest = _split_gaussian(_stages(stages))
    if not rest:
        return partial(gdp.gdp_delta, mu)
    sum_of_losses = _sum(mu, rest, 1.0, grid.TRUNCATED)
    return grid.make_profile(sum_of_losses) if sum_of_losses is not None else lambda epsilon: 1.0


def gdp_level(stages: Sequence[Stage], delta: float = 0.0) -> float:
    """Return a proved ``mu``: everything the stages release is ``mu``-GDP but for ``delta``, replace-one.

    Formal guarantee: the composed profile is at most ``gdp_delta(mu, epsilon) + delta`` at every ``epsilon``. These
    levels add up in squares and these deltas in sums, also for stages chosen by earlier releases: the sums of a ledger
    of notion "gdp" (docs/theorems.md).

    Without a delta a sampled training is no better than whole batches, ``sqrt(steps) / noise_multiplier``: far out the
    losses are the same. Sampling needs a small delta to count.

    Args:
      stages: as in ``total``.
      delta: in [0, 1).

    Returns:
      ``mu``, rounded up; inf where nothing is proved: at 0, for a selection, a curve or another library's event.

    Raises:
      ValueError: ``delta`` out of range.
      TypeError: an element is no stage.

    >>> from jaxdpbo import accounting
    >>> training = accounting.sampled_gaussian_stage(rate=0.01, noise_multiplier=1.0, steps=100)
    >>> [round(accounting.gdp_level([training], delta), 2) for delta in (0.0, 1e-6)]
    [10.0, 0.22]
    """
    checked = _stages(stages)
    if (delta := checks.number("delta", delta)) != 0:
        delta = checks.probability("delta", delta)
    mu, rest = _split_gaussian(checked)
    least = _gaussian_level(mu, rest, delta)
    if not rest or delta == 0:
        return least
    return min(least, _level_above(compose_profile(checked), delta))


def _level_above(profile: grid.Profile, delta: float) -> float:
    """Return a ``mu`` with the Gaussian's profile, plus ``delta``, above ``profile`` everywhere.

    Both decrease between two points: compare ``profile`` at the first with the Gaussian's at the second.
    """
    reach = grid.first_below(profile, delta)
    if math.isinf(reach):
        return math.inf
    places, mu = np.linspace(0.0, reach, LEVELS_AT).tolist(), 0.0
    # The order is free. In random order few points need a larger mu than all points before, and only those cost a root.
    for number in np.random.default_rng(0).permutation(LEVELS_AT - 1) if reach > 0 else ():
        needed = (profile(places[number]) - delta) * grid.ABOVE
        if needed >= 1:
            return math.inf
        if needed > 0 and gdp.gdp_delta(mu, places[number + 1]) < needed:
            mu = gdp.gdp_mu(places[number + 1], needed) * (1 + 1e-9)
    return mu


def _stages(stages: Unchecked) -> tuple[Stage, ...]:
    if isinstance(stages, Stage) or not isinstance(stages, (list, tuple)):
        raise TypeError(f"stages must be a list of accounting.Stage, got {stages!r:.80}")
    for item in stages:
        if not isinstance(item, Stage):
            raise TypeError(
                f"stages must be accounting.Stage, got {item!r:.80}: a bare epsilon has no relation, no profile"
            )
    return tuple(stages)


def _split_gaussian(stages: Sequence[Stage]) -> tuple[float, list[Stage]]:
    """Return the level of all Gaussian stages, rounded up, and the other stages with any cost."""
    levels = [_level_as_gaussian(stage) for stage in stages]
    rest = [stage for stage, level in zip(stages, levels, strict=True) if level is None]
    positive = [level for level in levels if level]
    if math.inf in positive:
        return math.inf, rest
    return (rounded_gaussian.compose_gdp_rounded_up(*positive) if positive else 0.0), rest


def _level_as_gaussian(stage: Stage) -> float | None:
    """Return the level of a stage that counts as Gaussian, 0 for a stage without cost, None for others.

    A sampled training counts as Gaussian with whole batches, or with too little noise for the grid.
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
    """Return the GDP level of a stage, apart from an approximate stage's delta; inf where there is none.

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
    except ValueError:  # no float holds the level
        return math.inf


def _gaussian_level(mu: float, rest: Sequence[Stage], slack: float) -> float:
    """Return the level of all stages but for ``slack``, if each is Gaussian DP but for its delta; otherwise inf."""
    if math.fsum(stage.arguments[1] for stage in rest if stage.kind == "approximate") * (1 + 1e-15) > slack:
        return math.inf
    return math.hypot(mu, *(_level(stage.kind, stage.arguments) for stage in rest)) * (1 + 1e-15)


def _basic(mu: float, rest: Sequence[Stage], delta: float) -> float:
    """Return the sum of the stages' own epsilons; all but pure stages share ``delta``."""
    impure = [stage for stage in rest if stage.kind != "pure"]
    share = delta / max(1, len(impure) + (mu > 0)) * (1 - 1e-15)
    if share == 0:  # delta is among the smallest floats
        return math.inf
    epsilons = [stage.arguments[0] for stage in rest if stage.kind == "pure"]
    epsilons += [stage.epsilon(share) for stage in impure] + ([gdp.gdp_epsilon(mu, share)] if mu > 0 else [])
    return math.fsum(epsilons) * (1 + 1e-15)


def _grid_epsilon(mu: float, rest: Sequence[Stage], delta: float) -> float:
    slack = min(grid.TRUNCATED, 1e-4 * delta)
    sum_of_losses = _sum(mu, rest, delta, slack)
    return (
        math.inf
        if sum_of_losses is None
        else grid.find_epsilon(sum_of_losses.mass, sum_of_losses.losses, delta - sum_of_losses.lost)
    )


def _sum(mu: float, rest: Sequence[Stage], delta: float, slack: float) -> grid.LossSum | None:
    """Add all losses on the finest grid short enough."""
    groups = _groups(mu, rest)
    count = sum(times for _, times in groups)
    if math.isinf(mu) or slack / count < 1e-300:
        return None
    shape = [(times, _deviation(stage, slack / count)) for stage, times in groups]
    mean = math.sqrt(sum(times * deviation**2 for times, deviation in shape) / count)
    for share in SHARES if mean > 0 else ():
        step = share * mean
        parts = [
            _part(stage, times, step, slack / count, deviation)
            for (stage, times), (_, deviation) in zip(groups, shape, strict=True)
        ]
        placed = [part for part in parts if part is not None]
        if len(placed) == len(parts) and (sum_of_losses := grid.add_losses(placed, step, slack, delta)) is not None:
            return sum_of_losses
    return None


def _groups(mu: float, rest: Sequence[Stage]) -> list[tuple[Stage, int]]:
    """Group equal stages and count them: a single transform serves each group."""
    groups: list[tuple[Stage, int]] = []
    if mu > 0:
        groups.append((Stage("", "gaussian", (mu,), "", partial(gdp.gdp_delta, mu)), 1))
    for stage in rest:
        times = stage.arguments[2] if stage.kind == "sampled_gaussian" else 1
        key = stage.kind, stage.arguments[:2]
        same = [place for place, (other, _) in enumerate(groups) if (other.kind, other.arguments[:2]) == key]
        if same:
            groups[same[0]] = (stage, groups[same[0]][1] + times)
        else:
            groups.append((stage, times))
    return groups


def _group_profile(stage: Stage) -> tuple[grid.Profile, tuple[float, float] | None]:
    """Return the profile of a group's stage, and ``(rate, noise_multiplier)`` if its losses have densities."""
    if stage.kind == "gaussian":
        return stage.profile, (1.0, 1 / stage.arguments[0])
    if stage.kind == "sampled_gaussian":
        rate, z, _ = stage.arguments
        return partial(sampling.step_delta, rate, z), (rate, z)
    return stage.profile, None


def _deviation(stage: Stage, tail: float) -> float:
    """Return the standard deviation of a stage's loss, by a grid of a few hundred points without a density."""
    profile, density = _group_profile(stage)
    if density is not None:
        return sampling.deviation(*density)
    reach = grid.first_below(profile, profile(grid.MAX_EPSILON) + 1e-6)
    part = grid.from_profile(profile, max(min(reach, grid.MAX_EPSILON), 1e-6) / 200, max(tail, 1e-6), 200)
    if part is None:
        return 0.0
    half = len(part.mass) // 2
    losses = max(min(reach, grid.MAX_EPSILON), 1e-6) / 200 * np.arange(-half, half + 1)
    return float(math.sqrt(part.mass @ losses**2))


def _part(stage: Stage, times: int, step: float, tail: float, deviation: float) -> grid.Part | None:
    """Place a stage's losses on the grid; None if the grid has too few points."""
    profile, density = _group_profile(stage)
    if profile(0.0) <= tail:
        return grid.Part(np.ones(1), tail, times)
    if density is None or step > FURTHEST * deviation:
        part = grid.from_profile(profile, step, tail, POINTS)
        return None if part is None else part._replace(times=times)
    rate, z = density
    return sampling.discretise_loss(rate, z, step, tail, times) if sampling.fits(rate, z, step) else None


def _event(events: Any, description: str, kind: str, arguments: tuple[Any, ...]) -> Any:
    if kind == "selection" and isinstance(arguments[1], tuple):
        repetitions = arguments[0]
        return events.RepeatAndSelectDpEvent(
            _event(events, description, *arguments[1]), repetitions.mean, repetitions.eta
        )
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
        raise ValueError(f"stages must have dp-accounting events, got {description!r} of kind {kind!r}: leave it out")
    if arguments[0] == 0:
        return events.NoOpDpEvent()
    level = _level(kind, arguments)
    return events.NonPrivateDpEvent() if math.isinf(level) else events.GaussianDpEvent(1 / level)
