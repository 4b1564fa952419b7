"""What a search costs beside the trainings: 16 seeds and 256 proposals with values that are there at once."""

import time

import jax
import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import points, searches, settings, tasks
from jaxdpbo import dpareto, drivers
from jaxdpbo.training import _spaces

NAME = "LogReg+SGD"


def main(seeds: int | None, quick: bool) -> None:
    task = points.task_of(common.settings_of(settings, "overhead", quick), NAME)
    out = common.Report(settings, "overhead", "Seconds of a search besides its trainings", quick, task.source)
    s = out.settings
    runs = [of_one(s, task, seed) for seed in range(1 + (seeds or s.runs))]
    total, oracle, accountant = np.array(runs[1:]).T  # the first compiles
    own = total - oracle - accountant
    report.print_table(
        ("", "seconds, median", "the paper"),
        [
            ("the search itself", f"{np.median(own):.1f}", s.seconds),
            ("its accountant", f"{np.median(accountant):.1f}", ""),
            ("compiling, once", f"{runs[0][0] - np.median(total):.1f}", ""),
        ],
    )
    print(f"{s.seeds} seeds and {s.proposals} proposals, one at a time from Python; the paper's was another machine")
    figure, (axis,) = common.panels(1)
    axis.bar(["search", "accountant"], [np.median(own), np.median(accountant)])
    axis.set_ylabel("seconds")
    out.finish(figure, seeds=[1, len(runs)], search=own, accountant=accountant, first_run=runs[0][0])


def of_one(s, task: tasks.Task, seed: int) -> tuple[float, float, float]:
    """Seconds in all, of which in place of a training, and in the accountant."""
    seeded = _spaces.random_settings(task.space, s.seeds, seed)
    spent = {"oracle": 0.0, "accountant": 0.0}

    def objective(setting, task):
        start = time.perf_counter()
        epsilon = tasks.epsilons(task, setting[None])[0]
        spent["accountant"] += time.perf_counter() - start
        start = time.perf_counter()
        # Falls with what a better training would have: a front for the search to find.
        error = 1 / (1 + np.exp(-(0.3 / np.log1p(epsilon) + abs(np.log(setting[2] / 0.01)) / 3 - 2)))
        spent["oracle"] += time.perf_counter() - start
        return np.array([epsilon, error])

    config = dpareto.config(
        bounds=searches.widened(task.space.bounds, seeded), initial_design=seeded, proposals=s.proposals,
        reference=(s.reference[0], min(s.reference[1], 0.999)), integer_mask=_spaces.INTEGER_MASK,
    )  # fmt: skip
    start = time.perf_counter()
    drivers.run_loop(dpareto.algorithm, objective, task, config, run=drivers.Execution(key=jax.random.key(seed)))
    return time.perf_counter() - start, spent["oracle"], spent["accountant"]
