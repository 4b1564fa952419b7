"""Ranges found in the rows: what a row can move, ranges that are near those of NumPy, and a share that is paid."""

import math
from fractions import Fraction

import jax
import numpy as np
import pandas
import pytest

from jaxdpbo import Recording, ledger, sensitivity, space
from jaxdpbo.guarantee import guarantees
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor
from jaxdpbo.tuning import fitting, private_ranges, private_steps

RUN = {"key": jax.random.key(0), "insecure_key": True}
BUDGET = {"epsilon": 8.0, "delta": 1e-5, "private_range": 0.05, **RUN}
ODD = [0.0, -0.0, 1.0, -1.0, 17.0, 1e-9, -1e-9, 2.0**39, -(2.0**41), 1e300, np.nan, np.inf, -np.inf]

# -- What a row can move ----------------------------------------------------------------------------------------------


def squared_shift(config, first, second, counts=None, count=private_ranges.count, find=private_ranges.find):
    """The squared distance of two tables in all counts, where the second has the noise that makes all releases equal.

    Raises an AssertionError if anything but these releases differs, so if a cell follows from the rows.
    """
    noise = private_ranges.draw_noise(jax.random.key(1), config)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    shifts: list[np.ndarray] = []

    def record(numbers, ends, units):
        seen.append((ends, count(numbers, ends, units)))
        return seen[-1][1]

    def replay(numbers, ends, units):
        expected, counted = seen[len(shifts)]
        np.testing.assert_array_equal(ends, expected)
        shifts.append(counted - count(numbers, ends, units))
        return counted

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(private_ranges, "count", record)
        found = find(noise, config, first, counts)
        patched.setattr(private_ranges, "count", replay)
        again = find(noise, config, second, counts)
    np.testing.assert_array_equal(found.ranges, again.ranges)
    np.testing.assert_array_equal(found.clear, again.clear)
    assert len(shifts) == config.columns * private_ranges.STAGES
    return sum(int((shift.astype(object) ** 2).sum()) for shift in shifts)


def tables_of(rows=20, columns=2):
    numbers = np.random.default_rng(3).normal(50, 30, (rows, columns))
    for odd in ODD:
        for other in ODD:
            replaced = numbers.copy()
            replaced[0] = odd, other
            yield replaced


def test_a_replaced_row_moves_all_counts_by_what_is_charged_and_no_more():
    config = private_ranges.config(0.3, 2)
    first, *others = tables_of()
    squared = [squared_shift(config, first, other) for other in others]
    squared += [squared_shift(config, other, others[-1]) for other in others]
    assert max(squared) == sensitivity.histograms_squared(config.units, 2, private_ranges.STAGES)
    stated = private_ranges.level(config)
    assert max(squared) <= Fraction(stated) ** 2 * private_ranges.SIGMA**2
    assert 0.999 * 0.3 < stated <= 0.3


def test_two_people_move_all_counts_by_what_is_charged():
    config, rng = private_ranges.config(0.3, 2), np.random.default_rng(5)
    counts = np.repeat([3, 7, 1], [3, 7, 5])
    numbers, charged = rng.normal(50, 30, (15, 2)), sensitivity.histograms_squared(config.units, 2, 3)
    squared = []
    for person in (np.arange(3), np.arange(3, 10), np.array([12])):
        for _ in range(60):
            other = numbers.copy()
            other[person] = rng.choice(ODD, (len(person), 2))
            if rng.uniform() < 0.5:
                other[person] = other[person[0]]
            squared.append(squared_shift(config, numbers, other, counts))
    assert 0.5 * charged < max(squared) <= charged
    assert squared_shift(config, numbers, other) <= charged  # here each row is a user


@pytest.mark.parametrize("fault", ["a row counts in two cells", "a person's rows count whole", "an end is a row's"])
def test_planted_faults_are_seen(fault):
    config, counts = private_ranges.config(0.3, 2), np.repeat([3, 1], [3, 17])
    first = np.full((20, 2), 10.0)
    second = first.copy()
    second[:3] = [[-5.0, -5.0]]
    charged = sensitivity.histograms_squared(config.units, 2, private_ranges.STAGES)

    def twice(numbers, ends, units):
        counted = private_ranges_count(numbers, ends, units)
        return counted + np.roll(counted, 2)

    def whole(noise, config, numbers, counts=None):
        return private_ranges.find(noise, config, numbers)

    def by_rows(noise, config, numbers, counts=None):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(private_ranges, "ENDS", private_ranges.ENDS * (1 + abs(numbers.min())))
            return private_ranges.find(noise, config, numbers, counts)

    private_ranges_count = private_ranges.count
    assert squared_shift(config, first, second, counts) <= charged
    if fault == "a row counts in two cells":
        second[1:3] = 10.0
        counts = np.ones(20, int)
        assert squared_shift(config, first, second, counts, count=twice) > charged
    elif fault == "a person's rows count whole":
        assert squared_shift(config, first, second, counts, find=whole) > charged
    else:
        with pytest.raises(AssertionError):
            squared_shift(config, first, second, counts, find=by_rows)


def test_counts_are_those_of_a_loop():
    rng = np.random.default_rng(2)
    numbers = np.concatenate([rng.normal(0, 100, 300), [0.0, 16.0, -16.0, 2.0**40, 1e30, -1e30]])
    units = rng.integers(1, 9, len(numbers))
    for ends in (private_ranges.ENDS, np.linspace(-3.0, 90.0, 9)):
        expected = [0] * (len(ends) - 1)
        for number, unit in zip(numbers.tolist(), units.tolist(), strict=True):
            inside = [cell for cell in range(len(expected)) if ends[cell] <= number < ends[cell + 1]]
            expected[inside[0] if inside else 0 if number < ends[0] else -1] += unit
        assert private_ranges.count(numbers, ends, units).tolist() == expected


def test_the_noise_has_its_deviation_and_too_small_a_budget_is_refused():
    config = private_ranges.config(0.3, 4)
    drawn = np.stack([private_ranges.draw_noise(key, config) for key in jax.random.split(jax.random.key(2), 100)])
    assert drawn.shape == (100, 4, len(private_ranges.ENDS) - 1 + 2 * private_ranges.CELLS)
    np.testing.assert_allclose(drawn.std(axis=0), private_ranges.SIGMA, rtol=0.4)
    assert drawn.std() == pytest.approx(private_ranges.SIGMA, rel=0.02)
    assert private_ranges.total_variation(4) > 0
    with pytest.raises(ValueError, match="to count 3 columns on the grid of whole numbers"):
        private_ranges.config(1e-6, 3)


# -- What is found ----------------------------------------------------------------------------------------------------

COLUMNS = {  # numbers that need another range each
    "ages": lambda rng, n: rng.integers(18, 90, n).astype(float),
    "far from zero": lambda rng, n: rng.normal(1e4, 500, n),
    "of both signs": lambda rng, n: rng.normal(0, 3e-3, n),
    "with a long tail": lambda rng, n: np.exp(rng.normal(10, 1, n)),
    "shares": lambda rng, n: rng.uniform(0, 1, n),
}


def is_near(found, numbers):
    """Within a factor of 4 of the width from percentile 1 to 99, with at most 15 % of the numbers outside."""
    (low, high), (first, last) = found, np.quantile(numbers, [0.01, 0.99])
    outside = np.mean((numbers < low) | (numbers > high))
    return (last - first) / 4 <= high - low <= 4 * (last - first) and outside <= 0.15


@pytest.mark.parametrize("name", COLUMNS)
def test_a_range_is_near_the_percentiles_at_an_epsilon_of_one(name):
    """2,000 rows, 1,600 of which train, and a twentieth of a budget of epsilon 1 and delta 1e-5."""
    mu = 0.268 * math.sqrt(0.05)
    near = {"paid": 0, "much too noisy": 0}
    for number, key in enumerate(jax.random.split(jax.random.key(7), 60)):
        numbers = COLUMNS[name](np.random.default_rng(number), 1600)
        for said, config in (
            ("paid", private_ranges.config(mu, 1)),
            ("much too noisy", private_ranges.config(mu / 30, 1)),
        ):
            found = private_ranges.find(private_ranges.draw_noise(key, config), config, numbers[:, None])
            near[said] += is_near(found.ranges[0], numbers)
            assert bool(found.clear[0]) == (said == "paid") or said != "paid"
    assert near["paid"] >= 50
    assert near["much too noisy"] < 20


def test_odd_cells_are_in_no_cell_and_raise_nothing():
    config = private_ranges.config(1.0, 1)
    noise = private_ranges.draw_noise(jax.random.key(4), config)
    numbers = np.random.default_rng(0).uniform(20, 80, 2000)
    plain = private_ranges.find(noise, config, numbers[:, None])
    odd = np.concatenate([numbers, [np.nan, np.inf, -np.inf]])
    with np.errstate(all="raise"):
        assert private_ranges.find(noise, config, odd[:, None]).ranges.tolist() == plain.ranges.tolist()


# -- The estimators ---------------------------------------------------------------------------------------------------


def frame(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    table = pandas.DataFrame({"age": rng.integers(18, 90, rows), "year": rng.uniform(1950, 2010, rows)})
    table["sex"] = rng.choice(["f", "m"], rows)
    return table


PRIVATE = {"age": "private", "year": "private", "sex": ["f", "m"]}


def test_a_model_with_found_ranges_predicts_and_says_so():
    table = frame()
    targets = 1000 * table["age"] + np.random.default_rng(1).normal(0, 5000, len(table))
    model = PrivateRegressor(PRIVATE, target_range="private", **BUDGET).fit(table, targets)
    assert model.score(table, targets) > 0.7
    low, high = model.target_range_
    assert low <= 20_000
    assert 85_000 <= high <= 300_000
    age, year, sex = model.encoding_.dimensions
    assert (age.low, age.high) != (year.low, year.high)
    assert year.high - year.low <= 600
    assert sex == space.categorical("f", "m")
    assert "'age': Real(" in str(model.encoding_)
    assert str(model.encoding_).count("found in the rows") == 2
    assert [part for part, _ in model.guarantee_.parts] == ["the ranges", "the Gram matrix and the steps"]
    assert "for the ranges and" in model.guarantee_.claim
    (note,) = (note for note in model.notes_ if note.id == "ranges-from-rows")
    assert "'age', 'year', the targets were found in the rows" in note.text
    assert "5 %" in note.text
    assert not any(note.id == "ranges-like-noise" for note in model.notes_)
    assert model.report_.details["private_range"] == "0.05"
    assert "found in the rows" in model.report_.details["encoding_"]
    everything = PrivateClassifier("private", classes=(False, True), **BUDGET)
    everything.fit(table[["age", "year"]].to_numpy(), table["age"] > 50)
    assert everything.score(table[["age", "year"]].to_numpy(), table["age"] > 50) > 0.9


def test_ranges_that_are_noise_are_a_note():
    table = frame(60)
    model = PrivateClassifier(PRIVATE, classes=("f", "m"), **BUDGET | {"epsilon": 1.0}).fit(table, table["sex"])
    (note,) = (note for note in model.notes_ if note.id == "ranges-like-noise")
    assert "'age', 'year'" in note.text
    assert np.isfinite(model.predict_proba(table)).all()


def test_a_range_that_ends_where_the_search_ends_is_a_note():
    """Nanoseconds since 1970 are beyond 2^40: all rows count as the end."""
    table = frame().assign(age=1.6e18 + 1e9 * np.arange(len(frame())))
    model = PrivateClassifier(PRIVATE, classes=("f", "m"), **BUDGET).fit(table, table["sex"])
    (note,) = (note for note in model.notes_ if note.id == "ranges-at-limits")
    assert "'age' end at 2^40" in note.text


def test_rows_held_out_move_no_range():
    table = frame()
    held, kept = fitting.held_out_rows(len(table))
    found = {}
    for name, rows in (("none", []), ("held", held), ("kept", kept[:700])):
        moved = table.copy().astype({"age": float})
        moved.loc[rows, ["age", "year"]] = -1e6
        model = PrivateClassifier(PRIVATE, classes=("f", "m"), **BUDGET).fit(moved, table["sex"])
        found[name] = model.encoding_.dimensions
    assert found["none"] == found["held"] != found["kept"]


def test_people_count_once():
    """One person with most of the rows moves no range."""
    rows, people = 3000, 1001
    owners = np.concatenate([np.arange(1000), np.full(2000, 1000)])
    table = frame(rows).assign(who=owners).astype({"age": float})
    spoiled = table.copy()
    spoiled.loc[owners == 1000, ["age", "year"]] = 1e9
    for named in (True, False):
        options = BUDGET | {"delta": 1e-6, "person": "who" if named else None}
        columns = PRIVATE | ({} if named else {"who": None})
        fitted = [
            PrivateClassifier(columns, classes=("f", "m"), **options).fit(each, table["sex"]).encoding_.dimensions
            for each in (table, spoiled)
        ]
        assert (max(of.high for of in fitted[1][:2]) < 5000) == named
    assert people == len(set(owners))


def test_both_parts_of_the_training_are_within_the_budget():
    plain, with_ranges = (
        private_steps.make_plan(4000, 1000, 50, 2, 1.0, 1e-5, None, None, None, unknown, share)
        for unknown, share in ((0, 0.0), (3, 0.2))
    )
    plan, guarantee = with_ranges
    assert guarantee.level <= 1.0
    assert guarantee.also[1] == pytest.approx(plain[1].also[1], rel=1e-3)
    ranges = private_ranges.level(plan.ranges)
    assert ranges**2 == pytest.approx(0.2 * guarantee.also[1] ** 2, rel=1e-3)
    (_, of_training) = guarantee.stages[1][1:]
    assert guarantee.also[1] ** 2 == pytest.approx(ranges**2 + of_training**2, rel=1e-6)
    assert guarantee.also[1] >= math.hypot(ranges, of_training)
    assert guarantee.total_variation > plain[1].total_variation
    assert with_ranges[0].linear.radius < plain[0].linear.radius


def test_three_keys_of_their_own_and_all_noise_before_the_charge(monkeypatch, tmp_path):
    said, keys = [], []
    draws, charge = private_ranges.draw_noise, private_steps.recorded_run.begin_journal
    error, compiled = private_steps.measured_error.draw_noise, private_steps._compile
    monkeypatch.setattr(private_steps, "_compile", lambda of, key: keys.append(key) or compiled(of, key))
    monkeypatch.setattr(
        private_ranges, "draw_noise", lambda key, of: said.append("draw") or keys.append(key) or draws(key, of)
    )
    monkeypatch.setattr(private_steps.measured_error, "draw_noise", lambda key, of: keys.append(key) or error(key, of))
    monkeypatch.setattr(
        private_steps.recorded_run,
        "begin_journal",
        lambda *of, **named: said.append("charge") or charge(*of, **named),
    )
    find = private_ranges.find
    monkeypatch.setattr(private_ranges, "find", lambda *of: said.append("find") or find(*of))
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    table = frame(600)
    options = BUDGET | {"key": None, "ledger": Recording(path, "one")}
    PrivateClassifier(PRIVATE, classes=("f", "m"), **options).fit(table, table["sex"])
    assert said == ["draw", "charge", "find"]
    assert len({bytes(jax.random.key_data(key)) for key in keys}) == len(keys) == 3
    assert len(ledger.account(path).spends) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"private_range": None}, "private_range must be given with 'private' for 'age', 'year': such as 0.05"),
        ({"columns": {"age": (0, 120), "year": None, "sex": None}}, "in place of a range alone"),
        ({"private_range": 1.5}, "private_range must lie strictly between 0 and 1, got 1.5"),
        ({"private_range": 0.0}, "private_range must lie strictly between 0 and 1, got 0.0"),
        ({"columns": {"age": (0, 120)}}, "'private' with private_range=0.05 finds a range"),
        ({"columns": {**PRIVATE, "age": "privately"}}, "must be real"),
        ({"columns": "sex"}, "columns must be a dict, got str"),
        ({"settings": [{"hidden": ()}]}, "private_range must be given without settings"),
    ],
)
def test_mistakes_are_named_before_the_charge(options, said, tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    table = frame(100)
    asked = {
        "columns": PRIVATE,
        "classes": ("f", "m"),
        **BUDGET,
        "key": None,
        "ledger": Recording(path, "one"),
    } | options
    with pytest.raises((ValueError, TypeError), match=said):
        PrivateClassifier(**asked).fit(table, table["sex"])
    assert not ledger.account(path).spends
    with pytest.raises(ValueError, match="private_range must be given with 'private' for the targets"):
        PrivateRegressor(
            {"age": (0, 120), "year": None, "sex": None}, target_range="private", epsilon=1, delta=1e-5
        ).fit(table, table["age"])


def test_check_counts_cells_that_are_no_number():
    model = PrivateRegressor("private", target_range="private", **BUDGET)
    found = model.check(pandas.DataFrame({"a": [1.0, "x", None, 1e15]}), [1.0, 2.0, "y", 3.0])
    assert {(finding.where, finding.found) for finding in found.findings} == {("targets", 1), ("column 'a'", 1)}
