"""``jaxdpbo demo``: tune a kernel machine on the real records of 300 patients, with a guarantee for each patient.

The records are scikit-learn's bundled diabetes data: 142 patients train a support vector regression and count as
public; the losses of the other 300 (the users) steer 13 hyper-parameters. The demo runs two methods with budget mu = 1,
DP-GIBO and GP-UCB by private evaluations with publishable values, and compares them with random search and with DP-GIBO
without privacy. Measured losses are raw: the demo shows them because these records are public.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import drivers, rounding
from jaxdpbo.algorithms import gp_ucb, private_evaluations, random_search
from jaxdpbo.commands import tables
from jaxdpbo.problems import _datasets, _kernel_svr
from jaxdpbo.surrogate import box_search
from jaxdpbo.types import Bounds

MU, DELTA = 1.0, 1e-5
STEPS, TRAIN = 25, 142
EVALUATIONS, LOSS_RANGE = 60, (0.0, 4.0)  # of GP-UCB: every further evaluation adds noise to all of them
SEEDS = range(5)
GIBO, EVALUATED, BARE, SEARCH = "DP-GIBO, mu=1", "GP-UCB, private evaluations, mu=1", "DP-GIBO, mu=inf", "random search"
METHODS: tuple[str, ...] = (GIBO, EVALUATED, BARE, SEARCH)
PRIVATE = (GIBO, EVALUATED)
UNTUNED, NOT_PRIVATE = "untuned, middle of the box", "not private"


class Comparison(NamedTuple):
    """The results of the demo.

    Attributes:
      rows: a dict for each method, the untuned machine first: "method", "losses" (a value for each seed), "mean",
        "min", "max", "evaluations" of one seed, "private".
      curves: for each method, the mean loss of the iterates, a list for each seed.
      batch: evaluations in a step, for methods with steps.
      run: a run for a hospital to publish: DP-GIBO, with noise from the operating system.
    """

    rows: list[dict[str, Any]]
    curves: dict[str, list[Any]]
    batch: int
    run: drivers.Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("results") / "demo",
        help="the folder for release.json and plot.png (default %(default)s)",
    )


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Compare the methods, print the table, and write the publishable release and a plot."""
    del parser
    import matplotlib  # an extra: imported where it is used

    matplotlib.use("Agg")
    start = time.perf_counter()
    dataset = _datasets.load_dataset("diabetes")
    users, dimension = len(dataset.targets) - TRAIN, dataset.features.shape[1] + 3
    print(f"{dataset.source}: {TRAIN} patients train, {users} are the users; {dimension} hyper-parameters")
    print(f"{STEPS} steps of {dimension + 1} evaluations, {EVALUATIONS} for private evaluations; {len(SEEDS)} seeds\n")
    comparison = compare(dataset)
    show(comparison)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    release, picture = arguments.folder / "release.json", arguments.folder / "plot.png"
    release.write_text(json.dumps(publication(comparison.run), indent=1) + "\n")
    plot(comparison, picture)
    print(f"wrote {release}\nwrote {picture}\n{time.perf_counter() - start:.0f} s")


def compare(dataset: _datasets.Dataset) -> Comparison:
    """Run every method on every seed, then the run to publish."""
    from tqdm import tqdm  # an extra: imported where it is used

    bounds = _kernel_svr.kernel_svr_bounds(dataset.features.shape[1])
    batch = bounds.shape[1] + 1
    counts = {method: EVALUATIONS if method == EVALUATED else STEPS * batch for method in METHODS}
    finals = {method: [] for method in (UNTUNED, *METHODS)}
    curves = {method: [] for method in METHODS}
    total = len(SEEDS) * sum(counts.values()) + STEPS * batch
    with tqdm(total=total, unit="evaluation", mininterval=1.0) as bar:

        def loss(point, data):
            bar.update()
            return _kernel_svr.kernel_svr_loss(point, data)

        for seed in SEEDS:
            data, key = _kernel_svr.kernel_svr_split(dataset, seed, train=TRAIN), jax.random.key(seed)

            def mean_loss(point, data=data):
                return float(_kernel_svr.kernel_svr_loss(np.asarray(point), data).mean())

            untuned = mean_loss(bounds.mean(axis=0))
            finals[UNTUNED].append(untuned)
            for method, (final, curve) in run_seed(loss, mean_loss, data, bounds, key, untuned).items():
                finals[method].append(final)
                curves[method].append(curve)
        run = run_gibo(loss, _kernel_svr.kernel_svr_split(dataset, 0, train=TRAIN), bounds, MU, None)
    rows = [
        {
            "method": method,
            "losses": losses,
            "mean": float(np.mean(losses)),
            "min": float(np.min(losses)),
            "max": float(np.max(losses)),
            "evaluations": counts.get(method, 0),
            "private": method in (UNTUNED, *PRIVATE),
        }
        for method, losses in finals.items()
    ]
    return Comparison(rows, curves, batch, run)


def run_seed(
    loss: Callable[..., Any],
    mean_loss: Callable[[Any], float],
    data: Any,
    bounds: np.ndarray,
    key: jax.Array,
    untuned: float,
) -> dict[str, tuple[float, Any]]:
    """The mean loss of the release, and of the iterates, for each method."""
    losses = {}
    for method, mu in ((GIBO, MU), (BARE, np.inf)):
        released = run_gibo(loss, data, bounds, mu, key).release
        losses[method] = mean_loss(released.point), [mean_loss(theta) for theta in released.path]
    released = run_evaluations(loss, data, bounds, key).release
    losses[EVALUATED] = mean_loss(released.point), [untuned, *map(mean_loss, best_so_far(released))]
    run = run_random_search(loss, data, bounds, key)
    assert run.diagnostics is not None
    batches = np.asarray(run.diagnostics.info.raw["mean_loss"]).min(axis=1)
    losses[SEARCH] = mean_loss(run.release.point), np.minimum.accumulate([untuned, *batches])
    return losses


def run_gibo(loss: Callable[..., Any], data: Any, bounds: Bounds, mu: float, key: jax.Array | None) -> drivers.Run:
    """Run DP-GIBO with the defaults of ``minimize``."""
    users = len(data.validation_targets)
    return drivers.minimize(
        loss,
        data,
        bounds,
        mu=mu,
        users=users,
        search=drivers.Search(steps=STEPS),
        key=key,
        insecure_key=True,
        traceable=False,
    )


def run_evaluations(loss: Callable[..., Any], data: Any, bounds: Bounds, key: jax.Array) -> drivers.Run:
    """Run GP-UCB on noised mean losses alone."""
    search = gp_ucb.config(
        steps=EVALUATIONS,
        bounds=bounds,
        refit_every=20,
        answer="best_posterior_mean",
        search=box_search.BoxSearch(raw_samples=500, num_restarts=4),
    )
    users = len(data.validation_targets)
    config = private_evaluations.config(gp_ucb.algorithm, search, users=users, mu=MU, loss_range=LOSS_RANGE)
    algorithm = private_evaluations.make_algorithm(gp_ucb.algorithm)
    return drivers.run_loop(algorithm, loss, data, config, key=key, insecure_key=True)


def run_random_search(loss: Callable[..., Any], data: Any, bounds: np.ndarray, key: jax.Array) -> drivers.Run:
    """Run random search, without protection."""
    config = random_search.config(
        users=len(data.validation_targets), steps=STEPS, batch=bounds.shape[1] + 1, bounds=bounds
    )
    return drivers.run_loop(random_search.algorithm, loss, data, config, key=key, diagnostics=True)


def show(comparison: Comparison) -> None:
    """Print the table."""
    print("\nmean validation loss of the released hyper-parameters (squared error; predicting the mean gives about 1)")
    privacy = describe_privacy(comparison.run)
    tables.print_table(
        ("method", "mean", "min", "max", "evaluations", "privacy of the users"),
        [
            (row["method"], *(f"{row[name]:.3f}" for name in ("mean", "min", "max")), row["evaluations"] or "",
             privacy[row["method"]])
            for row in comparison.rows
        ],
    )  # fmt: skip
    print("The demo shows the two methods marked 'not private', and the measured losses of all methods, because these")
    print("records are public; a loss measured on users is not private. release.json holds none of them.\n")


def describe_privacy(run: drivers.Run) -> dict[str, str]:
    """The privacy of the users under each method of the table, in words."""
    private = f"mu={MU:g}: epsilon={rounding.round_up(run.guarantee.epsilon(DELTA), 3)} at delta={DELTA:g}"
    return {UNTUNED: "uses no user", **dict.fromkeys(METHODS, NOT_PRIVATE), **dict.fromkeys(PRIVATE, private)}


def publication(run: drivers.Run) -> dict[str, Any]:
    """The publication of a hospital: the hyper-parameters and their guarantee, nothing raw."""
    point = np.asarray(run.release.point).tolist()
    names = [f"log_lengthscale_{i}" for i in range(len(point) - 3)] + ["epsilon", "C", "gamma"]
    return {
        "hyper_parameters": dict(zip(names, point, strict=True)),
        "guarantee": run.guarantee.to_dict() | {"in_words": str(run.guarantee)},
        "epsilon": {"delta": DELTA, "epsilon": run.guarantee.epsilon(DELTA)},
    }


def best_so_far(released: Any) -> np.ndarray:
    """The point with the least released value after each evaluation."""
    values = np.asarray(released.values)
    best = [int(np.argmin(values[: t + 1])) for t in range(len(values))]
    return np.asarray(released.points)[best]


def plot(comparison: Comparison, path: Path) -> None:
    """Plot the mean and range over seeds of every method's iterates."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    styles = dict(zip(METHODS, (("C0", "-"), ("C2", "-"), ("C0", "--"), ("C1", "-")), strict=True))
    for method, seeds in comparison.curves.items():
        seeds = np.asarray(seeds)
        evaluations = np.arange(len(seeds[0])) * (1 if method == EVALUATED else comparison.batch)
        colour, line = styles[method]
        label = method if method in PRIVATE else f"{method} ({NOT_PRIVATE})"
        axes.plot(evaluations, seeds.mean(axis=0), line, color=colour, label=label)
        axes.fill_between(evaluations, seeds.min(axis=0), seeds.max(axis=0), color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel="evaluations", ylabel="mean validation loss of the iterate")
    axes.set_title(f"Kernel SVR on the diabetes records: mean and range of {len(SEEDS)} seeds", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
