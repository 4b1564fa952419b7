"""Wall times of the scripts in docs/tutorials/tasks."""

from benchmarks.tables.markdown import figures, load_result, table

TITLES = {
    "frame_to_record": "a mixed data frame to a private model and its record",
    "study_with_workers": "an Optuna study with a storage and three workers",
    "sweep_an_algorithm": "a new algorithm, private, 20 seeds at each of three budgets",
    "opacus_model": "a torch module tuned and trained by Opacus under one epsilon",
    "sign_off": "the record of a ledger and a registry entry",
    "rows_50_million": "a search on 50 million rows",
}


def times() -> str:
    """A row for each script."""
    rows = [
        (TITLES[name], f"[{name}.py](tasks/{name}.py)", f"{figures(task['seconds'], 2)} s", f"{task['peak']:.1f} GiB")
        for name, task in load_result("bench_tasks")["tasks"].items()
    ]
    return table(("task", "script", "time", "memory"), rows)


BLOCKS = {"bench_tasks": times}
