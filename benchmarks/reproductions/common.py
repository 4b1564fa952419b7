"""What the papers' figures share: settings, runs over seeds, choices made on others, intervals, bands, and files."""

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
from scipy import stats
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import claims
from jaxdpbo import drivers
from jaxdpbo.surrogate import descent

matplotlib.use("Agg")
from matplotlib import pyplot

RESAMPLES = 10_000
TUNING_SEEDS = 10_000  # where the tuning seeds begin; the reported ones begin at 0


def settings_of(paper: Any, item: str, quick: bool, full: bool = False) -> SimpleNamespace:
    """Everything an item of a paper's ``settings`` module needs to know.

    Printed, then ours (which replaces only what cannot be had), then quick or full.
    """
    changed = paper.QUICK[item] if quick else paper.FULL[item] if full else {}
    return SimpleNamespace(**paper.PRINTED[item] | paper.OURS[item] | changed)


def describe_settings(paper: Any, item: str, quick: bool, full: bool = False) -> dict[str, Any]:
    """The same for a reader, who should see which is which."""
    settings = {"printed in the paper": paper.PRINTED[item], "chosen here": paper.OURS[item]}
    if remembered := getattr(paper, "REMEMBERED", {}).get(item):
        settings["from memory of the paper, whose text at hand has lost it"] = remembered
    settings |= {"changed by --quick": paper.QUICK[item]} if quick else {}
    return settings | ({"changed by --full": paper.FULL[item]} if full else {})


def tuning_seeds(count: int) -> range:
    return range(TUNING_SEEDS, TUNING_SEEDS + count)


def ends(seeds: range) -> list[int]:
    """As a result's file has them: the first, and the one after the last."""
    return [seeds.start, seeds.stop]


def adagrad(step_size: Any) -> optax.GradientTransformation:
    """AdaGrad as published (Duchi et al. 2011), and as PyTorch's default: the sum of squares begins at 0.

    ``optax.adagrad`` begins it at 0.1, which 25 gradients of norm 0.05 never reach: it stays plain descent.
    """
    return optax.adagrad(step_size, initial_accumulator_value=0.0, eps=1e-8)


ADAGRAD = {0.0: adagrad, 0.1: optax.adagrad}  # by where the sum of squares begins


def run_seeds(
    draw: Callable[[jax.Array], Any],
    run: Callable[[Any, Any], dict[str, jax.Array]],
    configs: Sequence[Any],
    seeds: Sequence[int],
    label: str,
) -> dict[str, np.ndarray]:
    """``run((key, config), data)`` for each config and seed: arrays with leading axes ``(configs, seeds)``.

    ``data = draw(key)`` is drawn once a seed, so that all configs meet the same data and the same key. One compilation
    for configs that differ in traced numbers.
    """
    devices = jax.local_devices()
    block = len(devices) if devices[0].platform == "cpu" else len(configs)
    policy = "map" if len(configs) == 1 else None  # a device without work would repeat another's
    results = []
    with tqdm(total=len(seeds) * len(configs), desc=label, unit="run", mininterval=1.0) as bar:
        for seed in seeds:
            data_key, run_key = jax.random.split(jax.random.key(seed))
            data, parts = draw(data_key), []
            for start in range(0, len(configs), block):
                chunk = configs[start : start + block]
                inputs = jnp.stack([run_key] * len(chunk)), jax.tree.map(lambda *leaves: jnp.stack(leaves), *chunk)
                parts.append(jax.tree.map(np.asarray, drivers.distribute(run, inputs, data, policy=policy)))
                bar.update(len(chunk))
            results.append(jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts))
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *results)


def choose(label: str, tried: Sequence[dict[str, Any]], scores: Any, seeds: Sequence[int]) -> tuple[dict, dict]:
    """The options of least score, and for the record every option's. Says so."""
    scores = np.asarray(scores, float)
    best = dict(tried[int(np.argmin(scores))])
    report.print_table(
        (f"tuning {label}, seeds {seeds[0]} to {seeds[-1]}", "score"),
        [
            (describe_options(options), f"{score:.4g}" + " *" * (options == best))
            for options, score in zip(tried, scores, strict=True)
        ],
    )
    record = [dict(options) | {"score": score} for options, score in zip(tried, scores.tolist(), strict=True)]
    return best, {"seeds": [seeds[0], seeds[-1] + 1], "tried": record, "chosen": best}


def describe_options(options: dict[str, Any]) -> str:
    def word(value: Any) -> Any:
        return "scheduled" if value is None else f"{value:g}" if isinstance(value, float) else value

    return ", ".join(f"{name.replace('_', ' ')} {word(value)}" for name, value in options.items())


def grid(**choices: Sequence[Any]) -> list[dict[str, Any]]:
    """Every combination, as keyword arguments."""
    combinations: list[dict[str, Any]] = [{}]
    for name, values in choices.items():
        combinations = [combination | {name: value} for combination in combinations for value in values]
    return combinations


def interval(statistic: Callable[..., Any], *samples: Any) -> tuple[float, float, float]:
    """``statistic(*samples, axis)`` and its 95 % percentile bootstrap interval; samples ``(seeds,)`` stay paired."""
    values = [np.asarray(sample) for sample in samples]
    rows = np.random.default_rng(0).integers(0, len(values[0]), (RESAMPLES, len(values[0])))
    low, high = np.percentile(statistic(*(value[rows] for value in values), axis=1), (2.5, 97.5))
    return float(statistic(*values, axis=0)), float(low), float(high)


def mean_difference(first: Any, second: Any, axis: int) -> Any:
    return np.mean(first - second, axis=axis)


def paired_difference(first: Any, second: Any) -> dict[str, Any]:
    """Paired: the mean of ``first - second`` with its interval, and in how many seeds the first is lower.

    Student's t: a percentile bootstrap of five seeds covers far less than 95 %.
    """
    paired = np.asarray(first) - np.asarray(second)
    middle, count = float(np.mean(paired)), len(paired)
    half = float(stats.t.ppf(0.975, count - 1) * np.std(paired, ddof=1) / np.sqrt(count)) if count > 1 else np.inf
    return {
        "mean difference": middle, "95%": [middle - half, middle + half],
        "lower in": int(np.sum(paired < 0)), "of": count,
    }  # fmt: skip


def compare_with(first: str, losses: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """For each name its losses by seed, their mean, and the paired difference from the first."""
    return {
        name: {
            "losses": found,
            "mean": float(np.mean(found)),
            "paired": None if name == first else paired_difference(found, losses[first]),
        }
        for name, found in losses.items()
    }


def sentence(comparison: dict[str, Any]) -> str:
    low, high = comparison["95%"]
    middle, count = comparison["mean difference"], f"{comparison['lower in']} of {comparison['of']}"
    return f"{middle:+.4f} ({low:+.4f} to {high:+.4f}), lower in {count}"


def answers(path: Any) -> jax.Array:
    """What would be released after each step, by "last" and by "last_half_mean": ``(2, T + 1, d)``."""
    path = jnp.asarray(path)  # of a run in Python it is NumPy's
    steps = jnp.arange(path.shape[0])
    return jnp.stack([jax.vmap(lambda t, o=o: descent.answer(path, t, o))(steps) for o in descent.OUTPUTS])


def band(axis: Any, values: Any, colour: str, label: str, x: Any = None, line: str = "-", mean: bool = False) -> None:
    """Over seeds, the leading axis: median and quartiles, or mean and range."""
    x = np.arange(values.shape[1]) if x is None else x
    low, middle, high = np.percentile(values, (0, 50, 100) if mean else (25, 50, 75), axis=0)
    axis.plot(x, values.mean(axis=0) if mean else middle, line, color=colour, label=label)
    axis.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)


def panels(rows: int, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, always an array."""
    figure, axes = pyplot.subplots(rows, columns, figsize=(7 if columns == 1 else 4 * columns, 3.2 * rows), **options)
    return figure, np.atleast_1d(axes)


class Report:
    """The clock, the settings and the two files of one figure."""

    def __init__(
        self,
        paper: Any,
        item: str,
        title: str,
        quick: bool,
        source: str,
        full: bool = False,
        seeds: range | None = None,
    ):
        if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            raise RuntimeError("figures are float64: set JAX_ENABLE_X64=1 before jax is imported")
        self.settings: SimpleNamespace = settings_of(paper, item, quick, full)
        self.paper: Any = paper
        self.item: str = item
        self.stem = item + "_quick" * quick + "_full" * full  # a quick look must not replace a result
        if seeds is not None:  # nor other seeds
            self.stem += f"_{seeds.start}-{seeds.stop}"
        self.started = time.perf_counter()
        self.summary: dict[str, Any] = {"figure": title, "data": source}
        self.described = report.json_value(describe_settings(paper, item, quick, full))
        print(f"{title}\ndata: {source}\nsettings: {report.json_value(vars(self.settings))}\n")

    def path(self, ending: str) -> Any:
        return report.folder(self.paper.PAPER) / f"{self.stem}.{ending}"

    def finish(self, figure: Any, *, seeds: Any, **results: Any) -> None:
        """Write both files."""
        for axis in figure.axes:
            if axis.get_legend_handles_labels()[0]:
                axis.legend(frameon=False, fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
        self.write(seeds=seeds, **results)
        report.save_figure(figure, self.path("png"))
        pyplot.close(figure)
        print(f"{time.perf_counter() - self.started:.0f} s")

    def write(self, *, seeds: Any, **results: Any) -> None:
        report.write_result(
            self.path("json"),
            report.json_value(self.summary | results | {"claims": claims.terms(f"{self.paper.PAPER}_{self.item}")}),
            seeds=report.json_value(seeds),
            noise=self.paper.NOISE[self.item],
            dtype=self.paper.DTYPE,
            settings=self.described,
            started=self.started,
        )
