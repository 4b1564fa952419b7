"""Files as people have them, before and after public facts spoke."""

from typing import Any

from benchmarks.tables.markdown import load_result, table

CALLS = {  # what is called first, and the result with what it lies beside
    "adult.data": ("`PrivateClassifier`: income, from cells that a space begins", "accuracy", "a constant's"),
    "flchain.arff": ("`PrivateClassifier`: death, from SciPy's bytes", "accuracy", "a constant's"),
    "Default.csv": ("`PrivateClassifier`: student", "accuracy", "a constant's"),
    "Default.csv, resaved": ("the same of semicolons, points and decimal commas", "accuracy", "a constant's"),
    "Wage.csv": ("`curate` of age and wage at an epsilon of 10", "correlation of noised wages with wages", "noise's"),
    "penguins-raw.csv": ("`PrivateClassifier`: species", "accuracy", "a constant's"),
    "flights.csv": ("`minimize` on a table of Parquet: median delay, from two times", "minutes", "the median"),
}


def comparison() -> str:
    """A row for each file."""
    rows = []
    for name, sides in load_result("bench_real_files")["files"].items():
        does, result, beside = CALLS[name]
        now = sides["now"]
        row = [name, f"{now['rows']:,}", does, f"{result}, beside {beside} {now['constant']:.3f}"]
        rows.append([*row, _result(sides["before"]), _result(now), _checked(now["check"])])
    header = ("file", "rows", "first call", "result", "before", "now", "`check` counts")
    return table(header, rows)


def _result(side: dict[str, Any]) -> str:
    if "error" in side:
        return f"refused: {side['error'].partition(': ')[2].partition(':')[0]}"
    raised = f", and `score` raised {side['score']}" if "score" in side else ""
    return f"{side['result']:.3f}{raised}"


def _checked(found: list[str]) -> str:
    """The first findings; the counts are of public rows."""
    return "; ".join(found[:2]) + f"; {len(found) - 2} more" * (len(found) > 2) or "nothing"


BLOCKS = {"bench_real_files": comparison}
