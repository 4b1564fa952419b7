"""``scripts/bench scaling``: growth of cost with each size, compared with the code, and the largest sizes in 24 GiB.

The script doubles one size and keeps the others. The exponent is the slope of log time over log size by least squares,
over the upper half of the sizes. Time is the median of three runs of a compiled program, without compilation. The
largest sizes come from XLA's report on a program compiled at that size: arguments, results and temporaries. Nothing of
this size is allocated.
"""

import statistics
import time
from functools import partial
from typing import Any

import jax
import numpy as np
from matplotlib import ticker
from tqdm import tqdm

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.speed import ABOUT, scaling_programs
from benchmarks.speed import scaling_problem as problem
from benchmarks.speed.scaling_problem import FITS, NAMES, SERIES, Largest, Series

BUILD = {name: getattr(scaling_programs, name) for name in NAMES}


def main(quick: bool) -> None:
    """Measure, print and write. Quick: the first variable of each algorithm at small sizes, and one of what fits."""
    jax.config.update("jax_enable_x64", False)
    series = {name: curves[:1] if quick else curves for name, curves in SERIES.items()}
    fits = FITS[-1:] if quick else FITS
    with tqdm(total=sum(map(len, series.values())) + len(fits), unit="part") as bar:
        growth = {}
        for name, curves in series.items():
            growth[name] = []
            for curve in curves:
                growth[name].append(measure_growth(name, curve, quick))
                bar.update()
        room = []
        for name, spec in fits:
            room.append(largest_record(name, spec))
            bar.update()
    show(growth, room)
    about = ABOUT["scaling"]
    report.write_bench(
        "scaling",
        {"growth": growth, "largest": room, "limit_bytes": problem.LIMIT},
        quick=quick,
        seeds=about.seeds,
        noise=about.noise,
        dtype=about.dtype,
        chosen={"runs": problem.REPEATS, "seconds of a run, at least": problem.SHORTEST},
        figures={f"scaling_{name}": picture(name, curves) for name, curves in growth.items()},
    )


def measure_growth(name: str, series: Series, quick: bool) -> dict[str, Any]:
    """Times of one series, and the exponent."""
    sizes = series.sizes[: problem.SMALL] if quick else series.sizes
    times, compiling = [], []
    for size in sizes:
        run, took = prepare(BUILD[name](scaling_programs.numbers, **series.fixed, **{series.variable: size}))
        times.append(statistics.median(seconds(run) for _ in range(problem.REPEATS)))
        compiling.append(took)
    variable, counted = series.variable, list(sizes)
    if (name, variable) == ("training", "features"):
        counted = [scaling_programs.weights(size, series.fixed["hidden"]) for size in sizes]
        variable = "parameters"
    return {
        "variable": variable,
        "fixed": series.fixed,
        "sizes": counted,
        "seconds": times,
        "compile_s": statistics.median(compiling),
        "exponent": exponent(counted, times),
        "theory": list(series.theory),
        "cost": series.cost,
        "where": series.where,
    }


def prepare(program: scaling_programs.Program) -> tuple[Any, float]:
    """A call of what was compiled and has run once, and the seconds of compiling."""
    begun, function = time.perf_counter(), program.function
    if hasattr(function, "lower"):
        function = scaling_programs.compile_program(program)
    took = time.perf_counter() - begun
    jax.block_until_ready(function(*program.arguments))
    return partial(function, *program.arguments), took


def seconds(run: Any) -> float:
    """Of one call, on average over as many as fill ``SHORTEST``."""
    calls, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < problem.SHORTEST or not calls:
        jax.block_until_ready(run())
        calls += 1
    return passed / calls


def exponent(sizes: list[int], times: list[float]) -> float:
    """By least squares over the upper half, the middle size included."""
    upper = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[upper:]), np.log(times[upper:]), 1)[0])


def largest_record(name: str, spec: Largest) -> dict[str, Any]:
    """The largest program that fits, by XLA's statement."""

    def build(size: int) -> scaling_programs.Program:
        return BUILD[name](scaling_programs.shapes, **spec.fixed, **{spec.variable: size})

    size, stated, refused = scaling_programs.largest_size(build, spec.first, problem.LIMIT)
    record = {"algorithm": name, "what": spec.said, "fixed": spec.fixed, "size": size, "bytes": stated}
    if spec.variable == "features":
        record["parameters"] = scaling_programs.weights(size, spec.fixed["hidden"])
    return record | {"bound": "memory" if refused is None else refused}


def show(growth: dict[str, list[dict[str, Any]]], room: list[dict[str, Any]]) -> None:
    """Both tables."""
    print()
    report.print_table(
        ("algorithm", "variable", "from", "to", "slowest", "exponent", "theory", "cost", "compile"),
        [
            (NAMES[name], curve["variable"], curve["sizes"][0], curve["sizes"][-1], f"{curve['seconds'][-1]:.3g} s")
            + (
                f"{curve['exponent']:.2f}",
                exponent_range(curve["theory"]),
                curve["cost"],
                f"{curve['compile_s']:.1f} s",
            )
            for name, curves in growth.items()
            for curve in curves
        ],
        flush=(0, 1, 7),
    )
    print()
    report.print_table(
        ("largest", "of", "size", "GiB", "bound by"),
        [
            (NAMES[row["algorithm"]], row["what"], row["size"], f"{row['bytes'] / problem.GIB:.2f}", row["bound"])
            for row in room
        ],
        flush=(0, 1, 4),
    )


def exponent_range(theory: list[float]) -> str:
    low, high = theory
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def picture(name: str, curves: list[dict[str, Any]]) -> Any:
    """A panel a variable: the times, the fit, and the steepest that the code allows through the last time."""
    figure, axes = common.panels(1, len(curves), squeeze=False)
    figure.set_size_inches(3.4 * len(curves), 3.0)
    for axis, curve in zip(axes[0], curves, strict=True):
        sizes, times = np.array(curve["sizes"], float), np.array(curve["seconds"])
        upper = slice(len(sizes) // 2, None)
        middle = np.exp(np.mean(np.log(sizes[upper]))), np.exp(np.mean(np.log(times[upper])))
        axis.loglog(sizes, times, "o", color="C0")
        fit = middle[1] * (sizes[upper] / middle[0]) ** curve["exponent"]
        axis.loglog(sizes[upper], fit, "-", color="C0", label=f"slope {curve['exponent']:.2f}")
        for power, line in zip(sorted(set(curve["theory"]), reverse=True), ("--", ":"), strict=False):
            axis.loglog(
                sizes[upper], times[-1] * (sizes[upper] / sizes[-1]) ** power, line, color="C1", label=f"{power:g}"
            )
        others = ", ".join(f"{what} {size:,}" for what, size in curve["fixed"].items())
        axis.set_title(others, fontsize=7)
        axis.set(xlabel=curve["variable"], ylabel="seconds")
        axis.set_xticks(curve["sizes"][::2], [f"{size:,}" for size in curve["sizes"][::2]])
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(NAMES[name], fontsize=10)
    figure.tight_layout()
    return figure
