"""A private choice: its distribution, and that one user moves it by its range and no more."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.choice import mu_of_pair, probabilities
from scipy.stats import chisquare, norm

from jaxdpbo import accounting
from jaxdpbo.noise import calibration, choice
from jaxdpbo.noise.mechanisms import tables

USERS, POINTS, WIDTH = 12, 5, 2.0
LADDER = tables.ladder(choice.RATE)
NAMED = [0.0, 1.0, -1.0, 1.9, 1e308, -1e308, 3e-320, math.inf, -math.inf, math.nan]


def losses(seed=0):
    return np.random.default_rng(seed).uniform(0, 3, (POINTS, USERS))


def budget(mu, noise="exact"):
    return choice.choice_noise(mu, noise, dtype=float)


@pytest.mark.parametrize("eta", [1e-6, 0.01, 0.5, 3.9, 4.1, 20.0])
def test_the_formula_is_the_worst_pair_of_outcomes_and_no_more(eta):
    """Ours, docs/theorems.md: the largest over all pairs is at ``t = eta / 2``."""
    mu = accounting.bounded_range_mu(eta)
    pairs = [mu_of_pair(eta, share * eta) for share in np.linspace(0.01, 0.99, 99)]
    assert max(pairs) <= mu * (1 + 1e-9) + 1e-9  # of the oracle's subtraction
    assert math.isclose(mu_of_pair(eta, eta / 2), mu, rel_tol=1e-8, abs_tol=1e-9)
    assert mu < 2 * eta


@given(st.floats(1e-6, 30))
def test_the_calibration_stays_within_what_was_asked_for(mu):
    back = accounting.bounded_range_mu(accounting.bounded_range_eta(mu))
    assert mu * (1 - 1e-9) < back <= mu


@jax.jit
def draws(key, chosen, values, favoured):
    return jax.vmap(lambda each: choice.choose_row(each, chosen, values, jnp.asarray(WIDTH), favoured))(
        jax.random.split(key, 20_000)
    )


@pytest.mark.parametrize("noise", ["exact", "float"])
@pytest.mark.parametrize("favoured", [-1, 2])
def test_points_are_as_likely_as_the_oracle_says(noise, favoured):
    mu, values = 0.6, losses()
    values[1, 3], values[2, 4], values[0, 4] = np.nan, np.inf, -np.inf
    found = draws(jax.random.key(1), budget(mu, noise), jnp.asarray(values), jnp.asarray(favoured))
    counts = np.bincount(found, minlength=POINTS)

    def p_value(eta):
        expected = probabilities(values, WIDTH, eta, None if favoured < 0 else favoured)
        return chisquare(counts, expected * len(found)).pvalue

    eta = accounting.bounded_range_eta(mu)
    assert p_value(eta) > 1e-3
    assert p_value(1.3 * eta) < 1e-6


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(NAMED) | st.floats(-5, 5), min_size=POINTS, max_size=POINTS),
    st.sampled_from([0.03, 0.6, 5.0]),
    st.integers(-1, POINTS - 1),
    st.integers(0, 3),
)
def test_one_user_moves_all_probabilities_by_the_range_and_no_more(other, mu, favoured, seed):
    """Exact: the integer weights that ``row`` draws by, as fractions."""
    chosen, values = budget(mu), losses(seed) * 10.0**seed
    first, second = (_weights(chosen, each, favoured) for each in (values, np.c_[other, values[:, 1:]]))
    ratios = [Fraction(a * sum(second), b * sum(first)) for a, b in zip(first, second, strict=True)]
    eta = choice.pure_level(chosen)
    assert float(max(ratios) / min(ratios)) <= math.exp(eta) * (1 + 1e-12)
    assert accounting.bounded_range_mu(eta) == choice.level(chosen) <= mu


def test_a_width_that_does_not_bind_is_seen():
    """The planted bug: losses that are not clipped move by more than the range."""
    chosen, values = budget(0.6), losses()
    far = values.copy()
    far[0, 0] += 100.0
    wide = choice.ChoiceNoise(chosen.mu, chosen.units * 50, chosen.digits // 50, "exact")  # what no clip would do
    first, second = (_weights(wide, each, -1) for each in (values, far))
    ratios = [Fraction(a * sum(second), b * sum(first)) for a, b in zip(first, second, strict=True)]
    assert float(max(ratios) / min(ratios)) > math.exp(choice.pure_level(chosen))


def _weights(chosen, values, favoured):
    found = _scores(chosen, jnp.asarray(values), jnp.asarray(favoured))
    top = len(LADDER) - 1
    return [LADDER[top - min(max(int(score), 0), top)] for score in found]


@jax.jit
def _scores(chosen, values, favoured):
    return choice.scores(chosen, choice.sum_losses(chosen, values, jnp.asarray(WIDTH)), favoured)


def test_noisy_scores_are_beyond_the_formula():
    """Two candidates whose gap moves from -32 to 32 at a rate of 1/64, by geometric noise: the range would be 1."""
    noise = -np.expm1(-1 / 64) * np.exp(-np.arange(64 * 60) / 64)
    at_most = np.cumsum(noise)

    def first_wins(gap):
        """The first has ``gap`` more, and ties."""
        if gap < 0:
            return float(np.sum(noise[-gap:] * at_most[:gap]))
        return 1 - float(np.sum(noise[gap + 1 :] * at_most[: len(noise) - gap - 1]))

    low, high = first_wins(-32), first_wins(32)
    assert norm.ppf(high) - norm.ppf(low) > 1.02
    assert accounting.bounded_range_mu(1.0) < 0.63


def test_scores_do_not_wrap():
    """The sums of all against one point have 41 bits."""
    chosen = budget(30.0)
    assert int(chosen.units) * int(chosen.digits) * 2**21 > 2**40
    values = jnp.broadcast_to(jnp.array([0.0, 5.0, 5.0])[:, None], (3, 2**21))
    found = _scores(chosen, values, 1)
    assert int(found[0]) == len(LADDER) - 1
    assert int(found[1]) <= 0


def test_without_noise_it_is_the_best_point():
    values = losses()
    found = choice.choose_row(jax.random.key(0), budget(math.inf, "none"), jnp.asarray(values), jnp.asarray(10.0))
    assert int(found) == np.argmin(values.mean(axis=1))


def test_too_little_budget_is_refused():
    with pytest.raises(ValueError, match="for an exact choice"):
        budget(1e-3)


def test_a_budget_beyond_float32_is_its_largest_number():
    assert float(choice.choice_noise(1e308, "float", dtype=np.float32).mu) == np.finfo(np.float32).max


def test_a_million_users_keep_the_range():
    few, many = budget(1.0), budget(1.0)
    assert choice.pure_level(many) == choice.pure_level(few) > 0.99 * accounting.bounded_range_eta(1.0)
    assert int(many.digits) >= 1


@pytest.mark.parametrize("width", [math.inf, 0.0, 1e-46])
def test_no_width_makes_a_number_that_is_none(width):
    """A quotient of zeros or infinities would be drawn first, whatever the noise."""
    values = jnp.asarray([[-3e38, 0.0], [0.0, 0.0], [3e38, 0.0]], jnp.float32)
    found = np.asarray(choice.relative_losses(values, jnp.asarray(width, jnp.float32)))
    assert np.all((found >= 0) & (found <= 1))


@pytest.mark.parametrize("mu", [1e-4, 1e-3, 0.1, 0.99, 1.01, 9.0])
def test_the_range_of_a_float_choice_keeps_its_digits(float32, mu):
    """The logarithms of the frequencies' ratio, at a range that float32 would lose where two logarithms cancel."""
    chosen = choice.choice_noise(mu, "float", dtype=jnp.float32)
    seen = []

    def draw(key, logits, **options):
        seen.append(logits)
        return jnp.argmax(logits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.random, "categorical", draw)
        choice.choose_row(
            jax.random.key(0), chosen, jnp.asarray([[0.0], [1.0]], jnp.float32), jnp.asarray(1.0, jnp.float32)
        )
    exact = accounting.bounded_range_eta(float(chosen.mu)) / 2
    assert float(seen[0][0] - seen[0][1]) == pytest.approx(exact, rel=2e-6)


@given(
    st.floats(1e-4, 30.0),
    st.sampled_from([np.float32, np.float64]),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
)
def test_shares_never_compose_beyond_the_whole(mu, dtype, weights):
    shares = [each / sum(weights) for each in weights]
    mu = float(np.asarray(mu, dtype))
    levels = calibration.split_levels(mu, shares, dtype)
    assert accounting.compose_gdp_rounded_up(*levels) <= mu
    assert accounting.compose_gdp_rounded_up(*levels) == pytest.approx(mu, rel=1e-6)
    assert all(float(np.asarray(level, dtype)) == level for level in levels)


def test_an_exact_choice_is_within_what_was_asked_for_in_float32(float32):
    for units in range(2, 300):
        mu = accounting.bounded_range_mu(units / 128) * (1 - 1e-9)
        assert choice.level(choice.choice_noise(mu, "exact", dtype=jnp.float32)) <= mu
