"""How a claim of a paper is decided: rules from what was measured to a verdict, for the register in ``claims``.

A margin is the smallest difference that matters, in the units of the measurement, fixed before the run. Intervals are
Student's, at 95 %, over independent units.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

HOLDS, SAME, UNDECIDED, REVERSED = "holds", "no difference", "undecided", "the other way round"
DIFFERS, UNMEASURED, ONCE = "differs", "cannot be measured here", "one run, no interval"
PROVED, FALSE, BUILT, UNTRIED = "proved", "false", "built as printed", "not tried"
VERDICTS = (HOLDS, PROVED, BUILT, SAME, UNDECIDED, DIFFERS, REVERSED, FALSE, UNMEASURED, ONCE, UNTRIED)
MEASURED = (HOLDS, SAME, UNDECIDED, DIFFERS, REVERSED, UNMEASURED, ONCE)  # by a rule
FREE, RANDOM = "not private", "random search"
HARD = 2.0  # a search without privacy that ends above so many times the largest printed regret measures nothing

Found = Any  # a result, as its JSON holds it
Values = Callable[..., np.ndarray]  # of results: a number for each independent unit
Measured = tuple[str, str]  # what was measured, in words, and the verdict
Rule = Callable[..., Measured]


class Interval(NamedTuple):
    """A mean and its interval."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:+.3g} ({self.low:+.3g} to {self.high:+.3g}; {self.count})"


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Student's t, of independent values."""
    values = np.asarray(values, float)
    mean, count = float(values.mean()), len(values)
    half = float(stats.t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count)) if count > 1 else np.inf
    return Interval(mean, mean - half, mean + half, count)


def at(*path: str) -> Values:
    """The values at these keys of a result."""

    def values(found: Found, *others: Found) -> np.ndarray:
        for key in path:
            found = found[key]
        return np.asarray(found, float)

    return values


def decided(found: Interval, margin: float) -> str:
    """For a claim that the mean is negative."""
    if -margin < found.low and found.high < margin:
        return SAME
    return HOLDS if found.high < 0 else REVERSED if found.low > 0 else UNDECIDED


def negative(values: Values, margin: float, said: str = "") -> Rule:
    """The claim: the mean is below 0."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        return f"{said} {over}".strip(), decided(over, margin)

    return rule


def below(first: Values, second: Values, margin: float, said: str = "") -> Rule:
    """The claim: the first is below the second, paired."""
    return negative(lambda *found: first(*found) - second(*found), margin, said)


def at_most(values: Values, limit: float, margin: float, said: str = "") -> Rule:
    """The claim: the mean is below a limit."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        shifted = Interval(over.mean - limit, over.low - limit, over.high - limit, over.count)
        verdict = decided(shifted, margin)
        return f"{said} {over}, limit {limit:g}".strip(), DIFFERS if verdict == REVERSED else verdict

    return rule


def equal(values: Values, margin: float, said: str = "") -> Rule:
    """The claim: the mean is 0, up to the margin."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        inside, outside = -margin < over.low and over.high < margin, over.low > margin or over.high < -margin
        return f"{said} {over}".strip(), HOLDS if inside else DIFFERS if outside else UNDECIDED

    return rule


def every(*rules: Rule) -> Rule:
    """The claim: all of these. One that is the other way round decides; otherwise the weakest of them."""
    order = (REVERSED, DIFFERS, UNMEASURED, UNDECIDED, SAME, HOLDS)

    def rule(*found: Found) -> Measured:
        said, verdicts = zip(*(one(*found) for one in rules), strict=True)
        return "; ".join(said), min(verdicts, key=order.index)

    return rule


def printed_gaps(panel: str, printed: Sequence[float], margin: float, where: str = "final") -> Rule:
    """The claim: each budget leaves the printed regret beyond a search's without privacy, up to the margin."""

    def rule(found: Found) -> Measured:
        free, *private = found[where][panel].values()
        overs = [interval(np.subtract(one, free)) for one in private]
        names = list(found[where][panel])[1:]
        said = "; ".join(
            f"{name}: {over}, printed {one:+.3f}" for name, over, one in zip(names, overs, printed, strict=True)
        )
        near = [over.low - margin <= one <= over.high + margin for over, one in zip(overs, printed, strict=True)]
        wide = [over.high - over.low > 4 * margin for over in overs]
        return said, DIFFERS if not all(near) else UNDECIDED if any(wide) else HOLDS

    return rule


def falls_with_epsilon(panel: str, margin: float, where: str = "final") -> Rule:
    """The claim: the largest budget of a panel ends below the smallest one.

    An order of private searches means nothing where the best of them ends below the search without privacy.
    """

    def rule(found: Found) -> Measured:
        free, *private = found[where][panel].values()
        over = interval(np.subtract(private[0], private[-1]))
        said = f"largest budget minus smallest: {over}"
        beaten = interval(np.subtract(free, min(private, key=np.mean)))
        if beaten.low > 0:
            return f"{said}; without privacy minus the best: {beaten}", UNMEASURED
        return said, decided(over, margin)

    return rule


def unless_hard(rule: Rule, without: Callable[..., float], largest: float) -> Rule:
    """Nothing is measured where a search without privacy ends far above the printed regrets."""

    def guarded(*found: Found) -> Measured:
        said, verdict = rule(*found)
        free = without(*found)
        if free > HARD * largest:
            return f"{said}; without privacy {free:.2f}, and the paper prints at most {largest:.2f}", UNMEASURED
        return said, verdict

    return guarded


def over_tables(side: str, where: str = "above_the_printed_best") -> Values:
    """By run, the mean over tables that share their draws: the printed best ``r`` minus the others of a side."""

    def values(*found: Found) -> np.ndarray:
        return -np.mean([table[where][side] for table in found if side in (table[where] or {})], axis=0)

    return values


def last_losses(method: str) -> Values:
    """Of figure 3, by seed."""
    return lambda found: np.array([curve[-1] for curve in found["runs"][method].values()])


def welch(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The difference of two means of independent samples of unequal variance."""
    low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return Interval(float(np.mean(first) - np.mean(second)), float(low), float(high), len(first))


def searches_above_parts(task: str, margin: float) -> Rule:
    """The claim: searches from several seeds end above parts of random settings."""

    def rule(table2: Found, luck: Found) -> Measured:
        if task not in luck["hypervolumes"]:
            return f"one search minus random settings: {table2['tasks'][task]['difference']:+.3f}", ONCE
        over = welch(luck["hypervolumes"][task], table2["tasks"][task]["random"])
        return f"searches minus random settings {over}", decided(_turned(over), margin)

    return rule


def printed_difference(task: str) -> Rule:
    """The claim: the difference is the printed one: the intervals meet."""

    def rule(table2: Found, luck: Found) -> Measured:
        over = welch(luck["hypervolumes"][task], table2["tasks"][task]["random"])
        printed, (start, end) = table2["tasks"][task]["printed"]
        said = f"{over}, printed {printed:.3f} ({start:.3f} to {end:.3f})"
        return said, HOLDS if over.low <= end and start <= over.high else DIFFERS

    return rule


def significant(task: str, level: float = 1e-3) -> Rule:
    """The claim: p is below a level, by a test that counts the luck of a search (Welch's)."""

    def rule(table2: Found, luck: Found) -> Measured:
        one, found = table2["tasks"][task], luck["hypervolumes"][task]
        p = float(stats.ttest_ind(found, one["random"], equal_var=False).pvalue)
        said = f"p = {p:.1e} over {len(found)} searches; {one['p']:.1e} as the paper tests, with one search"
        positive = np.mean(found) > np.mean(one["random"])
        return said, HOLDS if p < level and positive else UNDECIDED if p >= level else REVERSED

    return rule


def above_grids(task: str, margin: float) -> Rule:
    """The claim: a search ends above every grid. A grid ran once: its luck is taken to be a search's."""

    def rule(grids: Found, luck: Found) -> Measured:
        searched = luck["hypervolumes"][f"{task}, ours"]
        _, *others = grids["hypervolumes"][task].items()
        count, mean = len(searched), float(np.mean(searched))
        half = float(stats.t.ppf(0.975, count - 1) * np.std(searched, ddof=1) * np.sqrt(1 + 1 / count))
        best = max(volume for _, volume in others)
        over = Interval(mean - best, mean - half - best, mean + half - best, count)
        said = ", ".join(f"{name}: {volume:.3f}" for name, volume in others)
        return f"searches minus the better grid {over}; {said}", decided(_turned(over), margin)

    return rule


def best_of_all(task: str, others: Sequence[str], margin: float) -> Rule:
    """The claim: a task's searches end above each other task's."""

    def rule(luck: Found) -> Measured:
        overs = [
            welch(luck["hypervolumes"][f"{task}, ours"], luck["hypervolumes"][f"{other}, ours"]) for other in others
        ]
        said = "; ".join(f"minus {other} {over}" for other, over in zip(others, overs, strict=True))
        verdicts = [decided(_turned(over), margin) for over in overs]
        return said, min(verdicts, key=(REVERSED, UNDECIDED, SAME, HOLDS).index)

    return rule


def both_matter(found: Found) -> Measured:
    """Figure 1: each hyper-parameter moves each oracle."""
    ranges = {axis: {name: one["range"] for name, one in of.items()} for axis, of in found["effects"].items()}
    said = "; ".join(
        f"{axis}: epsilon by a factor of {10 ** of['log10 epsilon']:.3g}, error by {of['error']:.3f}"
        for axis, of in ranges.items()
    )
    enough = all(of["log10 epsilon"] > np.log10(2) and of["error"] > 0.01 for of in ranges.values())
    return said, HOLDS if enough else DIFFERS


def directions(found: Found) -> Measured:
    """Figure 2: more noise and fewer answers, a smaller epsilon and a larger error."""
    tau = {axis: {name: one["correlation"] for name, one in of.items()} for axis, of in found["effects"].items()}
    signs = {"log10 noise": (-1, 1), "answers": (1, -1)}
    right = [
        sign * tau[axis][name] >= 0.3
        for axis, both in signs.items()
        for name, sign in zip(("log10 epsilon", "error"), both, strict=True)
    ]
    said = "; ".join(
        f"{axis} with epsilon {of['log10 epsilon']:+.2f}, with error {of['error']:+.2f}" for axis, of in tau.items()
    )
    return f"Kendall's correlations: {said}", HOLDS if all(right) else DIFFERS


def share_of_the_time(found: Found) -> Measured:
    own = float(np.median(found["search"]) + np.median(found["accountant"]))
    share = own / (own + found["seconds_of_all_trainings"])
    said = f"{own:.1f} s beside {found['seconds_of_all_trainings']:.0f} s of trainings: {share:.2%}"
    return said, HOLDS if share < 1e-3 else DIFFERS


def seconds_of_a_search(found: Found) -> Measured:
    own = np.add(found["search"], found["accountant"])
    over = interval(own)
    return f"{over} s, on another machine and decade", HOLDS if over.high <= 45 else DIFFERS


def varies_more_at_small(task: str) -> Rule:
    def rule(found: Found) -> Measured:
        (small, at_small), (large, at_large) = found["spread"][task].items()
        said = f"worst minus best error, mean over settings: {at_small:.3f} at {small}, {at_large:.3f} at {large}"
        return said, HOLDS if at_small - at_large > 0.01 else REVERSED if at_large > at_small else SAME

    return rule


def near_the_front(found: Found) -> Measured:
    shares = found["near_the_front"]["LogReg+SGD"]
    said = f"within 0.02 of the front: {shares['DPareto']:.0%} of DPareto's, {shares['random']:.0%} of random settings"
    return said, HOLDS if shares["DPareto"] >= 0.9 and shares["random"] < shares["DPareto"] - 0.1 else DIFFERS


def explores_small_epsilons(found: Found) -> Measured:
    least = [found["least_error"][f"MLP2+SGD, {of}"]["0.1"] for of in ("DPareto", "random")]
    said = "least error within epsilon = 0.1: {:.3f}, random settings {:.3f}".format(*least)
    return said, HOLDS if least[1] - least[0] > 0.05 else DIFFERS


def adam_always_best(found: Found) -> Measured:
    """Figure 8: of the fronts on Adult."""
    least = {name: of for name, of in found["least_error"].items() if not name.startswith("MLP")}
    best = [all(of <= other[epsilon] for other in least.values()) for epsilon, of in least["LogReg+Adam"].items()]
    return f"of one search each: best within {sum(best)} of {len(best)} epsilons", ONCE


def _turned(over: Interval) -> Interval:
    return Interval(-over.mean, -over.high, -over.low, over.count)
