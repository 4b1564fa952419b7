"""Losses that the searches reach."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.reproductions import common
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import DEVELOPMENT, PROBLEMS, Problem
from benchmarks.tables.markdown import load_result, table
from jaxdpbo.accounting import regret
from jaxdpbo.drivers import methods

RESULT = "bench_search"
ALL = PROBLEMS | DEVELOPMENT
OURS, PUBLIC = "minimize", "minimize, public"
OF_RIVAL = {"better": "worse", "worse": "better", "no different": "no different"}  # by the verdict on ours
RIVALS = {  # by their names in the result
    "one choice": "one private choice",
    "training rows alone": "training rows alone",
    "before": "`minimize`, former rule",
    "random search": "random search, not private",
    "Optuna's TPE": "Optuna's TPE, not private",
    "default parameters": "default parameters",
    "a random point": "a random point",
}

SPACE_SEARCHES = {
    "choice, 1 near": "1 round more", "choice, 2 near": "2 rounds more", "choice, 4 near": "4 rounds more",
    "random search": "random search, not private",
}  # fmt: skip
DESCENTS = {"start_then_local": "`start_then_local`", "local": "`local`"}


def comparison() -> str:
    """A row for each problem, at the first budget: mean losses, each rival's marked where it differs from ours."""
    level = _budgets()[0]
    rows = []
    for problem, row in load_result(RESULT)["problems"].items():
        means, pairs = row["mean"][level], row["paired"][level]
        sizes = f"{row['users']:,}", row["dimensions"], row["evaluations"], row["seeds"][level]
        marked = (
            "" if name not in means else _marked_mean(means[name], OF_RIVAL[pairs[f"{OURS} - {name}"]["verdict"]])
            for name in (PUBLIC, *RIVALS)
        )
        method = row["method"][level].partition(":")[0]
        rows.append((ALL[problem].title, *sizes, method, f"{means[OURS]:.4f}", *marked))
    header = ("problem", "users", "d", "evaluations", "seeds", "method", "`minimize`", "`minimize`, public rows")
    return table((*header, *RIVALS.values()), rows)


def totals() -> str:
    """A row for each rival: on how many problems ``minimize`` is better, no different or worse, by budget."""
    counts = load_result(RESULT)["totals"]
    rows = []
    for name in (PUBLIC, *RIVALS):
        cells = [_count_cell(counts[level].get(f"{ours} - {name}")) for level in _budgets() for ours in (OURS, PUBLIC)]
        rows.append((RIVALS.get(name, "`minimize`, public rows"), *cells))
    columns = [f"{ours}, {_budget_label(level)}" for level in _budgets() for ours in ("`minimize`", "public rows")]
    return table(("rival", *columns), rows)


def limits() -> str:
    """A row for each problem that ``minimize`` loses to random search: by how much, and a floor of private choices."""
    level = _budgets()[0]
    rows = []
    for name, row in load_result(RESULT)["problems"].items():
        pair = row["paired"][level][f"{OURS} - random search"]
        if pair["verdict"] == "worse":
            low, high = PROBLEMS[name].loss_range
            least = regret.least_regret(row["evaluations"], row["users"], epsilon=Budget.parse(level).range)
            difference, (start, end) = pair["mean difference"], pair["95%"]
            lost = f"{difference:.4f} ({start:.4f} to {end:.4f})"
            rows.append((ALL[name].title, f"{row['users']:,}", lost, f"{(high - low) * least:.4f}"))
    header = ("problem", "users", "`minimize` minus random search (95 %)", "least regret, worst data")
    return table(header, rows)


def rounds() -> str:
    """Mean losses of one choice, and of further rounds near the chosen point, on development seeds."""
    return _one_choice_table(SPACE_SEARCHES)


def descents() -> str:
    """Mean losses of one choice and of two descents over boxes, on development seeds."""
    return _one_choice_table(DESCENTS, {"sharpness": _sharpness, "gradient noise": _gradient_noise})


def unsharp_descents(search: str) -> Counter[str]:
    """How often a descent is better, worse or no different than ``in_order``, where a choice is not sharp."""
    verdicts: Counter[str] = Counter()
    for name, row in load_result("bench_method_rule")["problems"].items():
        for budget, by_search in row.items():
            if search in by_search and ALL[name].steps >= methods.DESCENT_STEPS:
                sharp = float(_sharpness(ALL[name], Budget.parse(budget).mu))
                verdicts[by_search[search]["paired"]["verdict"]] += sharp < methods.SHARP
    return verdicts


def _one_choice_table(others: dict[str, str], more: dict[str, Callable[[Problem, float], str]] | None = None) -> str:
    more = more or {}
    rows = [
        (ALL[name].title, budget.replace("mu inf", "no noise"))
        + tuple(figure(ALL[name], Budget.parse(budget).mu) for figure in more.values())
        + (f"{by_search['in_order']['mean']:.4f}",)
        + tuple(_marked_mean(by_search[other]["mean"], by_search[other]["paired"]["verdict"]) for other in others)
        for name, row in load_result("bench_method_rule")["problems"].items()
        for budget, by_search in row.items()
        if others.keys() <= by_search.keys()
    ]
    return table(("problem", "budget", *more, "`in_order`", *others.values()), rows)


def _sharpness(problem: Problem, mu: float) -> str:
    """Of a choice of the start."""
    low, high = problem.loss_range
    share = mu * math.sqrt(methods.CHOICE_SHARE)
    return f"{methods.choice.choice_sharpness(share, high - low, problem.users):.1f}"


def _gradient_noise(problem: Problem, mu: float) -> str:
    """In clipping norms."""
    return f"{2 * math.sqrt(problem.steps * problem.dimension) / (problem.users * mu):.2f}"


def proposals() -> str:
    """Ways to use public rows: the mean over problems, and on how many a way differs from the default, by budget."""
    problems = problems_of_all_ways()
    budgets, first = list(problems[0]), next(iter(problems[0].values()))
    rows = []
    for way in first:
        cells = []
        for budget in budgets:
            found = [row[budget][way] for row in problems]
            intervals = [each["paired"]["95%"] for each in found if each["paired"]]
            worse, better = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
            mean = f"{sum(each['mean'] for each in found) / len(found):.1f}"
            cells.append(f"{mean} ({better} / {worse})" if intervals else mean)
        rows.append((way, *cells))
    return table(("", *budgets), rows)


def problems_of_all_ways() -> list[dict[str, dict[str, Any]]]:
    """The problems on which every way was run: means over different problems would not compare."""
    problems = list(load_result("bench_public_rows")["problems"].values())
    most = max(len(ways) for row in problems for ways in row.values())
    return [row for row in problems if all(len(ways) == most for ways in row.values())]


def _budget_label(level: str) -> str:
    """A budget in words, with the number of seeds."""
    seeds = {row["seeds"][level] for row in load_result(RESULT)["problems"].values() if level in row["seeds"]}
    span = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(*seeds)
    return f"{level.replace('mu inf', 'no noise').replace('mu', 'mu =')}, {span} seeds"


def _budgets() -> list[str]:
    return load_result(RESULT)["settings"]["chosen here"]["budgets"]


def _marked_mean(mean: float, verdict: str) -> str:
    mark = {"better": "**", "worse": "_"}.get(verdict, "")
    return f"{mark}{mean:.4f}{mark}"


def _count_cell(counts: dict[str, int] | None) -> str:
    if counts is None:
        return ""
    return f"{counts['better']} / {counts['worse']} / {counts['no different']}"


def estimators() -> str:
    """``PrivateSearchCV`` beside an estimator's defaults, on held-out records."""
    rows = []
    for name, result in load_result("bench_sklearn")["data"].items():
        paired = common.paired_difference(result["losses"]["private"], result["losses"]["default"])
        low, high = paired["95%"]
        means = {which: sum(values) / len(values) for which, values in result["losses"].items()}
        rows.append(
            (name, f"{result['rows'][0]:,}", f"{means['default']:.4f}", f"{means['private']:.4f}")
            + (f"{paired['mean difference']:+.4f} ({low:+.4f} to {high:+.4f})",)
            + (f"{means['before']:.4f}", f"{means['accuracy']:.4f}")
        )
    header = (
        "records", "rows of the search", "log loss, defaults", "log loss, `PrivateSearchCV`", "difference (95 %)",
        "accuracy, defaults", "accuracy, `PrivateSearchCV`",
    )  # fmt: skip
    return table(header, rows)


def block_counts() -> str:
    """Regret by number of blocks, a row for each data set and budget."""
    result = load_result("bench_blocks")
    rows = []
    for name, by_mu in result["counts"].items():
        for mu, entry in by_mu.items():
            shares = [f"{regret:.2f}" for regret in entry["regret"]]
            least = min(range(len(shares)), key=entry["regret"].__getitem__)
            shares[least] = f"**{shares[least]}**"
            rows.append((name, mu, *shares))
    tried = result["settings"]["chosen here"]["blocks"]
    return table(
        ("rows", "mu", *(f"{k} blocks" for k in tried)), [row + ("",) * (2 + len(tried) - len(row)) for row in rows]
    )


def block_exponents() -> str:
    """Regret with and without carrying a setting to all rows, a row for each learner."""
    result = load_result("bench_blocks")
    names = result["counts"]
    exponents = result["settings"]["chosen here"]["exponents"]
    rows = []
    for learner, entry in result["exponents"].items():
        cells = []
        for name in names:
            row = entry["data"][name]
            least = min(range(len(exponents)), key=row["regret"].__getitem__)
            pair = row["paired"][least]
            change = (
                f", {exponents[least]:+g}: {row['regret'][least]:.4f} ({pair['95%'][0]:+.4f} to {pair['95%'][1]:+.4f})"
                if pair
                else ""
            )
            cells.append(f"{row['regret'][exponents.index(0)]:.4f}" + change)
        rows.append(
            (
                learner.partition(",")[0],
                f"`{entry['parameter']}`",
                f"{entry['carried by']:+g}" if entry["carried by"] else "stays",
                *cells,
            )
        )
    return table(("learner", "parameter", "carried by", *names), rows)


BLOCKS = {
    "bench_blocks_counts": block_counts,
    "bench_blocks_exponents": block_exponents,
    "bench_method_rule": rounds,
    "bench_method_descents": descents,
    "bench_public_rows": proposals,
    "bench_search": comparison,
    "bench_search_totals": totals,
    "bench_search_limits": limits,
    "bench_sklearn": estimators,
}
