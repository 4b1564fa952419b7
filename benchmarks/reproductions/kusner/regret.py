"""The regret of the released hyper-parameters, by method and budget, on three problems with per-user losses.

Every method meets the same split of the same records under the same key. Regret is the mean loss of the released point
less that of the best candidate. DP-GIBO searches the box around the candidates, so its regret may be negative. Each
method is run as its documentation tells a user to who knows the range of the losses and nothing else.

A guarantee is not the same thing in each row: see ``NOTIONS``.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.stats import qmc
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import datasets, gp_regression, kernel_svm, logistic_regression, splits
from benchmarks.reproductions import common
from benchmarks.reproductions.kusner import settings
from jaxdpbo import accounting, dp_gibo, dp_gp_ucb, drivers, gp_ucb, private_evaluations

GP_UCB_PRIVATE, IN_ORDER, EVALUATIONS = "DP-GP-UCB", "all candidates, Algorithm 3", "private evaluations"
GIBO, CHOICE, FREE = "DP-GIBO", "random choice", "GP-UCB"
NOTIONS = {
    GP_UCB_PRIVATE: "(epsilon, delta), averaged over the prior, if Assumption 1 is true",
    IN_ORDER: "epsilon-DP",
    EVALUATIONS: "(epsilon, delta)-DP, by GDP; every value publishable",
    GIBO: "(epsilon, delta)-DP, by GDP; the whole path publishable",
    CHOICE: "reads no data",
    FREE: "not private",
}
METHODS = tuple(NOTIONS)


class Problem(NamedTuple):
    """One black box.

    Attributes:
      title: for the table.
      source: which records.
      bounds: ``(2, d)``.
      loss: ``(point, data) -> losses (n,)``.
      split: ``seed -> data``.
      loss_range: public, to which losses are clipped where a method asks.
      traceable: whether ``loss`` is JAX.
    """

    title: str
    source: str
    bounds: np.ndarray
    loss: Any
    split: Any
    loss_range: tuple[float, float]
    traceable: bool


def problems(s) -> dict[str, Problem]:
    cancer, diabetes, forest = (datasets.load(name) for name in ("breast_cancer", "diabetes", "covtype"))
    classes, counts = np.unique(forest.targets, return_counts=True)
    positive = kernel_svm.COVTYPE_CLASS if kernel_svm.COVTYPE_CLASS in classes else classes[np.argmax(counts)]

    def sizes(name, dataset):
        train = min(s.train[name], len(dataset.targets) // 3)
        return {"train": train, "validation": min(s.users[name], len(dataset.targets) - train)}

    def cancer_split(seed):
        return logistic_regression.split(cancer, seed, **sizes("logistic", cancer))

    def diabetes_split(seed):
        return splits.split_for_svr(diabetes, seed, **sizes("lengthscales", diabetes))

    def forest_split(seed):
        return kernel_svm.split(forest, seed, positive=positive, **sizes("svm", forest))

    return {
        "logistic": Problem(
            "regularisation of a logistic regression, d = 1", cancer.source, logistic_regression.bounds(),
            logistic_regression.loss, cancer_split, (0.0, 1.0), True,
        ),
        "lengthscales": Problem(
            "lengthscales of a GP regression, d = 10", diabetes.source, gp_regression.bounds(),
            gp_regression.loss, diabetes_split, (0.0, 4.0), True,
        ),
        "svm": Problem(
            "kernel SVM, d = 2", forest.source, kernel_svm.bounds(), kernel_svm.loss, forest_split, (0.0, 1.0), False,
        ),
    }  # fmt: skip


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings, "regret", "Regret of what is released, by method and budget", quick, "see each table", seeds=seeds
    )
    s = out.settings
    regrets, errors, by_seed, described = {}, {}, {}, {}
    for name, problem in problems(s).items():
        problem_seeds = (seeds or range(s.seeds[name]))[: s.seeds[name]]
        count = len(problem_seeds)
        described[name] = {"title": problem.title, "data": problem.source, "seeds": common.ends(problem_seeds)}
        print(f"\n{problem.title}; {problem.source}; {s.users[name]} users, {count} seeds")
        regrets_by_method = problem_regrets(s, name, problem, problem_seeds)
        by_seed[name] = {
            method: regrets_by_method[method][:, s.epsilons.index(1.0)] for method in (GP_UCB_PRIVATE, CHOICE)
        }
        regrets[name] = {method: values.mean(axis=0) for method, values in regrets_by_method.items()}
        errors[name] = {
            m: v.std(axis=0, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0 * v[0] for m, v in regrets_by_method.items()
        }
        report.print_table(
            (f"regret, mean and standard error of {count} seeds", *(f"epsilon={e:g}" for e in s.epsilons)),
            [
                (method, *(f"{m:.3f} ({e:.3f})" for m, e in zip(mean, errors[name][method], strict=True)))
                for method, mean in regrets[name].items()
            ],
        )
    print(f"\ndelta={s.delta:g}; what each method guarantees:")
    report.print_table(("method", "guarantee"), NOTIONS.items())
    out.finish(
        picture(s, described, regrets, errors),
        seeds={name: entry["seeds"] for name, entry in described.items()},
        problems=described,
        notions=NOTIONS,
        regret=regrets,
        standard_error=errors,
        by_seed=by_seed,
    )


def problem_regrets(s, name, problem, seeds):
    """Regrets ``(seeds, epsilons)`` of each method."""
    low, high = problem.bounds
    unit = qmc.Sobol(len(low), seed=0).random_base2(int(np.ceil(np.log2(s.candidates[name]))))[: s.candidates[name]]
    candidates = low + (high - low) * unit
    splits = [problem.split(seed) for seed in seeds]
    tables = tabulate_losses(problem, candidates, splits)
    means = tables.mean(axis=2)
    best = means.min(axis=1)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds.start, seeds.stop))
    chosen: dict[str, np.ndarray] = {}
    for method, (algorithm, objective, configs) in candidate_methods(s, problem, candidates, tables.shape[2]).items():
        print(f"  {method}", flush=True)
        rows = released_rows(algorithm, objective, configs, keys, jnp.asarray(candidates), jnp.asarray(tables))
        chosen[method] = np.take_along_axis(means, rows, axis=1) - best[:, None]
    chosen[FREE] = np.repeat(chosen[FREE], len(s.epsilons), axis=1)
    chosen[CHOICE] = np.repeat((means.mean(axis=1) - best)[:, None], len(s.epsilons), axis=1)
    print(f"  {GIBO}", flush=True)
    chosen[GIBO] = descents(s, name, problem, splits, keys, tables.shape[2]) - best[:, None]
    return {method: chosen[method] for method in METHODS}


def tabulate_losses(problem, candidates, splits):
    """Losses ``(seeds, c, n)`` of every user at every candidate."""
    if problem.traceable:
        shared = jnp.asarray(candidates)
        data = jax.tree.map(lambda *leaves: jnp.stack(leaves), *splits)
        return np.asarray(drivers.distribute(losses_at(problem.loss), data, shared))
    bar = tqdm(total=len(splits) * len(candidates), desc="training at the candidates", unit="model", mininterval=1.0)
    losses = []
    for data in splits:
        losses.append([])
        for point in candidates:
            losses[-1].append(problem.loss(point, data))
            bar.update()
    bar.close()
    return np.asarray(losses)


@cache
def losses_at(loss):
    def table(data, candidates):
        return jax.lax.map(lambda point: loss(point, data), candidates)

    return table


def candidate_methods(s, problem, candidates, users):
    """The methods that search the candidates: algorithm, objective, and a config for each epsilon."""
    low, high = problem.loss_range
    steps = min(s.evaluations, len(candidates))
    mus = [accounting.gdp_mu(epsilon, s.delta) for epsilon in s.epsilons]
    search = partial(
        gp_ucb.config,
        steps=steps,
        candidates=candidates,
        beta=s.beta,
        refit_every=s.refit_every,
        answer="best_posterior_mean",
    )
    assumed = [
        dp_gp_ucb.finite_config(
            noise="float",
            steps=steps,
            epsilon=epsilon,
            delta=s.delta,
            # Losses within [low, high] for n users differ by at most (high - low) / n where one is replaced.
            correlation=1.0 - 0.5 * (4.0 / users) ** 2,
            candidates=candidates,
            centre=-(low + high) / 2,
            scale=(high - low) / 4,
        )
        for epsilon in s.epsilons
    ]
    ordered = [
        dp_gp_ucb.in_order_config(
            noise="float", candidates=candidates, users=users, epsilon=epsilon, largest_gain=high - low, release="point"
        )
        for epsilon in s.epsilons
    ]
    private = [
        private_evaluations.config(
            gp_ucb.algorithm, search(), users=users, mu=mu, loss_range=(low, high), noise="float"
        )
        for mu in mus
    ]
    return {
        GP_UCB_PRIVATE: (dp_gp_ucb.algorithm, mean_utility, assumed),
        IN_ORDER: (dp_gp_ucb.algorithm, gains_under(low, high), ordered),
        EVALUATIONS: (private_evaluations.make_algorithm(gp_ucb.algorithm), look_up_losses, private),
        FREE: (gp_ucb.algorithm, mean_utility, [search()]),
    }


def look_up_losses(point, data):
    """Losses ``(n,)`` at one of the candidates."""
    candidates, table = data
    return table[jnp.argmin(jnp.sum(jnp.square(candidates - point[None]), axis=1))]


def mean_utility(point, data):
    return -jnp.mean(look_up_losses(point, data))


@cache
def gains_under(low, high):
    """Gains ``(n,)`` in ``[0, high - low]``, where losses are clipped to ``[low, high]``."""

    def gains(point, data):
        return high - jnp.clip(look_up_losses(point, data), low, high)

    return gains


def released_rows(algorithm, objective, configs, keys, candidates, tables):
    """The released rows ``(seeds, configs)``."""
    run = release_function(algorithm, objective)
    rows_by_config = [drivers.distribute(run, (keys, tables), (config, candidates)) for config in configs]
    return np.stack([np.asarray(rows) for rows in rows_by_config], axis=1)


@cache
def release_function(algorithm, objective):
    """One function for each pair, so that every budget runs the same program."""

    def run(inputs, shared):
        (key, table), (config, candidates) = inputs, shared
        return drivers.pure_run(algorithm, objective, (candidates, table), config, key)[0].row

    return run


def descents(s, name, problem, splits, keys, users):
    """Mean losses ``(seeds, epsilons)`` of what DP-GIBO releases: ``minimize``'s own defaults."""
    steps = s.gibo_steps[name]
    configs = [
        dp_gibo.config(
            noise="float",
            users=users,
            steps=steps,
            mu=accounting.gdp_mu(epsilon, s.delta),
            bounds=dict(zip(("low", "high"), problem.bounds, strict=True)),
            optimizer=optax.adagrad,
            output="last_half_mean",
        )
        for epsilon in s.epsilons
    ]
    if problem.traceable:
        data = jax.tree.map(lambda *leaves: jnp.stack(leaves), *splits)
        run = descent(problem.loss)
        return np.stack([np.asarray(drivers.distribute(run, (keys, data), config)) for config in configs], axis=1)
    total = len(splits) * len(configs) * steps * configs[0].batch
    bar = tqdm(total=total, desc=f"training for {GIBO}", unit="model", mininterval=1.0)

    def watched_loss(point, data):
        bar.update()
        return problem.loss(point, data)

    losses = np.empty((len(splits), len(configs)))
    for i, data in enumerate(splits):
        for j, config in enumerate(configs):
            run = drivers.run_loop(dp_gibo.algorithm, watched_loss, data, config, key=keys[i])
            losses[i, j] = problem.loss(np.asarray(run.release.point), data).mean()
    bar.close()
    return losses


@cache
def descent(loss):
    def run(inputs, config):
        key, data = inputs
        point = drivers.pure_run(dp_gibo.algorithm, loss, data, config, key)[0].point
        return jnp.mean(loss(point, data))

    return run


def picture(s, described, regrets, errors):
    figure, axes = common.panels(1, len(described))
    for axis, (name, by_method) in zip(axes, regrets.items(), strict=True):
        for number, (method, mean) in enumerate(by_method.items()):
            line = "--" if method in (CHOICE, FREE) else "-"
            axis.errorbar(s.epsilons, mean, errors[name][method], color=f"C{number}", linestyle=line, label=method)
        axis.set_xscale("log")
        axis.set_ylim(top=1.9 * max(mean.max() for mean in by_method.values()))  # room for the legend
        axis.set_title(described[name]["title"], fontsize=9)
        axis.set(xlabel=f"epsilon, delta={s.delta:g}")
    axes[0].set_ylabel("regret: mean and standard error")
    return figure
