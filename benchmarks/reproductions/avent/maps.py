"""Figures 1 to 4: both oracles of an illustration everywhere, its front, and what random settings tell of them."""

from collections.abc import Callable
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
from jaxdpbo._algorithms import dpareto

FITTED = 100  # gradient steps of the one fit
DESIGNS = range(5)  # of figures 3 and 4: how far random settings are from the front depends on the settings
NAMES = "log10 epsilon", "error"


def exact(item: str, title: str, make, seeds: range | None, quick: bool) -> None:
    """Figures 1 and 2: both oracles everywhere, and the front. The oracles draw from the first seed alone."""
    s = common.settings_of(settings, item, quick)
    s.seed = (seeds or DESIGNS).start
    of = make(s)
    out = common.Report(settings, item, title, quick, of.source, seeds=seeds)
    grid, values = gridded(s, of)
    front = np.flatnonzero(searches.front_of(values))
    front = front[np.argsort(values[front, 0])]
    shown = front[np.unique(np.linspace(0, len(front) - 1, 9).astype(int))]
    report.print_table(
        ("of the front: epsilon", "error", *of.axes),
        [(f"{values[i, 0]:.3g}", f"{values[i, 1]:.3f}", *(f"{x:.2f}" for x in grid[i])) for i in shown],
    )
    volume = searches.hypervolume(values, s.reference)
    print(f"{len(grid)} settings, {len(front)} on the front; hypervolume below {s.reference}: {volume:.3f}")
    figure, axes = common.panels(2, 2)
    for axis, column, name in zip(axes[0], (np.log10(values[:, 0]), values[:, 1]), NAMES, strict=True):
        drawn_map(figure, axis, of, grid, column, name)
    axes[1, 0].plot(*values[front].T, "-")
    axes[1, 0].set(xscale="log", xlabel="epsilon", ylabel="error")
    axes[1, 1].plot(*grid[front].T, ".")
    axes[1, 1].set(xlabel=of.axes[0], ylabel=of.axes[1], xlim=of.bounds[:, 0], ylim=of.bounds[:, 1])
    figure.tight_layout()
    out.finish(
        figure,
        seeds=[s.seed, s.seed + 1],
        hypervolume=volume,
        front={"settings": grid[front], "values": values[front]},
        effects=effects(of, grid, values),
    )


def effects(of: Illustration, grid: np.ndarray, values: np.ndarray) -> dict[str, dict[str, dict[str, float]]]:
    """What each hyper-parameter does to each oracle with the other one fixed, in the mean over the other one's values.

    By hyper-parameter and oracle: the range of the oracle, and Kendall's correlation.
    """
    found = {}
    for column, axis in enumerate(of.axes):
        fixed = grid[:, 1 - column]
        lines = [np.flatnonzero(fixed == value) for value in np.unique(fixed)]
        found[axis] = {
            name: {
                "range": float(np.mean([np.ptp(oracle[line]) for line in lines])),
                "correlation": float(
                    np.nanmean([stats.kendalltau(grid[line, column], oracle[line])[0] for line in lines])
                ),
            }
            for name, oracle in zip(NAMES, (np.log10(values[:, 0]), values[:, 1]), strict=True)
        }
    return found


def surrogate(item: str, title: str, make, seeds: range | None, quick: bool) -> None:
    """Figures 3 and 4: what 250 random settings tell the surrogates, and where the next one would be.

    The figure has the first seed's random settings; how far random settings are from the front is measured for all.
    """
    s = common.settings_of(settings, item, quick)
    seeds, out_seeds = seeds or DESIGNS, seeds
    s.seed = seeds.start
    of = make(s)
    out = common.Report(settings, item, title, quick, of.source, seeds=out_seeds)
    grid, truth = gridded(s, of)
    designs = [drawn(s, of, seed) for seed in seeds]
    found = designs[0]
    config = dpareto.config(
        bounds={"low": of.bounds[0], "high": of.bounds[1]},
        initial_design=found.settings, proposals=1, integer_mask=of.integer_mask, fit_steps=FITTED,
        reference=(s.reference[0], min(s.reference[1], 0.999)),
    )  # fmt: skip

    def objective(setting, data):
        del data
        apart = np.abs(found.settings - np.asarray(setting)).sum(axis=1)
        nearest = np.argmin(apart)
        return found.values[nearest] if apart[nearest] < 1e-9 else of.measured(np.asarray(setting)[None])[0]

    released = drivers.run_loop(
        dpareto.algorithm, objective, None, config, run=drivers.Execution(key=jax.random.key(0))
    ).release
    mean, _ = (np.asarray(part) for part in dpareto.predict_settings(config, released, jnp.asarray(grid)))
    gains = np.asarray(dpareto.improvement(config, released, jnp.asarray(grid)))
    following, value = np.asarray(released.points)[-1], np.asarray(released.values)[-1]
    volumes = {
        "all settings": searches.hypervolume(truth, s.reference),
        f"{s.initial_design} random": searches.hypervolume(found.values, s.reference),
        "and the next": searches.hypervolume(np.asarray(released.values), s.reference),
    }
    told_error = 1 / (1 + np.exp(-mean[:, 1]))
    wrong = {
        "log10 epsilon": float(np.sqrt(np.mean((mean[:, 0] / np.log(10) - np.log10(truth[:, 0])) ** 2))),
        "error": float(np.sqrt(np.mean((told_error - truth[:, 1]) ** 2))),
    }
    report.print_table(("hypervolume", ""), [(name, f"{volume:.4f}") for name, volume in volumes.items()])
    print(f"surrogates' root mean square error: {wrong}")
    print(f"next: {dict(zip(of.axes, following.round(3).tolist(), strict=True))}, epsilon and error {value.round(3)}")
    figure, axes = common.panels(2, 2)
    for axis, column, name in zip(axes[0], (mean[:, 0] / np.log(10), told_error), NAMES, strict=True):
        drawn_map(figure, axis, of, grid, column, f"{name}, as believed")
        axis.plot(*found.settings.T, ".", color="w", markersize=2)
    for values, label, look in ((truth, "all settings", "k-"), (found.values, f"{s.initial_design} random", "C0.-")):
        front = values[searches.front_of(values)]
        axes[1, 0].plot(*front[np.argsort(front[:, 0])].T, look, label=label, linewidth=1)
    axes[1, 0].plot(*found.values.T, ".", color="0.7", markersize=2)
    axes[1, 0].set(xscale="log", xlabel="epsilon", ylabel="error")
    drawn_map(figure, axes[1, 1], of, grid, gains, "probability of improvement by hypervolume")
    axes[1, 1].plot(*following, "*", color="C3", markersize=10)
    figure.tight_layout()
    out.finish(
        figure, seeds=common.ends(seeds), hypervolume=volumes, surrogate_error=wrong,
        next={"setting": following, "values": value},
        by_seed={
            "hypervolume of random settings over all": [
                searches.hypervolume(one.values, s.reference) / volumes["all settings"] for one in designs
            ],
            "error above the least, mean over epsilons": [above_the_least(one.values, truth) for one in designs],
        },
    )  # fmt: skip


def drawn(s: SimpleNamespace, of: Illustration, seed: int) -> points.Points:
    """Random settings, measured."""
    low, high = of.bounds
    chosen = low + (high - low) * np.random.default_rng(seed).uniform(size=(s.initial_design, 2))
    chosen[:, of.integer_mask] = np.round(chosen[:, of.integer_mask])
    return points.kept(lambda _: (chosen, of.measured(chosen)), "random", of.name, vars(s) | {"design": seed})


def above_the_least(values: np.ndarray, truth: np.ndarray) -> float:
    """How much larger the least error within an epsilon is than over the whole grid, mean over ``fronts.WITHIN``.

    Epsilons within which the grid has no setting do not count.
    """
    some, every = fronts.least_errors(values), fronts.least_errors(truth)
    return float(np.mean([some[epsilon] - least for epsilon, least in every.items() if least < 1.0]))


def gridded(s: SimpleNamespace, of: Illustration) -> points.Points:
    """Every setting of a fine grid, measured."""
    axes = [np.linspace(*ends, s.cells) for ends in of.bounds.T]
    axes = [
        np.unique(np.round(axis)) if integer_mask else axis
        for axis, integer_mask in zip(axes, of.integer_mask, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    asked = {name: value for name, value in vars(s).items() if name != "initial_design"}
    return points.kept(lambda _: (grid, of.measured(grid)), "grid", of.name, asked)


def drawn_map(figure, axis, of, grid, column, name):
    shape = len(np.unique(grid[:, 0])), -1
    x, y, z = (part.reshape(shape) for part in (grid[:, 0], grid[:, 1], column))
    figure.colorbar(axis.contourf(x, y, z, 24), ax=axis)
    axis.set(title=name, xlabel=of.axes[0], ylabel=of.axes[1])


def _item(
    kind: Callable[..., None], item: str, title: str, make: Callable[[SimpleNamespace], Illustration]
) -> Callable[..., None]:
    return lambda seeds=None, quick=False: kind(item, title, make, seeds, quick)


ITEMS = {
    "fig1": _item(
        exact, "fig1", "Fig. 1: private logistic regression, both oracles and the front", illustrations.regression
    ),
    "fig2": _item(
        exact, "fig2", "Fig. 2: the sparse vector technique, both oracles and the front", illustrations.sparse_vector
    ),
    "fig3": _item(
        surrogate, "fig3", "Fig. 3: private logistic regression, what 250 settings tell", illustrations.regression
    ),
    "fig4": _item(
        surrogate, "fig4", "Fig. 4: the sparse vector technique, what 250 settings tell", illustrations.sparse_vector
    ),
}
