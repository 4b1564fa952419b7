"""How low the searches get."""

from typing import Any

from benchmarks.tables.markdown import stored, table

RESULT = "bench_search"
FREE, BEFORE, UNTUNED = "minimize - random search", "minimize - before", "minimize - default parameters"


def compared() -> str:
    """A row for each problem, at one budget."""
    rows = []
    for row in stored(RESULT)["problems"].values():
        level = _level()
        i = row["budgets"].index(level)
        sizes = f"{row['users']:,}, {row['dimensions']}, {row['evaluations']}, {row['seeds'][i]}"
        means = [row["mean"][name][i] for name in ("random search", "minimize")]
        pairs = [row["paired"].get(name, {}).get(level) for name in (FREE, BEFORE, UNTUNED)]
        method = row["method"][level].partition(":")[0]
        rows.append((row["title"], sizes, method, *(f"{mean:.4f}" for mean in means), *map(_said, pairs)))
    header = (
        "problem", "users, dimensions, evaluations, seeds", "method", "random search, not private", "`minimize`",
        "difference from random search", "from Algorithm 1's units", "from default parameters",
    )  # fmt: skip
    return table(header, rows)


def models() -> str:
    """The models of a ``Space`` at an epsilon of 1, beside the parameters that their library has chosen."""
    result = stored(RESULT)
    level = result["settings"]["chosen here"]["mu of epsilon = 1 at delta = 1e-5"]
    rows = []
    for row in result["problems"].values():
        if level not in row["budgets"]:
            continue
        i = row["budgets"].index(level)
        means = [f"{row['mean'][name][i]:.4f}" for name in ("default parameters", "minimize", "random search")]
        pairs = [row["paired"][name][level] for name in (UNTUNED, FREE)]
        rows.append((row["title"], *means, *map(_said, pairs)))
    header = (
        "model", "default parameters", "`minimize`", "random search, not private",
        "difference from default parameters", "from random search",
    )  # fmt: skip
    return table(header, rows)


def totals() -> str:
    """A row for each budget."""
    rows, totals = [], stored(RESULT)["totals"]
    levels = stored(RESULT)["settings"]["chosen here"]["mu"]
    for mu in levels:
        rows.append(
            (mu, *(", ".join(f"{verdict} {count}" for verdict, count in of[mu].items()) for of in totals.values()))
        )
    return table(("mu", *(f"`minimize` {name.removeprefix('minimize ')}" for name in totals)), rows)


def _level() -> str:
    found = stored(RESULT)["settings"]["chosen here"]["mu"]
    return "1" if "1" in found else found[0]


def _said(pair: dict[str, Any] | None) -> str:
    if pair is None:
        return ""
    low, high = pair["95%"]
    mark = {"better": "**", "worse": "_"}.get(pair["verdict"], "")
    return f"{mark}{pair['mean difference']:+.4f}{mark} ({low:+.4f} to {high:+.4f})"


def estimators() -> str:
    """``PrivateSearchCV`` beside an estimator's defaults, on held-out records."""
    rows = []
    for name, one in stored("bench_sklearn")["data"].items():
        low, high = one["paired"]["95%"]
        means = {which: sum(values) / len(values) for which, values in one["losses"].items()}
        rows.append(
            (name, f"{one['rows'][0]:,}", f"{means['default']:.4f}", f"{means['private']:.4f}")
            + (f"{one['paired']['mean difference']:+.4f} ({low:+.4f} to {high:+.4f})",)
            + (f"{means['before']:.4f}", f"{means['accuracy']:.4f}")
        )
    header = (
        "records", "rows of the search", "log loss, defaults", "log loss, `PrivateSearchCV`", "difference (95 %)",
        "accuracy, defaults", "accuracy, `PrivateSearchCV`",
    )  # fmt: skip
    return table(header, rows)


BLOCKS = {
    "bench_search": compared,
    "bench_search_models": models,
    "bench_search_totals": totals,
    "bench_sklearn": estimators,
}
