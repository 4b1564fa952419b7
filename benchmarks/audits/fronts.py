"""A front with all its models and errors: of Gaussian trainings that a search chose, everything is looked at."""

from typing import Any

import jax
import numpy as np

from benchmarks.audits.rows import Row, Scores, claim
from jaxdpbo import accounting
from jaxdpbo.accounting import stage
from jaxdpbo.tuning import fitting
from jaxdpbo.tuning import front as _front

RECORDS, EPSILON, DELTA = 50, 8.0, 1e-3
SETTINGS, LEVELS, COUNT = (0.2, 0.8), np.array([2.0, 3.0, 4.0]), 6
SLOWER = 25  # a search of its own for every trial


class Count:
    """A training whose model is how many rows are 1, and noise; whose losses are its setting."""

    def cost(self, setting: Any, noise: float, records: int) -> stage.Stage:
        return stage.gaussian_stage(1 / noise, "a noised count")

    def fit(self, setting: Any, noise: float, rows: Any, key: jax.Array) -> tuple[float, Any]:
        return float(np.sum(rows[0])) + noise * float(jax.random.normal(key)), setting

    def losses(self, model: Any, rows: Any) -> np.ndarray:
        return np.full(len(rows[1]), model[1])


def rows() -> list[Row]:
    """Gaussian trainings, so Gaussian DP without a delta."""
    statement = claim("gdp", accounting.gdp_mu(EPSILON, DELTA))
    return [Row("private_front, all models and errors", statement, _models, slower=SLOWER)]


def _models(trials: int) -> Scores:
    """The likelihood ratio of all that left, every model by its noise, of no row that is 1 and of one."""
    asked = fitting.TuningArguments(Count(), SETTINGS, EPSILON, DELTA, None, None, True, "raise")  # pyright: ignore
    plan, labels = _front._plan(asked, LEVELS, COUNT, DELTA, RECORDS, RECORDS), np.zeros(RECORDS, int)
    scores = []
    for ones in (0, 1):
        features = (np.arange(RECORDS) < ones).astype(float)[:, None]
        splits = (features, labels), (0 * features, labels)
        fronts = (_front._search(plan, splits, jax.random.key(2 * trial + ones)) for trial in range(trials))
        scores.append(np.array([_ratio(front) for front in fronts]))
    return scores[0], scores[1]


def _ratio(front: _front.Front) -> float:
    return sum((model[0] - 0.5) / noise**2 for model, noise in zip(front.models, front.noises.tolist(), strict=True))
