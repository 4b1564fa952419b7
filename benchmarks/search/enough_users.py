"""``scripts/bench enough_users``: the table behind the page "Enough users?", from ``preview``, in 15 minutes.

Nothing is drawn and nothing is searched. The page looks up the cells; it computes no privacy of its own.
"""

import itertools
from typing import Any

from tqdm import tqdm

import jaxdpbo
from benchmarks import report
from jaxdpbo import rounding, space
from jaxdpbo.drivers import Search
from jaxdpbo.drivers.previews import percent
from jaxdpbo.report import records

SPACES: dict[str, dict[str, Any]] = {
    "1 or 2 numbers": {"x0": space.real(0, 1), "x1": space.real(0, 1)},
    **{f"{size} numbers": {f"x{i}": space.real(0, 1) for i in range(size)} for size in (3, 5, 10, 20)},
    "integers or categories among them": {"x0": space.integer(1, 100), "x1": space.categorical("a", "b")},
}
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTAS = (1e-5, 1e-7)
EVALUATIONS = (50, 100, 200, 500)
USERS = (100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
FIELDS = (
    "method", "evaluations", "loss noise, %", "step noise", "limit, %", "users for 1 %", "detections in 20", "helpful",
    "users needed", "steps",
)  # fmt: skip
SEPARATOR = "|"  # a cell of the table is one text, so that the JSON has one line a cell


def main(quick: bool) -> None:
    axes = {
        "space": list(SPACES)[:: 3 if quick else 1],
        "epsilon": EPSILONS[:: 6 if quick else 1],
        "delta": DELTAS,
        "evaluations": EVALUATIONS[:: 3 if quick else 1],
        "users": USERS[:: 6 if quick else 1],
    }
    settings = [*itertools.product(*axes.values())]
    cells = [cell(*setting) for setting in tqdm(settings, unit="cell")]
    rows = [
        (name, str(users), *cells[place].split(SEPARATOR))
        for place, (name, *budget, users) in enumerate(settings)
        if budget == [EPSILONS[0], DELTAS[0], EVALUATIONS[0]] and cells[place]
    ]
    report.print_table(("space", "users", *FIELDS), rows)
    report.write_bench(
        "enough_users",
        {"axes": axes, "fields": FIELDS, "cells": cells},
        quick=quick,
        seeds="none: nothing is drawn",
        noise="none",
        dtype="float32",
        chosen={"loss range": [0, 1]},
    )


def cell(name: str, epsilon: float, delta: float, evaluations: int, users: int) -> str:
    """The ``FIELDS`` of a setting; "" where ``delta`` is too large for so many users."""
    if delta * users >= 1:
        return ""
    box = SPACES[name]
    steps = max(1, evaluations // (len(box) + 1))
    prediction = jaxdpbo.preview(
        users=users, space=box, epsilon=epsilon, delta=delta, loss_range=(0, 1), search=Search(steps=steps)
    )
    return SEPARATOR.join(
        (
            prediction.method.partition(":")[0],
            str(prediction.evaluations),
            "" if prediction.loss_noise is None else percent(prediction.loss_noise),
            "" if prediction.relative_noise is None else f"{prediction.relative_noise:.2g}",
            percent(prediction.regret_limit, rounding.shorten_down),
            str(prediction.users_for_percent),
            records.detections_in_twenty(prediction.guarantee),
            str(prediction.helpful).lower(),
            str(prediction.users_needed),
            str(steps),
        )
    )
