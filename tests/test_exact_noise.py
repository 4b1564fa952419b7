"""Exact noise draws the stated distributions, to the last of 128 bits; what it costs is what is charged for it."""

import itertools
import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.extend.random import define_prng_impl
from oracles import discrete as oracle
from scipy.stats import chi2_contingency, chisquare

from jaxdpbo import accounting
from jaxdpbo.noise import calibration, keys, mechanisms
from jaxdpbo.noise.mechanisms import discrete_noise, tables

KEY = keys.key_from_bytes(bytes(range(32)))
QUARTER = Fraction(1, 4)


def test_draws_and_tables_stay_what_they_were():
    """A release must be reproducible from its key by later versions. All compiled, one not."""
    for draw, expected in (
        (lambda key: mechanisms.rounded_gaussian(key, (8,), 16), [6, 11, 19, -5, 17, -20, -13, -24]),
        (lambda key: mechanisms.rounded_gaussian(key, (8,), 4096), [-1009, 3454, 2135, 7082, -395, 4001, -95, -1468]),
        (lambda key: mechanisms.discrete_laplace(key, (8,), Fraction(1, 256)), [554, -253, 172, 534, 113, 12, 359, 0]),
    ):
        np.testing.assert_array_equal(jax.jit(draw)(KEY), expected)
    np.testing.assert_array_equal(draw(KEY), expected)
    assert oracle.whole(tables.gaussian(16).limbs[0])[0] == 0x0661CD3974BB1A8BA64563006390BE7D


# The distributions, as counts see them.


def joined(counts, expected, least):
    """Neighbouring cells joined until each is expected at least about so often."""
    ends = np.cumsum(expected)
    cells = np.unique(np.floor((ends - expected / 2) / least), return_inverse=True)[1]
    cells = np.minimum(cells, cells[np.searchsorted(ends, expected.sum() - least / 2) - 1])  # no small last one
    return (np.bincount(cells, weights=values) for values in (counts, expected))


def p_value(sample, distribution, low=0):
    """Of integers under probabilities of ``low, low + 1, ...``, in fine and in some 32 coarse cells; the lesser."""
    counts = np.bincount(np.asarray(sample).ravel() - low, minlength=len(distribution))
    assert len(counts) == len(distribution)  # nothing outside
    expected = distribution * (counts.sum() / distribution.sum())
    return min(chisquare(*joined(counts, expected, least)).pvalue for least in (10, counts.sum() / 32))


def gaussians(sigma, count, seed=0, bits=128):
    """A fresh compilation, with whatever is patched."""
    draw = jax.jit(lambda key: mechanisms.rounded_gaussian(key, (count,), sigma, bits))
    return np.asarray(draw(jax.random.fold_in(KEY, seed)))


def p_of_gaussian(sigma, count, bits=128):
    sample, bound = gaussians(sigma, count, bits=bits), 18 * sigma
    assert sample.dtype == np.int32
    return p_value(sample, oracle.rounded_gaussian(sigma, bound), -bound)


@pytest.mark.daily("65536-128", "4096-64", "4-128", "16-128", "16-64")
@pytest.mark.parametrize(
    ("sigma", "bits"), [(4, 128), (16, 128), (100, 128), (4096, 128), (65536, 128), (16, 64), (4096, 64)]
)
def test_rounded_gaussian_draws_have_the_law(sigma, bits, trials):
    count = trials(f"draws of the rounded Gaussian of width {sigma}, {bits} bits each", 2**16, 2**20, 0)
    assert p_of_gaussian(sigma, count, bits) > 1e-3


def wider(sigma, bits):
    return tables.TableSum(tables._rounded_gaussian((Fraction(51, 50) * sigma) ** 2, bits)[None], (1,))


def discrete_one(sigma, bits):
    """Its variance is less by 1/12."""
    return tables.TableSum(tables._gaussian(Fraction(sigma) ** 2, bits)[None], (1,))


def with_zero_twice(sigma, bits):
    masses = oracle.exact_rounded_gaussian(Fraction(sigma) ** 2, 14 * sigma)[:-1]
    return tables.TableSum(tables._thresholds([2 * masses[0], *masses[1:]], bits)[None], (1,))


def with_another_factor(sigma, bits):
    limbs, (*factors, last) = HONEST(sigma, bits)
    return tables.TableSum(limbs, (*factors, last - 1))


def without_the_first(sigma, bits):
    limbs, (_, *factors) = HONEST(sigma, bits)
    return tables.TableSum(limbs, (0, *factors))


HONEST = tables.gaussian


@pytest.mark.daily("without_the_first-100", "with_zero_twice-4", "wider-4", "discrete_one-1")
@pytest.mark.parametrize(
    ("plant", "sigma"),
    [(wider, 4), (discrete_one, 1), (with_zero_twice, 4), (with_another_factor, 400), (without_the_first, 100)],
)
def test_the_counts_see_a_planted_table(plant, sigma, monkeypatch):
    monkeypatch.setattr(tables, "gaussian", plant)
    assert p_of_gaussian(sigma, 2**17) < 1e-6


def test_the_counts_see_a_planted_sign(monkeypatch):
    """Negative 33 times in 64."""
    honest = discrete_noise._draw_signed

    def biased(words, signs, limbs):
        return honest(words, (signs & 63 < 33).astype(jnp.uint32), limbs)

    monkeypatch.setattr(discrete_noise, "_draw_signed", biased)
    assert p_of_gaussian(4, 2**17) < 1e-9


def test_consecutive_draws_and_coordinates_have_nothing_to_do_with_each_other():
    sample = gaussians(16, 2**17, seed=1).astype(float)
    for lag in (1, 2, 7, 16):
        assert abs(np.corrcoef(sample[lag:], sample[:-lag])[0, 1]) < 5 / np.sqrt(len(sample))


@pytest.mark.parametrize("rate", [QUARTER, Fraction(1, 256)])
def test_discrete_laplace_draws_have_the_law(rate, trials):
    count = trials(f"draws of the discrete Laplace distribution of rate {rate}", 2**17, 2**20, 1)
    draw = jax.jit(lambda key: mechanisms.discrete_laplace(key, (count,), rate))
    sample, bound = draw(jax.random.fold_in(KEY, 2)), math.ceil(90 / rate)
    assert sample.dtype == np.int32
    distribution = oracle.laplace(float(rate), bound)
    assert p_value(sample, distribution, -bound) > 1e-3
    assert p_value(sample, oracle.laplace(1.05 * float(rate), bound), -bound) < 1e-9
    assert p_value(sample, distribution * np.where(np.arange(-bound, bound + 1) < 0, 0.97, 1.03), -bound) < 1e-9
    if rate == QUARTER:
        distribution[bound] *= 2  # a sign and a magnitude, where 0 came with both
        assert p_value(sample, distribution, -bound) < 1e-9


GEOMETRIC = Fraction(1, 16)


def test_geometric_draws_have_the_law_and_independent_digits(trials):
    count = trials(f"draws of the geometric distribution of rate {GEOMETRIC}", 2**17, 2**20, 2)
    sample = np.asarray(jax.jit(lambda key: mechanisms.geometric(key, (count,), GEOMETRIC))(jax.random.fold_in(KEY, 3)))
    distribution = oracle.geometric(float(GEOMETRIC), 2 ** tables.digits(GEOMETRIC))
    assert p_value(sample, distribution) > 1e-3
    assert p_value(sample, oracle.geometric(1.05 * float(GEOMETRIC), 2 ** tables.digits(GEOMETRIC))) < 1e-9
    assert min(digit_pairs(sample)) > 1e-4
    probabilities = np.array(oracle.whole(tables.geometric(GEOMETRIC)), float) / 2.0**128
    one_uniform = np.random.default_rng(0).uniform(size=(count, 1)) < probabilities  # for all digits
    assert max(digit_pairs(one_uniform @ (1 << np.arange(len(probabilities))))) < 1e-9


def digit_pairs(sample):
    """Of the lowest six digits, two by two."""
    digits = [sample >> i & 1 for i in range(6)]
    for one, other in itertools.combinations(digits, 2):
        yield chi2_contingency(np.bincount(2 * one + other, minlength=4).reshape(2, 2), correction=False).pvalue


def views(x, y):
    """Integers from 0 that show where points lie, how far out, and which way they are turned."""
    bound = 330
    return (
        x + bound,
        y + bound,
        np.hypot(x, y).astype(int),
        np.abs(x) - np.abs(y) + bound,
        3 * np.sign(x) + np.sign(y) + 4,
    )


def test_planar_laplace_draws_have_the_law(trials):
    count = trials("draws of the planar discrete Laplace distribution of rate 1/4", 2**17, 2**20, 3)
    sample = jax.jit(lambda key: mechanisms.planar_laplace(key, count, QUARTER))(jax.random.fold_in(KEY, 4))
    assert sample.shape == (count, 2)
    assert sample.dtype == np.int32
    x, y = np.meshgrid(np.arange(-330, 331), np.arange(-330, 331), indexing="ij")

    def p(distribution):
        seen = zip(views(*np.asarray(sample).T), views(x.ravel(), y.ravel()), strict=True)
        return min(p_value(some, np.bincount(places, weights=distribution.ravel())) for some, places in seen)

    distribution = oracle.planar(0.25, 330)
    assert p(distribution) > 1e-3
    for wrong in (
        oracle.planar(0.25 * 1.05, 330),
        np.where(x * y == 0, 2, 1) * distribution,  # eight images where there are four
        np.where(np.abs(x) == np.abs(y), 2, 1) * distribution,
        np.where(np.abs(x) > np.abs(y), 1.03, 0.97) * distribution,  # turned too seldom
        np.where(y > 0, 1.03, 0.97) * distribution,
    ):
        assert p(wrong) < 1e-9


def test_outcomes_are_drawn_with_their_chances(trials):
    count = trials("draws of one of four outcomes", 2**17, 2**20, 4)
    probabilities = Fraction(1, 2), Fraction(1, 3), Fraction(0), Fraction(1, 6)
    sample = np.asarray(
        jax.jit(lambda key: mechanisms.outcome(key, (count,), probabilities))(jax.random.fold_in(KEY, 5))
    )
    assert sample.dtype == np.int32
    counts = np.bincount(sample, minlength=4)
    assert counts[2] == 0
    distribution = np.array([float(probability) for probability in probabilities])
    assert chisquare(counts[[0, 1, 3]], distribution[[0, 1, 3]] * count).pvalue > 1e-3
    wrong = distribution[[0, 1, 3]] + [0.01, -0.01, 0]
    assert chisquare(counts[[0, 1, 3]], wrong * count).pvalue < 1e-9
    for drawn, probability in zip(oracle.drawn(tables.choice(probabilities)), probabilities, strict=True):
        assert abs(drawn - probability * 2**128) <= 1


# The tables themselves: how far what they draw is from the distribution, to the last bit.


@cache
def gaussian_law(sigma, bits=128):
    """Of ``-T .. T``, and out of how many."""
    counts, total = oracle.gaussian_law(*tables.gaussian(sigma, bits))
    assert sum(counts) == total
    assert counts == counts[::-1]
    return counts, total


def apart(counts, total, sigma):
    """The total variation from the rounded Gaussian."""
    middle = len(counts) // 2
    folded = [counts[middle], *(2 * count for count in counts[middle + 1 :])]
    return oracle.total_variation(folded, total, oracle.exact_rounded_gaussian(Fraction(sigma) ** 2, middle))


@pytest.mark.daily("?-*", "??-*", "100-*")
@pytest.mark.parametrize(
    ("sigma", "bits"), [*((sigma, 128) for sigma in (1, 4, 5, 16, 40, 43, 100, 350)), (4, 64), (16, 64), (100, 64)]
)
def test_a_gaussian_draw_is_as_near_to_the_law_as_is_said(sigma, bits):
    """The last ones of two and three tables."""
    claimed = tables.gaussian_total_variation(sigma, bits)
    assert claimed / 2**8 < apart(*gaussian_law(sigma, bits), sigma) <= claimed < 2.0 ** (13 - bits)


def parts(sigma, bits=128):
    """Of ``x_0 + c_1 (x_1 + c_2 (...))``, from the outermost: each table's variance, and the next one's factor."""
    _, factors = tables.gaussian(sigma, bits)
    part, variance, found = {128: 361, 64: 100}[bits], Fraction(sigma) ** 2, []
    for before, factor in itertools.pairwise(factors):
        ratio = Fraction(factor, before)
        found.append((Fraction(part), ratio))
        variance = (variance - part) / ratio**2
    return [*found, (variance, None)]


@pytest.mark.parametrize(("sigma", "bits"), [*((sigma, 128) for sigma in calibration.SIGMAS), (4096, 64)])
def test_the_parts_of_wide_gaussians_are_as_near_to_their_laws_as_is_said(sigma, bits):
    """Of all tables; their sum is no further from the sum of the distributions than they are together."""
    limbs, found = tables.gaussian(sigma, bits).limbs, Decimal(0)
    laws = oracle.exact_rounded_gaussian, *[oracle.exact_gaussian] * (len(limbs) - 1)
    for table, (variance, _), law in zip(limbs, parts(sigma, bits), laws, strict=True):
        counts = oracle.drawn(table)
        found += oracle.total_variation(counts, 2**bits, law(variance, len(counts) - 1))
    assert found <= tables.gaussian_total_variation(sigma, bits) < 2.0 ** (14 - bits)


@pytest.mark.parametrize("bits", [128, 64])
def test_every_width_is_made_of_parts_that_are_wide_enough(bits):
    """``t = a b / (a + c^2 b)`` of each part and what is inside of it: the proof's ``e`` is under 2^-(bits + 10)."""
    least = bits / 24
    assert math.log2(2.001) - 2 * math.pi**2 * least / math.log(2) < -(bits + 10)
    for sigma in (*range(15, 200), 330, 1000, 2048, 4096, 65536, 2**20, tables.MAX_SIGMA):
        total = Fraction(sigma) ** 2
        for variance, ratio in parts(sigma, bits)[:-1]:
            inside = (total - variance) / ratio**2
            assert ratio.denominator == 1
            assert variance * inside / total >= least
            total = inside


def test_the_measured_variation_sees_one_threshold_moved():
    limbs = tables.gaussian(16).limbs.copy()
    limbs[0, 10, 1] ^= 1 << 12  # 2^-52
    found = apart(*oracle.gaussian_law(limbs, (1,)), 16)
    assert float(found) == pytest.approx(2.0**-52, rel=1e-9)
    assert found > tables.gaussian_total_variation(16)


def log_ratio(sigma, bits=128, stretch=1):
    """Of ``x_0 + c_1 (x_1 + ...)``, by convolution, to the rounded Gaussian's: the most within 10 widths."""
    outermost, *others = parts(sigma, bits)
    found = np.ones(1)
    for (variance, ratio), law in zip(
        [outermost, *others][::-1], [*[oracle.gaussian] * len(others), oracle.rounded_gaussian], strict=True
    ):
        width = math.sqrt(variance)
        factor = 1 if ratio is None else int(ratio) * stretch
        spread = np.zeros(factor * (len(found) - 1) + 1)
        spread[::factor] = found
        found = np.convolve(law(width, math.ceil(30 * width)), spread)
    middle, bound = len(found) // 2, 10 * sigma
    return np.max(np.abs(np.log(found[middle - bound : middle + bound + 1] / oracle.rounded_gaussian(sigma, bound))))


@pytest.mark.parametrize(("sigma", "bits"), [(43, 128), (100, 128), (350, 128), (30, 64), (100, 64)])
def test_tables_add_up_to_the_law(sigma, bits):
    assert log_ratio(sigma, bits) < 1e-12
    assert log_ratio(sigma, bits, stretch=4) > 1e-6  # a comb: too few steps of one part in one of the next


@pytest.mark.parametrize("rate", [Fraction(3), Fraction(1), QUARTER, Fraction(1, 256)])
def test_a_geometric_draw_is_as_near_to_the_law_as_is_said(rate):
    counts, total = oracle.geometric_law(tables.geometric(rate))
    assert sum(counts) == total
    assert len(counts) == 2 ** tables.digits(rate)
    exact = oracle.exact_geometric(rate, len(counts) - 1)
    assert oracle.total_variation(counts, total, exact) <= tables.geometric_total_variation(rate) < 2.0**-122
    if rate == QUARTER:
        other = oracle.exact_geometric(rate * Fraction(10**9 + 1, 10**9), len(counts) - 1)
        assert oracle.total_variation(counts, total, other) > 2.0**-40


@pytest.mark.parametrize("rate", [Fraction(8), Fraction(2), Fraction(1, 2)])
def test_a_planar_draw_is_as_near_to_the_law_as_is_said(rate):
    octant = tables.planar(rate)
    distribution, beyond = oracle.exact_planar(rate, math.ceil(82 / rate))
    assert set(distribution) == set(map(tuple, octant.cells.tolist()))
    found = oracle.total_variation(
        oracle.drawn(octant.thresholds), 2**128, [*(distribution[x, y] for x, y in octant.cells.tolist()), beyond]
    )
    assert found <= tables.planar_total_variation(rate) < 2.0**-111


# The traced program.

USES = {
    "rounded Gaussian": lambda key: mechanisms.rounded_gaussian(key, (3,), 4),
    "rounded Gaussian, four tables": lambda key: mechanisms.rounded_gaussian(key, (3,), 4096),
    "rounded Gaussian, 64 bits": lambda key: mechanisms.rounded_gaussian(key, (3,), 100, 64),
    "geometric": lambda key: mechanisms.geometric(key, (2, 2), QUARTER),
    "discrete Laplace": lambda key: mechanisms.discrete_laplace(key, (3,), QUARTER),
    "planar Laplace": lambda key: mechanisms.planar_laplace(key, 3, Fraction(2)),
    "outcome": lambda key: mechanisms.outcome(key, (3,), (Fraction(1, 3), Fraction(2, 3))),
    "noisy argmax": lambda key: mechanisms.noisy_argmax(key, jnp.arange(-3, 3, dtype=jnp.int32), QUARTER),
    "exact exponential": lambda key: mechanisms.exact_exponential(key, jnp.arange(6, dtype=jnp.int32), QUARTER),
}


@pytest.mark.parametrize("name", USES)
def test_draws_are_the_same_integers_however_they_are_traced(name):
    use, several = USES[name], jax.random.split(KEY, 4)
    expected = np.asarray(jax.jit(jax.vmap(use))(several))
    assert len(np.unique(expected)) > 1
    scanned = jax.jit(lambda several: jax.lax.scan(lambda _, key: (None, use(key)), None, several)[1])(several)
    np.testing.assert_array_equal(scanned, expected)
    compiled = jax.jit(use)
    for key, row in zip(several, expected, strict=True):
        np.testing.assert_array_equal(compiled(key), row)
    with jax.enable_x64(False):
        found = jax.jit(jax.vmap(use))(several)
        assert found.dtype == jnp.int32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("words", [0, 2**32 - 1])
@pytest.mark.parametrize("sigma", [4, 100])
def test_the_ends_of_the_random_words_draw_the_ends_of_the_law(words, sigma, monkeypatch):
    """Trap 4: no draw of any bits leaves the grid or the bound."""
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: jnp.full(shape, words, dtype))
    found = jax.jit(lambda key: mechanisms.rounded_gaussian(key, (2,), sigma))(KEY)
    limbs, factors = tables.gaussian(sigma)
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, -limbs.shape[1] * sum(factors) if words else 0)
    assert limbs.shape[1] * sum(factors) < 19 * sigma


@pytest.mark.parametrize("draw", [mechanisms.geometric, mechanisms.discrete_laplace])
def test_a_rate_whose_draws_do_not_fit_is_refused(draw):
    limit = Fraction(1, 2**24)
    found = np.asarray(jax.jit(lambda key: draw(key, (50,), limit))(KEY))
    assert np.max(np.abs(found)) > 2**24
    if draw is mechanisms.geometric:
        assert np.all(found >= 0)
    with pytest.raises(ValueError, match=r"rate must be at least 4.29e-08, got 1.49012e-08"):
        jax.eval_shape(lambda key: draw(key, (50,), Fraction(1, 2**26)), KEY)


@pytest.mark.parametrize("bits", [64, 128])
def test_numbers_of_several_words_are_compared_as_wholes(bits):
    numbers = [sum(word << 32 * i for i, word in enumerate(words))
               for words in itertools.product([0, 1, 2**32 - 1], repeat=bits // 32)]  # fmt: skip
    words = tables._words(numbers, bits).T
    found = discrete_noise.is_at_least(jnp.asarray(words)[:, :, None], jnp.asarray(words)[:, None])
    np.testing.assert_array_equal(found, [[one >= other for other in numbers] for one in numbers])


def test_rates_may_be_as_fine_as_is_said():
    """By the checks before a table is made: the finest take seconds."""
    for finest, digits in ((tables.FINEST_LADDER, 14), (tables.FINEST_PLANE, 4), (tables.FINEST, 31)):
        check = tables._rate(finest)
        assert check(Fraction(1, 2**digits)) == finest
        with pytest.raises(ValueError, match=rf"rate must lie in \[1/{2**digits}, "):
            check(Fraction(9, 10 * 2**digits))


# Choice of one of many.


def within(epsilon, found, other, total, slack=0):
    """``found <= e^epsilon other + (1 + e^epsilon) slack``, counts out of ``total``, in exact fractions."""
    power = oracle.power_below(epsilon)
    return found <= power * other + (1 + power) * Fraction(slack) * total


def test_no_neighbours_of_three_candidates_tell_more_by_a_noisy_argmax_than_is_said():
    """Every pair of scores 0, 1, 2 and their neighbours, by sums of integers."""
    counts, whole = oracle.geometric_law(tables.geometric(QUARTER))
    won = cache(lambda scores: oracle.noisy_argmax(scores, counts))
    slack = 3 * tables.geometric_total_variation(QUARTER)

    def of(scores):
        return won(tuple(score - min(scores) for score in scores))

    pairs = [
        pair
        for scores in itertools.product(range(3), repeat=3)
        for moves in itertools.product((-1, 0, 1), repeat=3)
        for pair in zip(of(scores), of(tuple(map(sum, zip(scores, moves, strict=True)))), strict=True)
    ]
    assert all(within(2 * QUARTER, *pair, whole**3, slack) for pair in pairs)
    assert not all(within(Fraction(199, 100) * QUARTER, *pair, whole**3, slack) for pair in pairs)  # nothing to spare
    assert all(sum(of(scores)) == whole**3 for scores in itertools.product(range(3), repeat=3))
    assert max(math.log(here / there) for here, there in pairs) == pytest.approx(0.5, rel=1e-9)


def choices(draw, scores, count, seed):
    def with_rate(key, scores):
        return draw(key, scores, QUARTER)

    several = jax.random.split(jax.random.fold_in(KEY, seed), count)
    return np.asarray(jax.jit(jax.vmap(with_rate, in_axes=(0, None)))(several, jnp.asarray(scores, jnp.int32)))


def test_a_noisy_argmax_is_drawn_with_those_chances(trials):
    scores, count = (0, 1, -2), trials("draws of a noisy argmax of three", 2**14, 2**18, 5)
    counts, whole = oracle.geometric_law(tables.geometric(QUARTER))
    frequencies = np.bincount(choices(mechanisms.noisy_argmax, scores, count, 6), minlength=3)
    distribution = np.array([float(Fraction(ways, whole**3)) for ways in oracle.noisy_argmax(scores, counts)])
    assert chisquare(frequencies, distribution * count).pvalue > 1e-3
    ties_to_the_last = np.array(
        [float(Fraction(ways, whole**3)) for ways in oracle.noisy_argmax(scores[::-1], counts)][::-1]
    )
    assert chisquare(frequencies, ties_to_the_last * count).pvalue < 1e-9


def test_ties_go_to_the_first():
    """At a rate where the noise is 0."""
    chosen = jax.jit(lambda key, scores: mechanisms.noisy_argmax(key, scores, Fraction(100)))
    for scores, expected in (([5, 5, 5], 0), ([1, 5, 5], 1), ([-7, -7, -9], 0)):
        assert {int(chosen(key, jnp.array(scores, jnp.int32))) for key in jax.random.split(KEY, 5)} == {expected}


def test_scores_at_the_ends_of_the_integers_do_not_wrap():
    """Trap 5. The same noise added in Python's integers, to scores that are clamped first."""
    low, high = -(2**31), 2**31 - 1
    limit = mechanisms.largest_score(QUARTER)
    several = jax.random.split(jax.random.fold_in(KEY, 7), 100)
    draws = np.asarray(jax.jit(jax.vmap(lambda key: mechanisms.geometric(key, (4,), QUARTER)))(several))
    chosen = jax.jit(jax.vmap(lambda key, s: mechanisms.noisy_argmax(key, s, QUARTER), in_axes=(0, None)))
    wrapped = 0
    for scores in ([low, high, 0, high - 5], [high] * 4, [low] * 4, [low, low + 1, low, -limit], [0, limit, high, -1]):
        scores = np.array(scores, np.int32)
        expected = [oracle.largest(scores, row, limit) for row in draws]
        np.testing.assert_array_equal(chosen(several, scores), expected)
        wrapped += np.sum(np.argmax(scores[None] + draws.astype(np.int32), axis=1) != expected)
    assert wrapped > 100  # without the clamp


def test_the_least_rate_that_an_argmax_takes_is_the_one_it_names():
    assert mechanisms.largest_score(Fraction(1, 2**23)) == 2**30 - 1
    for rate in (Fraction(1, 2**24), Fraction(1, 2**30)):
        message = re.escape(f"rate must be at least 2^-23, got {float(rate):g}")
        with pytest.raises(ValueError, match=message):
            mechanisms.largest_score(rate)
        with pytest.raises(ValueError, match=message):
            mechanisms.noisy_argmax(KEY, jnp.zeros(3, jnp.int32), rate)


LADDERS = [Fraction(3), Fraction(1), QUARTER, Fraction(1, 100)]


def descends(weights, rate):
    """Whether no step is larger than ``e^rate``, in exact fractions."""
    power = oracle.power_below(rate)
    return all(upper <= power * lower for upper, lower in itertools.pairwise(weights))


@pytest.mark.parametrize("rate", LADDERS)
def test_no_step_of_a_ladder_is_larger_than_is_said(rate):
    weights = tables.ladder(rate)
    assert weights[0] == 2**96
    assert list(weights) == sorted(set(weights), reverse=True)
    assert weights[-1] * (1 - math.exp(-rate)) < 1 + 1e-9  # it goes down as far as integers do
    assert descends(weights, rate)
    rounded = [round(2**96 * math.exp(-rate * j)) for j in range(len(weights))]
    assert not descends([weight for weight in rounded if weight], rate)


def test_no_neighbours_of_three_candidates_tell_more_by_the_exponential_mechanism_than_is_said():
    """At the foot of the ladder, where the weights are a few units."""
    weights = tables.ladder(QUARTER)[::-1]

    def probabilities(scores):
        found = [weights[min(max(score, 0), len(weights) - 1)] for score in scores]
        return [Fraction(weight, sum(found)) for weight in found]

    def holds(epsilon):
        return all(
            within(epsilon, here, there, 1)
            for scores in itertools.product(range(4), repeat=3)
            for moves in itertools.product((-1, 0, 1), repeat=3)
            for here, there in zip(
                probabilities(scores), probabilities(map(sum, zip(scores, moves, strict=True))), strict=True
            )
        )

    assert holds(2 * QUARTER)
    assert not holds(QUARTER)
    weights = [round(math.exp(j / 4)) for j in range(len(weights))]
    assert not holds(2 * QUARTER)  # rounded to the nearest integer


def test_the_exponential_mechanism_picks_the_row_that_the_same_bits_pick_in_long_integers():
    rng = np.random.default_rng(0)
    top, ladder = mechanisms.top(QUARTER), tables.ladder(QUARTER)
    chosen = jax.jit(jax.vmap(lambda key, s: mechanisms.exact_exponential(key, s, QUARTER), in_axes=(0, None)))
    several = jax.random.split(jax.random.fold_in(KEY, 8), 100)
    words = np.asarray(jax.vmap(lambda key: jax.random.bits(key, (8,), jnp.uint32))(several))
    seen = set()
    for scores in (
        rng.integers(-5, top + 5, 300),
        rng.integers(top - 8, top + 1, 300),
        np.full(300, -1),
        rng.choice([-(2**31), 2**31 - 1], 300),
    ):
        weights = [ladder[top - min(max(int(score), 0), top)] for score in scores]
        expected = [oracle.picked(row, weights) for row in words]
        np.testing.assert_array_equal(chosen(several, scores.astype(np.int32)), expected)
        seen |= set(expected)
    assert len(seen) > 100


@pytest.mark.parametrize("words", [0, 2**32 - 1])
def test_the_ends_of_the_random_words_pick_a_row(words, monkeypatch):
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: jnp.full(shape, words, dtype))
    found = jax.jit(lambda key, scores: mechanisms.exact_exponential(key, scores, Fraction(1)))(
        KEY, jnp.arange(3, 0, -1)
    )
    assert found == (2 if words else 0)


def test_the_exponential_mechanism_has_the_law_of_its_weights(trials):
    count, top = trials("draws of the exact exponential mechanism", 2**14, 2**18, 6), mechanisms.top(QUARTER)
    scores = top - np.array([0, 2, 2, 7, -3, 40])
    frequencies = np.bincount(choices(mechanisms.exact_exponential, scores, count, 9), minlength=6)
    ladder = tables.ladder(QUARTER)
    weights = np.array([float(Fraction(ladder[max(top - score, 0)], 2**96)) for score in scores])
    distribution = weights / weights.sum()
    assert frequencies[5] <= 20  # e^-10
    assert chisquare(frequencies[:5], distribution[:5] / distribution[:5].sum() * frequencies[:5].sum()).pvalue > 1e-3
    wrong = distribution[:5] ** 1.2
    assert chisquare(frequencies[:5], wrong / wrong.sum() * frequencies[:5].sum()).pvalue < 1e-9


def test_too_many_candidates_are_refused():
    def chosen(count):
        shapes = KEY, jax.ShapeDtypeStruct((count,), jnp.int32)
        return jax.eval_shape(lambda key, scores: mechanisms.exact_exponential(key, scores, Fraction(1)), *shapes)

    assert chosen(2**16 - 1).shape == ()
    with pytest.raises(ValueError, match="scores must be fewer than 65536, got 65536"):
        chosen(2**16)


def test_as_many_candidates_as_are_allowed_do_not_wrap():
    """All at the top: the sums of 16-bit limbs are as large as they can be."""
    scores = jnp.full(2**16 - 1, 2**20, jnp.int32)
    key = jax.random.fold_in(KEY, 10)
    words = np.asarray(jax.random.bits(key, (8,), jnp.uint32))
    found = jax.jit(lambda key, scores: mechanisms.exact_exponential(key, scores, Fraction(1)))(key, scores)
    assert found == oracle.picked(words, [2**96] * (2**16 - 1))


# The attack on floats: which outputs can one data set give that its neighbour can not?


def _every(_, sigma, shape):
    assert (sigma, math.prod(shape)) == (32, 2**23)
    return (jnp.arange(2**23, dtype=jnp.uint32) << 9).reshape(shape)


EVERY = define_prng_impl(
    key_shape=(1,), seed=lambda seed: jnp.zeros(1, jnp.uint32), fold_in=lambda key, data: key,
    split=lambda key, shape: jnp.zeros((*shape, 1), jnp.uint32), random_bits=_every, name="every", tag="every",
)  # fmt: skip


def impossible(outputs, possible):
    """Which of the outputs are not among those possible."""
    possible = np.sort(possible, kind="stable")
    return possible[np.minimum(np.searchsorted(possible, outputs), len(possible) - 1)] != outputs


@pytest.mark.parametrize(
    ("mechanism", "scale"), [(mechanisms.gaussian, 1.0), (mechanisms.gaussian, 16.0), (mechanisms.laplace, 1.0)]
)
def test_one_noisy_float_identifies_its_data_nine_times_in_ten(mechanism, scale, trials):
    """Trap 1. Outputs with f(D) = 0 that no 23 random bits, all that a float32 draw is made of, give with f(D') = 1."""
    key = jax.random.wrap_key_data(jnp.zeros(1, jnp.uint32), impl=EVERY)
    ours, theirs = (np.asarray(mechanism(key, jnp.full(2**23, value, jnp.float32), scale)) for value in (0.0, 1.0))
    assert ours.dtype == np.float32
    count = trials(f"outputs of float {mechanism.__name__} noise of scale {scale:g} attacked", 2**18, 2**23, 7)
    some = ours[:: 2**23 // count]
    assert 0.88 < np.mean(impossible(some, theirs)) < 0.91
    assert not np.any(impossible(some, ours))


@pytest.mark.parametrize("sigma", [16, 100])
def test_exact_noise_identifies_nobody(sigma):
    """The same question: what the neighbour can not give has a chance under 2^-100, of all draws of the tables."""
    counts, total = gaussian_law(sigma)
    values, counts = np.arange(len(counts)) - len(counts) // 2, np.array(counts, object)
    ours, counts = values[counts > 0], counts[counts > 0]
    for shift in (1, sigma // 2, sigma):
        for theirs in (ours + shift, ours - shift):
            assert 0 < Fraction(sum(counts[impossible(ours, theirs)]), total) < Fraction(1, 2**100)
    assert Fraction(sum(counts[impossible(ours, 2 * ours)]), total) > Fraction(49, 100)  # a grid twice as wide


# What it costs.


def exact_deltas(law, sigma, shift, epsilons):
    bound = 20 * sigma + 2 * abs(shift)
    distribution = law(sigma, bound)
    here, there = distribution[shift:], distribution[: len(distribution) - shift]
    return [oracle.hockey_stick(here, there, epsilon) for epsilon in epsilons]


EPSILONS = (0.0, 0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)


def exceeds(delta, mu, epsilon):
    return delta > accounting.gdp_delta(mu, epsilon) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("sigma", [1, 4, 16])
def test_no_shift_has_a_larger_delta_than_its_mu_allows(sigma):
    """Hockey-stick divergences, summed over the integers. Of the discrete Gaussian some are larger."""
    beyond = {oracle.rounded_gaussian: 0, oracle.gaussian: 0}
    for law in beyond:
        for shift in (*range(1, 2 * sigma + 1), 3 * sigma, 5 * sigma):
            mu = accounting.rounded_gaussian_mu(shift, sigma)
            assert mu == shift / sigma
            deltas = exact_deltas(law, sigma, shift, EPSILONS)
            beyond[law] += sum(map(exceeds, deltas, [mu] * len(EPSILONS), EPSILONS))
    assert beyond[oracle.rounded_gaussian] == 0
    assert beyond[oracle.gaussian] > 0


@pytest.mark.parametrize("shift", [(1, 1), (2, 3), (4, 0), (5, 5), (1, 7)])
def test_in_two_dimensions_the_length_of_the_shift_counts(shift):
    sigma, bound = 4, 90
    distribution = oracle.rounded_gaussian(sigma, bound)
    here, there = (
        distribution[a : len(distribution) - 20 + a, None] * distribution[None, b : len(distribution) - 20 + b]
        for a, b in ((10, 10), (10 + shift[0], 10 + shift[1]))
    )
    length = math.hypot(*shift)
    deltas = [oracle.hockey_stick(here, there, epsilon) for epsilon in EPSILONS]
    mu = accounting.rounded_gaussian_mu(length, sigma)
    assert not any(map(exceeds, deltas, [mu] * len(EPSILONS), EPSILONS))
    assert any(map(exceeds, deltas, [0.99 * length / sigma] * len(EPSILONS), EPSILONS))


distances = st.integers(1, 10**7) | st.floats(1e-3, 1e7)
sigmas = st.sampled_from([1, 5, 16, 4096, 65536]) | st.integers(1, 10**6)
releases = st.integers(1, 10**6)


@given(distances, sigmas, releases)
def test_levels_are_the_next_floats_above_what_they_round(distance, sigma, count):
    mu = accounting.rounded_gaussian_mu(distance, sigma, count)
    assert Fraction(math.nextafter(mu, 0)) ** 2 < count * (Fraction(distance) / sigma) ** 2 <= Fraction(mu) ** 2


@given(st.floats(1e-6, 1e4), sigmas, releases)
def test_the_largest_distance_is_the_largest_that_costs_no_more(mu, sigma, count):
    """Trap 23: a calibration never overshoots."""
    distance = accounting.largest_distance(mu, sigma, count)
    assert type(distance) is int
    if distance:
        assert accounting.rounded_gaussian_mu(distance, sigma, count) <= mu
    assert accounting.rounded_gaussian_mu(distance + 1, sigma, count) > mu


@given(distances, sigmas, releases)
def test_more_movement_and_more_releases_cost_more_and_wider_noise_less(distance, sigma, count):
    cost = accounting.rounded_gaussian_mu
    level = cost(distance, sigma, count)
    assert cost(distance * 1.001, sigma, count) > level
    assert cost(distance, sigma, count + 1) > level
    assert cost(distance, sigma + 1, count) < level


def test_four_releases_cost_as_much_as_one_of_twice_the_distance():
    assert accounting.rounded_gaussian_mu(100, 4096, 4) == accounting.rounded_gaussian_mu(200, 4096)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"distance": 0}, ValueError, "distance must be positive, got 0.0"),
        ({"distance": -1.0}, ValueError, "distance must be positive, got -1.0"),
        ({"distance": math.inf}, ValueError, "distance must be finite, got inf"),
        ({"distance": math.nan}, ValueError, "distance must not be NaN"),
        ({"sigma": 0}, ValueError, "sigma must be at least 1, got 0"),
        ({"sigma": 4.0}, TypeError, "sigma must be an integer, got 4.0"),
        ({"releases": 0}, ValueError, "releases must be at least 1, got 0"),
        ({"releases": True}, TypeError, "releases must be an integer, got True"),
    ],
)
def test_costs_are_refused_by_name(changes, error, message):
    with pytest.raises(error, match=message):
        accounting.rounded_gaussian_mu(**({"distance": 1, "sigma": 4, "releases": 1} | changes))


@pytest.mark.parametrize("mu", [0.0, -1.0, math.inf, math.nan])
def test_a_distance_for_no_budget_is_refused(mu):
    with pytest.raises(ValueError, match="mu must"):
        accounting.largest_distance(mu, 4096)
