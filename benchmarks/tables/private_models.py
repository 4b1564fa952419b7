"""Test errors of private models of tables."""

from typing import Any

import numpy as np

from benchmarks.tables.markdown import load_result, table

WORST = -9.999  # of an R2 that is printed
MARGIN = 0.01  # of an accuracy or an R2
QUANTILE = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 10: 2.26, 20: 2.09}  # of Student's t, by the number of seeds


def comparison() -> str:
    """A row for each model, best first."""
    rows = []
    result = load_result("bench_private_models")
    for name, mean in sorted(result["mean"].items(), key=lambda pair: pair[1]):
        errors = [100 * error for error in result["errors"][name]]
        ends = f"{min(errors):.2f} to {max(errors):.2f} %" if len(errors) > 1 else ""
        covered = "nothing" if name.startswith("scikit-learn") else "the model"
        covered += " and its error" * (name == "PrivateClassifier")
        rows.append((name.replace("default", "usual"), covered, f"{100 * mean:.2f} %", ends, str(len(errors))))
    return table(("model", "epsilon covers", "test error, mean", "range", "seeds"), rows)


def tables() -> str:
    """A row for each table: mean scores of each model."""
    result = load_result("bench_private_tables")
    names = max((list(found["scores"]) for found in result["tables"].values()), key=len)
    rows = []
    for name, found in result["tables"].items():
        kind = f"{found['classes']} classes" if found["classes"] else "R2"
        scores = found["scores"]
        means = [f"{max(np.mean(scores[model]), WORST):.3f}" if model in scores else "" for model in names]
        rows.append((name, f"{found['rows']:,}", kind, *means))
    return table(("table", "rows", "score", *names), rows)


def against_others() -> str:
    """A row for each other model at the same epsilon: on how many tables ours is better, no different, or worse.

    Of the tables on which it is worse: on how many the mean is lower by more than ``MARGIN``.
    """
    result = load_result("bench_private_tables")
    epsilon = result["settings"]["chosen here"]["epsilon of the others"]
    found = result["tables"].values()
    names = max((list(each["scores"]) for each in found), key=len)
    others = [name for name in names if not name.startswith(("ours", "scikit-learn"))]
    return table(
        ("beside", "better", "no different", "worse", f"worse by more than {MARGIN:g}"),
        [(name, *map(str, _verdicts(found, f"ours, {epsilon:g}", name))) for name in others],
    )


def errors() -> str:
    """How often the interval held the error, and the mean offset of the error in its deviations."""
    result = load_result("bench_private_tables")
    offsets = [offset for found in result["tables"].values() for offset in found["offsets"]]
    seconds = [found["seconds"] for found in result["tables"].values()]
    first, later = (float(np.median([each[name] for each in seconds])) for name in ("first", "later, median"))
    return table(
        (
            "fits",
            "interval holds the error",
            "mean offset of `error_`, in deviations",
            "seconds, first fit",
            "seconds, later fits",
        ),
        [
            (
                str(len(offsets)),
                f"{100 * result['held']:.1f} %",
                f"{np.mean(offsets):+.2f}",
                f"{first:.1f}",
                f"{later:.2f}",
            )
        ],
    )


def _verdicts(tables: Any, ours: str, other: str) -> tuple[int, ...]:
    """Paired by seed, at 95 % by Student's t."""
    better = same = worse = beyond = 0
    for found in (each for each in tables if other in each["scores"]):
        apart = np.subtract(found["scores"][ours], found["scores"][other])
        reach = QUANTILE[len(apart)] * np.std(apart, ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.inf
        better += np.mean(apart) > reach
        worse += np.mean(apart) < -reach
        beyond += np.mean(apart) < min(-reach, -MARGIN)
        same += abs(np.mean(apart)) <= reach
    return int(better), int(same), int(worse), int(beyond)


BLOCKS = {
    "bench_private_models": comparison,
    "bench_private_tables": tables,
    "bench_private_tables_others": against_others,
    "bench_private_tables_errors": errors,
}
