"""Private search: designs, choices and DP-GIBO between them, against the same done by hand."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxdpbo import accounting, dp_gibo, dp_gp_ucb, drivers
from jaxdpbo.algorithms import private_search
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_run
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import choice

USERS, BATCH, STEPS = 40, 3, 4
BOX = np.array([[-1.0, 0.0], [3.0, 2.0]])
ALONE = private_search.make_algorithm()
AROUND = private_search.make_algorithm(dp_gibo.algorithm, dp_gibo.set_start)
DESIGN = BOX[0] + (BOX[1] - BOX[0]) * np.random.default_rng(3).uniform(size=(6, 2))
DATA = np.random.default_rng(0).normal([2.0, 0.5], 0.3, (USERS, 2))


def loss(point, data):
    return jnp.sum(jnp.square(data - point[None]), axis=1)


def fresh(points):
    return private_search.Round(points, np.zeros_like(points), np.zeros(points.shape, bool))


def moved(count, by=0.2):
    offset = by * np.random.default_rng(count).normal(size=(count, 2))
    return private_search.Round(np.tile(BOX[0], (count, 1)), offset, np.tile([[True, False]], (count, 1)))


def gibo(mu, noise, theta0=None):
    return dp_gibo.config(
        users=USERS, steps=STEPS, mu=mu, bounds=low_high(BOX), batch=BATCH, theta0=theta0, optimizer=optax.adagrad,
        output="last_half_mean", noise=noise, polish_steps=2,
    )  # fmt: skip


ONE_ROUND = (fresh(DESIGN),)


def config(inner=None, rounds=ONE_ROUND, choice_mu=(1.0,), noise="exact", **changed):
    given = {"users": USERS, "bounds": low_high(BOX), "loss_range": (0, 4), "batch": BATCH, "noise": noise}
    return private_search.config(rounds=rounds, choice_mu=choice_mu, inner_config=inner, **given | changed)


def run(algorithm, chosen, data=DATA):
    return drivers.run_scan(
        algorithm, loss, data, chosen, run=drivers.Execution(key=jax.random.key(5), insecure_key=True, diagnostics=True)
    )


def mean_losses(points, width=4.0):
    """Of the users' losses less their own least, as the choice counts them."""
    found = np.array([np.sum(np.square(DATA - point[None]), axis=1) for point in points])
    return np.minimum(found - found.min(axis=0), width).mean(axis=1)


def test_without_noise_it_takes_the_best_start_and_the_best_point():
    inf = math.inf
    found = run(AROUND, config(gibo(inf, "none"), choice_mu=(inf, inf), noise="none")).release
    start = DESIGN[np.argmin(mean_losses(DESIGN))]
    np.testing.assert_allclose(found.start, start, rtol=1e-12)
    inner = run(dp_gibo.algorithm, gibo(inf, "none", start)).release
    np.testing.assert_allclose(found.path, inner.path, rtol=1e-6, atol=1e-8)
    tails = [inner.point, inner.path[-1], inner.path[-2:].mean(axis=0)]
    np.testing.assert_allclose(found.points[-BATCH:], tails, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.points[: len(DESIGN)], DESIGN, rtol=1e-12)
    np.testing.assert_allclose(found.point, found.points[np.argmin(mean_losses(found.points))], rtol=1e-12)


def test_later_rounds_go_on_from_the_chosen_point():
    rounds, inf = (fresh(DESIGN), moved(3), moved(6)), math.inf
    found = run(ALONE, config(rounds=rounds, choice_mu=(inf,) * 3, noise="none")).release
    seen = [DESIGN]
    for each in rounds[1:]:
        points = np.concatenate(seen)
        best = points[np.argmin(mean_losses(points))]
        seen.append(np.where(each.kept, np.clip(best + each.offset, *BOX), each.fresh))
    np.testing.assert_allclose(found.points, np.concatenate(seen), rtol=1e-12)
    np.testing.assert_allclose(found.point, found.points[np.argmin(mean_losses(found.points))], rtol=1e-12)


def test_parts_compose_to_what_is_stated():
    inner = gibo(0.8, "exact")
    chosen = config(inner, choice_mu=(0.3, 0.2))
    stated = AROUND.privacy(chosen)
    levels = dict(stated.parts)
    assert len(levels) == 3
    assert levels[private_search.DESIGN_CHOICE] == choice.level(chosen.choices[0]) <= 0.3
    assert levels[private_search.LAST_CHOICE] == choice.level(chosen.choices[1]) <= 0.2
    assert stated.level == accounting.compose_gdp_rounded_up(*levels.values()) <= math.hypot(0.8, 0.3, 0.2)
    assert stated.total_variation > dp_gibo.algorithm.privacy(inner).total_variation
    assert stated.assumptions == dp_gibo.algorithm.privacy(inner).assumptions
    assert AROUND.privacy(config(gibo(math.inf, "none"), choice_mu=(math.inf,) * 2)).notion == "none"
    assert assumptions.IDEAL_NOISE in ALONE.privacy(config(noise="float")).assumptions


@pytest.mark.parametrize("changed", ["rounds", "choice_mu", "loss_range"])
def test_a_run_does_not_go_on_under_another_budget(changed):
    """With other rounds one choice could be made twice."""
    given = {"rounds": (fresh(DESIGN), moved(3)), "choice_mu": (1.0, 1.0)}
    other = {"rounds": (fresh(DESIGN[:3]), moved(6)), "choice_mu": (1.0, 1.1), "loss_range": (0, 5)}[changed]
    snapshot, changed = (
        compiled_run.begin(ALONE, jax.random.key(0), config(**given)),
        config(**given | {changed: other}),
    )
    query = ALONE.ask(jax.random.key(1), changed, snapshot.state)
    values = jnp.zeros((BATCH, USERS))
    after, _ = compiled_run.learn(ALONE, jax.random.key(1), changed, snapshot, query, values)
    assert int(after.state.public.step) == 0


def test_a_masked_point_is_not_chosen():
    chosen = config(rounds=(fresh(DESIGN[:3]),))
    values = jnp.array([[0.0], [9.0], [1.0]]) * jnp.ones((3, USERS))
    rows = chosen_rows(chosen, jnp.array([False, True, True]), values)
    assert rows <= {1, 2}


def test_masked_points_are_not_chosen_however_many_they_are():
    """With little budget one of many would be, by chance; the favoured point stands for it."""
    chosen = config(rounds=(fresh(np.tile(DESIGN, (5, 1))),), choice_mu=(0.05,), batch=30)
    assert chosen_rows(chosen, jnp.arange(30) < 1, jnp.zeros((30, USERS))) == {0}


def chosen_rows(config, mask, values):
    """What 20 keys choose after one step."""
    snapshot = compiled_run.begin(ALONE, jax.random.key(0), config)
    query = ALONE.ask(jax.random.key(0), config, snapshot.state)._replace(mask=mask)
    learn = jax.jit(
        lambda key: compiled_run.learn(ALONE, key, config, snapshot, query, values)[0].state.public.chosen[-1]
    )
    return {int(learn(key)) for key in jax.random.split(jax.random.key(2), 20)}


def test_users_who_are_not_finite_change_nothing_but_their_own_part():
    bad = DATA.copy()
    bad[0] = np.nan
    found = run(AROUND, config(gibo(1.0, "exact"), choice_mu=(1.0, 1.0)), bad)
    assert np.all(np.isfinite(found.release.points))


def test_a_start_in_box_units_is_moved_whole():
    """Iterate, path and optimizer begin where the choice says."""
    inner = gibo(1.0, "exact")
    state = dp_gibo.algorithm.init(jax.random.key(0), inner)
    there = dp_gibo.set_start(inner, state, jnp.asarray(DESIGN[1]))
    expected = dp_gibo.algorithm.init(jax.random.key(0), dataclasses.replace(inner, theta0=jnp.asarray(DESIGN[1])))
    jax.tree.map(np.testing.assert_array_equal, there, expected)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rounds": ()}, "rounds must be one or more"),
        ({"rounds": (moved(3),)}, "the first keeps nothing"),
        ({"rounds": (fresh(DESIGN[:4]),)}, "a multiple of 3"),
        ({"rounds": (fresh(DESIGN[:, :1]),)}, "points of 2 numbers"),
        ({"rounds": (fresh(DESIGN + 9),)}, "must lie inside bounds"),
        ({"choice_mu": (1.0, 1.0)}, "one number a choice"),
        ({"choice_mu": (-1.0,)}, "choice_mu must be positive"),
        ({"choice_mu": 0.5}, "choice_mu must be one number a choice, got shape"),
        ({"loss_range": (1, 1)}, "loss_range must have low < high"),
        ({"noise": "none"}, "mu must be inf with noise='none' and finite with any other"),
        ({"choice_mu": (1.0, math.inf), "rounds": (fresh(DESIGN), moved(3))}, "mu must be inf with noise='none'"),
        ({"rounds": (fresh(np.tile(DESIGN, (10923, 1))),)}, "points must be fewer than 65,536"),
        ({"inner": gibo(1.0, "exact"), "choice_mu": (1.0, 1.0), "users": 41}, "inner_config must be of 41 users"),
    ],
)
def test_mistakes_are_named(changed, said):
    with pytest.raises(ValueError, match=said):
        config(**changed)


def test_a_range_that_floats_lose_is_refused_in_float32(float32):
    for loss_range in ((0, 1e39), (0, 1e-46), (0, 1e-40)):
        with pytest.raises(ValueError, match="a width that float32 holds"):
            config(loss_range=loss_range)


def test_an_inner_algorithm_must_be_gdp_step_by_step():
    """An epsilon is no mu, and what pays at the end would be asked for its release too early."""
    gains = dp_gp_ucb.in_order_config(candidates=DESIGN, users=USERS, epsilon=1.0, largest_gain=1.0, release="point")
    with pytest.raises(ValueError, match="pays for every step"):
        private_search.make_algorithm(dp_gp_ucb.algorithm, dp_gibo.set_start)
    late = dp_gibo.algorithm._replace(init=dp_gp_ucb.algorithm.init, privacy=dp_gp_ucb.algorithm.privacy)
    inner = private_search.make_algorithm(late, dp_gibo.set_start)
    chosen = dataclasses.replace(config(gibo(1.0, "exact"), choice_mu=(1.0, 1.0)), inner=gains)
    with pytest.raises(ValueError, match="inner must be GDP for its level to compose, got dp 1"):
        inner.privacy(chosen)
    with pytest.raises(ValueError, match="pays for every step"):
        inner.init(jax.random.key(0), chosen)
    with pytest.raises(ValueError, match="set_start must be given with an inner algorithm"):
        private_search.make_algorithm(dp_gibo.algorithm)
