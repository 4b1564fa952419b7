"""Losses that the searches reach."""

import math
from collections import Counter
from collections.abc import Callable

from benchmarks.reproductions import common
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import DEVELOPMENT, PROBLEMS, Problem
from benchmarks.tables.markdown import stored, table
from jaxdpbo.drivers import _methods
from jaxdpbo.privacy._accounting import regret

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


def compared() -> str:
    """A row for each problem, at the first budget: mean losses, each rival's marked where it differs from ours."""
    level = _budgets()[0]
    rows = []
    for problem, row in stored(RESULT)["problems"].items():
        means, pairs = row["mean"][level], row["paired"][level]
        sizes = f"{row['users']:,}", row["dimensions"], row["evaluations"], row["seeds"][level]
        marked = (
            "" if name not in means else _marked(means[name], OF_RIVAL[pairs[f"{OURS} - {name}"]["verdict"]])
            for name in (PUBLIC, *RIVALS)
        )
        method = row["method"][level].partition(":")[0]
        rows.append((ALL[problem].title, *sizes, method, f"{means[OURS]:.4f}", *marked))
    header = ("problem", "users", "d", "evaluations", "seeds", "method", "`minimize`", "`minimize`, public rows")
    return table((*header, *RIVALS.values()), rows)


def totals() -> str:
    """A row for each rival: on how many problems ``minimize`` is better, no different or worse, by budget."""
    counts = stored(RESULT)["totals"]
    rows = []
    for name in (PUBLIC, *RIVALS):
        cells = [_counted(counts[level].get(f"{ours} - {name}")) for level in _budgets() for ours in (OURS, PUBLIC)]
        rows.append((RIVALS.get(name, "`minimize`, public rows"), *cells))
    columns = [f"{ours}, {_named(level)}" for level in _budgets() for ours in ("`minimize`", "public rows")]
    return table(("rival", *columns), rows)


def limits() -> str:
    """A row for each problem that ``minimize`` loses to random search: by how much, and a floor of private choices."""
    level = _budgets()[0]
    rows = []
    for name, row in stored(RESULT)["problems"].items():
        of = row["paired"][level][f"{OURS} - random search"]
        if of["verdict"] == "worse":
            low, high = PROBLEMS[name].loss_range
            least = regret.least_regret(row["evaluations"], row["users"], epsilon=Budget.parse(level).range)
            difference, (start, end) = of["mean difference"], of["95%"]
            lost = f"{difference:.4f} ({start:.4f} to {end:.4f})"
            rows.append((ALL[name].title, f"{row['users']:,}", lost, f"{(high - low) * least:.4f}"))
    header = ("problem", "users", "`minimize` minus random search (95 %)", "least regret, worst data")
    return table(header, rows)


def rounds() -> str:
    """Mean losses of one choice, and of further rounds near the chosen point, on development seeds."""
    return _beside_one_choice(SPACE_SEARCHES)


def descents() -> str:
    """Mean losses of one choice and of two descents over boxes, on development seeds."""
    return _beside_one_choice(DESCENTS, {"sharpness": _sharpness, "gradient noise": _gradient_noise})


def unsharp_descents(search: str) -> Counter[str]:
    """How often a descent is better, worse or no different than ``in_order``, where a choice is not sharp."""
    verdicts: Counter[str] = Counter()
    for name, row in stored("bench_method_rule")["problems"].items():
        for budget, each in row.items():
            if search in each and ALL[name].steps >= _methods.DESCENT_STEPS:
                sharp = float(_sharpness(ALL[name], Budget.parse(budget).mu))
                verdicts[each[search]["paired"]["verdict"]] += sharp < _methods.SHARP
    return verdicts


def _beside_one_choice(others: dict[str, str], more: dict[str, Callable[[Problem, float], str]] | None = None) -> str:
    more = more or {}
    rows = [
        (ALL[name].title, budget.replace("mu inf", "no noise"))
        + tuple(figure(ALL[name], Budget.parse(budget).mu) for figure in more.values())
        + (f"{each['in_order']['mean']:.4f}",)
        + tuple(_marked(each[one]["mean"], each[one]["paired"]["verdict"]) for one in others)
        for name, row in stored("bench_method_rule")["problems"].items()
        for budget, each in row.items()
        if others.keys() <= each.keys()
    ]
    return table(("problem", "budget", *more, "`in_order`", *others.values()), rows)


def _sharpness(problem: Problem, mu: float) -> str:
    """Of a choice of the start."""
    low, high = problem.loss_range
    share = mu * math.sqrt(_methods.CHOICE_SHARE)
    return f"{_methods.choice.choice_sharpness(share, high - low, problem.users):.1f}"


def _gradient_noise(problem: Problem, mu: float) -> str:
    """In clipping norms."""
    return f"{2 * math.sqrt(problem.steps * problem.dimension) / (problem.users * mu):.2f}"


def proposals() -> str:
    """Mean losses of other ways to propose points by public rows, on development seeds."""
    problems = stored("bench_public_rows")["problems"]
    names = list(next(iter(next(iter(problems.values())).values())))
    rows = []
    for name, row in problems.items():
        for budget, each in row.items():
            marked = (_marked(each[one]["mean"], each[one]["paired"]["verdict"]) for one in names[1:])
            cells = f"{each[names[0]]['mean']:.4f}", *marked
            rows.append((ALL[name].title, budget.replace("mu inf", "no noise"), *cells))
    return table(("problem", "budget", "the default", *names[1:]), rows)


def _named(level: str) -> str:
    """A budget in words, with the number of seeds."""
    seeds = {row["seeds"][level] for row in stored(RESULT)["problems"].values() if level in row["seeds"]}
    span = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(*seeds)
    return f"{level.replace('mu inf', 'no noise').replace('mu', 'mu =')}, {span} seeds"


def _budgets() -> list[str]:
    return stored(RESULT)["settings"]["chosen here"]["budgets"]


def _marked(mean: float, verdict: str) -> str:
    mark = {"better": "**", "worse": "_"}.get(verdict, "")
    return f"{mark}{mean:.4f}{mark}"


def _counted(counts: dict[str, int] | None) -> str:
    if counts is None:
        return ""
    return f"{counts['better']} / {counts['worse']} / {counts['no different']}"


def estimators() -> str:
    """``PrivateSearchCV`` beside an estimator's defaults, on held-out records."""
    rows = []
    for name, one in stored("bench_sklearn")["data"].items():
        paired = common.compared(one["losses"]["private"], one["losses"]["default"])
        low, high = paired["95%"]
        means = {which: sum(values) / len(values) for which, values in one["losses"].items()}
        rows.append(
            (name, f"{one['rows'][0]:,}", f"{means['default']:.4f}", f"{means['private']:.4f}")
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
    result = stored("bench_blocks")
    rows = []
    for name, of in result["counts"].items():
        for mu, one in of.items():
            shares = [f"{regret:.2f}" for regret in one["regret"]]
            least = min(range(len(shares)), key=one["regret"].__getitem__)
            shares[least] = f"**{shares[least]}**"
            rows.append((name, mu, *shares))
    tried = result["settings"]["chosen here"]["blocks"]
    return table(
        ("rows", "mu", *(f"{k} blocks" for k in tried)), [row + ("",) * (2 + len(tried) - len(row)) for row in rows]
    )


def block_exponents() -> str:
    """Regret with and without carrying a setting to all rows, a row for each learner."""
    result = stored("bench_blocks")
    names = result["counts"]
    exponents = result["settings"]["chosen here"]["exponents"]
    rows = []
    for learner, one in result["exponents"].items():
        said = []
        for name in names:
            of = one["data"][name]
            least = min(range(len(exponents)), key=of["regret"].__getitem__)
            pair = of["paired"][least]
            change = (
                f", {exponents[least]:+g}: {of['regret'][least]:.4f} ({pair['95%'][0]:+.4f} to {pair['95%'][1]:+.4f})"
                if pair
                else ""
            )
            said.append(f"{of['regret'][exponents.index(0)]:.4f}" + change)
        rows.append(
            (
                learner.partition(",")[0],
                f"`{one['parameter']}`",
                f"{one['carried by']:+g}" if one["carried by"] else "stays",
                *said,
            )
        )
    return table(("learner", "parameter", "carried by", *names), rows)


BLOCKS = {
    "bench_blocks_counts": block_counts,
    "bench_blocks_exponents": block_exponents,
    "bench_method_rule": rounds,
    "bench_method_descents": descents,
    "bench_public_rows": proposals,
    "bench_search": compared,
    "bench_search_totals": totals,
    "bench_search_limits": limits,
    "bench_sklearn": estimators,
}
