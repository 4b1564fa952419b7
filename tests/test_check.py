"""``check``, the owner's own look: right counts, one engine, and nothing that a run calls, spends or writes."""

import argparse
import ast
import datetime
import pickle
import re
from pathlib import Path

import dask.dataframe
import jax.numpy as jnp
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import jaxdpbo
from jaxdpbo import (
    Recording,
    Search,
    by_person,
    check,
    dp_gibo,
    ledger,
    minimize,
    not_private,
    silos,
    space,
    tables,
    transforms,
)
from jaxdpbo.commands import curator
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor
from jaxdpbo.tuning import private_steps

PACKAGE = Path(jaxdpbo.__file__).parent
DOORS = {
    "commands.curator", "drivers.__init__", "drivers.owner_check", "integrations.sklearn.private_models", "silos.silo",
    "tables.engine", "tables.parquet_table", "tables.people", "tables.sources", "tables.table", "transforms.curation",
}  # fmt: skip
FUNCTIONS = {"jaxdpbo", "jaxdpbo.drivers", "jaxdpbo.drivers.owner_check", "jaxdpbo.transforms.curation"}
AGES = [31, None, "x", 540, "12", -1]


def counts(found):
    return {(each.where, each.what): each.found for each in found.findings}


def write(folder, columns):
    path = folder / "one.parquet"
    pq.write_table(pa.table(columns), path)
    return path


# -- What is counted --------------------------------------------------------------------------------------------------


def test_the_first_line_says_not_private_and_the_last_that_mended_ranges_are_not_public():
    found = tables.arrays({"age": [1.0, None]}).check()
    for text in (str(found), repr(found)):
        assert text.splitlines()[0].startswith("NOT PRIVATE")
        assert "no longer public" in text.splitlines()[-1]
    assert type(found).__name__.startswith("NotPrivate")
    clean = tables.arrays({"age": [1.0, 2.0]}).check()
    assert not_private.FOUND_NOTHING in str(clean)
    assert clean.findings == ()


def test_models_count_cells_labels_and_targets():
    frame = pandas.DataFrame({"age": AGES, "sex": ["f", "F", " m", None, b"f", 3], "id": range(6)})
    columns = {"age": space.real(0, 120), "sex": ["f", "m"], "id": None}
    budget = {"epsilon": 1.0, "delta": 1e-5}
    model = PrivateClassifier(columns, classes=("no", "yes"), **budget)
    expected = {
        ("labels", "none of the listed ('no', 'yes')"): 2,
        ("labels", "missing"): 1,
        ("column 'age'", "missing"): 1,
        ("column 'age'", "no number"): 1,
        ("column 'age'", "below 0.0"): 1,
        ("column 'age'", "above 120.0"): 1,
        ("column 'sex'", "none of the listed ('f', 'm')"): 2,
        ("column 'sex'", "missing"): 1,
    }
    found = model.check(frame, ["no", "Yes", None, "yes ", "?", b"no"])
    assert counts(found) == expected
    assert found.rows == 6
    assert not [name for name in vars(model) if name.endswith("_")]
    regressor = PrivateRegressor(columns, target_range=space.real(0, 2000, thousands=","), **budget)
    found = counts(regressor.check(frame, ["1,234", "5,5", None, 3000, -1, 7]))
    of_targets = {key: count for key, count in found.items() if key[0] == "targets"}
    assert of_targets == {
        ("targets", "missing"): 1, ("targets", "no number"): 1, ("targets", "below 0.0"): 1,
        ("targets", "above 2000.0"): 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match="columns must give the range"):
        PrivateClassifier({}, classes=("no", "yes"), **budget).check(frame, ["no"] * 6)


def test_a_plant_is_seen(monkeypatch):
    """Counts of a check that reads labels by their spelling, as ``score`` did once, are others."""
    frame, labels = pandas.DataFrame({"age": [1.0] * 3}), ["no", " yes", "no"]
    model = PrivateClassifier({"age": space.real(0, 9)}, classes=("no", "yes"), epsilon=1, delta=1e-5)
    assert counts(model.check(frame, labels)) == {}
    monkeypatch.setattr(not_private.cells, "category_numbers", lambda choices, column: np.array(
        [choices.index(value) if value in choices else -1 for value in column]))  # fmt: skip
    assert sum(counts(model.check(frame, labels)).values()) == 1


def loss(point, data):
    return jnp.abs(data["age"] - point[0])


def loss_in_python(point, data):
    return [abs(age - point[0]) for age in np.asarray(data["age"]).tolist()]


@pytest.mark.parametrize("function", [loss, loss_in_python])
@pytest.mark.parametrize("in_table", [True, False])
def test_a_search_counts_losses_at_three_points(function, in_table, float32):
    ages = {"age": np.array([31.0, np.nan, 54.0, np.inf, 180.0])}
    found = check(function, tables.arrays(ages) if in_table else ages, [(0, 120)], loss_range=(0, 100))
    at = {where: {what: count for (there, what), count in counts(found).items() if there == where}
          for where in ("at [30.0]", "at [60.0]", "at [90.0]")}  # fmt: skip
    nonfinite = "losses that are no finite number"
    assert at == {
        "at [30.0]": {nonfinite: 2, "losses above 100.0": 1},
        "at [60.0]": {nonfinite: 2, "losses above 100.0": 1},
        "at [90.0]": {nonfinite: 2},
    }
    assert counts(found)["at all points", not_private.SAME] == 2  # no number anywhere
    where = "column 'age'" if in_table else "data['age']"
    assert [count for (there, _), count in counts(found).items() if there == where] == [1]
    assert found.rows == 5


def test_a_search_in_a_space_and_of_odd_data():
    named = check(lambda params, data: jnp.full(3, params["rate"]), np.zeros(3), {"rate": space.real(1, 3)})
    assert counts(named) == {}
    assert {each.where for each in not_private.loss_findings(["x"], np.zeros(4, int), (0, 1), 3)} == {
        "at x",
        "at all points",
    }
    odd = check(lambda point, data: data[:, 0], np.array([[1, "a"], [None, 2]], object), [(0, 1)])
    assert counts(odd)["data", "no number"] == 1
    assert counts(odd)["data", "missing"] == 1
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    assert counts(check(lambda point, data: data, masked, [(0, 1)]))["data", "missing"] == 1
    listed = check(lambda point, data: [each * point[0] for each in data], [1.0, np.nan], [(0, 1)], users=2,
                   traceable=False)  # fmt: skip
    assert counts(listed)["at [0.5]", "losses that are no finite number"] == 1
    with pytest.raises(KeyError, match="agee"):  # the owner reads the loss's own error
        check(lambda point, data: data["agee"], tables.arrays({"age": [1.0]}), [(0, 1)])


def test_people_without_rows_are_counted():
    objective = by_person(lambda point, data: jnp.abs(data - point[0]), np.array([0, 0, 2]), persons=4)
    found = check(objective, np.arange(3.0), [(0, 1)])
    assert found.rows == 3
    assert counts(found)["people", "people without a row"] == 2


def test_numbers_that_32_bits_change_are_counted(tmp_path, float32):
    data = {"cents": np.array([3 * 10**9, 5, -(2**31)]), "time": np.array([1_700_000_001.0, 2.0, 2**25])}
    dates = np.array(["2024-01-01T00:00:01", "NaT", "2024-01-01T00:00:00"], "datetime64[s]")
    of_dates = check(lambda point, data: data * point[0], dates, [(0, 1)])
    assert [each.found for each in of_dates.findings if each.what in (not_private.ROUNDED, "missing")] == [1, 1]
    days = np.array([datetime.date(2024, 1, 1), None, "x", "3"], object)
    of_days = check(lambda point, data: data * point[0], days, [(0, 1)])
    assert [each[1:3] for each in of_days.findings if each.where == "data"] == [("missing", 1), ("no number", 1)]
    found = counts(check(lambda point, data: data["time"] * point[0], data, [(0, 1)]))
    assert found["data['cents']", not_private.CLIPPED] == 1
    assert found["data['time']", not_private.ROUNDED] == 1
    path = write(tmp_path, data)
    assert counts(tables.parquet(path).check()) == {("column 'time'", not_private.ROUNDED): 1}  # 3e9 is a float
    named = tables.parquet(path, {"moment": pc.field("time"), "later": pc.field("time") + 1})
    assert counts(named.check()) == {("column 'moment'", not_private.ROUNDED): 1}  # what is computed is the author's


def test_files_count_cells_by_their_sources(tmp_path):
    columns = {"ward": ["east", "West", None, "west"], "paid": ["1,5", "1.5", None, "2000"], "age": [-1, 50, 200, None],
               "start": [1, 2, 3, 4], "end": [5, None, 2**63 - 1, -(2**63)]}  # fmt: skip
    given = {
        "ward": ["west", "east"],
        "paid": space.real(0, 1000, decimal=","),
        "age": space.integer(0, 120),
        "stay": pc.field("end") - pc.field("start"),
    }
    assert counts(tables.parquet(write(tmp_path, columns), given).check()) == {
        ("column 'ward'", "none of the listed ('west', 'east')"): 1,
        ("column 'ward'", "missing"): 1,
        ("column 'paid'", "no number"): 1,
        ("column 'paid'", "missing"): 1,
        ("column 'paid'", "above 1000.0"): 1,
        ("column 'age'", "missing"): 1,
        ("column 'age'", "below 0"): 1,
        ("column 'age'", "above 120"): 1,
        ("column 'stay'", "missing"): 2,  # one overflows
    }


ROWS = {"who": [0, 0, 0, 7, -1, 2, 10**15], "x": [1.0, 2.0, 3.0, 4.0, 5.0, None, 7.0]}


def test_files_count_rows_and_people_that_are_left_out(tmp_path):
    """Of ../shared's kind: hashed ids, of which no row is a person's."""
    table = tables.parquet(write(tmp_path, ROWS), person="who", users=4, max_rows=2)
    found = table.check()
    assert found.rows == 7
    assert counts(found) == {
        ("rows", "rows of nobody, with a 'who' outside of [0, users)"): 3,
        ("rows", "rows beyond the first 2 of a person"): 1,
        ("people", "people without a row"): 2,
        ("column 'x'", "missing"): 1,
    }
    searched = check(lambda point, batch: jnp.nanmean(batch["x"], axis=1), table, [(0, 1)])
    assert counts(searched)["at [0.5]", "losses that are no finite number"] == 3
    assert searched.rows == 7


def test_an_engine_counts_in_its_workers():
    frame = dask.dataframe.from_pandas(pandas.DataFrame(ROWS), npartitions=2)
    table = tables.dask(frame, person="who", users=4, max_rows=2)
    found = check(lambda point, batch: jnp.nanmean(batch["x"], axis=1), table, [(0, 1)])
    assert counts(found)["column 'x'", "users without a number"] == 3
    assert counts(found)["at [0.5]", "losses that are no finite number"] == 3
    assert [each.found for each in found.findings if each.where == "rows"] == [5]  # 3 of nobody, 1 beyond, 1 empty
    assert found.rows == 7
    plain = tables.dask(frame, columns=["x"]).check()
    assert counts(plain) == {("column 'x'", "users without a number"): 1}


def test_a_curator_counts_rows_that_move():
    config = transforms.product_laplace(centre=[1.0, 1.0], scale=2.0, epsilon=1.0, radius=1.0)
    found = transforms.check(config, [[1.0, 3.0], [1.0, 3.1], ["x", 0.0], [1.0, 2.0, 3.0], [np.inf, 1.0]])
    assert [each.found for each in found.findings] == [3, 1]
    free = transforms.product_laplace(centre=[1.0, 1.0], scale=2.0, epsilon=1.0)
    assert counts(transforms.check(free, [[1e9, 0.0]])) == {}
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        transforms.check(free, np.zeros((3, 4)))


def test_a_curator_of_a_csv_file_asks_its_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a,b,gain\n1,2,0.5\n,2,x\n9,9,1\n")
    options = [
        "--inputs",
        "a,b",
        "--output",
        "gain",
        "--centre",
        "0,0",
        "--unit",
        "1",
        "--radius",
        "5",
        "--epsilon",
        "1",
    ]
    parser = argparse.ArgumentParser()
    curator.add_arguments(parser)
    curator.run(parser.parse_args(["rows.csv", *options, "--check"]), parser)
    printed = capsys.readouterr().out
    assert "NOT PRIVATE" in printed
    for line in (
        "rows: 1 of 3 with a coordinate that is no finite number", "rows: 1 of 3 outside of the radius 5.0",
        "column 'a': 1 of 3 missing", "column 'gain': 1 of 3 no number",
    ):  # fmt: skip
        assert line in printed
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    with pytest.raises(SystemExit):
        curator.run(parser.parse_args(["--epsilon", "1", "--check"]), parser)


# -- What a check is not ----------------------------------------------------------------------------------------------


def test_a_check_spends_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tables.parquet(write(tmp_path, {"x": [1.0, None]}))
    cards = [silos.create_identity(tmp_path, name, users=2) for name in ("Bern", "Zug")]
    config = dp_gibo.config(users=4, steps=2, mu=1.0, bounds=[(0, 9)], clip_norm=1.0, memory="none")
    agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    ledger.create(tmp_path / "budget.jsonl", mu=2)
    silo = silos.Silo(agreement, lambda point, batch: abs(batch["x"] - point[0]), table, name="Bern", folder=tmp_path,
                      ledger=tmp_path / "budget.jsonl")  # fmt: skip
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    found = silo.check()
    assert counts(found)["at [4.5]", "losses that are no finite number"] == 1
    table.check()
    check(lambda point, batch: batch["x"], table, [(0, 1)])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert ledger.account(tmp_path / "budget.jsonl").spends == ()


def callers(source):
    """Functions that call a ``check``: a method, or a function of this name that another module has."""
    nodes = list(ast.walk(ast.parse(source)))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module in FUNCTIONS]
    imported = any(alias.name == "check" for node in imports for alias in node.names)
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            called = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
            attributes = {ast.unparse(each) for each in called if isinstance(each, ast.Attribute)}
            methods = any(
                each.endswith(".check") for each in attributes - {"kernels.check"}
            )  # of a kernel's parameters
            functions = any(isinstance(each, ast.Name) and each.id == "check" for each in called)
            if methods or (imported and functions):
                yield node.name


def test_no_run_calls_a_check():
    """Read in the source: the engine has known doors, and only a ``check`` calls another."""
    engine = re.compile(r"^\s*(from jaxdpbo import .*\bnot_private\b|from jaxdpbo\.not_private)", re.MULTILINE)
    for path in PACKAGE.rglob("*.py"):
        source, name = path.read_text(), ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        assert bool(engine.search(source)) is (name in DOORS), name
        assert set(callers(source)) <= {"check"}, name
    for planted in ("def fit(X):\n    model.check(X)", "from jaxdpbo import check\ndef fit(X):\n    check(X)"):
        assert set(callers(planted)) == {"fit"}


def test_runs_end_where_no_check_can_be_made(tmp_path, monkeypatch):
    """Run with an engine that raises: a run that called it would fail."""

    def fail(*_, **__):
        raise AssertionError("a run looked at rows without noise")

    for name in ("make_check", "count_cells", "count_narrowed", "count_losses", "loss_findings"):
        monkeypatch.setattr(not_private, name, fail)
    with pytest.raises(AssertionError, match="a run looked"):  # planted
        tables.arrays({"x": [1.0]}).check()
    table = tables.parquet(write(tmp_path, {"x": np.arange(9.0)}))
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=2)
    options = {"mu": 1.0, "loss_range": (0, 9), "search": Search(method="in_order", steps=2)}
    minimize(lambda point, batch: batch["x"] + point[0], table, [(0, 1)], ledger=Recording(path, "a"), **options)
    minimize(lambda point, data: data + point[0], np.arange(9.0), [(0, 1)], **options)
    monkeypatch.setattr(private_steps, "train_by_steps", lambda *_, **__: 1 / 0)
    frame, budget = pandas.DataFrame({"x": np.arange(300.0)}), {"epsilon": 1.0, "delta": 1e-5}
    for model in (
        PrivateClassifier(space.real(0, 9), classes=(0, 1), **budget),
        PrivateRegressor(space.real(0, 9), target_range=(0, 1), **budget),
    ):
        with pytest.raises(ZeroDivisionError):  # all that a fit reads before it trains
            model.fit(frame, np.ones(300))
    config = transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=5.0)
    transforms.curate(None, config, np.zeros((3, 2)))


def test_a_check_of_files_survives_a_pickle_of_its_table(tmp_path):
    table = pickle.loads(pickle.dumps(tables.parquet(write(tmp_path, {"x": ["a", "c"]}), {"x": ["a", "b"]})))
    assert counts(table.check()) == {("column 'x'", "none of the listed ('a', 'b')"): 1}
