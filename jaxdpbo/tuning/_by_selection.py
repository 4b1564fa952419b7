"""The route "selection": private trainings with settings drawn at random, of which the best alone leaves."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo.privacy import accounting, calibration, guarantee
from jaxdpbo.privacy.accounting import stage
from jaxdpbo.tuning import _routes, selection
from jaxdpbo.tuning._routes import TRAIN, VALIDATION
from jaxdpbo.tuning.training import Rows

NAME = "selection"
MEAN_RUNS, ETA = 24.0, 3.0  # ``scripts/bench repetitions``: with eta = 0 one run in three is alone, a setting at random


def tuned(asked: _routes.Asked, rows: Rows, validation: Rows | None, law: accounting.Repetitions) -> _routes.Tuned:
    """As ``tune_and_train`` says."""
    given = validation is not None
    rows, validation = _routes.held_out(rows, validation)
    records, users = len(rows[1]), len(validation[1])
    level, noises, costs = calibrated(asked, records, law)
    budget = calibration.budget(level, _routes.NOISE, users=users, steps=1, dimension=1, dtype=jnp.result_type(float))
    stated = calibration.statement(budget, VALIDATION)

    def run(number: int, key: jax.Array) -> tuple[Any, float]:
        of_training, of_score = jax.random.split(key)
        model = asked.training.fit(deepcopy(asked.settings[number]), noises[number], rows, of_training)
        return model, _routes.score(asked.training, model, validation, budget, of_score)

    of_noise = max(asked.training.total_variation(each, records) for each in asked.settings)
    found = selection.private_selection(
        run,
        range(len(asked.settings)),
        mean=law.mean,
        eta=law.eta,
        costs={TRAIN: costs, VALIDATION: stage.gaussian(stated.level, "a noised score")},
        delta=asked.delta,
        run_total_variation=of_noise + stated.total_variation,
        assumptions=(*asked.training.assumptions(), *((guarantee.ROWS_APART,) if given else ())),
        on_error=asked.on_error,
        recordings=asked.recordings,
        key=asked.key,
        insecure_key=asked.insecure_key,
    )
    return _routes.Tuned(found.output, asked.settings[found.setting], noises[found.setting], found.guarantees, NAME)


def calibrated(
    asked: _routes.Asked, records: int, law: accounting.Repetitions
) -> tuple[float, list[float], list[stage.Stage]]:
    """The GDP level of a score, the noise of a training with each setting, and what one costs; no data."""
    level, delta = _largest_mu(law, asked.epsilon, asked.delta), asked.delta / law.mean

    def of_all(costs: Sequence[stage.Stage]) -> float:
        return selection.statements(law, asked.settings, {TRAIN: costs}, asked.delta)[0].level

    noises, costs = _routes.calibrated(asked, records, accounting.gdp_epsilon(level, delta), delta, of_all)
    return level, noises, costs


def _largest_mu(law: accounting.Repetitions, epsilon: float, delta: float) -> float:
    """Of one run, so that the selection is within ``(epsilon, delta)``."""
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        fits = accounting.selection_epsilon(law, partial(accounting.gdp_delta, middle), delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low
