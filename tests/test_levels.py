"""Gaussian DP but for a delta: levels above profiles, what a ledger adds up, and totals as typed statements."""

import math
from functools import partial

import numpy as np
import pytest
import scipy
from oracles import composition as oracle

from jaxdpbo import Recording, accounting, ledger
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees
from jaxdpbo.guarantee import recording as recordings
from jaxdpbo.training import dp_optim, models, oracles

DELTA = 1e-6
TRAINING = stage.sampled_gaussian_stage(rate=0.01, noise_multiplier=1.0, steps=300, description="a training")
LAW = accounting.repetitions(0.0, 16)
KINDS = {
    "a training": ([TRAINING], accounting.sampled_gaussian_profile(rate=0.01, noise_multiplier=1.0, steps=300)),
    "a selection": ([stage.selection_stage(LAW, stage.gaussian_stage(0.3))], None),
    "leaks": ([stage.approximate_stage(0.4, 5e-7), stage.gaussian_stage(0.3)], None),
    "a response": ([stage.pure_stage(0.5)], stage.pure_stage(0.5).profile),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_profile_is_under_its_level_and_no_much_smaller_one(name):
    stages, profile = KINDS[name]
    profile = profile or accounting.compose_profile(stages)
    mu = accounting.gdp_level(stages, DELTA)
    at = np.linspace(0, 8, 1601)
    over = [profile(e) - accounting.gdp_delta(mu, e) - DELTA for e in at]
    assert max(over) <= 1e-12
    assert max(profile(e) - accounting.gdp_delta(0.98 * mu, e) - DELTA for e in at) > 0


def test_levels_without_a_delta_are_those_of_whole_batches():
    """And no smaller one is true of a sampled training: a test of its sum, far out, has more power than that allows."""
    whole = accounting.gdp_level([TRAINING])
    assert whole == pytest.approx(math.sqrt(300), rel=1e-12)
    rate, steps, below = 0.5, 2, 0.9 * math.sqrt(2)
    assert accounting.gdp_level([stage.sampled_gaussian_stage(rate=rate, noise_multiplier=1.0, steps=steps)]) > below
    far = np.linspace(0, 30, 301)
    power = steps * math.log(rate) + scipy.special.log_ndtr(math.sqrt(steps) - far)
    assert np.any(power > scipy.special.log_ndtr(below - far))
    assert accounting.gdp_level([stage.gaussian_stage(0.3), stage.gaussian_stage(0.4)]) == pytest.approx(0.5)
    assert accounting.gdp_level([stage.pure_stage(0.5)]) == pytest.approx(accounting.bounded_range_mu(1.0))
    assert accounting.gdp_level([]) == accounting.gdp_level([stage.pure_stage(0.0)], DELTA) == 0
    for unknown in ("a selection", "leaks"):
        assert accounting.gdp_level(KINDS[unknown][0]) == math.inf
    assert accounting.gdp_level([stage.approximate_stage(0.4, 1e-5)], DELTA) == math.inf
    assert accounting.gdp_level([stage.curve_stage(lambda at: 1.0)], DELTA) == math.inf
    assert accounting.gdp_level([stage.gaussian_stage(math.inf)], DELTA) == math.inf
    with pytest.raises(ValueError, match="delta must"):
        accounting.gdp_level([TRAINING], 1.0)
    with pytest.raises(ValueError, match="delta must"):
        accounting.gdp_level([TRAINING], -1e-9)


def leaking(epsilon, delta):
    """The pair of an (epsilon, delta)-DP release."""
    return tuple(np.array([*leak, *((1 - delta) * half)]) for leak, half in zip(
        ([delta, 0.0], [0.0, delta]), oracle.response(epsilon), strict=True
    ))  # fmt: skip


def test_levels_chosen_by_earlier_releases_add_up_in_squares_and_deltas_in_sums(trials):
    count = trials("levels chosen by an earlier release", 40, 1000, 5)
    rng, closest = np.random.default_rng(5), 0.0
    for _ in range(count):
        whole, leak, spent = *rng.uniform((0.5, 0.0), (3.0, 0.1)), rng.uniform(0.2, 0.9)
        levels = spent * whole, math.sqrt(1 - spent**2) * whole

        def of(level, delta):
            return leaking(accounting.bounded_range_eta(level) / 2, delta)

        first = of(levels[0], leak / 2)
        options = [of(levels[1] * rng.choice([0.3, 1.0]), rng.choice([0.0, leak / 2])) for _ in first[0]]
        truth = oracle.chosen(first, options)
        for epsilon in np.linspace(0, 4, 17):
            bound = accounting.gdp_delta(whole, epsilon) + leak
            assert oracle.either(*truth, epsilon) <= bound * (1 + 1e-9)
            closest = max(closest, oracle.either(*truth, epsilon) / bound)
    assert closest > 0.85


def begun(path, **budget):
    ledger.create(path, protects="rows", total_variation=1e-3, **budget)
    return Recording(path, "one")


STATED = composed_guarantee.guarantee_from_total(
    accounting.total([TRAINING, stage.pure_stage(0.2, "a choice")], DELTA), "rows"
)


def spent(recording, statement):
    recordings.charge_run(recording, "a release", statement)
    (entry,) = ledger.account(recording.path).spends
    (event,) = entry.spend.events
    return event.type, float(event.level), float(event.delta)


def test_a_ledger_takes_a_statement_by_the_level_it_proves_of_its_notion(tmp_path):
    mu = accounting.gdp_level([TRAINING, stage.pure_stage(0.2)], DELTA)
    assert spent(begun(tmp_path / "gdp", notion="gdp", level=1, delta=1e-5), STATED) == ("gdp", mu, DELTA)
    assert spent(begun(tmp_path / "dp", notion="dp", level=5, delta=1e-5), STATED) == ("dp", STATED.level, DELTA)
    pure = guarantees.guarantee("dp", 0.5, "replace_one", "rows", delta=1e-7)
    expected = "gdp", accounting.bounded_range_mu(1.0), 1e-7
    assert spent(begun(tmp_path / "range", notion="gdp", level=1, delta=1e-5), pure) == expected
    choice = guarantees.guarantee("gdp", 0.5, "replace_one", "rows", also=("dp", 0.7))
    assert spent(begun(tmp_path / "also", notion="dp", level=5), choice) == ("dp", 0.7, 0)
    again = Recording(tmp_path / "gdp", "one")
    assert recordings.charge_run(again, "a release", STATED).charged_before
    assert "mu " in ledger.describe(again.path)


def test_what_no_level_is_proved_of_is_refused_with_the_notion_that_takes_it(tmp_path):
    dp, gdp = begun(tmp_path / "dp", notion="dp", level=5, delta=0.1), begun(tmp_path / "gdp", mu=5)
    plain = guarantees.guarantee("gdp", 0.5, "replace_one", "rows")
    with pytest.raises(ledger.LedgerError, match="spend's is 'gdp': charge it to a ledger of notion 'gdp'"):
        recordings.charge_run(dp, "a release", plain)
    with pytest.raises(ledger.BudgetExceeded, match=r"would spend delta 0\.00000100000 of 0 left"):
        recordings.charge_run(gdp, "a release", STATED)
    loud = guarantees.guarantee("dp", 1e308, "replace_one", "rows")
    with pytest.raises(ledger.LedgerError, match="spend's is 'dp': charge it to a ledger of notion 'dp'"):
        recordings.charge_run(gdp, "a release", loud)
    averaged = guarantees.guarantee("prior_averaged_dp", 0.5, "replace_one", "rows")
    with pytest.raises(ValueError, match="a ledger adds up gdp, zcdp, dp, metric_dp"):
        recordings.charge_run(gdp, "a release", averaged)
    zcdp = begun(tmp_path / "zcdp", notion="zcdp", level=5, delta=0.1)
    with pytest.raises(ledger.LedgerError, match="notion is 'zcdp', the spend's is 'dp'"):
        recordings.charge_run(zcdp, "a release", STATED)


def test_a_gaussian_ledger_takes_ten_trainings_where_basic_composition_takes_three(tmp_path):
    settings = dp_optim.settings(steps=300, batch=10, learning_rate=0.1, noise_multiplier=1.0, clip_norm=1.0)
    one = oracles.training_guarantee(settings, models.logistic_regression(2), records=1000, delta=1e-7)
    paths = {"gdp": tmp_path / "gdp", "dp": tmp_path / "dp"}
    whole = accounting.gdp_epsilon(1.2, 9e-6)  # with ten slacks of 1e-7 the same (epsilon, 1e-5)
    common = {"protects": one.protects, "total_variation": 1e-9}
    ledger.create(paths["gdp"], notion="gdp", level=1.2, delta=1e-6, **common)
    ledger.create(paths["dp"], notion="dp", level=whole, delta=1e-5, **common)
    taken = {}
    for notion, path in paths.items():
        for number in range(10):
            try:
                recordings.charge_run(Recording(path, str(number)), "a training", one)
            except ledger.BudgetExceeded:
                break
            taken[notion] = number + 1
    assert taken == {"gdp": 10, "dp": 3}


def test_a_total_is_a_statement_itemised_by_stage():
    total = accounting.total([TRAINING, stage.pure_stage(0.2, "a choice"), stage.pure_stage(0.0, "nothing")], DELTA)
    said = composed_guarantee.guarantee_from_total(
        total, "rows", assumptions=(assumptions.IDEAL_NOISE,), total_variation=1e-12
    )
    assert (said.notion, said.level, said.delta, said.relation) == ("dp", total.epsilon, DELTA, "replace_one")
    assert [what for what, _ in said.parts] == ["a training", "a choice", "nothing"]
    assert [level for _, level in said.parts] == pytest.approx([item.epsilon for item in total.items])
    assert said.assumptions == (assumptions.STAGE_COSTS, assumptions.PUBLIC_CONFIG, assumptions.IDEAL_NOISE)
    assert "alone" in said.claim
    assert "for a training and 0.2 for a choice" in said.claim
    assert guarantees.guarantee_from_dict(said.to_dict()) == said.assuming(assumptions.UNCHECKED)
    assert said.epsilon(DELTA + 1e-9) == total.epsilon
    assert said.epsilon(1e-3) < total.epsilon  # by its GDP level
    profile = accounting.compose_profile([TRAINING, stage.pure_stage(0.2)])
    for delta in (1e-5, 1e-4, 1e-2):
        assert profile(said.epsilon(delta)) <= delta


def test_stages_that_are_alike_are_one_part():
    said = composed_guarantee.guarantee_from_total(
        accounting.total([stage.pure_stage(0.1, "a trial")] * 6, DELTA), "rows"
    )
    ((what, alone),) = said.parts
    assert what == "a trial (each of 6)"
    assert alone == pytest.approx(0.1, rel=1e-4)


def test_a_total_of_nothing_proved_is_no_guarantee():
    unknown = accounting.total([stage.gaussian_stage(math.inf, "everything")], DELTA)
    assert composed_guarantee.guarantee_from_total(unknown, "rows").notion == "none"
    free = composed_guarantee.guarantee_from_total(accounting.total([stage.gaussian_stage(0.0)], DELTA), "rows")
    assert 0 < free.level < 1e-300
    with pytest.raises(TypeError, match="total must be made by accounting"):
        composed_guarantee.guarantee_from_total(1.0, "rows")


def test_parts_of_a_dp_statement_cost_no_more_than_all():
    of = partial(guarantees.guarantee, "dp", 1.0, "replace_one", "rows")
    assert (
        of(parts=[("one", 1.0), ("two", 0.9)]).claim
        == "dp 1, each part alone 1 for one and 0.9 for two (replace_one) for rows"
    )
    with pytest.raises(
        ValueError, match="parts must belong to a gdp guarantee, or to a dp one and be at most its level"
    ):
        of(parts=[("one", 1.1)])
    with pytest.raises(ValueError, match="parts must belong to a gdp guarantee"):
        guarantees.guarantee("metric_dp", 1.0, "unit_distance", "rows", unit=1.0, parts=[("one", 0.5)])
