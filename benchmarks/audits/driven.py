"""What joins the mechanisms: keys of a sweep, runs that fail and are repeated, records that are copied.

A mechanism may be right and its drivers give it away: here the attacker repeats, copies and interrupts what is claimed
to be one release, and looks at everything that came out.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np

from benchmarks.audits.algorithms import STEP_SIZE, WORST, either_end, slope_times_place
from benchmarks.audits.rows import Row, claim
from jaxdpbo import accounting, drivers, ledger
from jaxdpbo.algorithms import dp_gd
from jaxdpbo.guarantee import guarantees
from jaxdpbo.noise import clipping

BUDGETS = 0.3, 1.0  # of the two configs of a sweep
SLOPES = dp_gd.gradient_objective(slope_times_place)
MEMORY = Path("/dev/shm")  # a file system that need not wait for a disk, where there is one
FILES = {"slower": 40, "least": 0.0}  # a ledger for every trial, so few trials, of which a bound may say nothing


def rows() -> list[Row]:
    composed = accounting.compose_gdp([dp_gd.privacy(_descent(mu)).level for mu in BUDGETS])
    statement = claim("gdp", composed)
    return [
        Row("sweep, two configs, together", statement, lambda trials: _sweep_scores(trials, _sum)),
        Row(
            "sweep, two configs, their difference", statement, lambda trials: _sweep_scores(trials, _difference),
            least=0.3,
        ),
        Row(
            "sweep, common random numbers, their difference", statement,
            lambda trials: _sweep_scores(trials, _difference, common_random_numbers=True), holds=False,
        ),
        Row("run_loop on record, interrupted and repeated", _statement(), _recorded_scores(_interrupt_run), **FILES),
        Row("run_scan on record, copied and repeated", _statement(), _recorded_scores(_copy_run), **FILES),
        Row("PrivateObjective on record, copied and repeated", _objective_statement(), _objectives, **FILES),
    ]  # fmt: skip


# Two configs of a sweep


@cache
def _descent(mu: float, steps: int = 1) -> dp_gd.Config:
    return dp_gd.config(
        users=2, steps=steps, mu=mu, bounds=[[-np.inf], [np.inf]], theta0=[0.0], step_size=STEP_SIZE, clip_norm=0.5
    )


def _sweep_scores(trials: int, score: Callable[..., np.ndarray], **options: Any) -> tuple[np.ndarray, np.ndarray]:
    configs = [_descent(mu) for mu in BUDGETS]
    scores = []
    for seed, slopes in enumerate(WORST):
        done = drivers.sweep(
            dp_gd.algorithm,
            SLOPES,
            slopes,
            configs,
            seeds=trials,
            **options,
            key=jax.random.key(seed),
        )
        moved = np.asarray(done.release.path)[:, :, 0, 0] - np.asarray(done.release.path)[:, :, -1, 0]
        scores.append(score(moved / STEP_SIZE, configs))
    return scores[0], scores[1]


def _sum(gradients: np.ndarray, configs: list[dp_gd.Config]) -> np.ndarray:
    """Each weighed by how little noise it has: the likelihood ratio of both together."""
    return sum(np.square(mu) * gradient for mu, gradient in zip(BUDGETS, gradients, strict=True))


def _difference(gradients: np.ndarray, configs: list[dp_gd.Config]) -> np.ndarray:
    """In units of the grid, where equal noise would cancel."""
    units = [float(clipping.grid_step(config.clip_norm, config.noise.radius, 1)) / config.users for config in configs]
    return gradients[1] / units[1] - gradients[0] / units[0]


# Runs on record


@cache
def _statement() -> guarantees.Guarantee:
    return dp_gd.privacy(_descent(1.0, 2))


def _recorded_scores(attack: Callable[..., list[np.ndarray]]) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Scores of ``attack``, which returns every path of iterates that came out under one charge.

    The mean of what the paths say, and where two of them differ, which is the noise, as much as can be had of it.
    """

    def total(slopes: np.ndarray, draw: np.random.Generator) -> float:
        paths = {path.tobytes(): path for path in _attack_in_ledger(attack, _statement(), slopes, draw)}
        means = [(path[0, 0] - path[-1, 0]) / (len(path) - 1) for path in paths.values() if len(path) > 1]
        longest = max(paths.values(), key=len, default=np.zeros((1, 1)))
        honest = all(np.array_equal(path, longest[: len(path)]) for path in paths.values())
        return float(np.mean(means or [0.0])) if not honest else float(longest[0, 0] - longest[-1, 0])

    return lambda trials: _neighbour_scores(trials, total)


def _neighbour_scores(trials: int, score: Callable[..., float]) -> tuple[np.ndarray, np.ndarray]:
    """The operating system's randomness, which runs on record take, is a seed's here: an audit can be repeated."""
    scores = []
    for seed, data in enumerate(WORST):
        draw = np.random.default_rng(seed)
        with mock.patch.object(os, "urandom", draw.bytes):
            scores.append(np.array([score(data, draw) for _ in range(trials)]))
    return scores[0], scores[1]


def _attack_in_ledger(attack: Callable[..., Any], statement: guarantees.Guarantee, data: Any, draw: Any) -> Any:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "ledger.jsonl"
        ledger.create(path, notion="gdp", level=2, relation="replace_one", protects=statement.protects)
        return attack(path, data, draw)


def _interrupt_run(path: Path, slopes: np.ndarray, draw: np.random.Generator) -> list[np.ndarray]:
    """Stopped at a random evaluation, twice, by either driver, then let go; the iterates it asked about too."""
    chosen, paths = _descent(1.0, 2), []

    def run(driver: Callable[..., drivers.Run], left: float) -> None:
        asked = []

        def objective(point, data):
            asked.append(np.array(point)[None])
            if len(asked) > left:
                raise MemoryError
            return np.asarray(data, point.dtype)[None]

        target = SLOPES if driver is drivers.run_scan else objective
        try:
            paths.append(
                np.asarray(
                    driver(dp_gd.algorithm, target, slopes, chosen, ledger=drivers.Recording(path, "x")).release.path
                )
            )
        except drivers.RunInterrupted as error:
            if error.snapshot is not None:
                paths.append(np.asarray(error.snapshot.state.public.path)[: int(error.snapshot.state.public.step) + 1])
        except ledger.LedgerError:
            pass
        if asked and not np.any(asked[0]):  # from the start: a path of its own
            paths.append(np.concatenate(asked))

    for left in draw.integers(0, 3, 2):
        run((drivers.run_loop, drivers.run_scan)[draw.integers(2)] if left else drivers.run_loop, left)
    run(drivers.run_loop, np.inf)
    run(drivers.run_scan, np.inf)
    return paths


def _copy_run(path: Path, slopes: np.ndarray, draw: np.random.Generator) -> list[np.ndarray]:
    """The same run by every name and copy of its ledger."""
    chosen, paths, copy = _descent(1.0, 2), [], path.with_name("copy")
    link = path.with_name("link")
    link.symlink_to(path)
    for name in (path, copy, link, path):
        try:
            run = drivers.run_scan(dp_gd.algorithm, SLOPES, slopes, chosen, ledger=drivers.Recording(name, "x"))
            paths.append(np.asarray(run.release.path))
        except (ledger.LedgerError, FileNotFoundError):
            pass
        shutil.copy(path, copy)
    return paths


def _objective(path: Path | None, losses: np.ndarray) -> drivers.PrivateObjective:
    on = {} if path is None else {"ledger": drivers.Recording(path, "x")}
    return drivers.PrivateObjective(either_end, losses, users=2, mu=1.0, evaluations=2, loss_range=(0.0, 1.0), **on)


@cache
def _objective_statement() -> guarantees.Guarantee:
    return _objective(None, np.zeros(2)).guarantee


def _objectives(trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Two values are paid for; the attacker has the mean of all that came out of any name or copy."""

    def values(path: Path, slopes: np.ndarray, draw: np.random.Generator) -> list[float]:
        losses, answers = np.array([slopes[0], 0.5]), []
        copy, link = path.with_name("copy"), path.with_name("link")
        for name in (path, copy, link, path, copy):
            try:
                objective = _objective(name, losses)
                answers += [spend.value for spend in objective.spent]
                answers += [objective(None) for _ in range(objective.remaining if len(answers) else 1)]
            except (ledger.LedgerError, FileNotFoundError, drivers.BudgetExhausted):
                pass
            shutil.copy(path, copy)
            link.exists() or link.symlink_to(path)
        return answers

    def mean(slopes: np.ndarray, draw: np.random.Generator) -> float:
        return float(np.mean(list(dict.fromkeys(_attack_in_ledger(values, _objective_statement(), slopes, draw)))))

    return _neighbour_scores(trials, mean)
