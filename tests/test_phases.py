"""Plans of phases: choices, DP-GIBO between them and an estimate after, against the same done by hand."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from protocol_cases import CASES

from jaxdpbo import accounting, dp_gibo, dp_gp_ucb, drivers, phases, private_choice, private_estimate, private_linear
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_run
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import choice

USERS, BATCH, STEPS = 40, 3, 4
BOX = np.array([[-1.0, 0.0], [3.0, 2.0]])
ALONE = phases.make_algorithm(private_choice.design)
THRICE = phases.make_algorithm(private_choice.design, private_choice.near, private_choice.near)
AROUND = phases.make_algorithm(private_choice.design, dp_gibo.from_point, private_choice.at_answers)
DESIGN = BOX[0] + (BOX[1] - BOX[0]) * np.random.default_rng(3).uniform(size=(6, 2))
DATA = np.random.default_rng(0).normal([2.0, 0.5], 0.3, (USERS, 2))


def loss(point, data):
    return jnp.sum(jnp.square(data - point[None]), axis=1)


def offsets(count, by=0.2):
    """Numbers to add to the second coordinate of the point chosen last, and the first coordinate itself."""
    added = by * np.random.default_rng(count).normal(size=(count, 2))
    return np.where([[False, True]], added, BOX[0])


def gibo(mu, noise, theta0=None):
    return dp_gibo.config(
        users=USERS, steps=STEPS, mu=mu, bounds=low_high(BOX), batch=BATCH, theta0=theta0, optimizer=optax.adagrad,
        output="last_half_mean", noise=noise, polish_steps=2,
    )  # fmt: skip


def chosen_by(mu=1.0, noise="exact", **changed):
    return {
        "users": USERS,
        "bounds": low_high(BOX),
        "loss_range": (0, 4),
        "batch": BATCH,
        "noise": noise,
        "mu": mu,
    } | changed


def design(points=DESIGN, **changed):
    return private_choice.design_config(points=points, **chosen_by(**changed))


def near(count, **changed):
    kept = np.tile([[False, True]], (count, 1))
    return private_choice.near_config(points=offsets(count), kept=kept, **chosen_by(**changed))


def around(inner, first=1.0, last=1.0, noise="exact"):
    answers = private_choice.answers_config(**chosen_by(last, noise))
    return phases.config(design(mu=first, noise=noise), inner, answers)


def run(algorithm, chosen, data=DATA):
    return drivers.run_scan(algorithm, loss, data, chosen, key=jax.random.key(5), insecure_key=True, diagnostics=True)


def mean_losses(points, width=4.0):
    """Of the users' losses less their own least, as the choice counts them."""
    found = np.array([np.sum(np.square(DATA - point[None]), axis=1) for point in points])
    return np.minimum(found - found.min(axis=0), width).mean(axis=1)


def test_without_noise_it_takes_the_best_start_and_the_best_point():
    inf = math.inf
    found = run(AROUND, around(gibo(inf, "none"), inf, inf, "none")).release
    start = DESIGN[np.argmin(mean_losses(DESIGN))]
    np.testing.assert_allclose(found.phases[0].point, start, rtol=1e-12)
    inner = run(dp_gibo.algorithm, gibo(inf, "none", start)).release
    np.testing.assert_allclose(found.path, inner.path, rtol=1e-6, atol=1e-8)
    tails = [inner.point, inner.path[-1], inner.path[-2:].mean(axis=0)]
    np.testing.assert_allclose(found.points[-BATCH:], tails, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.points[: len(DESIGN)], DESIGN, rtol=1e-12)
    np.testing.assert_allclose(found.point, found.points[np.argmin(mean_losses(found.points))], rtol=1e-12)


def test_later_phases_go_on_from_the_chosen_point():
    inf = {"mu": math.inf, "noise": "none"}
    found = run(THRICE, phases.config(design(**inf), near(3, **inf), near(6, **inf))).release
    seen = [DESIGN]
    for count in (3, 6):
        points = np.concatenate(seen)
        best = points[np.argmin(mean_losses(points))]
        seen.append(np.where([[False, True]], np.clip(best + offsets(count), *BOX), offsets(count)))
    np.testing.assert_allclose(found.points, np.concatenate(seen), rtol=1e-12)
    np.testing.assert_allclose(found.point, found.points[np.argmin(mean_losses(found.points))], rtol=1e-12)


def test_a_smaller_batch_is_masked():
    """The estimate evaluates one point where the descent evaluates three; its loss is that of the answer."""
    plan = phases.make_algorithm(phases.Phase(dp_gibo.algorithm), private_estimate.at_answer)
    last = private_estimate.config(users=USERS, mu=math.inf, bounds=low_high(BOX), loss_range=(0, 4), noise="none")
    done = run(plan, phases.config(gibo(math.inf, "none"), last))
    alone = run(dp_gibo.algorithm, gibo(math.inf, "none")).release
    np.testing.assert_allclose(done.release.path, alone.path, rtol=1e-12)
    np.testing.assert_array_equal(done.release.point, done.release.phases[0].point)
    assert float(done.release.loss) == pytest.approx(float(jnp.mean(loss(alone.point, DATA))), rel=1e-6)
    assert done.release.points is None
    assert jax.tree.leaves(done.diagnostics.memory)[0].shape == (STEPS * BATCH, USERS)  # DP-GIBO's, and no book


def test_parts_compose_to_what_is_stated():
    inner = gibo(0.8, "exact")
    chosen = around(inner, 0.3, 0.2)
    stated = AROUND.privacy(chosen)
    levels = dict(stated.parts)
    assert len(levels) == 3
    assert levels[private_choice.DESIGN_CHOICE] == choice.level(chosen.phases[0].noise) <= 0.3
    assert levels[private_choice.LAST_CHOICE] == choice.level(chosen.phases[2].noise) <= 0.2
    assert stated.level == accounting.compose_gdp_rounded_up(*levels.values()) <= math.hypot(0.8, 0.3, 0.2)
    assert stated.total_variation > dp_gibo.algorithm.privacy(inner).total_variation
    assert stated.assumptions == dp_gibo.algorithm.privacy(inner).assumptions
    assert AROUND.privacy(around(gibo(math.inf, "none"), math.inf, math.inf)).notion == "none"
    alone = ALONE.privacy(phases.config(design(noise="float")))
    assert assumptions.IDEAL_NOISE in alone.assumptions
    assert alone.also is not None
    assert alone.also[0] == "dp"


TWICE = phases.make_algorithm(private_choice.design, private_choice.near)


@pytest.mark.daily("mu")
@pytest.mark.parametrize("changed", ["mu", "loss_range"])
def test_a_run_does_not_go_on_under_another_budget(changed):
    given = phases.config(design(), near(3))
    other = {
        "mu": phases.config(design(), near(3, mu=1.1)),
        "loss_range": phases.config(design(loss_range=(0, 5)), near(3)),
    }[changed]
    snapshot = compiled_run.begin(TWICE, jax.random.key(0), given)
    query = TWICE.ask(jax.random.key(1), other, snapshot.state)
    values = jnp.zeros((BATCH, USERS))
    after, _ = compiled_run.learn(TWICE, jax.random.key(1), other, snapshot, query, values)
    assert int(after.state.public.step) == 0


def test_a_run_does_not_go_on_with_phases_of_other_lengths():
    """One choice could be made twice."""
    snapshot = compiled_run.begin(TWICE, jax.random.key(0), phases.config(design(), near(3)))
    other = phases.config(design(DESIGN[:3]), near(6))
    with pytest.raises((TypeError, ValueError), match="shape"):
        TWICE.tell(other, snapshot.state, TWICE.ask(jax.random.key(1), other, snapshot.state), (0, 0))


def test_a_masked_point_is_not_chosen():
    chosen = phases.config(design(DESIGN[:3]))
    values = jnp.array([[0.0], [9.0], [1.0]]) * jnp.ones((3, USERS))
    rows = chosen_rows(chosen, jnp.array([False, True, True]), values)
    assert rows <= {1, 2}


def test_masked_points_are_not_chosen_however_many_they_are():
    """With little budget one of many would be, by chance; the favoured point stands for it."""
    chosen = phases.config(design(np.tile(DESIGN, (5, 1)), mu=0.05, batch=30))
    assert chosen_rows(chosen, jnp.arange(30) < 1, jnp.zeros((30, USERS))) == {0}


def chosen_rows(config, mask, values):
    """What 20 keys choose after one step."""
    snapshot = compiled_run.begin(ALONE, jax.random.key(0), config)
    query = ALONE.ask(jax.random.key(0), config, snapshot.state)._replace(mask=mask)
    learn = jax.jit(
        lambda key: compiled_run.learn(ALONE, key, config, snapshot, query, values)[0].state.public.phases[0].row
    )
    return {int(learn(key)) for key in jax.random.split(jax.random.key(2), 20)}


def test_users_who_are_not_finite_change_nothing_but_their_own_part():
    bad = DATA.copy()
    bad[0] = np.nan
    found = run(AROUND, around(gibo(1.0, "exact")), bad)
    assert np.all(np.isfinite(found.release.points))


def test_a_start_in_box_units_is_moved_whole():
    """Iterate, path and optimizer begin where the choice says."""
    inner = gibo(1.0, "exact")
    state = dp_gibo.algorithm.init(jax.random.key(0), inner)
    there = dp_gibo.set_start(inner, state, jnp.asarray(DESIGN[1]))
    expected = dp_gibo.algorithm.init(jax.random.key(0), dataclasses.replace(inner, theta0=jnp.asarray(DESIGN[1])))
    jax.tree.map(np.testing.assert_array_equal, there, expected)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: design(DESIGN[:4]), "a multiple of 3"),
        (lambda: design(DESIGN[:, :1]), "points must"),
        (lambda: design(DESIGN + 9), "must lie inside bounds"),
        (lambda: design(mu=-1.0), "mu must be positive"),
        (lambda: design(loss_range=(1, 1)), "loss_range must have low < high"),
        (lambda: design(noise="none"), "mu must be inf with noise='none' and finite with any other"),
        (lambda: design(np.tile(DESIGN, (10923, 1))), "points must be fewer than 65,536"),
        (lambda: phases.config(design(np.tile(DESIGN, (10922, 1))), near(6)), "points must be fewer than 65,536"),
        (
            lambda: private_choice.near_config(points=DESIGN, kept=np.ones((2, 2), bool), **chosen_by()),
            "kept must have",
        ),
        (lambda: phases.config(), "configs must be one or more"),
        (lambda: phases.config(design(), near(3, users=41)), r"configs must be of the same users, got \[40, 41\]"),
        (lambda: phases.config(design(), near(2, batch=1)), "configs of choices must be of 3 points a step"),
        (lambda: phases.make_algorithm(), "phases must be one or more"),
        (lambda: phases.make_algorithm(private_choice.near), "the first without a start"),
        (lambda: phases.make_algorithm(*[phases.Phase(dp_gibo.algorithm)] * 2), "at most one phase may have a survey"),
    ],
)
def test_mistakes_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_range_that_floats_lose_is_refused_in_float32(float32):
    for loss_range in ((0, 1e39), (0, 1e-46), (0, 1e-40)):
        with pytest.raises(ValueError, match="a width that float32 holds"):
            design(loss_range=loss_range)


def test_a_phase_must_be_gdp_step_by_step():
    """An epsilon is no mu, and what pays at the end would be asked for its release too early."""
    gains = dp_gp_ucb.in_order_config(candidates=DESIGN, users=USERS, epsilon=1.0, largest_gain=1.0, release="point")
    with pytest.raises(ValueError, match="pays for every step"):
        phases.make_algorithm(private_choice.design, phases.Phase(dp_gp_ucb.algorithm))
    late = dp_gibo.algorithm._replace(init=dp_gp_ucb.algorithm.init, privacy=dp_gp_ucb.algorithm.privacy)
    plan = phases.make_algorithm(private_choice.design, phases.Phase(late), private_choice.at_answers)
    chosen = around(gibo(1.0, "exact"))
    first, _, last = chosen.phases
    chosen = dataclasses.replace(chosen, phases=(first, gains, last))
    with pytest.raises(ValueError, match="a phase must be GDP for its level to compose, got dp 1"):
        plan.privacy(chosen)
    with pytest.raises(ValueError, match="pays for every step"):
        plan.init(jax.random.key(0), chosen)


def test_phases_protect_the_same_users():
    plan = phases.make_algorithm(phases.Phase(private_linear.algorithm), private_estimate.at_answer)
    linear = private_linear.config(users=USERS, features=2, mu=1.0)
    last = private_estimate.config(users=USERS, mu=1.0, bounds=[(0, 1)], loss_range=(0, 4))
    with pytest.raises(ValueError, match="phases must protect the same users"):
        plan.privacy(phases.config(linear, last))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.algorithm.contribute is not None])
def test_no_release_of_a_phase_draws(name):
    """A plan reads the releases of earlier phases with a key that everybody knows."""
    case = CASES[name]
    config = case.config(1.0)
    state = jax.eval_shape(case.algorithm.init, jax.random.key(0), config)
    traced = jax.make_jaxpr(lambda key, state: case.algorithm.release(key, config, state))(jax.random.key(0), state)
    key = traced.jaxpr.invars[0]
    assert not any(key in equation.invars for equation in traced.jaxpr.eqns)
    assert key not in traced.jaxpr.outvars
