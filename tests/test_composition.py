"""Everything composed: against closed forms, enumeration and dp-accounting, from above and close."""

import itertools
import math
from functools import partial

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, pld, rdp
from oracles import composition as oracle

from jaxdpbo import accounting
from jaxdpbo.accounting import composition, grid, stage

DELTA = 1e-5
CLOSE = 1 - 1e-13  # roots of one function, found in two ways
LAW = accounting.repetitions(0.0, 16)
REPLACE, ADD = dp_accounting.NeighboringRelation.REPLACE_ONE, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def epsilon(*stages, delta=DELTA):
    return accounting.total(list(stages), delta).epsilon


def by_grid(*stages, delta=DELTA):
    """The grid's own bound, where a closed form would be smaller."""
    return composition._grid_epsilon(*composition._split_gaussian(stages), delta)


def training(rate=0.01, z=1.0, steps=1000, description="the training"):
    return stage.sampled_gaussian_stage(rate=rate, noise_multiplier=z, steps=steps, description=description)


@pytest.mark.parametrize("mus", [(0.5,), (0.3, 0.4), (1.0, 2.0, 2.0), (1e-3, 0.05), (5.0,)])
@pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-2])
def test_gaussian_stages_have_their_closed_form_and_the_grid_is_just_above(mus, delta):
    true = accounting.gdp_epsilon(math.hypot(*mus), delta)
    stages = [stage.gaussian_stage(mu) for mu in mus]
    found = accounting.total(stages, delta)
    assert found.by == "gaussian"
    assert true * CLOSE <= found.epsilon <= true * (1 + 1e-9)
    assert true <= by_grid(*stages, delta=delta) <= true * 1.002 + 1e-4
    # as curves that nobody knows the name of, each on the grid by its profile
    unnamed = epsilon(*(stage.curve_stage(one.profile) for one in stages), delta=delta)
    assert true * CLOSE <= unnamed <= true * 1.006 + 1e-4


@pytest.mark.parametrize(("level", "times"), [(0.1, 10), (0.5, 4), (0.05, 100), (1.0, 2), (2.0, 6)])
def test_pure_stages_cost_what_randomised_responses_do(level, times):
    for delta in (1e-6, 1e-3, 0.1):
        found = epsilon(*[stage.pure_stage(level)] * times, delta=delta)
        assert oracle.responses(level, times, found) <= delta
        assert oracle.responses(level, times, max(found * 0.99 - 1e-4, 0)) > delta or found == 0


def test_different_kinds_cost_what_enumeration_says():
    mixed = [
        stage.gaussian_stage(0.5),
        stage.pure_stage(0.3),
        stage.pure_stage(0.7),
        stage.approximate_stage(0.4, 1e-3),
    ]
    hidden = np.array([1e-3, *(0.999 * oracle.response(0.4)[0]), 0.0])
    other = np.array([0.0, *(0.999 * oracle.response(0.4)[1]), 1e-3])
    for delta in (2e-3, 0.05):
        found = epsilon(*mixed, delta=delta)
        for scale, holds in ((1.0, True), (0.99, False)):
            level = found * scale
            finite = [oracle.response(0.3), oracle.response(0.7), (hidden[1:3], other[1:3])]
            true = 1e-3 + oracle.gaussian_after(0.5, finite, level)
            assert (true <= delta) == holds


def test_a_training_and_a_search_cost_what_integration_says():
    for rate, z, steps, mu in ((0.1, 1.0, 1, 0.5), (0.3, 0.8, 2, 1.0)):
        for delta in (1e-4, 1e-2):
            found = epsilon(training(rate, z, steps), stage.gaussian_stage(mu), delta=delta)
            assert oracle.gaussian_after_steps(mu, rate, z, steps, found) <= delta * (1 + 1e-4)
            assert oracle.gaussian_after_steps(mu, rate, z, steps, 0.99 * found) > delta


@pytest.mark.parametrize(("rate", "z", "steps"), [(0.01, 1.0, 1000), (0.1, 4.0, 100), (1.0, 3.0, 7), (0.3, 0.8, 3)])
def test_one_training_costs_what_its_accountant_says(rate, z, steps):
    alone = accounting.sampled_gaussian_epsilon(rate=rate, noise_multiplier=z, steps=steps, delta=DELTA).epsilon
    assert alone <= epsilon(training(rate, z, steps)) <= by_grid(training(rate, z, steps)) * (1 + 1e-12)
    assert alone <= by_grid(training(rate, z, steps)) <= 1.005 * alone
    halves = training(rate, z, steps // 2), training(rate, z, steps - steps // 2)
    assert alone * (1 - 1e-3) <= epsilon(*halves) <= 1.005 * alone
    profile = accounting.sampled_gaussian_profile(rate=rate, noise_multiplier=z, steps=steps)
    assert 0.97 * DELTA <= profile(alone) <= DELTA * (1 + 1e-6)


def test_one_selection_costs_what_its_theorem_says():
    for run in (stage.gaussian_stage(0.5), training(steps=100), stage.pure_stage(0.2)):
        alone = accounting.selection_epsilon(LAW, run.profile, DELTA)
        chosen = stage.selection_stage(LAW, run, "the best of 16")
        assert epsilon(chosen) <= alone * (1 + 1e-9)
        assert alone * (1 - 1e-4) <= by_grid(chosen) <= alone * 1.002  # symmetry knows a little more than the theorem
        assert epsilon(chosen, stage.gaussian_stage(0.5)) < alone + stage.gaussian_stage(0.5).epsilon(DELTA)
    both = accounting.compose_profile([stage.gaussian_stage(0.3), stage.pure_stage(0.2)])
    assert epsilon(stage.selection_stage(LAW, both)) > epsilon(stage.selection_stage(LAW, stage.gaussian_stage(0.3)))


def test_a_range_has_the_profile_of_the_worst_of_its_pairs():
    for eta in (0.3, 1.0, 4.0):
        profile = stage.bounded_range_stage(eta).profile
        for share in (0.0, 0.2, 0.5, 0.9):
            assert profile(share * eta) == pytest.approx(oracle.range_profile(eta, share * eta), rel=1e-4)
        assert profile(eta) == profile(2 * eta) == 0
    assert stage.bounded_range_stage(1.0).profile(0.5) == pytest.approx(0.077, abs=5e-4)
    assert epsilon(*[stage.bounded_range_stage(0.5)] * 8) < epsilon(*[stage.pure_stage(0.5)] * 8)


def test_a_total_is_under_basic_composition_and_gaussian_levels():
    stages = [stage.pure_stage(0.2), stage.bounded_range_stage(0.4), stage.gaussian_stage(0.3)]
    mu = math.hypot(0.3, accounting.bounded_range_mu(0.4), accounting.bounded_range_mu(0.4))
    found = accounting.total(stages, DELTA)
    assert found.by == "grid"
    assert found.epsilon <= accounting.gdp_epsilon(mu, DELTA)
    assert epsilon(stage.pure_stage(0.2), stage.pure_stage(0.3), delta=1e-12) == pytest.approx(0.5)
    tiny = accounting.total(stages, 1e-200)
    assert tiny.by in ("gaussian", "basic")
    assert math.isfinite(tiny.epsilon)
    assert accounting.total([stage.pure_stage(3.0)] * 300, 1e-300).by in ("gaussian", "basic")


def test_the_order_of_stages_does_not_matter():
    stages = [
        stage.gaussian_stage(0.4),
        stage.pure_stage(0.3),
        training(),
        stage.gaussian_stage(0.3),
        stage.selection_stage(LAW, training()),
    ]
    found = [
        epsilon(*(stages[place] for place in order)) for order in ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3))
    ]
    assert found[1:] == pytest.approx(found[:1] * 2, rel=1e-9)


def test_a_larger_delta_costs_less():
    stages = [stage.gaussian_stage(0.4), stage.pure_stage(0.3), stage.approximate_stage(0.2, 1e-9), training(steps=100)]
    found = [epsilon(*stages, delta=10.0**power) for power in range(-9, 0)]
    assert all(after <= before * (1 + 1e-3) for before, after in itertools.pairwise(found))
    assert found[0] > 2 * found[-1]


def test_an_option_chosen_by_an_earlier_release_needs_one_curve():
    """Each option within the same (2, .525) after a response; whoever chooses by the response has .666."""
    response, sharp, leak = stage.pure_stage(1.0), stage.pure_stage(2.5), stage.approximate_stage(1e-9, 0.525)
    pairs = {
        "sharp": oracle.response(2.5),
        "leak": (np.array([0.525, 0.475, 0.0]), np.array([0.0, 0.475, 0.525])),
    }
    true = {name: oracle.either(*oracle.composed([oracle.response(1.0), pair]), 2.0) for name, pair in pairs.items()}
    assert max(true.values()) <= 0.5252
    adaptive = oracle.either(*oracle.chosen(oracle.response(1.0), [pairs["sharp"], pairs["leak"]]), 2.0)
    assert adaptive == pytest.approx(0.666, abs=5e-4)
    each = [accounting.compose_profile([response, option])(2.0) for option in (sharp, leak)]
    assert max(each) == pytest.approx(0.525, abs=1e-3)  # what two totals promise, and adaptivity breaks
    assert max(each) < adaptive - 0.1
    curve = accounting.worst_profile([sharp.profile, leak.profile])
    found = accounting.compose_profile([response, stage.curve_stage(curve)])(2.0)
    assert adaptive <= found <= adaptive + 0.01
    assert epsilon(response, stage.curve_stage(curve), delta=adaptive - 1e-3) > 2.0
    assert epsilon(response, sharp, delta=0.53) <= 2.0


def test_stages_that_leave_nothing_undisclosed_prove_nothing():
    """Of each outcome .9 may disclose the row: after some twenty, next to nothing is left of the losses."""
    for count in (5, 12, 40, 400):
        stages = [stage.approximate_stage(1.0, 0.9)] * count
        assert epsilon(*stages, delta=0.5) == math.inf
        assert accounting.compose_profile(stages)(2.0) == pytest.approx(1.0, abs=0.1**count + 1e-11)


def random_pair(rng):
    count = rng.integers(2, 5)
    first = rng.dirichlet(np.full(count, rng.choice([0.4, 1.0, 3.0])))
    second = first * np.exp(rng.choice([0.05, 0.3, 1.0, 2.0]) * rng.normal(size=count))
    if rng.uniform() < 0.2:  # outcomes that only one of them has
        second[0] = 0.0
    return first, second / second.sum()


def test_no_composition_of_finite_pairs_is_above_its_total(trials):
    """Adaptive in half of the cases: the second pair is one of several, by what the first released."""
    count = trials("compositions of random finite pairs", 60, 1000, 7)
    rng = np.random.default_rng(7)
    closest = 0.0
    for number in range(count):
        pairs = [random_pair(rng) for _ in range(rng.integers(2, 4))]
        profiles = [partial(oracle.either, *pair) for pair in pairs]
        if number % 2:
            first, *options = pairs[0], *(random_pair(rng) for _ in pairs[0][0])
            truth = oracle.chosen(first, options)
            curve = accounting.worst_profile([partial(oracle.either, *option) for option in options])
            stages = [stage.curve_stage(profiles[0]), stage.curve_stage(curve)]
        else:
            truth = oracle.composed(pairs)
            stages = [stage.curve_stage(profile) for profile in profiles]
        bound = accounting.compose_profile(stages)
        for level in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
            true = oracle.either(*truth, level)
            assert true <= bound(level) + 1e-14, (pairs, level)
            closest = max(closest, true / bound(level))
        delta = float(10 ** rng.uniform(-4, -0.5))
        found = epsilon(*stages, delta=delta)
        if math.isfinite(found):
            assert oracle.either(*truth, found) <= delta * (1 + 1e-9)
    assert closest > 0.97


@pytest.mark.parametrize(
    ("profile", "least"),
    [
        (partial(accounting.gdp_delta, 0.7), 0.0),
        (stage.pure_stage(1.3).profile, 0.0),
        (stage.approximate_stage(0.4, 1e-3).profile, 0.0),
        (stage.selection_stage(LAW, training()).profile, 2.0),  # under that it is more than symmetry allows
    ],
)
def test_the_pair_on_the_grid_has_a_profile_just_above_what_it_was_made_of(profile, least):
    part = grid.from_profile(profile, 0.01, 1e-12, 20_000)
    half = len(part.mass) // 2
    losses = 0.01 * np.arange(-half, half + 1)
    assert part.mass.sum() + part.infinite == pytest.approx(1.0, abs=1e-11)
    assert np.all(part.mass >= 0)
    assert part.mass[::-1] == pytest.approx(part.mass * np.exp(-losses), rel=1e-9, abs=1e-300)
    for level in np.arange(0, half, 0.7) * 0.01:
        if level < least:
            continue
        held = part.infinite + np.sum(part.mass * np.maximum(-np.expm1(level - losses), 0))
        if profile(level) > 1e-8:  # where a minimum of bounds is convex
            assert profile(level) <= held * (1 + 1e-12)
        assert held <= profile(level) + 2e-3 * profile(max(level - 0.01, 0)) + 1e-11 + 0.005 * (held > 1e-2)


def test_a_curve_that_drops_too_fast_is_lowered_to_what_symmetry_allows():
    steep = stage.curve_stage(lambda at: 1.0 if at < 1 else 0.0)  # no more than pure DP of 1
    assert (
        stage.pure_stage(1.0).profile(0.5)
        <= accounting.compose_profile([steep])(0.5)
        <= stage.pure_stage(1.0).profile(0.5) + 5e-3
    )


def test_foreign_events_are_what_that_library_says():
    sampled = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 500)
    for event, relation, named in (
        (dp_event.GaussianDpEvent(1.0), "replace_one", REPLACE),
        (dp_event.RandomizedResponseDpEvent(0.5, 3), "replace_one", REPLACE),
        (sampled, "add_or_remove", ADD),
        (dp_event.LaplaceDpEvent(2.0), "add_or_remove", ADD),
    ):
        theirs = pld.PLDAccountant(named).compose(event)
        found = stage.foreign_stage(event, relation, "theirs")
        for level in (0.05, 0.2, 0.7, 2.0):
            expected = theirs.get_delta(level)
            if relation == "add_or_remove":
                group = min((1 + math.exp(each)) * theirs.get_delta(each) for each in np.linspace(0, level, 200))
                assert found.profile(2 * level) <= min(1.0, group) * 1.001 + 1e-9
                assert (
                    found.profile(2 * level) >= min(1.0, (1 + math.exp(level)) * expected) * 0.9 or group < expected * 2
                )
            else:
                assert expected * (1 - 1e-12) <= found.profile(level) <= expected * 1.001 + 1e-9
    assert stage.foreign_stage(dp_event.NonPrivateDpEvent(), "replace_one").epsilon(DELTA) == math.inf
    assert stage.foreign_stage(dp_event.NoOpDpEvent(), "replace_one").epsilon(DELTA) == 0


def test_add_or_remove_becomes_replace_one_by_group_privacy_and_says_so():
    """Of a Gaussian of level 1 whose record moves both ways, replacing is a Gaussian of level 2: under the bound."""
    there = stage.foreign_stage(stage.gaussian_stage(1.0).profile, "add_or_remove", "their training")
    found = accounting.total([there, stage.gaussian_stage(0.5, "the search")], DELTA)
    assert found.epsilon >= accounting.gdp_epsilon(math.hypot(2.0, 0.5), DELTA)
    assert "group privacy" in found.items[0].how
    assert "their training" in str(found)
    assert found.items[0].epsilon == pytest.approx(there.epsilon(DELTA))
    for level in (0.4, 1.0, 3.0):
        single = accounting.gdp_delta(1.0, level)
        assert there.profile(2 * level) <= (1 + math.exp(level)) * single * (1 + 1e-6)
        assert there.profile(2 * level) >= accounting.gdp_delta(2.0, 2 * level)
    twice = stage.foreign_stage(partial(oracle.laplace_twice, 2.0), "add_or_remove")
    assert twice.profile(2.0) == pytest.approx(0.0, abs=1e-12)
    assert twice.profile(0.8) == pytest.approx(
        min((1 + math.exp(e)) * oracle.laplace_twice(2.0, e) for e in (0.4,)), rel=1e-3
    )


def test_what_does_not_convert_is_refused_by_name():
    event = dp_event.GaussianDpEvent(1.0)
    with pytest.raises(ValueError, match="relation must be one of"):
        stage.foreign_stage(event, "replace_special")
    with pytest.raises(ValueError, match="relation must be"):
        stage.foreign_stage(event, "unit_distance")
    with pytest.raises(
        ValueError, match="event_or_profile must be an event that dp-accounting supports for add_or_remove"
    ):
        stage.foreign_stage(dp_event.RandomizedResponseDpEvent(0.5, 3), "add_or_remove")
    with pytest.raises(ValueError, match="event_or_profile must be an event"):
        stage.foreign_stage(dp_event.UnsupportedDpEvent(), "replace_one")
    with pytest.raises(TypeError, match="event_or_profile must be a dp_accounting event or a profile"):
        stage.foreign_stage(1.0, "add_or_remove")
    with pytest.raises(TypeError, match="a bare epsilon has no relation"):
        accounting.total([stage.gaussian_stage(0.5), 1.0], DELTA)
    with pytest.raises(TypeError, match="stages must be a list"):
        accounting.total(stage.gaussian_stage(0.5), DELTA)


def test_the_event_of_a_total_costs_at_least_the_total():
    mixed = accounting.total([stage.gaussian_stage(0.5), stage.pure_stage(0.3), stage.bounded_range_stage(0.4)], DELTA)
    theirs = pld.PLDAccountant(ADD).compose(mixed.to_dp_event()).get_epsilon(DELTA)
    assert mixed.epsilon <= theirs <= 1.3 * mixed.epsilon
    trained = accounting.total(
        [stage.gaussian_stage(0.5), training(steps=100), stage.selection_stage(LAW, stage.gaussian_stage(0.5))], DELTA
    )
    theirs = rdp.RdpAccountant(neighboring_relation=REPLACE).compose(trained.to_dp_event()).get_epsilon(DELTA)
    assert trained.epsilon <= theirs
    nothing = accounting.total([stage.pure_stage(0.0), stage.gaussian_stage(0.0), training(steps=0)], DELTA)
    assert nothing.epsilon == 0
    assert pld.PLDAccountant(ADD).compose(nothing.to_dp_event()).get_epsilon(DELTA) == 0
    everything = accounting.total([stage.gaussian_stage(math.inf), training(z=0.0)], DELTA)
    assert everything.epsilon == math.inf
    assert (
        rdp.RdpAccountant(neighboring_relation=REPLACE).compose(everything.to_dp_event()).get_epsilon(DELTA) == math.inf
    )
    odd = accounting.total([training(rate=1 / math.pi, steps=3), training(rate=1.0, steps=2)], DELTA)
    batches = odd.to_dp_event().events[0].event
    assert batches.sample_size / batches.source_dataset_size >= 1 / math.pi
    for one in (stage.curve_stage(stage.pure_stage(1.0).profile, "odd"), stage.approximate_stage(1.0, 1e-9, "odd")):
        with pytest.raises(ValueError, match="stages must have dp-accounting events, got 'odd'"):
            accounting.total([one], DELTA).to_dp_event()


def test_an_average_is_of_deltas():
    profiles = [stage.gaussian_stage(0.5).profile, stage.gaussian_stage(1.5).profile]
    mean = accounting.average_profile([0.75, 0.25], profiles)
    for level in (0.0, 1.0, 5.0):
        expected = 0.75 * profiles[0](level) + 0.25 * profiles[1](level)
        assert expected <= mean(level) <= expected * (1 + 1e-9)
    worst = stage.curve_stage(accounting.worst_profile(profiles))
    assert epsilon(stage.curve_stage(mean)) < epsilon(worst)
    assert (
        stage.gaussian_stage(1.5).epsilon(DELTA) * CLOSE
        <= epsilon(worst)
        <= 1.005 * stage.gaussian_stage(1.5).epsilon(DELTA)
    )


def test_a_profile_that_says_nothing_proves_nothing():
    for nothing in (lambda at: math.nan, lambda at: 2.0, lambda at: -1.0, lambda at: 1.0):
        assert epsilon(stage.curve_stage(nothing)) == math.inf
        assert epsilon(stage.curve_stage(nothing), stage.gaussian_stage(0.5)) == math.inf
        assert epsilon(stage.foreign_stage(nothing, "add_or_remove"), stage.gaussian_stage(0.5)) == math.inf
    assert epsilon() == epsilon(stage.gaussian_stage(0.0)) == 0
    assert epsilon(stage.approximate_stage(0.0, 1e-6), stage.gaussian_stage(0.5)) > stage.gaussian_stage(0.5).epsilon(
        DELTA
    )
    assert epsilon(stage.approximate_stage(0.0, 1e-4), stage.gaussian_stage(0.5)) == math.inf
    assert epsilon(stage.gaussian_stage(1e-12), stage.pure_stage(0.5)) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: stage.gaussian_stage(-1.0), ValueError, "mu must be at least zero"),
        (lambda: stage.gaussian_stage("1"), TypeError, "mu must be one real number"),
        (lambda: stage.gaussian_stage(1.0, ""), ValueError, "description must be one printable line"),
        (lambda: stage.gaussian_stage(1.0, 3), TypeError, "description must be text"),
        (lambda: stage.pure_stage(-1.0), ValueError, "epsilon must be"),
        (lambda: stage.approximate_stage(1.0, 0.0), ValueError, "delta must lie"),
        (lambda: stage.bounded_range_stage(0.0), ValueError, "eta must be positive"),
        (lambda: training(rate=2.0), ValueError, "rate must lie"),
        (
            lambda: stage.selection_stage((0, 0.1, 16), stage.pure_stage(1.0)),
            TypeError,
            "repetitions must be made by accounting.repetitions",
        ),
        (lambda: stage.selection_stage(LAW, 0.5), TypeError, "run must be a function"),
        (lambda: stage.curve_stage(0.5), TypeError, "curve must be a function"),
        (lambda: stage.average_profile([0.5, 0.6], [abs, abs]), ValueError, "weights must be at least zero"),
        (lambda: stage.average_profile([1.0], [abs, abs]), ValueError, "weights must have shape"),
        (lambda: stage.worst_profile([]), ValueError, "profiles must hold at least one"),
        (lambda: stage.worst_profile([0.5]), TypeError, "profiles must be a sequence of functions"),
        (lambda: accounting.total([], 0.0), ValueError, "delta must lie strictly"),
        (lambda: accounting.compose_profile([0.5]), TypeError, "stages must be accounting.Stage"),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
