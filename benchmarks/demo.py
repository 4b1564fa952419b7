"""The main job on real records: tune a kernel machine on 300 patients without telling on any of them.

scikit-learn's bundled diabetes records: 142 patients train a support vector regression and count as public, the loss
of the other 300 (the users) steers its 13 hyper-parameters. Two methods of budget mu = 1, DP-GIBO and GP-UCB by private
evaluations, whose values may all be published; beside them random search, and DP-GIBO without privacy. Measured losses
are raw: they can be shown here because these records are public.
"""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

import time

import jax
import matplotlib
import numpy as np
from tqdm import tqdm

from benchmarks import report
from jaxdpbo import drivers
from jaxdpbo.algorithms import gp_ucb, private_evaluations, random_search
from jaxdpbo.problems import datasets, kernel_svr
from jaxdpbo.surrogate import maximize

matplotlib.use("Agg")
from matplotlib import pyplot

MU, DELTA = 1.0, 1e-5
STEPS, TRAIN = 25, 142
EVALUATIONS, LOSS_RANGE = 60, (0.0, 4.0)  # of GP-UCB: each evaluation more makes all of them noisier
SEEDS = range(5)
GIBO, EVALUATED, BARE, SEARCH = "DP-GIBO, mu=1", "GP-UCB, private evaluations, mu=1", "DP-GIBO, mu=inf", "random search"
METHODS = (GIBO, EVALUATED, BARE, SEARCH)
NOT_PRIVATE = "not private"
UNTUNED = "untuned, middle of the box"


def main() -> None:
    start = time.perf_counter()
    dataset = datasets.load("diabetes")
    features = dataset.features.shape[1]
    bounds = kernel_svr.bounds(features)
    users, batch = len(dataset.targets) - TRAIN, bounds.shape[1] + 1
    print(f"{dataset.source}: {TRAIN} patients train, {users} are the users; {bounds.shape[1]} hyper-parameters")
    counts = dict.fromkeys(METHODS, STEPS * batch) | {EVALUATED: EVALUATIONS}
    print(f"{STEPS} steps of {batch} evaluations, {EVALUATIONS} for private evaluations; {len(SEEDS)} seeds\n")

    bar = tqdm(total=len(SEEDS) * sum(counts.values()) + STEPS * batch, unit="evaluation", mininterval=1.0)

    def loss(point, data):
        bar.update()
        return kernel_svr.loss(point, data)

    def gibo(data, mu, key):
        return drivers.minimize(
            loss, data, bounds, mu=mu, users=users, steps=STEPS, key=key, insecure_key=True, traceable=False
        )

    def evaluated(data, key):
        search = gp_ucb.config(
            steps=EVALUATIONS,
            bounds=bounds,
            refit_every=20,
            answer="best_posterior_mean",
            search=maximize.Search(raw_samples=500, num_restarts=4),
        )
        config = private_evaluations.config(gp_ucb.algorithm, search, users=users, mu=MU, loss_range=LOSS_RANGE)
        return drivers.run_loop(
            private_evaluations.algorithm_of(gp_ucb.algorithm), loss, data, config, key=key, insecure_key=True
        )

    def searched(data, key):
        config = random_search.config(users=users, steps=STEPS, batch=batch, bounds=bounds)
        return drivers.run_loop(random_search.algorithm, loss, data, config, key=key, diagnostics=True)

    finals = {method: [] for method in METHODS}
    curves = {method: [] for method in METHODS}
    untuned = []
    for seed in SEEDS:
        data, key = kernel_svr.split(dataset, seed, train=TRAIN), jax.random.key(seed)

        def mean_loss(point, data=data):
            return float(kernel_svr.loss(np.asarray(point), data).mean())

        untuned.append(mean_loss(bounds.mean(axis=0)))
        for method, mu in ((GIBO, MU), (BARE, np.inf)):
            released = gibo(data, mu, key).release
            finals[method].append(mean_loss(released.point))
            curves[method].append([mean_loss(theta) for theta in released.path])
        released = evaluated(data, key).release
        finals[EVALUATED].append(mean_loss(released.point))
        curves[EVALUATED].append([untuned[-1], *map(mean_loss, best_so_far(released))])
        run = searched(data, key)
        finals[SEARCH].append(mean_loss(run.release.point))
        batches = np.asarray(run.diagnostics.info.mean_loss).min(axis=1)
        curves[SEARCH].append(np.minimum.accumulate([untuned[-1], *batches]))
    # What a hospital would publish: one run, its noise from the operating system.
    run = gibo(kernel_svr.split(dataset, 0, train=TRAIN), MU, None)
    bar.close()

    print("\nmean validation loss of the released hyper-parameters (squared error; predicting the mean gives about 1)")
    private = f"mu={MU:g}: epsilon={run.guarantee.epsilon(DELTA):.2f} at delta={DELTA:g}"
    rows = [(UNTUNED, *summary(untuned), "", "uses no user")]
    table = {UNTUNED: {"losses": untuned, "evaluations": 0, "privacy": "uses no user"}}
    for method in METHODS:
        said = private if method in (GIBO, EVALUATED) else NOT_PRIVATE
        rows.append((method, *summary(finals[method]), counts[method], said))
        table[method] = {"losses": finals[method], "evaluations": counts[method], "privacy": said}
    report.print_table(("method", "mean", "min", "max", "evaluations", "privacy of the users"), rows)
    print("The two marked 'not private' are shown because these records are public; they are not in release.json.")
    print("So are the measured losses, of every row: a loss measured on users is not private either.\n")

    out = report.folder("demo")
    names = [f"log_lengthscale_{i}" for i in range(features)] + ["epsilon", "C", "gamma"]
    report.write_json(
        out / "release.json",
        {
            "hyper_parameters": dict(zip(names, np.asarray(run.release.point).tolist(), strict=True)),
            "guarantee": run.guarantee.to_dict() | {"in_words": str(run.guarantee)},
            "epsilon": {"delta": DELTA, "epsilon": run.guarantee.epsilon(DELTA)},
        },
    )
    report.write_json(out / "table.json", {"seeds": [SEEDS[0], SEEDS[-1] + 1], "methods": table})  # raw: not released
    plot(curves, batch, out / "plot.png")
    print(f"{time.perf_counter() - start:.0f} s on {report.machine()}")


def best_so_far(released):
    """The point of the least released value after each evaluation."""
    values = np.asarray(released.values)
    best = [int(np.argmin(values[: t + 1])) for t in range(len(values))]
    return np.asarray(released.points)[best]


def summary(values):
    return f"{np.mean(values):.3f}", f"{np.min(values):.3f}", f"{np.max(values):.3f}"


def plot(curves, batch, path):
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    styles = dict(zip(METHODS, (("C0", "-"), ("C2", "-"), ("C0", "--"), ("C1", "-")), strict=True))
    for method, runs in curves.items():
        runs = np.asarray(runs)
        evaluations = np.arange(runs.shape[1]) * (1 if method == EVALUATED else batch)
        colour, line = styles[method]
        label = method if method in (GIBO, EVALUATED) else f"{method} ({NOT_PRIVATE})"
        axes.plot(evaluations, runs.mean(axis=0), line, color=colour, label=label)
        axes.fill_between(evaluations, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel="evaluations", ylabel="mean validation loss of the iterate")
    axes.set_title(f"Kernel SVR on the diabetes records: mean and range of {len(SEEDS)} seeds", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    report.save_figure(figure, path)


if __name__ == "__main__":
    main()
