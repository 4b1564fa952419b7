"""Algorithm 3 attacked: searches whose paths differ, sums of gains in either dtype, one user who is no number."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options
from oracles import integers
from scipy.optimize import brentq

from jaxdpbo import dp_gp_ucb, drivers, types
from jaxdpbo.algorithms.dp_gp_ucb import gains as exact
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import mechanisms, wide_integers

SEEDED = {"key": jax.random.key(0), "insecure_key": True, "diagnostics": True}
WEIGHT = brentq(lambda w: w - 1 / (1 + np.exp(w)), 0, 1)  # argmin w^2 / 2 + log(1 + exp(-w)): training records are 1


OPTIONS = {"candidates": [[0.0]], "users": 100, "epsilon": 1.0, "largest_gain": 1.0}


def config(**changes):
    return dp_gp_ucb.in_order_config(**(OPTIONS | changes))


def search_config(**changes):
    return dp_gp_ucb.lipschitz_config(**(OPTIONS | changes))


def looked_up(point, gains):
    """Gains ``(n,)`` of ``gains (n, c)`` at a candidate that is its own number."""
    return gains[:, int(point[-1])]


def largest(chosen, state):
    """The largest mean gain."""
    return float(chosen.centre + chosen.scale * np.max(np.asarray(state.raw.utilities)))


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_neighbours_whose_searches_part_are_within_the_sensitivity(noise):
    """Trap 43: logistic regression at lambda = 1, the second coordinate picks a feature of the records.

    All features of the training records are 1, so ``w`` is ``WEIGHT`` everywhere, and everything that theorem 7 assumes
    is true. User 0 breaks a tie between features 0 and 1; UCB asks next near the better one, where feature 2 is worth
    1/2 to everybody and feature 3 .7. A bound for two lambdas, .005, moves by .1995: 39.9 times epsilon.
    """
    places = {0.0: 0, 1.0: 1, 0.25: 2, 0.75: 3}
    chosen = search_config(
        candidates=[[1.0, place] for place in places], users=200, steps=3, gain_lipschitz=0.5, loss_lipschitz=1.0,
        noise=noise,
    )  # fmt: skip
    records = np.tile([0.0, 0.0, 0.0, 1.0], (200, 1))
    neighbour = records.copy()
    records[0], neighbour[0] = [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]

    def gains(point, records):
        return np.clip((1 + WEIGHT * records[:, places[float(point[1])]]) / 2, 0, 1)

    runs = [
        drivers.run_loop(dp_gp_ucb.algorithm, gains, rows, chosen, **group_options(**SEEDED))
        for rows in (records, neighbour)
    ]
    first, second = (largest(chosen, run.diagnostics.state) for run in runs)
    assert second - first == pytest.approx(0.1995, abs=1e-4)
    assert second - first <= float(chosen.value_sensitivity * chosen.scale) == 1.0
    assert assumptions.PUBLIC_CONFIG in runs[0].guarantee.assumptions
    if noise == "exact":
        scores = [np.max(integers.value(*run.diagnostics.state.raw.scores)[0]) for run in runs]
        assert 0 < abs(scores[1] - scores[0]) <= int(chosen.value_units)
        assert int(chosen.value_units) * chosen.value_rate <= 1


SCORE = jax.jit(exact.score_gains)


def of_one_sum(chosen, gains):
    """What is released of one candidate's gains ``(n,)``, by each grid."""
    beta = jnp.asarray(4.0 * chosen.scale)
    counted = exact.clip_gains(jnp.asarray(gains, beta.dtype), beta)
    return [int(integers.value(*SCORE(counted, beta, grid))) for grid in chosen.gain_grids]


@pytest.mark.daily("32-*")
@pytest.mark.parametrize("users", [1, 7, 1000, 2**20 - 3, 2_000_000])
@pytest.mark.parametrize("bits", [32, 64])
def test_one_user_never_moves_a_score_by_more_than_is_paid_for(users, bits, trials):
    """The exact log-ratio of the noise is ``units rate`` at most: no rounding, whatever the gains and their number."""
    rng = np.random.default_rng(users)
    with jax.enable_x64(bits == 64):
        seen = 0
        for _ in range(trials(f"one of {users} users' gains replaced, float{bits}", 1, 50, users)):
            top = float(10.0 ** rng.uniform(-3, 3))
            chosen = config(users=users, largest_gain=top, epsilon=float(rng.uniform(0.4, 3)), release="both")
            gains = rng.uniform(0, top, users) * rng.choice([1.0, 0.01])
            before = of_one_sum(chosen, gains)
            i = rng.integers(users)
            for value in (0.0, top, -np.inf, top * 0.999, np.nan, 1e30, rng.uniform(0, top), top * 0.03, top):
                gains[i] = value
                after = of_one_sum(chosen, gains)
                moved = [abs(b - a) for a, b in zip(before, after, strict=True)]
                assert moved[0] <= int(chosen.point_units)
                assert moved[1] <= int(chosen.value_units)
                paid = 2 * moved[0] * chosen.point_rate + moved[1] * chosen.value_rate
                assert paid <= Fraction(dp_gp_ucb.algorithm.privacy(chosen).level)
                seen, before = max(seen, moved[1] / int(chosen.value_units)), after
        assert seen == 1
        assert dp_gp_ucb.algorithm.privacy(chosen).level <= float(chosen.epsilon_point + chosen.epsilon_value)


@pytest.mark.parametrize(("users", "least"), [(1_000_000, 1.012), (8_000_000, 1.19)])
def test_a_mean_of_float32_moves_further_than_is_paid_for_and_an_integer_sum_does_not(users, least, float32):
    """Trap 39. The planted mean is as it was before, rounded as well as float32 can, of sums a little below half."""
    chosen = config(users=users, release="value")
    rng = np.random.default_rng(0)
    gains = np.clip(0.4999 + rng.normal(scale=0.1, size=users), 0, 1).astype(np.float32)
    moved = []
    for i in rng.integers(0, users, 3):
        pair = []
        for value in (0.0, 1.0):
            gains[i] = value
            pair.append(of_one_sum(chosen, gains)[0])
        moved.append(pair[1] - pair[0])
    assert moved == [int(chosen.value_units)] * 3
    sums = 0.4999 * users + rng.uniform(0, 100, 1000)
    low, high = ((sums + value).astype(np.float32) / np.float32(users) for value in (0.0, 1.0))
    assert np.max((high.astype(float) - low.astype(float)) * users) > least


def test_scores_are_the_oracles_sums():
    """Python's integers, for every grid that a configuration may have."""
    rng, largest = np.random.default_rng(1), jnp.asarray(1.0)
    for _ in range(500):
        users, shift, bins = int(2 ** rng.uniform(0, 16)), int(rng.integers(0, 36)), int(2 ** rng.uniform(0, 20))
        whole = np.zeros(2**16, np.int32)
        whole[:users] = rng.integers(bins - bins // 4, bins + 1, users)
        grid = exact.Grid(jnp.asarray(bins, jnp.int32), jnp.asarray(shift, jnp.int32))
        found = SCORE(jnp.asarray(whole / bins), largest, grid)
        assert int(integers.value(*found)) == sum(whole.tolist()) >> shift


@pytest.mark.parametrize("epsilon", [0.15, 1.0, 3.0, 300.0])
@pytest.mark.parametrize("users", [2**23 + 1, 2**31, 2**40])
def test_any_number_of_users_is_taken(users, epsilon):
    chosen = config(users=users, epsilon=epsilon, release="both")
    assert dp_gp_ucb.algorithm.privacy(chosen).level <= epsilon
    for grid in chosen.gain_grids:
        assert users * int(grid.bins) < 2**62


def test_many_users_release_what_they_gained(trials):
    """Scores beyond 32 bits: of the total of 2^36 users the state is made by hand."""
    users = 2**36
    chosen = config(candidates=[[0.0], [1.0], [2.0]], users=users, release="both")
    state = dp_gp_ucb.algorithm.init(jax.random.key(0), chosen)
    means, bins = np.array([0.25, 0.5, 0.3]), [int(grid.bins) for grid in chosen.gain_grids]
    shifts = [int(grid.shift) for grid in chosen.gain_grids]
    whole = np.array([
        [int(mean * count * users) >> shift for mean in means] for count, shift in zip(bins, shifts, strict=True)
    ])  # fmt: skip
    assert np.max(whole) > 2**32
    words = (whole & 0xFFFFFFFF).astype(np.uint32), (whole >> 32).astype(np.int32)
    raw = state.raw._replace(scores=wide_integers.Wide(*map(jnp.asarray, words)))
    keys = jax.random.split(jax.random.key(1), 20)
    found = jax.jit(jax.vmap(dp_gp_ucb.algorithm.release, in_axes=(0, None, None)))(
        keys, chosen, state._replace(raw=raw)
    )
    np.testing.assert_array_equal(found.row, 1)
    np.testing.assert_allclose(found.value, 0.5, rtol=1e-9)


@pytest.mark.parametrize("bits", [32, 64])
def test_no_gain_is_rounded_by_a_whole_bin(bits):
    """What the rounding allowance of a search over lambda counts on."""
    rng = np.random.default_rng(2)
    with jax.enable_x64(bits == 64):
        for top in (1e-30, 0.1, 1.0, 3.7e12):
            gains = rng.uniform(0, top, 10_000)
            beta, bins = jnp.asarray(top), jnp.asarray(exact.BINS, jnp.int32)
            found = np.asarray(exact.round_gains(jnp.asarray(gains, beta.dtype), beta, bins))
            assert np.max(np.abs(found - gains / float(beta) * exact.BINS)) < 0.8


def test_grids_leave_room_for_what_real_gains_move_and_for_rounding():
    """Every search over lambda: ``n`` users' rounding on either side, and the bound itself, in fractions."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        users, low = int(2 ** rng.uniform(0, 40)), float(10 ** rng.uniform(-2, 2))
        high = low * (1 + float(10 ** rng.uniform(-9, 0)))
        slope = float(10 ** rng.uniform(-2, 1))
        chosen = search_config(
            candidates=[[low], [high]], users=users, epsilon=float(rng.uniform(0.5, 4)), steps=1, gain_lipschitz=slope,
            loss_lipschitz=1.0,
        )  # fmt: skip
        grid = chosen.gain_grids[0]
        bins, shift = int(grid.bins), int(grid.shift)
        bound = Fraction(slope) * (1 / Fraction(low) - 1 / Fraction(high)) + Fraction(1, users)
        assert min(bound * users * bins + 2 * users, Fraction(users * bins)) <= int(chosen.value_units) << shift
        assert bins >= 1
        assert users * bins < 2**62
        waste = (int(chosen.value_units) << shift) / (min(bound, 1) * users * bins)
        rounding = 2 / (bound * bins)
        assert waste < 1.001 + rounding or (bins == exact.BINS and waste < 2 + 2 * rounding)


def test_the_maximum_along_any_two_paths_is_within_the_bound():
    """Theorem 7 at d = 1 through the shipped search: neighbours of few users, so that paths do part."""
    rng = np.random.default_rng(4)
    lambdas = np.linspace(1.0, 1.3, 6)[:, None]
    chosen = search_config(candidates=lambdas, users=5, steps=4, gain_lipschitz=0.5, loss_lipschitz=1.0, noise="exact")
    weights = np.array([brentq(lambda w, at=at: at * w - 1 / (1 + np.exp(w)), 0, 1) for at in lambdas[:, 0]])

    @jax.jit
    def searched(records):
        def gains(point, records):
            weight = weights @ (jnp.abs(jnp.asarray(lambdas[:, 0]) - point[0]) < 1e-6).astype(float)
            return jnp.clip((1 + weight * records) / 2, 0, 1)

        state = drivers.pure_run(dp_gp_ucb.algorithm, gains, records, chosen, jax.random.key(0))[1].state
        return jnp.max(state.raw.scores.low[0]), state.raw.utilities

    parted = 0
    for _ in range(60):
        records = rng.uniform(-1, 1, 5)
        neighbour = np.append(records[:4], rng.uniform(-1, 1) if rng.integers(4) else np.nan)
        (first, path), (second, other) = searched(records), searched(neighbour)
        assert abs(int(second) - int(first)) <= int(chosen.value_units)
        parted += bool(np.any(np.sign(np.diff(path)) != np.sign(np.diff(other))))
    assert parted > 5


@pytest.mark.parametrize("kind", ["in_order", "ucb"])
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
def test_one_users_junk_is_that_users_alone(junk, kind):
    """It was the whole utility's: .7 became 0 at 100 users, where .01 was paid for."""
    chosen = config() if kind == "in_order" else search_config(steps=1)
    states = []
    for value in (0.7, junk):
        gains = np.full((100, 1), 0.7)
        gains[0] = value
        states.append(
            drivers.run_loop(dp_gp_ucb.algorithm, looked_up, gains, chosen, **group_options(**SEEDED)).diagnostics.state
        )
    before, after = (largest(chosen, state) for state in states)
    assert before - after == pytest.approx(0.007)
    first, second = (integers.value(*state.raw.scores)[0, 0] for state in states)
    moved = first - second
    assert 0 <= moved <= int(chosen.value_units)


def test_the_released_value_is_centred_and_fine():
    """Rounding takes nothing from a gain that all users share."""
    chosen = config(users=100_000, release="value", epsilon=8.0)
    state = drivers.run_loop(
        dp_gp_ucb.algorithm, looked_up, np.full((100_000, 1), 0.3137), chosen, **group_options(**SEEDED)
    ).diagnostics.state
    keys = jax.random.split(jax.random.key(3), 2000)
    values = jax.jit(jax.vmap(lambda key: dp_gp_ucb.algorithm.release(key, chosen, state).value))(keys)
    deviation = np.sqrt(2) / 100_000 / 8.0
    assert np.mean(values) == pytest.approx(0.3137, abs=4 * deviation / np.sqrt(2000) + 1e-6)
    assert np.std(values) == pytest.approx(deviation, rel=0.1)


def test_without_noise_a_value_is_at_most_half_a_unit_from_the_largest_gain(monkeypatch):
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda key, shape, rate: jnp.zeros(shape, jnp.int32))
    chosen = config(users=1, release="value")
    (grid,), top = chosen.gain_grids, exact.largest_gain(chosen)
    state = dp_gp_ucb.algorithm.init(jax.random.key(0), chosen)
    for gain in (0.3137, 0.71, 0.999):
        score = SCORE(exact.clip_gains(jnp.asarray([gain]), top), top, grid)
        raw = state.raw._replace(scores=jax.tree.map(lambda word: word[None, None], score))
        value = dp_gp_ucb.algorithm.release(jax.random.key(1), chosen, state._replace(raw=raw)).value
        assert abs(value - gain) <= 0.501 * exact.unit(chosen, grid)


class Failing:
    """Gains that cannot be had at the third candidate."""

    def __call__(self, point, gains):
        if point[-1] == 2:
            raise OSError
        return looked_up(point, gains)


def test_a_state_of_another_budget_is_not_gone_on_from():
    """Its scores are whole numbers of that budget's unit: one user moves them ten times as far."""
    gains = np.zeros((500, 3))
    gains[0] = [1.0, 0.0, 0.0]
    candidates = [[0.0], [1.0], [2.0]]
    begun, other = (
        config(candidates=candidates, users=500, epsilon=epsilon, release="point") for epsilon in (8.0, 0.8)
    )
    with pytest.raises(drivers.RunInterrupted) as caught:
        drivers.run_loop(dp_gp_ucb.algorithm, Failing(), gains, begun, **group_options(**SEEDED))
    snapshot = caught.value.snapshot
    scores = integers.value(*snapshot.state.raw.scores)[0]
    moved = scores[0] - scores[1]
    assert moved == int(begun.point_units) > 9 * int(other.point_units)
    with pytest.raises(
        ValueError, match=r"resume must be a snapshot of a run with the noise of this config, got epsilon"
    ):
        drivers.run_loop(dp_gp_ucb.algorithm, looked_up, gains, other, **group_options(**SEEDED, resume=snapshot))
    done = drivers.run_loop(dp_gp_ucb.algorithm, looked_up, gains, begun, **group_options(**SEEDED, resume=snapshot))
    assert int(done.diagnostics.state.public.step) == 3


@pytest.mark.daily("changes1", "changes3")
@pytest.mark.parametrize(
    "changes", [{"users": 501}, {"largest_gain": 2.0}, {"candidates": [[0.0], [1.0], [2.5]]}, {"epsilon": 1.0 + 1e-9}]
)
def test_a_release_of_a_state_of_another_config_has_seen_nothing(changes):
    options = {"candidates": [[0.0], [1.0], [2.0]], "release": "both"}
    begun, other = config(**options), config(**(options | changes))
    state, fresh = (dp_gp_ucb.algorithm.init(jax.random.key(0), each) for each in (begun, other))
    private = state.raw._replace(
        utilities=jnp.array([-2.0, 2.0, 0.0]), scores=jax.tree.map(lambda word: word + 5, state.raw.scores)
    )
    keys = jax.random.split(jax.random.key(1), 20)
    release = jax.jit(jax.vmap(dp_gp_ucb.algorithm.release, in_axes=(0, None, None)))
    seen, unseen, own = (
        release(keys, chosen, state._replace(public=public, raw=private if nothing is None else nothing))
        for chosen, public, nothing in (
            (other, state.public, None), (other, fresh.public, fresh.raw), (begun, state.public, None),
        )
    )  # fmt: skip
    jax.tree.map(np.testing.assert_array_equal, seen, unseen)
    assert np.any(np.asarray(own.value) != np.asarray(seen.value))
    query = types.Query(jnp.zeros((1, 1)), jnp.ones(1, bool), jnp.zeros(1, jnp.int32))
    told, _ = jax.jit(dp_gp_ucb.algorithm.tell)(keys[0], other, state, query, jnp.ones((1, other.users)))
    jax.tree.map(np.testing.assert_array_equal, told, state)
