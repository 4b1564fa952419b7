"""The route "trials": cheap private trainings show how far to go, one more goes there (Panda et al. 2024).

How far DP-SGD had best go, learning rate times steps, is close to linear in the budget: trials at two small budgets
find the best there, a line through the two the best at the budget that is left. All of it from noised scores.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.tuning_peers.trainings import Reaching
from jaxdpbo import accounting
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, composed_guarantee, release_key
from jaxdpbo.noise import calibration
from jaxdpbo.tuning import fitting, selection
from jaxdpbo.tuning.fitting import TRAIN, VALIDATION
from jaxdpbo.tuning.training import Rows, Setting

SHARE = 0.25  # of mu^2, for all trials
COUNT = 4  # settings that are tried, at either budget
RATIO = 2.0  # of the second budget's mu to the first's


def tune(asked: fitting.TuningArguments, rows: Rows, validation: Rows | None = None) -> fitting.TuningResult:
    """Scored on ``validation``; on a fifth of ``rows`` where not given."""
    training = asked.training
    if not isinstance(training, Reaching):
        raise TypeError("training must have reach() and with_reach() for route='trials', as Reaching has")
    has_validation = validation is not None
    rows, validation = fitting.split_rows(rows, validation)
    records, users, count = len(rows[1]), len(validation[1]), min(COUNT, len(asked.settings))
    whole = accounting.gdp_mu(asked.epsilon, asked.delta)
    least = whole * np.sqrt(SHARE / (count * (1 + RATIO**2)))
    levels = [float(least), float(RATIO * least), float(whole * np.sqrt(1 - SHARE))]
    small = [fitting.noises(asked, records, accounting.gdp_epsilon(mu, asked.delta), asked.delta) for mu in levels[:2]]
    tried = [fitting.worst_stage("a trial", fitting.costs(asked, noises, records)) for noises in small]

    def total_cost(costs: Sequence[stage.Stage]) -> accounting.Total:
        return accounting.total([*tried * count, fitting.worst_stage("the training", costs)], asked.delta)

    noises, costs = fitting.calibrate(
        asked,
        records,
        accounting.gdp_epsilon(levels[2], asked.delta),
        asked.delta,
        lambda training_costs: total_cost(training_costs).epsilon,
    )
    score_noise = calibration.sum_noise(
        whole, fitting.NOISE, users=users, steps=2 * count, dimension=1, dtype=jnp.result_type(float)
    )
    of_scores = composed_guarantee.gdp_guarantee(score_noise, VALIDATION)
    of_noise = (2 * count + 1) * max(training.total_variation(setting, records) for setting in asked.settings)
    scored = accounting.total([stage.gaussian_stage(of_scores.level, "noised scores")], asked.delta)
    rests = (assumptions.RANDOM_BITS, assumptions.FAILS_BY_NOISE, *training.assumptions())
    rests += (assumptions.ROWS_APART,) if has_validation else ()
    stated = (
        composed_guarantee.guarantee_from_total(total_cost(costs), TRAIN, assumptions=rests, total_variation=of_noise),
        composed_guarantee.guarantee_from_total(
            scored, VALIDATION, assumptions=rests, total_variation=of_scores.total_variation
        ),
    )
    secret, first = release_key.for_release(asked.key, stated[0], asked.insecure_key)
    stated = (first, *(guarantee.assuming(*first.assumptions) for guarantee in stated[1:]))
    of_draw, of_trials, of_last, of_last_globals = jax.random.split(secret, 4)
    selection.charge_selection(asked.ledgers, stated, "tune and train by trials", asked.settings)
    drawn = np.asarray(jax.random.permutation(of_draw, len(asked.settings)))[:count]
    best = []
    for tier, of_tier in enumerate(small):
        scores = []
        for place, number in enumerate(drawn):
            of_training, of_score, of_globals = jax.random.split(jax.random.fold_in(of_trials, count * tier + place), 3)
            setting = asked.settings[number]
            model = fitting.fit_silently(asked, setting, of_tier[number], rows, of_training, of_globals)
            scores.append(fitting.release_score_silently(asked, model, validation, score_noise, of_score))
        best.append(int(drawn[int(np.argmin(scores))]))
    setting = _extrapolate(training, asked.settings, best, levels, records)
    model = fitting.fit_silently(asked, setting, noises[best[1]], rows, of_last, of_last_globals)
    return fitting.TuningResult(model, setting, noises[best[1]], stated)


def _extrapolate(
    training: Reaching, settings: Sequence[Setting], best: Sequence[int], levels: Sequence[float], records: int
) -> Setting:
    """The second trials' best, as far as the line says, within what the list of settings reaches."""
    reaches = [training.reach(setting, records) for setting in settings]
    first, second = (reaches[number] for number in best)
    slope = (second - first) / (levels[1] - levels[0])
    reach = float(np.clip(second + slope * (levels[2] - levels[1]), min(reaches), max(reaches)))
    return training.with_reach(settings[best[1]], reach, records)
