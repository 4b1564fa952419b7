"""People of several rows: one entry a person, that of their own rows, whatever the others hold."""

import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options
from tolerances import rtol

from jaxdpbo import PrivateObjective, Recording, by_person, dp_gd, drivers, ledger, minimize, per_user, separable
from jaxdpbo.guarantee import assumptions

PERSON = np.array([2, 0, 2, 3, 0, 2, 5])  # persons 1 and 4 have no rows
ROWS = np.random.default_rng(0).normal(size=(len(PERSON), 2))
POINT = np.array([0.3, -0.2])
BOX = {"low": [-1.0, -1.0], "high": [1.0, 1.0]}
OPTIONS = {"mu": 1.0, "steps": 2, "batch": 1}
SHOWN = {assumptions.OWN_ROWS, assumptions.COMPILED_APART}
PROVED = {assumptions.RANDOM_BITS, assumptions.PUBLIC_CONFIG, *SHOWN}


def of_one(point, row):
    return jnp.sum(jnp.square(row - point))


def in_jax(point, rows):
    return jax.vmap(of_one, in_axes=(None, 0))(jnp.asarray(point), jnp.asarray(rows))


def in_python(point, rows):
    return np.square(np.asarray(rows) - np.asarray(point)).sum(axis=1)


def mixed(point, rows):
    return in_jax(point, rows - jnp.mean(rows, axis=0, keepdims=True))


def expected(average):
    losses = [[in_python(POINT, ROWS)[row] for row in np.flatnonzero(person == PERSON)] for person in range(7)]
    return [(np.mean(own) if average else np.sum(own)) if own else 0.0 for own in losses]


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("objective", [per_user(of_one), in_jax, in_python])
def test_an_entry_is_of_the_rows_of_one_person(objective, average):
    grouped = by_person(objective, PERSON, persons=7, average=average)
    found = grouped(POINT, ROWS)
    assert isinstance(found, np.ndarray if objective is in_python else jax.Array)
    np.testing.assert_allclose(found, expected(average), rtol=rtol(1e-12))
    if objective is not in_python:
        np.testing.assert_allclose(jax.jit(grouped)(POINT, ROWS), found, rtol=rtol(0.0))


@pytest.mark.parametrize("average", [True, False])
def test_values_of_few_bits_are_added_as_numbers(average):
    """Sums of Booleans are Boolean, and of bytes modulo 256."""
    wrong = np.array([True, True, False, True, False, True, False])
    large = np.full(len(PERSON), 200, np.uint8)
    for values in (wrong, large):
        own = [values[person == PERSON].astype(float) for person in range(7)]
        wanted = [(np.mean(each) if average else np.sum(each)) if len(each) else 0.0 for each in own]
        for library in (np.asarray, jnp.asarray):
            found = by_person(lambda point, rows: rows, PERSON, persons=7, average=average)
            np.testing.assert_allclose(found(POINT, library(values)), wanted)


def test_a_row_that_is_no_number_is_its_persons_alone():
    values = [0.5, 1.0, "x", 10**400, 2.0, 3.0, None]
    found = by_person(lambda point, rows: rows, PERSON, persons=7)(POINT, values)
    np.testing.assert_array_equal(np.isfinite(found), [True, True, False, False, True, False, True])
    np.testing.assert_array_equal(found[[0, 1]], [1.5, 0.0])


def test_slopes_are_those_of_the_sums():
    grouped = by_person(in_jax, PERSON)
    found = dp_gd.gradient_objective(grouped)
    assert isinstance(found, separable.ByPerson)  # so that its guarantee says whose rows are public
    np.testing.assert_allclose(found(POINT, ROWS), jax.jacobian(grouped)(POINT, ROWS).T, rtol=rtol(1e-12))


@pytest.mark.parametrize("wild", [1e6, np.nan, np.inf])
def test_rows_of_others_move_no_bit(wild):
    grouped = jax.jit(by_person(per_user(of_one), PERSON))
    before = np.asarray(grouped(POINT, ROWS))
    for person in range(6):
        changed = np.where((person == PERSON)[:, None], wild, ROWS)
        moved = np.asarray(grouped(POINT, changed)) != before
        assert list(np.flatnonzero(moved)) == ([person] if person in PERSON else [])


RUNS = {
    "minimize": lambda f, **axes: minimize(f, ROWS, BOX, **group_options(**OPTIONS, **axes)),
    "minimize from Python": lambda f, **axes: minimize(
        f, ROWS, BOX, **group_options(traceable=False, **OPTIONS, **axes)
    ),
    "run_scan": lambda f, **axes: drivers.run_scan(
        dp_gd.algorithm,
        dp_gd.gradient_objective(f),
        ROWS,
        dp_gd.config(users=6, steps=2, mu=1.0, bounds=BOX),
        **group_options(**axes),
    ),
}


@pytest.mark.daily("run_scan", "minimize from Python")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_says_that_whose_rows_are_public_and_what_was_not_shown(name):
    run, grouped = RUNS[name], by_person(in_jax, PERSON)
    shown, assumed = run(grouped, user_axes=0).guarantee, run(grouped).guarantee
    assert set(shown.assumptions) == {*PROVED, assumptions.ROW_OWNERS}
    assert set(assumed.assumptions) == {*PROVED, assumptions.ROW_OWNERS, assumptions.SEPARABLE_LOSSES} - SHOWN
    with pytest.raises(separable.NotSeparable, match=r"reduce_sum .* reduces over users"):
        run(by_person(mixed, PERSON), user_axes=0)


def test_a_run_on_the_loss_of_one_row_knows_its_persons_and_compiles_once(compilations):
    run = minimize(by_person(per_user(of_one), PERSON), ROWS, BOX, **group_options(**OPTIONS))
    assert set(run.guarantee.assumptions) == {*PROVED, assumptions.ROW_OWNERS}
    compilations.clear()
    minimize(by_person(per_user(of_one), PERSON), ROWS, BOX, **group_options(**OPTIONS))
    assert compilations["programs"] == 0
    with pytest.raises(ValueError, match="user_axes must not be given where the objective has its own"):
        minimize(by_person(per_user(of_one), PERSON), ROWS, BOX, **group_options(user_axes=0, **OPTIONS))


def test_steps_before_keep_whose_rows_are_public():
    grouped, calls = by_person(in_python, PERSON), []

    def failing(point, rows):
        calls.append(point)
        if len(calls) == 2:
            raise OSError("planted")
        return in_python(point, rows)

    options = {"traceable": False, "key": jax.random.key(0), "insecure_key": True, **OPTIONS}
    with pytest.raises(drivers.RunInterrupted) as caught:
        minimize(by_person(failing, PERSON), ROWS, BOX, **group_options(**options))
    run = minimize(grouped, ROWS, BOX, **group_options(resume=caught.value.snapshot, **options))
    assert {assumptions.ROW_OWNERS, assumptions.SEPARABLE_LOSSES} <= set(run.guarantee.assumptions)


def test_on_record_its_releases_are_given_out_again_and_say_whose_rows_are_public(tmp_path):
    """By a run from Python and by private evaluations; what is not grouped is another spend."""
    ledger.create(tmp_path / "ledger", mu=3)
    grouped = by_person(in_python, PERSON)
    options = {"ledger": Recording(tmp_path / "ledger", "one")}
    first, again = (minimize(grouped, ROWS, BOX, **group_options(**OPTIONS, **options)) for _ in range(2))
    np.testing.assert_array_equal(again.release.point, first.release.point)
    assert assumptions.ROW_OWNERS in first.guarantee.assumptions
    assert again.guarantee == first.guarantee
    with pytest.raises(ledger.LedgerError, match="charged with another spend"):
        minimize(lambda point, rows: grouped(point, rows), ROWS, BOX, **group_options(users=6, **OPTIONS, **options))

    def evaluations():
        return PrivateObjective(
            grouped,
            ROWS,
            users=6,
            mu=1.0,
            evaluations=1,
            loss_range=(0.0, 9.0),
            ledger=Recording(tmp_path / "ledger", "values"),
        )

    value = evaluations()(POINT)
    assert [one.value for one in evaluations().spent] == [value]
    assert assumptions.ROW_OWNERS in evaluations().guarantee.assumptions


def test_equal_ones_are_equal_and_show_no_data():
    one = by_person(in_jax, PERSON)
    assert one == by_person(in_jax, PERSON.tolist()) == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(by_person(in_jax, PERSON))
    others = [by_person(in_jax, PERSON[::-1]), by_person(mixed, PERSON), by_person(in_jax, PERSON, average=False)]
    assert one not in others
    assert repr(one) == "ByPerson(in_jax, 7 rows of 6 persons)"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, PERSON), TypeError, "objective must be a function"),
        ((in_jax, PERSON * 1.0), TypeError, "person_of_row must be integers, got float64"),
        ((in_jax, jax.random.key(0)), TypeError, "person_of_row must be integers, got key"),
        ((in_jax, [0.0, []]), TypeError, "person_of_row must be integers, got object"),
        ((in_jax, PERSON[None]), ValueError, r"person_of_row must have shape \(m,\), got \(1, 7\)"),
        ((in_jax, np.zeros(0, int)), ValueError, r"person_of_row must have shape \(m,\), got \(0,\)"),
        ((in_jax, -PERSON), ValueError, r"person_of_row must be within \[0, 1\), got -5 to 0"),
    ],
)
def test_what_is_no_grouping_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        by_person(*arguments)


@pytest.mark.parametrize("rows", [[np.inf, -np.inf], [1.7e308, 1.7e308], [np.nan, 1.0]])
def test_the_rows_of_a_person_warn_of_nothing(rows):
    objective = by_person(lambda point, data: data, [0, 0, 1])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        found = objective(np.zeros(1), np.array([*rows, 0.5]))
    assert not np.isfinite(found[0])
    assert found[1] == 0.5


def test_a_person_beyond_the_count_and_values_of_other_rows_are_named():
    with pytest.raises(ValueError, match=r"person_of_row must be within \[0, 5\), got 0 to 5"):
        by_person(in_jax, PERSON, persons=5)
    for objective in (in_jax, in_python):
        with pytest.raises(ValueError, match=r"values of 7 rows along the last axis, got shape \(6,\)"):
            by_person(objective, PERSON)(POINT, ROWS[:6])
