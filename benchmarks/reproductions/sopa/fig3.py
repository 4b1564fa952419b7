"""Figure 3, example 4.4: 33 hyper-parameters of a kernel machine, with and without privacy, beside random search.

Ours, with nothing tuned: the same descent from the same starts in box units, and ``minimize``.

Slow, so it may be stopped and started: the JSON holds every run that has ended, and those are not run again.
"""

import json
import os
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from benchmarks import report
from benchmarks.papers import datasets, splits
from benchmarks.reproductions import common
from benchmarks.reproductions.sopa import settings
from jaxdpbo import Search, dp_gibo, drivers, minimize, random_search
from jaxdpbo.problems import _kernel_svr
from jaxdpbo.surrogate import descent

SEARCH, DEFAULT = "random search", "minimize, mu=1"
AVERAGED = descent.OUTPUTS.index("last_half_mean")


class Problem(NamedTuple):
    """What finds the records, in whatever process: a few numbers instead of the records."""

    dataset: str
    seed: int
    train: int
    users: int
    features: int
    ordered: bool


@lru_cache(maxsize=1)
def load_dataset(dataset: str) -> datasets.Dataset:
    return datasets.load(dataset)


@lru_cache(maxsize=1)
def records(problem: Problem) -> splits.Split:
    """A worker keeps the last one: a run evaluates one problem 500 times."""
    return splits.split_for_svr(
        load_dataset(problem.dataset),
        problem.seed,
        train=problem.train,
        validation=problem.users,
        ordered=problem.ordered,
        features=problem.features,
    )


def losses(point: np.ndarray, problem: Problem) -> np.ndarray:
    return _kernel_svr.kernel_svr_loss(point, records(problem))


def mean_loss(point: np.ndarray, problem: Problem) -> float:
    return float(np.mean(losses(point, problem)))


def main(seeds: range | None = None, quick: bool = False) -> None:
    s = common.settings_of(settings, "fig3", quick)
    dataset = load_dataset(s.dataset)
    out = common.Report(
        settings, "fig3", "Fig. 3, example 4.4: kernel support vector regression", quick, dataset.source, seeds=seeds
    )
    features = min(s.features, dataset.features.shape[1])
    seeds = seeds or range(s.replications)
    real = Problem(s.dataset, 0, *sizes(s, len(dataset.targets)), features, s.ordered)
    small = real._replace(train=min(s.tuning_records, real.train // 2), users=min(s.tuning_records, real.train // 2))
    reported = common.ends(seeds)
    methods = {f"DP-GIBO, mu={mu:g}": mu for mu in s.mu}
    boxed = {f"in box units, mu={mu:g}": mu for mu in s.mu}
    done = resume(out, real)
    print(
        f"{real.train} records train, {real.users} are the users, {features + 3} hyper-parameters, {s.steps} steps of "
        f"{features + 4} evaluations\ntuning: the first {small.train} and next {small.users} records, all of them "
        f"training records of the reported runs where 'ordered'; mu scaled so that the noise is the reported runs'\n"
    )
    # One thread each, inherited; this process has loaded its own BLAS already.
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    cores = report.machine()["cores"]
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        for method, mu in methods.items():
            if method not in done["tuning"]:
                done["tuning"][method] = tune(s, method, mu * real.users / small.users, small, pool)
                out.write(seeds=reported, **done)

        def run(method: str, problem: Problem, label: str) -> np.ndarray:
            if method == SEARCH:
                return run_search(s, problem, pool, label)
            if method == DEFAULT:
                return defaults(s, problem, pool, label)
            if method in boxed:
                return gibo(box_units(s, problem, boxed[method]), problem, pool, label)[AVERAGED]
            options = done["tuning"][method]["chosen"]
            curves_by_output = gibo(published_config(s, problem, methods[method], options), problem, pool, label)
            return curves_by_output[descent.OUTPUTS.index(options["output"])]

        shown = [*methods, SEARCH, *boxed, DEFAULT]
        for seed in seeds:
            for method in shown:
                runs = done["runs"].setdefault(method, {})
                if str(seed) in runs:
                    continue
                curve = run(method, real._replace(seed=seed), f"{method}, seed {seed}")
                runs[str(seed)] = report.json_value(np.asarray(curve))
                out.write(seeds=reported, **done)

    curves = {method: np.array([done["runs"][method][str(seed)] for seed in seeds]) for method in shown}
    print(f"\nmean validation loss of what is released, {len(seeds)} seeds; {dataset.source}")
    report.print_table(
        ("method", "tuned", "mean", "min", "max"),
        [
            (method, common.describe_options(done["tuning"].get(method, {}).get("chosen", {})))
            + tuple(f"{value:.4f}" for value in (f(curves[method][:, -1]) for f in (np.mean, np.min, np.max)))
            for method in shown
        ],
    )
    private, free = methods
    pairs = {
        f"{first} - {second}": common.paired_difference(curves[first][:, -1], curves[second][:, -1])
        for first, second in (*((name, SEARCH) for name in shown if name != SEARCH), (private, free))
    }
    print("\npaired differences, mean (95 % interval, Student's t)")
    for name, comparison in pairs.items():
        print(f"  {name}: {common.sentence(comparison)}")
    print()
    mean_curves = {method: values.mean(axis=0) for method, values in curves.items()}
    out.finish(picture(s, features + 4, curves), **done, seeds=reported, paired=pairs, mean_curves=mean_curves)


def sizes(s: Any, total: int) -> tuple[int, int]:
    """Training records and users: the settings', or halves of what there is."""
    return (s.train, s.users) if s.train + s.users <= total else (total // 2, total - total // 2)


def resume(out: common.Report, problem: Problem) -> dict[str, Any]:
    """What an earlier run of the same commit and settings on the same data wrote, the tuning and the runs."""
    out.summary["problem"] = problem._asdict()
    path, fresh = out.path("json"), {"tuning": {}, "runs": {}}
    if not path.exists():
        return fresh
    written = json.loads(path.read_text())
    asked = report.json_value(out.summary) | {"settings": out.described, "commit": report.REVISION, "modified": False}
    if any(written.get(name) != value for name, value in asked.items()):
        return fresh
    previous = {name: written[name] for name in fresh}
    out.started -= written["seconds"]
    print(f"going on from {path.name}: {sum(map(len, previous['runs'].values()))} runs are there\n")
    return previous


def tune(s: Any, method: str, mu: float, small: Problem, pool: Executor) -> dict[str, Any]:
    """Update and output by mean final loss, on the smaller problem and on seeds of its own."""
    seeds = common.tuning_seeds(s.tuning_seeds)
    tried = [{"step_size": size, "accumulator": start} for size, start in s.step_sizes]
    scores = []
    for update in tried:
        ends = []
        for seed in seeds:
            label = f"tuning {method}, {common.describe_options(update)}, seed {seed}"
            problem = small._replace(seed=seed)
            ends.append([curve[-1] for curve in gibo(published_config(s, problem, mu, update), problem, pool, label)])
        scores.append(np.mean(ends, axis=0))
    options = [update | {"output": output} for update in tried for output in descent.OUTPUTS]
    _, record = common.choose(f"{method} by mean final loss", options, np.ravel(scores), seeds)
    return report.json_value(record | {"train": small.train, "users": small.users, "mu": mu})


def published_config(s: Any, problem: Problem, mu: float, options: dict[str, Any]) -> dp_gibo.Config:
    """Algorithm 1. The step size is in half-widths of the box: the parameters have sides of their own."""
    bounds, start, _ = run_inputs(problem)
    return dp_gibo.config(
        box_units=False,
        noise="float",
        users=problem.users,
        steps=s.steps,
        mu=mu,
        bounds=bounds,
        clip_norm=s.clip_norm,
        theta0=start,
        step_size=options["step_size"] * (bounds[1] - bounds[0]) / 2,
        optimizer=common.ADAGRAD[options["accumulator"]],
    )


def box_units(s: Any, problem: Problem, mu: float) -> dp_gibo.Config:
    """The same descent, with step and update as ``minimize`` has them."""
    bounds, start, _ = run_inputs(problem)
    return dp_gibo.config(
        noise="float",
        users=problem.users,
        steps=s.steps,
        mu=mu,
        bounds=bounds,
        clip_norm=s.clip_norm,
        theta0=start,
        optimizer=optax.adagrad,
    )


def gibo(config: dp_gibo.Config, problem: Problem, pool: Executor, label: str) -> np.ndarray:
    """``(2, T + 1)``: the mean loss of what would be released after each step, by each of ``descent.OUTPUTS``."""
    _, _, key = run_inputs(problem)
    print(label)
    run = drivers.run_loop(dp_gibo.algorithm, losses, problem, config, key=key, executor=pool, progress=True)
    points = np.asarray(common.answers(run.release.path))
    futures = [pool.submit(mean_loss, point, problem) for point in points.reshape(-1, points.shape[-1])]
    return np.array([future.result() for future in futures]).reshape(points.shape[:2])


def defaults(s: Any, problem: Problem, pool: Executor, label: str) -> np.ndarray:
    """``(1,)``: what ``minimize`` ends at."""
    bounds, _, key = run_inputs(problem)
    print(label)
    run = minimize(
        losses,
        problem,
        bounds,
        mu=1.0,
        users=problem.users,
        loss_range=s.loss_range,
        search=Search(steps=s.steps, noise="float"),
        key=key,
        insecure_key=True,
        traceable=False,
        executor=pool,
        progress=True,
    )
    print(run.method)
    return np.array([mean_loss(run.release.point, problem)])


def run_search(s: Any, problem: Problem, pool: Executor, label: str) -> np.ndarray:
    """``(T + 1,)``: the least mean loss so far after each batch; the first counts for step 0 too."""
    bounds, _, key = run_inputs(problem)
    config = random_search.config(users=problem.users, steps=s.steps, batch=bounds.shape[1] + 1, bounds=bounds)
    print(label)
    run = drivers.run_loop(
        random_search.algorithm,
        losses,
        problem,
        config,
        key=key,
        executor=pool,
        progress=True,
        diagnostics=True,
    )
    assert run.diagnostics is not None
    means = np.asarray(run.diagnostics.info.raw["mean_loss"])
    return np.minimum.accumulate([means[0, 0], *means.min(axis=1)])


def run_inputs(problem: Problem) -> tuple[np.ndarray, jax.Array, jax.Array]:
    """The box, the start, the key of the run."""
    start_key, key = jax.random.split(jax.random.key(problem.seed))
    bounds = _kernel_svr.kernel_svr_bounds(problem.features)
    return bounds, jax.random.uniform(start_key, bounds.shape[1:], minval=bounds[0], maxval=bounds[1]), key


def picture(s: Any, batch: int, curves: dict[str, np.ndarray]) -> Any:
    figure, (axis,) = common.panels(1)
    steps = np.arange(s.steps + 1) * batch
    for i, (method, values) in enumerate(curves.items()):
        label = f"{method} (not private)" if method == SEARCH or method.endswith("inf") else method
        if method == DEFAULT:  # its rounds are not all descents: there is an answer at the end alone
            low, high = values.min(), values.max()
            ends = [[values.mean() - low], [high - values.mean()]]
            axis.errorbar(steps[-1:], [values.mean()], ends, color=f"C{i}", label=label, fmt="o", capsize=3)
        else:
            common.band(axis, values, f"C{i}", label, steps, mean=True)
    axis.set(xlabel="evaluations", ylabel="mean loss of the answer: mean, range")
    return figure
