"""Errors after tuning AND training under one epsilon."""

from typing import Any

from benchmarks.reproductions import common
from benchmarks.tables.markdown import stored, table

DEFAULT, NOT_COUNTED = "default setting", "not counted"
PRIVATE = "selection", "blocks", "trials", "selection, by Renyi"


def compared() -> str:
    """A row for each problem and method, by epsilon."""
    rows = []
    problems = stored("bench_private_tuning")["problems"]
    epsilons = list(dict.fromkeys(epsilon for one in problems.values() for epsilon in one["epsilons"]))
    for name, one in problems.items():
        for method, means in one["mean"].items():
            errors, usual = one["errors"][method], one["errors"][DEFAULT]
            pairs = [None] * len(means) if method == DEFAULT else map(common.compared, errors, usual)
            said = {
                epsilon: f"{mean:.4f}{_marked(pair)}"
                for epsilon, mean, pair in zip(one["epsilons"], means, pairs, strict=True)
            }
            seconds = f"{one['seconds a run'][method]:.1f} s"
            rows.append((name, method, *(said.get(epsilon, "") for epsilon in epsilons), seconds))
    return table(("data", "method", *(f"epsilon {epsilon}" for epsilon in epsilons), "a run"), rows)


def kept() -> str:
    """The share of the gain of uncounted tuning over the default setting that each method keeps."""
    rows, problems = [], stored("bench_private_tuning")["problems"]
    for name, one in problems.items():
        means = one["mean"]
        for method in PRIVATE:
            gains = zip(means[DEFAULT], means[NOT_COUNTED], means[method], strict=True)
            shares = [_share(*each) for each in gains]
            said = (f"{epsilon}: {share}" for epsilon, share in zip(one["epsilons"], shares, strict=True))
            rows.append((name, method, "; ".join(said)))
    return table(("data", "method", "share, by epsilon"), rows)


def laws() -> str:
    """Test error of a selection's model, by distribution of the number of runs."""
    rows = []
    problems = stored("bench_repetitions")["problems"]
    for name, by_epsilon in problems.items():
        for epsilon, one in by_epsilon.items():
            rows.append((name, epsilon, f"{one['default']:.4f}", *(f"{law['error']:.4f}" for law in one["laws"])))
    first = next(iter(next(iter(problems.values())).values()))
    heads = (f"eta {law['eta']:g}, mean {law['mean']:.3g}" for law in first["laws"])
    return table(("data", "epsilon", "default setting", *heads), rows)


def fronts() -> str:
    """Least test errors of fronts that may be published, and of an unprotected front."""
    found, rows = stored("bench_fronts"), []
    for one in found["fronts"]:
        least = ("" if error is None else f"{error:.4f}" for error in one["least error"])
        off = one["released less measured"]["deviation"]
        noise = f"{off:.4f}" if off else "none"
        rows.append((one["way"], f"{one['epsilon of all']:,.4g}", f"{one['trainings']:.0f}", *least, noise))
    heads = (f"error within {epsilon}" for epsilon in ("0.05", "0.1", "0.3", "1", "4"))
    return table(("front", "epsilon of all", "trainings", *heads, "noise of an error"), rows)


def _share(default: float, not_counted: float, found: float) -> str:
    if not_counted >= default:
        return "nothing to gain"
    return f"{(default - found) / (default - not_counted):.0%}" if found < default else "none"


def _marked(pair: dict[str, Any] | None) -> str:
    """The difference from the default setting; bold where it is better, in italics where worse."""
    if pair is None:
        return ""
    low, high = pair["95%"]
    mark = "**" if high < 0 else "_" if low > 0 else ""
    return f" ({mark}{pair['mean difference']:+.4f}{mark})"


BLOCKS = {
    "bench_private_tuning": compared,
    "bench_private_tuning_kept": kept,
    "bench_repetitions": laws,
    "bench_fronts": fronts,
}
