"""Private linear models: exact sums of products, what one row can move, and steps as NumPy takes them."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles import integers

from jaxdpbo import drivers, private_linear, tables
from jaxdpbo.noise import integer_products

RNG = np.random.default_rng(0)
USERS, FEATURES = 300, 4


def whole(wide):
    return integers.value(wide.low, wide.high)


@pytest.mark.parametrize("users", [0, 1, 4095, 4096, 4097, 9000])
def test_sums_of_products_are_those_of_python_integers(users):
    left, right = (RNG.integers(-4096, 4097, (count, users)) for count in (3, 2))
    left[0], right[0] = 4096, -4096  # the largest sum there can be, and of one sign
    left[1, users // 2 :] = -4096
    found = jax.jit(integer_products.sum_products)(jnp.asarray(left, jnp.int32), jnp.asarray(right, jnp.int32))
    assert (whole(found) == left.astype(object) @ right.T.astype(object)).all()


def test_sums_of_products_are_exact_in_float32(float32):
    test_sums_of_products_are_those_of_python_integers(4097)


def rows(users=USERS, features=FEATURES, seed=1):
    """Features with a norm of 1 at most, one of them constant, and a linear target in [-1, 1]."""
    rng = np.random.default_rng(seed)
    given = np.column_stack([rng.uniform(size=(users, features - 1)), np.ones(users)]) / math.sqrt(features)
    target = given @ np.linspace(-1.5, 1.0, features) + 0.05 * rng.normal(size=users)
    return np.column_stack([given, np.clip(target, -1, 1)])


def objective(point, data):
    del point
    return data.T


def config(mu=1.0, **changed):
    return private_linear.config(**{"users": USERS, "features": FEATURES, "mu": mu} | changed)


def run(data, chosen, seed=3):
    return drivers.run_scan(
        private_linear.algorithm, objective, data, chosen,
        key=jax.random.key(seed), insecure_key=True, diagnostics=True,
    )  # fmt: skip


EXTREME = [0.0, 1.0, -1.0, 0.5, 1 + 1e-6, 1e-30, 3.0, -1e30, np.inf, -np.inf, np.nan]


def extreme_rows(count, seed):
    """Rows on the sphere, of single features, beyond it, and of values that are no numbers."""
    rng = np.random.default_rng(seed)
    given = rng.normal(size=(count, FEATURES + 1)) * 10.0 ** rng.uniform(-3, 1, (count, 1))
    unit = given[:, :-1] / np.linalg.norm(given[:, :-1], axis=1, keepdims=True)
    given[::3, :-1] = unit[::3]
    alone = np.eye(FEATURES)[rng.integers(FEATURES, size=count)] * rng.choice([-1, 1], (count, 1))
    given[1::3, :-1] = alone[1::3]
    odd = rng.random(given.shape) < 0.1
    given[odd] = rng.choice(EXTREME, odd.sum())
    given[:, -1] = np.where(rng.random(count) < 0.5, rng.choice(EXTREME, count), given[:, -1])
    return given


@pytest.mark.parametrize(
    ("link", "outputs", "weight"),
    [("identity", 1, None), ("logistic", 1, None), ("softmax", 3, None), ("identity", 1, 1)],
)
def test_no_two_rows_are_further_apart_than_what_is_charged(link, outputs, weight):
    """Of integers, so there is no tolerance: the Gram matrix by sqrt(2) R^2, a step by 2 R R_r; for any weights."""
    chosen = config(link=link, outputs=outputs, weight=weight)
    state = private_linear.algorithm.init(jax.random.key(0), chosen)
    given = extreme_rows(600, 5)
    if weight is not None:
        given = np.column_stack([given, np.random.default_rng(8).choice(EXTREME, len(given))])

    @jax.jit
    def alone(row, weights, first):
        query = private_linear.algorithm.ask(jax.random.key(0), chosen, state)
        broadcast = query.broadcast._replace(first=first, weights=weights, clip_norm=chosen.clip_norms[-1])
        values = row[None, :, None]
        return private_linear.algorithm.contribute(chosen, query._replace(broadcast=broadcast), (), values)[0].whole

    weights = jnp.asarray(RNG.normal(size=(FEATURES, outputs)) * 3)
    sums = [
        jax.vmap(alone, (0, None, None))(jnp.asarray(given), weights, jnp.asarray(first)) for first in (True, False)
    ]
    diagonal, upper, slope = whole(sums[0].diagonal), whole(sums[0].upper), whole(sums[1].slope)
    radius, residuals = int(chosen.radius), int(chosen.residual_radius)
    assert not whole(sums[0].slope).any()
    assert not whole(sums[1].diagonal).any()
    far_gram = far_slope = 0
    for first in range(0, len(given), 7):
        gram = ((diagonal - diagonal[first]) ** 2).sum(axis=1) + 2 * ((upper - upper[first]) ** 2).sum(axis=1)
        steps = ((slope - slope[first]) ** 2).sum(axis=(1, 2))
        far_gram, far_slope = max(far_gram, gram.max()), max(far_slope, steps.max())
    assert 0.9 * 2 * radius**4 < far_gram <= 2 * radius**4
    assert 0.35 * (2 * radius * residuals) ** 2 < far_slope <= (2 * radius * residuals) ** 2


def test_the_level_is_that_of_the_worst_angle():
    """By search over pairs of rows of norm 1 and below, residuals of the clip norm and below, of any signs."""
    rng = np.random.default_rng(2)
    for share in (0.05, 0.3, 0.8):
        radius, steps = 2000, 8
        gram = math.sqrt(2) * radius**2 / private_linear.SIGMA
        residuals = round(gram * math.sqrt((1 - share) / share / steps) * private_linear.SIGMA / (2 * radius))
        angle, lengths, shorter = (rng.uniform(0, 1, (200_000, count)) for count in (1, 2, 2))
        cosine = np.cos(math.pi / 2 * angle[:, 0])
        first, second = np.where(rng.random(lengths.shape) < 0.5, 1.0, lengths).T
        of_first, of_second = np.where(rng.random(shorter.shape) < 0.5, 1.0, shorter).T
        together = first * second * cosine
        matrix = radius**4 * (first**4 + second**4 - 2 * together**2) / private_linear.SIGMA**2
        moved = (first * of_first) ** 2 + (second * of_second) ** 2 + 2 * together * of_first * of_second
        step = (radius * residuals) ** 2 * moved / private_linear.SIGMA**2
        worst = math.sqrt(np.max(matrix + steps * step))
        stated = private_linear.level(radius, residuals, steps)
        assert 0.999 * stated < worst <= stated
        assert stated <= math.hypot(gram, 2 * radius * residuals * math.sqrt(steps) / private_linear.SIGMA)


def test_the_budget_is_spent_and_no_more():
    for mu in (0.01, 0.1, 0.27, 1.0, 2.0):
        chosen = config(mu)
        stated = private_linear.algorithm.privacy(chosen)
        assert 0.99 * mu < stated.level <= mu
        assert private_linear.level(int(chosen.radius), int(chosen.residual_radius) + 1, private_linear.STEPS) > mu
    assert private_linear.algorithm.privacy(config(math.inf)).notion == "none"
    assert "trained on" not in stated.protects  # of other algorithms the records of a model are NOT protected
    assert stated.unprotected == "users with several rows"


def test_the_noise_has_the_deviation_that_is_charged():
    chosen = config()
    state = private_linear.algorithm.init(jax.random.key(0), chosen)
    query = private_linear.algorithm.ask(jax.random.key(0), chosen, state)
    nothing = private_linear.algorithm.contribute(chosen, query, (), jnp.zeros((1, FEATURES + 1, 2)))[0].whole

    def draw(key, first):
        asked = query._replace(broadcast=query.broadcast._replace(first=first))
        return private_linear.algorithm.perturb(key, chosen, asked, nothing)

    keys = jax.random.split(jax.random.key(7), 3000)
    drawn = [jax.jit(jax.vmap(lambda key, first=first: draw(key, jnp.asarray(first))))(keys) for first in (True, False)]
    for released, sigma in (
        (drawn[0].diagonal, private_linear.SIGMA),
        (drawn[0].upper, private_linear.UPPER_SIGMA),
        (drawn[1].slope, private_linear.SIGMA),
    ):
        numbers = whole(released).astype(float).reshape(len(keys), -1)
        assert np.std(numbers) / sigma == pytest.approx(1, abs=4 / math.sqrt(2 * numbers.size))
        assert abs(np.corrcoef(numbers.T)[0, -1]) < 4 / math.sqrt(len(keys))
    assert not whole(drawn[0].slope).any()  # zeros where a step does not pay
    assert not whole(drawn[1].diagonal).any()


def steps_by_numpy(data, link, clip_norms, classes=1):
    """The method without noise and without whole numbers."""
    features, targets = data[:, :-1], data[:, -1]
    curvature = {"identity": 1.0, "logistic": 0.25, "softmax": 0.5}[link]
    gram, weights = features.T @ features, np.zeros((features.shape[1], classes))
    for norm in clip_norms:
        scores = features @ weights
        if link == "identity":
            residuals = targets[:, None] - scores
        elif link == "logistic":
            residuals = targets[:, None] - 1 / (1 + np.exp(-scores))
        else:
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            residuals = np.eye(classes)[targets.astype(int)] - odds / odds.sum(axis=1, keepdims=True)
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        clipped = residuals * np.minimum(1, norm / np.maximum(lengths, 1e-300))
        weights = weights + np.linalg.solve(curvature * gram, features.T @ clipped)
    return weights


@pytest.mark.parametrize(("link", "classes"), [("identity", 1), ("logistic", 1), ("softmax", 3)])
def test_without_noise_the_steps_are_those_of_numpy(link, classes):
    data, norms = rows(), [{"identity": 0.25, "logistic": 0.5, "softmax": 0.5**0.5}[link]] * 16
    if link != "identity":
        data[:, -1] = np.digitize(data[:, -1], np.quantile(data[:, -1], [0.3, 0.7][: max(classes, 2) - 1]))
    found = run(data, config(math.inf, link=link, outputs=classes, clip_norms=norms)).release
    expected = steps_by_numpy(data, link, norms, classes)
    np.testing.assert_allclose(found.weights, expected, atol=0.02)
    np.testing.assert_array_equal(found.path[-1], found.weights)
    assert not found.path[0].any()


def test_a_regression_is_least_squares():
    data = rows()
    found = run(data, config(math.inf)).release.weights[:, 0]
    np.testing.assert_allclose(found, np.linalg.lstsq(data[:, :-1], data[:, -1], rcond=None)[0], atol=0.02)
    private = run(rows(20_000), config(1.0, users=20_000)).release.weights[:, 0]
    np.testing.assert_allclose(private, found, atol=0.2)


def test_a_weight_counts_where_residuals_are_shortened():
    """Before, it came before the clip, which undid it: residuals of .9 at weights of 1 and 1/2 pulled .5 and .45."""
    chosen = config(math.inf, weight=1.0, clip_norms=(0.25,))
    query = private_linear.algorithm.ask(None, chosen, private_linear.algorithm.init(None, chosen))
    query = query._replace(broadcast=query.broadcast._replace(first=jnp.asarray(False)))
    pulls = []
    for weight in (1.0, 0.5, 0.0, 7.0, np.nan):
        row = jnp.asarray([0.5] * FEATURES + [0.9, weight])[None, :, None]
        pulls.append(whole(private_linear.algorithm.contribute(chosen, query, (), row)[0].whole.slope).astype(float))
    np.testing.assert_allclose(pulls[1], pulls[0] / 2, rtol=1e-3)
    np.testing.assert_array_equal(pulls[3], pulls[0])
    assert pulls[0].all()
    assert not np.any([pulls[2], pulls[4]])


def test_rows_that_are_no_numbers_are_left_out():
    data = rows()
    spoiled = np.concatenate([data, np.full((1, FEATURES + 1), np.nan), np.full((1, FEATURES + 1), np.inf)])
    clean, found = (run(each, config(math.inf, users=len(each))) for each in (data, spoiled))
    np.testing.assert_allclose(found.release.weights, clean.release.weights, rtol=1e-9)
    assert found.diagnostics.info.raw["users"].tolist() == [USERS] * 17
    without = np.concatenate([data, np.column_stack([data[:9, :-1], np.full(9, np.nan)])])
    assert np.all(np.isfinite(run(without, config(math.inf, users=len(without))).release.weights))


def test_a_table_gives_the_release_of_arrays(tmp_path):
    """And files the release of a table, to the bit."""
    data, chosen = rows(), config()
    columns = {f"c{number}": data[:, number] for number in range(FEATURES + 1)}

    def of_columns(point, columns):
        del point
        return jnp.stack([columns[f"c{number}"] for number in range(FEATURES + 1)])

    key = {"key": jax.random.key(3), "insecure_key": True}
    arrays = drivers.run_scan(private_linear.algorithm, of_columns, columns, chosen, **key)
    table = tables.arrays(columns)
    scanned = drivers.run_loop(private_linear.algorithm, of_columns, table, chosen, **key)
    np.testing.assert_allclose(scanned.release.weights, arrays.release.weights, rtol=1e-6)
    for number, part in enumerate(np.array_split(np.random.default_rng(1).permutation(len(data)), 3)):
        pq.write_table(
            pa.table({name: column[part] for name, column in columns.items()}), tmp_path / f"{number}.parquet"
        )
    files = drivers.run_loop(private_linear.algorithm, of_columns, tables.parquet(str(tmp_path)), chosen, **key)
    np.testing.assert_array_equal(files.release.path, scanned.release.path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mu": 1e-6}, "mu must be at least .* for 4 features"),
        ({"weight": 2.0}, "weight must be in"),
        ({"steps": 0}, "steps must"),
        ({"link": "probit"}, "link must be"),
        ({"link": "softmax"}, "outputs must be 1, or 2 and more"),
        ({"outputs": 3}, "outputs must be 1, or 2 and more"),
        ({"clip_norms": ()}, "clip_norms must be one positive number a step"),
        ({"clip_norms": (1.0, -1.0)}, "clip_norms must be one positive number a step"),
        ({"features": 0}, "features must"),
    ],
)
def test_mistakes_are_named(changed, said):
    with pytest.raises(ValueError, match=said):
        config(**changed)


def test_two_people_of_several_rows_are_no_farther_apart_than_what_is_charged():
    """All rows of a person replaced, of any values; the matrix and a step together, as in the proof."""
    steps, count = 8, 3
    chosen = config(people=USERS, steps=steps)
    state = private_linear.algorithm.init(jax.random.key(0), chosen)
    rng = np.random.default_rng(4)
    people = extreme_rows(300 * count, 6).reshape(300, count, FEATURES + 1)
    people[::4, 1:] = people[::4, :1]  # all rows alike: the longest sums
    counts = np.full((300, count, 1), float(count))
    given = jnp.asarray(np.concatenate([people, counts], axis=2).swapaxes(1, 2))

    @jax.jit
    def of_person(rows, weights, first):
        query = private_linear.algorithm.ask(jax.random.key(0), chosen, state)
        query = query._replace(
            broadcast=query.broadcast._replace(first=first, weights=weights, clip_norm=chosen.clip_norms[-1])
        )
        return private_linear.algorithm.contribute(chosen, query, (), rows[None])[0].whole

    weights = jnp.asarray(rng.normal(size=(FEATURES, 1)))
    gram, slope = (jax.vmap(of_person, (0, None, None))(given, weights, jnp.asarray(first)) for first in (True, False))
    diagonal, upper, steep = (whole(part).astype(float) for part in (gram.diagonal, gram.upper, slope.slope))
    worst = 0.0
    for one in range(len(people)):
        of_gram = ((diagonal - diagonal[one]) ** 2).sum(axis=1) + 2 * ((upper - upper[one]) ** 2).sum(axis=1)
        of_step = ((steep - steep[one]) ** 2).sum(axis=(1, 2))
        worst = max(worst, np.max(of_gram + steps * of_step))
    stated = private_linear.level(int(chosen.radius), int(chosen.residual_radius), steps)
    assert 0.5 * stated < math.sqrt(worst) / private_linear.SIGMA <= stated
    assert "people" in private_linear.algorithm.privacy(chosen).protects


def test_a_person_of_equal_rows_counts_as_one_row():
    data = rows(2000)
    alone = run(data, config(math.inf, users=2000)).release.weights
    tripled = np.repeat(np.column_stack([data, np.full(2000, 3.0)]), 3, axis=0)
    together = run(tripled, config(math.inf, users=6000, people=2000)).release.weights
    np.testing.assert_allclose(together, alone, atol=0.02)
    for counts in (np.nan, np.inf, 0.0, -5.0):  # fails closed: the row counts as zero
        nothing = np.column_stack([data, np.full(2000, counts)])
        found = run(nothing, config(math.inf, users=2000, people=2000))
        assert not np.any(found.release.weights)
        assert found.diagnostics.info.raw["users"].tolist() == [0] * 17
    odd = np.column_stack([data, np.random.default_rng(0).choice([np.nan, -5.0, 0.0, np.inf, 1e30], 2000)])
    assert np.all(np.isfinite(run(odd, config(math.inf, users=2000, people=2000)).release.weights))


@pytest.mark.parametrize("x64", [True, False])
def test_the_rows_of_a_person_are_never_longer_than_the_person(x64):
    """The root is rounded down, exactly: for every radius and number of rows, fractions of a row too."""
    counts = np.concatenate([np.arange(1, 200), np.geomspace(1, 1e9, 500), [2.5, 2.9999, 3.0001, 1e30]])
    with jax.enable_x64(x64):
        for radius in (1, 2, 3, 5, 7, 50, 2737, 4095, 4096):
            chosen = config(features=1, people=USERS)
            chosen = dataclasses.replace(chosen, radius=jnp.asarray(radius, jnp.int32))
            found = np.asarray(private_linear._radii_of_rows(chosen, jnp.asarray(counts, float))[0], object)
            rounded = [math.ceil(np.float32(count) if not x64 else count) for count in counts]
            assert all(root**2 * count <= radius**2 for root, count in zip(found, rounded, strict=True))
            assert all(
                (root + 1) ** 2 * count > radius**2
                for root, count in zip(found, rounded, strict=True)
                if count <= radius**2
            )


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_values_of_half_precision_are_refused(dtype):
    """257 rows are 256 in bfloat16: before, such a person's rows were longer than the person."""
    chosen = config(people=USERS)
    state = private_linear.algorithm.init(jax.random.key(0), chosen)
    query = private_linear.algorithm.ask(jax.random.key(0), chosen, state)
    with pytest.raises(TypeError, match="values must be float32 or float64, got"):
        private_linear.algorithm.contribute(chosen, query, (), jnp.ones((1, chosen.values, 257), dtype))
    private_linear.algorithm.contribute(chosen, query, (), jnp.ones((1, chosen.values, 257), jnp.int32))
