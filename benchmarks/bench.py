"""``scripts/bench [NAME] [--quick] [options of one NAME]``: measure; without a name, list the measurements.

``scripts/bench all`` runs all measurements of speed, one at a time, and prints their main figures.
"""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.speed import ABOUT, NAMES
from jaxdpbo import checks

SEARCHES = {  # of losses, not of speed
    "search": "benchmarks.search.minimize",
    "sklearn": "benchmarks.search.held_out",
    "private_tuning": "benchmarks.search.private_tuning",
    "blocks": "benchmarks.search.blocks",
    "repetitions": "benchmarks.search.repetitions",
    "fronts": "benchmarks.search.fronts",
    "least_epsilon": "benchmarks.search.least_epsilon",
    "selection_prices": "benchmarks.search.selection_prices",
    "private_models": "benchmarks.search.private_models",
    "private_tables": "benchmarks.search.private_tables",
    "enough_users": "benchmarks.search.enough_users",
    "tasks": "benchmarks.search.tasks",
    "method_rule": "benchmarks.search.method_rule",
    "public_rows": "benchmarks.search.public_rows",
    "silo_choices": "benchmarks.search.silo_choices",
    "cash": "benchmarks.search.cash",
    "mixtures": "benchmarks.search.mixtures",
    "best_trials": "benchmarks.search.best_trials",
    "real_files": "benchmarks.search.real_files",
}
OPTIONS = {
    "first_answer": {"against"},
    "commits": {"against"},
    "real_files": {"against"},
    "search": {"problems", "methods", "budgets", "seeds"},
    "sklearn": {"seeds"},
    "private_tuning": {"problems", "methods", "budgets", "seeds"},
    "blocks": {"seeds"},
    "private_models": {"seeds"},
    "private_tables": {"seeds"},
    "method_rule": {"problems", "seeds"},
    "public_rows": {"problems", "seeds"},
    "silo_choices": {"seeds"},
    "cash": {"seeds"},
    "mixtures": {"seeds"},
}
MODULES = {name: f"benchmarks.speed.{name}" for name in (*NAMES, "commits")} | SEARCHES
ALL = "all"
HEAVY = {"engines": ("dask", "ray", "spark", "beam"), "silos": ("flower", "ray")}  # as scripts/bench installs
OURS = {"", "benchmarks", "jaxdpbo"}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure speed and memory, and those of a peer in the same run."
    )
    parser.add_argument("name", nargs="?", choices=(*MODULES, ALL), help="a measurement; without it, list them")
    parser.add_argument(
        "--quick", action="store_true", help="use few repetitions and small sizes; report no figure from such a run"
    )
    parser.add_argument("--against", type=Path, help="first_answer, commits and real_files: another checkout")
    parser.add_argument("--problems", nargs="+", help="search and private_tuning: problems to run; all by default")
    parser.add_argument("--methods", nargs="+", help="search and private_tuning: methods to compare")
    parser.add_argument(
        "--budgets", nargs="+", help="search: such as 'epsilon 1' or 'mu inf'; private_tuning: epsilons"
    )
    parser.add_argument("--seeds", type=int, help="comparisons of losses: number of seeds")
    arguments = parser.parse_args()
    if arguments.name is None:
        rows = [
            (name, report.last_time(report.find_result(f"bench_{name}")), report.first_line(module))
            for name, module in MODULES.items()
        ]
        report.print_table(("name", "last took", "measurement"), rows, flush=(0, 2))
        return
    options = {name: value for name, value in vars(arguments).items() if value is not None}
    own = set(options) - {"name", "quick"}
    if foreign := own - OPTIONS.get(options["name"], set()):
        parser.error(f"{options['name']} takes no {', '.join(sorted(foreign))}")
    if arguments.name == ALL:
        raise SystemExit(run_all(arguments.quick))
    try:
        importlib.import_module(MODULES[arguments.name]).main(arguments.quick, **{name: options[name] for name in own})
    except ImportError as error:
        if (missing := describe_missing(arguments.name, error)) is None:
            raise
        parser.exit(2, f"{missing}\n")


def describe_missing(name: str, error: ImportError) -> str | None:
    """Which extra the measurement needs, in a line; None where nothing is missing but a name is wrong."""
    module = (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and module not in OURS:
        extras = ",".join(("bench", *HEAVY.get(name, ())))
        return f"scripts/bench {name} needs {module}: {checks.install_hint(extras)}"
    hinted = "pip install" in str(error)  # by the package, of an extra of its own
    return f"scripts/bench {name}: {error}" if hinted else None


def run_all(quick: bool) -> int:
    """Each measurement of speed in a process of its own; 1 where one failed."""
    from tqdm import tqdm  # these two need extras, which a single measurement may not

    from benchmarks.tables import summary

    commands = {f"bench_{name}": ("benchmarks.bench", name) for name in ABOUT}
    commands[summary.OVERHEAD] = ("benchmarks.reproduce", *summary.OVERHEAD.split("_"))
    failed = []
    for name, (module, *item) in tqdm(commands.items(), unit="measurement"):
        log = report.folder("all") / f"{name}.log"
        with log.open("w") as file:
            command = [sys.executable, "-m", module, *item, *["--quick"] * quick]
            if subprocess.run(command, stdout=file, stderr=file, cwd=report.ROOT).returncode:
                failed.append(f"{name} FAILED, see results/all/{log.name}")

    def read_result(name: str) -> dict | None:
        folder, _, item = name.partition("_")
        path = report.folder(folder) / f"{item}{'_quick' * quick}.json"
        return json.loads(path.read_text()) if path.exists() else None

    report.print_table(("", "measured"), summary.rows(read_result))
    print(*failed, sep="\n")
    return min(len(failed), 1)


if __name__ == "__main__":
    main()
