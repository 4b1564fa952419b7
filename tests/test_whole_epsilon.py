"""What was asked for is spent: the guarantee of every method states at least 98 % of the epsilon, and never more."""

import math

import jax
import numpy as np
import pytest
from option_groups import group_options
from oracles import conformance

import jaxdpbo
from jaxdpbo import Recording, Search, accounting, drivers, ledger, space
from jaxdpbo.accounting import requested_budget
from jaxdpbo.drivers import methods

LEAST = 0.98
BOX = {"low": [0.0, 0.0], "high": [1.0, 1.0]}
MIXED = space.Space({"rate": space.real(1e-3, 1.0, log=True), "kind": ["a", "b", "c"]})
BUDGETS = [(0.1, 1e-6), (0.3, 1e-3), (1.0, 1e-5), (3.0, 1e-7), (8.0, 1e-5)]
USERS = 900


def previewed(epsilon, delta, *, loss_range=(0.0, 4.0), search_space=BOX, **search):
    return jaxdpbo.preview(
        users=USERS, epsilon=epsilon, delta=delta, space=search_space, loss_range=loss_range, search=Search(**search)
    ).guarantee


@pytest.mark.daily("*-0.2-True", "choice-0.2-False", "in_order-0.0-True")
@pytest.mark.parametrize(("share", "wide"), [(0.0, True), (0.2, True), (0.2, False)])
@pytest.mark.parametrize("method", methods.METHODS)
def test_every_method_spends_the_epsilon(method, share, wide):
    for epsilon, delta, noise in [(*budget, "exact") for budget in BUDGETS] + [(1.0, 1e-5, "float")]:
        with jax.enable_x64(wide):
            stated = previewed(epsilon, delta, method=method, estimate_share=share, noise=noise)
        assert stated.notion == "dp"
        assert LEAST * epsilon <= stated.level <= epsilon
        assert stated.epsilon(delta) <= stated.level
        assert stated.delta + (1 + math.exp(stated.level)) * stated.total_variation <= delta
        assert stated.also[0] == "gdp"


@pytest.mark.parametrize("method", ["auto", "choice", "in_order", "evaluations"])
def test_in_a_mixed_space_too(method):
    stated = previewed(1.0, 1e-5, method=method, search_space=MIXED)
    assert LEAST <= stated.level <= 1.0


def test_a_range_found_privately_is_paid_for_out_of_the_epsilon():
    for method in ("local", "evaluations"):
        stated = previewed(1.0, 1e-5, method=method, loss_range="private")
        assert LEAST <= stated.level <= 1.0


@pytest.mark.parametrize(("epsilon", "delta"), [(22.0, 1e-12), (26.0, 1e-6), (26.0, 1e-5), (40.0, 1e-4)])
def test_a_level_of_which_nothing_is_proved_is_too_dear_and_no_error(epsilon, delta):
    for method in ("start_then_local", "choice", "in_order"):
        stated = previewed(epsilon, delta, method=method)
        assert LEAST * epsilon <= stated.level <= epsilon
    assert previewed(1.0, jaxdpbo.LargeDelta(1 - 1e-6), method="in_order").level <= 1.0


def test_a_stated_pair_is_a_pair_that_is_proved():
    """The stated delta of a Gaussian run was below that of its epsilon, by 1e-12 of it."""
    for method in ("local", "evaluations"):
        for epsilon, delta in BUDGETS:
            stated = previewed(epsilon, delta, method=method)
            assert accounting.gdp_delta(stated.also[1], stated.level) <= stated.delta


def test_a_single_choice_has_the_range_epsilon_and_no_delta():
    stated = previewed(1.0, 1e-5, method="in_order")
    assert (stated.notion, stated.level, stated.delta) == ("dp", 1.0, 0.0)
    assert stated.total_variation <= 2.0**-128
    assert stated.also == ("gdp", accounting.bounded_range_mu(1.0))


def test_a_single_choice_for_a_large_delta_has_more_than_its_range():
    """With delta near 1 / n the composed epsilon is far below the range."""
    stated = previewed(0.02, jaxdpbo.LargeDelta(0.05), method="in_order")
    assert LEAST * 0.02 <= stated.level <= 0.02
    ((_, _, eta),) = stated.stages
    assert eta > 0.05


@pytest.mark.parametrize("method", ["choice", "start_then_local", "in_order"])
def test_no_attack_by_the_worst_pairs_shows_more_than_was_asked_for(method):
    for share in (0.0, 0.2):
        stated = previewed(1.0, 1e-5, method=method, estimate_share=share)
        etas = [level for _, kind, level in stated.stages if kind == "bounded_range"]
        level = math.hypot(*(level for _, kind, level in stated.stages if kind == "gaussian"))
        assert 0.93 <= conformance.attained_epsilon(level, etas, 1e-5) <= 1.0  # of five choices: no bound is closer


def test_with_mu_the_level_is_the_one_asked_for():
    stated = jaxdpbo.preview(
        users=USERS, mu=0.5, space=BOX, loss_range=(0, 4), search=Search(method="choice")
    ).guarantee
    assert stated.notion == "gdp"
    assert 0.98 * 0.5 <= stated.level <= 0.5


def losses(point, data):
    return np.abs(data[:, 0] - point[0])


def spend(path, method, **options):
    chosen = {"epsilon": 1.0, "delta": 1e-5, "steps": 3, "batch": 2, "loss_range": (0.0, 1.0)} | options
    records = np.linspace(0, 1, USERS)[:, None]
    return jaxdpbo.minimize(
        losses, records, BOX, ledger=Recording(path, method), **group_options(method=method, traceable=False, **chosen)
    )


@pytest.mark.daily("in_order")
@pytest.mark.parametrize("method", ["in_order", "choice"])
def test_a_ledger_of_its_notion_pays_the_stated_epsilon_and_one_of_gdp_the_implied_level(method, tmp_path):
    implied = requested_budget.requested_mu(epsilon=1.0, delta=1e-5)
    whole = accounting.gdp_epsilon(implied, 1e-5)
    ledger.create(tmp_path / "dp", notion="dp", level=1, delta=1e-5)
    ledger.create(tmp_path / "gdp", epsilon=whole * (1 + 1e-9), delta=1e-5)
    by_epsilon = spend(tmp_path / "dp", method).guarantee
    by_level = spend(tmp_path / "gdp", method).guarantee
    assert (by_epsilon.notion, by_level.notion) == ("dp", "gdp")
    assert by_level.level <= implied < by_epsilon.also[1]
    for path, stated in (("dp", by_epsilon), ("gdp", by_level)):
        (entry,) = ledger.account(tmp_path / path).spends
        (event,) = entry.spend.events
        assert (event.type, float(event.level)) == (stated.notion, stated.level)
    again = spend(tmp_path / "dp", method)
    assert again.guarantee == by_epsilon
    with pytest.raises(ledger.BudgetExceeded):
        jaxdpbo.minimize(
            losses, np.linspace(0, 1, USERS)[:, None], BOX, ledger=Recording(tmp_path / "dp", "another"),
            **group_options(method=method, epsilon=0.1, delta=1e-6, loss_range=(0.0, 1.0), steps=3, traceable=False),
        )  # fmt: skip


def test_private_evaluations_state_the_epsilon_and_pay_a_gdp_ledger_by_level(tmp_path):
    options = {"users": USERS, "epsilon": 1.0, "delta": 1e-5, "evaluations": 2, "loss_range": (0.0, 1.0)}
    records = np.linspace(0, 1, USERS)[:, None]
    plain = drivers.PrivateObjective(losses, records, **options).guarantee
    ledger.create(tmp_path / "gdp", mu=1)
    by_level = drivers.PrivateObjective(losses, records, ledger=Recording(tmp_path / "gdp", "one"), **options).guarantee
    ledger.create(tmp_path / "dp", notion="dp", level=1, delta=1e-5)
    by_epsilon = drivers.PrivateObjective(
        losses, records, ledger=Recording(tmp_path / "dp", "one"), **options
    ).guarantee
    assert (plain.notion, by_level.notion, by_epsilon.notion) == ("dp", "gdp", "dp")
    assert LEAST <= by_epsilon.level == plain.level <= 1.0
    assert plain.also[1] == by_level.level
