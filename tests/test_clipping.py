"""One user moves the clipped mean by at most 2 B / n, whatever their losses are; plants that break this are caught."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from oracles import clipping as oracle
from oracles import integers

from jaxdpbo import sensitivity
from jaxdpbo.noise import clipping

POINTS, DIMENSION, USERS, CHUNK = 5, 3, 20, 8
ULP = 2.0**-53
HOSTILE = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1.4e154, 1e154, 1e16, 1.0, -1.0, 1e-16, 1e-154, 5e-324, 0.0, -0.0)

clip = jax.jit(clipping.clip_by_l2_norm)


def compiled():
    """A fresh compilation of the mean of clipped vectors, with whatever is patched at its first call."""

    def clipped_mean(weights, losses, clip_norm):
        total, clipped, nonfinite = clipping.weighted_clipped_sum(weights, losses, clip_norm)
        return total / losses.shape[1], clipped, nonfinite

    return jax.jit(clipped_mean)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(clipping, "CHUNK", CHUNK)


def made(users, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(POINTS, DIMENSION)), rng.normal(size=(POINTS, users)) * rng.uniform(0.1, 3, size=users)


def test_a_vector_inside_the_ball_is_kept_to_the_bit_and_one_outside_is_shortened():
    vectors = np.random.default_rng(0).normal(size=(4, 200)) * np.geomspace(1e-3, 1e3, 200)
    found, clipped, nonfinite = (np.asarray(x) for x in clip(vectors, 1.5))
    norms = np.linalg.norm(vectors, axis=0)
    np.testing.assert_array_equal(clipped, norms > 1.5)
    assert not nonfinite.any()
    np.testing.assert_array_equal(found[:, ~clipped], vectors[:, ~clipped])
    np.testing.assert_allclose(found[:, clipped], vectors[:, clipped] * 1.5 / norms[clipped], rtol=1e-14)
    assert np.max(np.linalg.norm(found, axis=0)) <= 1.5 * (1 + 8 * ULP)


def test_a_vector_on_the_ball_is_kept():
    on_an_axis = np.array([[0.0, -5.0, 0.0], [5.0, 0.0, -0.0]])
    found, clipped, _ = clip(on_an_axis, 5.0)
    np.testing.assert_array_equal(clipped, False)
    np.testing.assert_array_equal(found, on_an_axis)
    between_axes = np.array([[3.0, 4.0], [4.0, -3.0]])  # a rounding may set these a hair above
    np.testing.assert_allclose(clip(between_axes, 5.0)[0], between_axes, rtol=4 * ULP)
    _, clipped, _ = clip(between_axes * (1 + 2**-48), 5.0)
    np.testing.assert_array_equal(clipped, True)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e308, -1.5e154])
def test_a_vector_whose_square_is_not_finite_counts_as_zero(entry):
    vectors = np.array([[entry, 1.0, entry, 1.2e154], [0.5, entry, -entry, 1.2e154]])
    found, clipped, nonfinite = clip(vectors, 1.0)
    np.testing.assert_array_equal(found, 0.0)
    np.testing.assert_array_equal(nonfinite, True)
    np.testing.assert_array_equal(clipped, False)


@pytest.mark.parametrize("clip_norm", [1e-300, 1e-160, 1e-100, 1e100])
def test_the_ball_may_have_any_size(clip_norm):
    """The square of the radius may be under the smallest double; the radius still binds."""
    vectors = clip_norm * np.array([[9.0, 0.3], [9.0, 0.4]])
    found, clipped, nonfinite = clip(vectors, clip_norm)
    np.testing.assert_array_equal(clipped, [True, False])
    np.testing.assert_array_equal(nonfinite, False)
    np.testing.assert_allclose(found[:, 0] / clip_norm, np.sqrt(0.5), rtol=1e-12)
    np.testing.assert_array_equal(found[:, 1], vectors[:, 1])


def test_the_ball_may_have_any_size_in_float32(float32):
    for clip_norm in (1e-30, 1e-20, 1e-10):
        vectors = jnp.asarray(clip_norm * np.array([[9.0, 0.3], [9.0, 0.4]]), jnp.float32)
        found, clipped, _ = clip(vectors, jnp.float32(clip_norm))
        np.testing.assert_array_equal(clipped, [True, False])
        np.testing.assert_allclose(found[:, 0] / clip_norm, np.sqrt(0.5), rtol=1e-5)


@pytest.mark.parametrize("users", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5])
def test_the_mean_in_chunks_is_the_loop_over_users(users, small_chunks):
    weights, losses = made(users)
    mean, clipped, nonfinite = compiled()(weights, losses, 1.0)
    expected = oracle.clipped_mean(weights, losses, 1.0)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-12, atol=1e-14)
    assert (clipped, nonfinite) == expected[1:]
    assert mean.shape == (DIMENSION,)


def test_the_mean_at_the_real_size_of_a_chunk_is_the_loop_over_users():
    users = 2 * clipping.CHUNK + 3
    weights, losses = made(users)
    losses[:, ::97] = np.nan
    mean, clipped, nonfinite = compiled()(weights, losses, 1.0)
    expected = oracle.clipped_mean(weights, losses, 1.0)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-11, atol=1e-13)
    assert (clipped, nonfinite) == expected[1:]
    assert nonfinite == len(range(0, users, 97))
    assert 0 < clipped < users - nonfinite


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e308])
def test_users_that_are_not_finite_count_as_zero_and_are_counted(entry, small_chunks):
    weights, losses = made(USERS)
    mean = compiled()
    for rows in ([0], [4], range(POINTS)):
        spoilt, silenced = losses.copy(), losses.copy()
        for user in (0, 7, 8, 19):  # in each chunk and in the rest
            spoilt[rows, user] = entry
            silenced[:, user] = 0.0
        found, clipped, nonfinite = mean(weights, spoilt, 1.0)
        expected, expected_clipped, none = mean(weights, silenced, 1.0)
        np.testing.assert_array_equal(found, expected)
        assert (clipped, nonfinite, none) == (expected_clipped, 4, 0)


def test_all_users_refused_give_the_zero_mean(small_chunks):
    weights, losses = made(USERS)
    mean, clipped, nonfinite = compiled()(weights, np.full_like(losses, np.nan), 1.0)
    np.testing.assert_array_equal(mean, 0.0)
    assert (clipped, nonfinite) == (0, USERS)


def test_float32_follows_the_loop_over_users(float32, small_chunks):
    weights, losses = (x.astype(np.float32) for x in made(USERS))
    losses[:, 3] = np.inf
    mean, clipped, nonfinite = compiled()(weights, losses, 1.0)
    expected = oracle.clipped_mean(weights.astype(float), losses.astype(float), 1.0)
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean, expected[0], rtol=1e-5, atol=1e-6)
    assert (clipped, nonfinite) == expected[1:]


class Neighbours:
    """Two tables of losses that differ in one user, their weights and the clip norm."""

    def __init__(self, seed, scale, clip_norm, user, old, new, hostile_others):
        rng = np.random.default_rng(seed)
        self.weights = rng.normal(size=(POINTS, DIMENSION))
        self.clip_norm = clip_norm
        self.before = rng.normal(size=(POINTS, USERS)) * scale
        if hostile_others:
            others = rng.permutation(USERS)[:6]
            self.before[rng.integers(POINTS), others] = rng.choice(HOSTILE, size=6)
        self.before[:, user] = old
        self.after = self.before.copy()
        self.after[:, user] = -self.before[:, user] if new is None else new

    def __repr__(self):
        return f"Neighbours({self.weights=}, {self.before=}, {self.after=}, {self.clip_norm=})"


ENTRIES = st.sampled_from(HOSTILE) | st.floats(width=64)
COLUMNS = st.lists(ENTRIES, min_size=POINTS, max_size=POINTS) | st.sampled_from(HOSTILE).map(lambda x: [x] * POINTS)
NEIGHBOURS = st.builds(
    Neighbours,
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1e-12, 1.0, 1e6, 1e150]),
    clip_norm=st.sampled_from([1e-12, 1.0, 1e6]) | st.floats(1e-3, 1e3),
    user=st.integers(0, USERS - 1),
    old=COLUMNS,
    new=st.none() | COLUMNS,  # None: the opposite of the old column
    hostile_others=st.booleans(),
)


def check_sensitivity(examples, share=1.0, phases=tuple(Phase)):
    """The property, over that many drawn neighbours, of the clipped mean as it stands.

    Rounding: a clipped vector exceeds B by a few ulps, and each of the two sums of n terms of norm at most B errs, in
    each of d coordinates, by at most ``n (n B) u``, so that their means move apart by ``2 sqrt(d) n B u`` more.
    """
    mean = compiled()

    @settings(max_examples=examples, phases=phases, report_multiple_bugs=False)
    @given(NEIGHBOURS)
    def holds(case):
        left, right = (np.asarray(mean(case.weights, x, case.clip_norm)[0]) for x in (case.before, case.after))
        assert np.all(np.isfinite(left))
        assert np.all(np.isfinite(right))
        rounding = (2.0 * np.sqrt(DIMENSION) * USERS + 8.0) * case.clip_norm * ULP
        bound = share * sensitivity.clipped_sum(case.clip_norm) / USERS
        assert np.linalg.norm(left - right) <= bound + rounding

    holds()


def test_neighbours_move_the_mean_by_no_more_than_the_sensitivity(small_chunks, trials):
    check_sensitivity(trials("neighbours within the sensitivity of the clipped mean", 300, 10_000, 0))


def test_opposite_users_move_the_mean_by_the_whole_sensitivity(small_chunks):
    weights, before = made(USERS)
    before[:, 11] = 100.0
    after = before.copy()
    after[:, 11] = -100.0
    mean = compiled()
    moved = np.linalg.norm(mean(weights, before, 0.7)[0] - mean(weights, after, 0.7)[0])
    np.testing.assert_allclose(moved, sensitivity.clipped_sum(0.7) / USERS, rtol=1e-12)


def without_nan_guard(vectors, clip_norm):
    norms = jnp.sqrt(jnp.sum(jnp.square(vectors), axis=0))
    return vectors * jnp.minimum(1.0, clip_norm / norms)[None], norms > clip_norm, jnp.isnan(norms)


def guarding_nan_alone(vectors, clip_norm):
    nonfinite = jnp.any(jnp.isnan(vectors), axis=0)
    clipped = without_nan_guard(jnp.where(nonfinite[None], 0.0, vectors), clip_norm)
    return jnp.where(nonfinite[None], 0.0, clipped[0]), clipped[1], nonfinite


def without_clipping(vectors, clip_norm):
    nonfinite = ~jnp.isfinite(jnp.sum(jnp.square(vectors), axis=0))
    return jnp.where(nonfinite[None], 0.0, vectors), nonfinite, nonfinite


def clipping_each_coordinate(vectors, clip_norm):
    nonfinite = ~jnp.isfinite(jnp.sum(jnp.square(vectors), axis=0))
    return jnp.where(nonfinite[None], 0.0, jnp.clip(vectors, -clip_norm, clip_norm)), nonfinite, nonfinite


@pytest.mark.parametrize(
    "plant",
    [without_nan_guard, guarding_nan_alone, without_clipping, clipping_each_coordinate],
    ids=lambda plant: plant.__name__,
)
def test_the_property_sees_a_planted_clip(plant, small_chunks, monkeypatch):
    monkeypatch.setattr(clipping, "clip_by_l2_norm", plant)
    with pytest.raises(AssertionError):
        check_sensitivity(300, phases=(Phase.generate,))


def test_the_property_sees_half_the_sensitivity(small_chunks):
    """B / n is the bound for adding or removing a user; replacing one moves the mean further."""
    with pytest.raises(AssertionError):
        check_sensitivity(300, share=0.5, phases=(Phase.generate,))


@pytest.mark.parametrize("rows", [275, 138])
def test_no_array_of_users_by_dimension_is_stored(rows):
    """What the compiled program allocates beside its arguments, at 100,000 and 1,000,000 users of 275 points."""

    def temporaries(users):
        shapes = jax.ShapeDtypeStruct((rows, 33), jnp.float64), jax.ShapeDtypeStruct((275, users), jnp.float64)
        compiled = jax.jit(clipping.weighted_clipped_sum).lower(*shapes, 1.0).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = temporaries(100_000), temporaries(1_000_000)
    assert many < 1.1 * few
    assert many < 8 * 1.5 * clipping.CHUNK * (275 + 4 * 33)  # a chunk of losses and a few of its vectors
    assert many < 8 * 1_000_000 * 33 / 10


SIZES = (1, 7, 37, 1000, clipping.CHUNK, clipping.CHUNK + 1, 3 * clipping.CHUNK + 5)


@pytest.mark.daily("float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_partition_of_the_users_adds_up_to_the_same_integers(dtype):
    """Compiled as users compile: groups smaller than a chunk are padded to one, and larger ones are as they are."""
    rng, radius = np.random.default_rng(0), jnp.asarray(60_000, jnp.int32)
    weights, losses = rng.normal(size=(33, 5)).astype(dtype), rng.normal(size=(33, sum(SIZES))).astype(dtype)
    losses[3, ::41] = np.nan
    total = jax.jit(
        lambda losses, *present: clipping.weighted_clipped_sum(
            weights, losses, jnp.asarray(1.0, dtype), radius, *present
        )
    )
    whole = [integers.value(*total(losses)[0]), *map(int, total(losses)[1:])]
    for seed in range(3):
        order, start, found = np.random.default_rng(seed).permutation(SIZES), 0, [0] * 3
        for size in order:
            group = losses[:, start : start + size]
            start += size
            if size < clipping.CHUNK:
                padding = ((0, 0), (0, clipping.CHUNK - size))
                part = total(np.pad(group, padding, constant_values=np.nan), np.arange(clipping.CHUNK) < size)
            else:
                part = total(group)
            found = [a + b for a, b in zip(found, [integers.value(*part[0]), *map(int, part[1:])], strict=True)]
        np.testing.assert_array_equal(found[0], whole[0])
        assert found[1:] == whole[1:]
