"""Private selection, whole: of randomised responses, the best of a hidden number leaves."""

import math

import jax
import numpy as np

from benchmarks.audits.rows import Row, Scores, claim
from jaxdpbo import accounting, tuning
from jaxdpbo.accounting import stage

RARE, FACTOR = 0.2, 4.0  # how often one run succeeds under one neighbour, and how much more often under the other
MEAN, DELTA = 4.0, 1e-6
SLOWER = 10  # a Python call for every run of every trial


def rows() -> list[Row]:
    statement = claim("dp", _stated_epsilon(), delta=DELTA)
    return [Row("private_selection, the winner", statement, _winners, least=0.15, slower=SLOWER)]


def _stated_epsilon() -> float:
    return tuning.selection.base_guarantees(accounting.repetitions(0.0, MEAN), [0], _cost(), DELTA)[0].level


def _cost() -> dict[str, stage.Stage]:
    def profile(epsilon: float) -> float:
        """Of one run, both directions."""
        pairs = [(RARE, RARE * FACTOR), (1 - RARE, 1 - RARE * FACTOR)]
        directions = pairs, [pair[::-1] for pair in pairs]
        return max(sum(max(a - math.exp(epsilon) * b, 0.0) for a, b in direction) for direction in directions)

    return {"them": stage.curve_stage(profile)}


def _winners(trials: int) -> Scores:
    scores = []
    for which, probability in enumerate((RARE, RARE * FACTOR)):

        def run(_, key, probability=probability):
            drawn = np.random.default_rng(np.asarray(jax.random.key_data(key))).random()
            return None, float(drawn >= probability)

        options = {"mean": MEAN, "costs": _cost(), "delta": DELTA, "insecure_key": True}
        keys = (jax.random.key(2 * trial + which) for trial in range(trials))
        scores.append(np.array([tuning.private_selection(run, [0], key=key, **options).score for key in keys]))
    return scores[0], scores[1]
