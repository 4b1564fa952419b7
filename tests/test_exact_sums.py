"""One user moves an exact sum by at most twice the radius, in integers; budgets and statements follow from that."""

import dataclasses
import itertools
import json
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import discrete as oracle
from oracles import integers
from scipy.stats import norm

from jaxdpbo import accounting
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees
from jaxdpbo.noise import calibration, clipping
from jaxdpbo.noise.mechanisms import tables

USERS = 6
TOGETHER = 500  # pairs in one call of one program

# Dimension, number of users, the range of radii that budgets allow there.
SIZES = {1: (32, 65535), 3: (56, 37837), 40: (203, 10362), 2000: (1432, 1465)}


def compiled():
    """``clip_and_sum`` of many pairs at once, with whatever is patched at its first call."""

    def both(before, after, clip_norm, radius):
        return tuple(clipping.clip_and_sum(vectors, clip_norm, radius)[0] for vectors in (before, after))

    return jax.jit(jax.vmap(both))


def adversarial(rng, dimension, clip_norm, radius, dtype):
    """One column that means harm."""
    largest, tiny = float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal)
    direction = rng.normal(size=dimension)
    direction /= np.linalg.norm(direction)
    signs = rng.choice([-1.0, 1.0], dimension)
    step = clip_norm / ((radius - math.sqrt(dimension) / 2) * (1 - 2.0**-16))
    odd = rng.choice(
        [np.nan, np.inf, -np.inf, largest, -largest, 1e38, -1e38, 1e308, tiny, -tiny, 0.0, -0.0, clip_norm]
    )
    kinds = (
        np.full(dimension, odd),
        np.where(rng.uniform(size=dimension) < 1 / dimension, odd, direction * clip_norm),
        direction * clip_norm,  # on the sphere
        direction * clip_norm * np.nextafter(1, rng.choice([0.0, 2.0])),
        signs * clip_norm / math.sqrt(dimension),  # on the sphere, where rounding adds most
        signs * (np.floor(radius / math.sqrt(dimension)) + 0.5) * step,  # half-way between integers
        np.where(np.arange(dimension) == rng.integers(dimension), signs, 0) * clip_norm,
        direction * 10.0 ** rng.uniform(-40, 38),
        direction * 10.0 ** rng.uniform(-300, 300) if dtype == np.float64 else direction * tiny * 100,
        direction * math.sqrt(largest),  # whose square is just finite, or just not
        np.zeros(dimension),
    )
    return kinds[rng.integers(len(kinds))]


def pairs(rng, dimension, dtype, count=TOGETHER):
    """Neighbours ``(count, d, n)``, their clip norms and radii; one column differs, and may be the opposite one."""
    low, high = SIZES[dimension]
    scales = (-30, 30) if dtype == np.float32 else (-290, 290)
    clip_norms = (10.0 ** np.where(rng.uniform(size=count) < 0.7, 0, rng.uniform(*scales, count))).astype(dtype)
    radii = np.where(rng.uniform(size=count) < 0.5, high, rng.integers(low, high + 1, count)).astype(np.int32)
    before = np.empty((count, dimension, USERS), dtype)
    after = np.empty_like(before)
    with np.errstate(over="ignore", invalid="ignore"):
        for i, (clip_norm, radius) in enumerate(zip(clip_norms.tolist(), radii.tolist(), strict=True)):
            for user in range(USERS):
                before[i, :, user] = adversarial(rng, dimension, clip_norm, radius, dtype)
            after[i], user = before[i], rng.integers(USERS)
            opposite = rng.uniform() < 0.5
            column = -before[i, :, user] if opposite else adversarial(rng, dimension, clip_norm, radius, dtype)
            after[i, :, user] = column
    return before, after, clip_norms, radii


def moved(before, after):
    """Squared distances of integer sums ``(k, d)``, in Python's integers."""
    return [sum((int(a) - int(b)) ** 2 for a, b in zip(*rows, strict=True)) for rows in zip(before, after, strict=True)]


def check_sensitivity(count, dtype=np.float64, dimensions=tuple(SIZES), factor=2, seed=0):
    """Of ``clipping`` as it stands: no pair moves its sum by more than ``factor radius``; how near the nearest came."""
    rng, program, nearest = np.random.default_rng(seed), compiled(), 0.0
    for _, dimension in zip(range(-(-count // TOGETHER)), itertools.cycle(dimensions), strict=False):
        before, after, clip_norms, radii = pairs(rng, dimension, dtype, min(count, TOGETHER))
        sums = (integers.value(*total) for total in program(before, after, clip_norms, radii))
        for squared, radius in zip(moved(*sums), radii.tolist(), strict=True):
            assert squared <= (factor * radius) ** 2
            nearest = max(nearest, math.sqrt(squared) / radius)
    return nearest


@pytest.mark.daily("float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_user_moves_the_integer_sum_by_more_than_twice_the_radius(dtype, trials):
    """Trap 3, trap 11: NaN, infinities, huge and subnormal vectors, opposite ones on the sphere. Nothing is rounded."""
    count = trials(f"integer sensitivity of clipped sums, {dtype.__name__}", 2 * TOGETHER, 10_000, 0)
    assert 1.99 < check_sensitivity(count, dtype, (3, 40) if count <= 2 * TOGETHER else tuple(SIZES)) <= 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_clipped_column_is_longer_than_the_clip_norm(dtype):
    """Trap 45, up to rounding, whatever floats: clip norms of which ``1 / B`` is no number refuse everybody."""
    before, _, clip_norms, _ = pairs(np.random.default_rng(2), 3, dtype)
    info = np.finfo(dtype)
    clip_norms[:9] = np.repeat([info.max, 0.4 * info.max, info.tiny], 3)
    before[:9] = np.tile(np.array([info.max, 1.0, info.tiny], dtype), 3)[:, None, None]
    kept, _, refused = jax.jit(jax.vmap(clipping.clip_by_l2_norm))(before, clip_norms)
    assert np.all(refused[:6])
    lengths = np.sqrt(np.sum(np.square(np.asarray(kept).astype(np.longdouble)), axis=1))
    shares = lengths / clip_norms.astype(np.longdouble)[:, None]
    assert 0.999 < np.max(shares) <= 1 + 8 * info.eps


def test_the_sum_of_many_coordinates_is_bounded_likewise():
    check_sensitivity(100, np.float32, (2000,))


def test_adding_a_user_moves_the_sum_by_at_most_the_radius():
    """The neighbour has a zero column in its place."""
    rng, program = np.random.default_rng(1), compiled()
    before, _, clip_norms, radii = pairs(rng, 3, np.float64)
    after = before.copy()
    after[np.arange(TOGETHER), :, rng.integers(USERS, size=TOGETHER)] = 0.0
    squared = moved(*(integers.value(*total) for total in program(before, after, clip_norms, radii)))
    assert all(s <= radius**2 for s, radius in zip(squared, radii.tolist(), strict=True))
    assert max(math.sqrt(s) / radius for s, radius in zip(squared, radii.tolist(), strict=True)) > 0.99


def unclipped(vectors, clip_norm):
    nothing = jnp.zeros(vectors.shape[1], bool)
    return vectors, nothing, nothing


def unguarded(vectors, clip_norm, radius):
    scaled = jnp.rint(vectors * (clipping.reach(radius, vectors.shape[0], vectors.dtype) / clip_norm))
    return scaled.astype(jnp.int32)


def guarding_coordinates_alone(vectors, clip_norm, radius):
    whole = unguarded(vectors, clip_norm, radius)
    return jnp.clip(whole, -radius, radius)


def guarding_after_a_wrap(vectors, clip_norm, radius):
    whole = unguarded(vectors, clip_norm, radius)
    fits = jnp.sum(jnp.square(whole), axis=0, dtype=jnp.int32) <= jnp.square(radius)
    return jnp.where(fits[None], whole, 0)


@pytest.mark.daily("float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_integers_hold_the_bound_where_the_clip_of_floats_is_broken(dtype, monkeypatch):
    monkeypatch.setattr(clipping, "clip_by_l2_norm", unclipped)
    assert check_sensitivity(2 * TOGETHER, dtype, (3, 40)) > 0.1


@pytest.mark.parametrize(
    "plant", [unguarded, guarding_coordinates_alone, guarding_after_a_wrap], ids=lambda plant: plant.__name__
)
def test_the_property_sees_a_planted_guard(plant, monkeypatch):
    monkeypatch.setattr(clipping, "clip_by_l2_norm", unclipped)
    monkeypatch.setattr(clipping, "quantise", plant)
    with pytest.raises(AssertionError):
        check_sensitivity(TOGETHER, np.float64, (3,))


def test_the_property_sees_the_wrong_relation():
    """Trap 9: the radius alone is the bound for adding a user; replacing one moves the sum further."""
    with pytest.raises(AssertionError):
        check_sensitivity(TOGETHER, factor=1, dimensions=(3,))


def test_the_property_sees_a_scale_that_forgets_what_rounding_adds(monkeypatch):
    """Without the guard, the ball must be mapped to a smaller one."""
    monkeypatch.setattr(clipping, "quantise", unguarded)
    monkeypatch.setattr(clipping, "reach", lambda radius, dimension, dtype: radius.astype(dtype))
    with pytest.raises(AssertionError):
        check_sensitivity(TOGETHER, np.float64, (40,))


@pytest.mark.parametrize("radius", [0, 1, 2, 7, 31])
def test_a_radius_that_no_budget_gives_keeps_the_bound_too(radius):
    """Under ``sqrt(d) / 2`` vectors are scaled backwards; the integers still decide."""
    vectors = np.random.default_rng(0).normal(size=(200, 40, 2)) * 10.0 ** np.linspace(-3, 3, 200)[:, None, None]
    whole = jax.vmap(clipping.quantise, in_axes=(0, None, None))(vectors, 1.0, jnp.int32(radius))
    assert np.max(np.sum(np.square(np.asarray(whole, np.int64)), axis=1)) <= radius**2


def made(users, dtype=np.float64, seed=0):
    """Weights and losses, some of them of users who count as zero or are clipped."""
    rng = np.random.default_rng(seed)
    losses = rng.normal(size=(5, users)) * rng.uniform(0.1, 3, size=users)
    losses[2, ::7], losses[:, 3::11] = np.nan, 1e30
    return rng.normal(size=(5, 3)).astype(dtype), losses.astype(dtype)


def chunked(chunk, monkeypatch):
    """A fresh compilation of ``weighted_clipped_sum`` in chunks of about that size."""
    monkeypatch.setattr(clipping, "CHUNK", chunk)
    total = jax.jit(lambda *arguments: clipping.weighted_clipped_sum(*arguments))

    def found(weights, losses, radius=30_000):
        with_radius = () if radius is None else (jnp.int32(radius),)
        first, *rest = total(weights, losses, jnp.asarray(0.7, losses.dtype), *with_radius)
        return [np.asarray(first) if radius is None else integers.value(*first), *map(np.asarray, rest)]

    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_users_and_the_size_of_chunks_leave_the_sum_as_it_is(dtype, monkeypatch):
    """Trap 3. To the bit: integers have no order. 53 users in one chunk, in several, and with a rest."""
    weights, losses = made(53, dtype)
    orders = [np.arange(53), *(np.random.default_rng(seed).permutation(53) for seed in range(3))]
    exact, floating = set(), set()
    for chunk in (4096, 8, 12):
        total = chunked(chunk, monkeypatch)
        for order in orders:
            found, clipped, refused = total(weights, losses[:, order])
            assert found.dtype == object  # whole numbers of any size
            assert 0 < clipped < 53
            assert refused >= 7
            exact.add(tuple(found))
    for order in orders:
        floating.add(total(weights, losses[:, order], None)[0].tobytes())
    assert len(exact) == 1
    assert len(floating) > 1  # which a sum of floats does not keep


def test_the_sum_is_that_of_a_loop_over_users(monkeypatch):
    weights, losses = made(53)
    found, clipped, refused = chunked(8, monkeypatch)(weights, losses)
    vectors = [weights.T @ column for column in losses.T]
    expected = np.sum([oracle.grid_vector(vector, 0.7, 30_000) for vector in vectors], axis=0)
    np.testing.assert_array_equal(found, expected)
    norms = np.linalg.norm(vectors, axis=1)
    assert clipped == np.sum(norms > 0.7)
    assert refused == np.sum(np.isnan(norms))


def test_neighbours_of_a_chunked_sum_are_within_the_bound(monkeypatch):
    """A user's losses, whatever they are, in a chunk of the loop and in the rest."""
    total, radius = chunked(8, monkeypatch), 30_000
    weights, losses = made(21)
    before = total(weights, losses)[0]
    for user, entry in itertools.product((0, 7, 8, 20), (np.nan, np.inf, -1e308, 1e154, 5e-324, 0.0, 3.0)):
        for column in (np.full(5, entry), np.where(np.arange(5) == 2, entry, -losses[:, user])):
            changed = losses.copy()
            changed[:, user] = column
            assert moved(before[None], total(weights, changed)[0][None])[0] <= (2 * radius) ** 2


@pytest.mark.daily("*-float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dimension", [2, 10, 100])
def test_users_on_the_ball_are_rounded_to_the_nearest_and_never_dropped(dtype, dimension):
    """The ball is shrunk by what rounding adds, so the guard is idle; and rounding has no side it prefers."""
    radius, users = jnp.int32(math.isqrt((2**32 - 1) // dimension)), 5000
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(dimension, users))
    vectors = (vectors / np.linalg.norm(vectors, axis=0) * 10.0 ** rng.uniform(0, 3, users)).astype(
        dtype
    )  # all clipped
    clip_norm = jnp.asarray(0.7, dtype)
    kept, clipped, refused = jax.jit(clipping.clip_by_l2_norm)(vectors, clip_norm)
    assert int(np.sum(clipped)) > 0.99 * users
    assert not np.any(refused)
    step = float(clipping.grid_step(clip_norm, radius, dimension))
    exact = np.asarray(kept, float) / step
    errors = np.asarray(jax.jit(clipping.quantise)(kept, clip_norm, radius)) - exact
    assert np.max(np.abs(errors)) <= 0.5 + 2.0 * int(radius) * float(np.finfo(dtype).eps)
    spread = 1 / math.sqrt(12 * errors.size)
    assert abs(np.mean(errors)) < 5 * spread
    assert abs(np.mean(np.floor(exact) - exact)) > 100 * spread


# Budgets.


def budget(mu, noise="exact", dimension=3, releases=10, users=100, dtype=np.float64):
    return calibration.sum_noise(mu, noise, users=users, steps=releases, dimension=dimension, dtype=dtype)


def said(mu, dimension=3, releases=10, **rest):
    found = budget(mu, dimension=dimension, releases=releases, **rest)
    return composed_guarantee.gdp_guarantee(found, "rows")


def allowed(dimension, releases):
    """The least and the largest ``mu``."""
    least = accounting.rounded_gaussian_mu(2 * math.ceil(32 * math.sqrt(dimension)), 65536, releases)
    largest = accounting.rounded_gaussian_mu(2 * math.isqrt((2**32 - 1) // dimension), 4096, releases)
    return least, largest


@given(
    st.floats(0, 1),
    st.integers(1, 127),
    st.integers(1, 10**5),
    st.sampled_from([np.float32, np.float64]),
)
def test_what_is_guaranteed_is_never_more_than_was_asked_for(place, dimension, releases, dtype):
    """Trap 23."""
    least, largest = allowed(dimension, releases)
    mu = float(dtype(1.01 * least * (0.98 * largest / least) ** place))
    found = budget(mu, dimension=dimension, releases=releases, dtype=dtype)
    level = said(mu, dimension, releases, dtype=dtype).level
    assert level == accounting.rounded_gaussian_mu(2 * int(found.radius), found.sigma, releases)
    assert level <= mu
    assert accounting.rounded_gaussian_mu(2 * int(found.radius) + 2, found.sigma, releases) > mu  # no waste
    assert level > 0.96 * mu  # the docstring of descent: noise at most 4 % wider
    assert int(found.radius) >= 32 * math.sqrt(dimension)
    assert dimension * int(found.radius) ** 2 < 2**32


def test_a_budget_is_not_rounded_up_by_float32():
    """The largest double under the level of a radius, which float32 holds as something above that level."""
    levels = [accounting.rounded_gaussian_mu(2 * radius, 4096, 10) for radius in range(1000, 1010)]
    asked = [math.nextafter(level, 0) for level in levels if float(np.float32(level)) >= level]
    assert asked
    for mu in asked:
        assert said(mu).level <= mu
        assert said(mu, dtype=np.float32).level <= mu


def refusal(mu, **rest):
    """What is said to a budget; nothing where it will do."""
    try:
        budget(mu, **rest)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("dimension", [100, 300, 1000, 3000])
def test_no_budget_is_refused_that_lies_between_two_that_will_do(dimension):
    """The grids of the two widths overlap, and each refusal says what is true."""
    said = [refusal(mu, dimension=dimension, users=1) for mu in np.geomspace(1e-3, 1e3, 80)]
    kinds = [kind for kind, _ in itertools.groupby(text[:16] for text in said)]
    assert kinds == ["mu must be at le", "", "mu must be at mo"]


def test_a_small_budget_is_spent_on_wider_noise():
    switch = accounting.rounded_gaussian_mu(2 * 64, 4096, 10)
    fine, coarse = budget(math.nextafter(switch, 0)), budget(switch)
    assert coarse.sigma == calibration.SIGMAS[0] == 4096
    assert fine.sigma in calibration.SIGMAS[1:]
    assert int(coarse.radius) == 64
    assert int(fine.radius) == accounting.largest_distance(math.nextafter(switch, 0), fine.sigma, 10) // 2 > 100
    for found in (fine, coarse):
        assert (found.kind, found.radius.dtype, found.mu.dtype) == ("exact", np.int32, np.float64)


@pytest.mark.parametrize("noise", ["exact", "float", "none"])
def test_an_infinite_budget_is_no_noise_and_no_guarantee(noise):
    found = budget(math.inf, noise)
    assert found.kind == ("float" if noise == "float" else "none")
    assert (int(found.radius), found.sigma) == (0, 0)
    assert calibration.grid(found) is None
    assert composed_guarantee.gdp_guarantee(found, "rows") == guarantees.no_guarantee(
        "rows", "mu is infinite: no noise was added"
    )


def test_float_noise_has_no_grid():
    found = budget(0.5, "float")
    assert (found.kind, int(found.radius), found.sigma) == ("float", 0, 0)
    assert calibration.grid(found) is None


def test_exact_noise_has_the_radius_for_its_level():
    found = budget(0.5)
    assert calibration.grid(found) is found.radius


def named(message, **changes):
    """The number that a refusal names."""
    with pytest.raises(ValueError, match=message) as caught:
        budget(**changes)
    return float(re.search(r"must be at (?:least|most) ([0-9.e+-]+) ", str(caught.value))[1])


TOO_SMALL = "^mu must be at least .* for exact noise on .* rounding costs more than 4 %"
TOO_LARGE = "^mu must be at most .* for exact noise on .* noise='none' with mu=inf"


@pytest.mark.parametrize(("dimension", "releases"), [(1, 1), (3, 10), (40, 1000), (100, 7)])
def test_a_budget_out_of_range_is_refused_with_one_that_will_do(dimension, releases):
    rest = {"dimension": dimension, "releases": releases, "users": 1}
    least, _ = allowed(dimension, releases)
    assert refusal(least, **rest) == ""
    found = named(TOO_SMALL, mu=0.999 * least, **rest)
    assert found == pytest.approx(least, rel=2e-2)
    assert refusal(found, **rest) == ""
    largest = named(TOO_LARGE, mu=1e3 * math.sqrt(releases), **rest)
    assert refusal(largest, **rest) == ""
    assert named(TOO_LARGE, mu=1.02 * largest, **rest) == largest


def wrapping(vectors, clip_norm, radius):
    whole = unguarded(vectors, clip_norm, radius)
    squared = jnp.sum(jnp.square(whole.astype(jnp.uint32)), axis=0, dtype=jnp.uint32)
    return jnp.where((squared <= jnp.square(radius.astype(jnp.uint32)))[None], whole, 0)


@pytest.mark.parametrize("dimension", [3, 100])
def test_no_sum_of_squares_wraps_at_the_largest_radius_of_any_budget(dimension):
    """Columns of every length that the integers reach, not clipped."""
    largest = named(TOO_LARGE, mu=1e4, dimension=dimension, users=1)
    radius = int(budget(largest, dimension=dimension, users=1).radius)

    def longest(guard, radius):
        step = float(clipping.grid_step(jnp.float64(1.0), jnp.int32(radius), dimension))
        vectors = np.ones((dimension, 1)) * np.arange(radius + 1, dtype=float)[None] * step
        whole = np.asarray(jax.jit(guard)(vectors, 1.0, jnp.int32(radius)), np.int64)
        return np.max(np.sum(np.square(whole), axis=0))

    assert 0.9 * radius**2 < longest(clipping.quantise, radius) <= radius**2
    assert longest(wrapping, 65535) > 65535**2


@pytest.mark.parametrize(("mu", "dimension"), [(0.5, 3), (0.01, 3), (50.0, 1)])
def test_any_number_of_users_has_the_noise_of_few(mu, dimension):
    few, many = (budget(users=users, mu=mu, dimension=dimension) for users in (10, 2**40))
    assert (few.radius, few.sigma) == (many.radius, many.sigma)


def test_sums_that_leave_32_bits_do_not_wrap():
    """All at the same point of the sphere."""
    radius, users = jnp.int32(30_000), 150_000
    vectors = np.ones((1, users), np.float32)
    (total,) = integers.value(*jax.jit(clipping.clip_and_sum)(vectors, jnp.float32(1.0), radius)[0])
    assert total == users * int(oracle.grid_vector(np.ones(1), 1.0, 30_000)[0]) > 2**32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mu": 0.0}, "mu must be positive, got 0.0"),
        ({"mu": math.nan}, "mu must not be NaN"),
        ({"mu": 1.0, "noise": "none"}, "mu must be inf with noise='none', got 1.0"),
        ({"mu": 1.0, "noise": "gaussian"}, "noise must be one of 'exact', 'float', 'none', got 'gaussian'"),
    ],
)
def test_a_wrong_budget_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        budget(**changes)


def test_a_statement_rests_on_what_its_noise_needs():
    exact = said(0.5)
    assert (exact.notion, exact.relation, exact.protects, exact.delta) == ("gdp", "replace_one", "rows", 0.0)
    assert exact.assumptions == (
        assumptions.RANDOM_BITS,
        assumptions.PUBLIC_CONFIG,
        assumptions.SEPARABLE_LOSSES,
    )
    assert exact.total_variation == 10 * 3 * tables.gaussian_total_variation(4096)
    assert 0 < exact.total_variation < 2.0**-100
    of_floats = composed_guarantee.gdp_guarantee(budget(0.5, "float"), "rows")
    assert of_floats.assumptions == (
        assumptions.IDEAL_NOISE,
        assumptions.PUBLIC_CONFIG,
        assumptions.SEPARABLE_LOSSES,
    )
    assert (of_floats.level, of_floats.total_variation) == (0.5, 0.0)


def test_a_stacked_config_has_no_one_statement():
    stacked = dataclasses.replace(budget(0.5), mu=jnp.array([0.5, 0.5]))
    with pytest.raises(ValueError, match=r"privacy takes one config, got mu of shape \(2,\)"):
        composed_guarantee.gdp_guarantee(stacked, "rows")


# What a total variation does to a statement.


def of(notion, level, total_variation, delta=0.0):
    return guarantees.guarantee(notion, level, "replace_one", "rows", delta=delta, total_variation=total_variation)


def brute(notion, level, total_variation, slack, delta):
    """The least epsilon of a fine grid at which delta covers what the notion gives there, slack and variation."""
    epsilons = np.arange(0, 12, 1e-3)
    if notion == "gdp":  # Dong et al. (2022), corollary 2.13
        ideal = norm.cdf(level / 2 - epsilons / level) - np.exp(epsilons) * norm.cdf(-level / 2 - epsilons / level)
    else:
        ideal = np.where(epsilons >= level, 0.0, np.inf)
    enough = ideal + slack + (1 + np.exp(epsilons)) * total_variation <= delta
    return epsilons[np.argmax(enough)] if enough.any() else math.inf


@pytest.mark.parametrize(
    ("notion", "level", "total_variation", "slack", "delta"),
    [
        ("gdp", 0.5, 1e-6, 0.0, 1e-4),
        ("gdp", 1.0, 1e-7, 5e-6, 1e-5),
        ("gdp", 1.0, 1e-6, 0.0, 1e-5),  # no epsilon has room for it
        ("gdp", 1.0, 2e-5, 0.0, 1e-3),
        ("dp", 0.7, 1e-6, 0.0, 3.1e-6),
        ("dp", 0.7, 1e-6, 0.0, 3.0e-6),  # (1 + e^0.7) 1e-6 is 3.014e-6
        ("dp", 0.7, 1e-6, 1e-6, 4.1e-6),
        ("dp", 0.7, 1e-6, 1e-6, 4.0e-6),
    ],
)
def test_epsilon_pays_for_the_variation(notion, level, total_variation, slack, delta):
    found = of(notion, level, total_variation, slack).epsilon(delta)
    expected = brute(notion, level, total_variation, slack, delta)
    if math.isinf(expected):
        assert found == math.inf
    else:
        assert expected - 1e-3 - 1e-9 <= found <= expected + 1e-9
        if notion != "dp":
            assert found > of(notion, level, 0.0, slack).epsilon(delta)


def test_a_variation_of_exact_noise_costs_nothing_that_is_seen_and_no_delta_under_it_will_do():
    exact = of("gdp", 1.0, 2.0**-105)
    assert exact.epsilon(1e-6) == pytest.approx(accounting.gdp_epsilon(1.0, 1e-6), rel=1e-12)
    assert exact.epsilon(1e-6) >= accounting.gdp_epsilon(1.0, 1e-6)
    assert exact.epsilon(2.0**-105) == math.inf
    assert of("dp", 1.0, 2.0**-105).epsilon(1e-20) == 1.0
    assert of("dp", 1.0, 2.0**-105).epsilon(2.0**-105) == math.inf
    assert of("dp", 1.0, 0.0).epsilon(2.0**-105) == 1.0


def test_more_delta_never_costs_more_epsilon_whatever_the_variation():
    deltas = (1e-9, 1e-6, 2e-6, 1e-5, 1e-4, 1e-3, 0.5)
    for notion, total_variation in itertools.product(("gdp", "dp"), (1e-12, 1e-7, 1e-4)):
        epsilons = [of(notion, 0.5, total_variation).epsilon(delta) for delta in deltas]
        assert epsilons == sorted(epsilons, reverse=True)


def test_json_brings_the_variation_back_and_the_sentence_says_it():
    for made in (
        of("gdp", 1.5, 2.0**-105, 1e-9).assuming(assumptions.RANDOM_BITS),
        said(0.5),
        guarantees.no_guarantee("rows", "x"),
    ):
        read = guarantees.guarantee_from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
        assert read == made.assuming(assumptions.UNCHECKED)
    slack = "total variation at most 2.5e-32 (replace_one) for rows"
    assert of("gdp", 1.5, 2.0**-105, 1e-9).claim == f"gdp 1.5 at delta=1e-09, {slack}"
    assert of("dp", 1.5, 2.0**-105).claim == f"dp 1.5, {slack}"
    assert "total variation" not in str(of("dp", 1.5, 0.0))


@pytest.mark.parametrize(
    ("total_variation", "message"),
    [
        (1.0, r"variation must lie in \[0, 1\), got 1.0"),
        (-1e-40, r"variation must lie in \[0, 1\), got -1e-40"),
        (math.nan, "total_variation must not be NaN"),
    ],
)
def test_a_variation_is_a_probability(total_variation, message):
    with pytest.raises(ValueError, match=message):
        of("gdp", 1.0, total_variation)


@pytest.mark.parametrize("change", [{"extra": 1}, {"level": None}])
def test_what_is_no_statement_is_refused(change):
    fields = said(0.5).to_dict()
    fields = fields | change if "extra" in change else {k: v for k, v in fields.items() if k not in change}
    names = (
        "a guarantee has notion, level, .*variation, unit, parts, also, stages, largest, attained, summary_delta; got"
    )
    with pytest.raises(ValueError, match=names):
        guarantees.guarantee_from_dict(fields)
