"""What is drawn is what is charged: every algorithm that holds users' values, played on neighbours.

By ``testing.charge_checks``, which ``testing.check_algorithm`` calls; and the worst neighbour costs 95 % of the
guarantee at least, or users would pay for nothing. ``test_whole_calls`` does the same for whole calls.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import conformance
from protocol_cases import CASES, subject_of

from jaxdpbo import Recording, ledger, phases, private_choice, transforms
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.guarantee import guarantees
from jaxdpbo.guarantee import recording as _recording
from jaxdpbo.noise import mechanisms, private_mean, totals, wide_integers
from jaxdpbo.testing import charge_checks, draw_costs, tape

ROUTES = {
    name: case
    for name, case in CASES.items()
    if case.private and (case.algorithm.contribute is not None or name == "dp_gp_ucb, in order")
}
ATTAINED = {
    "dp_gibo, recent, private clip": 0.8,  # its first step counts gradients and adds them: none moves both most
    "private_linear": 0.8,  # the angle between two users' features decides, and few neighbours have the worst
}


@pytest.fixture(scope="module")
def fresh():
    with tape.running() as fresh:
        yield fresh


@pytest.fixture
def bases(trials):
    """Data sets, each with 200 neighbours."""
    return trials("neighbouring pairs of a route", 200, 10_000, 0) // 200


def cost_of(stated):
    """The oracle's cost in the notion of a guarantee."""
    return draw_costs.level_of if stated.notion == "gdp" else draw_costs.epsilon_of


def check(case, fresh, attained=0.95, bases=1) -> dict[str, Any]:
    """A row of the table of routes; an AssertionError unless the draws of a run cost what its guarantee says."""
    subject = subject_of(case)
    stated, (draws, worst, _) = subject.stated, charge_checks.check_charge(subject, fresh, bases)
    assert worst >= attained * stated.level, f"{worst} was drawn, less than {stated.level} is charged"
    return {
        "draws": tape.summary(draws), "neighbours": charge_checks.NEIGHBOURS * bases, "composed": f"{worst:.4f}",
        "stated": f"{stated.notion} {stated.level:.4f}",
    }  # fmt: skip


@pytest.mark.parametrize("name", ROUTES)
def test_what_is_drawn_is_what_is_charged(name, fresh, bases, record_property):
    row = check(ROUTES[name], fresh, ATTAINED.get(name, 0.95), bases)
    record_property("conformance", {"route": name} | row)


@pytest.mark.parametrize("name", ["dp_gp_ucb", "dp_gp_ucb, exact utilities"])
def test_a_prior_averaged_release_draws_what_it_states(name, fresh, bases):
    """Between states as far apart as the sensitivity of its theorem: ``test_dp_gp_ucb_theory`` is about that."""
    case, worst = CASES[name], 0.0
    config, stated = case.config(1.0), case.algorithm.privacy(case.config(1.0))
    point, value = float(config.point_sensitivity), float(config.value_sensitivity)
    state = compiled_steps.begin(case.algorithm, jax.random.key(0), config).state
    rng, raw = np.random.default_rng(0), state.raw
    state = state._replace(public=state.public._replace(step=jnp.asarray(config.steps, jnp.int32)))

    def moved(means, utilities):
        posterior = raw.posterior._replace(mean=jnp.asarray(means))
        return state._replace(raw=raw._replace(posterior=posterior, utilities=jnp.asarray(utilities)))

    means, utilities = rng.normal(size=raw.posterior.mean.shape), rng.normal(size=config.steps)
    release_key, recording = jax.random.key(1), fresh()
    recording.record(compiled_steps.release, case.algorithm, release_key, config, moved(means, utilities))
    for number in range(200 * bases):
        share = rng.uniform(0.99, 1.0) if number % 2 else rng.uniform()
        far = moved(
            means + share * point * rng.choice([-1, 1], means.shape), utilities + share * value * rng.choice([-1, 1])
        )
        _, pairs = recording.play(compiled_steps.release, case.algorithm, release_key, config, far)
        worst = max(worst, draw_costs.epsilon_of(tape.terms(pairs)))
    assert 0.95 * stated.level <= worst <= stated.level * (1 + 1e-6)


BALL = {"radius": 4.0, "scale": 1.0, "epsilon": 2.0}
BALLS = {
    "product_laplace": transforms.product_laplace(centre=[0.0] * 3, **BALL),
    "planar_laplace": transforms.planar_laplace(centre=[0.0] * 2, **BALL),
    "gaussian": transforms.gaussian(centre=[0.0] * 3, delta=1e-5, **BALL),
    "private_projection": transforms.private_projection(centre=[0.0] * 3, projected=2, delta=1e-5, **BALL),
}


@pytest.mark.parametrize("kind", BALLS)
def test_a_row_of_any_numbers_costs_what_its_transform_states(kind, fresh, bases):
    """Of transforms with a radius, which protect rows however far apart they are: every pair has its own rows."""
    config, rng, worst = BALLS[kind], np.random.default_rng(0), 0.0
    stated, dimension = config.guarantee, len(config.centre)
    for number in range(200 * bases):
        row = charge_checks.extremes(rng, dimension) if number % 2 else 1e9 * rng.normal(size=dimension)
        other = charge_checks.extremes(rng, dimension) if number % 4 == 1 else -row
        recording, kept = fresh(), rng.normal(size=(1, dimension))
        curate = partial(transforms.curate, jax.random.key(2), config, insecure_key=True)
        recording.record(curate, np.concatenate([row[None], kept]))
        _, pairs = recording.play(curate, np.concatenate([other[None], kept]))
        worst = max(worst, cost_of(stated)(tape.terms(pairs)))
    assert 0.95 * stated.level <= worst <= stated.level * (1 + 1e-6)


@pytest.mark.parametrize("name", ROUTES)
def test_a_charge_is_the_whole_guarantee(name, tmp_path, record_property):
    """The ledger adds up the level, the delta and the total variation, none rounded down."""
    case, path = ROUTES[name], tmp_path / "ledger"
    stated = case.algorithm.privacy(case.config(1.0))
    ledger.create(path, notion=stated.notion, level=9, delta=0.5, total_variation=0.5, protects=stated.protects)
    for run in ("one", "two"):
        _recording.charge_run(Recording(path, run), "a run", stated, run)
    spent = ledger.account(path).spent
    charged = Fraction(stated.level) ** (2 if stated.notion == "gdp" else 1)
    assert Fraction(0) <= spent.cost - 2 * charged <= Fraction(1, 10**12)
    assert spent.total_variation >= 2 * Fraction(stated.total_variation)
    assert spent.delta >= 2 * Fraction(stated.delta)
    level = float(spent.cost / 2) ** (0.5 if stated.notion == "gdp" else 1)
    record_property("conformance", {"route": name, "charged": f"{stated.notion} {level:.4f}"})


@pytest.mark.parametrize("level", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("total_variation", [0.0, 1e-12, 1e-10])
def test_an_epsilon_pays_for_the_total_variation_and_for_no_more(level, total_variation):
    stated = guarantees.guarantee("gdp", level, "replace_one", "users", total_variation=total_variation)
    epsilon = stated.epsilon(1e-5)
    assert conformance.delta_of(level, epsilon, total_variation) <= 1e-5 * (1 + 1e-9)
    assert conformance.delta_of(level, 0.999 * epsilon, total_variation) > 1e-5


def restate(case, factor):
    """The same draws under another level."""

    def privacy(config):
        stated = case.algorithm.privacy(config)
        return replace(stated, level=factor * stated.level, parts=(), stages=(), also=None)

    return case._replace(algorithm=case.algorithm._replace(privacy=privacy))


def count_twice(case):
    """Every user adds to the sum twice."""

    def contribute(*arguments):
        total, memory = case.algorithm.contribute(*arguments)
        return total._replace(whole=totals.add(total.whole, total.whole)), memory

    return case._replace(algorithm=case.algorithm._replace(contribute=contribute))


def half_the_noise(case, monkeypatch):
    real = private_mean._perturb
    monkeypatch.setattr(
        private_mean, "_perturb", lambda key, budget, *rest: real(key, replace(budget, sigma=budget.sigma // 2), *rest)
    )
    return case


def noise_in_floats(case, monkeypatch):
    """Of the right size, and not exact."""

    def perturb(key, budget, total, deviation):
        mean = wide_integers.to_float(total, deviation.dtype)
        noised = mechanisms.gaussian(key, mean, jnp.asarray(float(budget.sigma), mean.dtype))
        return wide_integers.widen(jnp.rint(noised).astype(jnp.int32))

    monkeypatch.setattr(private_mean, "_perturb", perturb)
    return case


def releases_forgotten(case, monkeypatch):
    """Each evaluation of a step is noised as if it were the only one."""

    def perturb_losses(key, budget, total, low, high):
        level = budget.mu / budget.steps**0.5
        return private_mean._perturb(key, budget, total, (high - low) / budget.users / level)

    monkeypatch.setattr(private_mean, "perturb_losses", perturb_losses)
    return case


def first_choice_alone(case):
    """Of several choices only the first is charged."""
    alone = phases.make_algorithm(private_choice.design)

    def privacy(config):
        return alone.privacy(replace(config, phases=config.phases[:1]))

    return case._replace(algorithm=case.algorithm._replace(privacy=privacy))


MORE, LESS = "more than privacy states", "less than .* is charged"
PLANTS = {
    "a step is not charged": ("dp_gd", lambda case, _: restate(case, (2 / 3) ** 0.5), MORE),
    "a step too many is charged": ("dp_gd", lambda case, _: restate(case, (4 / 3) ** 0.5), LESS),
    "users are counted twice": ("dp_gd", lambda case, _: count_twice(case), MORE),
    "half of the noise": ("dp_gd", half_the_noise, MORE),
    "noise in floats": ("dp_gibo", noise_in_floats, "float Gaussian"),
    "releases are forgotten": ("private evaluations, random search", releases_forgotten, MORE),
    "a choice is charged of several": (
        "private choices",
        lambda case, _: first_choice_alone(case),
        MORE,
    ),
    "half of the scores are charged": (
        "private evaluations",
        lambda case, _: restate(case, 0.5**0.5),
        MORE,
    ),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_seen(plant, fresh, monkeypatch):
    name, change, said = PLANTS[plant]
    jax.clear_caches()
    case = change(ROUTES[name], monkeypatch)
    try:
        with pytest.raises(AssertionError, match=said):
            check(case, fresh)
    finally:
        monkeypatch.undo()
        jax.clear_caches()
