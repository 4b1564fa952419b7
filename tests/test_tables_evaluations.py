"""Private evaluations on tables: the values of arrays, each from one scan, and nothing released without a charge."""

import contextlib
import pickle
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxdpbo import PrivateObjective, Recording, ledger, minimize, per_user, run_loop, space, tables
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.drivers import ObjectiveError, RunInterrupted
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.guarantee import guarantees
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.separable import NotSeparable
from jaxdpbo.tables import table as _table

USERS = 201
AGES = np.random.default_rng(0).normal(50, 15, USERS)
ORDER = np.random.default_rng(1).permutation(USERS)
DESIGN = [30.0, 50.0, 70.0]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of 64: a few users fill several."""
    monkeypatch.setattr(_table, "BATCH", 64)


def loss(point, data):
    return np.abs(data["age"] - point)


def loss_in_jax(point, data):
    return jnp.abs(jnp.asarray(data["age"]) - point)


def open_tables(folder):
    pq.write_table(pa.table({"age": AGES[ORDER[:77]]}), folder / "0.parquet", row_group_size=20)
    pq.write_table(pa.table({"age": AGES[ORDER[77:]]}), folder / "1.parquet")
    return [tables.arrays({"age": AGES}), tables.arrays({"age": AGES[ORDER]}), tables.parquet(folder)]


def make(data, function=loss, **options):
    settings = {"users": USERS, "evaluations": 3, "mu": 1.0, "loss_range": (0, 40)} | options
    if "ledger" not in settings:
        settings |= {"key": jax.random.key(3), "insecure_key": True}
    return PrivateObjective(function, data, **settings)


@pytest.mark.parametrize("function", [loss, loss_in_jax])
@pytest.mark.parametrize("options", [{}, {"loss_range": "private", "design": DESIGN}], ids=["range", "private range"])
def test_values_are_those_of_arrays_bit_for_bit(function, options, tmp_path):
    of_arrays = make({"age": jnp.asarray(AGES)}, function, **options)
    expected = [of_arrays(point) for point in DESIGN]
    for table in open_tables(tmp_path):
        of_table = make(table, function, **options)
        assert of_table.loss_range == of_arrays.loss_range
        assert [of_table(point) for point in DESIGN] == expected
    assert len(set(expected)) == 3


def of_params(params, data):
    return loss(params["age"], data)


def test_a_study_on_a_table_has_the_values_of_arrays_and_its_losses_travel_by_pickle():
    def run(data):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        private = private_study(
            study, lambda trial: {"age": trial.suggest_float("age", 30, 70)}, of_params, data, users=USERS,
            evaluations=3, loss_range=(0, 40), mu=1.0, key=jax.random.key(3), insecure_key=True,
        )  # fmt: skip
        private.optimize()
        return [trial.value for trial in study.trials]

    class Copied(_table.ArrayTable):
        def add(self, partial):
            return super().add(pickle.loads(pickle.dumps(partial)))

    assert run(Copied({"age": AGES})) == run({"age": AGES})


def test_a_mean_is_that_of_the_clipped_losses():
    private = make(tables.arrays({"age": AGES}), mu=50.0)
    expected = np.mean(np.clip(np.abs(AGES - 50.0), 0, 40))
    assert abs(private(50.0) - expected) < 6 * private.deviation < 0.1


def test_a_missing_age_is_the_upper_end_of_the_range():
    ages = [[age, np.nan, np.inf] for age in (-np.inf, np.nan)]
    found = [make(tables.arrays({"age": row}), users=3, mu=50.0)(0.0) for row in ages]
    np.testing.assert_allclose(found, [40, 40], atol=3)


def test_the_guarantee_names_what_the_table_assumes():
    class Remote(_table.ArrayTable):
        assumptions = (_assumptions.WIRE, _assumptions.SAME_ROWS)

    columns = {"age": AGES}
    assert not set(Remote.assumptions) & set(make(tables.arrays(columns)).guarantee.assumptions)
    assert set(Remote.assumptions) <= set(make(Remote(columns)).guarantee.assumptions)


def test_a_loss_of_each_row_that_jax_checks_needs_no_assumption_of_separability():
    checked = make(tables.arrays({"age": AGES}), per_user(loss_in_jax, {"age": 0}))
    assert checked(50.0) == make(tables.arrays({"age": AGES}), loss_in_jax)(50.0)
    assert _assumptions.SEPARABLE_LOSSES not in checked.guarantee.assumptions


class Odd(_table.ArrayTable):
    """A scan that goes wrong in a planted way."""

    def __init__(self, plant):
        super().__init__(tables.arrays({"age": AGES})._columns)
        self.plant, self.scans = plant, 0

    def add(self, partial):
        self.scans += 1
        given = list(_table.batches([self._columns]))
        if self.plant == "fails":
            raise tables.TableError("a disk is gone")
        if self.plant == "twice":
            given.append(given[1])
        if self.plant == "missing":
            given.pop(2)
        if self.plant == "ragged":
            given[0] = tables.Batch({"age": given[0].columns["age"][:63]}, given[0].present[:63])
        return _table.add_batches(partial, given)


@pytest.mark.parametrize(
    ("plant", "says"),
    [("fails", "a disk is gone"), ("twice", "265 rows"), ("missing", "137 rows"), ("ragged", "must have 64 rows")],
)
def test_a_scan_that_fails_is_charged_and_releases_nothing(plant, says, tmp_path):
    path = tmp_path / "budget.json"
    ledger.create(path, mu=1.0, protects=guarantees.USERS)
    private = make(Odd(plant), ledger=Recording(path, "ages"))
    with pytest.raises(tables.TableError, match=says):
        private(50.0)
    assert (private.remaining, private.spent) == (2, ())
    again = make(tables.arrays({"age": AGES}), ledger=Recording(path, "ages"))
    assert again.remaining == 2
    value = again(50.0)
    assert make(tables.arrays({"age": AGES}), ledger=Recording(path, "ages")).spent == ((50.0, value),)


@pytest.mark.parametrize("on_record", [True, False])
@pytest.mark.parametrize("change", ["deleted", "replaced", "torn", "linked"])
def test_a_scan_that_fails_before_the_first_row_costs_nothing(change, on_record, tmp_path):
    path, folder = tmp_path / "budget.json", tmp_path / "rows"
    folder.mkdir()
    table, calls = open_tables(folder)[2], []
    if on_record:
        ledger.create(path, mu=1.0, protects=guarantees.USERS)
    private = make(table, lambda point, data: calls.append(1) or loss(point, data),
                   **({"ledger": Recording(path, "ages")} if on_record else {}))  # fmt: skip
    file, kept = folder / "1.parquet", tmp_path / "kept"
    shutil.copy2(file, kept)
    if change == "deleted":
        file.rename(kept)
    elif change == "replaced":
        pq.write_table(pa.table({"age": AGES[:124]}), file)
    elif change == "torn":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        (folder / "2.parquet").symlink_to(file)
    with pytest.raises(tables.UnreadError) as raised:
        private(50.0)
    assert raised.value.__context__ is None
    assert (private.remaining, private.spent, calls) == (3, (), [])
    if change in ("deleted", "linked"):  # then the table is whole again
        kept.rename(file) if change == "deleted" else (folder / "2.parquet").unlink()
        private(50.0)
        assert private.remaining == 2


def test_a_scan_that_fails_after_a_row_is_charged_also_if_a_loss_says_otherwise(tmp_path):
    def failing(point, data):
        if np.any(data["age"] > 90):
            raise tables.UnreadError("no row was read")
        return loss(point, data)

    private = make(tables.arrays({"age": [20.0] * 200 + [95.0]}), failing)
    with pytest.raises(tables.TableError) as raised:
        private(50.0)
    assert not isinstance(raised.value, tables.UnreadError)
    assert private.remaining == 2
    folder = tmp_path / "rows"
    folder.mkdir()
    private = make(open_tables(folder)[2], lambda point, data: (folder / "1.parquet").unlink(missing_ok=True)
                   or loss(point, data))  # fmt: skip
    with pytest.raises(tables.TableError) as raised:
        private(50.0)
    assert not isinstance(raised.value, tables.UnreadError)
    assert private.remaining == 2


def test_losses_of_another_shape_are_charged_since_rows_may_decide_it():
    private = make(tables.arrays({"age": AGES}), lambda point, data: np.mean(loss(point, data)))
    with pytest.raises(tables.TableError, match="one loss for each row") as raised:
        private(50.0)
    assert raised.value.__context__ is None
    assert private.remaining == 2


@pytest.mark.parametrize("kind", [ValueError, ObjectiveError, KeyboardInterrupt])
def test_a_loss_that_raises_is_charged(kind):
    def failing(point, data):
        raise kind("no")

    private = make(tables.arrays({"age": AGES}), failing)
    with pytest.raises(kind, match="no"):
        private(50.0)
    assert private.remaining == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"users": 200}, "users must be the 201 users of the table, got 200"),
        ({"noise": "float"}, "needs noise='exact'"),
        ({"mu": np.inf}, "finite budget"),
        ({"user_axes": {"age": None}}, "user_axes must be 0"),
    ],
)
def test_what_a_table_cannot_do_is_refused_before_a_scan(options, says):
    table = Odd("")
    with pytest.raises(ValueError, match=says):
        make(table, **options)
    assert table.scans == 0


def test_a_loss_cannot_change_the_table():
    def change(point, data):
        data["age"] = data["age"] + 1
        return data["age"]

    table = tables.arrays({"age": AGES})
    make(table, change)(0.0)
    np.testing.assert_array_equal(table._columns["age"], AGES)


@pytest.mark.parametrize("spoken", ["debug", "raise"])
@pytest.mark.parametrize("function", [run_loop, minimize])
def test_a_traced_loss_says_nothing_of_rows(spoken, function, capfd, caplog):
    """A callback inside of a program prints, and JAX logs what it raises."""

    def speak(age):
        if spoken == "raise":
            raise ValueError(f"secret {age}")
        print("secret", age)

    def told(point, data):
        ages = data["age"]
        if spoken == "raise":
            shape = jax.ShapeDtypeStruct((), ages.dtype)
            ages = ages + jax.pure_callback(speak, shape, ages[7], vmap_method="sequential")
        else:
            jax.debug.callback(speak, ages[7])
        return jnp.abs(ages - point["age"] if isinstance(point, dict) else ages - point[0]) / 100

    table = tables.arrays({"age": AGES})
    options = {"key": jax.random.key(0), "insecure_key": True}
    with contextlib.ExitStack() as stack:
        if spoken == "raise":
            stack.enter_context(pytest.raises(RunInterrupted))
        if function is run_loop:
            chosen = dp_gibo.config(users=USERS, steps=1, mu=1.0, bounds=[(0, 99)], memory="none")
            run_loop(dp_gibo.algorithm, told, table, chosen, **options)
        else:
            minimize(told, table, {"age": space.real(0, 99)}, mu=1.0, loss_range=(0, 1), **options)
    assert "secret" not in "".join(capfd.readouterr()) + caplog.text


@pytest.mark.parametrize("in_table", [False, True])
def test_a_loss_that_mixes_users_is_refused_before_the_charge(in_table, tmp_path):
    """It is a fact of code and shapes. Before, it cost an evaluation, and a mended loss could not go on."""
    data = tables.arrays({"age": AGES}) if in_table else {"age": jnp.asarray(AGES)}
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=3.0)

    def mixed(point, data):
        return jnp.abs(data["age"] - jnp.mean(data["age"]) - point)

    options = {"ledger": Recording(path, "run"), "user_axes": 0}
    objective = make(data, mixed, **options)
    for _ in range(2):
        with pytest.raises(NotSeparable):
            objective(50.0)
        assert objective.remaining == 3
    with pytest.raises(NotSeparable):
        make(data, mixed, user_axes=0, ledger=Recording(path, "design"), loss_range="private", design=DESIGN)
    assert make(data, loss_in_jax, **options)(50.0) < 40  # under the same name: no loss was on record
    chosen = dp_gibo.config(users=USERS, steps=1, mu=1.0, bounds=[(0, 99)], memory="none")
    with pytest.raises(NotSeparable):
        run_loop(dp_gibo.algorithm, lambda point, data: mixed(point[0], data), data, chosen,
                 user_axes=0, ledger=Recording(path, "loop"))  # fmt: skip
    assert [entry.run for entry in ledger.account(path).spends] == ["run"]
