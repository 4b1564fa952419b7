"""``scripts/bench selection_prices``: epsilons of private selections beside one run, proved and attained, in seconds.

Runs are Gaussian mechanisms; nothing is trained. A price is an epsilon divided by the epsilon of one run, at the same
delta.
"""

from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import report
from jaxdpbo import accounting, tuning
from jaxdpbo import accounting as _accounting

DELTA = 1e-5
LEVELS = tuning.least_epsilon_search.EPSILONS
LAWS = tuple((eta, mean) for eta in (0.0, 0.5, 1.0, 3.0) for mean in (10.0, 20.0, 50.0, 100.0, 150.0, 200.0))
PASSING = 0.3  # the probability that one run reaches an error, for the reach of a law


def main(quick: bool) -> None:
    laws = [_law(*law) for law in tqdm(LAWS[:: 5 if quick else 1], unit="law")]
    report.print_table(
        ("eta", "mean", *(f"price at {level:g}" for level in LEVELS), "nothing", f"reach at {PASSING:g}", "gap"),
        [
            (
                f"{law['eta']:g}", f"{law['mean']:g}", *(f"{price:.2f}" for price in law["price"]),
                f"{law['nothing']:.2f}", f"{law['reach']:.2f}",
                f"{max(high / low for high, low in zip(law['proved'], law['attained'], strict=True)):.3f}",
            )
            for law in laws
        ],
    )  # fmt: skip
    report.write_bench(
        "selection_prices",
        {"laws": laws},
        quick=quick,
        seeds="none: nothing is drawn",
        noise="none",
        dtype="float64",
        chosen={"epsilons": list(LEVELS), "delta": DELTA, "passing": PASSING},
    )


def _law(eta: float, mean: float) -> dict[str, Any]:
    """Prices of ``least_epsilon`` by level, and epsilons of a selection at each level alone."""
    law = accounting.repetitions(eta, mean)
    runs = [partial(accounting.gdp_delta, accounting.gdp_mu(level, DELTA)) for level in LEVELS]
    costs = accounting.ex_post_epsilons(law, [1 / len(runs)] * len(runs), runs, DELTA)
    missed = float(_accounting.selection.generating_function(law, np.array([1 - PASSING]))[0])
    return {
        "eta": eta,
        "mean": mean,
        "price": [cost / level for cost, level in zip(costs.epsilons, LEVELS, strict=True)],
        "nothing": costs.nothing,
        "reach": 1 - missed,
        "proved": [accounting.selection_epsilon(law, run, DELTA) for run in runs],
        "attained": [accounting.attained_selection_epsilon(law, run, DELTA) for run in runs],
    }
