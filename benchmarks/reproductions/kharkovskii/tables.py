"""Tables 1 to 9: simple regret by the projection's dimension ``r``, the paper's beside ours.

On data that are not the paper's the printed epsilon need not make the printed ``r`` the largest that the curator's rule
allows, so there epsilon is moved until it does: the tables are about that rule. Such a table has a second run at the
printed epsilon.
"""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers.measures import PRINTED_RUNS
from benchmarks.reproductions import common
from benchmarks.reproductions.kharkovskii import searches, settings
from jaxdpbo import transforms

ALLOWED = {1: 10, 2: 15, 3: 20, 4: 10, 5: 15, 6: 20, 7: 10, 8: 15, 9: 20}  # the printed largest r, by table


def main(number: int, seeds: range | None = None, quick: bool = False) -> None:
    item = f"table{number}"
    s = common.settings_of(settings, item, quick)
    chosen_seeds = seeds or range(s.runs)
    vars(s).update(searches.seed_settings(chosen_seeds))
    problem = searches.problem_of(s)
    title = f"Table {number}: simple regret after {s.steps} iterations by r, {s.data}"
    out = common.Report(settings, item, title, quick, problem.source, seeds=seeds)
    epsilon = epsilon_for(s, problem, ALLOWED[number])
    largest = transforms.largest_rank(problem.smallest_singular_value, epsilon, s.delta)
    print(
        f"epsilon = {epsilon:.4g} (printed: {s.epsilon:.4g}), delta = {s.delta:g}; smallest singular value "
        f"{problem.smallest_singular_value:.2f}: the largest r of the rule is {largest}, the printed one "
        f"{ALLOWED[number]}"
    )
    regrets = final_regrets(s, problem, epsilon)
    at_printed = {} if s.data == "synthetic" else final_regrets(s, problem, s.epsilon)
    clear = searches.regrets(s, problem, None)[:, -1]
    means_of = {projected: searches.mean_and_error(values) for projected, values in regrets.items()}
    apart = {
        r: (mean - s.regrets[r]) / (error * math.sqrt(1 + s.runs / PRINTED_RUNS))
        for r, (mean, error) in means_of.items()
    }
    rows = [
        (
            r,
            "within" if r <= largest else "beyond",
            searches.format_mean(*means_of[r]),
            f"{s.regrets[r]:.3f}",
            f"{apart[r]:+.1f}",
        )
        for r in s.regrets
    ]
    report.print_table(
        ("r", "the rule", "ours: mean (standard error)", "the paper's", "apart, in errors of both"),
        [*rows, ("not private", "", searches.format_mean(*searches.mean_and_error(clear)), "", "")],
    )
    best, printed = min(means_of, key=lambda r: means_of[r][0]), min(s.regrets, key=s.regrets.__getitem__)
    allowed = max((r for r in s.regrets if r <= largest), default=None)
    verdict = f"best r: ours {best}, the paper's {printed}; the largest of these within the rule: {allowed}"
    compared = {r: common.paired_difference(regrets[r], regrets[allowed]) for r in regrets if allowed and r != allowed}
    print(verdict)
    for r, comparison in compared.items():
        print(f"r={r} - r={allowed}, paired: {common.sentence(comparison)}")
    ours = "ours are draws of the process" if s.data == "synthetic" else "so are ours"
    notes = [*searches.flags([problem]), f"the paper's runs are 50 on one function: {ours}"]
    out.finish(
        picture(s, means_of, searches.mean_and_error(clear), largest),
        seeds=common.ends(chosen_seeds),
        epsilon=epsilon,
        smallest_singular_value=problem.smallest_singular_value,
        largest_r=largest,
        mean={r: mean for r, (mean, _) in means_of.items()},
        standard_error={r: error for r, (_, error) in means_of.items()},
        not_private=searches.mean_and_error(clear),
        not_private_by_run=clear,
        verdict=verdict,
        difference_in_errors=apart,
        compared_with_the_largest_r=compared,
        above_the_printed_best=sides(regrets, ALLOWED[number]),
        above_the_printed_best_at_the_printed_epsilon=sides(at_printed, ALLOWED[number]) if at_printed else None,
        mean_at_the_printed_epsilon={r: searches.mean_and_error(values) for r, values in at_printed.items()},
        runs=s.runs,
        notes=notes,
    )


def final_regrets(s: SimpleNamespace, problem: searches.Problem, epsilon: float) -> dict[int, np.ndarray]:
    """Regrets ``(runs,)`` after all iterations, by ``r``."""
    regrets = {}
    for projected in tqdm(s.regrets, unit="r"):
        chosen = searches.paper(problem, projected, epsilon, s.delta)
        regrets[projected] = searches.regrets(s, problem, chosen, aware=False)[:, -1]
    return regrets


def sides(regrets: dict[int, np.ndarray], best: int) -> dict[str, np.ndarray]:
    """Of each run: how much more regret smaller ``r`` leave than the printed best, in the mean, and larger ones."""
    if best not in regrets:
        return {}
    others = {"smaller": [r for r in regrets if r < best], "larger": [r for r in regrets if r > best]}
    return {
        side: np.mean([regrets[r] for r in ranks], axis=0) - regrets[best] for side, ranks in others.items() if ranks
    }


def epsilon_for(s: SimpleNamespace, problem: searches.Problem, allowed: int) -> float:
    """The printed epsilon on the grid, elsewhere the smallest at which ``allowed`` is within the rule."""
    if s.data == "synthetic":
        return s.epsilon
    return transforms.threshold(allowed, 1.0, s.delta) / problem.smallest_singular_value * (1 + 1e-9)


def picture(s, means_of, clear, largest):
    figure, (axis,) = common.panels(1)
    ranks = list(means_of)
    means, errors = zip(*means_of.values(), strict=True)
    axis.errorbar(ranks, means, errors, color="C0", marker="o", label=f"ours, {s.runs} runs")
    axis.plot(ranks, [s.regrets[r] for r in ranks], "s--", color="C1", label="printed")
    axis.axhline(clear[0], color="C2", linestyle=":", label="not private, ours")
    axis.axvline(largest + 0.5, color="0.7", label="the rule's largest r")
    axis.set(xlabel="r", ylabel=f"simple regret after {s.steps} iterations", ylim=(0, None))
    return figure


ITEMS = {f"table{number}": partial(main, number) for number in ALLOWED}
