"""``scripts/bench largest_users``: how many users exact noise takes, by epsilon, method and dimension, in a minute.

Host arithmetic alone: the largest ``n`` whose configuration is accepted, by bisection. No data, no draw.
"""

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

from tqdm import tqdm

import jaxdpbo
from benchmarks import report

EPSILONS, DIMENSIONS, DELTA = (0.1, 0.3, 1.0, 3.0), (2, 10, 50), 1e-10
STEPS, LOSS_RANGE = 25, (0.0, 1.0)
MOST = 2**31 - 1
OBJECTIVE = "PrivateObjective"
METHODS = ("local", "start_then_local", "choice", "evaluations", "in_order")
BY_DIMENSION = {"local", "start_then_local"}  # the others sum one number a point, whatever the dimension


def main(quick: bool) -> None:
    started = time.perf_counter()
    epsilons = EPSILONS[2:3] if quick else EPSILONS
    cells = [(name, d) for name in (OBJECTIVE, *METHODS) for d in (DIMENSIONS if name in BY_DIMENSION else [0])]
    rows = [
        {"method": name, "d": d, "users": {f"{epsilon:g}": largest(name, epsilon, d) for epsilon in epsilons}}
        for name, d in tqdm(cells, unit="row")
    ]
    report.print_table(
        ("method", "d", *(f"epsilon {epsilon:g}" for epsilon in epsilons)),
        ((row["method"], row["d"] or "any", *(f"{users:,}" for users in row["users"].values())) for row in rows),
    )
    report.write_bench(
        "largest_users",
        {"rows": rows},
        quick=quick,
        seeds="none: nothing is drawn",
        noise="exact",
        dtype="float64",
        chosen={"delta": DELTA, "steps": STEPS, "loss_range": list(LOSS_RANGE), "evaluations": STEPS},
        started=started,
    )


def largest(name: str, epsilon: float, dimension: int) -> int:
    """The largest ``n`` that is accepted; 0 where 1 is refused. A ``dimension`` of 0 stands for any."""

    def accepts(users: int) -> bool:
        try:
            _configure(name, users, {"epsilon": epsilon, "delta": DELTA}, dimension)
        except ValueError:
            return False
        return True

    return last_accepted(accepts, MOST)


def last_accepted(accepts: Callable[[int], bool], most: int) -> int:
    """By bisection: ``accepts`` holds up to some number and not beyond it."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def _configure(name: str, users: int, budget: dict[str, Any], dimension: int) -> None:
    """Raise ValueError where so many users are refused."""
    if name == OBJECTIVE:
        jaxdpbo.PrivateObjective(_no_loss, None, users=users, evaluations=STEPS, loss_range=LOSS_RANGE, **budget)
        return
    sides = dimension or 1
    box = {"low": [0.0] * sides, "high": [1.0] * sides}
    jaxdpbo.preview(users=users, bounds=box, method=name, loss_range=LOSS_RANGE, steps=STEPS, **budget)


def _no_loss(point: Any, data: Any) -> Any:
    """Never called: a configuration is made, and no evaluation."""
    raise AssertionError(point, data)
