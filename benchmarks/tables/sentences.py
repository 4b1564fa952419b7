"""Figures within sentences of the documents: read from stored results, or computed from public numbers alone."""

import math
from collections.abc import Iterable

import numpy as np

from benchmarks.papers.claims import ADULT
from benchmarks.report import other_seeds
from benchmarks.tables.markdown import figures, load_result, row_of
from benchmarks.tables.search import problems_of_all_ways, unsharp_descents
from benchmarks.tables.speed import log_ei_rows
from jaxdpbo import preview
from jaxdpbo.drivers.methods import START

DELTA = 1e-5
MOST_USERS = 2**14


def sgd_accuracy() -> str:
    """Of DP-SGD and of Opacus, at a batch of 128."""
    accuracy = row_of("bench_dp_sgd", "1000 steps of batch 128, one training")["more"]["accuracy"]
    return f"{accuracy['ours']:.2f} and {accuracy['peer']:.2f}"


def sgd_small_batch() -> str:
    """A step at a batch of 32, as a share of a step at 512."""
    small, large = (row_of("bench_dp_sgd", f"1000 steps of batch {size}, one training")["ours_s"] for size in (32, 512))
    return f"{small / large:.2f}"


def ucb_same_picks() -> str:
    return row_of("bench_dp_gp_ucb", "one run of a sweep")["more"]["same_picks"].partition(",")[0]


def outsourced_same_picks() -> str:
    rows = [row for row in load_result("bench_po_gp_ucb")["rows"] if "same_picks" in row["more"]]
    (picks,) = {row["more"]["same_picks"].partition(",")[0] for row in rows}
    return picks


def outsourced_traffic() -> str:
    """Bytes that a sweep must read or write."""
    row = next(row for row in load_result("bench_po_gp_ucb")["rows"] if row["name"].startswith("the same, "))
    return row["name"].removeprefix("the same, ").partition(" read")[0]


def grid_regret() -> str:
    """Of the search without privacy on the grid of table 1, mean of all sets of seeds."""
    names = ["kharkovskii_table1", *other_seeds("kharkovskii_table1")]
    return f"{sum(load_result(name)['not_private'][0] for name in names) / len(names):.4f}"


def random_settings_share() -> str:
    """The most by which random settings fall below the search's hypervolume, for logistic regression by SGD."""
    task = load_result("avent_table2")["tasks"]["LogReg+SGD, ours"]
    return f"{100 * max(0.0, 1 - min(task['random']) / task['search']):.1g} %"


def few_users_lost() -> str:
    """The number of problems with at most 400 users, among those that ``minimize`` loses to random search."""
    result = load_result("bench_search")
    level = result["settings"]["chosen here"]["budgets"][0]
    lost = [
        problem
        for problem in result["problems"].values()
        if problem["paired"][level]["minimize - random search"]["verdict"] == "worse"
    ]
    return f"{sum(problem['users'] <= 400 for problem in lost)} of the {len(lost)}"


def public_rows_problems() -> str:
    """The number of problems in the table of ways to use public rows, and of their seeds."""
    first, end = load_result("bench_public_rows")["seeds"]
    return f"{len(problems_of_all_ways())} problems, {end - first} seeds each"


def four_public_rows() -> str:
    """On how many problems 4 public rows do worse than none, at each budget."""
    problems = problems_of_all_ways()
    counts = [sum(row[budget]["4 rows"]["mean"] > row[budget]["no public rows"]["mean"] for row in problems)
              for budget in problems[0]]  # fmt: skip
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} of {len(problems)} problems"


def log_ei_regrets() -> str:
    """On how many functions and batches LogEI of our pieces has another regret than BoTorch's, at 95 %."""
    ends = [row["more"]["paired"]["95%"] for row in log_ei_rows() if row["name"].startswith("LogEI,")]
    lower, higher = sum(high < 0 for _, high in ends), sum(low > 0 for low, _ in ends)
    return f"{len(ends)} lines of LogEI, the regret is lower than BoTorch's in {lower}, and higher in {higher}"


def development_seeds() -> str:
    """The number of seeds of ``scripts/bench method_rule``."""
    first, end = load_result("bench_method_rule")["seeds"]
    return str(end - first)


def scan_of_a_billion() -> str:
    """The minutes of a scan of a billion users, by the rate of ``scripts/bench tables``."""
    (row,) = load_result("bench_tables")["rows"]
    return f"{figures(1e9 / row['more']['users_a_second'] / 60, 2)} minutes"


def peak_of_a_scan() -> str:
    """The memory of ``scripts/bench tables``."""
    (row,) = load_result("bench_tables")["rows"]
    return f"{row['more']['peak_gib']:.1f} GiB"


def _users_needed(epsilon: float) -> str:
    """The numbers of users at which ``preview`` says that a step has little noise, for 3, 13 and 33 parameters."""
    first, second, third = (
        preview(users=200, space=[(0, 1)] * dimension, epsilon=epsilon, delta=DELTA).users_needed
        for dimension in (3, 13, 33)
    )
    return f"{first}, {second} and {third}"


def users_needed_at_one() -> str:
    return _users_needed(1)


def users_needed_at_three() -> str:
    return _users_needed(3)


def _users_for_a_start(epsilon: float) -> str:
    """The fewest users with which ``minimize`` chooses a start, for losses in (0, 1): by bisection."""
    few, enough = 1, MOST_USERS
    while enough - few > 1:
        users = (few + enough) // 2
        delta = min(DELTA, 0.5 / users)
        method = preview(users=users, space=[(0, 1)] * 3, loss_range=(0, 1), epsilon=epsilon, delta=delta).method
        few, enough = (few, users) if method.startswith(START) else (users, enough)
    return str(enough)


def users_for_a_start_at_one() -> str:
    return _users_for_a_start(1)


def users_for_a_start_at_three() -> str:
    return _users_for_a_start(3)


def largest_selection_gap() -> str:
    """Proved over attained epsilons of selections, by shape of the number of runs."""
    laws = load_result("bench_selection_prices")["laws"]
    gaps = {
        eta: max(
            high / low - 1
            for law in laws
            if law["eta"] == eta
            for high, low in zip(law["proved"], law["attained"], strict=True)
        )
        for eta in sorted({law["eta"] for law in laws})
    }
    return ", ".join(f"{math.ceil(100 * gap)} % for eta = {eta:g}" for eta, gap in gaps.items())


def oracle_ratios() -> str:
    """The paper's epsilon over ours, by the median and the upper 5 % of three searches."""
    ratios = [task["paper's epsilon over ours"] for task in load_result("avent_accountants")["tasks"].values()]
    (low, high), (least, most) = ((min(r[i] for r in ratios), max(r[i] for r in ratios)) for i in (1, 2))
    return f"{low:.1f} to {high:.1f} times the epsilon proved here in the median, and {least:.0f} to {most:.0f} times"


def front_gains() -> str:
    """DPareto's hypervolume above random settings', by the paper's accountant: by set of ten searches and task."""

    def gains(luck: dict, random: dict) -> str:
        ways = [f"{task}, the paper's" for task in ADULT]
        return join_words(f"{np.mean(luck[way]) - np.mean(random[way]['random']):.3f}" for way in ways)

    names = "avent_luck", *other_seeds("avent_luck")
    results = [(load_result(name), load_result(name.replace("luck", "table2"))) for name in names]
    return "; ".join(gains(luck["hypervolumes"], table2["tasks"]) for luck, table2 in results)


def front_gains_of_one_search() -> str:
    """The same of table 2's search."""
    tasks = load_result("avent_table2")["tasks"]
    return join_words(f"{tasks[way]['difference']:.3f}" for way in (f"{task}, the paper's" for task in ADULT))


def grids_by_adam() -> str:
    """The hypervolume of the grid of 1,024 for logistic regression by Adam, in each set of seeds."""
    names = "avent_fig6", *other_seeds("avent_fig6")
    sets = [load_result(name)["hypervolumes"]["LogReg+Adam"] for name in names]
    return join_words(f"{volumes['grid of 1024']:.3f}" for volumes in sets)


def descents_from_the_middle() -> str:
    return _verdict_counts("local")


def descents_from_a_start() -> str:
    return _verdict_counts("start_then_local")


def _verdict_counts(search: str) -> str:
    counts = unsharp_descents(search)
    return f"better in {counts['better']} of {counts.total()} and worse in {counts['worse'] or 'none'}"


def join_words(values: Iterable[str]) -> str:
    *others, last = values
    return f"{', '.join(others)} and {last}"


def real_files_before() -> str:
    return load_result("bench_real_files")["before"]


SENTENCES = {
    sentence.__name__: sentence
    for sentence in (
        sgd_accuracy, sgd_small_batch, ucb_same_picks, outsourced_same_picks, outsourced_traffic, grid_regret,
        random_settings_share, few_users_lost, users_needed_at_one, users_needed_at_three, users_for_a_start_at_one,
        users_for_a_start_at_three, largest_selection_gap, scan_of_a_billion, peak_of_a_scan, development_seeds,
        oracle_ratios, front_gains, front_gains_of_one_search, grids_by_adam,
        descents_from_the_middle, descents_from_a_start, real_files_before, public_rows_problems, four_public_rows,
        log_ei_regrets,
    )
}  # fmt: skip
