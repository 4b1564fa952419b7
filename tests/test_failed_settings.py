"""A loss that is not finite counts as the worst end of the public range, in means and in choices."""

import jax.numpy as jnp
import numpy as np
import optuna
import pytest

from jaxdpbo import PrivateObjective, Search, minimize, separable, space
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.noise import calibration, choice, private_mean, wide_integers

BOX = {"x": space.real(0, 1)}
RECORDS = np.random.default_rng(0).normal(0.3, 0.1, 20_000)
ODD = (np.nan, np.inf, -np.inf)


def losses(params, records):
    """In [0.6, 0.9] for settings up to 0.5; others do not converge."""
    if params["x"] > 0.5:
        return np.full(len(records), np.nan)
    return 0.6 + 0.3 * np.minimum(abs(records - params["x"]), 1)


@pytest.mark.daily("choice", "evaluations")
@pytest.mark.parametrize("method", ["in_order", "choice", "evaluations"])
def test_no_search_answers_with_a_setting_that_fails(method):
    search = Search(method=method, steps=12)
    run = minimize(losses, RECORDS, BOX, loss_range=(0, 1), epsilon=3, delta=1e-7, search=search)
    assert run.release.params["x"] <= 0.5


def test_a_failed_evaluation_has_the_largest_value():
    objective = PrivateObjective(losses, RECORDS, users=len(RECORDS), mu=2.0, evaluations=2, loss_range=(0, 1))
    failed, worked = objective({"x": 0.9}), objective({"x": 0.3})
    assert failed == pytest.approx(1.0, abs=6 * objective.deviation)
    assert worked == pytest.approx(0.62, abs=0.01 + 6 * objective.deviation)


def test_a_study_answers_with_a_setting_that_works():
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = private_study(
        optuna.create_study(sampler=sampler), lambda trial: {"x": trial.suggest_float("x", 0, 1)}, losses, RECORDS,
        users=len(RECORDS), evaluations=12, loss_range=(0, 1), epsilon=3, delta=1e-7,
    )  # fmt: skip
    study.optimize()
    assert study.best().params["x"] <= 0.5


@pytest.mark.parametrize("noise", ["exact", "float", "none"])
def test_means_and_choices_have_one_rule(noise):
    """A user's loss of any odd value adds what the largest adds, at each point by itself."""
    mu = np.inf if noise == "none" else 1.0
    drawn = calibration.sum_noise(mu, noise, users=4, steps=1, dimension=1, dtype=float)
    low, high = jnp.asarray(2.0), jnp.asarray(5.0)
    worst = private_mean.sum_clipped_losses(drawn, jnp.full((1, 1), 5.0), low, high)[0]
    choices = choice.choice_noise(mu, noise, dtype=float)
    for value in ODD:
        total = private_mean.sum_clipped_losses(drawn, jnp.full((1, 1), value), low, high)[0]
        assert _number(total) == _number(worst) != 0
        assert private_mean.clip_losses(np.array([value]), 2.0, 5.0) == 5.0  # on the host, of public records
        chosen = choice.sum_losses(choices, jnp.array([[2.0], [value]]), high - low)
        assert _number(chosen) == _number(choice.sum_losses(choices, jnp.array([[2.0], [5.0]]), high - low))


def test_a_block_that_fails_for_jax_has_the_largest_loss():
    def learner(params, train, held_out):
        return jnp.where(params["x"] > 0.5, jnp.nan, jnp.mean((held_out - params["x"]) ** 2) + 0.0 * jnp.sum(train))

    in_blocks = separable.blocks(learner, len(RECORDS), 100, traceable=True)
    run = minimize(in_blocks, RECORDS, BOX, loss_range=(0, 1), mu=2.0, search=Search(method="in_order", steps=8))
    assert run.release.params["x"] <= 0.5


def _number(total):
    return np.asarray(wide_integers.to_float(total, float) if isinstance(total, wide_integers.Wide) else total).tolist()
