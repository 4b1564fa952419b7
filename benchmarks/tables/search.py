"""Losses that the searches reach."""

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
    """The models of a ``Space`` at an epsilon of 1, beside the default parameters of their library."""
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
    "bench_search": compared,
    "bench_search_models": models,
    "bench_search_totals": totals,
    "bench_sklearn": estimators,
}
