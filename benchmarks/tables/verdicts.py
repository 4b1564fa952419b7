"""The papers' sentences beside our measurements, with a verdict by rule: docs/results/reproduction.md."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks import report
from benchmarks.tables.markdown import table

HOLDS, REVERSED, UNSEEN, OTHER = "holds", "reversed", "no difference seen", "differs"
ONCE, UNMEASURED = "no interval", "cannot be measured here"  # of one search; of a problem that no search solves
NOT_PRIVATE, RANDOM = "not private", "random search"
HARD = 2.0  # a search without privacy that ends above so many times the largest printed regret measures nothing
ORDER = (HOLDS, UNSEEN, OTHER, REVERSED, UNMEASURED, ONCE)
Read = Callable[[str], dict[str, Any] | None]
Measured = Callable[..., tuple[str, str]]


class Claim(NamedTuple):
    """A sentence or a number of a paper.

    Attributes:
      results: names of the results to compare with, separated by commas.
      printed: the paper's words.
      measured: gives ``(measurement, verdict)`` for these results.
    """

    results: str
    printed: str
    measured: Measured


def _lower(first: str, second: str) -> Measured:
    """The first search should end lower, by losses of the same seeds."""

    def measured(found: dict[str, Any]) -> tuple[str, str]:
        ours, other = (_ends(found, name) for name in (first, second))
        paired = ours - other
        low, high = stats.ttest_1samp(paired, 0.0).confidence_interval(0.95)
        said = f"{np.mean(paired):+.3f}, 95 % {low:+.3f} to {high:+.3f}, lower in {np.sum(paired < 0)} of {len(paired)}"
        return said, HOLDS if high < 0 else REVERSED if low > 0 else UNSEEN

    return measured


def _ends(found: dict[str, Any], name: str) -> np.ndarray:
    """The last losses of a search, by seed: of figure 3, or of figure 4 after 265 evaluations."""
    if "runs" in found:
        return np.array([curve[-1] for curve in found["runs"][name].values()])
    return np.array(found["final"][name]["265"])


def _location(found: dict[str, Any]) -> tuple[str, str]:
    gaps = found["final_gap_quartiles"]
    said = "; ".join(f"mu = {mu}: {middle:.3g} ({low:.3g} to {high:.3g})" for mu, (low, middle, high) in gaps.items())
    return f"excess loss at the end, quartiles: {said}", HOLDS if gaps["2"][2] < gaps["0.5"][0] else UNSEEN


def _descent(found: dict[str, Any]) -> tuple[str, str]:
    ratio = found["DP-GIBO / DP-GD, median final distance"]
    low, high = ratio["95%"]
    said = f"ratio of the final distances {ratio['ratio']:.3f}, 95 % {low:.3f} to {high:.3f}"
    return said, HOLDS if low <= 1 <= high or high < 1 else REVERSED


def _noisy(found: dict[str, Any]) -> tuple[str, str]:
    verdicts = found["verdicts"]["one Z for all users"]
    said = "; ".join(f"{what}: {'yes' if true else 'no'}" for what, true in verdicts.items())
    return said, HOLDS if all(verdicts.values()) else OTHER


def _correlation(found: dict[str, Any]) -> tuple[str, str]:
    values = {size: one["to 0.95"] for size, one in found["likeliest"].items()}
    said = f"{min(values.values()):g} or more, the grid's largest, for all of {', '.join(values)} records"
    return said, HOLDS if min(values.values()) >= 0.95 else OTHER


def _best_r(found: dict[str, Any]) -> tuple[str, str]:
    """The mean at the printed best should be below every other, by two standard errors of the difference."""
    printed, means, errors = (
        found["settings"]["printed in the paper"]["regrets"],
        found["mean"],
        found["standard_error"],
    )
    without = found["not_private"][0]
    if without > HARD * max(printed.values()):
        return f"{without:.3f} without privacy, and the paper prints at most {max(printed.values()):.3f}", UNMEASURED
    best = min(printed, key=lambda r: printed[r])
    ours = min(means, key=lambda r: means[r])
    said = f"{means[best]:.3f} ({errors[best]:.3f}) there, printed {printed[best]:.3f}; ours is least at r = {ours}, "
    said += f"{means[ours]:.3f} ({errors[ours]:.3f})"
    apart = {r: (means[r] - means[best]) / np.hypot(errors[r], errors[best]) for r in printed if r != best}
    return said, HOLDS if min(apart.values()) > 2 else OTHER if min(apart.values()) < -2 else UNSEEN


def _order(panel: str) -> Measured:
    """Regret should fall as epsilon grows."""

    def measured(found: dict[str, Any]) -> tuple[str, str]:
        means, errors = found["mean"][panel], found["standard_error"][panel]
        names = [name for name in means if name != NOT_PRIVATE]  # from the largest epsilon to the smallest
        ends = [means[name][-1] for name in names]
        said = ", ".join(f"{name}: {end:.3f} ({errors[name][-1]:.3f})" for name, end in zip(names, ends, strict=True))
        without, least = means[NOT_PRIVATE][-1], names[int(np.argmin(ends))]
        if without - min(ends) > 2 * np.hypot(errors[NOT_PRIVATE][-1], errors[least][-1]):
            return f"{said}; without privacy {without:.3f}, above noise's", UNMEASURED
        apart = 2 * np.hypot(errors[names[0]][-1], errors[names[-1]][-1])
        return said, HOLDS if ends[-1] - ends[0] > apart else REVERSED if ends[0] - ends[-1] > apart else UNSEEN

    return measured


def _hypervolume(task: str) -> Measured:
    def measured(table2: dict[str, Any], luck: dict[str, Any]) -> tuple[str, str]:
        said, low, high = _compared(table2, luck, task)
        printed, (start, end) = table2["tasks"][task]["printed"]
        said += f", printed {printed:.3f} ({start:.3f} to {end:.3f})"
        return said, HOLDS if low <= end and start <= high else OTHER

    return measured


def _above_random(task: str) -> Measured:
    def measured(table2: dict[str, Any], luck: dict[str, Any]) -> tuple[str, str]:
        if task not in luck["hypervolumes"]:
            return f"one search minus random settings: {table2['tasks'][task]['difference']:.3f}", ONCE
        said, low, high = _compared(table2, luck, task)
        return said, HOLDS if low > 0 else REVERSED if high < 0 else UNSEEN

    return measured


def less_random(searched: Sequence[float], random: Sequence[float]) -> tuple[float, float, float]:
    """Several searches' hypervolumes less those of random settings, with 95 %: independent, of unequal variance."""
    low, high = stats.ttest_ind(searched, random, equal_var=False).confidence_interval(0.95)
    return float(np.mean(searched) - np.mean(random)), low, high


def _compared(table2: dict[str, Any], luck: dict[str, Any], task: str) -> tuple[str, float, float]:
    searched, random = luck["hypervolumes"][task], table2["tasks"][task]["random"]
    mean, low, high = less_random(searched, random)
    said = (
        f"{len(searched)} searches minus {len(random)} parts of random settings: {mean:.3f} ({low:.3f} to {high:.3f})"
    )
    return said, low, high


def _grids(task: str) -> Measured:
    """A search's hypervolume should be above that of every grid.

    Each grid ran once, so its luck counts: the interval is that of one more run (Student's t).
    """

    def measured(found: dict[str, Any], luck: dict[str, Any]) -> tuple[str, str]:
        searched = luck["hypervolumes"][f"{task}, ours"]
        _, *grids = found["hypervolumes"][task].items()
        count, mean = len(searched), float(np.mean(searched))
        half = stats.t.ppf(0.975, count - 1) * np.std(searched, ddof=1) * np.sqrt(1 + 1 / count)
        said = f"DPareto, {count} searches: {mean:.3f}, one run within {mean - half:.3f} to {mean + half:.3f}, "
        said += ", ".join(f"{name}: {volume:.3f}" for name, volume in grids)
        best = max(volume for _, volume in grids)
        return said, HOLDS if mean - half > best else REVERSED if mean + half < best else UNSEEN

    return measured


def _variability(task: str) -> Measured:
    def measured(found: dict[str, Any]) -> tuple[str, str]:
        (small, at_small), (large, at_large) = found["spread"][task].items()
        said = f"worst minus best error, mean over settings: {at_small:.3f} at {small}, {at_large:.3f} at {large}"
        return said, HOLDS if at_small > at_large else REVERSED

    return measured


def _overhead(found: dict[str, Any]) -> tuple[str, str]:
    seconds = np.median(found["search"]) + np.median(found["accountant"])
    return f"{seconds:.0f} s, on another machine and decade", HOLDS if seconds <= 45 else OTHER


PANELS = {"a": "a synthetic grid", "b": "loans", "c": "houses"}
ADULT = ("LogReg+SGD", "LogReg+Adam", "SVM+SGD")
LUCK = "avent_luck"
TABLE2 = f"avent_table2, {LUCK}"
TASKS = (*ADULT, "MLP2+SGD")
CLAIMS = (
    Claim("sopa_fig1", "a larger budget ends nearer to the minimiser", _location),
    Claim("sopa_fig2", "DP-GIBO is on a par with DP-GD, which sees gradients", _descent),
    *(
        Claim(
            "sopa_fig3", f"DP-GIBO, mu = {mu}, ends below random search", _lower(f"DP-GIBO, mu={mu}", "random search")
        )
        for mu in ("1", "inf")
    ),
    *(Claim("sopa_fig4", f"DP-GIBO, mu = 1, ends below {other}", _lower("1", other)) for other in (RANDOM, "GP-UCB")),
    Claim("sopa_fig5", "the right deviation is best, too small a one worst, too large a one viable", _noisy),
    Claim("kusner_fig1", "neighbouring validation sets are correlated by 0.95 or more", _correlation),
    *(
        Claim("kharkovskii_fig2", f"regret falls as epsilon grows, on {what} (panel {panel})", _order(panel))
        for panel, what in PANELS.items()
    ),
    *(Claim(f"kharkovskii_table{number}", "regret is least at the printed best r", _best_r) for number in range(1, 10)),
    *(
        Claim(TABLE2, f"DPareto's front is above random settings', {task}", _above_random(f"{task}, ours"))
        for task in TASKS
    ),
    *(Claim(f"avent_fig6, {LUCK}", f"DPareto's front is above the grids', {task}", _grids(task)) for task in ADULT),
    *(Claim("avent_fig7", f"errors vary more at small epsilons, {task}", _variability(task)) for task in ADULT),
)
PRINTED = tuple(f"{task}, the paper's" for task in TASKS)


def page(read: Read) -> str:
    """A table of the papers' claims; ``read`` gives a result by name."""
    rows = []
    for claim in claims(read):
        found = [read(name) for name in claim.results.split(", ")]
        said = ("not measured", "") if None in found else claim.measured(*found)
        rows.append((claim.results, claim.printed, *said))
    counts = {verdict: sum(row[3] == verdict for row in rows) for verdict in ORDER}
    said = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    return f"{len(rows)} claims of the papers: {said}.\n\n" + table(
        ("results", "the paper", "measured here", "verdict"), rows
    )


def claims(read: Read) -> list[Claim]:
    """All claims, including the comparisons with printed numbers."""
    found = read("avent_table2") or {"tasks": {}}
    printed = [task for task in PRINTED if found["tasks"].get(task, {}).get("printed")]
    return [
        *CLAIMS,
        *(
            Claim(TABLE2, f"the difference is the printed one, {task.partition(',')[0]}", _hypervolume(task))
            for task in printed
        ),
        Claim("avent_overhead", "a search takes 45 s besides its trainings", _overhead),
    ]


def verdicts() -> str:
    return page(report.stored)


BLOCKS = {"verdicts": verdicts}
