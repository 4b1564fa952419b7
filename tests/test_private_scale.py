"""The scale of users' numbers, found privately: its distribution and cost, and that nothing else has to be known."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from option_groups import group_options
from oracles.private_scale import probabilities
from scipy.stats import chisquare

from jaxdpbo import PrivateObjective, Search, accounting, drivers, gp_ucb, ledger, minimize, preview
from jaxdpbo.algorithms import dp_gd, dp_gibo, private_evaluations
from jaxdpbo.drivers import compiled_steps, evaluation
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees
from jaxdpbo.guarantee import recording as recordings
from jaxdpbo.noise import calibration, private_scale, wide_integers

USERS = 24
NUMBERS = 2.0 ** np.random.default_rng(0).integers(-6, 7, USERS)


def budget(mu, noise="exact"):
    return private_scale.scale_noise(mu, noise, dtype=float)


@jax.jit
def draws(key, given, numbers):
    return jax.vmap(lambda each: private_scale.median(each, given, numbers))(jax.random.split(key, 20_000))


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_outcomes_are_as_likely_as_the_oracle_says(noise):
    mu = 0.5
    found = np.log2(draws(jax.random.key(1), budget(mu, noise), jnp.asarray(NUMBERS))).astype(int)
    counts = dict(zip(*np.unique(found, return_counts=True), strict=True))

    def p_value(deviation):
        expected = probabilities(NUMBERS, deviation)
        often = [exponent for exponent, chance in expected.items() if chance * len(found) > 5]
        seen = np.array([counts.get(exponent, 0) for exponent in often])
        chances = np.array([expected[exponent] for exponent in often])
        rest = np.append(seen, len(found) - seen.sum()), np.append(chances, 1 - chances.sum()) * len(found)
        return chisquare(
            *(each[:-1] if rest[1][-1] < 1 else each for each in (rest[0], rest[1] * rest[0].sum() / rest[1].sum()))
        ).pvalue

    deviation = math.sqrt(7) / mu  # seven counts, each moved by 1
    assert p_value(deviation) > 1e-3
    assert p_value(1.1 * deviation) < 1e-6


@pytest.mark.parametrize("mu", [0.01, 0.3, 5.0])
def test_seven_counts_cost_what_was_asked_for(mu):
    chosen = budget(mu)
    each = Fraction(int(chosen.units), private_scale.SIGMA)
    assert private_scale.COUNTS == 7
    assert 7 * each**2 <= Fraction(private_scale.level(chosen)) ** 2 <= Fraction(mu) ** 2
    assert private_scale.level(chosen) > 0.9 * mu
    assert 0 < private_scale.total_variation(chosen) < 1e-25


@pytest.mark.parametrize("scale", [1e-9, 1.0, 3.7e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_many_users_it_is_the_median_rounded_up(scale, dtype):
    numbers = (scale * np.random.default_rng(1).gamma(2.0, size=4001)).astype(dtype)
    found = private_scale.median(jax.random.key(0), budget(2.0), jnp.asarray(numbers))
    assert found.dtype == dtype
    assert 0.45 <= np.median(numbers) / float(found) <= 1.05


@pytest.mark.parametrize(("number", "expected"), [(0.0, -40), (1e-30, -40), (1e30, 40), (np.inf, 40), (np.nan, 40)])
def test_beyond_the_grid_it_is_its_end(number, expected):
    numbers = jnp.full(500, number)
    assert float(private_scale.median(jax.random.key(0), budget(3.0), numbers)) == 2.0**expected


def test_without_noise_it_is_the_median():
    for size in (1, 2, 7, 30):
        numbers = np.random.default_rng(size).normal(size=size) ** 2
        found = float(private_scale.median(jax.random.key(0), budget(math.inf, "none"), jnp.asarray(numbers)))
        half = np.sort(numbers)[(size + 1) // 2 - 1]
        assert found / 2 < half <= found


def test_too_little_budget_is_refused():
    with pytest.raises(ValueError, match=r"mu must be at least 0\.005\d* to find a scale"):
        budget(1e-3)


@pytest.mark.parametrize("users", [3, 2**31 - 1, 2**40])
def test_a_half_of_any_number_of_users_is_told_from_less(users):
    chosen = budget(30.0)
    counts = [wide_integers.constant(count) for count in (users // 3, users)]
    found = [bool(private_scale._reaches_half(jax.random.key(0), chosen, count, users)) for count in counts]
    assert found == [False, True]


# Where it is a part of a budget.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", ["exact", "float"])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.7])
def test_both_parts_together_are_within_the_budget(mu, noise, dtype):
    chosen = calibration.sum_noise(mu, noise, users=500, steps=9, dimension=3, dtype=dtype, find_scale=True)
    said = composed_guarantee.gdp_guarantee(chosen, "each user")
    assert [what for what, _ in said.parts] == [composed_guarantee.FIND_SCALE, composed_guarantee.RELEASES]
    (_, first), (_, rest) = said.parts
    assert Fraction(first) ** 2 + Fraction(rest) ** 2 <= Fraction(said.level) ** 2 <= Fraction(float(dtype(mu))) ** 2
    assert first**2 == pytest.approx(0.05 * mu**2, rel=0.01)
    assert f"of which {first:.3g} for the scale of the clip" in said.claim
    without = composed_guarantee.gdp_guarantee(
        calibration.sum_noise(mu, noise, users=500, steps=9, dimension=3, dtype=dtype), "each user"
    )
    assert without.parts == ()
    assert (said.total_variation > without.total_variation) == (noise == "exact")


def test_a_statement_with_parts_is_the_same_after_json():
    said = dp_gibo.algorithm.privacy(gibo())
    read = guarantees.guarantee_from_dict(said.to_dict())
    assert read.parts == said.parts
    assert read.without(assumptions.UNCHECKED) == said


def loss(point, data):
    return jnp.sum(jnp.square(data - point[None]), axis=1)


BOX = {"low": [-4, -4], "high": [4, 4]}
RECORDS = np.random.default_rng(3).normal(1.0, 1.0, size=(60, 2))


def gibo(**changes):
    options = {"users": 60, "steps": 4, "mu": 2.0, "bounds": BOX, "batch": 3, "clip_norm": "private"}
    return dp_gibo.config(**(options | {"optimizer": optax.adagrad} | changes))


def run(config, factor, objective=None, algorithm=dp_gibo.algorithm, seed=0):
    records = jnp.asarray(RECORDS)
    return drivers.run_scan(
        algorithm,
        objective or times,
        (records, jnp.asarray(factor)),
        config,
        key=jax.random.key(seed),
        insecure_key=True,
    ).release


def times(point, data):
    return data[1] * loss(point, data[0])


def gradients(point, data):
    return 2 * data[1] * (point[:, None] - data[0].T)


@pytest.mark.daily("*dp_gd")
@pytest.mark.parametrize("module", [dp_gibo, dp_gd])
def test_no_scale_of_the_losses_has_to_be_known(module):
    """Losses 2^20 times as large give the same run, to the last bit."""
    options = {"users": 60, "steps": 4, "mu": 2.0, "bounds": BOX, "theta0": [2.0, -2.0]}
    chosen = module.config(clip_norm="private", **options)
    objective = times if module is dp_gibo else gradients
    one, other = (run(chosen, factor, objective, module.algorithm) for factor in (1.0, 2.0**20))
    np.testing.assert_array_equal(one.path, other.path)
    assert float(other.clip_norm) == 2.0**20 * float(one.clip_norm)
    fixed = module.config(clip_norm=1.0, **options)
    one, other = (run(fixed, factor, objective, module.algorithm) for factor in (1.0, 2.0**-20))
    assert np.any(np.asarray(one.path) != np.asarray(other.path))
    assert one.clip_norm is None


def test_the_clip_norm_is_that_of_the_users_gradients_and_stays():
    config, key = gibo(mu=50.0), jax.random.key(2)
    snapshot = compiled_steps.begin(dp_gibo.algorithm, key, config)
    assert float(snapshot.state.public.clip_norm) == 0
    found = []
    for step in range(3):
        query = compiled_steps.ask(dp_gibo.algorithm, key, config, snapshot.state)
        values = jnp.stack([loss(point, RECORDS) for point in query.points])
        fresh = jax.random.fold_in(key, step)
        snapshot, _ = compiled_steps.learn(dp_gibo.algorithm, fresh, config, snapshot, query, values)
        found.append(float(snapshot.state.public.clip_norm))
    half = (np.asarray(config.bounds)[1] - np.asarray(config.bounds)[0]) / 2
    norms = np.linalg.norm(2 * RECORDS * half, axis=1)  # at the middle of the box, per half side
    assert found[0] == found[1] == found[2]
    assert 0.4 < np.median(norms) / found[0] < 1.3


def test_counts_after_the_first_step_do_not_move_the_clip_norm():
    """As in a loop of your own, which may refine at every step."""
    config = dp_gd.config(users=60, steps=4, mu=2.0, bounds=BOX, clip_norm="private")
    state, key = dp_gd.algorithm.init(jax.random.key(0), config), jax.random.key(1)
    public = state.public._replace(step=state.public.step + 1, clip_norm=jnp.asarray(3.0))
    query = dp_gd.algorithm.ask(key, config, state._replace(public=public))
    counts = private_scale.count_differences(jnp.full(60, 100.0))
    assert dp_gd.algorithm.refine(key, config, query, counts).broadcast.clip_norm == 3.0


def test_minimize_finds_it_and_preview_knows_its_noise():
    run = minimize(loss, RECORDS, BOX, mu=4.0, search=Search(steps=4, batch=3, clip_norm="private"))
    assert run.guarantee.level <= 4.0
    assert len(run.guarantee.parts) == 2
    assert float(run.release.clip_norm) > 0
    shared = {"users": 60, "space": BOX, "mu": 4.0, "steps": 4, "method": "local"}
    private, fixed = (
        preview(**group_options(clip_norm="private", loss_range=(0, 1), **shared)),
        preview(**group_options(clip_norm=1.0, **shared)),
    )
    assert private.relative_noise == pytest.approx(fixed.relative_noise / math.sqrt(0.95), rel=0.01)
    assert private.loss_noise is None


@pytest.mark.parametrize("make", [dp_gibo.config, dp_gd.config])
@pytest.mark.parametrize("given", ["found", "", 0.0, -1.0])
def test_no_other_clip_norm_is_taken(make, given):
    with pytest.raises(ValueError, match="clip_norm must be"):
        make(users=9, steps=2, mu=1.0, bounds=[(0, 1)] * 3, clip_norm=given)


# The range of a loss.

CANDIDATES = np.linspace(-1.0, 1.0, 9)[:, None]
PARABOLA = np.random.default_rng(5).normal(0.25, 0.1, size=300)
OFFSETS = 1e3 * np.random.default_rng(6).normal(size=300)


def parabola(point, data):
    records, offsets, factor = data
    return factor * (jnp.square(records - point[0]) + offsets)


def evaluations(mu=4.0, **changes):
    inner = gp_ucb.config(steps=5, candidates=CANDIDATES, answer="best_posterior_mean")
    options = {"users": 300, "mu": mu, "loss_range": "private", "design": [[-1.0], [0.0], [1.0]]}
    return private_evaluations.config(gp_ucb.algorithm, inner, **(options | changes))


def search(config, offsets, factor, seed=0):
    data = jnp.asarray(PARABOLA), jnp.asarray(offsets), jnp.asarray(factor)
    algorithm = private_evaluations.make_algorithm(gp_ucb.algorithm)
    key = jax.random.key(seed)
    return drivers.run_scan(algorithm, parabola, data, config, key=key, insecure_key=True, diagnostics=True)


def test_users_offsets_and_the_scale_of_losses_do_not_matter():
    whole = np.round(OFFSETS)  # sums with them are exact
    given = [(0.0 * whole, 1.0), (0.0 * whole, 2.0**30), (whole, 1.0)]
    one, larger, shifted = (search(evaluations(), offsets, factor) for offsets, factor in given)
    np.testing.assert_array_equal(one.release.points, larger.release.points)
    np.testing.assert_array_equal(one.release.points, shifted.release.points)
    np.testing.assert_array_equal(2.0**30 * one.release.values, larger.release.values)
    np.testing.assert_allclose(one.release.values, shifted.release.values, atol=1e-6)
    assert float(larger.release.high) == 2.0**30 * float(one.release.high)


def test_the_design_comes_first_and_releases_the_range_alone():
    run = search(evaluations(mu=60.0), 0.0 * OFFSETS, 1.0)
    state = run.diagnostics.state
    np.testing.assert_array_equal(np.asarray(state.public.points)[:3, 0], [-1.0, 0.0, 1.0])
    assert np.all(np.isnan(state.public.values[:3]))
    values = np.asarray(run.release.values)
    assert values.shape == (5,)
    largest = np.median(np.abs((PARABOLA - 0.0) ** 2 - (PARABOLA + 1) ** 2))
    assert 0.4 < largest / float(run.release.high) <= 1.05
    points = np.asarray(run.release.points)[:, 0]
    differences = (PARABOLA[None] - points[:, None]) ** 2 - (PARABOLA + 1) ** 2
    expected = np.clip(differences, -float(run.release.high), float(run.release.high)).mean(axis=1)
    np.testing.assert_allclose(values, expected, atol=0.05)
    assert abs(float(run.release.point[0]) - 0.25) <= 0.25
    np.testing.assert_array_equal(run.diagnostics.memory.reference, (PARABOLA + 1) ** 2)


@pytest.mark.daily("12-2")
@pytest.mark.parametrize(("begun", "other"), [(2, 12), (12, 2)])
def test_a_run_does_not_go_on_with_another_design(begun, other):
    """A longer one would find a second scale, and evaluate again."""
    chosen, changed = (evaluations(design=np.linspace(-1, 1, count)[:, None]) for count in (begun, other))
    algorithm, key = private_evaluations.make_algorithm(gp_ucb.algorithm), jax.random.key(0)
    snapshot = compiled_steps.begin(algorithm, key, chosen)
    for step in range(begun + 5):
        config = chosen if step < begun + 2 else changed
        after = one_step(algorithm, jax.random.fold_in(key, step), config, snapshot)
        assert (int(after.state.public.step) == step + 1) == (config is chosen)
        snapshot = after


def one_step(algorithm, key, config, snapshot):
    query = compiled_steps.ask(algorithm, key, config, snapshot.state)
    values = jnp.stack([parabola(point, (PARABOLA, 0.0, 1.0)) for point in query.points])
    return compiled_steps.learn(algorithm, key, config, snapshot, query, values)[0]


def test_a_user_without_a_first_loss_counts_as_the_upper_end():
    offsets = np.zeros(300)
    offsets[7] = np.nan
    spoiled = search(evaluations(mu=np.inf, noise="none"), offsets, 1.0).release
    assert np.all(np.isfinite(spoiled.values))
    clean = search(evaluations(mu=np.inf, noise="none"), np.zeros(300), 1.0).release
    high = float(clean.high)
    assert float(spoiled.high) == high
    own = np.clip((PARABOLA[7] - np.asarray(clean.points)[:, 0]) ** 2 - (PARABOLA[7] + 1) ** 2, -high, high)
    np.testing.assert_allclose(spoiled.values[0], clean.values[0] + (high - own[0]) / 300, rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"design": None}, "design must be given with loss_range='private'"),
        ({"loss_range": (0, 1)}, "design must be given with loss_range='private'"),
        ({"design": [[0.0]]}, "two rows or more"),
        ({"design": [[0.0, 1.0]] * 2}, "of 1 numbers"),
        ({"loss_range": "found"}, "loss_range must be"),
    ],
)
def test_a_design_that_does_not_fit_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        evaluations(**changes)


def test_a_range_is_refused_before_anything_is_charged(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=9)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="design must be"):
        private_objective(ledger=recordings.Recording(path, "search"), design=None)
    narrow = {"loss_range": (1e8, 1e8 + 1), "design": None, "ledger": recordings.Recording(path, "search")}
    with jax.enable_x64(False), pytest.raises(ValueError, match="loss_range must be wider"):
        private_objective(**narrow)
    assert path.read_bytes() == before


def test_a_range_that_is_not_known_yet_has_no_noise_in_its_units():
    shared = {"users": 300, "mu": 1.0, "loss_range": "private"}
    with pytest.raises((ValueError, TypeError), match="loss_range"):
        private_evaluations.noise_deviation(evaluations=3, **shared)
    descent = preview(**group_options(space=[(0, 1)] * 3, **shared))
    assert descent.loss_noise is None
    of_range = preview(
        **group_options(space=[(0, 1)] * 3, method="evaluations", **shared)
    ).loss_noise  # over the width, whatever it is
    known = preview(
        **group_options(space=[(0, 1)] * 3, method="evaluations", **(shared | {"loss_range": (0.0, 7.0)}))
    ).loss_noise
    assert 0.9 * known < of_range < 1.1 * known


def squares(point, data):
    return 1e5 + np.square(data - point)


def private_objective(**changes):
    options = {"users": 300, "mu": 5.0, "evaluations": 4, "loss_range": "private", "design": [-1.0, 0.0, 1.0]}
    return PrivateObjective(squares, PARABOLA, **options | changes)


def test_a_private_objective_finds_its_range():
    objective = private_objective()
    low, high = objective.loss_range
    assert low == -high
    assert 0.4 < np.median(np.abs(4 * PARABOLA)) / high < 2.1
    value = objective(0.25)
    expected = np.clip(np.square(PARABOLA - 0.25) - np.square(PARABOLA + 1), low, high).mean()
    assert abs(value - expected) < 8 * objective.deviation
    assert objective.guarantee.level <= 5.0
    assert len(objective.guarantee.parts) == 2


def test_a_range_on_record_is_found_once(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=9)
    recording = recordings.Recording(path, "search")
    first = private_objective(ledger=recording)
    first(0.5)
    again = private_objective(ledger=recording)
    assert again.loss_range == first.loss_range
    assert again.remaining == 3
    assert [each.value for each in again.spent] == [each.value for each in first.spent]
    with pytest.raises(ledger.LedgerError):
        private_objective(ledger=recording, design=[-1.0, 0.5])  # another run's name


def test_a_range_that_a_crash_lost_is_not_found_again(tmp_path, monkeypatch):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=9)
    recording = recordings.Recording(path, "search")

    def crash(*_):
        raise MemoryError

    monkeypatch.setattr(evaluation.ArrayUsers, "learn", crash)
    with pytest.raises(MemoryError):
        private_objective(ledger=recording)
    monkeypatch.undo()
    with pytest.raises(ledger.LedgerError, match="no range is on record: a crash lost it"):
        private_objective(ledger=recording)


@pytest.mark.parametrize("changes", [{"design": None}, {"design": [0.0]}, {"loss_range": (0, 1)}])
def test_a_private_objective_needs_a_design(changes):
    with pytest.raises(ValueError, match="design must be two points or more"):
        private_objective(**changes)


def test_accounting_of_parts_rounds_up():
    levels = 0.1, 0.2, 0.7
    found = accounting.compose_gdp_rounded_up(*levels)
    exact = sum(Fraction(level) ** 2 for level in levels)
    assert Fraction(found) ** 2 >= exact > Fraction(math.nextafter(found, 0)) ** 2
