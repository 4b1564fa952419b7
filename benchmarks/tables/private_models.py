"""Test errors of private models of a table."""

from benchmarks.tables.markdown import stored, table


def compared() -> str:
    """A row for each model, best first."""
    rows = []
    result = stored("bench_private_models")
    for name, mean in sorted(result["mean"].items(), key=lambda pair: pair[1]):
        errors = [100 * error for error in result["errors"][name]]
        ends = f"{min(errors):.2f} to {max(errors):.2f} %" if len(errors) > 1 else ""
        private = "no" if name.startswith("scikit-learn") else "the model alone" if name.endswith("tuned") else "yes"
        rows.append((name, private, f"{100 * mean:.2f} %", ends, str(len(errors))))
    return table(("model", "private", "test error, mean", "range", "seeds"), rows)


BLOCKS = {"bench_private_models": compared}
