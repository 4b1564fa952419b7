"""Errors after tuning AND training under one epsilon."""

from typing import Any

from benchmarks.reproductions import common
from benchmarks.tables.markdown import load_result, table

DEFAULT, NOT_COUNTED = "default setting", "not counted"
PRIVATE = "selection", "blocks", "trials", "selection, by Renyi"


def comparison() -> str:
    """A row for each problem and method, by epsilon."""
    rows = []
    problems = load_result("bench_private_tuning")["problems"]
    epsilons = list(dict.fromkeys(epsilon for problem in problems.values() for epsilon in problem["epsilons"]))
    for name, problem in problems.items():
        for method, means in problem["mean"].items():
            errors, usual = problem["errors"][method], problem["errors"][DEFAULT]
            pairs = [None] * len(means) if method == DEFAULT else map(common.paired_difference, errors, usual)
            cells = {
                epsilon: f"{mean:.4f}{_marked_difference(pair)}"
                for epsilon, mean, pair in zip(problem["epsilons"], means, pairs, strict=True)
            }
            seconds = f"{problem['seconds a run'][method]:.1f} s"
            rows.append((name, method, *(cells.get(epsilon, "") for epsilon in epsilons), seconds))
    return table(("data", "method", *(f"epsilon {epsilon}" for epsilon in epsilons), "a run"), rows)


def gain_shares() -> str:
    """The share of the gain of uncounted tuning over the default setting that each method keeps."""
    rows, problems = [], load_result("bench_private_tuning")["problems"]
    for name, problem in problems.items():
        means = problem["mean"]
        for method in PRIVATE:
            gains = zip(means[DEFAULT], means[NOT_COUNTED], means[method], strict=True)
            shares = [_share(*gain) for gain in gains]
            cells = (f"{epsilon}: {share}" for epsilon, share in zip(problem["epsilons"], shares, strict=True))
            rows.append((name, method, "; ".join(cells)))
    return table(("data", "method", "share, by epsilon"), rows)


def laws() -> str:
    """Test error of a selection's model, by distribution of the number of runs."""
    rows = []
    problems = load_result("bench_repetitions")["problems"]
    for name, by_epsilon in problems.items():
        for epsilon, result in by_epsilon.items():
            rows.append((name, epsilon, f"{result['default']:.4f}", *(f"{law['error']:.4f}" for law in result["laws"])))
    first = next(iter(next(iter(problems.values())).values()))
    heads = (f"eta {law['eta']:g}, mean {law['mean']:.3g}" for law in first["laws"])
    return table(("data", "epsilon", "default setting", *heads), rows)


def fronts() -> str:
    """Least test errors of fronts that may be published, and of an unprotected front."""
    result, rows = load_result("bench_fronts"), []
    for front in result["fronts"]:
        least = ("" if error is None else f"{error:.4f}" for error in front["least error"])
        off = front["released less measured"]["deviation"]
        noise = f"{off:.4f}" if off else "none"
        rows.append((front["way"], f"{front['epsilon of all']:,.4g}", f"{front['trainings']:.0f}", *least, noise))
    heads = (f"error within {epsilon}" for epsilon in ("0.05", "0.1", "0.3", "1", "4"))
    return table(("front", "epsilon of all", "trainings", *heads, "noise of an error"), rows)


def _share(default: float, not_counted: float, error: float) -> str:
    if not_counted >= default:
        return "nothing to gain"
    return f"{(default - error) / (default - not_counted):.0%}" if error < default else "none"


def _marked_difference(pair: dict[str, Any] | None) -> str:
    """The difference from the default setting; bold where it is better, in italics where worse."""
    if pair is None:
        return ""
    low, high = pair["95%"]
    mark = "**" if high < 0 else "_" if low > 0 else ""
    return f" ({mark}{pair['mean difference']:+.4f}{mark})"


BLOCKS = {
    "bench_private_tuning": comparison,
    "bench_private_tuning_kept": gain_shares,
    "bench_repetitions": laws,
    "bench_fronts": fronts,
}
