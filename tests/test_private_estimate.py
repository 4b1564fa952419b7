"""The private estimate of the loss at an answer: its noise, its share, and the search it leaves as it was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options

import jaxdpbo
from jaxdpbo import (
    Space,
    accounting,
    dp_gibo,
    drivers,
    phases,
    private_choice,
    private_estimate,
    private_evaluations,
    space,
)
from jaxdpbo.drivers import methods
from jaxdpbo.guarantee import budget_calibration, composed_guarantee, guarantees
from jaxdpbo.guarantee.composed_guarantee import RELEASES

USERS = 400
RECORDS = np.random.default_rng(0).normal([1.0, 2.0], 0.2, (USERS, 2))
BOX = [(0.0, 4.0), (1.0, 3.0), (-1.0, 1.0)]
RANGE = (0.0, 4.0)
AFTER = phases.make_algorithm(phases.Phase(dp_gibo.algorithm), private_estimate.at_answer)
SEEDED = {"key": jax.random.key(0), "insecure_key": True}
GIVEN = {"users": USERS, "steps": 6, "batch": 2, "mu": 2.0, "loss_range": RANGE, "noise": "float", **SEEDED}


def loss(point, data):
    return jnp.sum(jnp.square(data - point[None, :2]), axis=1)


@pytest.mark.daily("local", "choice")
@pytest.mark.parametrize("method", ["local", "start_then_local", "choice"])
def test_a_share_is_spent_on_the_loss_at_the_answer(method):
    run = jaxdpbo.minimize(loss, RECORDS, BOX, **group_options(method=method, estimate_share=0.1, **GIVEN))
    levels = dict(run.guarantee.parts)
    assert levels[private_estimate.ESTIMATE] == pytest.approx(2.0 * np.sqrt(0.1), rel=1e-6)
    assert (
        accounting.compose_gdp_rounded_up(*levels.values()) == pytest.approx(run.guarantee.level) == pytest.approx(2.0)
    )
    true = float(np.mean(np.clip(loss(run.release.point, RECORDS), *RANGE)))
    deviation = 4 / USERS / levels[private_estimate.ESTIMATE]
    assert 0 < abs(float(run.release.loss) - true) < 4 * deviation
    np.testing.assert_array_equal(run.release.phases[-2].point, run.release.point)
    forecast = jaxdpbo.preview(
        users=USERS,
        space=BOX,
        mu=2.0,
        loss_range=RANGE,
        search=jaxdpbo.Search(steps=6, batch=2, method=method, estimate_share=0.1, noise="float"),
    )
    assert forecast.estimate_noise == pytest.approx(deviation)
    assert f"standard deviation of {deviation:.2g}" in str(forecast)
    assert forecast.evaluations <= 12


def test_it_is_the_clipped_mean_and_gaussian_noise():
    """Many runs of the same search, which has no noise: what differs is the noise of the estimate."""
    inner = dp_gibo.config(users=USERS, steps=2, mu=jnp.inf, bounds=BOX, batch=2, noise="none", polish_steps=0)
    estimate = private_estimate.config(users=USERS, mu=0.5, bounds=BOX, loss_range=(0.0, 0.3))
    algorithm, chosen = AFTER, phases.config(inner, estimate)
    found = jax.jit(jax.vmap(lambda key: drivers.pure_run(algorithm, loss, RECORDS, chosen, key)[0]))(
        jax.random.split(jax.random.key(1), 2000)
    )
    assert np.ptp(np.asarray(found.point), axis=0) == pytest.approx(0)
    clipped = np.mean(np.clip(loss(found.point[0], RECORDS), 0.0, 0.3))
    deviation = private_evaluations.deviation(estimate)
    assert deviation == pytest.approx(0.3 / USERS / 0.5, rel=0.05)
    standard = (np.asarray(found.loss) - clipped) / deviation
    assert abs(np.mean(standard)) < 4 / np.sqrt(2000)
    assert abs(np.std(standard) - 1) < 4 / np.sqrt(4000)
    assert algorithm.privacy(chosen).notion == "none"  # of the search, which had no noise


def test_the_search_is_what_it_is_without_an_estimate():
    """No noise: one step fewer, the same path."""
    alone = jaxdpbo.minimize(
        loss, RECORDS, BOX, **group_options(method="local", **(GIVEN | {"mu": jnp.inf, "noise": "exact", "steps": 5}))
    )
    found = jaxdpbo.minimize(loss, RECORDS, BOX, **group_options(method="local", estimate_share=0.3, **(GIVEN | {
        "mu": jnp.inf, "noise": "exact"})))  # fmt: skip
    np.testing.assert_array_equal(found.release.path, alone.release.path)
    assert float(found.release.loss) == pytest.approx(float(jnp.mean(loss(found.release.point, RECORDS))), rel=1e-5)
    assert found.notes == alone.notes == ()  # without noise no number of users is too few


def test_from_python_a_masked_point_is_not_asked_for():
    asked = []
    searched = Space({"x": space.real(0.0, 4.0), "k": space.categorical("a", "b")})

    def named(params, data):
        asked.append(params)
        return np.abs(data[:, 0] - params["x"]) + (params["k"] == "b")

    run = jaxdpbo.minimize(named, RECORDS, searched, **group_options(estimate_share=0.2, **GIVEN))
    assert asked[-1] == run.release.params
    assert len(asked) <= 11
    assert run.method.startswith("in_order")


def test_its_parts_are_named():
    inner = dp_gibo.config(users=USERS, steps=2, mu=0.6, bounds=BOX)
    estimate = private_estimate.config(users=USERS, mu=0.8, bounds=BOX, loss_range=RANGE)
    stated = AFTER.privacy(phases.config(inner, estimate))
    assert [name for name, _ in stated.parts] == [RELEASES, private_estimate.ESTIMATE]
    assert 0.95 < stated.level <= 1.0
    assert stated.total_variation > dp_gibo.algorithm.privacy(inner).total_variation


ESTIMATE, DESIGN = private_estimate.ESTIMATE, private_choice.DESIGN_CHOICE
PARTS = {
    "local": [composed_guarantee.FIND_SCALE, RELEASES, ESTIMATE],
    "start_then_local": [DESIGN, RELEASES, private_choice.LAST_CHOICE, ESTIMATE],
    "choice": [DESIGN, ESTIMATE],
    "in_order": [DESIGN, ESTIMATE],
    "evaluations": [RELEASES, ESTIMATE],
    "proposed": [DESIGN, ESTIMATE],
}


def plan_of(search, **more):
    task = {"users": USERS, "budget": budget_calibration.RequestedBudget(2.0), "space": BOX, "loss_range": RANGE}
    return methods.plan(methods.make_problem(search, **task, **more))


@pytest.mark.parametrize("method", methods.METHODS)
def test_the_parts_are_the_mechanisms_of_the_method(method):
    """No noisy means where a search only chooses."""
    search = jaxdpbo.Search(method=method, steps=6, batch=2, estimate_share=0.1)
    plan = plan_of(search, public=method == methods.PROPOSED)
    stated = plan.algorithm.privacy(plan.config)
    assert [name for name, _ in stated.parts] == PARTS[method]
    assert accounting.compose_gdp_rounded_up(*dict(stated.parts).values()) == pytest.approx(stated.level, rel=1e-12)


def test_a_clip_norm_that_is_found_first_is_a_part_of_each_search_around_it():
    search = jaxdpbo.Search(method=methods.START, steps=6, batch=2, clip_norm="private", estimate_share=0.1)
    plan = plan_of(search)
    names = [name for name, _ in plan.algorithm.privacy(plan.config).parts]
    place = PARTS[methods.START].index(RELEASES)
    assert names == [*PARTS[methods.START][:place], composed_guarantee.FIND_SCALE, *PARTS[methods.START][place:]]


def test_an_algorithm_that_names_no_mechanism_is_the_search():
    stated = guarantees.guarantee("gdp", 0.5, "replace_one", "users")
    assert composed_guarantee.guarantee_stages(object(), stated) == (("the search", "gaussian", 0.5),)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"estimate_share": 1.0}, "estimate_share must be in"),
        ({"estimate_share": -0.1}, "estimate_share must be in"),
        ({"estimate_share": 0.1, "loss_range": None}, "estimate_share needs a loss_range"),
        ({"estimate_share": 0.1, "steps": 1}, "two steps or more"),
        (
            {"estimate_share": 0.1, "steps": 3, "method": "start_then_local"},
            "^steps must be at least 4 for method='start_then_local' beside an estimate, got 3$",
        ),
    ],
)
def test_a_share_that_can_not_be_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        jaxdpbo.minimize(loss, RECORDS, BOX, **group_options(**(GIVEN | changes)))


def test_alone_it_measures_at_a_public_point():
    given = {"users": USERS, "mu": jnp.inf, "bounds": BOX, "loss_range": RANGE, "noise": "none"}
    for point in (None, [1.0, 2.0, 0.5]):
        run = drivers.run_scan(private_estimate.algorithm, loss, RECORDS, private_estimate.config(point=point, **given))
        where = jnp.asarray([2.0, 2.0, 0.0] if point is None else point)
        np.testing.assert_allclose(run.release.point, where)
        assert float(run.release.loss) == pytest.approx(float(jnp.mean(loss(where, RECORDS))), rel=1e-5)
    with pytest.raises(ValueError, match="point must lie inside"):
        private_estimate.config(point=[9.0, 2.0, 0.5], **given)
