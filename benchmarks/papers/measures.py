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
    difference_from_printed,
    interval,
    name_by_call,
    negate,
    verdict_below_zero,
    verdict_near_zero,
    welch,
)

FREE = "not private"
PRINTED_RUNS = 50  # of each mean that Kharkovskii et al. print without an error


@name_by_call
def printed_gaps(panel: str, printed: Sequence[float], margin: float, where: str = "final") -> Rule:
    """The claim: each budget leaves the printed regret beyond a search's without privacy, up to the margin.

    The printed means have no errors: they are taken to vary as ours.
    """

    def rule(result: Found) -> Measured:
        free, *private = result[where][panel].values()
        overs = [interval(np.subtract(regrets, free)) for regrets in private]
        apart = [
            difference_from_printed(over, (over.high - over.low) / 2 * np.sqrt(over.count / PRINTED_RUNS), gap)
            for over, gap in zip(overs, printed, strict=True)
        ]
        names = list(result[where][panel])[1:]
        text = "; ".join(
            f"{name}: {over}, printed {gap:+.3f}" for name, over, gap in zip(names, overs, printed, strict=True)
        )
        verdicts = [verdict_near_zero(difference, margin) for difference in apart]
        return text, min(verdicts, key=(DIFFERS, UNDECIDED, HOLDS).index)

    return rule


@name_by_call
def falls_with_epsilon(panel: str, margin: float, where: str = "final") -> Rule:
    """The claim: the largest budget of a panel ends below the smallest one.

    An order of private searches means nothing where the best of them ends below the search without privacy.
    """

    def rule(result: Found) -> Measured:
        free, *private = result[where][panel].values()
        over = interval(np.subtract(private[0], private[-1]))
        text = f"largest budget minus smallest: {over}"
        beaten = interval(np.subtract(free, min(private, key=np.mean)))
        if beaten.low > 0:
            return f"{text}; without privacy minus the best: {beaten}", UNMEASURED
        return text, verdict_below_zero(over, margin)

    return rule


@name_by_call
def unless_hard(rule: Rule, without: Values, largest: float, hard: float) -> Rule:
    """Nothing is measured where a search without privacy ends above ``hard`` times the largest printed regret."""

    def guarded(*results: Found) -> Measured:
        text, verdict = rule(*results)
        free = float(np.mean(without(*results)))
        if free > hard * largest:
            return f"{text}; without privacy {free:.2f}, and the paper prints at most {largest:.2f}", UNMEASURED
        return text, verdict

    return guarded


@name_by_call
def on_another_machine(values: Values, remark: str) -> Rule:
    """Times that nothing about the paper's follows from."""

    def rule(result: Found) -> Measured:
        return f"{interval(values(result))} {remark}", UNMEASURED

    return rule


@name_by_call
def over_tables(side: str, where: str = "above_the_printed_best") -> Values:
    """By run, the mean over tables that share their draws: the printed best ``r`` minus the others of a side."""

    def values(*tables: Found) -> np.ndarray:
        return -np.mean([table[where][side] for table in tables if side in (table[where] or {})], axis=0)

    return values


@name_by_call
def last_losses(method: str) -> Values:
    """Of figure 3 of Sopa et al., by seed."""
    return lambda result: np.array([curve[-1] for curve in result["runs"][method].values()])


@name_by_call
def searches_above_parts(task: str, margin: float) -> Rule:
    """The claim: searches from several seeds end above parts of random settings."""

    def rule(table2: Found, luck: Found) -> Measured:
        if task not in luck["hypervolumes"]:
            return f"one search minus random settings: {table2['tasks'][task]['difference']:+.3f}", ONCE
        over = welch(luck["hypervolumes"][task], table2["tasks"][task]["random"])
        return f"searches minus random settings {over}", verdict_below_zero(negate(over), margin)

    return rule


@name_by_call
def printed_difference(task: str, margin: float) -> Rule:
    """The claim: the difference is the printed one, up to the margin; both have intervals."""

    def rule(table2: Found, luck: Found) -> Measured:
        over = welch(luck["hypervolumes"][task], table2["tasks"][task]["random"])
        printed, (start, end) = table2["tasks"][task]["printed"]
        text = f"{over}, printed {printed:.3f} ({start:.3f} to {end:.3f})"
        return text, verdict_near_zero(difference_from_printed(over, (end - start) / 2, printed), margin)

    return rule


@name_by_call
def significant_for_one_search(task: str, level: float) -> Rule:
    """The claim: p is below a level, by the paper's test: one search against parts of random settings."""

    def rule(table2: Found) -> Measured:
        row = table2["tasks"][task]
        positive = row["difference"] > 0
        verdict = UNDECIDED if row["p"] >= level else HOLDS if positive else REVERSED
        return f"p = {row['p']:.1e}", verdict

    return rule


@name_by_call
def significant_for_searches(task: str, level: float) -> Rule:
    """The claim: p is below a level, by a test that counts the luck of a search (Welch's)."""

    def rule(table2: Found, luck: Found) -> Measured:
        random, searches = table2["tasks"][task]["random"], luck["hypervolumes"][task]
        p = float(stats.ttest_ind(searches, random, equal_var=False).pvalue)
        positive = np.mean(searches) > np.mean(random)
        return f"p = {p:.1e}", UNDECIDED if p >= level else HOLDS if positive else REVERSED

    return rule


@name_by_call
def above_grids(task: str, margin: float) -> Rule:
    """The claim: a search ends above every grid. A grid ran once: its luck is taken to be a search's."""

    def rule(grids: Found, luck: Found) -> Measured:
        searched = luck["hypervolumes"][f"{task}, ours"]
        _, *others = grids["hypervolumes"][task].items()
        count, mean = len(searched), float(np.mean(searched))
        half = float(stats.t.ppf(0.975, count - 1) * np.std(searched, ddof=1) * np.sqrt(1 + 1 / count))
        best = max(volume for _, volume in others)
        over = Interval(mean - best, mean - half - best, mean + half - best, count)
        text = ", ".join(f"{name}: {volume:.3f}" for name, volume in others)
        return f"searches minus the better grid {over}; {text}", verdict_below_zero(negate(over), margin)

    return rule


@name_by_call
def best_of_all(task: str, others: Sequence[str], margin: float) -> Rule:
    """The claim: a task's searches end above each other task's."""

    def rule(luck: Found) -> Measured:
        overs = [
            welch(luck["hypervolumes"][f"{task}, ours"], luck["hypervolumes"][f"{other}, ours"]) for other in others
        ]
        text = "; ".join(f"minus {other} {over}" for other, over in zip(others, overs, strict=True))
        verdicts = [verdict_below_zero(negate(over), margin) for over in overs]
        return text, min(verdicts, key=(REVERSED, UNDECIDED, SAME, HOLDS).index)

    return rule


def share_of_the_time(result: Found) -> np.ndarray:
    """By search, of its own time and that of its trainings."""
    own = np.add(result["search"], result["accountant"])
    return own / (own + result["seconds_of_all_trainings"])


def seconds_of_a_search(result: Found) -> np.ndarray:
    """By search, besides its trainings."""
    return np.add(result["search"], result["accountant"])


def log_ratio_at_the_end(result: Found) -> np.ndarray:
    """Figure 2 of Sopa et al., by seed: of the distances of DP-GIBO and of DP-GD."""
    distances = result["by_seed"]["distance at the end"]
    return np.log(np.divide(distances["DP-GIBO"], distances["DP-GD"]))


def without_privacy(panel: str) -> Values:
    """By run, the regret of a panel of figure 2 of Kharkovskii et al."""
    return at("final", panel, FREE)


@name_by_call
def beyond_a_tenth(problem: str) -> Values:
    """By split of the records: what DP-GP-UCB loses above a tenth of what a random choice loses."""

    def values(result: Found) -> np.ndarray:
        regrets = result["by_seed"][problem]
        return np.subtract(regrets["DP-GP-UCB"], np.divide(regrets["random choice"], 10.0))

    return values


def largest_ranks(*tables: Found) -> Measured:
    """Of the curator's rule on our grid, beside the printed ones."""
    ours = [table["largest_r"] for table in tables]
    return f"ours: {', '.join(map(str, ours))}", HOLDS if ours == [10, 15, 20] else DIFFERS


def without_privacy_in_tables(first: Found, *others: Found) -> np.ndarray:
    """By run; tables of the same data share these runs."""
    return np.asarray(first["not_private_by_run"])


@name_by_call
def spread_by_epsilon(task: str) -> Rule:
    def rule(result: Found) -> Measured:
        (small, at_small), (large, at_large) = result["spread"][task].items()
        return f"worst minus best error, mean over settings: {at_small:.3f} at {small}, {at_large:.3f} at {large}", ONCE

    return rule


def near_the_front(result: Found) -> Measured:
    shares = result["near_the_front"]["LogReg+SGD"]
    text = f"within 0.02 of the front: {shares['DPareto']:.0%} of DPareto's, {shares['random']:.0%} of random settings"
    return text, ONCE


def explores_small_epsilons(result: Found) -> Measured:
    least = [result["least_error"][f"MLP2+SGD, {search}"]["0.1"] for search in ("DPareto", "random")]
    return "least error within epsilon = 0.1: {:.3f}, random settings {:.3f}".format(*least), ONCE


def adam_nearly_always_best(result: Found) -> Measured:
    """Figure 8: of the fronts on Adult."""
    least = {name: errors for name, errors in result["least_error"].items() if not name.startswith("MLP")}
    best = [all(error <= other[epsilon] for other in least.values()) for epsilon, error in least["LogReg+Adam"].items()]
    return f"of one search each: best within {sum(best)} of {len(best)} epsilons", ONCE
