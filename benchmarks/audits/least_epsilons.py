"""Attacks on ``least_epsilon``: the largest epsilon holds for every release, the smallest does not."""

from functools import lru_cache
from typing import Any
from unittest import mock

import jax
import numpy as np

from benchmarks.audits.rows import Row, Scores, claim
from jaxdpbo import tuning
from jaxdpbo.accounting import stage
from jaxdpbo.tuning import least_epsilon_search

RECORDS, LEVELS, DELTA = 50, (0.5, 4.0), 1e-4
OPTIONS = {"error": 0.5, "epsilons": LEVELS, "validation_epsilon": 8.0, "mean": 4.0, "eta": 0.0, "insecure_key": True}
SLOWER = 8  # every trial is a call; with fewer than some hundred the threshold is luck


class RandomisedResponse:
    """A randomised response to "is a row 1?", of epsilon ``1 / noise``; a training passes if the response is yes."""

    def cost(self, setting: Any, noise: float, records: int) -> stage.Stage:
        return stage.pure_stage(1 / noise, "a response")

    def total_variation(self, setting: Any, records: int) -> float:
        return 0.0

    def assumptions(self) -> tuple[str, ...]:
        return ()

    def expect(self, rows: Any) -> None:
        pass

    def fit(self, setting: Any, noise: float, rows: Any, key: jax.Array) -> bool:
        truthful = jax.random.uniform(key) < 1 / (1 + np.exp(-1 / noise))
        return bool(np.any(rows[0])) == bool(truthful)

    def losses(self, model: Any, rows: Any) -> np.ndarray:
        return np.full(len(rows[1]), 0.0 if model else 1.0)


def rows() -> list[Row]:
    """Two claims about the same call: the largest epsilon, and the smallest, which is false at a higher level."""
    largest, least = (claim("dp", level, delta=DELTA) for level in (LEVELS[-1], LEVELS[0]))
    return [
        Row("least_epsilon, all that is released", largest, _releases, least=0.15, slower=SLOWER),
        Row("least_epsilon, its least epsilon for all releases", least, _releases, holds=False, slower=SLOWER),
    ]


@lru_cache(maxsize=1)  # of both rows
def _releases(trials: int) -> Scores:
    """Scores on rows without a 1, and with a single 1: the epsilon of the released response, -1 without a release."""
    plans: list[Any] = []
    calibrate, scores = least_epsilon_search._plan, []

    def plan(*public: Any) -> Any:
        """Calibrate the noise once, for all trials."""
        plans.extend([] if plans else [calibrate(*public)])
        return plans[0]

    with mock.patch.object(least_epsilon_search, "_plan", plan):
        for ones in (0, 1):
            features = (np.arange(RECORDS) < ones).astype(float)[:, None]
            scores.append(np.array([_score(features, jax.random.key(2 * trial + ones)) for trial in range(trials)]))
    return scores[0], scores[1]


def _score(features: np.ndarray, key: jax.Array) -> float:
    held_out = 2 * RECORDS  # of which half choose
    rows, validation = (features, np.zeros(RECORDS)), (np.zeros((held_out, 1)), np.zeros(held_out))
    result = tuning.least_epsilon(
        RandomisedResponse(), rows, [0.0], validation=validation, delta=DELTA, key=key, **OPTIONS
    )
    return -1.0 if result.noise is None else 1 / result.noise
