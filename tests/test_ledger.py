"""The ledger: exact sums, no byte changed unseen, each run paid for once, and nothing lost to kill -9 or to a race."""

import fcntl
import functools
import hashlib
import json
import math
import operator
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from fractions import Fraction
from itertools import chain, cycle, permutations, repeat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdpbo.ledger import BudgetExceeded, DamagedLedgerError, LedgerError, MovedLedgerError, ledger_file

MODULE = Path(ledger_file.__file__)
TINY = 2.0**-1074
WORDS = {"relation": "replace_one", "protects": "users"}


def spend(level="1/10", notion="dp", delta=0, total_variation=0, **words):
    return ledger_file.Spend((ledger_file.Event(notion, level, delta, total_variation),), **(WORDS | words))


def append(path, content):
    """A line of whatever content, its hash right."""
    with ledger_file._open_ledger(path, writing=True) as opened:
        return ledger_file._append(opened, content).chain.head


def marks(folder):
    return sorted(folder.glob("ledger-*.head"))


def begun(folder, level=1, notion="dp", **options):
    path = folder / "ledger.jsonl"
    for old in (path, *marks(folder)):
        old.unlink(missing_ok=True)
    ledger_file.create(path, notion=notion, level=level, **(WORDS | options))
    return path


def small(folder):
    """Two spends, a release."""
    path = begun(folder, by="someone")
    ledger_file.charge(path, "one", "a mean", spend(), fingerprint="f")
    ledger_file.store_release(path, "one", {"mean": 0.25})
    ledger_file.charge(path, "two", "another", spend("0.2"))
    return path


def sum_of(amounts):
    """In whole numbers, as (numerator, denominator)."""
    ratios = [Fraction(amount).as_integer_ratio() for amount in amounts]
    common = math.lcm(*(bottom for _, bottom in ratios))
    return sum(top * (common // bottom) for top, bottom in ratios), common


# Exact arithmetic

AMOUNTS = st.one_of(
    st.fractions(min_value=Fraction(1, 10**9), max_value=2, max_denominator=10**9),
    st.floats(min_value=TINY, max_value=2.0),
    st.integers(1, 10**6).map(lambda number: f"0.{number:07d}"),
    st.just("1/10"),
    st.just(TINY),
)
SLACKS = st.just(0) | st.floats(min_value=0, max_value=0.1) | st.just("0.001")


@settings(max_examples=40)
@given(st.lists(st.tuples(AMOUNTS, SLACKS, SLACKS), max_size=5), AMOUNTS, SLACKS, SLACKS)
def test_a_spend_is_taken_exactly_if_it_fits(tmp_path_factory, asked, level, delta, total_variation):
    path = begun(tmp_path_factory.mktemp("ledger"), level, delta=delta, total_variation=total_variation)
    budget = (level, delta, total_variation)
    taken = []
    for number, amounts in enumerate(asked):
        columns = zip(*taken, amounts, strict=True)
        fits = all(Fraction(*sum_of(column)) <= Fraction(has) for column, has in zip(columns, budget, strict=True))
        one = spend(amounts[0], delta=amounts[1], total_variation=amounts[2])
        if fits:
            ledger_file.charge(path, str(number), "w", one)
            taken.append(amounts)
        else:
            before = ledger_file.account(path)
            with pytest.raises(BudgetExceeded):
                ledger_file.charge(path, str(number), "w", one)
            refused, after = path.read_bytes(), ledger_file.account(path)
            assert (after.spent, after.left, after.spends) == (before.spent, before.left, before.spends)
            assert len(after.events) == len(before.events) + 1
            with pytest.raises(BudgetExceeded):
                ledger_file.charge(path, str(number), "w", one)
            assert path.read_bytes() == refused  # a retry writes no second line
    account = ledger_file.account(path)
    assert [tuple(entry.spend.events[0][1:4]) for entry in account.spends] == [
        tuple(map(Fraction, amounts)) for amounts in taken
    ]
    for used, left, has, column in zip(
        account.spent, account.left, budget, zip(*taken, (0, 0, 0), strict=True), strict=True
    ):
        assert used == Fraction(*sum_of(column))
        assert used + left == Fraction(has)
        assert left >= 0


def test_a_refused_charge_and_a_clock_set_back_are_events(tmp_path, monkeypatch):
    path = begun(tmp_path, 1)
    for when, level in (("2026-03-01", "1/2"), ("2026-02-01", "1/4"), ("2026-02-02", "9")):
        monkeypatch.setattr(ledger_file, "_now", lambda when=when: f"{when}T00:00:00.000+00:00")
        with pytest.raises(BudgetExceeded) if level == "9" else nullcontext():
            ledger_file.charge(path, when, "w", spend(level))
    (_, back), (_, refused) = ledger_file.account(path).events[-2:]
    assert back.startswith("the clock was set back before line ")
    assert refused.startswith("the budget refused ")
    assert "run '2026-02-02', w" in refused
    assert refused in ledger_file.describe(path)
    assert ledger_file.account(path).spent.cost == Fraction(3, 4)


@settings(max_examples=25)
@given(st.lists(AMOUNTS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_budget_of_their_sum_is_used_up_in_any_order(tmp_path_factory, amounts, order):
    path = begun(tmp_path_factory.mktemp("ledger"), Fraction(*sum_of(amounts)), "zcdp")
    order.shuffle(amounts)
    for number, amount in enumerate(amounts):
        ledger_file.charge(path, str(number), "w", spend(amount, "zcdp"))
    assert ledger_file.account(path).left.cost == 0
    with pytest.raises(BudgetExceeded, match=r"rho 4\.94066E-324 of 0 left"):
        ledger_file.charge(path, "more", "w", spend(TINY, "zcdp"))


@pytest.mark.parametrize("tenth", ["1/10", "0.1", "1e-1", Fraction(1, 10)])
def test_ten_tenths_fit_and_not_a_subnormal_more(tmp_path, tenth):
    path = begun(tmp_path)
    for number in range(10):
        ledger_file.charge(path, str(number), "w", spend(tenth))
    with pytest.raises(BudgetExceeded):
        ledger_file.charge(path, "more", "w", spend(2**-1074))
    assert functools.reduce(operator.add, [0.1] * 10) != 1  # what floats would have said


def test_a_float_counts_at_its_binary_value(tmp_path):
    path = begun(tmp_path)
    for number in range(9):
        ledger_file.charge(path, str(number), "w", spend(0.1))
    with pytest.raises(BudgetExceeded):  # 0.1 is a little over a tenth
        ledger_file.charge(path, "9", "w", spend(0.1))


def test_gdp_adds_up_in_squares(tmp_path):
    path = begun(tmp_path, 1, "gdp")
    ledger_file.charge(path, "a", "w", spend("3/5", "gdp"))
    ledger_file.charge(path, "b", "w", spend("0.8", "gdp"))
    assert ledger_file.account(path).left.cost == 0
    with pytest.raises(BudgetExceeded, match=r"mu\^2 .* of 0 left"):
        ledger_file.charge(path, "c", "w", spend(TINY, "gdp"))


@pytest.mark.parametrize("name", ["delta", "total_variation"])
def test_slack_has_a_budget_of_its_own(tmp_path, name):
    path = begun(tmp_path, 100, **{name: 2**-64})
    for number in range(2):
        ledger_file.charge(path, str(number), "w", spend(**{name: 2**-65}))
    with pytest.raises(BudgetExceeded, match=f"ledger.jsonl: run '3' would spend {name} "):
        ledger_file.charge(path, "3", "w", spend(**{name: TINY}))
    ledger_file.charge(path, "4", "w", spend())


def test_variation_has_a_budget_by_default_and_delta_none(tmp_path):
    path = begun(tmp_path)
    ledger_file.charge(path, "a", "w", spend(total_variation=2**-100))
    assert ledger_file.account(path).left == (Fraction(9, 10), 0, Fraction(2**36 - 1, 2**100))
    with pytest.raises(BudgetExceeded, match="delta"):
        ledger_file.charge(path, "b", "w", spend(delta=1e-300))


NO_NUMBERS = [0, -1, -TINY, "0", "-1/10", math.nan, math.inf, -math.inf, "nan", "inf", "1/0", "", "a tenth", 2**5000]


@pytest.mark.parametrize("level", NO_NUMBERS)
def test_what_is_no_amount_is_refused(tmp_path, level):
    path = begun(tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="level must be"):
        ledger_file.charge(path, "a", "w", spend(level))
    with pytest.raises(ValueError, match="level must be"):
        begun(tmp_path / "none", level)
    if level not in (0, "0"):
        with pytest.raises(ValueError, match="must"):
            ledger_file.charge(path, "a", "w", spend(delta=level))
        with pytest.raises(ValueError, match="must"):
            ledger_file.charge(path, "a", "w", spend(total_variation=level))
    assert path.read_bytes() == before


@pytest.mark.parametrize("level", [True, None, b"1", [1], Decimal(1), 1j])
def test_what_is_no_number_is_refused(tmp_path, level):
    with pytest.raises(TypeError, match="level must be a number"):
        ledger_file.charge(begun(tmp_path), "a", "w", spend(level))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"notion": "gdp"},
            "the ledger's notion is 'dp', the spend's is 'gdp': charge it to a ledger of notion 'gdp'",
        ),
        ({"notion": "prior_averaged_dp"}, "the ledger's notion is 'dp', the spend's is 'prior_averaged_dp'"),
        (
            {"relation": "unit_distance", "unit": 1.0},
            "the ledger's relation is 'replace_one', the spend's is 'unit_distance'",
        ),
        (
            {"protects": "rows"},
            "the ledger's protects is 'users', the spend's is 'rows'"
            ": charge it to a ledger created with protects='rows', or if the same users are meant, give Recording(..., "
            "protects='users')",
        ),
    ],
)
def test_a_spend_of_another_kind_is_refused(tmp_path, change, message):
    path = small(tmp_path)
    before = path.read_bytes()
    for run in "new", "one":
        with pytest.raises(LedgerError) as refusal:
            ledger_file.charge(path, run, "w", spend(**change))
        assert str(refusal.value) == f"{path}: {message}"
    assert path.read_bytes() == before


@pytest.mark.parametrize("run", ["", "two\nlines", "\x1b[2J", "x" * 201, "\ud800", 3])
def test_a_run_has_a_name_that_can_be_read(tmp_path, run):
    path = begun(tmp_path)
    with pytest.raises(ValueError, match="run must be 1 to 200 printable characters"):
        ledger_file.charge(path, run, "w", spend())
    with pytest.raises(ValueError, match="what must be"):
        ledger_file.charge(path, "a", run, spend())
    ledger_file.charge(path, "né à 3 h " * 20, "w", spend())


def test_a_budget_has_a_notion_that_adds_up(tmp_path):
    with pytest.raises(ValueError, match="notion must be one of 'gdp', 'zcdp', 'dp', 'metric_dp', got 'none'"):
        begun(tmp_path, notion="none")
    assert not list(tmp_path.iterdir())


# What adds up


def metric(level, unit, **words):
    event = ledger_file.Event("metric_dp", level)
    return ledger_file.Spend((event,), **(WORDS | {"relation": "unit_distance", "unit": unit} | words))


def test_budgets_for_different_units_of_distance_do_not_add_up(tmp_path):
    """Trap 44: one unit of input for scale 1 and one for scale 1e-3 were spent 2, where 1,001 was spent."""
    path = begun(tmp_path, 2, "metric_dp", relation="unit_distance", unit=1)
    ledger_file.charge(path, "near", "w", metric(1, 1.0))
    with pytest.raises(LedgerError, match=r"ledger\.jsonl: the ledger's unit is 1, the spend's is 0\.00100001$"):
        ledger_file.charge(path, "far", "w", metric(1, "0.001"))
    assert "metric_dp (unit_distance 1) for users" in ledger_file.describe(path)


@pytest.mark.parametrize(("relation", "unit"), [("unit_distance", None), ("replace_one", 1), ("unit_distance", 0)])
def test_a_unit_belongs_to_its_relation(tmp_path, relation, unit):
    with pytest.raises(ValueError, match="unit must be positive for 'unit_distance' and None elsewhere"):
        ledger_file.charge(begun(tmp_path), "a", "w", metric(1, unit, relation=relation))
    with pytest.raises(ValueError, match="unit must be"):
        begun(tmp_path / "none", relation=relation, unit=unit)


def test_a_total_rests_on_what_every_spend_rests_on(tmp_path):
    """Trap 44: an exact and a float run added up to a total that looked unconditional."""
    path = begun(tmp_path)
    ledger_file.charge(path, "exact", "w", spend(assumptions=("public configuration",)))
    ledger_file.charge(path, "float", "w", spend(assumptions=("ideal noise", "public configuration")))
    account = ledger_file.account(path)
    assert account.assumptions == ("public configuration", "ideal noise")
    assert [entry.spend.assumptions for entry in account.spends] == [account.assumptions[:1], account.assumptions[::-1]]
    assert "The sums hold if:\n- public configuration\n- ideal noise\n" in ledger_file.describe(path)
    with pytest.raises(LedgerError, match="run 'float' was charged with another spend"):
        ledger_file.charge(path, "float", "w", spend(assumptions=("public configuration",)))
    for wrong in "ideal noise", ["two\nlines"], [""], [1]:
        with pytest.raises((TypeError, ValueError), match="assumptions must be"):
            ledger_file.charge(path, "wrong", "w", spend(assumptions=wrong))


def test_a_spend_is_the_sum_of_its_events(tmp_path):
    path = begun(tmp_path, 1, "gdp", delta="1/10")
    two = tuple(ledger_file.Event("gdp", level, "1/100", 2**-100) for level in ("0.6", "0.8"))
    ledger_file.charge(path, "both", "w", ledger_file.Spend(two, **WORDS))
    account = ledger_file.account(path)
    assert (account.spent, account.left.cost) == ((1, Fraction(1, 50), Fraction(1, 2**99)), 0)
    assert account.spends[0].spend.events == ledger_file._exact(ledger_file.Spend(two, **WORDS)).events
    assert "mu 0.6 + mu 0.8" in ledger_file.describe(path)


@pytest.mark.parametrize(
    ("spent", "error", "message"),
    [
        (ledger_file.Spend((), **WORDS), TypeError, "spend must be a Spend of at least one Event"),
        (("gdp", 1), TypeError, "spend must be a Spend"),
        (ledger_file.Spend((("gdp", 1),), **WORDS), TypeError, "events must be of Event, got a tuple"),
        (ledger_file.Spend((ledger_file.Event("profile", 1),), **WORDS), LedgerError, "the spend's is 'profile'$"),
        (ledger_file.Spend((ledger_file.Event(["gdp"], 1),), **WORDS), ValueError, "type must be"),
        (ledger_file.Spend((ledger_file.Event("gdp", 0),), **WORDS), ValueError, "level must be positive, got 0"),
    ],
)
def test_what_is_no_event_is_refused(tmp_path, spent, error, message):
    with pytest.raises(error, match=message):
        ledger_file.charge(begun(tmp_path), "a", "w", spent)


# Once for each run


def test_a_run_is_charged_once(tmp_path):
    path = begun(tmp_path)
    first = ledger_file.charge(path, "a", "w", spend("1"), fingerprint="f")
    before = path.read_bytes()
    again = ledger_file.charge(path, "a", "in other words", spend(Fraction(1)), fingerprint="f")
    assert (first.charged_before, again) == (False, first._replace(charged_before=True))
    assert (first.number, first.hash, first.release) == (2, ledger_file.head(path), None)
    for change in {"fingerprint": "g"}, {"fingerprint": ""}:
        with pytest.raises(LedgerError, match="run 'a' was charged with another fingerprint"):
            ledger_file.charge(path, "a", "w", spend(1), **change)
    for other in spend("1/2"), spend(1, total_variation=TINY):
        with pytest.raises(LedgerError, match="run 'a' was charged with another spend"):
            ledger_file.charge(path, "a", "w", other, fingerprint="f")
    assert path.read_bytes() == before
    assert len(ledger_file.account(path).spends) == 1


PAYLOADS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)


@settings(max_examples=25)
@given(PAYLOADS, PAYLOADS)
def test_the_first_release_is_given_out_again_bit_for_bit(tmp_path_factory, first, second):
    path = begun(tmp_path_factory.mktemp("ledger"))
    ledger_file.charge(path, "a", "w", spend())
    stored = ledger_file.store_release(path, "a", first)
    before = path.read_bytes()
    again = ledger_file.store_release(path, "a", second)
    charged = ledger_file.charge(path, "a", "w", spend()).release
    assert json.dumps(stored) == json.dumps(again) == json.dumps(charged) == json.dumps(first)
    assert path.read_bytes() == before


def test_what_is_given_out_is_what_is_stored(tmp_path):
    path = small(tmp_path)
    assert (
        ledger_file.store_release(path, "two", {3: (1, 2)})
        == {"3": [1, 2]}
        == ledger_file.store_release(path, "two", {})
    )


def test_what_a_caller_writes_into_what_it_got_reaches_no_other(tmp_path):
    path = small(tmp_path)
    ledger_file.store_release(path, "two", {"mean": 0.25})
    ledger_file.store_release(path, "two", {})["mean"] = 99
    assert ledger_file.store_release(path, "two", {}) == {"mean": 0.25}


def test_a_big_release_is_kept(tmp_path):
    path = begun(tmp_path)
    ledger_file.charge(path, "a", "w", spend())
    payload = {"z": [math.sqrt(k) for k in range(200_000)]}
    assert ledger_file.store_release(path, "a", payload) == payload
    assert ledger_file.charge(path, "a", "w", spend()).release == payload


def test_steps_stand_in_the_order_in_which_they_were_noted(tmp_path):
    path = begun(tmp_path)
    ledger_file.charge(path, "a", "w", spend())
    ledger_file.charge(path, "b", "w", spend())
    for number, run in enumerate("abaa", start=1):
        steps = len(ledger_file.charge(path, run, "w", spend()).steps)
        for wrong in (steps, steps + 2, -1, "1", True, None):
            if wrong is not True or steps:
                with pytest.raises(
                    MovedLedgerError, match=f"run '{run}' has {steps} steps on record, got step {wrong!r}"
                ):
                    ledger_file.note(path, run, wrong, {})
        ledger_file.note(path, run, steps + 1, {"at": number})
    assert [step["at"] for step in ledger_file.charge(path, "a", "w", spend()).steps] == [1, 3, 4]
    assert [entry.steps for entry in ledger_file.account(path).spends] == [3, 1]
    ledger_file.store_release(path, "a", {})
    for run, message in ("a", "run 'a' has its release: nothing more"), ("c", "run 'c' was not charged"):
        with pytest.raises(LedgerError, match=message):
            ledger_file.note(path, run, 4, {})
    assert ledger_file.note(path, "b", 2, {"x": (1,)}) is None
    assert ledger_file.charge(path, "b", "w", spend()).steps[1] == {"x": [1]}


def test_what_was_not_charged_is_not_released(tmp_path):
    path = small(tmp_path)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="run 'three' was not charged"):
        ledger_file.store_release(path, "three", {})
    assert path.read_bytes() == before


class Secret:
    def __repr__(self):
        return "31415"


@pytest.mark.parametrize(
    "payload", [{"x": Secret()}, {"x": math.nan, "y": 31415}, {Secret(): 1}, [31415], {"x": {3, 31415}}]
)
def test_a_release_that_is_not_json_is_refused_unseen(tmp_path, payload):
    path = small(tmp_path)
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError), match=r"payload must be (a dictionary|JSON)") as refusal:
        ledger_file.store_release(path, "two", payload)
    assert "31415" not in str(refusal.value)
    assert path.read_bytes() == before


# The account


def test_the_account_says_what_was_spent_and_by_which_run(tmp_path):
    path = small(tmp_path)
    account = ledger_file.account(str(path))
    assert account.budget == ("dp", 1, 0, Fraction(1, 2**64), "replace_one", "users", None, None)
    assert account.by == "someone"
    assert [(entry.number, entry.run, entry.what, entry.released) for entry in account.spends] == [
        (2, "one", "a mean", True), (4, "two", "another", False),
    ]  # fmt: skip
    assert [entry.spend.events[0].level for entry in account.spends] == [Fraction(1, 10), Fraction(1, 5)]
    assert (account.spent.cost, account.left.cost) == (Fraction(3, 10), Fraction(7, 10))
    assert account.head == ledger_file.head(path)
    assert all("@" in entry.who and entry.when.endswith("+00:00") for entry in account.spends)
    assert account.when <= account.spends[0].when <= account.spends[1].when


def test_a_table_rounds_against_the_spender(tmp_path):
    path = begun(tmp_path)
    ledger_file.charge(path, "the mean", "of incomes", spend("1/3"))
    ledger_file.store_release(path, "the mean", {"mean": 31415})
    text = ledger_file.describe(path)
    assert "dp (replace_one) for users, begun 2" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["spent", "0.333334", "0", "0"] in lines
    assert ["left", "0.666666", "0", "5.42101E-20"] in lines
    (entry,) = (line for line in text.splitlines() if line.startswith("2 "))
    assert all(word in entry for word in ("the mean", "of incomes", "0.333334", "yes", "@"))
    assert text.endswith(ledger_file.head(path))
    assert "31415" not in text
    assert json.loads(path.read_text().splitlines()[1])["content"]["events"][0]["level"] == ["1/3", "0.333334"]


def test_a_ledger_says_what_it_is_in_words_that_no_rename_changes(tmp_path):
    header = json.loads(begun(tmp_path).read_text().splitlines()[0])["content"]
    assert (header["schema"], header["version"]) == ("jaxdpbo." + "ledger", 3)


def test_a_file_of_something_else_is_refused(tmp_path):
    header = ledger_file.read(begun(tmp_path)).lines[0]
    for content, message in (
        ({"schema": "other"}, "a is not a jaxdpbo.ledger"),
        ({"schema": "jaxdpbo.ledger", "version": 1}, "a has version 1, this is version 3"),
        ({"schema": "jaxdpbo.ledger", "version": 3}, "a: line 1 is not a valid ledger entry"),
        (header | {"events": []}, "a: line 1 is not a valid ledger entry"),
        (header | {"events": [header["events"][0] | {"type": "none"}]}, "a: line 1 is not a valid ledger entry"),
    ):
        (tmp_path / "a").unlink(missing_ok=True)
        ledger_file._begin(tmp_path / "a", content)
        with pytest.raises(LedgerError) as refusal:
            ledger_file.account(tmp_path / "a")
        assert str(refusal.value) == f"{tmp_path}/{message}"


FORGED = {
    "a kind there is not": {"kind": "refund", "run": "three"},
    "a second spend": {"run": "one"},
    "a release of nothing": {"kind": "release", "run": "five", "payload": {}},
    "a second release": {"kind": "release", "run": "one", "payload": {}},
    "a step out of turn": {"kind": "step", "run": "two", "number": 2, "content": {}},
    "a step of nothing": {"kind": "step", "run": "five", "number": 1, "content": {}},
    "a step after its release": {"kind": "step", "run": "one", "number": 1, "content": {}},
    "a refund": {"level": ["-1/10", "-0.1"]},
    "no level": {"level": None},
    "a level over zero": {"level": ["1/0", "0"]},
    "a level that is a float": {"level": 0.1},
    "another notion": {"type": "gdp"},
    "no events": {"events": []},
    "another unit": {"unit": ["1/1", "1"]},
    "no assumptions": {"assumptions": None},
    "another relation": {"relation": "unit_distance", "unit": ["1/1", "1"]},
    "others protected": {"protects": "rows"},
    "a run that is a list": {"run": ["one"]},
    "a time of two lines": {"when": "2026-01-01\nforged"},
    "an author who clears the screen": {"who": "\x1b[2J"},
    "no author": {"who": ""},
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_line_that_no_ledger_has_is_refused_though_its_hash_is_right(tmp_path, change):
    path = small(tmp_path)
    line = ledger_file.read(path).lines[1] | {"run": "three"}
    append(path, line)
    assert len(ledger_file.account(path).spends) == 3  # the line as it should be
    if change.keys() & {"level", "type"}:
        change = {"events": [line["events"][0] | change]}
    append(path, line | {"run": "four"} | change)
    with pytest.raises(DamagedLedgerError, match="line 6 is not a valid ledger entry"):
        ledger_file.account(path)
    with pytest.raises(DamagedLedgerError):
        ledger_file.charge(path, "five", "w", spend())


def test_a_spend_without_one_of_its_fields_is_refused(tmp_path):
    path = small(tmp_path)
    before, line = path.read_bytes(), ledger_file.read(path).lines[1] | {"run": "three"}
    for name in line:
        put_as_written(path, before)
        append(path, {field: line[field] for field in line if field != name})
        with pytest.raises(DamagedLedgerError, match="line 5 is not a valid ledger entry"):
            ledger_file.account(path)


# Tampering


def put(path, content):
    """In place: a file system may flush one that was emptied first, which thousands of times is slow."""
    with open(path, "r+b") as stream:
        stream.write(content)
        stream.truncate()


def put_as_written(path, content):
    """The file as it was once, and its mark as it was then."""
    put(path, content)
    for mark in marks(path.parent):
        mark.unlink()
    chain = ledger_file.read(path)
    identity = next(line for line in reversed(chain.lines) if "id" in line)
    (path.parent / f"ledger-{identity['id']}.head").write_text(chain.head)


def damaged(path, content):
    put(path, content)
    with pytest.raises(DamagedLedgerError) as refusal:
        ledger_file.account(path)
    assert "0.25" not in str(refusal.value)
    assert "someone" not in str(refusal.value)


def test_every_byte_that_changes_is_seen(tmp_path):
    path = small(tmp_path)
    whole, account = path.read_bytes(), ledger_file.account(path)
    for place, byte in enumerate(whole):
        for other in {byte ^ 1, byte ^ 128, ord("\n")} - {byte}:
            damaged(path, whole[:place] + bytes([other]) + whole[place + 1 :])
    put(path, whole)
    assert ledger_file.account(path) == account  # as it was, it verifies


def test_a_last_line_whose_newline_changed_with_another_byte_is_not_taken_for_a_torn_one(tmp_path):
    path = small(tmp_path)
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    length = range(whole.index(b'"length": ', start) + 10, whole.index(b', "content"', start))
    for place in range(start, len(whole) - 1):
        damaged(path, whole[:place] + b"x" + whole[place + 1 : -1] + b" ")
        if place not in length:  # one that grew says that more was to come
            damaged(path, whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 : -1] + b" ")
    damaged(path, whole[: length[0]] + b"9" * 5000)


def test_bytes_put_in_or_taken_out_are_seen(tmp_path):
    path = small(tmp_path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        if place < len(whole) - 1:
            damaged(path, whole[:place] + whole[place + 1 :])
        damaged(path, whole[:place] + b"\n "[place % 2 :][:1] + whole[place:])
    for more in b" ", b"\n", b"\0", b"[", whole:
        damaged(path, whole + more)


def test_lines_moved_repeated_or_removed_are_seen(tmp_path):
    path = small(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for order in permutations(range(4)):
        if order != (0, 1, 2, 3):
            damaged(path, b"".join(lines[number] for number in order))
    for number in range(4):
        damaged(path, b"".join(lines[: number + 1] + lines[number:]))
        if number < 3:
            damaged(path, b"".join(lines[:number] + lines[number + 1 :]))


def test_a_torn_line_that_does_not_follow_is_seen(tmp_path):
    path = small(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for length in range(30, len(lines[3]), 29):  # a digit of the hash may be equal by chance, sixteen are not
        damaged(path, lines[0] + lines[1] + lines[3][:length])


def test_lines_of_another_ledger_are_seen(tmp_path):
    lines = small(tmp_path).read_bytes().splitlines(keepends=True)
    other = begun(tmp_path, level=2, by="someone")
    ledger_file.charge(other, "one", "a mean", spend(), fingerprint="f")
    damaged(other, b"".join(lines[:1]) + other.read_bytes().splitlines(keepends=True)[1])


def test_a_file_cut_anywhere_is_torn_or_damaged_and_never_a_wrong_account(tmp_path):
    path = small(tmp_path)
    whole, last = path.read_bytes(), ledger_file.head(path)
    accounts = []
    for number in range(1, 5):
        put(path, b"".join(whole.splitlines(keepends=True)[:number]))
        accounts.append(ledger_file.account(path))
    for length in range(len(whole)):
        lines = whole[:length].count(b"\n")
        if not lines:
            damaged(path, whole[:length])
            continue
        put(path, whole[:length])
        assert ledger_file.account(path) == accounts[lines - 1]
        with pytest.raises(DamagedLedgerError, match="does not hold the expected line"):
            ledger_file.account(path, expected_head=last)
    put(path, whole)
    assert all(ledger_file.account(path, expected_head=earlier.head) == accounts[3] for earlier in accounts)


def test_a_torn_line_is_taken_off_by_the_next_writer(tmp_path):
    path = small(tmp_path)
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for length in range(start, len(whole), 13):
        put_as_written(path, whole[:length])
        charged = ledger_file.charge(path, "two", "another", spend("0.2"))
        assert (charged.charged_before, charged.number, charged.hash) == (False, 4, ledger_file.head(path))
        assert path.read_bytes().startswith(whole[:start])
        assert len(ledger_file.account(path).spends) == 2


# Writing


@pytest.fixture
def calls(monkeypatch):
    """What reaches the system, in order."""
    seen = []

    def watch(name):
        real = getattr(os, name)

        def watched(*arguments):
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            seen.append("fsync folder" if folder else name)
            return real(*arguments)

        monkeypatch.setattr(os, name, watched)

    for name in "write", "pwrite", "fsync", "link", "ftruncate":
        watch(name)
    return seen


def test_each_line_is_one_write_that_is_on_the_disk_before_the_answer(tmp_path, calls):
    path = begun(tmp_path)
    assert calls == ["write", "fsync", "write", "fsync", "fsync folder", "link", "fsync folder"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    calls.clear()
    ledger_file.charge(path, "a", "w", spend())
    ledger_file.store_release(path, "a", {"x": 1})
    assert calls == ["write", "fsync", "fsync folder", "pwrite"] * 2  # the mark comes after its line
    calls.clear()  # another process may have written the line, and been killed before it was on the disk
    ledger_file.charge(path, "a", "w", spend())
    ledger_file.store_release(path, "a", {"x": 2})
    assert calls == ["fsync", "fsync folder"] * 2
    calls.clear()
    ledger_file.account(path)
    assert not calls
    ledger_file.charge(path, "b", "w", spend())
    for step in range(2):
        calls.clear()
        ledger_file.note(path, "b", step + 1, {"step": step})
        assert calls == ["write", "fsync", "pwrite"]  # the file's name is on the disk since its charge


def test_a_ledger_is_begun_whole_or_not_at_all_and_never_over_another(tmp_path, monkeypatch):
    path = small(tmp_path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        ledger_file.create(path, notion="dp", level=100, **WORDS)
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == (before, [*marks(tmp_path), path])
    assert len(marks(tmp_path)) == 1
    real = os.write
    for failing in "write", "fsync", "link":
        for old in tmp_path.iterdir():
            old.unlink()
        with monkeypatch.context() as patch:
            patch.setattr(os, failing, lambda descriptor, *rest: real(descriptor, b"{") if rest else 1 / 0)
            with pytest.raises((OSError, TypeError, ZeroDivisionError)):
                ledger_file.create(path, notion="dp", level=1, **WORDS)
        assert not list(tmp_path.iterdir())


def reserved(level="3", **changes):
    return spend(level, **{"delta": "1/1000"} | changes)._replace(ex_post=True)


def test_an_ex_post_spend_reserves_all_and_a_release_returns_the_rest(tmp_path):
    path = tmp_path / "a"
    ledger_file.create(path, notion="dp", level=5, delta="1/100", **WORDS)
    ledger_file.charge(path, "one", "w", reserved())
    assert ledger_file.account(path).left.cost == 2
    with pytest.raises(ledger_file.BudgetExceeded, match="epsilon 3"):
        ledger_file.charge(path, "two", "w", reserved())
    assert " reserved  " in ledger_file.describe(path)
    assert ledger_file.store_release(path, "one", {"x": 1}, paid="1/2") == {"x": 1}
    account = ledger_file.account(path)
    assert (account.spent.cost, account.spent.delta) == (Fraction(1, 2), Fraction(1, 1000))  # delta is never returned
    assert account.spends[0].paid == Fraction(1, 2)
    assert "epsilon 3 reserved, 0.5 paid" in ledger_file.describe(path)
    assert ledger_file.store_release(path, "one", {"x": 2}, paid=0) == {"x": 1}  # the first alone counts
    assert ledger_file.account(path).spent.cost == Fraction(1, 2)
    assert ledger_file.charge(path, "one", "w", reserved()).charged_before
    ledger_file.charge(path, "two", "w", reserved("4.5"))
    ledger_file.store_release(path, "two", {})  # without a price: all of it
    assert ledger_file.account(path).left.cost == 0


@pytest.mark.parametrize("paid", [3.1, -0.1, math.nan, "x", None])
def test_a_price_is_within_the_reservation_of_an_ex_post_spend(tmp_path, paid):
    path = tmp_path / "a"
    ledger_file.create(path, notion="dp", level=5, delta="1/100", **WORDS)
    ledger_file.charge(path, "one", "w", reserved())
    ledger_file.charge(path, "plain", "w", reserved("1")._replace(ex_post=False))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="paid"):
        ledger_file.store_release(path, "one" if paid is not None else "plain", {}, paid=0.5 if paid is None else paid)
    assert path.read_bytes() == before
    for wrong in (spend("1", "gdp"), spend("1")._replace(events=spend("1").events * 2)):
        with pytest.raises(ValueError, match="ex_post"):
            ledger_file.charge(path, "three", "w", wrong._replace(ex_post=True))


def test_a_file_that_returns_more_than_was_reserved_is_damaged(tmp_path):
    path = tmp_path / "a"
    ledger_file.create(path, notion="dp", level=5, delta="1/100", **WORDS)
    ledger_file.charge(path, "one", "w", reserved())
    whole = path.read_bytes()
    release = {"kind": "release", "run": "one", "when": "2026-01-01T00:00:00+00:00", "payload": {}}
    for paid, fine in ((["1/1", "1"], True), (["-1/1", "-1"], False), (["4/1", "4"], False), ("1", False)):
        line, digest = ledger_file._line(ledger_file.read(path).head, release | {"paid": paid})
        del digest
        path.write_bytes(whole + line)
        if fine:
            assert ledger_file.account(path).spent.cost == 1
        else:
            with pytest.raises(ledger_file.DamagedLedgerError):
                ledger_file.account(path)
        path.write_bytes(whole)


WRITES = {
    "charge": lambda path: ledger_file.charge(path, "three", "w", spend()),
    "note": lambda path: ledger_file.note(path, "two", 1, {"x": 0.25}),
    "store_release": lambda path: ledger_file.store_release(path, "two", {"x": 0.25}),
    "adopt": ledger_file.adopt,
}


@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, file_size_limit, write):
    """Trap 40: what a write left behind half-way, in the file or in a buffer."""
    path = small(tmp_path)
    whole = path.read_bytes()
    WRITES[write](path)
    line = len(path.read_bytes()) - len(whole)
    for room in range(0, line - 1, 7):
        put_as_written(path, whole)
        with file_size_limit(len(whole) + room), pytest.raises(OSError, match=r"large|in full"):
            WRITES[write](path)
        assert path.read_bytes() == whole
    WRITES[write](path)
    assert abs(len(path.read_bytes()) - len(whole) - line) < 9  # times and names differ
    ledger_file.account(path)


def test_a_full_disk_leaves_no_ledger_half_begun(tmp_path, file_size_limit):
    with file_size_limit(100), pytest.raises(OSError, match=r"large|in full"):
        begun(tmp_path)
    assert not list(tmp_path.iterdir())


# Copies, links, replacements


def test_a_copy_takes_no_charge_until_it_is_adopted(tmp_path):
    path = small(tmp_path)
    copy = Path(shutil.copy(path, tmp_path / "copy.jsonl"))
    assert ledger_file.account(copy) == ledger_file.account(path)  # whoever audits has a copy
    for write in (
        lambda: ledger_file.charge(copy, "three", "w", spend()),
        lambda: ledger_file.charge(copy, "one", "a mean", spend(), fingerprint="f"),
        lambda: ledger_file.note(copy, "two", 1, {}),
        lambda: ledger_file.store_release(copy, "two", {}),
    ):
        with pytest.raises(LedgerError, match=r"copy\.jsonl is a copy: use the original, or call ledger\.adopt"):
            write()
    before = ledger_file.head(copy)
    ledger_file.adopt(copy, by="the new disk")
    ledger_file.charge(copy, "three", "w", spend())
    assert len(ledger_file.account(copy, expected_head=before).spends) == 3
    assert "a copy was adopted by " in ledger_file.describe(copy)
    assert "by the new disk" in ledger_file.describe(copy)
    back = Path(shutil.copy(copy, tmp_path / "back.jsonl"))
    with pytest.raises(LedgerError, match="is a copy"):
        ledger_file.charge(back, "four", "w", spend())
    with pytest.raises(FileNotFoundError):
        ledger_file.adopt(tmp_path / "none")


def test_a_ledger_in_no_folder_is_refused_by_its_own_name(tmp_path):
    """Not by that of the unfinished file."""
    path = tmp_path / "nowhere" / "budget.jsonl"
    with pytest.raises(FileNotFoundError) as refused:
        ledger_file.create(path, notion="gdp", level=1, **WORDS)
    assert refused.value.filename == str(path)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_links_are_the_same_file(tmp_path, link):
    path, other = small(tmp_path), tmp_path / "elsewhere" / "other.jsonl"
    other.parent.mkdir()
    link(other, path)
    ledger_file.charge(other, "three", "w", spend())
    assert len(ledger_file.account(path).spends) == 3
    assert list(other.parent.iterdir()) == [other]


def put_back(path, content):
    """Delete a file and restore it from a copy with the inode that it had.

    A file system may give a freed inode again, unless another process takes it first: a second name keeps it here.
    """
    kept = path.with_name("kept")
    kept.hardlink_to(path)
    path.unlink()
    kept.write_bytes(content)
    kept.rename(path)


@pytest.fixture
def spent(tmp_path):
    """A ledger with its budget spent, and what it was before."""
    path = begun(tmp_path, "3/10")
    ledger_file.charge(path, "one", "w", spend())
    older = path.read_bytes()
    ledger_file.charge(path, "two", "w", spend("0.2"))
    with pytest.raises(BudgetExceeded):
        ledger_file.charge(path, "three", "w", spend())
    return path, older


def refused(path, message):
    before = path.read_bytes()
    for write in (
        lambda: ledger_file.charge(path, "three", "w", spend()),
        lambda: ledger_file.charge(path, "one", "w", spend()),
        lambda: ledger_file.note(path, "one", 1, {}),
        lambda: ledger_file.store_release(path, "one", {}),
    ):
        with pytest.raises(LedgerError, match=message):
            write()
    assert path.read_bytes() == before


OLDER = r"ledger\.jsonl is an older copy, as its mark ledger-[0-9a-f]{32}\.head says: put the newest back, or .*adopt"


@pytest.mark.parametrize("back", [put_back, Path.write_bytes], ids=["deleted and put back", "written over"])
def test_an_older_copy_with_the_inode_of_the_file_takes_no_charge(spent, back):
    """Before: 0.4 were spent of 0.3. The deleted file's inode was given to the copy that was put back."""
    path, older = spent
    newest = path.read_bytes()
    back(path, older)
    refused(path, OLDER)
    assert len(ledger_file.account(path).spends) == 1  # whoever audits may read an older copy
    back(path, newest)
    with pytest.raises(BudgetExceeded):  # the newest lacks nothing
        ledger_file.charge(path, "three", "w", spend())
    back(path, older)
    ledger_file.adopt(path)
    ledger_file.charge(path, "three", "w", spend())
    assert len(marks(path.parent)) == 1  # of the id that counts
    back(path, newest)
    refused(path, "lacks its mark")


def test_readers_are_told_of_a_file_older_than_its_mark(spent, tmp_path):
    path, older = spent
    assert ledger_file.mark_warning(path) == ""
    (tmp_path / "copy").write_bytes(older)
    assert "older than its mark" in ledger_file.mark_warning(tmp_path / "copy")
    path.write_bytes(older)
    warning = ledger_file.mark_warning(path)
    assert warning in ledger_file.describe(path).splitlines()
    assert f"ledger.jsonl is older than its mark {marks(tmp_path)[0].name}: it lacks lines" in warning
    (mark,) = marks(tmp_path)
    mark.unlink()
    mark.symlink_to("nowhere")
    assert ledger_file.mark_warning(path) == ""  # a reader elsewhere sees no mark


@pytest.mark.parametrize("gone", ["deleted", "deleted with the file"])
def test_a_ledger_without_its_mark_takes_no_charge(spent, gone):
    path, older = spent
    for mark in marks(path.parent):
        mark.unlink()
    if gone == "deleted with the file":
        put_back(path, older)
    refused(path, r"ledger\.jsonl lacks its mark ledger-[0-9a-f]{32}\.head, as after a delete and restore: put")
    ledger_file.adopt(path)
    assert ledger_file.charge(path, "one", "w", spend()).charged_before


def test_a_copy_beside_a_copy_of_the_mark_takes_no_charge(spent, tmp_path):
    path, _ = spent
    shutil.copytree(tmp_path, tmp_path / "backup")
    refused(tmp_path / "backup" / path.name, r"ledger\.jsonl is a copy")
    ledger_file.charge(path, "one", "w", spend())


def test_a_ledger_and_its_mark_may_move_together_or_apart(tmp_path):
    """A whole folder, the file in its folder, the file to another."""
    (tmp_path / "a").mkdir()
    path = small(tmp_path / "a")
    for number, there in enumerate((tmp_path / "b" / path.name, tmp_path / "b" / "other", tmp_path / "b" / "c" / "d")):
        if not number:
            (tmp_path / "a").rename(tmp_path / "b")
            path = tmp_path / "b" / path.name
        if number == 2:
            ledger_file.adopt(path)  # says where it lies now
            there.parent.mkdir()
        path = path.rename(there)
        ledger_file.charge(path, f"moved {number}", "w", spend())
    (mark,) = marks(tmp_path / "b")
    mark.unlink()
    refused(path, "lacks its mark")


def test_a_process_that_goes_on_sees_that_the_ledger_was_put_back(server, tmp_path):
    """Another process spends, and a copy from before is put back under the one that is open."""
    server.begin(tmp_path)
    older = server.path.read_bytes()
    ledger_file.charge(server.path, "ours", "w", spend())
    server.start("a")
    server.end("a", None)
    assert len(ledger_file.account(server.path).spends) == AFFORDABLE
    put_back(server.path, older)
    with pytest.raises(LedgerError, match=OLDER):
        ledger_file.note(server.path, "ours", 1, {})

    def spends():  # the server may hear of the failure before it hears that the worker began
        server.start("b")
        server.end("b", None)

    with pytest.raises(AssertionError, match=OLDER):
        spends()
    assert server.path.read_bytes() == older


@pytest.mark.parametrize("call", ["open", "write", "fsync", "close", "link", "unlink"])
@pytest.mark.parametrize("which", range(1, 4))
def test_a_ledger_killed_while_it_is_begun_can_be_begun_again(tmp_path, call, which):
    """Whatever call it dies at, and the mark's are among them, there is a whole ledger or none."""
    code = (
        "import importlib.util, os, signal, sys\n"
        "spec = importlib.util.spec_from_file_location('ledger', sys.argv[1])\n"
        "ledger = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(ledger)\n"
        "real, left = getattr(os, sys.argv[3]), [int(sys.argv[4])]\n"
        "def call(*arguments, **options):\n"
        "    left[0] -= 1\n"
        "    if not left[0]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(*arguments, **options)\n"
        "setattr(os, sys.argv[3], call)\n"
        "ledger.create(sys.argv[2], notion='dp', level=1, relation='replace_one', protects='users')\n"
    )
    path = tmp_path / "ledger.jsonl"
    arguments = [sys.executable, "-S", "-I", "-c", code, MODULE, path, call, str(which)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if not path.exists():
        assert done.returncode == -signal.SIGKILL
        ledger_file.create(path, notion="dp", level=1, **WORDS)
    ledger_file.charge(path, "one", "w", spend())
    assert ledger_file.account(path).left.cost == Fraction(9, 10)


def test_a_mark_that_is_behind_names_a_line_that_stands(spent, monkeypatch):
    """A process that is killed between its line and the mark, or whose mark the disk does not take."""
    path, _ = spent
    (mark,) = marks(path.parent)
    before = mark.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger_file.note(path, "one", 1, {})
    assert mark.read_text() == before
    ledger_file.note(path, "one", 2, {})  # the first stands
    assert mark.read_text() == ledger_file.head(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError("full")))
        ledger_file.note(path, "one", 3, {})
    ledger_file.note(path, "one", 4, {})
    mark.write_text("")  # of a disk that lost it
    refused(path, OLDER)


def test_a_ledger_of_before_there_were_marks_goes_on(tmp_path):
    path = small(tmp_path)
    header = ledger_file.read(path).lines[0]
    old = {name: value for name, value in header.items() if name not in ("id", "folder")}
    path.write_text(by_hand(json.dumps(old | {"inode": path.stat().st_ino})))
    for mark in marks(tmp_path):
        mark.unlink()
    ledger_file.charge(path, "one", "w", spend())
    assert not marks(tmp_path)
    ledger_file.adopt(path)  # gives it one
    assert len(marks(tmp_path)) == 1


def test_an_id_that_leads_elsewhere_is_damage(tmp_path):
    path = small(tmp_path)
    for change in {"id": "../../elsewhere"}, {"folder": "\ud800"}, {"folder": "\0"}:
        header = ledger_file.read(path).lines[0] | change
        content = path.read_bytes()
        path.write_text(by_hand(json.dumps(header | {"inode": path.stat().st_ino})))
        for use in (lambda: ledger_file.charge(path, "one", "w", spend()), lambda: ledger_file.describe(path)):
            with pytest.raises(DamagedLedgerError, match="line 1 is not a valid ledger entry"):
                use()
        path.write_bytes(content)


def test_a_file_that_was_replaced_while_its_lock_was_waited_for_is_opened_again(tmp_path):
    """Before: the spend went into a file that had lost its name."""
    path = small(tmp_path)
    with locked(path):
        thread = threading.Thread(target=ledger_file.charge, args=(path, "three", "w", spend()))
        thread.start()
        time.sleep(0.05)
        path.rename(tmp_path / "old.jsonl")
        begun(tmp_path)
    thread.join(timeout=60)
    assert [entry.run for entry in ledger_file.account(path).spends] == ["three"]
    assert len(ledger_file.account(tmp_path / "old.jsonl").spends) == 2


def test_two_that_create_one_ledger_have_one(tmp_path):
    results = []

    def create():
        try:
            results.append(ledger_file.create(tmp_path / "ledger.jsonl", notion="dp", level=1, **WORDS))
        except FileExistsError as error:
            results.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(result) for result in results].count(FileExistsError) == 3
    assert sorted(tmp_path.iterdir()) == [*marks(tmp_path), tmp_path / "ledger.jsonl"]
    assert len(marks(tmp_path)) == 1
    ledger_file.account(tmp_path / "ledger.jsonl")


@contextmanager
def locked(path):
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield


def test_a_writer_waits_for_the_lock_as_long_as_it_is_told(tmp_path):
    path = small(tmp_path)
    before, since = path.read_bytes(), time.monotonic()
    with locked(path):
        for write in (
            lambda: ledger_file.charge(path, "three", "w", spend(), timeout=0.05),
            lambda: ledger_file.note(path, "two", 1, {}, timeout=0),
            lambda: ledger_file.store_release(path, "two", {}, timeout=0),
        ):
            with pytest.raises(LedgerError, match=r"another process has kept .*ledger\.jsonl locked for 0"):
                write()
        assert 0.05 <= time.monotonic() - since < 2
        thread = threading.Thread(target=ledger_file.charge, args=(path, "three", "w", spend()), kwargs={"timeout": 60})
        thread.start()
        time.sleep(0.05)
        assert path.read_bytes() == before
    thread.join(timeout=60)
    assert [entry.run for entry in ledger_file.account(path).spends] == ["one", "two", "three"]


def test_a_reader_waits_for_a_writer(tmp_path):
    path = small(tmp_path)
    read = []
    with locked(path):
        thread = threading.Thread(target=lambda: read.append(ledger_file.account(path)))
        thread.start()
        time.sleep(0.1)
        assert not read
    thread.join(timeout=60)
    assert read


def test_the_lock_is_given_back_after_a_refusal(tmp_path):
    path = small(tmp_path)
    with pytest.raises(BudgetExceeded):
        ledger_file.charge(path, "three", "w", spend(2))
    ledger_file.charge(path, "three", "w", spend(), timeout=0)


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path, monkeypatch):
    path, real, copies = small(tmp_path), os.fsync, []

    def fork(descriptor):  # as a fork does in this moment, it shares the open file and its lock
        copies.append(os.dup(descriptor))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fork)
    ledger_file.charge(path, "three", "w", spend())
    ledger_file.charge(path, "four", "w", spend(), timeout=0)
    assert copies
    for copy in copies:
        os.close(copy)


def test_where_there_are_no_locks_nothing_is_written(tmp_path, monkeypatch):
    path = small(tmp_path)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(LedgerError, match="needs POSIX file locks"):
        ledger_file.charge(path, "three", "w", spend())


def test_a_user_without_a_name_has_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: {}["no such user"])
    assert ledger_file.account(begun(tmp_path)).by.startswith(f"{os.getuid()}@")


def test_a_user_with_a_name_of_two_lines_charges_nothing(tmp_path, monkeypatch):
    path = begun(tmp_path)
    monkeypatch.setenv("LOGNAME", "someone\nelse")
    with pytest.raises(ValueError, match="who must be 1 to 200 printable characters"):
        ledger_file.charge(path, "one", "w", spend())
    assert not ledger_file.account(path).spends


# Chains


def test_a_chain_grows_at_its_head_alone(tmp_path):
    path = tmp_path / "chain"
    ledger_file._begin(path, {"a": 1})
    first = ledger_file.read(path).head
    second = append(path, {"b": [1.5, None, "é"]})
    third = append(str(path), {"c": 3})
    (mark,) = marks(tmp_path)
    identity = mark.stem.removeprefix("ledger-")
    begun = {"a": 1, "inode": path.stat().st_ino, "id": identity, "folder": str(tmp_path.resolve())}
    assert ledger_file.read(path) == ((begun, {"b": [1.5, None, "é"]}, {"c": 3}), third, (first, second, third))
    with pytest.raises(FileExistsError):
        ledger_file._begin(path, {})
    for content in ["c"], {"c": math.inf}, {"c": object()}:
        with pytest.raises((TypeError, ValueError), match="content must be"):
            append(path, content)
    assert ledger_file.read(path).head == mark.read_text() == third
    with pytest.raises(FileNotFoundError):
        append(tmp_path / "none", {})
    assert sorted(tmp_path.iterdir()) == [path, mark]


def by_hand(*contents):
    """The file format, written anew."""
    whole, previous = "", "0" * 64
    for content in contents:
        line = f'{{"previous": "{previous}", "length": {len(content)}, "content": {content}'
        previous = hashlib.sha256(line.encode()).hexdigest()
        whole += f'{line}, "hash": "{previous}"}}\n'
    return whole


def test_the_format_is_what_it_is_said_to_be(tmp_path):
    path = tmp_path / "chain"
    path.write_text(by_hand('{"a": 1}', '{"b": [2]}'))
    assert ledger_file.read(path).lines == ({"a": 1}, {"b": [2]})
    append(path, {"c": "x"})
    assert path.read_text() == by_hand('{"a": 1}', '{"b": [2]}', '{"c": "x"}')
    for wrong in '{"b": }', "[2]", '{"b": "\ud7ff"', "":
        path.write_text(by_hand('{"a": 1}', wrong))
        with pytest.raises(DamagedLedgerError, match="line 2 is"):
            ledger_file.read(path)


def test_equal_lines_have_other_hashes(tmp_path):
    ledger_file._begin(tmp_path / "a", {})
    append(tmp_path / "a", {})
    assert len(set(ledger_file.read(tmp_path / "a").hashes)) == 2


def test_whoever_audits_a_ledger_needs_no_jax(tmp_path):
    path = small(tmp_path)
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('ledger', {str(MODULE)!r})\n"
        "ledger = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(ledger)\n"
        f"print(ledger.account({str(path)!r}).left.cost)\n"
        "assert not {'jax', 'numpy', 'scipy', 'jaxdpbo'} & {name.split('.')[0] for name in sys.modules}\n"
    )
    done = subprocess.run([sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "7/10\n"), done.stderr


# Two processes, which a bare server forks: forking pytest, with JAX's threads in it, is unsafe, starting Python slow.

SERVER = r"""
import fcntl, importlib.util, itertools, json, os, random, signal, sys, time

spec = importlib.util.spec_from_file_location("ledger", sys.argv[1])
ledger = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ledger)
write = os.write

def say(**said):
    write(1, (json.dumps(said) + "\n").encode())  # under PIPE_BUF: whole, whoever else writes

def watch(order):
    "Every call that reaches the system is two steps, a write three; at step `die_at` the worker kills itself."
    left, draw, met = order["die_at"], random.Random(order["seed"]), False

    def step():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(name, call):
        def watched(*arguments):
            if name == "ftruncate":
                say(torn=True)
            step()
            result = call(*arguments)
            step()
            return result
        return watched

    def halves(descriptor, line):
        nonlocal met
        if order["meet"] and not met:  # both have read before either writes, unless there is a lock
            met, until = True, time.monotonic() + (0.3 if order["locks"] else 60)
            os.mkdir(os.path.join(order["meet"], order["worker"]))
            while len(os.listdir(order["meet"])) < 2 and time.monotonic() < until:
                time.sleep(0.001)
        step()
        cut = draw.randrange(1, len(line))
        write(descriptor, line[:cut])
        step()
        time.sleep(order["pause"])
        write(descriptor, line[cut:])
        step()
        return len(line)

    for name in "open", "close", "fsync", "ftruncate", "pwrite":
        setattr(os, name, around(name, getattr(os, name)))
    os.write = halves
    fcntl.flock = around("flock", fcntl.flock if order["locks"] else lambda *_: None)
    return step

def work(order):
    step, path, plant, worker = watch(order), order["path"], order["plant"], order["worker"]
    spend = ledger.Spend((ledger.Event(*order["spend"][0][0]),), *order["spend"][1:])
    for k in itertools.count(order["first"]):
        run = f"shared {k}" if order["share"] and k % 3 == 2 else f"{worker} {k}"
        name = f"{run}, try {os.getpid()}" if plant == "a retry is charged again" else run
        payload = {"noise": os.urandom(8).hex()}
        if plant == "the charge comes after the release":
            say(worker=worker, k=k, run=run, payload=payload)
            step()
        try:
            ledger.charge(path, name, run, spend, fingerprint="f")
        except ledger.BudgetExceeded:
            say(over=True)
            return
        say(charged=run)
        step()
        stored = ledger.store_release(path, name, payload)
        if plant != "a retry draws new noise":
            payload = stored
        step()
        if plant != "the charge comes after the release":
            say(worker=worker, k=k, run=run, payload=payload)
        step()

for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        say(dead=order["wait"], killed=os.waitpid(order["wait"], 0)[1] == signal.SIGKILL)
        continue
    pid = os.fork()
    if not pid:
        try:
            work(order)
        except BaseException as error:
            say(failed=f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    say(born=pid)
"""
WORKERS = ("a", "b")
AFFORDABLE = 6  # spends of each budget
NO_PLANT = ""


class Server:
    """Forks workers, and hears what they acknowledge."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-I", "-c", SERVER, MODULE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.alive = {}
        self.kills = self.torn = self.acknowledged = self.ledgers = 0

    def close(self):
        for pid in self.alive.values():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def begin(self, folder):
        """A new ledger, of which nothing was heard yet."""
        self.path = begun(folder, f"{AFFORDABLE}/10")
        self.first = dict.fromkeys(WORKERS, 0)
        self.charged, self.released, self.full = set(), {}, False
        self.ledgers += 1

    def start(self, worker, *, die_at=0, pause=0.0, seed=0, plant=NO_PLANT, share=True, locks=True, meet=""):
        order = {"worker": worker, "first": self.first[worker], "path": str(self.path), "spend": spend()}
        options = {"die_at": die_at, "pause": pause, "seed": seed, "plant": plant, "share": share}
        self.tell(order | options | {"locks": locks, "meet": str(meet)})
        self.alive[worker] = self.hear("born")["born"]

    def end(self, worker, delay):
        """Kill it after a delay, or where there is none wait until it has killed itself or used up the budget."""
        pid = self.alive.pop(worker)
        if delay is not None:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        self.tell({"wait": pid})
        self.kills += self.hear("dead")["killed"]

    def tell(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")

    def hear(self, until):
        while until not in (said := json.loads(self.process.stdout.readline())):
            assert "failed" not in said, said["failed"]
            self.torn += "torn" in said
            self.full |= "over" in said
            if "charged" in said:
                self.charged.add(said["charged"])
            if "payload" in said:
                first = self.released.setdefault(said["run"], said["payload"])
                assert said["payload"] == first, "a release was given out again otherwise"
                self.first[said["worker"]] = said["k"] + 1
                self.acknowledged += 1
        return said

    def check(self):
        """What was acknowledged stands, once, and no more than the budget."""
        account = ledger_file.account(self.path)
        names = {entry.what: entry.run for entry in account.spends}
        assert len(names) == len(account.spends), "a spend was doubled"
        assert self.charged | self.released.keys() <= names.keys(), "a spend was lost"
        assert account.spent.cost <= account.budget.level, "the budget was overrun"
        assert len(account.spends) == AFFORDABLE or not self.full, "the budget was refused before it was spent"
        for run, payload in self.released.items():
            stored = ledger_file.store_release(self.path, names[run], {"other": 1})
            assert stored == payload, "a release was given out again otherwise"


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def killed(server, folder, ways, **options):
    """Two workers use up one budget. Each is killed, and started anew, as long as the ways of dying say so."""
    server.begin(folder)
    delays = {}

    def start(worker):
        delays[worker], way = next(ways)
        server.start(worker, **way, **options)

    for worker in WORKERS:
        start(worker)
    for worker in cycle(WORKERS):
        server.end(worker, delays[worker])
        if server.full:
            break
        start(worker)
    for worker in list(server.alive):
        server.end(worker, 0)
    server.check()


def at_moments(generator, run):
    """At a moment, which often lies within a write, or at a step. ``run``: how many seconds a run takes now."""
    while True:
        kind, seed, delay = generator.randrange(3), generator.randrange(2**32), generator.uniform(0, 2 * run)
        if kind == 2:
            yield None, {"die_at": generator.randrange(1, 2 * STEPS), "seed": seed}
        else:
            yield delay, {"pause": run / 4 * kind, "seed": seed}


def at_step(number):
    """Both workers twice at their n-th step, and no more."""
    return chain(repeat((None, {"die_at": number, "seed": number}), 4), repeat((None, {})))


STEPS = 57  # a little more than a run takes
SEED = 20


def killed_at_every_step(server, folder, **options):
    for number in range(1, STEPS + 1):
        before = server.acknowledged
        killed(server, folder, at_step(number), **options)
        assert server.acknowledged >= before + AFFORDABLE - 2


def test_nothing_is_lost_by_workers_killed_at_any_step(server, tmp_path):
    killed_at_every_step(server, tmp_path)
    assert server.kills >= 4 * STEPS
    assert server.torn
    server.begin(tmp_path)
    before = server.acknowledged
    server.start("a", die_at=STEPS)
    server.end("a", None)
    assert server.acknowledged == before + 1  # so every step of a run was one to die at


def test_nothing_is_lost_by_workers_killed_at_any_moment(server, tmp_path, trials):
    kills = trials("kill -9 across two processes that share a ledger", 30, 1000, SEED)
    server.begin(tmp_path)
    began = time.monotonic()
    server.start("a", die_at=STEPS)
    server.end("a", None)
    ways = at_moments(random.Random(SEED), time.monotonic() - began)
    while server.kills < kills:
        killed(server, tmp_path, ways)
    assert server.torn >= kills / 100
    assert server.acknowledged >= kills / 3


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        ("the charge comes after the release", "a spend was lost"),
        ("a retry is charged again", "a spend was doubled"),
        ("a retry draws new noise", "a release was given out again otherwise"),
    ],
)
def test_the_kills_find_a_worker_where(server, tmp_path, plant, message):
    with pytest.raises(AssertionError, match=message):
        killed_at_every_step(server, tmp_path, plant=plant, share=plant == "a retry draws new noise")


def race(server, folder, **options):
    """Two workers use up one budget; both have read before either writes, unless something stops them."""
    server.begin(folder)
    (folder / "meet").mkdir()
    for worker in WORKERS:
        server.start(worker, meet=folder / "meet", share=False, **options)
    for worker in WORKERS:
        server.end(worker, None)
    server.check()
    assert len(server.charged) == AFFORDABLE


def test_two_processes_spend_one_budget_exactly(server, tmp_path):
    race(server, tmp_path)


def test_without_a_lock_they_would_not(server, tmp_path):
    with pytest.raises(AssertionError, match=r"DamagedLedgerError: .*ledger\.jsonl: line \d "):
        race(server, tmp_path, locks=False)


def test_an_array_for_a_number_is_refused_without_a_list_of_it(tmp_path):
    """A view of one number, whose list would fill the memory: it killed a fuzzing worker."""
    many = np.broadcast_to(np.float64(1.0), (2**40,))
    with pytest.raises(TypeError, match="level must be a number"):
        ledger_file.create(
            tmp_path / "budget.jsonl", notion="gdp", level=many, relation="replace_one", protects="users"
        )
