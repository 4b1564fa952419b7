"""Calls that a beginner gets wrong: each is answered by a sentence that says what to type, before anything is spent.

Like scikit-learn's ``check_estimator``: a table of calls, for all functions. An answer names the argument, is
our own, quotes no record, and comes before the charge.
"""

import pickle
import re
import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from jaxdpbo import PrivateObjective, Recording, Search, ledger, minimize, per_user, space, tables
from jaxdpbo.commands import main
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor, PrivateSearchCV
from jaxdpbo.surrogate import box_search
from jaxdpbo.tables import engine
from jaxdpbo.tables.table import TableError, UnreadError

SECRET = 0.987654321
DATA = np.full(40, SECRET)
FRAME = pandas.DataFrame({"age": np.full(40, SECRET), "sex": ["f", "m"] * 20})
LABELS = ["no", "yes"] * 20
COLUMNS = {"age": space.real(0, 120), "sex": space.categorical("f", "m")}
BUDGET = {"epsilon": 1, "delta": 1e-5}


def loss(point, data):
    return abs(data - point[0])


def paid(folder):
    return {"ledger": Recording(folder.parent / "book", "a")}


def search(loss=loss, data=DATA, space=((0, 1),), **options):
    return lambda folder: minimize(loss, data, space, **(BUDGET | ({} if "key" in options else paid(folder)) | options))


def model(columns=COLUMNS, X=FRAME, y=LABELS, **options):
    return lambda folder: PrivateClassifier(columns, **({"classes": ("no", "yes")} | BUDGET | options)).fit(X, y)


def tuned(searched=None, **options):
    return lambda folder: PrivateSearchCV(
        LogisticRegression(), {"C": space.real(0.1, 1)} if searched is None else searched, **(BUDGET | options)
    ).fit(DATA[:, None], LABELS)


def evaluated(**options):
    given = {"users": 40, "evaluations": 3, "loss_range": (0, 1)} | options
    return lambda folder: PrivateObjective(loss, DATA, **given)


def in_table(loss):
    return lambda folder: minimize(
        loss, tables.arrays({"x": DATA}), [(0, 1)], loss_range=(0, 1), **paid(folder), **BUDGET
    )


def opened(name, content):
    """A folder of a Parquet file and another file."""

    def call(folder):
        pq.write_table(pa.table({"x": DATA}), folder / "a.parquet")
        (folder / name).write_bytes(content)
        return tables.parquet(folder)

    return call


def changed(folder):
    for name in "ab":
        pq.write_table(pa.table({"x": DATA}), folder / f"{name}.parquet")
    table = tables.parquet(folder)
    pq.write_table(pa.table({"x": DATA[1:]}), folder / "b.parquet")
    return table.add(lambda batch: np.zeros(1, int))


def doubled(folder):
    pq.write_table(pa.Table.from_arrays([pa.array(DATA)] * 2, names=["a", "a"]), folder / "a.parquet")
    return tables.parquet(folder)


class Holding:
    """A loss with a lock, or a connection."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, point, data):
        return abs(data - point[0])


def with_processes(folder):
    with ProcessPoolExecutor(1) as executor:
        return search(Holding(), loss_range=(0, 1), executor=executor)(folder)


TWICE = pandas.DataFrame(np.zeros((40, 2)), columns=["a", "a"])
REAL = r"must be real\(low, high\).* got \(0, 1(20)?\): type space\.real\(0, 1(20)?\), or space\.integer"
CALLS = {
    "no budget": (lambda folder: minimize(loss, DATA, [(0, 1)]), "mu must be given, or epsilon and delta"),
    "no delta": (lambda folder: minimize(loss, DATA, [(0, 1)], epsilon=1), "delta must be given with epsilon"),
    "two budgets": (search(mu=1.0), "mu, or epsilon and delta, must be given, not both"),
    "epsilon as text": (search(epsilon="1"), "epsilon must be one real number, got '1'"),
    "a large delta": (search(delta=0.1), r"delta must be below one .*write delta=jaxdpbo\.LargeDelta\(0\.1\)"),
    "a seed": (search(seed=1), r"minimize takes no seed: .*; key= is for tests"),
    "SciPy's bounds": (search(bounds=[(0, 1)]), "minimize takes no bounds: type space="),
    "steps beside the search": (search(steps=9), r"minimize takes no steps: type search=Search\(steps=\.\.\.\)"),
    "another argument": (search(colour=3), r"minimize takes no colour: see help\(jaxdpbo\.minimize\)"),
    "a pair as a space": (search(space=(0, 1)), r"space must be pairs \(low, high\), one a parameter"),
    "a pair as a dimension": (search(space={"x": (0, 1)}), f"x {REAL}"),
    "ends in reverse": (search(space=[(1, 0)]), "space must have lower < upper in each coordinate"),
    "an open end": (search(space=[(0, np.inf)]), "space must be finite"),
    "two by two": (search(space=[(0, 1), (0, 1)]), r"space of shape \(2, 2\) may be pairs or rows: write \{'low'"),
    "the mean of the losses": (search(lambda p, d: abs(d - p[0]).mean()), "one loss per user, not their mean"),
    "a loss of a point alone": (
        search(lambda point: point),
        "loss must take a point and data, in this order, got the arguments point",
    ),
    "evaluations of a loss of a point alone": (
        lambda folder: PrivateObjective(abs, DATA, users=40, evaluations=3, loss_range=(0, 1), mu=1.0),
        "loss must take a point and data, in this order, got the arguments x",
    ),
    "a number as a loss": (search(3), "loss must be a function of a point and data, got int"),
    "a list of records": (search(data=[1.0, 2.0]), r"data must not hold lists.* numpy\.asarray\(data\)"),
    "a path as data": (search(data="a.parquet"), r"data must be users' records, not a path: type tables\.parquet"),
    "columns of two lengths": (search(data={"a": DATA, "b": DATA[:3]}), "users must be given .*: type users=n, or"),
    "a wrong number of users": (search(users=39), r"loss must return losses of shape \(39,\), got \(40,\)"),
    "one number as a range": (search(loss_range=1), r"loss_range must be two numbers \(low, high\), got 1"),
    "another range": (evaluated(loss_range="auto", mu=1.0), r"loss_range must be given: type \(low, high\).*'auto'"),
    "no range": (evaluated(loss_range=None, mu=1.0), r"loss_range must be given: type \(low, high\).* None"),
    "evaluations without a budget": (evaluated(), "mu must be given, or epsilon and delta"),
    "a method as the search": (search(search="local"), r"must be a Search, got str: type search=Search\(method="),
    "an unknown method": (search(search=Search(method="bayes")), "method must be one of 'auto', 'local'"),
    "a number as a key": (search(key=0), r"key must be a typed key such as jax\.random\.key\(seed\)"),
    "a path as the ledger": (search(ledger="book"), r"ledger must be Recording\(path, run\), got str"),
    "no such ledger": (
        lambda folder: search(ledger=Recording(folder / "none", "a"))(folder),
        r"there is no ledger \(ledger\.create begins one\)",
    ),
    "a loss of one user that is none": (lambda folder: per_user(3), "loss must be a function of a point and a record"),
    "a model without columns": (model(None), r"columns must give the range .*'age', 'sex': columns=\{\"age\": space"),
    "a pair in the wrong order": (
        model({"age": (120, 0), "sex": ["f", "m"]}),
        r"columns\['age'\]: low must be less than high, got 120",
    ),
    "a column left out": (model({"age": space.real(0, 1)}), "columns must give .* of 'sex'.*None leaves a column out"),
    "a label as all classes": (model(classes="yes"), r"classes must list all labels, such as classes=\('no', 'yes'\)"),
    "rows in a list": (model(X=[[1, 2]] * 40), "X must be a data frame of pandas or polars, or an array, got list"),
    "no targets": (model(y=None), "PrivateClassifier requires y to be passed"),
    "two columns of a name": (model({"a": space.real(0, 1)}, TWICE), "X must have a different name for each column"),
    "a regression without a range": (
        lambda folder: PrivateRegressor(COLUMNS, **BUDGET).fit(FRAME, DATA),
        r"target_range must be given: type target_range=\(0, 100\)",
    ),
    "scikit-learn's grid": (tuned(param_grid={"C": [1]}), r"takes no param_grid: give space=\{\.\.\.\}"),
    "scikit-learn's scoring": (tuned(scoring="accuracy"), "takes no scoring: .* give loss='zero_one'"),
    "five folds": (tuned(cv=5), r"cv must be one split, such as ShuffleSplit\(1\)"),
    "a parameter misspelt": (tuned({"Q": space.real(0.1, 1)}), "Invalid parameter 'Q' for estimator"),
    "a scalar loss of a table": (
        in_table(lambda point, batch: abs(batch["x"] - point[0]).mean()),
        r"loss must return one loss for each row of a batch, shape \(\d+,\), got \(\): leave out the mean",
    ),
    "a README in the folder": (opened("README.md", b"# Visits"), r"/README\.md is missing, or no Parquet file: leave"),
    "half a file in the folder": (opened("b.parquet.tmp", b"PAR1"), r"/b\.parquet\.tmp is no Parquet file: leave it"),
    "no such file": (lambda folder: tables.parquet(folder / "no.parquet"), r"/no\.parquet is missing, or no Parquet"),
    "a file that changed": (changed, r"/b\.parquet has changed since the table was opened: open the table again"),
    "two headers of a name": (doubled, r"/a\.parquet has two columns 'a': rename one"),
    "a lock in the loss": (with_processes, "loss must be pickled for the processes of executor, and cannot be .*: de"),
    "another search of the surrogate": (
        lambda folder: box_search.make_search(Search()),
        r"search must be a surrogate\.BoxSearch, such as BoxSearch\(raw_samples=100\), got Search",
    ),
    "ends of a dimension in reverse": (lambda folder: space.real(1, 0), "low must be less than high, got 1.0, 0.0"),
    "zero on a logarithm": (lambda folder: space.real(0, 1, log=True), "low must be positive where log=True, got 0.0"),
}  # fmt: skip
OURS = TypeError, ValueError, TableError, FileNotFoundError


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_answered_by_what_to_type(name, tmp_path):
    call, answer = CALLS[name]
    ledger.create(tmp_path / "book", mu=9)
    (folder := tmp_path / "files").mkdir()
    with pytest.raises(OURS, match=answer) as refused:
        call(folder)
    said = str(refused.value)
    assert len(said.splitlines()) == 1, said
    assert str(SECRET) not in said
    assert not ledger.account(tmp_path / "book").spends


def test_there_are_forty_and_each_answer_differs():
    assert len(CALLS) >= 40
    assert len({answer for _, answer in CALLS.values()}) > 40


def test_all_that_a_first_model_lacks_is_said_at_once():
    with pytest.raises(TypeError) as refused:
        PrivateClassifier({"age": [0, [120]], "sex": ["f", "m"]}).fit(FRAME, LABELS)
    lines = str(refused.value).splitlines()
    assert [line.split()[0] for line in lines] == ["columns['age']:", "classes", "epsilon", "delta"]
    assert "got (0, 'list_1')" in lines[0]
    assert lines[2].endswith("epsilon=1, the budget of the whole fit")
    with pytest.raises(ValueError, match="columns must give") as refused:  # of another type, so one of both
        PrivateClassifier().fit(FRAME, LABELS)
    assert len(str(refused.value).splitlines()) == 4
    with pytest.raises(ValueError, match=r"(?s)columns must.*target_range must.*epsilon must.*delta must"):
        PrivateRegressor().fit(FRAME, DATA)


def test_a_loss_that_cannot_travel_is_refused_by_engines_whose_workers_are_processes():
    class Remote(engine.EngineTable):
        engine = "ray"

        def __init__(self):
            super().__init__(40, ["x"])

        _sums = _sums_of_people = _count = None

    held = engine.PickledOnce((Holding(),))
    with pytest.raises(TypeError, match=r"loss must be pickled for the workers of ray, and cannot be \(TypeError\)"):
        engine.expect_travels(Remote(), held)
    engine.expect_travels(tables.arrays({"x": DATA}), held)
    assert pickle.loads(pickle.dumps(engine.PickledOnce((loss,)))).objects[0](np.ones(1), 3) == 2


def test_a_reader_or_an_engine_that_fails_is_no_fault_of_the_points_shape():
    class Failing(type(tables.arrays({"x": DATA}))):
        def add(self, partial):
            raise UnreadError("partition 3 failed in a worker: MemoryError")

    table = Failing({"x": DATA.astype(float)})
    with pytest.raises(TableError, match="partition 3 failed") as failed:
        minimize(
            lambda point, batch: abs(batch["x"] - point[0]), table, [(0, 1)], loss_range=(0, 1),
            search=Search(method="evaluations", steps=2, batch=1), **BUDGET,
        )  # fmt: skip
    assert "was called with a point of shape" not in str(getattr(failed.value, "__notes__", ""))


COMMANDS = {
    "silo roster s.csv": r"s\.csv: .*; give the cards that `jaxdpbo silo init` wrote, NAME\.card\.json",
    "tune s.csv --target a --estimator sklearn.nope.X --space C=real:0.1:1 --epsilon 1 --delta 1e-5": (
        "estimator must be an import path such as sklearn.svm.SVC, got 'sklearn.nope.X'"
    ),
    "tune d.csv --target a --estimator sklearn.svm.SVC --space C=real:0.1:1 --epsilon 1 --delta 1e-5": (
        "the table has two or more columns 'a'"
    ),
    "ledger report none.jsonl": r"there is no ledger \(ledger\.create begins one\)",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_wrong_command_is_answered_by_a_line(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("a,b\n1,2\n2,3\n4,5\n")
    (tmp_path / "d.csv").write_text("a,a\n1,2\n2,3\n4,5\n")
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    said = f"{ended.value}\n{capsys.readouterr().err}"
    assert re.search(COMMANDS[words], said)
    assert "Traceback" not in said
