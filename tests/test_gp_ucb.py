"""GP-UCB: the picks of a dense NumPy oracle, a search that finds, and values that are no numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import kernels as kernel_oracle
from oracles import ucb as oracle
from oracles.gp import predict

from jaxdpbo import drivers, kernels
from jaxdpbo.algorithms import gp_ucb
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.surrogate import acquisition, box_search, preprocessing

BOUNDS = np.array([[-1.0, 0.0], [1.0, 3.0]])
CANDIDATES = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * np.random.default_rng(0).uniform(size=(40, 2))
LENGTHSCALE, NOISE, DELTA, STEPS, USERS = 0.6, 1e-3, 0.1, 20, 3

SMALL = box_search.BoxSearch(raw_samples=100, ascent_steps=30)


def config(**changes):
    options = {
        "steps": STEPS, "candidates": CANDIDATES, "noise_variance": NOISE, "delta": DELTA,
        "kernel_params": kernels.stationary_params(LENGTHSCALE, 2),
    }  # fmt: skip
    return gp_ucb.config(**(options | changes))


def boxed(**changes):
    return gp_ucb.config(**({"steps": STEPS, "bounds": low_high(BOUNDS), "search": SMALL} | changes))


def hills(point, data):
    """A smooth function of two parameters, its maximum 2 near (0.5, 2.2)."""
    far = jnp.square((point - data) / jnp.array([0.4, 0.5]))
    return 2.0 * jnp.exp(-0.5 * jnp.sum(far)) + 0.3 * jnp.cos(3.0 * point[0]) * jnp.sin(2.0 * point[1])


TOP = jnp.array([0.5, 2.2])


def key(seed=0):
    return jax.random.key(seed)


def scan(objective, chosen, data=TOP, seed=0):
    return drivers.run_scan(gp_ucb.algorithm, objective, data, chosen, key=key(seed), diagnostics=True)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_picks_over_a_finite_set_are_the_oracles(seed):
    utilities = np.array([float(hills(jnp.asarray(point), TOP)) for point in CANDIDATES])
    run = scan(hills, config(), seed=seed)
    rows = np.asarray(run.diagnostics.state.raw.rows)
    kernel = kernel_oracle.rbf(np.full(2, LENGTHSCALE), 1.0)
    assert rows.tolist() == oracle.picks(kernel, CANDIDATES, utilities, rows[0], STEPS, NOISE, DELTA)
    best = rows[np.argmax(utilities[rows])]
    assert int(run.release.row) == best
    np.testing.assert_array_equal(run.release.point, CANDIDATES[best])
    np.testing.assert_allclose(run.diagnostics.info.raw["value"][:, 0], utilities[rows], rtol=1e-12)


@pytest.mark.daily("4")
@pytest.mark.parametrize("batch", [2, 4])
def test_the_picks_of_a_batch_are_the_oracles(batch):
    utilities = np.array([float(hills(jnp.asarray(point), TOP)) for point in CANDIDATES])
    run = scan(hills, config(steps=6, batch=batch))
    rows = np.asarray(run.diagnostics.state.raw.rows)
    kernel = kernel_oracle.rbf(np.full(2, LENGTHSCALE), 1.0)
    assert rows.tolist() == oracle.picks(kernel, CANDIDATES, utilities, rows[0], 6, NOISE, DELTA, batch)
    alone = oracle.picks(kernel, CANDIDATES, utilities, rows[0], 6 * batch, NOISE, DELTA)
    assert rows.tolist() != alone  # where it knows more values
    assert int(run.release.row) == rows[np.argmax(utilities[rows])]


def test_a_batch_over_a_box_spreads_and_finds():
    run = scan(hills, boxed(steps=5, batch=4))
    points = np.asarray(run.diagnostics.state.raw.factorization.points).reshape(5, 4, 2)
    apart = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)[:, ~np.eye(4, dtype=bool)]
    assert apart[0].min() > 0.5  # before any value is known
    assert apart.min() > 0
    assert float(hills(run.release.point, TOP)) > 1.9


def test_a_masked_point_of_a_batch_is_not_learnt():
    chosen = config(batch=2)
    state = gp_ucb.init(key(), chosen)
    query = gp_ucb.ask(key(), chosen, state)
    masked = query._replace(mask=jnp.array([True, False]))
    after, info = gp_ucb.tell(key(), chosen, state, masked, jnp.array([1.0, jnp.nan]))
    assert info.raw["learnt"].tolist() == [True, False]
    assert int(jnp.sum(after.raw.factorization.mask)) == 1


def rough(point, data):
    """The hills, seen through noise that is fixed for each point."""
    return hills(point, TOP) + jnp.sin(data * jnp.sum(point))


def test_the_believed_best_is_of_the_largest_posterior_mean():
    noise, kernel, gained = 0.5, kernel_oracle.rbf(np.full(2, LENGTHSCALE), 1.0), []
    for roughness in (1e3, 2e3, 3e3, 4e3, 5e3, 6e3, 7e3, 8e3):
        run = scan(rough, config(answer="best_posterior_mean", noise_variance=noise), jnp.asarray(roughness))
        plain = gp_ucb.release(key(), config(noise_variance=noise), run.diagnostics.state)
        private = run.diagnostics.state.raw
        rows, values = np.asarray(private.rows), np.asarray(private.utilities)
        standard = (values - values.mean()) / values.std()
        mean, _ = predict(kernel, CANDIDATES[rows], np.full(STEPS, noise), standard, CANDIDATES[rows])
        assert int(run.release.row) == rows[np.argmax(mean)]
        assert int(plain.row) == rows[np.argmax(values)]
        gained.append(float(hills(run.release.point, TOP) - hills(plain.point, TOP)))
    assert np.mean(gained) > 0.05


def test_the_first_candidate_is_drawn_from_the_key():
    asked = jax.jit(lambda one, state: gp_ucb.ask(one, config(), state).rows[0])
    state = gp_ucb.init(key(), config())
    drawn = [int(asked(one, state)) for one in jax.random.split(key(4), 40)]
    assert len(set(drawn)) > 15
    assert min(drawn) >= 0
    assert max(drawn) < len(CANDIDATES)


def test_beta_schedules_by_hand():
    np.testing.assert_allclose(
        acquisition.beta_of_candidates(3, 50, 0.1), 2 * np.log(50 * 9 * np.pi**2 / 0.6), rtol=1e-12
    )
    np.testing.assert_allclose(acquisition.beta_of_candidates(1, 1, 0.5), 2.3816950, rtol=1e-7)  # 2 log(pi^2 / 3)
    np.testing.assert_allclose(acquisition.beta_of_box(1, 5), 0.6931472, rtol=1e-7)  # log 2
    np.testing.assert_allclose(acquisition.beta_of_box(10, 4), 0.8 * np.log(20.0), rtol=1e-12)
    assert gp_ucb.beta(config(beta=0.25), jnp.asarray(7)) == 0.25
    np.testing.assert_array_equal(gp_ucb.beta(config(), jnp.asarray(7)), acquisition.beta_of_candidates(8, 40, DELTA))
    np.testing.assert_array_equal(gp_ucb.beta(boxed(), jnp.asarray(7)), acquisition.beta_of_box(8, 2))


@pytest.mark.daily("10")
@pytest.mark.parametrize("refit_every", [0, 10])
def test_a_box_is_searched_far_better_than_at_random(refit_every):
    grid = np.stack(np.meshgrid(*(np.linspace(*side, 300) for side in BOUNDS.T)), -1).reshape(-1, 2)
    top = float(jnp.max(jax.vmap(hills, in_axes=(0, None))(jnp.asarray(grid), TOP)))
    found = [
        float(hills(scan(hills, boxed(refit_every=refit_every), seed=seed).release.point, TOP)) for seed in range(4)
    ]
    places = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * np.random.default_rng(1).uniform(size=(500, STEPS, 2))
    drawn = jax.vmap(jax.vmap(hills, in_axes=(0, None)), in_axes=(0, None))(jnp.asarray(places), TOP)
    missed_at_random = float(jnp.median(top - jnp.max(drawn, axis=1)))
    assert top - min(found) < missed_at_random / 10


def test_a_refit_moves_the_numbers_and_the_posterior_follows():
    chosen = boxed(refit_every=10)
    private = scan(hills, chosen).diagnostics.state.raw
    assert not np.allclose(private.model.params.lengthscale, chosen.model.params.lengthscale, rtol=1e-2)
    whitening = np.asarray(private.factorization.whitening)
    lengthscale, variance = np.asarray(private.model.params.lengthscale), float(private.model.params.variance)
    points = np.asarray(private.factorization.points)
    covariance = kernel_oracle.gram(kernel_oracle.rbf(lengthscale, variance), points, points)
    covariance += float(private.model.noise_variance) * np.eye(STEPS)
    np.testing.assert_allclose(whitening @ covariance @ whitening.T, np.eye(STEPS), atol=1e-8)


def test_equal_values_determine_no_scale_and_move_no_numbers():
    model = scan(lambda point, data: 0.0 * data[0], boxed(refit_every=10)).diagnostics.state.raw.model
    jax.tree.map(np.testing.assert_array_equal, model, boxed().model)


def test_the_scale_of_the_values_does_not_matter():
    rows = [
        scan(scaled, config(), jnp.array([factor, shift])).diagnostics.state.raw.rows
        for factor, shift in ((1.0, 0.0), (1e-6, 0.0), (1e6, -3e6), (1e300, 0.0))
    ]
    for other in rows[1:]:
        np.testing.assert_array_equal(other, rows[0])


def scaled(point, data):
    return data[0] * hills(point, TOP) + data[1]


def losses(point, data):
    return jnp.sum(jnp.square(point[None] - data), axis=1)


def test_users_losses_are_averaged_over_those_that_are_finite():
    data = np.array([[0.0, 1.0], [np.nan, 1.0], [0.4, 2.0]])
    run = scan(losses, config(users=USERS), data)
    expected = np.mean([np.sum((CANDIDATES - data[user]) ** 2, axis=1) for user in (0, 2)], axis=0)
    rows = np.asarray(run.diagnostics.state.raw.rows)
    np.testing.assert_allclose(run.diagnostics.info.raw["value"][:, 0], expected[rows], rtol=1e-12)
    assert expected[int(run.release.row)] == np.min(expected[rows]) == np.min(expected)


def treacherous(point, data):
    """NaN, infinite or huge on three parts of the box."""
    value = hills(point, TOP)
    return jnp.where(point[0] < -0.3, data, value)


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [config, boxed])
def test_a_value_that_is_no_number_is_learnt_as_bad_and_never_the_best(junk, make):
    run = scan(treacherous, make(), jnp.asarray(junk))
    private = run.diagnostics.state.raw
    assert run.release.point[0] >= -0.3
    assert hills(run.release.point, TOP) > 1.5
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(private.factorization))
    failed = np.asarray(private.factorization.points)[np.asarray(private.utilities) == -np.inf]
    assert len(np.unique(failed, axis=0)) == len(failed)  # not asked for again


def nowhere(point, data):
    return jnp.sum(point) * data


def test_where_no_value_is_a_number_the_answer_still_is():
    for chosen in (config(), boxed(refit_every=10)):
        run = scan(nowhere, chosen, jnp.asarray(np.nan))
        assert np.all(np.isfinite(run.release.point))
        assert len(np.unique(np.asarray(run.diagnostics.state.raw.factorization.points), axis=0)) > STEPS // 2


def negative(params, x, y):
    """No kernel: a covariance that can not be factored."""
    return -kernels.rbf(params, x, y)


def test_a_covariance_that_can_not_be_factored_raises_nothing_and_is_flagged():
    run = scan(hills, config(kernel=negative))
    assert not np.any(run.diagnostics.info.raw["learnt"])
    assert np.all(np.isfinite(run.release.point))
    assert np.all(np.isfinite(run.diagnostics.state.raw.factorization.whitening))  # a later point may be learnt
    assert np.all(scan(hills, config()).diagnostics.info.raw["learnt"])


def test_before_any_value_the_middle_is_the_answer():
    chosen = boxed()
    state = gp_ucb.init(key(), chosen)
    np.testing.assert_array_equal(gp_ucb.release(key(), chosen, state).point, BOUNDS.mean(axis=0))
    np.testing.assert_array_equal(
        compiled_steps.ask(gp_ucb.algorithm, key(), chosen, state).points[0], BOUNDS.mean(axis=0)
    )


def test_float32_finds_the_top(float32):
    released = scan(hills, boxed(refit_every=10), jnp.asarray(TOP, jnp.float32)).release
    assert np.array_equal(released.point, released.point.astype(np.float32))
    assert hills(released.point, jnp.asarray(TOP, jnp.float32)) > 2.0


@pytest.mark.parametrize(
    ("values", "mask", "expected"),
    [
        ([1.0, 3.0, 9.0], [True, True, False], [-1.0, 1.0, 0.0]),
        ([2.0, 2.0, 2.0], [True] * 3, [0.0] * 3),
        ([1e307, -1e307, 0.0], [True] * 3, [1.5**0.5, -(1.5**0.5), 0.0]),
        ([0.0, 0.0, 5.0], [False] * 3, [0.0] * 3),
        ([1e-300, 0.0, 0.0], [True, True, False], [1.0, -1.0, 0.0]),
    ],
)
def test_standardized(values, mask, expected):
    found = preprocessing.standardize(jnp.asarray(values), jnp.asarray(mask))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.daily("31", "1", "3")
@pytest.mark.parametrize("count", [1, 2, 3, 8, 31])
def test_half_ranked_is_the_oracle(count):
    rng = np.random.default_rng(count)
    for values in (rng.normal(size=count), rng.normal(size=count) ** 3 * 1e5, rng.integers(0, 3, count) * 1.0):
        padded, mask = np.append(values, [9e9, -9e9]), np.append(np.ones(count, bool), [False] * 2)
        found = np.asarray(preprocessing.rank_lower_half(jnp.asarray(padded), jnp.asarray(mask)))
        np.testing.assert_allclose(found[:-2], oracle.half_ranked(values), atol=1e-10)
        np.testing.assert_array_equal(found[-2:], 0.0)


@pytest.mark.parametrize("worst", [-1e3, -1e12, -1e250])
def test_how_bad_the_worst_is_does_not_matter(worst):
    values = jnp.array([1.0, 2.0, 3.5, 2.5, worst, -1.0])
    found = preprocessing.rank_lower_half(values, jnp.ones(6, bool))
    np.testing.assert_allclose(
        found, preprocessing.rank_lower_half(values.at[4].set(-5.0), jnp.ones(6, bool)), rtol=1e-6
    )
    assert np.std(found) > 0.99


def test_noisy_values_are_not_ranked():
    utilities, mask = jnp.array([1.0, 2.0, 3.0, -50.0]), jnp.ones(4, bool)
    for answer, of in (
        ("observed", preprocessing.rank_lower_half),
        ("best_posterior_mean", preprocessing.standardize),
    ):
        np.testing.assert_array_equal(
            gp_ucb.standardise_utilities(config(answer=answer), utilities, mask), of(utilities, mask)
        )


def test_repaired():
    values, mask = jnp.array([-np.inf, 2.0, -3.0, np.nan, 7.0]), jnp.array([True, True, True, True, False])
    np.testing.assert_array_equal(preprocessing.repair(values, mask), [-3.0, 2.0, -3.0, -3.0, 0.0])
    np.testing.assert_array_equal(preprocessing.repair(values, jnp.arange(5) == 0), np.zeros(5))


def test_ascents_beat_their_samples_and_stays_in_the_box():
    lower, upper = jnp.asarray(BOUNDS)

    def utility(point):
        return hills(point, TOP)

    def found(seed, steps):
        return box_search.sample_and_ascend(
            key(seed), utility, lower, upper, incumbent=lower, raw_samples=20, num_restarts=3, steps=steps
        )

    for seed in range(3):
        point, value = jax.jit(found, static_argnums=1)(seed, 40)
        assert value > 2.0  # of 2.05
        assert np.all((point >= lower) & (point <= upper))


@pytest.mark.daily("9-8")
@pytest.mark.parametrize(("samples", "restarts"), [(20, 3), (9, 8), (1, 1)])
def test_a_box_is_searched_as_well_by_groups(samples, restarts):
    """Whole numbers of samples a group or not; a NaN wins over none."""
    lower, upper = jnp.asarray(BOUNDS)
    search = box_search.BoxSearch(raw_samples=samples, num_restarts=restarts, ascent_steps=40)

    def utilities(points):
        heights = jax.vmap(hills, in_axes=(0, None))(points, TOP)
        return jnp.where(points[:, 0] < -0.9, jnp.nan, heights)

    for seed in range(3):
        start = jnp.array([0.0, 1.5])
        point, value = box_search.search_box(key(seed), utilities, lower, upper, incumbent=start, search=search)
        assert value > 2.0  # of 2.05
        assert np.all((point >= lower) & (point <= upper))
        assert value == utilities(point[None])[0]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bounds": BOUNDS}, ValueError, "exactly one of bounds and candidates, got both$"),
        ({"candidates": None}, ValueError, "exactly one of bounds and candidates, got neither$"),
        ({"candidates": CANDIDATES[0]}, ValueError, r"candidates must have shape \(c, d\), got \(2,\)"),
        ({"candidates": CANDIDATES * np.nan}, ValueError, "candidates must be finite"),
        ({"candidates": "here"}, TypeError, "candidates must be a"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"users": 0}, ValueError, "users must be at least 1"),
        ({"beta": -1.0}, ValueError, "beta must be at least zero"),
        ({"delta": 1.0}, ValueError, "delta must lie strictly between 0 and 1"),
        ({"refit_every": -1}, ValueError, "refit_every must be at least 0"),
        (
            {"search": box_search.BoxSearch(num_restarts=2000)},
            ValueError,
            "num_restarts must be at most raw_samples = 1000",
        ),
        ({"search": box_search.BoxSearch(raw_samples=0)}, ValueError, "raw_samples must be at least 1, got 0"),
        ({"search": box_search.BoxSearch(ascent_steps=0.5)}, TypeError, "ascent_steps must be an integer"),
        ({"search": (1000, 8, 50)}, TypeError, "search must be a surrogate.BoxSearch, such as BoxSearch.*, got tuple"),
        ({"answer": "best"}, ValueError, "answer must be one of"),
        ({"noise_variance": 0}, ValueError, "noise_variance must be positive"),
    ],
)
def test_bad_configurations_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        config(**changes)


def test_a_side_of_no_extent_has_a_lengthscale_all_the_same():
    chosen = gp_ucb.config(steps=2, candidates=[[0.0, 1.0], [4.0, 1.0]])
    np.testing.assert_allclose(chosen.model.params.lengthscale, [2**0.5, 1.0])
