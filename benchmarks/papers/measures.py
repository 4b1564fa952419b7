"""What the register reads out of the results of each paper's items, and the claims that no general rule decides."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from benchmarks.papers.rules import (
    DIFFERS,
    HOLDS,
    ONCE,
    REVERSED,
    SAME,
    UNDECIDED,
    UNMEASURED,
    Found,
    Interval,
    Measured,
    Rule,
    Values,
    at,
    decided,
    interval,
    named,
    near_zero,
    turned,
    welch,
    widened,
)

FREE = "not private"
PRINTED_RUNS = 50  # of each mean that Kharkovskii et al. print without an error


@named
def printed_gaps(panel: str, printed: Sequence[float], margin: float, where: str = "final") -> Rule:
    """The claim: each budget leaves the printed regret beyond a search's without privacy, up to the margin.

    The printed means have no errors: they are taken to vary as ours.
    """

    def rule(found: Found) -> Measured:
        free, *private = found[where][panel].values()
        overs = [interval(np.subtract(one, free)) for one in private]
        apart = [
            widened(over, (over.high - over.low) / 2 * np.sqrt(over.count / PRINTED_RUNS), one)
            for over, one in zip(overs, printed, strict=True)
        ]
        names = list(found[where][panel])[1:]
        said = "; ".join(
            f"{name}: {over}, printed {one:+.3f}" for name, over, one in zip(names, overs, printed, strict=True)
        )
        verdicts = [near_zero(one, margin) for one in apart]
        return said, min(verdicts, key=(DIFFERS, UNDECIDED, HOLDS).index)

    return rule


@named
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


@named
def unless_hard(rule: Rule, without: Values, largest: float, hard: float) -> Rule:
    """Nothing is measured where a search without privacy ends above ``hard`` times the largest printed regret."""

    def guarded(*found: Found) -> Measured:
        said, verdict = rule(*found)
        free = float(np.mean(without(*found)))
        if free > hard * largest:
            return f"{said}; without privacy {free:.2f}, and the paper prints at most {largest:.2f}", UNMEASURED
        return said, verdict

    return guarded


@named
def on_another_machine(values: Values, said: str) -> Rule:
    """Times that nothing about the paper's follows from."""

    def rule(found: Found) -> Measured:
        return f"{interval(values(found))} {said}", UNMEASURED

    return rule


@named
def over_tables(side: str, where: str = "above_the_printed_best") -> Values:
    """By run, the mean over tables that share their draws: the printed best ``r`` minus the others of a side."""

    def values(*found: Found) -> np.ndarray:
        return -np.mean([table[where][side] for table in found if side in (table[where] or {})], axis=0)

    return values


@named
def last_losses(method: str) -> Values:
    """Of figure 3 of Sopa et al., by seed."""
    return lambda found: np.array([curve[-1] for curve in found["runs"][method].values()])


@named
def searches_above_parts(task: str, margin: float) -> Rule:
    """The claim: searches from several seeds end above parts of random settings."""

    def rule(table2: Found, luck: Found) -> Measured:
        if task not in luck["hypervolumes"]:
            return f"one search minus random settings: {table2['tasks'][task]['difference']:+.3f}", ONCE
        over = welch(luck["hypervolumes"][task], table2["tasks"][task]["random"])
        return f"searches minus random settings {over}", decided(turned(over), margin)

    return rule


@named
def printed_difference(task: str, margin: float) -> Rule:
    """The claim: the difference is the printed one, up to the margin; both have intervals."""

    def rule(table2: Found, luck: Found) -> Measured:
        over = welch(luck["hypervolumes"][task], table2["tasks"][task]["random"])
        printed, (start, end) = table2["tasks"][task]["printed"]
        said = f"{over}, printed {printed:.3f} ({start:.3f} to {end:.3f})"
        return said, near_zero(widened(over, (end - start) / 2, printed), margin)

    return rule


@named
def significant_for_one_search(task: str, level: float) -> Rule:
    """The claim: p is below a level, by the paper's test: one search against parts of random settings."""

    def rule(table2: Found) -> Measured:
        one = table2["tasks"][task]
        positive = one["difference"] > 0
        verdict = UNDECIDED if one["p"] >= level else HOLDS if positive else REVERSED
        return f"p = {one['p']:.1e}", verdict

    return rule


@named
def significant_for_searches(task: str, level: float) -> Rule:
    """The claim: p is below a level, by a test that counts the luck of a search (Welch's)."""

    def rule(table2: Found, luck: Found) -> Measured:
        random, found = table2["tasks"][task]["random"], luck["hypervolumes"][task]
        p = float(stats.ttest_ind(found, random, equal_var=False).pvalue)
        positive = np.mean(found) > np.mean(random)
        return f"p = {p:.1e}", UNDECIDED if p >= level else HOLDS if positive else REVERSED

    return rule


@named
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
        return f"searches minus the better grid {over}; {said}", decided(turned(over), margin)

    return rule


@named
def best_of_all(task: str, others: Sequence[str], margin: float) -> Rule:
    """The claim: a task's searches end above each other task's."""

    def rule(luck: Found) -> Measured:
        overs = [
            welch(luck["hypervolumes"][f"{task}, ours"], luck["hypervolumes"][f"{other}, ours"]) for other in others
        ]
        said = "; ".join(f"minus {other} {over}" for other, over in zip(others, overs, strict=True))
        verdicts = [decided(turned(over), margin) for over in overs]
        return said, min(verdicts, key=(REVERSED, UNDECIDED, SAME, HOLDS).index)

    return rule


def share_of_the_time(found: Found) -> np.ndarray:
    """By search, of its own time and that of its trainings."""
    own = np.add(found["search"], found["accountant"])
    return own / (own + found["seconds_of_all_trainings"])


def seconds_of_a_search(found: Found) -> np.ndarray:
    """By search, besides its trainings."""
    return np.add(found["search"], found["accountant"])


def log_ratio_at_the_end(found: Found) -> np.ndarray:
    """Figure 2 of Sopa et al., by seed: of the distances of DP-GIBO and of DP-GD."""
    of = found["by_seed"]["distance at the end"]
    return np.log(np.divide(of["DP-GIBO"], of["DP-GD"]))


def without_privacy(panel: str) -> Values:
    """By run, the regret of a panel of figure 2 of Kharkovskii et al."""
    return at("final", panel, FREE)


@named
def beyond_a_tenth(problem: str) -> Values:
    """By split of the records: what DP-GP-UCB loses above a tenth of what a random choice loses."""

    def values(found: Found) -> np.ndarray:
        of = found["by_seed"][problem]
        return np.subtract(of["DP-GP-UCB"], np.divide(of["random choice"], 10.0))

    return values


def largest_ranks(*tables: Found) -> Measured:
    """Of the curator's rule on our grid, beside the printed ones."""
    ours = [table["largest_r"] for table in tables]
    return f"ours: {', '.join(map(str, ours))}", HOLDS if ours == [10, 15, 20] else DIFFERS


def without_privacy_in_tables(first: Found, *others: Found) -> np.ndarray:
    """By run; tables of the same data share these runs."""
    return np.asarray(first["not_private_by_run"])


@named
def spread_by_epsilon(task: str) -> Rule:
    def rule(found: Found) -> Measured:
        (small, at_small), (large, at_large) = found["spread"][task].items()
        return f"worst minus best error, mean over settings: {at_small:.3f} at {small}, {at_large:.3f} at {large}", ONCE

    return rule


def near_the_front(found: Found) -> Measured:
    shares = found["near_the_front"]["LogReg+SGD"]
    said = f"within 0.02 of the front: {shares['DPareto']:.0%} of DPareto's, {shares['random']:.0%} of random settings"
    return said, ONCE


def explores_small_epsilons(found: Found) -> Measured:
    least = [found["least_error"][f"MLP2+SGD, {of}"]["0.1"] for of in ("DPareto", "random")]
    return "least error within epsilon = 0.1: {:.3f}, random settings {:.3f}".format(*least), ONCE


def adam_nearly_always_best(found: Found) -> Measured:
    """Figure 8: of the fronts on Adult."""
    least = {name: of for name, of in found["least_error"].items() if not name.startswith("MLP")}
    best = [all(of <= other[epsilon] for other in least.values()) for epsilon, of in least["LogReg+Adam"].items()]
    return f"of one search each: best within {sum(best)} of {len(best)} epsilons", ONCE
