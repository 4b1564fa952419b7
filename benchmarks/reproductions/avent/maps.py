"""Figures 1 to 4: both oracles of an illustration everywhere, its front, and what random settings tell of them."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import fronts, illustrations, points, searches, settings
from benchmarks.reproductions.avent.illustrations import Illustration
from jaxdpbo import drivers
from jaxdpbo.algorithms import dpareto

FITTED = 100  # gradient steps of the one fit
SEEDS = range(5)  # grids of figures 1 and 2, and designs of figures 3 and 4
GRID, DESIGN, ONE, AGAIN, GRID_AGAIN = range(5)  # what a seed's key is for
NAMES = "log10 epsilon", "error"
ORACLES = lambda values: np.log10(values[:, 0]), lambda values: values[:, 1]


def map_oracles(item: str, title: str, make, seeds: range | None, quick: bool) -> None:
    """Figures 1 and 2: both oracles everywhere, and the front. The figure has the first seed's grid."""
    s = common.settings_of(settings, item, quick)
    problem = make(s)
    out = common.Report(settings, item, title, quick, problem.source, seeds=seeds)
    seeds = seeds or SEEDS
    grids = [grid_points(s, problem, seed) for seed in seeds]
    grid, values = grids[0]
    front = np.flatnonzero(searches.front_of(values))
    front = front[np.argsort(values[front, 0])]
    shown = front[np.unique(np.linspace(0, len(front) - 1, 9).astype(int))]
    report.print_table(
        ("of the front: epsilon", "error", *problem.axes),
        [(f"{values[i, 0]:.3g}", f"{values[i, 1]:.3f}", *(f"{x:.2f}" for x in grid[i])) for i in shown],
    )
    volume = searches.hypervolume(values, s.reference)
    print(f"{len(grid)} settings, {len(front)} on the front; hypervolume below {s.reference}: {volume:.3f}")
    figure, axes = common.panels(2, 2)
    for axis, column, name in zip(axes[0], (np.log10(values[:, 0]), values[:, 1]), NAMES, strict=True):
        draw_map(figure, axis, problem, grid, column, name)
    axes[1, 0].plot(*values[front].T, "-")
    axes[1, 0].set(xscale="log", xlabel="epsilon", ylabel="error")
    axes[1, 1].plot(*grid[front].T, ".")
    axes[1, 1].set(xlabel=problem.axes[0], ylabel=problem.axes[1], xlim=problem.bounds[:, 0], ylim=problem.bounds[:, 1])
    figure.tight_layout()
    out.finish(
        figure,
        seeds=common.ends(seeds),
        hypervolume=volume,
        front={"settings": grid[front], "values": values[front]},
        by_seed={name: effects(problem, grids, measure) for name, measure in MEASURES.items()},
    )


def correlation(places: np.ndarray, oracle: np.ndarray) -> float:
    """Kendall's."""
    return float(stats.kendalltau(places, oracle)[0])


MEASURES = {"range": lambda places, oracle: float(np.ptp(oracle)), "correlation": correlation}


def effects(
    problem: Illustration, grids: list[points.Points], measure: Callable[[np.ndarray, np.ndarray], float]
) -> dict[str, dict[str, list[float]]]:
    """What each hyper-parameter does to each oracle with the other one fixed, in the mean over the other one's values.

    By hyper-parameter and oracle, a number for each grid.
    """
    return {
        axis: {
            name: [
                float(np.nanmean([measure(grid[line, column], oracle(values)[line]) for line in lines(grid, column)]))
                for grid, values in grids
            ]
            for name, oracle in zip(NAMES, ORACLES, strict=True)
        }
        for column, axis in enumerate(problem.axes)
    }


def lines(grid: np.ndarray, column: int) -> list[np.ndarray]:
    """The settings that differ in one hyper-parameter alone."""
    fixed = grid[:, 1 - column]
    return [np.flatnonzero(fixed == value) for value in np.unique(fixed)]


def surrogate(item: str, title: str, make, seeds: range | None, quick: bool) -> None:
    """Figures 3 and 4: what 250 random settings tell the surrogates, and where the next one would be.

    The figure has the first seed's random settings; how far random settings are from the front is measured for all.
    """
    s = common.settings_of(settings, item, quick)
    problem = make(s)
    out = common.Report(settings, item, title, quick, problem.source, seeds=seeds)
    seeds = seeds or SEEDS
    grid, truth = grid_points(s, problem, seeds.start)
    designs = [random_points(s, problem, seed) for seed in seeds]
    first_design = designs[0]
    config = dpareto.config(
        bounds={"low": problem.bounds[0], "high": problem.bounds[1]},
        initial_design=first_design.settings, proposals=1, integer_mask=problem.integer_mask, fit_steps=FITTED,
        reference=(s.reference[0], min(s.reference[1], 0.999)),
    )  # fmt: skip

    def objective(setting, data):
        del data
        apart = np.abs(first_design.settings - np.asarray(setting)).sum(axis=1)
        nearest = np.argmin(apart)
        if apart[nearest] < 1e-9:
            return first_design.values[nearest]
        return problem.measured(key_of(seeds.start, ONE), np.asarray(setting)[None])[0]

    released = drivers.run_loop(dpareto.algorithm, objective, None, config, key=jax.random.key(0)).release
    mean, _ = (np.asarray(part) for part in dpareto.predict_settings(config, released, jnp.asarray(grid)))
    gains = np.asarray(dpareto.improvement(config, released, jnp.asarray(grid)))
    following, value = np.asarray(released.points)[-1], np.asarray(released.values)[-1]
    volumes = {
        "all settings": searches.hypervolume(truth, s.reference),
        f"{s.initial_design} random": searches.hypervolume(first_design.values, s.reference),
        "and the next": searches.hypervolume(np.asarray(released.values), s.reference),
    }
    told_error = 1 / (1 + np.exp(-mean[:, 1]))
    wrong = {
        "log10 epsilon": float(np.sqrt(np.mean((mean[:, 0] / np.log(10) - np.log10(truth[:, 0])) ** 2))),
        "error": float(np.sqrt(np.mean((told_error - truth[:, 1]) ** 2))),
    }
    report.print_table(("hypervolume", ""), [(name, f"{volume:.4f}") for name, volume in volumes.items()])
    print(f"surrogates' root mean square error: {wrong}")
    print(
        f"next: {dict(zip(problem.axes, following.round(3).tolist(), strict=True))}, epsilon and error {value.round(3)}"
    )
    figure, axes = common.panels(2, 2)
    for axis, column, name in zip(axes[0], (mean[:, 0] / np.log(10), told_error), NAMES, strict=True):
        draw_map(figure, axis, problem, grid, column, f"{name}, posterior mean")
        axis.plot(*first_design.settings.T, ".", color="w", markersize=2)
    for values, label, look in (
        (truth, "all settings", "k-"),
        (first_design.values, f"{s.initial_design} random", "C0.-"),
    ):
        front = values[searches.front_of(values)]
        axes[1, 0].plot(*front[np.argsort(front[:, 0])].T, look, label=label, linewidth=1)
    axes[1, 0].plot(*first_design.values.T, ".", color="0.7", markersize=2)
    axes[1, 0].set(xscale="log", xlabel="epsilon", ylabel="error")
    draw_map(figure, axes[1, 1], problem, grid, gains, "probability of improvement by hypervolume")
    axes[1, 1].plot(*following, "*", color="C3", markersize=10)
    figure.tight_layout()
    out.finish(
        figure, seeds=common.ends(seeds), hypervolume=volumes, surrogate_error=wrong,
        next={"setting": following, "values": value},
        by_seed={
            "hypervolume of random settings over all": [
                searches.hypervolume(design.values, s.reference) / volumes["all settings"] for design in designs
            ],
            "error above the front's, mean over epsilons": [
                error_above_front(problem, design, points.Points(grid, truth), seed)
                for seed, design in zip(seeds, designs, strict=True)
            ],
        },
    )  # fmt: skip


def key_of(seed: int, purpose: int) -> jax.Array:
    """No two measurements share their noise."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def random_points(s: SimpleNamespace, problem: Illustration, seed: int) -> points.Points:
    """Random settings, measured."""
    low, high = problem.bounds
    chosen = low + (high - low) * np.random.default_rng(seed).uniform(size=(s.initial_design, 2))
    chosen[:, problem.integer_mask] = np.round(chosen[:, problem.integer_mask])
    return points.load_or_measure(
        lambda _: (chosen, problem.measured(key_of(seed, DESIGN), chosen)),
        "random",
        problem.name,
        vars(s) | {"design": seed},
    )


def error_above_front(problem: Illustration, sample: points.Points, every: points.Points, seed: int) -> float:
    """How much larger the error is of the best of some settings than of the best of a grid, mean over epsilons.

    The best setting within each of ``fronts.WITHIN``, of both sides, is measured anew: the least of noisy errors is too
    low, and of more settings lower still. Without a setting the error is 1; an epsilon below the grid's does not count.
    """
    pairs = [pair for pair in zip(best_settings(sample), best_settings(every), strict=True) if pair[1] is not None]
    ours, least = (
        measure_errors(problem, key_of(seed, purpose), side, chosen)
        for purpose, side, chosen in zip((AGAIN, GRID_AGAIN), (sample, every), zip(*pairs, strict=True), strict=True)
    )
    return float(np.mean(ours - least))


def measure_errors(
    problem: Illustration, key: jax.Array, side: points.Points, chosen: Sequence[int | None]
) -> np.ndarray:
    """Of the settings of these numbers."""
    there = [number for number in chosen if number is not None]
    errors = iter(problem.measured(key, side.settings[there])[:, 1])
    return np.array([1.0 if number is None else next(errors) for number in chosen])


def best_settings(side: points.Points) -> list[int | None]:
    """The setting of the least error within each of ``fronts.WITHIN``, by its number."""
    allowed = [np.flatnonzero(side.values[:, 0] <= epsilon) for epsilon in fronts.WITHIN]
    return [int(numbers[np.argmin(side.values[numbers, 1])]) if len(numbers) else None for numbers in allowed]


def grid_points(s: SimpleNamespace, problem: Illustration, seed: int) -> points.Points:
    """Every setting of a fine grid, measured."""
    axes = [np.linspace(*ends, s.cells) for ends in problem.bounds.T]
    axes = [
        np.unique(np.round(axis)) if integer_mask else axis
        for axis, integer_mask in zip(axes, problem.integer_mask, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    asked = {name: value for name, value in vars(s).items() if name != "initial_design"} | {"grid": seed}
    return points.load_or_measure(
        lambda _: (grid, problem.measured(key_of(seed, GRID), grid)), "grid", problem.name, asked
    )


def draw_map(figure, axis, problem, grid, column, name):
    shape = len(np.unique(grid[:, 0])), -1
    x, y, z = (part.reshape(shape) for part in (grid[:, 0], grid[:, 1], column))
    figure.colorbar(axis.contourf(x, y, z, 24), ax=axis)
    axis.set(title=name, xlabel=problem.axes[0], ylabel=problem.axes[1])


def _item(
    kind: Callable[..., None], item: str, title: str, make: Callable[[SimpleNamespace], Illustration]
) -> Callable[..., None]:
    return lambda seeds=None, quick=False: kind(item, title, make, seeds, quick)


ITEMS = {
    "fig1": _item(
        map_oracles, "fig1", "Fig. 1: private logistic regression, both oracles and the front", illustrations.regression
    ),
    "fig2": _item(
        map_oracles,
        "fig2",
        "Fig. 2: the sparse vector technique, both oracles and the front",
        illustrations.sparse_vector,
    ),
    "fig3": _item(
        surrogate, "fig3", "Fig. 3: private logistic regression, what 250 settings tell", illustrations.regression
    ),
    "fig4": _item(
        surrogate, "fig4", "Fig. 4: the sparse vector technique, what 250 settings tell", illustrations.sparse_vector
    ),
}
