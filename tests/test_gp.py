"""The posterior in its buffer is the textbook one: conditioned at once or in blocks, with holes, in both precisions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import NAMES, VARIANCE, case, lengthscale
from oracles import gp as oracle
from oracles import kernels as kernel_oracle
from scipy.linalg import solve_triangular
from scipy.stats import multivariate_normal

from jaxdpbo import kernels
from jaxdpbo.surrogate import gp, gp_fit, gradient

CAPACITY, BATCH, DIMENSION, NOISE = 24, 4, 3, 1e-6

condition = jax.jit(gp.condition)
append = jax.jit(gp.append)
predict = jax.jit(gp.predict)
likelihood = jax.jit(gp.log_marginal_likelihood)
noise = jax.jit(gp.noise)


def scene(name, seed=0):
    """Points down to 0.03 lengthscales apart, a mask with holes, values of the model's own making, new points."""
    made = case(name, DIMENSION)
    rng = np.random.default_rng(seed)
    scales = lengthscale(DIMENSION) if not name.startswith("polynomial") else 1.0
    points = scales * oracle.clustered(rng, CAPACITY, DIMENSION, 0.03)
    mask = np.ones(CAPACITY, bool)
    mask[[0, 5, 9, 10, 11, 22]] = False
    noises = oracle.noise(made.oracle, points, NOISE, 1e-10)
    root = np.linalg.cholesky(oracle.covariance(made.oracle, points, noises))
    values = root @ rng.normal(size=(CAPACITY, 3))
    new = np.concatenate([scales * rng.uniform(size=(4, DIMENSION)), points[:2]])
    return made, points, mask, noises, values, new


def in_blocks(made, points, mask, batch=BATCH):
    factorization = gp.empty(CAPACITY, DIMENSION, points.dtype)
    for start in range(0, CAPACITY, batch):
        rows = slice(start, start + batch)
        factorization = append(made.model(NOISE), factorization, jnp.asarray(points[rows]), jnp.asarray(mask[rows]))
    return factorization


def relative(actual, expected):
    return np.linalg.norm(np.asarray(actual) - expected) / np.linalg.norm(expected)


def identical(left, right):
    """The same bits, NaN included."""
    return all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_blocks_and_one_go_are_the_oracle(name):
    made, points, mask, noises, values, new = scene(name)
    at_once = condition(made.model(NOISE), points, mask)
    blocks = in_blocks(made, points, mask)
    held = points[mask], noises[mask]
    expected = [oracle.predict(made.oracle, *held, column[mask], new) for column in values.T]
    mean = np.stack([mean for mean, _ in expected], axis=1)
    variance = np.diagonal(expected[0][1])
    for factorization in (at_once, blocks):
        found, uncertainty = predict(made.model(), factorization, values, new)
        assert relative(found, mean) < 1e-8
        assert np.max(np.abs(uncertainty - variance)) < 1e-9 * VARIANCE
        whitening = np.asarray(factorization.whitening)
        np.testing.assert_array_equal(whitening, np.tril(whitening))
        np.testing.assert_array_equal(whitening[~mask], np.eye(CAPACITY)[~mask])
        np.testing.assert_array_equal(whitening[:, ~mask], np.eye(CAPACITY)[:, ~mask])
        factor = np.linalg.cholesky(oracle.covariance(made.oracle, *held))
        inverse = solve_triangular(factor, np.eye(mask.sum()), lower=True)
        assert relative(whitening[np.ix_(mask, mask)], inverse) < 1e-7
        assert factorization.used == CAPACITY
    np.testing.assert_array_equal(blocks.points, at_once.points)
    np.testing.assert_array_equal(blocks.mask, at_once.mask)


def test_blocks_of_every_size_agree():
    made, points, mask, _, values, new = scene("rbf")
    means = [predict(made.model(), in_blocks(made, points, mask, batch), values, new)[0] for batch in (1, 24)]
    assert relative(means[0], means[1]) < 1e-8


def test_one_function_and_many_are_predicted_alike():
    made, points, mask, _, values, new = scene("matern52")
    factorization = condition(made.model(NOISE), points, mask)
    many, variance = predict(made.model(), factorization, values, new)
    one, same_variance = predict(made.model(), factorization, values[:, 1], new)
    assert many.shape == (6, 3)
    assert one.shape == variance.shape == (6,)
    np.testing.assert_allclose(one, many[:, 1], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(variance, same_variance)


@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e300])
def test_whatever_stands_at_masked_rows_is_ignored(junk):
    made, points, mask, _, values, new = scene("rbf")
    spoilt_values, spoilt_points = values.copy(), points.copy()
    spoilt_values[~mask] = junk
    spoilt_points[~mask] = junk
    clean = condition(made.model(NOISE), points, mask)
    expected = predict(made.model(), clean, values, new)
    assert identical(predict(made.model(), clean, spoilt_values, new), expected)
    for factorization in (
        condition(made.model(NOISE), spoilt_points, mask),
        in_blocks(made, spoilt_points, mask),
    ):
        found = predict(made.model(), factorization, spoilt_values, new)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-8)
    here = likelihood(made.model(NOISE), points, values[:, 0], mask)
    assert here == likelihood(made.model(NOISE), spoilt_points, spoilt_values[:, 0], mask)


def test_values_that_count_are_not_ignored():
    made, points, mask, _, values, new = scene("rbf")
    factorization = condition(made.model(NOISE), points, mask)
    for row in np.flatnonzero(mask):
        spoilt = values.copy()
        spoilt[row] = np.nan
        assert np.all(np.isnan(predict(made.model(), factorization, spoilt, new)[0]))


def test_masked_blocks_use_rows_and_teach_nothing():
    made, points, mask, _, values, new = scene("rbf")
    nothing = np.zeros(BATCH, bool)
    first = append(made.model(NOISE), gp.empty(CAPACITY, DIMENSION, float), points[:BATCH], mask[:BATCH])
    second = append(made.model(NOISE), first, points[BATCH : 2 * BATCH], nothing)
    assert second.used == 2 * BATCH
    assert identical(predict(made.model(), first, values, new), predict(made.model(), second, values, new))


def test_the_empty_posterior_is_the_prior():
    made, *_, values, new = scene("matern32")
    mean, variance = predict(made.model(), gp.empty(CAPACITY, DIMENSION, float), values, new)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(variance, VARIANCE)


@pytest.mark.parametrize("room", [BATCH - 1, 1, 0])
def test_append_without_room_changes_no_bit(room):
    made, points, mask, *_ = scene("rbf")
    full = in_blocks(made, points, mask)._replace(used=jnp.asarray(CAPACITY - room, jnp.int32))
    after = append(made.model(NOISE), full, points[:BATCH] + 9.0, np.ones(BATCH, bool))
    assert identical(after, full)


def test_append_into_the_last_free_rows_takes_place():
    made, points, mask, *_ = scene("rbf")
    nearly = in_blocks(made, points, mask)._replace(used=jnp.asarray(CAPACITY - BATCH, jnp.int32))
    after = append(made.model(NOISE), nearly, points[:BATCH] + 9.0, np.ones(BATCH, bool))
    assert after.used == CAPACITY
    np.testing.assert_array_equal(after.points[-BATCH:], points[:BATCH] + 9.0)


def test_append_refuses_more_points_than_the_buffer_holds():
    made, *_ = scene("rbf")
    factorization = gp.empty(3, DIMENSION, float)
    with pytest.raises(ValueError, match="points must be at most the capacity 3, got 4"):
        append(made.model(NOISE), factorization, jnp.zeros((4, DIMENSION)), jnp.ones(4, bool))


@pytest.mark.parametrize("name", NAMES)
def test_log_marginal_likelihood_is_the_normal_density(name):
    made, points, mask, noises, values, _ = scene(name)
    found = likelihood(made.model(NOISE), points, values[:, 0], mask)
    observed = oracle.covariance(made.oracle, points[mask], noises[mask])
    expected = multivariate_normal.logpdf(values[mask, 0], np.zeros(mask.sum()), observed, allow_singular=False)
    assert found.shape == ()
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def fit_scene():
    """Forty noisy values of a function with lengthscales 0.4 and 2, unit variance and noise variance 1e-2."""
    rng = np.random.default_rng(3)
    truth = prior_of([0.4, 2.0], 1e-2)
    points = rng.uniform(-2, 2, size=(40, 2))
    root = np.linalg.cholesky(np.asarray(gp.covariance(truth, points, np.ones(40, bool))))
    return truth, jnp.asarray(points), jnp.asarray(root @ rng.normal(size=40)), jnp.ones(40, bool)


def prior_of(lengthscale, noise_variance, variance=1.0):
    return gp.GPModel(
        kernels.rbf, kernels.stationary_params(lengthscale, 2, variance=variance), jnp.asarray(noise_variance)
    )


def test_fit_recovers_the_lengthscales_that_made_the_values():
    truth, points, values, mask = fit_scene()
    found = fitted(0, prior_of(1.0, 0.1), points, values, mask, num_restarts=4, steps=120)
    np.testing.assert_array_less(np.abs(np.log(found.params.lengthscale / truth.params.lengthscale)), np.log(1.7))
    assert 1e-2 / 3 < found.noise_variance < 3e-2
    assert likelihood(found, points, values, mask) >= likelihood(truth, points, values, mask)


def fitted(seed, model, points, values, mask, **options):
    return jax.jit(partial(gp_fit.fit, **options))(jax.random.key(seed), model, points, values, mask)


def test_fit_is_never_worse_than_where_it_starts():
    _, *scene_of_fit = fit_scene()
    begun = prior_of([0.41, 2.1], 1e-2, variance=0.9)
    found = fitted(1, begun, *scene_of_fit, num_restarts=1, steps=1)
    before = likelihood(begun, *scene_of_fit)
    assert likelihood(found, *scene_of_fit) >= before - 1e-9 * abs(before)


def test_fit_stays_within_its_factor():
    _, *scene_of_fit = fit_scene()
    begun = prior_of([100.0, 2.0], 0.1)
    found = fitted(2, begun, *scene_of_fit, num_restarts=2, steps=100)
    for new, old in zip(jax.tree.leaves(found), jax.tree.leaves(begun), strict=True):
        assert np.all(np.abs(np.log(new / old)) <= np.log(gp_fit.FIT_FACTOR) * (1 + 1e-12))
    np.testing.assert_allclose(found.params.lengthscale[0], 1.0, rtol=1e-12)  # 0.4 is beyond what may be searched


def test_fit_starts_where_it_is_told():
    _, *scene_of_fit = fit_scene()
    begun, better = prior_of([2.0, 2.0], 0.1), prior_of([0.4, 2.0], 1e-2)
    found = fitted(3, begun, *scene_of_fit, num_restarts=1, steps=1, initial=better)
    assert likelihood(found, *scene_of_fit) >= likelihood(better, *scene_of_fit) - 1e-9


def test_a_narrow_spread_holds_a_fit_where_it_was():
    _, *scene_of_fit = fit_scene()
    begun = prior_of([2.0, 2.0], 0.1)
    found = fitted(2, begun, *scene_of_fit, num_restarts=2, steps=50, scale=1e-3)
    for new, old in zip(jax.tree.leaves(found), jax.tree.leaves(begun), strict=True):
        np.testing.assert_allclose(new, old, rtol=0.05)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"scale": 0.0}, ValueError, "scale must be positive, got 0.0"),
        ({"num_restarts": 0}, ValueError, "num_restarts must be at least 1, got 0"),
        ({"steps": 0}, ValueError, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an integer, got 1.5"),
    ],
)
def test_fit_refuses_and_names(arguments, error, message):
    with pytest.raises(error, match=message):
        gp_fit.fit(jax.random.key(0), *fit_scene(), **arguments)


@pytest.mark.parametrize("given", [1e-9, 1e-4, 0.3])
def test_a_noise_variance_above_the_floor_is_used_exactly(given):
    made, points, *_ = scene("rbf")
    np.testing.assert_array_equal(noise(made.model(given), points), given)


@pytest.mark.parametrize("given", [0.0, 1e-14])
def test_a_noise_variance_under_the_floor_is_raised_point_by_point(given):
    made, points, *_ = scene("polynomial2")
    found = noise(made.model(given), points)
    np.testing.assert_allclose(found, [1e-10 * made.oracle.value(x, x) for x in points], rtol=1e-14)
    assert np.ptp(found) > 1e-10


def test_the_floor_of_float32_is_higher(float32):
    made = case("rbf", DIMENSION)
    points = jnp.zeros((2, DIMENSION), jnp.float32)
    raised = gp.noise(made.model(1e-6), points)
    np.testing.assert_allclose(raised, VARIANCE * 1e-4, rtol=1e-6)
    np.testing.assert_array_equal(gp.noise(made.model(1e-3), points), np.float32(1e-3))


def test_a_rank_deficient_gram_stays_finite_and_predicts():
    known = case("polynomial2", 5)
    points = np.random.default_rng(0).uniform(-2, 2, size=(60, 5))  # rank 21
    values = np.sum((points - 0.3) ** 2, axis=1) / 2
    new = np.random.default_rng(1).uniform(-2, 2, size=(4, 5))
    for noise_variance in (0.0, 1e-6):
        factorization = condition(known.model(noise_variance), points, np.ones(60, bool))
        assert np.all(np.isfinite(factorization.whitening))
        mean, variance = predict(known.model(), factorization, values, new)
        np.testing.assert_allclose(mean, np.sum((new - 0.3) ** 2, axis=1) / 2, rtol=1e-5)
        assert np.all((variance >= 0) & (variance < 1e-5))


def test_variance_is_never_negative():
    made, points, mask, *_ = scene("rbf")
    factorization = condition(made.model(0.0), points, mask)
    variance = predict(made.model(), factorization, np.zeros(CAPACITY), points)[1]
    assert np.all(variance >= 0)
    assert np.all(variance[mask] < 1e-6)


def test_float32_follows_the_float64_oracle(float32):
    made = case("rbf", DIMENSION)
    points, new = (x.astype(np.float32) for x in (scene("rbf")[1], scene("rbf")[5]))
    mask = scene("rbf")[2]
    noises = oracle.noise(made.oracle, points, 1e-4, 1e-4)
    root = np.linalg.cholesky(oracle.covariance(made.oracle, points.astype(float), noises))
    values = (root @ np.random.default_rng(4).normal(size=CAPACITY)).astype(np.float32)
    held = points.astype(float)[mask], noises[mask], values.astype(float)[mask]
    expected, covariance = oracle.predict(made.oracle, *held, new.astype(float))
    at_once = condition(made.model(1e-4), points, mask)
    blocks = gp.empty(CAPACITY, DIMENSION, jnp.float32)
    for start in range(0, CAPACITY, BATCH):
        rows = slice(start, start + BATCH)
        blocks = append(made.model(1e-4), blocks, points[rows], mask[rows])
    for factorization in (at_once, blocks):
        mean, variance = predict(made.model(), factorization, values, new)
        assert mean.dtype == factorization.whitening.dtype == jnp.float32
        assert relative(mean, expected) < 1e-2
        np.testing.assert_allclose(variance, np.diagonal(covariance), atol=1e-3)


@pytest.mark.parametrize("capacity", [5, 63, 275])
def test_stages_hold_whole_batches_and_end_at_the_capacity(capacity):
    for batch in (1, 5, 11):
        rows = gp.stages(capacity, min(batch, capacity))
        assert rows[-1] == capacity
        assert len(rows) <= gp.STAGES
        assert np.all(np.diff(rows) > 0)
        assert all(row % batch == 0 for row in rows[:-1])


def test_a_staged_function_sees_as_few_rows_as_it_needs_and_finds_the_same():
    """At every filling of the buffer: the prediction on the leading rows against that on all of them."""
    rng, capacity, batch = np.random.default_rng(0), 130, 10
    made = case("rbf", 2)
    model = made.model(NOISE)
    points, values, targets = rng.normal(size=(capacity, 2)), rng.normal(size=capacity), rng.normal(size=(3, 2))

    @jax.jit
    def both(used):
        mask = jnp.arange(capacity, dtype=jnp.int32) < used
        factorization = gp.condition(model, jnp.asarray(points), mask)._replace(used=used)

        def predicted(known):
            seen = jnp.asarray(values)[: known.points.shape[0]]
            return *gp.predict(model, known, seen, targets), jnp.asarray(known.points.shape[0])

        return gp.apply_to_stage(factorization, batch, predicted), predicted(factorization)

    smallest = {used: min(row for row in gp.stages(capacity, batch) if row >= min(used + batch, capacity))
                for used in range(0, capacity + 1, batch)}  # fmt: skip
    for used, rows in smallest.items():
        staged, whole = both(jnp.asarray(used, jnp.int32))
        np.testing.assert_allclose(staged[0], whole[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(staged[1], whole[1], rtol=1e-9, atol=1e-12)
        assert staged[2] == rows
    assert len(set(smallest.values())) == 2


def test_many_points_of_many_coordinates_have_the_covariance_of_few():
    """Eighty points by one function for Gram matrices, twenty by the other."""
    made, rng = case("matern52", 100), np.random.default_rng(0)
    points, mask = rng.uniform(size=(80, 100)) * lengthscale(100), np.arange(80) != 7
    assert points.size * 20 < gp.MANY_NUMBERS <= points.size * 80

    @jax.jit
    def found(points, mask):
        known = gp.condition(made.model(NOISE), points, mask)
        few, many = (gp.cross_covariance(made.model(NOISE), known, some) for some in (points[:20], points))
        return few, many, gp.covariance(made.model(NOISE), points, mask)

    few, many, covariance = found(jnp.asarray(points), jnp.asarray(mask))
    expected = oracle.gram(made.oracle, points, points) * mask[:, None]
    np.testing.assert_allclose(few, expected[:, :20], rtol=1e-12)
    np.testing.assert_allclose(many, expected, rtol=1e-12)
    noises = np.diag(np.where(mask, NOISE, 1.0))
    np.testing.assert_allclose(covariance, expected * mask[None, :] + noises, rtol=1e-12)


@pytest.mark.parametrize("many", [False, True])
def test_every_posterior_has_two_derivatives_of_both_modes_at_any_size(many, monkeypatch):
    """By the function of few pairs and by that of many, which sizes choose between; against differences."""
    monkeypatch.setattr(gp, "MANY_NUMBERS", 1 if many else 2**30)
    rng, made = np.random.default_rng(0), case("matern52", 2)
    mask, begun = jnp.arange(5) != 3, jnp.asarray(rng.uniform(0.5, 1.0, size=21))
    weights, along = jnp.asarray(rng.normal(size=9)), jnp.asarray(rng.normal(size=21))

    def weighed(numbers):
        """Of points, values, points to predict at, and the model, all in one vector."""
        points, values, at = numbers[:10].reshape(5, 2), numbers[10:15], numbers[15:19].reshape(2, 2)
        model = jax.tree.map(lambda leaf: leaf * numbers[19], made.model(numbers[20]))
        known = gp.condition(model, points, mask)
        found = gp.predict(model, known, values, at), gp.predictor(model, known, values)(at)
        parts = *jax.tree.leaves(found), gp.log_marginal_likelihood(model, points, values, mask)[None]
        return jnp.concatenate(parts) @ weights

    def forward(function):
        return lambda numbers: jax.jvp(function, (numbers,), (along,))[1]

    def reverse(function):
        return lambda numbers: jax.grad(function)(numbers) @ along

    orders = [forward, reverse, *(lambda f, a=a, b=b: a(b(f)) for a in (forward, reverse) for b in (forward, reverse))]
    slopes = np.asarray(jax.jit(lambda numbers: jnp.stack([order(weighed)(numbers) for order in orders]))(begun))
    steps = 1e-4 * np.arange(-1, 2)
    low, middle, high = jax.jit(jax.vmap(lambda step: weighed(begun + step * along)))(jnp.asarray(steps)).tolist()
    np.testing.assert_allclose(slopes[:2], (high - low) / 2e-4, rtol=1e-5)
    np.testing.assert_allclose(slopes[2:], (high - 2 * middle + low) / 1e-8, rtol=1e-4)
    assert abs(slopes[2]) > 1e-3
    np.testing.assert_allclose(slopes[2:], slopes[2], rtol=1e-9)


def test_a_fit_keeps_the_sign_of_every_number():
    """Of a kernel of one's own; 0 stays 0."""
    _, points, values, mask = fit_scene()
    params = {"slope": jnp.asarray(-2.0), "size": jnp.asarray(1.0), "nothing": jnp.asarray(0.0)}
    model = gp.GPModel(slanted, params, jnp.asarray(0.1))
    found = fitted(0, model, points, values, mask, num_restarts=2, steps=60)
    assert found.params["nothing"] == 0.0
    assert -200.0 < found.params["slope"] < -0.02
    assert found.params["slope"] != -2.0
    assert likelihood(found, points, values, mask) > likelihood(model, points, values, mask)
    again = fitted(0, model, points, values, mask, num_restarts=1, steps=1, initial=found)
    assert likelihood(again, points, values, mask) >= likelihood(found, points, values, mask) - 1e-9


def slanted(params, x, y):
    """``exp`` of a negative number times a squared distance."""
    return params["size"] * jnp.exp(params["slope"] * jnp.sum(jnp.square(x - y))) + params["nothing"]


def test_the_nearest_points_are_those_of_largest_correlation_not_of_largest_covariance():
    """Of a polynomial the variance grows far out; a point that is masked comes last."""
    made, rng = case("polynomial2", 2), np.random.default_rng(4)
    points, theta = rng.normal(size=(9, 2)) * np.geomspace(0.2, 5.0, 9)[:, None], np.array([0.6, -0.3])
    mask = np.arange(9) != 2
    covariance = kernel_oracle.gram(made.oracle, points, theta[None])[:, 0]
    correlation = covariance / np.sqrt(np.diagonal(kernel_oracle.gram(made.oracle, points, points)))
    expected = np.argsort(np.where(mask, -correlation, np.inf), kind="stable")
    assert set(expected[:3]) != set(np.argsort(-covariance)[:3])
    np.testing.assert_array_equal(gp.nearest(made.model(), points, mask, theta, 9), expected)


@pytest.mark.parametrize("filling", [np.nan, np.inf, 1e300])
def test_what_stands_in_masked_rows_changes_nothing(filling):
    """Not in a value, and not in a gradient: a mask after the kernel would leave its NaN there."""
    made, points, mask, _, values, new = scene("matern52")
    model = gp.GPModel(made.kernel, made.params, jnp.asarray(NOISE))
    filled = np.where(mask[:, None], points, filling)
    odd = np.where(mask[:, None], values, filling)

    def of(points, values):
        slope = jax.grad(lambda model: gp.log_marginal_likelihood(model, points, values[:, 0], jnp.asarray(mask)))
        first = gp.condition(model, points[:20], jnp.asarray(mask[:20]))
        room = gp.Factorization(
            jnp.zeros_like(points).at[:20].set(first.points),
            jnp.zeros(CAPACITY, bool).at[:20].set(first.mask),
            jnp.eye(CAPACITY).at[:20, :20].set(first.whitening), jnp.asarray(20),
        )  # fmt: skip
        appended = gp.append(model, room, points[20:], jnp.asarray(mask[20:]))
        whole = gp.condition(model, points, jnp.asarray(mask))
        mean, variance = gp.predict(model, whole, values, new)
        found = gradient.gradient_posterior(model, whole, new[0])
        moves = jax.grad(
            lambda x: jnp.sum(gp.predict(model, gp.condition(model, x, jnp.asarray(mask)), values, new)[0])
        )
        fitted = gp_fit.fit(jax.random.key(0), model, points, values[:, 0], jnp.asarray(mask), num_restarts=1, steps=3)
        return slope(model), appended, mean, variance, found.weights, moves(points)[mask], fitted

    expected = jax.tree.leaves(of(jnp.asarray(np.where(mask[:, None], points, 0.0)), jnp.asarray(values)))
    for left, right in zip(expected, jax.tree.leaves(of(jnp.asarray(filled), jnp.asarray(odd))), strict=True):
        np.testing.assert_array_equal(left, right)
