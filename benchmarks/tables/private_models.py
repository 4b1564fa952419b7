"""Test errors of private models of a table."""

from benchmarks.tables.markdown import load_result, table


def comparison() -> str:
    """A row for each model, best first."""
    rows = []
    result = load_result("bench_private_models")
    for name, mean in sorted(result["mean"].items(), key=lambda pair: pair[1]):
        errors = [100 * error for error in result["errors"][name]]
        ends = f"{min(errors):.2f} to {max(errors):.2f} %" if len(errors) > 1 else ""
        covered = "the model" if "," in name else "settings and model"
        covered = "nothing" if name.startswith("scikit-learn") else covered
        rows.append((name.replace("default", "usual"), covered, f"{100 * mean:.2f} %", ends, str(len(errors))))
    return table(("model", "epsilon covers", "test error, mean", "range", "seeds"), rows)


BLOCKS = {"bench_private_models": comparison}
