"""Searches of spaces with branches and constraints."""

from typing import Any

from benchmarks.tables.markdown import load_result, table


def bench_cash() -> str:
    results = load_result("bench_cash")["searches"]
    learners = sorted({learner for result in results.values() for learner in result["learners"]})
    rows = [
        (f"`{name}`" if name in CODE else name, f"{result['mean']:.4f}", _interval(result["paired"]))
        + tuple(str(result["learners"].count(learner)) for learner in learners)
        for name, result in results.items()
    ]
    return table(("search", "loss", "less that of `minimize` (95 %)", *learners), rows)


def bench_mixtures() -> str:
    results = load_result("bench_mixtures")["shares"]
    first = next(iter(results))
    rows = [(name, f"{result['mean']:.4f}", _interval(result["paired"])) for name, result in results.items()]
    return table(("shares", "loss", f"less that of {first} (95 %)"), rows)


def bench_best_trials() -> str:
    header = ("study", "noise", "answer", "regret", "within one deviation of the noise")
    lines = []
    for name, row in load_result("bench_best_trials")["summary"].items():
        for answer, regret, within in (
            ("`best()`", "regret of best()", "within a deviation"),
            ("the least noised value", "regret of the least noised value", "least noised within a deviation"),
        ):
            counted = f"{row[within]} of {row['of']}"
            lines.append((name, f"{row['deviation']:.4f}", answer, f"{row[regret]:.4f}", counted))
    return table(header, lines)


def _interval(paired: dict[str, Any] | None) -> str:
    return "" if paired is None else "{:+.4f} ({:+.4f} to {:+.4f})".format(paired["mean difference"], *paired["95%"])


CODE = ("minimize", "start_then_local", "PrivateSearchCV", "private_study")
BLOCKS = {block.__name__: block for block in (bench_best_trials, bench_cash, bench_mixtures)}
