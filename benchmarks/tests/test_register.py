"""The register of the papers' claims: all are in it, its verdicts follow from numbers, and what it points to exists."""

import json
import re
from pathlib import Path

import evidence
import numpy as np
import pytest

from benchmarks import report, reproductions
from benchmarks.papers import measures, rules
from benchmarks.papers.claims import REGISTER, Claim, terms
from benchmarks.tables import verdicts

CLAIMS = [(paper, claim) for paper, of in REGISTER.items() for claim in of]
# What each paper numbers, but for definitions and assumptions.
NUMBERED = {
    "sopa": "theorem 2.4, corollary 2.5, remark 2.6, algorithm 1, lemma 3.1, theorem 3.2, theorem 3.3, corollary 3.4, "
    "remark 3.5, algorithm 2, corollary 3.6, remark 4.1, lemma A.1, lemma A.2, lemma A.3, lemma A.4, lemma B.1, "
    "theorem B.2, figure 1, figure 2, figure 3, figure 4, figure 5",
    "kusner": "theorem 1, theorem 2, theorem 3, theorem 4, theorem 5, theorem 6, theorem 7, theorem 8, corollary 1, "
    "corollary 2, corollary 3, corollary 4, algorithm 1, algorithm 2, algorithm 3, figure 1",
    "kharkovskii": "lemma 1, theorem 1, theorem 2, theorem 3, remark 1, remark 2, remark 3, remark 4, remark 6, "
    "algorithm 1, algorithm 2, figure 1, figure 2a, figure 2b, figure 2c, tables 1 to 3, tables 4 to 6, tables 7 to 9",
    "avent": "remark 1, remark 2, algorithm 1, algorithm 2, algorithm 3, algorithm 4, algorithm 5, table 2, "
    "figure 1, figure 2, figure 3, figure 4, figure 5, figure 6, figure 7, figure 8, tables 1, 3 and 4",
}


@pytest.mark.parametrize("paper", NUMBERED)
def test_all_that_a_paper_numbers_is_in_the_register(paper):
    items = [claim.item for claim in REGISTER[paper]]
    numbered = re.split(r", (?=[a-z])", NUMBERED[paper])
    assert [one for one in numbered if not any(item == one or item.startswith(f"{one},") for item in items)] == []


@pytest.mark.parametrize(("paper", "claim"), CLAIMS, ids=lambda one: one if isinstance(one, str) else one.key)
def test_a_claim_is_decided_by_a_run_or_by_a_reason(paper, claim):
    if claim.rule is None:
        assert claim.verdict in set(rules.VERDICTS) - {rules.HOLDS, rules.SAME, rules.UNDECIDED}
        assert claim.why or claim.tests
        assert claim.tests or claim.verdict in (rules.UNTRIED, rules.UNMEASURED)
        assert claim.why or claim.verdict != rules.CORRECTED
    else:
        assert claim.unit
        assert "lambda" not in claim.rule.__name__  # a result could not name such a rule
        items = {f"{paper}_{item}" for item in reproductions.items(paper)}
        assert set(claim.results) <= items
    for test in claim.tests:
        file, _, name = test.partition("::")
        assert evidence.is_defined(test) if name else Path(report.ROOT, file).exists()


def test_no_row_is_left_without_a_measurement():
    sets = verdicts.stored_sets()
    assert [claim.key for _, claim in CLAIMS if verdicts.verdict_of(claim, sets).measured == verdicts.UNREAD] == []


def test_no_two_claims_of_a_result_share_a_name():
    for paper, of in REGISTER.items():
        assert len({claim.key for claim in of}) == len(of), paper


DECIDED = [
    ((-2.0, -1.9, -2.1), rules.HOLDS),
    ((1.9, 2.0, 2.1), rules.REVERSED),
    ((-1.0, 1.0, 0.5), rules.UNDECIDED),
    ((-0.01, 0.01, 0.0), rules.SAME),
    ((-0.02, -0.021, -0.022), rules.SAME),  # below 0 for sure, and too little to matter
]


@pytest.mark.parametrize(("values", "verdict"), DECIDED)
def test_a_verdict_follows_from_an_interval_and_a_margin(values, verdict):
    rule = rules.below(rules.at("first"), rules.at("second"), margin=0.1)
    assert rule({"first": 5.0 + np.array(values), "second": [5.0] * 3})[1] == verdict
    limited = rules.at_most(rules.at("of"), 7.0, 0.1)({"of": 7.0 + np.array(values)})[1]
    assert limited == (rules.DIFFERS if verdict == rules.REVERSED else verdict)
    assert rules.above(rules.at("of"), 7.0, 0.1)({"of": 7.0 - np.array(values)})[1] == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((0.01, -0.01, 0.0), rules.HOLDS), ((0.5, 0.6, 0.55), rules.DIFFERS), ((0.05, 0.2, 0.1), rules.UNDECIDED)],
)
def test_equality_needs_an_interval_within_the_margin(values, verdict):
    assert rules.equal(rules.at("of"), 0.1)({"of": values})[1] == verdict


def test_the_weakest_of_several_sentences_decides():
    def said(verdict):
        return lambda found: ("it", verdict)

    several = [
        ((rules.HOLDS, rules.HOLDS), rules.HOLDS),
        ((rules.HOLDS, rules.SAME), rules.SAME),
        ((rules.SAME, rules.UNDECIDED), rules.UNDECIDED),
        ((rules.HOLDS, rules.REVERSED, rules.UNDECIDED), rules.REVERSED),
    ]
    for verdicts_of, decided in several:
        assert rules.every(*map(said, verdicts_of))({})[1] == decided


def test_an_interval_of_few_values_is_students():
    found = rules.interval([0.0, 1.0])
    assert (found.mean, found.high) == pytest.approx((0.5, 0.5 + 12.7062 * 0.5), rel=1e-4)
    assert rules.interval([2.0, 2.0])[:3] == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("free", "verdict"), [([4.1, 4.2], rules.UNMEASURED), ([0.9, 0.8], rules.HOLDS)])
def test_nothing_is_measured_where_no_search_solves_the_problem(free, verdict):
    rule = measures.unless_hard(rules.negative(rules.at("of"), 0.1), rules.at("free"), largest=0.5, hard=2.0)
    assert rule({"of": [-1.0, -1.1], "free": free})[1] == verdict


def test_an_order_of_searches_means_nothing_where_noise_beats_no_noise():
    private = {"epsilon=3": [3.0, 3.1, 3.2], "epsilon=1": [3.5, 3.6, 3.7]}
    rule = measures.falls_with_epsilon("a", 0.01)
    assert rule({"final": {"a": {measures.FREE: [4.0, 4.1, 4.3], **private}}})[1] == rules.UNMEASURED
    assert rule({"final": {"a": {measures.FREE: [2.9, 3.0, 3.2], **private}}})[1] == rules.HOLDS


@pytest.mark.parametrize(
    ("shaken", "gaps", "verdict"),
    [
        (0.001, (0.01, 0.05), rules.HOLDS),
        (0.001, (0.01, 0.15), rules.DIFFERS),
        (0.1, (0.01, 0.05), rules.UNDECIDED),
        (0.02, (0.01, 0.05), rules.UNDECIDED),  # near, and not surely within the margin
    ],
)
def test_printed_gaps_are_compared_run_by_run(shaken, gaps, verdict):
    free, shaken = np.array([0.1, 0.5, 0.9]), shaken * np.array([0.0, 1.0, -1.0])
    panel = {measures.FREE: free, "epsilon=3": free + 0.01 + shaken, "epsilon=1": free + 0.05}
    assert measures.printed_gaps("a", gaps, 0.01)({"final": {"a": panel}})[1] == verdict


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [((0.5, (0.49, 0.51)), rules.HOLDS), ((0.5, (0.3, 0.7)), rules.UNDECIDED), ((0.9, (0.7, 1.1)), rules.DIFFERS)],
)
def test_a_printed_difference_has_an_interval_of_its_own(printed, verdict):
    table2 = {"tasks": {"it": {"random": [1.0, 1.001, 0.999], "printed": printed}}}
    luck = {"hypervolumes": {"it": [1.5, 1.501, 1.499]}}
    assert measures.printed_difference("it", 0.05)(table2, luck)[1] == verdict


def test_one_search_is_less_certain_than_several():
    """The paper's test takes a search to be fixed; here it has luck, and the same difference is not significant."""
    random = [1.0, 1.01, 0.99, 1.02, 0.98]
    table2 = {"tasks": {"it": {"random": random, "difference": 0.1, "p": 1e-4}}}
    luck = {"hypervolumes": {"it": [1.1, 1.3, 0.9, 1.2, 1.0]}}
    assert measures.significant_for_one_search("it", 1e-3)(table2)[1] == rules.HOLDS
    assert measures.significant_for_searches("it", 1e-3)(table2, luck)[1] == rules.UNDECIDED
    table2["tasks"]["it"] |= {"difference": -0.1, "p": 0.3}
    assert measures.significant_for_one_search("it", 1e-3)(table2)[1] == rules.UNDECIDED


@pytest.mark.parametrize(("grid", "verdict"), [(8.5, rules.HOLDS), (8.61, rules.UNDECIDED), (8.7, rules.REVERSED)])
def test_a_grid_that_ran_once_has_luck(grid, verdict):
    searches = {"LogReg+SGD, ours": [8.59, 8.60, 8.61]}
    found = {"hypervolumes": {"LogReg+SGD": {"DPareto": 8.6, "grid of 9": grid}}}
    assert measures.above_grids("LogReg+SGD", 0.005)(found, {"hypervolumes": searches})[1] == verdict


def test_tables_that_share_their_draws_are_one_piece_of_evidence():
    """By run, over tables: the number of values stays the number of runs."""
    tables = [{"above": {"smaller": [1.0, 2.0, 3.0]}}, {"above": {"smaller": [3.0, 2.0, 1.0]}}, {"above": None}]
    np.testing.assert_array_equal(measures.over_tables("smaller", "above")(*tables), [-2.0, -2.0, -2.0])


def test_sets_of_seeds_that_contradict_each_other_decide_nothing():
    def result(value, **fields):
        return {"of": [value, value + 0.01], "commit": "0123456789", **fields}

    claim = Claim("item", "says", "seed", 0.1, ("it",), rules.negative(rules.at("of"), 0.1))

    def of(*values):
        return verdicts.verdict_of(claim, [lambda name, value=value: result(value) for value in values])

    assert of(-1.0, -1.0, -1.0)[1:4] == (rules.HOLDS, 3, 3)
    assert of(-1.0, -1.0, 1.0)[1:4] == (rules.UNDECIDED, 0, 3)
    assert of(-1.0, -1.0, 0.0)[1:4] == (rules.HOLDS, 2, 3)
    assert of(0.0, 0.0, 1.0)[1:4] == (rules.UNDECIDED, 0, 3)  # no difference, and the other way round
    assert of(-1.0, 0.0)[1:4] == (rules.UNDECIDED, 0, 2)
    assert verdicts.verdict_of(claim, [lambda name: None]).measured == verdicts.UNREAD


@pytest.mark.parametrize("changed", [{"margin": 0.2}, {"unit": "run"}, {"rule": "another"}])
def test_sets_under_other_terms_count_only_if_no_set_has_the_present_terms(changed):
    """A claim that was registered or changed after a run is decided by later runs, if there are any."""
    claim = Claim("item", "says", "seed", 0.1, ("it",), rules.negative(rules.at("of"), 0.1))

    def result(value, commit, changed):
        return {"of": [value, value + 0.01], "commit": commit, "claims": {claim.key: claim.terms | changed}}

    def old(name):
        return result(1.0, "before the register", changed)

    def new(name):
        return result(-1.0, "after the register", {})

    assert verdicts.verdict_of(claim, [old])[1:] == (rules.REVERSED, 1, 1, "", 0)
    assert verdicts.verdict_of(claim, [old, new, new])[1:] == (rules.HOLDS, 2, 2, "after th", 1)
    assert verdicts.verdict_of(claim, [new, old])[1:] == (rules.HOLDS, 1, 1, "after th", 1)
    both = claim._replace(results=("first", "second"), rule=lambda first, second: claim.rule(second))
    for change, commit in (({}, "11111111, 22222222"), (changed, "")):
        first = {"commit": "1111111111", "claims": {both.key: both.terms}}
        second = {"of": [1.0, 1.01], "commit": "2222222222", "claims": {both.key: both.terms | change}}
        assert verdicts.verdict_of(both, [{"first": first, "second": second}.get]).commit == commit


def test_one_run_without_an_interval_does_not_count_as_agreement():
    claim = Claim("item", "says", "search", 0.0, ("it",), lambda found: ("0.5", rules.ONCE))
    found = {"sopa": [(claim, verdicts.verdict_of(claim, [lambda name: {"commit": "a"}] * 2))]}
    assert "\n\n0 claims were measured on disjoint sets" in verdicts.counts(found)


def test_stored_sets_of_seeds_are_disjoint_and_whole():
    for _, claim in CLAIMS:
        others = [{other.removeprefix(f"{name}_") for other in report.other_seeds(name)} for name in claim.results]
        assert all(seeds == others[0] for seeds in others), claim.item
        for name in claim.results:
            drawn = [seeds_of(report.find_result(one)["seeds"]) for one in (name, *report.other_seeds(name))]
            assert sum(map(len, drawn)) == len(set().union(*drawn)), name


def seeds_of(stored, kind=""):
    """All that a result drew from: a range, a list, or several of them by kind."""
    if isinstance(stored, dict):
        return set().union(*(seeds_of(of, kind) for kind, of in stored.items()))
    each = [stored] if isinstance(stored, int) else range(*stored) if len(stored) == 2 else stored
    return {(kind, seed) for seed in each}


def test_a_result_carries_the_terms_of_its_claims():
    of = terms("sopa_fig4")
    assert len(of) == 3
    assert {one["margin"] for one in of.values()} == {0.02}
    assert "below(at('final', '1', '265'), at('final', 'GP-UCB', '265'), 0.02)" in {one["rule"] for one in of.values()}
    assert terms("sopa_clip_norms") == {}


def test_a_set_of_seeds_has_the_same_name_for_all_results_of_a_claim(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "STORED", tmp_path)
    for name in ("avent_table2", "avent_luck", "avent_luck_10-20", "avent_luck_9-10", "avent_table2_10-20"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"is": name, "modified": False}))
    sets = [[one and one["is"] for one in map(read, ("avent_table2", "avent_luck"))] for read in verdicts.stored_sets()]
    assert sets == [
        ["avent_table2", "avent_luck"],
        [None, "avent_luck_9-10"],
        ["avent_table2_10-20", "avent_luck_10-20"],
    ]


def test_other_seeds_are_found_by_their_names(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "STORED", tmp_path)
    for name in ("sopa_fig1", "sopa_fig1_200-300", "sopa_fig1_50-100", "sopa_fig12_0-5", "sopa_fig1_quick"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert report.other_seeds("sopa_fig1") == ["sopa_fig1_50-100", "sopa_fig1_200-300"]
