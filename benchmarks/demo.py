"""The main job on real records: tune a kernel machine on 300 patients without telling on any of them.

scikit-learn's bundled diabetes records: 142 patients train a support vector regression and count as public, the loss
of the other 300 (the users) steers its 13 hyper-parameters. DP-GIBO with a budget of mu = 1, beside random search and
the same without privacy. Measured losses are raw: they can be shown here because these records are public.
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
from jaxdpbo.algorithms import random_search
from jaxdpbo.problems import datasets, kernel_svr

matplotlib.use("Agg")
from matplotlib import pyplot

MU, DELTA = 1.0, 1e-5
STEPS, TRAIN = 25, 142
SEEDS = range(5)
METHODS = ("DP-GIBO, mu=1", "DP-GIBO, mu=inf", "random search")
NOT_PRIVATE = "not private"


def main() -> None:
    start = time.perf_counter()
    dataset = datasets.load("diabetes")
    features = dataset.features.shape[1]
    bounds = kernel_svr.bounds(features)
    users, batch = len(dataset.targets) - TRAIN, bounds.shape[1] + 1
    print(f"{dataset.source}: {TRAIN} patients train, {users} are the users; {bounds.shape[1]} hyper-parameters")
    print(f"{STEPS} steps of {batch} evaluations for every method, {len(SEEDS)} seeds\n")

    bar = tqdm(total=STEPS * batch * (len(METHODS) * len(SEEDS) + 1), unit="evaluation", mininterval=1.0)

    def loss(point, data):
        bar.update()
        return kernel_svr.loss(point, data)

    def gibo(data, mu, key):
        return drivers.minimize(loss, data, bounds, mu=mu, users=users, steps=STEPS, key=key, traceable=False)

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
        for method, mu in (("DP-GIBO, mu=1", MU), ("DP-GIBO, mu=inf", np.inf)):
            released = gibo(data, mu, key).release
            finals[method].append(mean_loss(released.point))
            curves[method].append([mean_loss(theta) for theta in released.path])
        run = searched(data, key)
        finals["random search"].append(mean_loss(run.release.point))
        batches = np.asarray(run.diagnostics.info.mean_loss).min(axis=1)
        curves["random search"].append(np.minimum.accumulate([untuned[-1], *batches]))
    # What a hospital would publish: one run, its noise from the operating system.
    run = gibo(kernel_svr.split(dataset, 0, train=TRAIN), MU, None)
    bar.close()

    print("\nmean validation loss of the released hyper-parameters (squared error; predicting the mean gives about 1)")
    private = f"mu={MU:g}: epsilon={run.guarantee.epsilon(DELTA):.2f} at delta={DELTA:g}"
    rows = [("untuned, middle of the box", *summary(untuned), "", "uses no user")]
    for method in METHODS:
        rows.append((method, *summary(finals[method]), STEPS * batch, private if method == METHODS[0] else NOT_PRIVATE))
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
    plot(curves, batch, out / "plot.png")
    print(f"{time.perf_counter() - start:.0f} s on {report.machine()}")


def summary(values):
    return f"{np.mean(values):.3f}", f"{np.min(values):.3f}", f"{np.max(values):.3f}"


def plot(curves, batch, path):
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    evaluations = np.arange(STEPS + 1) * batch
    styles = dict(zip(METHODS, (("C0", "-"), ("C0", "--"), ("C1", "-")), strict=True))
    for method, runs in curves.items():
        runs = np.asarray(runs)
        colour, line = styles[method]
        label = method if method == METHODS[0] else f"{method} ({NOT_PRIVATE})"
        axes.plot(evaluations, runs.mean(axis=0), line, color=colour, label=label)
        axes.fill_between(evaluations, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel="evaluations", ylabel="mean validation loss of the iterate")
    axes.set_title(f"Kernel SVR on the diabetes records: mean and range of {len(SEEDS)} seeds", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    report.save_figure(figure, path)


if __name__ == "__main__":
    main()
