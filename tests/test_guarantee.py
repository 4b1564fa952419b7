"""A guarantee is never a bare epsilon: it converts where it may, raises where it may not, and says its conditions."""

import dataclasses
import json
import math
import re
from dataclasses import replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import accounting as oracle
from oracles import conformance

from jaxdpbo import Guarantee, accounting, parts, rounding
from jaxdpbo.accounting import rounded_gaussian
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees

GDP = guarantees.guarantee("gdp", 1.5, "replace_one", "validation users")
CHOICE = composed_guarantee.guarantee_from_stages([("a choice", "bounded_range", 0.5)], "rows")
COMPOSED = composed_guarantee.guarantee_from_stages(
    [("a choice", "bounded_range", 0.5), ("a choice", "bounded_range", 0.25), ("a search", "gaussian", 0.25)], "rows"
)


def of(notion, level, **rest):
    return guarantees.guarantee(notion, level, "replace_one", "rows", **rest)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_gdp_converts_exactly(mu):
    assert of("gdp", mu).epsilon(1e-5) == accounting.gdp_epsilon(mu, 1e-5)
    assert of("gdp", mu).epsilon(1e-5) == pytest.approx(oracle.epsilon(mu, 1e-5), rel=1e-9)


def test_gdp_with_slack_has_the_rest_of_delta_to_spend():
    assert of("gdp", 1.0, delta=4e-6).epsilon(1e-5) == accounting.gdp_epsilon(1.0, 1e-5 - 4e-6)
    assert of("gdp", 1.0, delta=1e-5).epsilon(1e-5) == math.inf
    assert of("gdp", 1.0, delta=2e-5).epsilon(1e-5) == math.inf


def test_dp_is_its_own_epsilon_at_any_larger_delta():
    assert of("dp", 0.7).epsilon(1e-12) == 0.7
    assert of("dp", 0.7, delta=1e-5).epsilon(1e-5) == 0.7
    assert of("dp", 0.7, delta=1e-5).epsilon(0.5) == 0.7
    assert of("dp", 0.7, delta=1e-5).epsilon(9e-6) == math.inf


@pytest.mark.parametrize("notion", ["metric_dp", "prior_averaged_dp"])
def test_what_is_no_differential_privacy_does_not_convert(notion):
    with pytest.raises(ValueError, match=rf"{notion} does not convert to \(epsilon, delta\)-DP"):
        of(notion, 1.0).epsilon(1e-5)


def test_no_guarantee_is_an_infinite_epsilon_with_a_reason():
    nothing = guarantees.no_guarantee("training rows", "mu = inf adds no noise")
    assert nothing.notion == "none"
    assert nothing.relation is None
    assert nothing.epsilon(1e-5) == nothing.level == math.inf
    assert str(nothing) == "no privacy guarantee for training rows: mu = inf adds no noise"
    assert nothing.assuming("key secret") is nothing


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
@pytest.mark.parametrize("made", [GDP, of("dp", 1.0), of("metric_dp", 1.0), guarantees.no_guarantee("rows", "none")])
def test_delta_must_be_a_probability(made, delta):
    with pytest.raises(ValueError, match="delta must"):
        made.epsilon(delta)


def test_more_delta_never_costs_more_epsilon():
    for made in (GDP, of("dp", 1.0, delta=1e-6), of("gdp", 1.0, delta=1e-6)):
        epsilons = [made.epsilon(delta) for delta in (1e-9, 1e-6, 2e-6, 1e-3, 0.5)]
        assert epsilons == sorted(epsilons, reverse=True)


def test_assumptions_join_once_and_in_order():
    first = GDP.assuming(assumptions.IDEAL_NOISE, assumptions.KEY_SECRET)
    assert first.assumptions == (assumptions.IDEAL_NOISE, assumptions.KEY_SECRET)
    again = first.assuming(assumptions.KEY_SECRET, "separable losses", "separable losses")
    assert again.assumptions == (assumptions.IDEAL_NOISE, assumptions.KEY_SECRET, "separable losses")
    assert GDP.assumptions == ()
    assert dataclasses.replace(again, assumptions=()) == GDP
    assert again.epsilon(1e-5) == GDP.epsilon(1e-5)


def test_the_sentence_says_every_number_and_condition():
    assert str(GDP).splitlines() == [
        "epsilon = 7.052 at delta = 1e-05",
        "protects: validation users (replace_one)",
        "in full: gdp 1.5",
    ]
    conditional = of("gdp", 2.0, delta=1e-9, assumptions=(assumptions.IDEAL_NOISE, "the tide is out"))
    assert conditional.claim == "gdp 2 at delta=1e-09 (replace_one) for rows"
    first, *lines = str(conditional).splitlines()
    assert first.endswith(" at delta = 1e-05")  # at its own delta no Gaussian noise has an epsilon
    assert lines == [
        "protects: rows (replace_one)",
        "in full: gdp 2 at delta=1e-09",
        "assuming that",
        f"- {assumptions.IDEAL_NOISE} [docs/assumptions.md#ideal-noise]",
        "- the tide is out",
    ]


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
@pytest.mark.parametrize("made", [GDP, of("dp", 0.123456), of("dp", 1.0, delta=1e-12), of("gdp", 0.01)])
def test_the_summary_never_shows_less_than_the_epsilon(made, delta):
    shown = float(made.summary(delta).splitlines()[0].split()[2])
    epsilon = made.level if made.notion == "dp" and not made.delta else made.epsilon(delta)
    assert epsilon <= shown <= epsilon * 1.001 + 1e-300


def test_a_notion_without_an_epsilon_shows_its_claim():
    metric = guarantees.guarantee("metric_dp", 2.0, "unit_distance", "locations", unit=50.0)
    assert str(metric) == metric.claim
    assert str(guarantees.no_guarantee("rows", "mu = inf")) == "no privacy guarantee for rows: mu = inf"


@pytest.mark.parametrize(
    "made",
    [
        GDP.assuming("key secret"),
        of("gdp", 0.5, parts=[("one", 0.3), ("two", 0.4)]),
        of("dp", 0.5, delta=1e-6),
        COMPOSED,
        COMPOSED.to_dp(1e-5),
        CHOICE.to_dp(0.0),
        guarantees.guarantee("metric_dp", 2.0, "unit_distance", "locations", unit=50.0),
        guarantees.no_guarantee("rows", "mu = inf"),
    ],
)
def test_json_brings_every_field_back(made):
    fields = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert set(fields) == {field.name for field in dataclasses.fields(Guarantee)}
    fields["level"] = float(fields["level"])
    fields["assumptions"] = tuple(fields["assumptions"])
    fields |= {name: tuple(map(tuple, fields[name])) for name in ("parts", "stages")}
    fields["also"] = fields["also"] and tuple(fields["also"])
    assert Guarantee(**fields) == made
    assert guarantees.guarantee_from_dict(fields) == made.assuming(assumptions.UNCHECKED)  # a file can say anything


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"level": 0.0}, ValueError),
        ({"level": "inf"}, TypeError),
        ({"assumptions": "key secret"}, TypeError),
        ({"assumptions": ["key secret\nnothing else"]}, ValueError),
        ({"assumptions": [""]}, ValueError),
        ({"protects": "rows\nand nobody else"}, ValueError),
        ({"relation": "unit_distance"}, ValueError),
        ({"unit": 1.0}, ValueError),
        ({"parts": 1.0}, TypeError),
        ({"parts": [1.0]}, TypeError),
        ({"parts": [("one", 0.6, 0.8)]}, TypeError),
        ({"also": 1.0}, TypeError),
        ({"also": [["dp"], 1.0]}, ValueError),
        ({"stages": 1.0}, TypeError),
        ({"stages": [["one", 0.5]]}, TypeError),
        ({"stages": [["one", "pure", 0.5]]}, ValueError),
        ({"stages": [["one", "gaussian", 1.1]]}, ValueError),  # more than the level
        ({"stages": [["one", "gaussian", 1e-6]]}, ValueError),  # mechanisms that are missing
        ({"stages": [["one", "gaussian", 1.0]], "relation": "unit_distance", "unit": 1.0}, ValueError),
        ({"stages": [["one\ntwo", "gaussian", 0.5]]}, ValueError),
        ({"stages": [["one", "bounded_range", 1.0]], "also": ["dp", 0.9]}, ValueError),
    ],
)
def test_a_statement_from_a_file_is_checked_like_any_other(changes, error):
    with pytest.raises(error):
        guarantees.guarantee_from_dict(of("gdp", 1.0).to_dict() | changes)


def test_statements_for_other_units_of_distance_are_not_equal():
    near, far = (guarantees.guarantee("gdp", 1.0, "unit_distance", "rows", unit=unit) for unit in (1e-3, 1.0))
    assert near != far
    assert near.claim == "gdp 1 (unit_distance 0.001) for rows"
    assert str(near).splitlines()[1:] == ["protects: rows (unit_distance 0.001)", "in full: gdp 1"]


def test_a_statement_can_not_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GDP.level = 0.1
    hash(GDP)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"notion": "ldp"}, ValueError, "notion must be one of 'gdp', .* got 'ldp'"),
        ({"notion": "none"}, ValueError, "notion must be one of .* got 'none'"),
        ({"relation": "neighbours"}, ValueError, "relation must be one of 'replace_one', .* got 'neighbours'"),
        ({"relation": None}, ValueError, "relation must be one of .* got None"),
        ({"level": 0.0}, ValueError, "level must be positive, got 0.0"),
        ({"level": -1.0}, ValueError, "level must be positive, got -1.0"),
        ({"level": math.inf}, ValueError, "level must be finite, got inf"),
        ({"level": math.nan}, ValueError, "level must not be NaN"),
        ({"level": "1"}, TypeError, "level must be one real number, got '1'"),
        ({"delta": 1.0}, ValueError, r"delta must lie in \[0, 1\), got 1.0"),
        ({"delta": -1e-9}, ValueError, r"delta must lie in \[0, 1\), got -1e-09"),
        ({"delta": math.nan}, ValueError, "delta must not be NaN"),
    ],
)
def test_a_wrong_statement_is_refused_by_name(changes, error, message):
    right = {"notion": "gdp", "level": 1.0, "relation": "replace_one", "protects": "rows", "delta": 0.0}
    with pytest.raises(error, match=message):
        guarantees.guarantee(**(right | changes))


@pytest.mark.parametrize("notion", guarantees.NOTIONS[:-1])
@pytest.mark.parametrize("relation", guarantees.RELATIONS)
def test_every_notion_and_relation_can_be_stated(notion, relation):
    more = {"unit": 2} if relation == "unit_distance" else {}
    more |= {"largest": 2.0} if notion == "ex_post_dp" else {}
    made = guarantees.guarantee(notion, 1, relation, "rows", assumptions=["key secret"], **more)
    assert (made.notion, made.relation, made.level, made.assumptions) == (notion, relation, 1.0, ("key secret",))


def test_a_lower_bound_stands_beside_the_epsilon_of_a_selection():
    plain = guarantees.guarantee("dp", 3.20991, "replace_one", "rows", delta=1e-6)
    stated = dataclasses.replace(plain, attained=2.97519)
    line = (
        "proved epsilon at delta = 1e-06: 3.210. Some selections of runs with this cost have an epsilon of at least "
        "2.975: no proof that uses only this cost can go below"
    )
    assert line in stated.summary(1e-6).splitlines()
    fields = json.loads(json.dumps(stated.to_dict()))
    assert guarantees.guarantee_from_dict(fields).attained == 2.97519
    for wrong in ({"attained": 3.3}, {"attained": -0.1}, {"attained": math.nan}, {"notion": "gdp"}):
        with pytest.raises(ValueError, match="attained"):
            guarantees.guarantee_from_dict(fields | wrong)


def test_an_ex_post_guarantee_is_of_its_release_and_reserves_the_largest():
    paid = guarantees.guarantee("ex_post_dp", 0.5, "replace_one", "rows", delta=1e-6, largest=4.0)
    assert paid.epsilon(1e-6) == 0.5
    assert paid.epsilon(1e-7) == math.inf
    assert paid.reservation == guarantees.guarantee("dp", 4.0, "replace_one", "rows", delta=1e-6)
    assert paid.reservation.reservation == paid.reservation
    assert paid.to_dp(1e-6) == paid
    assert "Before the release was known, a cost of up to 4.000 was possible" in str(paid)
    assert "Keep this guarantee with the release" in str(paid)
    assert guarantees.guarantee_from_dict(json.loads(json.dumps(paid.to_dict()))).largest == 4.0
    varied = dataclasses.replace(paid, total_variation=1e-9)
    assert varied.epsilon(1e-6 + 54e-9) == math.inf  # (1 + e^4) 1e-9 is 55.6e-9: at the largest, not at the level
    assert varied.epsilon(1e-6 + 56e-9) == 0.5
    for wrong in ({"notion": "dp"}, {"largest": 0.4}, {"largest": None}, {"largest": math.inf}, {"largest": math.nan}):
        given = {"notion": "ex_post_dp", "largest": 4.0} | wrong
        with pytest.raises(ValueError, match="largest"):
            guarantees.guarantee(level=0.5, relation="replace_one", protects="rows", **given)


def test_stages_give_a_smaller_epsilon_than_their_level_and_never_less_than_an_attacker_shows():
    for stages in ([0.25] * 5, [0.18, 0.211], [0.6]):
        fields = [("a choice", "bounded_range", eta) for eta in stages] + [("a search", "gaussian", 0.1)]
        stated = composed_guarantee.guarantee_from_stages(fields, "rows")
        plain = of("gdp", stated.level)
        for delta in (1e-6, 1e-3):
            shown = conformance.attained_epsilon(0.1, stages, delta)
            assert shown <= stated.epsilon(delta) <= 1.12 * shown
            assert stated.epsilon(delta) < 0.97 * plain.epsilon(delta)


def test_as_dp_the_whole_guarantee_holds_at_its_delta_with_the_variation_of_its_noise():
    for made in (GDP, COMPOSED, replace(COMPOSED, total_variation=1e-9), replace(GDP, total_variation=1e-9)):
        stated = made.to_dp(1e-5)
        assert (stated.notion, stated.also) == ("dp", ("gdp", made.level))
        assert stated.level == pytest.approx(made.epsilon(1e-5), rel=1e-11)
        assert stated.level >= made.epsilon(1e-5)
        assert stated.epsilon(1e-5) <= stated.level
        assert stated.delta + (1 + math.exp(stated.level)) * stated.total_variation <= 1e-5
        assert stated.to_dp(1e-5) is stated
        assert stated.epsilon(1e-3) <= 1.001 * of("gdp", made.level).epsilon(1e-3)
        assert all(cost <= stated.level for _, cost in stated.parts)
    assert CHOICE.to_dp(0.0).claim == "dp 0.5 and gdp 0.31298 (replace_one) for rows"
    assert CHOICE.to_dp(1e-5).level < 0.5
    with pytest.raises(ValueError, match="delta must"):
        GDP.to_dp(0.0)
    with pytest.raises(ValueError, match=r"delta must exceed the total variation of the noise, 0\.001"):
        replace(GDP, total_variation=1e-3).to_dp(1e-5)
    with pytest.raises(ValueError, match="a guarantee for to_dp must be GDP"):
        guarantees.guarantee("metric_dp", 2.0, "unit_distance", "locations", unit=50.0).to_dp(1e-5)


@given(st.floats(0, 1.7e308), st.integers(1, 9))
def test_levels_are_printed_up_and_what_is_left_down(level, digits):
    for write in (rounding.round_up, rounding.shorten_up):
        assert level <= float(write(level, digits))
    for write in (rounding.round_down, rounding.shorten_down):
        assert float(write(level, digits)) <= level


@given(st.floats(1e-3, 50), st.floats(1e-12, 0.1), st.floats(1e-12, 1e-3), st.floats(1e-3, 50))
def test_no_number_of_a_claim_is_below_its_level(level, delta, variation, more):
    spent = of("ex_post_dp", level, delta=delta, total_variation=variation, largest=level + more)
    found = re.fullmatch(
        r"ex_post_dp (\S+) at delta=(\S+), at most (\S+) before the release was known, total variation at most (\S+) "
        r"\(replace_one\) for rows",
        spent.claim,
    )
    assert found is not None
    assert all(float(text) >= number for text, number in zip(found.groups(), spent_numbers(spent), strict=True))
    (moved,) = re.findall(
        r"unit_distance (\S+)\)", guarantees.guarantee("metric_dp", 1.0, "unit_distance", "rows", unit=level).claim
    )
    assert float(moved) <= level
    two = composed_guarantee.guarantee_from_stages([("one", "gaussian", level), ("other", "gaussian", more)], "rows")
    parts = re.search(r"gdp (\S+), of which (\S+) for one and (\S+) for other", two.claim)
    assert parts is not None
    assert [float(parts[i]) >= number for i, number in enumerate((two.level, level, more), start=1)] == [True] * 3


def spent_numbers(spent):
    return spent.level, spent.delta, spent.largest, spent.total_variation


@given(st.floats(1e-3, 50), st.floats(1e-9, 0.1))
def test_no_number_of_a_total_is_below_its_level(level, delta):
    stages = [accounting.gaussian_stage(level, "one"), accounting.approximate_stage(level, delta / 2, "two")]
    total = accounting.total(stages, delta)
    epsilon, stated = re.match(r"epsilon (\S+) at delta (\S+) ", str(total)).groups()
    assert (float(epsilon) >= total.epsilon, float(stated) >= delta) == (True, True)
    assert float(re.search(r"one: (\S+)-GDP", str(total))[1]) >= level
    pair = re.search(r"two: \((\S+), (\S+)\)-DP", str(total)).groups()
    assert (float(pair[0]) >= level, float(pair[1]) >= delta / 2) == (True, True)


@given(st.integers(1, 9999), st.integers(-12, 3))
def test_a_level_of_few_digits_is_printed_as_typed(digits, exponent):
    typed = float(f"{digits}e{exponent}")
    for write in (rounding.round_up, rounding.round_down):
        assert float(write(typed)) == typed
    assert rounding.shorten_up(typed) == rounding.shorten_down(typed) == f"{typed:g}"


@pytest.mark.parametrize("releases", [1, 2, 9])
def test_float_noise_pays_for_every_sum_of_a_step_as_exact_noise_does(releases):
    """Before: a step of several sums of vectors had the noise of one, under the level of all."""
    noise = parts.sum_noise(1.0, "float", users=100, steps=4, releases=releases, dimension=40_000, dtype=float)
    drawn = parts.perturb_vectors(jax.random.key(0), noise, jnp.zeros(40_000), jnp.ones(()))
    assert parts.gdp_guarantee(noise, "the users").level == 1.0
    assert float(jnp.std(drawn)) == pytest.approx(2 * np.sqrt(4 * releases) / 100, rel=0.02)


def test_a_guarantee_of_no_mechanism_is_refused():
    """Before: the root of 0 from above was sought one float at a time."""
    with pytest.raises(ValueError, match="stages must name one mechanism or more"):
        parts.guarantee_from_stages([], "the users")
    assert rounded_gaussian.root_above(Fraction(0)) == 0.0
