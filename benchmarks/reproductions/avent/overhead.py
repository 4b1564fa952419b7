"""What a search costs beside the trainings: 16 seeds and 256 proposals with values that are there at once."""

import time

import jax
import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import fronts, points, searches, settings, tasks
from jaxdpbo import dpareto, drivers
from jaxdpbo.training import spaces

NAME = "LogReg+SGD"


def main(seeds: range | None = None, quick: bool = False) -> None:
    task = points.task_of(common.settings_of(settings, "overhead", quick), NAME)
    out = common.Report(
        settings, "overhead", "Seconds of a search besides its trainings", quick, task.source, seeds=seeds
    )
    s = out.settings
    seeds = seeds or range(1, 1 + s.runs)
    runs = [time_search(s, task, seed) for seed in (seeds.start, *seeds)]
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
    training = fronts.one_training(s, NAME)
    spent = (s.seeds + s.proposals) * settings.PRINTED["overhead"]["repeats"] * training["seconds"]
    print(f"one training of the middle setting: {training['seconds']:.2f} s; {spent:.0f} s for the paper's number")
    figure, (axis,) = common.panels(1)
    axis.bar(["search", "accountant"], [np.median(own), np.median(accountant)])
    axis.set_ylabel("seconds")
    out.finish(
        figure,
        seeds=common.ends(seeds),
        search=own,
        accountant=accountant,
        first_run=runs[0][0],
        one_training=training,
        seconds_of_all_trainings=spent,
    )


def time_search(s, task: tasks.Task, seed: int) -> tuple[float, float, float]:
    """Seconds in all, of which in place of a training, and in the accountant."""
    seeded = spaces.random_settings(task.space, s.seeds, seed)
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
        bounds=searches.widen_bounds(task.space.bounds, seeded), initial_design=seeded, proposals=s.proposals,
        reference=(s.reference[0], min(s.reference[1], 0.999)), integer_mask=spaces.INTEGER_MASK,
    )  # fmt: skip
    start = time.perf_counter()
    drivers.run_loop(dpareto.algorithm, objective, task, config, key=jax.random.key(seed))
    return time.perf_counter() - start, spent["oracle"], spent["accountant"]
