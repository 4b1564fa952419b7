"""What each item is run with: what the paper prints, what was chosen here, what --quick shrinks.

The appendix on Branin-Hoo is not in the text at hand: everything about that item but its name was chosen here.
"""

import math
from typing import Any

PAPER = "kharkovskii"
DTYPE = "float64"
e = math.exp

SYNTHETIC: dict[str, Any] = {"data": "synthetic", "points": 100, "steps": 50, "delta": 1e-5}
LOANS: dict[str, Any] = {"data": "loans", "steps": 50, "delta": 1e-5}
PROPERTIES: dict[str, Any] = {"data": "properties", "steps": 100, "delta": 1e-4}
COMMON: dict[str, Any] = {
    "runs": 50, "largest_norm": 25.0, "ucb_delta": 0.05, "lengthscale": 1.25, "noise_variance": 1e-5,
}  # fmt: skip


def table(data: dict[str, Any], epsilon: float, regrets: dict[int, float]) -> dict[str, Any]:
    """``regrets`` by ``r``, as printed."""
    return COMMON | data | {"epsilon": epsilon, "regrets": regrets}


PRINTED: dict[str, dict[str, Any]] = {
    "table1": table(SYNTHETIC, e(1.1), {3: 0.073, 6: 0.038, 8: 0.018, 10: 0.014, 15: 0.118, 20: 0.137}),
    "table2": table(SYNTHETIC, e(1.3), {3: 0.091, 9: 0.009, 12: 0.019, 15: 0.008, 20: 0.127, 30: 0.134}),
    "table3": table(SYNTHETIC, e(1.5), {5: 0.05, 10: 0.021, 15: 0.003, 20: 0.002, 30: 0.094, 50: 0.142}),
    "table4": table(LOANS, e(2.7), {3: 0.083, 6: 0.088, 8: 0.078, 10: 0.069, 15: 0.081, 20: 0.076}),
    "table5": table(LOANS, e(2.9), {3: 0.091, 9: 0.076, 12: 0.078, 15: 0.077, 20: 0.1, 30: 0.096}),
    "table6": table(LOANS, e(3.1), {5: 0.097, 10: 0.091, 15: 0.069, 20: 0.084, 30: 0.104, 50: 0.127}),
    "table7": table(PROPERTIES, e(2.6), {3: 0.682, 6: 0.516, 8: 0.495, 10: 0.485, 15: 0.485, 20: 0.493}),
    "table8": table(PROPERTIES, e(2.8), {3: 0.567, 9: 0.553, 12: 0.479, 15: 0.453, 20: 0.493, 30: 0.52}),
    "table9": table(PROPERTIES, e(3.0), {5: 0.591, 10: 0.523, 15: 0.486, 20: 0.482, 30: 0.489, 50: 0.488}),
    "fig2": COMMON
    | {
        "panels": {
            "a": SYNTHETIC | {"projected": 10, "epsilons": (e(1.1), e(0.9), e(0.0)), "more": (0.011, 0.069, 0.099)},
            "b": LOANS | {"projected": 15, "epsilons": (e(2.9), e(2.0), e(1.0)), "more": (0.003, 0.019, 0.05)},
            "c": PROPERTIES | {"projected": 15, "epsilons": (e(2.8), e(1.0), e(0.5)), "more": (0.051, 0.017, 0.082)},
        },
    },
    "branin": COMMON,
    "regret": COMMON | SYNTHETIC | {"projected": 10, "epsilons": (e(0.0), e(0.9), e(1.1))},
}  # fmt: skip

# The side of the grid, 6 lengthscales of 1.25, was chosen by the search without privacy alone: it then leaves the
# paper's 0.003 or so. The paper does not state it.
SIDE = 7.5
FITTED = 600  # random rows to which the hyper-parameters of a real table are fitted

OURS: dict[str, dict[str, Any]] = {
    **{f"table{number}": {"side": SIDE, "fitted": FITTED, "runs": 400} for number in range(1, 4)},
    **{f"table{number}": {"side": SIDE, "fitted": FITTED} for number in range(4, 10)},
    "fig2": {"side": SIDE, "fitted": FITTED, "shrink": {}},
    "branin": {
        "data": "branin", "points": 100, "steps": 50, "delta": 1e-5, "projected": 10, "side": SIDE, "fitted": FITTED,
        "epsilons": (e(1.1), e(0.9), e(0.0)),
    },
    "regret": {
        "runs": 160, "side": SIDE, "other_sides": (5.0, 10.0), "fitted": FITTED, "cells": (2, 3),  # a coordinate
        "loans": {"projected": 15, "epsilons": (e(1.0), e(2.0), e(2.9))}, "margin": 0.01,
    },
}  # fmt: skip

NOISE: dict[str, str] = dict.fromkeys(PRINTED, "none") | {"regret": "float"}  # none protects: a random matrix alone

SMALL: dict[str, Any] = {"runs": 4, "steps": 10, "points": 20, "fitted": 60}
QUICK: dict[str, dict[str, Any]] = dict.fromkeys(PRINTED, SMALL) | {
    "fig2": {"runs": 4, "fitted": 60, "shrink": {"steps": 10, "points": 20}},
}  # fmt: skip
