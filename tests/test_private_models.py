"""``PrivateClassifier`` and ``PrivateRegressor``: tables in, private models out, and nothing of a row beside them."""

import collections
import pickle
import re
import warnings

import jax
import numpy as np
import pandas
import pytest
from oracles import columns as oracle
from sklearn import metrics
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from jaxdpbo import Recording, Search, cells, ledger, minimize, notes, secret_key, space, tuning
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor, layered_training, private_models
from jaxdpbo.integrations.sklearn import columns as _columns
from jaxdpbo.integrations.sklearn.private_models import _read_table, _read_targets
from jaxdpbo.tuning import fitting, private_steps, training

RNG = np.random.default_rng(0)
ROWS = 300
RUN = {"key": jax.random.key(0), "insecure_key": True}
SETTINGS = [{"hidden": (), "learning_rate": rate, "batch": 32, "epochs": 2, "clip_norm": 1.0} for rate in (0.3, 1.0)]
COLUMNS = {
    "age": space.integer(0, 120),
    "income": space.real(1e3, 1e6, log=True),
    "sex": space.categorical("f", "m"),
    "id": None,
}
FRAME = pandas.DataFrame(
    {
        "age": RNG.integers(18, 90, ROWS),
        "income": np.exp(RNG.normal(10, 1, ROWS)),
        "sex": RNG.choice(["f", "m"], ROWS),
        "id": np.arange(ROWS),
    }
)
LABELS = np.where(FRAME["age"] > 50, "yes", "no")
BUDGET = {"epsilon": 8.0, "delta": 1e-4}


def classifier(columns=COLUMNS, **options):
    options = {"classes": ("no", "yes"), "settings": SETTINGS, **RUN, **BUDGET} | options
    return PrivateClassifier(columns, **options)


def regressor(columns=COLUMNS, **options):
    options = {"target_range": (0, 120), "settings": SETTINGS, **RUN, **BUDGET} | options
    return PrivateRegressor(columns, **options)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(FRAME, LABELS)


# -- Columns ----------------------------------------------------------------------------------------------------------


def encoded(frame, columns=COLUMNS):
    encoding = _columns.make_encoding(columns, list(frame.columns))
    return _columns.encode(encoding, [np.asarray(frame[name], dtype=object) for name in frame.columns])


def test_features_are_those_of_the_oracle():
    ages = [-5.0, 0.0, 33.3, 120.0, 1e9, None, np.inf, None]
    incomes = [1e3, 5e4, 1e6, 0.0, None, 77_777.0, 2e3, -np.inf]
    sexes = ["f", "m", None, "x", "f", "m", "f", None]
    frame = pandas.DataFrame({"age": ages, "income": incomes, "sex": sexes})
    columns = {name: COLUMNS[name] for name in frame.columns}
    dimensions = [("number", 0, 120, False), ("number", 1e3, 1e6, True), ("category", "f", "m")]
    expected = oracle.features([ages, incomes, sexes], dimensions, _columns._frequencies(2))
    np.testing.assert_allclose(encoded(frame, columns), expected, atol=1e-6)
    assert encoded(frame, columns).shape[1] == _columns.make_encoding(columns, list(frame)).width


class Hostile:
    """Raises in every method that a conversion might call."""

    def _raise(self, *args):
        raise RuntimeError("private")

    __float__ = __eq__ = __str__ = __repr__ = __array__ = __bool__ = __hash__ = _raise


@pytest.mark.parametrize(
    "odd",
    ["12 kg", "", None, float("nan"), pandas.NA, 2**80, -(2**2000), [1, 2], b"x", 1j, np.datetime64("2020"), Hostile],
    ids=["text", "empty", "none", "nan", "na", "long", "longer", "list", "bytes", "complex", "date", "hostile"],
)  # fmt: skip
def test_an_odd_value_never_raises_and_moves_no_other_row(odd):
    odd = Hostile() if odd is Hostile else odd
    plain = encoded(FRAME[:20])
    for name in ("age", "income", "sex"):
        column = np.array(FRAME[name][:20], dtype=object)
        column[7] = odd
        moved = encoded(FRAME[:20].assign(**{name: column}))
        np.testing.assert_array_equal(np.delete(moved, 7, 0), np.delete(plain, 7, 0))
        assert np.isfinite(moved).all()


def test_a_column_that_one_value_turned_into_text_has_the_same_features():
    numbers = pandas.DataFrame({"age": [1, 2, 3], "b": [True, False, True], "c": [1, 2, 1], "d": [False, True, False]})
    columns = {"age": space.real(0, 9), "b": [False, True], "c": [1, 2], "d": space.real(0, 1)}
    plain = encoded(numbers, columns)
    np.testing.assert_array_equal(plain, encoded(numbers.astype(float), columns))
    for spelling in (str, lambda text: f" {str(text).lower()} ", lambda text: str(text).upper()):
        text = pandas.DataFrame({name: [spelling(value) for value in numbers[name]] for name in numbers})
        np.testing.assert_array_equal(plain, encoded(text, columns))


def test_fractions_are_compared_in_the_precision_of_a_column():
    column = pandas.DataFrame({"x": np.array([0.1, 0.2, 0.3], np.float32)})
    np.testing.assert_array_equal(cells.category_numbers((0.1, 0.2), column["x"].to_numpy()), [0, 1, -1])
    with pytest.raises(ValueError, match="must hold choices that differ"):
        encoded(column, {"x": [0.1, 0.1 + 1e-12]})


class Text(str):
    """A subclass, such as that of an enumeration; raises where it is asked."""

    __eq__ = __str__ = strip = Hostile._raise
    __hash__ = None


def test_text_of_a_subclass_is_text():
    np.testing.assert_array_equal(cells.category_numbers(("f", "m"), [Text("f"), Text(" m"), "x"]), [0, 1, -1])


class Metaclass(type):
    """Of a class that raises when types are compared, even an exit."""

    def __eq__(cls, other):
        raise SystemExit("private")

    def __hash__(cls):
        raise SystemExit("private")


class Loud(float):
    """Prints and warns when it is converted."""

    def __float__(self):
        print("private")
        warnings.warn("private", stacklevel=1)
        return 1.0


def test_conversions_are_silent_and_stop_at_nothing(capfd):
    values = [1, Loud(1), Metaclass("Odd", (), {})(), 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(cells.category_numbers((0, 1), values)[[0, 2, 3]], [1, -2, 0])
        np.testing.assert_array_equal(cells.real_numbers(values)[[0, 3]], [1.0, 0.0])
    assert capfd.readouterr() == ("", "")


def test_a_masked_value_is_missing():
    masked = np.ma.MaskedArray([[1.0], [-999.0]], [[False], [True]])
    features = _columns.encode(_columns.make_encoding(space.real(0, 9), [0]), _read_table(masked).columns)
    np.testing.assert_array_equal(features[:, -1], [0.0, 1.0])
    assert _read_targets(classifier(), np.ma.MaskedArray([1, 0], [False, True])).tolist() == [1, None]


def test_refusals_quote_no_row():
    secret = 31_415.9
    for inputs in (np.full(ROWS, secret), np.full((ROWS, 1), secret * 1j), np.full((ROWS, 1, 1), secret)):
        with pytest.raises(ValueError, match=r"X must have shape|Complex data") as refused:
            classifier(space.real(0, 1)).fit(inputs, LABELS)
        assert "3141" not in str(refused.value)
    for targets in (np.full((ROWS, 2), secret), np.full(ROWS, secret * 1j)):
        with pytest.raises(ValueError, match=r"y must have shape|Complex data") as refused:
            regressor(space.real(0, 1)).fit(np.zeros((ROWS, 1)), targets)
        assert "3141" not in str(refused.value)
    for rows in ([[secret]] * ROWS, collections.deque([[secret]] * ROWS)):
        with pytest.raises(TypeError, match="X must be a data frame of pandas or polars, or an array, got"):
            classifier(space.real(0, 1)).fit(rows, LABELS)


def test_no_refusal_quotes_a_dtype_that_a_reader_chose_by_the_cells():
    said = set()
    for cell in (30, "1,234", None):
        frame = FRAME.assign(age=pandas.Series([cell, *FRAME["age"][1:]]))
        with pytest.raises(ValueError, match="'age'") as refused:
            classifier({"income": COLUMNS["income"], "sex": COLUMNS["sex"]}).fit(frame, LABELS)
        said.add((str(frame["age"].dtype), str(refused.value)))
    assert len({dtype for dtype, _ in said}) > 1
    assert len({text for _, text in said}) == 1


DAYS = pandas.Series(pandas.date_range("2020-01-01", periods=ROWS, freq="D"))
PAIRS = [  # a column as a reader makes it of plain cells, and of the same cells with another one first
    (FRAME["age"], FRAME["age"].astype(str).where(FRAME.index > 0, "1,234")),
    (FRAME["age"], FRAME["age"].where(FRAME.index > 0)),
    (FRAME["age"] > 50, (FRAME["age"] > 50).astype(str).where(FRAME.index > 0, "1,234")),
    (DAYS, DAYS.astype(str).where(FRAME.index > 0, "1,234")),
    (DAYS, DAYS.astype(object).where(FRAME.index > 0, "1,234")),
    (FRAME["age"] * (1 + 0j), FRAME["age"].astype(object).where(FRAME.index > 0, "1,234")),
]


def said_and_read(column):
    """All that a fit on this column of numbers, of categories or of targets says, and what rows after the first are."""
    frame = pandas.DataFrame({"x": column, "c": column})
    columns = {"x": space.real(0, 120), "c": [30, False, "2020-01-02"]}
    said = []
    for model, targets in ((classifier(columns), LABELS), (regressor(columns), column)):
        try:
            model.fit(frame, targets)
            said.append([note.id for note in model.notes_ if note.id in ("few-rows", "one-fit")])
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    features = _columns.encode(_columns.make_encoding(columns, ["x", "c"]), _read_table(frame).columns)
    return said, features[1:], cells.real_numbers(_read_targets(regressor(), column))[1:]


@pytest.mark.daily("integers", "missing", "complex")
@pytest.mark.parametrize("pair", PAIRS, ids=["integers", "missing", "booleans", "dates", "moments", "complex"])
def test_one_cell_decides_no_refusal_no_note_and_no_other_row(pair):
    """A reader makes the whole column text, or floats, for one cell."""
    assert pair[0].dtype != pair[1].dtype
    (said, *read), (neighbour_said, *neighbour_read) = map(said_and_read, pair)
    assert said == neighbour_said == [["few-rows", "one-fit"]] * 2
    for one, other in zip(read, neighbour_read, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_planted_refusal_by_a_dtype_is_seen(monkeypatch):
    def refusing(X):
        if any(dtype.kind == "M" for dtype in X.dtypes):
            raise ValueError("X must hold no dates")
        return _read_table(X)

    monkeypatch.setattr(private_models, "_read_table", refusing)
    plain, neighbour = (said_and_read(column)[0] for column in PAIRS[3])
    assert plain != neighbour


def test_columns_without_a_dimension_are_refused_with_the_spelling():
    with pytest.raises(ValueError, match=r"or the categories of 'income', 'sex': columns=\{"):
        classifier({"age": space.real(0, 120), "id": None}).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="columns has entries that X lacks: 'heigth'; X has 'age', 'income'"):
        classifier(COLUMNS | {"heigth": None}).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match=r"columns\['sex'\] must hold choices that differ"):
        classifier(COLUMNS | {"sex": [1, "1"]}).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match=r"columns\['age'\] has a range too wide or narrow for floats"):
        classifier(COLUMNS | {"age": space.real(1e300, np.nextafter(1e300, np.inf), log=True)}).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="at least one column, got a data frame without any"):
        classifier({}).fit(FRAME[[]], LABELS)
    with pytest.raises(ValueError, match="X must have at least 10 rows, got 5"):
        classifier().fit(FRAME[:5], LABELS[:5])
    with pytest.raises(TypeError, match="columns must be a dict, got list"):
        classifier([1]).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="at least one column"):
        classifier(dict.fromkeys(FRAME)).fit(FRAME, LABELS)


def test_classes_are_public_and_listed():
    for classes in (None, "yes"):
        with pytest.raises(TypeError, match="classes must list all labels"):
            classifier(classes=classes).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="two labels or more"):
        classifier(classes=("yes",)).fit(FRAME, LABELS)
    for classes in ((1, "1"), (True, 2), (1, (2, 3))):
        with pytest.raises(ValueError, match="all text or all numbers"):
            classifier(classes=classes).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="classes must hold choices that differ"):
        classifier(classes=("1", "1.0")).fit(FRAME, LABELS)


def test_bytes_are_text_in_utf_8():
    """SciPy reads ARFF files so."""
    column = pandas.DataFrame({"c": np.array([b"f", b" m", "\u00e4".encode(), b"\xff", b"3"], object)})
    text = pandas.DataFrame({"c": np.array(["f", " m", "\u00e4", "\ufffd", "3"], object)})
    for dimension in (space.categorical("f", "m", "\u00e4"), space.real(0, 4)):
        np.testing.assert_array_equal(encoded(column, {"c": dimension}), encoded(text, {"c": dimension}))
    assert cells.category_numbers(("f", "m"), column["c"]).tolist() == [0, 1, -1, -1, -1]


SPELLINGS = {
    "bytes": ((b"no", b"yes"), lambda yes: np.where(yes, b"yes", b"no")),
    "bytes for text": (("no", "yes"), lambda yes: np.where(yes, b"yes", b"no").astype(object)),
    "spaces": (("no", "yes"), lambda yes: np.where(yes, " yes", "no ")),
    "text for numbers": ((0, 1), lambda yes: np.where(yes, "1", "0")),
    "numbers for text": (("0", "1"), lambda yes: yes.astype(int)),
    "floats": ((0, 1), lambda yes: yes.astype(float)),
    "text for booleans": ((False, True), lambda yes: np.where(yes, "True", "False")),
}


@pytest.mark.daily("bytes", "numbers for text", "text for booleans")
@pytest.mark.parametrize(("classes", "spell"), SPELLINGS.values(), ids=SPELLINGS)
def test_labels_are_read_once_to_train_and_to_score(classes, spell, fitted):
    yes = LABELS == "yes"
    model = classifier(classes=classes).fit(FRAME, spell(yes))
    right = model.predict(FRAME) == np.asarray(classes)[yes.astype(int)]
    assert model.score(FRAME, spell(yes)) == np.mean(right) == fitted.score(FRAME, LABELS)
    assert model.score(FRAME, spell(yes), sample_weight=np.arange(ROWS)) == np.average(right, weights=np.arange(ROWS))
    assert model.predict(FRAME).dtype.kind == np.asarray(classes).dtype.kind


# -- Models -----------------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_released_layers(fitted):
    (layer,) = fitted.model_
    scores = encoded(FRAME).astype(float) @ np.asarray(layer.weights, float) + np.asarray(layer.bias, float)
    proba = fitted.predict_proba(FRAME)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-scores[:, 0])), rtol=1e-4)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.predict(FRAME), np.where(scores[:, 0] > 0, "yes", "no"))
    assert list(fitted.classes_) == ["no", "yes"]
    assert list(fitted.feature_names_in_) == list(FRAME)


def test_many_classes_and_hidden_layers():
    labels = np.digitize(FRAME["age"], (40, 60)) + 1
    setting = SETTINGS[0] | {"hidden": (4,)}
    model = classifier(classes=(3, 1, 2), settings=[setting]).fit(FRAME, labels)
    proba = model.predict_proba(FRAME)
    assert list(model.classes_) == [1, 2, 3]  # sorted, as scikit-learn's metrics take them
    assert proba.shape == (ROWS, 3)
    assert metrics.log_loss(labels, proba) < 5
    assert layered_training.hidden_widths(model.model_) == (4,)
    np.testing.assert_array_equal(model.predict(FRAME), np.array([1, 2, 3])[np.argmax(proba, axis=1)])


def test_the_default_settings_learn():
    rng, rows = np.random.default_rng(1), 3000
    X = rng.uniform(size=(rows, 2))
    y = (X[:, 0] > 0.5).astype(int)
    options = {"epsilon": 4.0, "delta": 1e-5, **RUN, "settings": None}
    model = classifier(space.real(0, 1), classes=(0, 1), **options).fit(X, y)
    assert model.score(X, y) > 0.9
    targets = 10 * X[:, 0]
    assert regressor(space.real(0, 1), target_range=(0, 10), **options).fit(X, targets).score(X, targets) > 0.7


def test_a_regression_stays_in_its_range():
    targets = np.where(np.arange(ROWS) % 50 == 0, 1e30, FRAME["age"])
    model = regressor().fit(FRAME, targets)
    predicted = model.predict(FRAME)
    assert np.all((predicted >= 0) & (predicted <= 120))
    model.set_params(target_range=(0, 1))
    np.testing.assert_array_equal(model.predict(FRAME), predicted)  # of the fitted range
    clipped = regressor().fit(FRAME, np.minimum(targets, 120.0))
    np.testing.assert_array_equal(predicted, clipped.predict(FRAME))


@pytest.mark.daily("none", "hostile")
@pytest.mark.parametrize("label", ["maybe", None, 3, Hostile], ids=["unknown", "none", "number", "hostile"])
def test_a_row_with_another_label_does_not_train_and_moves_nothing_else(label, fitted):
    labels = np.asarray(LABELS, dtype=object)
    labels[5] = Hostile() if label is Hostile else label
    model = classifier().fit(FRAME, labels)
    other = classifier().fit(FRAME, labels.tolist())
    np.testing.assert_array_equal(model.model_[0].weights, other.model_[0].weights)
    kept = cells.category_numbers(("no", "yes"), labels)
    np.testing.assert_array_equal(np.delete(kept, 5), np.delete((LABELS == "yes").astype(int), 5))
    assert kept[5] < 0


# -- The guarantee ----------------------------------------------------------------------------------------------------


def test_one_guarantee_for_all_rows_is_the_larger_of_both(fitted):
    rows = encoded(FRAME), (LABELS == "yes").astype(int)
    apart = tuning.tune_and_train(
        layered_training.LayeredDPSGD(rows[0].shape[1], 2), rows, SETTINGS, **BUDGET, key=RUN["key"], insecure_key=True
    )
    stated = fitted.guarantee_
    assert stated.protects.startswith(f"{guarantees.ALL_ROWS}; NOT ")
    assert stated.level == max(other.level for other in apart.guarantees)
    assert 0.98 * BUDGET["epsilon"] < stated.epsilon(BUDGET["delta"]) <= BUDGET["epsilon"]
    assert set(stated.assumptions) == set(apart.guarantees[0].assumptions)
    np.testing.assert_array_equal(fitted.model_[0].weights, apart.model[0].weights)  # the same mechanism
    assert (fitted.setting_, fitted.error_, fitted.error_deviation_) == (
        apart.setting,
        apart.error,
        apart.error_deviation,
    )


def test_the_guarantee_says_what_it_assumes_of_rows_and_what_it_leaves_out(fitted, tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    models = fitted, regressor(key=None, ledger=Recording(path, "model")).fit(FRAME, FRAME["age"])
    for model in models:
        assert {assumptions.OWN_ROWS, assumptions.ONE_ROW} < set(model.guarantee_.assumptions)
        (stated,) = model.report_.to_dict()["guarantees"]
        assert stated["protects"] == guarantees.ALL_ROWS
        for unprotected in ("predict", "score", "cross_val_score", "users with several rows"):
            assert unprotected in stated["does not protect"]
    assert {assumptions.OWN_ROWS, assumptions.ONE_ROW} < set(ledger.account(path).assumptions)


def test_the_record_shows_what_was_declared_public_and_hashes_all_of_the_model(fitted):
    models = fitted, regressor().fit(FRAME, FRAME["age"])
    shown = [model.report_.details for model in models]
    for details in shown:
        assert details["users"] == str(ROWS)
        assert details["settings"] == str(SETTINGS)
        for part in ("'age': whole numbers from 0 to 120;", "one of f, m", "to 1000000, in", "'id': left out"):
            assert part in details["encoding_"]
    assert shown[0]["classes_"] == "['no' 'yes']"
    assert shown[1]["target_range_"] == "(0, 120)"
    for model in models:
        before = model.report_.fingerprint
        assert len(before) == 64
        assert pickle.loads(pickle.dumps(model)).report_.fingerprint == before
        for name in results(model) - {"guarantee_", "notes_", "n_features_in_", "feature_names_in_"}:
            other = pickle.loads(pickle.dumps(model))
            leaves, tree = jax.tree.flatten(getattr(other, name))
            first = np.full_like(leaves[0], 7) if isinstance(leaves[0], np.ndarray) else 7
            setattr(other, name, jax.tree.unflatten(tree, [first, *leaves[1:]]))
            assert other.report_.fingerprint != before, name
        other = pickle.loads(pickle.dumps(model))
        other.encoding_ = model.encoding_._replace(dimensions=(space.real(0, 121), *model.encoding_.dimensions[1:]))
        assert other.report_.fingerprint != before


def test_the_noise_of_an_error_has_the_stated_deviation(monkeypatch):
    scored, plain = [], fitting.release_score
    monkeypatch.setattr(fitting, "release_score", lambda *given: scored.append(given) or plain(*given))
    model = classifier().fit(FRAME, LABELS)
    *given, _ = scored[-1]  # of the rows that took no part in the choice
    errors = [plain(*given, key) for key in jax.random.split(jax.random.key(7), 400)]
    assert abs(np.std(errors) / model.error_deviation_ - 1) < 0.15  # four deviations of a sample's deviation
    assert "error_deviation_" in str(model.report_.details)


def test_few_rows_are_a_note_and_in_the_record(fitted):
    assert "300 rows are fewer than 500" in fitted.notes_[0].text
    assert fitted.report_.notes == fitted.notes_
    assert not notes.few_rows(500)


def test_the_ledger_is_charged_once_and_no_fit_is_repeated(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    recorded = classifier(ledger=Recording(path, "model"), key=None)
    stated = recorded.fit(FRAME, LABELS).guarantee_
    (spend,) = ledger.account(path).spends
    assert float(spend.spend.events[0].level) == stated.level
    with pytest.raises(ledger.LedgerError):
        recorded.fit(FRAME, LABELS)
    assert len(ledger.account(path).spends) == 1


def test_without_a_ledger_the_note_and_the_record_say_that_one_fit_is_counted(fitted, tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    recorded = regressor(ledger=Recording(path, "model"), key=None).fit(FRAME, FRAME["age"])
    for model, counted in ((fitted, True), (recorded, False)):
        assert ("one-fit" in [note.id for note in model.notes_]) == counted
        assert ("this guarantee counts one fit" in model.report_.html()) == counted


def test_folds_never_share_a_charge_and_a_run_name_for_each_adds_them_up(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=30.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    model = classifier(ledger=Recording(path, "model"), key=None)
    with pytest.raises(ledger.LedgerError, match=r"run 'model' was charged before, and .* a clone.*set_params"):
        cross_val_score(make_pipeline(FunctionTransformer(), model), FRAME, LABELS, cv=2, error_score="raise")
    assert [entry.run for entry in ledger.account(path).spends] == ["model"]
    spelled = clone(model).set_params(ledger=Recording(str(path), "model", guarantees.ALL_ROWS))  # the same place
    with pytest.raises(ledger.LedgerError, match="this estimator is a clone"):
        spelled.fit(FRAME, LABELS)
    for fold, (rows, _) in enumerate(KFold(2).split(FRAME)):
        named = clone(model).set_params(ledger=Recording(path, f"fold {fold}"))
        named.fit(FRAME.iloc[rows], LABELS[rows])
    assert [entry.run for entry in ledger.account(path).spends] == ["model", "fold 0", "fold 1"]
    spent = sum(float(entry.spend.events[0].level) for entry in ledger.account(path).spends)
    assert spent == pytest.approx(float(ledger.account(path).spent.cost))


def test_one_ledger_pays_for_a_search_and_a_model_of_the_same_people(tmp_path):
    path, words = tmp_path / "book", "our customers"
    ledger.create(path, notion="gdp", level=9, delta=1e-3, protects=words)
    classifier(ledger=Recording(path, "model", protects=words), key=None).fit(FRAME, LABELS)
    minimize(
        lambda point, ages: np.abs(ages / 100 - point[0]), FRAME["age"].to_numpy(), [(0, 1)], mu=1, loss_range=(0, 1),
        search=Search(method="in_order", steps=2), ledger=Recording(path, "search", protects=words),
    )  # fmt: skip
    spends = ledger.account(path).spends
    assert [entry.run for entry in spends] == ["model", "search"]
    assert all(assumptions.SAME_USERS in entry.spend.assumptions for entry in spends)
    with pytest.raises(ledger.LedgerError, match=r"give Recording\(\.\.\., protects='our customers'\)"):
        classifier(ledger=Recording(path, "other"), key=None).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="protects must be"):
        classifier(ledger=Recording(path, "other", protects=3), key=None).fit(FRAME, LABELS)


def test_a_refused_fit_costs_nothing(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    bad = [
        classifier({"age": None}),
        classifier(settings=[{"learning_rate": 1.0}]),
        classifier(settings=[SETTINGS[0] | {"hidden": 3}]),
        classifier(settings=[SETTINGS[0], SETTINGS[0] | {"hidden": (5000,)}]),  # too wide for exact noise
        classifier(epsilon=-1.0),
        classifier(delta=0.5),
        classifier(cap=1),
        classifier(classes=("no",)),
    ]
    for model in bad:
        with pytest.raises((TypeError, ValueError)):
            model.set_params(ledger=Recording(path, "model")).fit(FRAME, LABELS)
    assert not ledger.account(path).spends


def test_with_a_cap_every_fit_trains_the_same_number_of_models(monkeypatch):
    trained = []

    def train(*arguments, **options):
        trained.append(1)
        return plain(*arguments, **options)

    plain = training._train
    monkeypatch.setattr(training, "_train", train)
    with pytest.raises(ValueError, match=r"cap must be at least \d+") as caught:
        classifier(cap=1).fit(FRAME, LABELS)
    cap = int(re.search(r"at least (\d+)", str(caught.value))[1])
    assert not trained
    stated = classifier(cap=cap).fit(FRAME, LABELS).guarantee_
    assert len(trained) == cap  # several times the mean of the number that it draws
    assert assumptions.LOSERS_UNKNOWN in stated.assumptions
    assert assumptions.RUNS_UNKNOWN not in stated.assumptions


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_record_of_a_fit_cites_its_plan(make):
    model = make(settings=None)
    signed = model.plan(FRAME)
    assert "Confirm that these ranges and categories come from a codebook" in signed.html()
    spaces = {"a": space.real(0.5, 100, log=True), "b": space.integer(1, 9), "c": space.categorical("x", "y")}
    spaces["d"] = space.real(0, 1e6, thousands=",")
    words = _columns.make_encoding(spaces, ["a", "b", "c", "d"]).to_sign
    for said in ("numbers from 0.5 to 100, in logarithms;", "'b': whole numbers from 1 to 9;", "'c': one of x, y;"):
        assert said in words
    assert "numbers from 0 to 1000000, as text with {" in words
    record = model.fit(FRAME, LABELS).report_
    assert record.against(signed).details["differs from the plan"] == "in nothing"
    fewer = record.against(model.plan(FRAME[:-20])).details["differs from the plan"]
    assert f"users: planned {len(FRAME) - 20}, got {len(FRAME)}" in fewer
    with pytest.raises(ValueError, match="plan must be of a model without settings"):
        make(settings=[{}]).plan(FRAME)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_key_of_a_model_is_for_tests_alone(make):
    """Clones share it, so two folds would have the same noise."""
    with pytest.raises(ValueError, match="key must be given with insecure_key=True, for tests alone: clones share it"):
        make(key=secret_key(), insecure_key=False).fit(FRAME, LABELS)


def results(model):
    """The names of fitted attributes."""
    return {name for name in vars(model) if name.endswith("_")}


def refuse_columns(model):
    model.set_params(epsilon=-1.0).fit(FRAME[FRAME.columns[::-1]], LABELS)


def refuse_classes(model):
    model.set_params(classes=None).fit(FRAME, LABELS)


def fail_to_train(model):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_train", None)
        model.fit(FRAME, LABELS)


@pytest.mark.parametrize("fail", [refuse_columns, refuse_classes, fail_to_train])
def test_a_fit_that_fails_leaves_nothing_of_the_fit_before(fail, fitted):
    """Otherwise the guarantee of the first fit would stand beside the arguments of the second."""
    model = pickle.loads(pickle.dumps(fitted))
    assert "guarantee_" in results(model)
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        fail(model)
    assert not results(model)


def test_columns_are_those_of_fit():
    frame = FRAME.set_axis(range(4), axis=1)
    model = classifier(dict(zip(range(4), COLUMNS.values(), strict=True))).fit(frame, LABELS)
    assert model.predict(frame.to_numpy()).shape == (ROWS,)
    named = FRAME.set_axis([3, 1, 0, 2], axis=1)
    model = classifier(dict(zip([3, 1, 0, 2], COLUMNS.values(), strict=True))).fit(named, LABELS)
    scores = model.decision_function(named)
    np.testing.assert_array_equal(model.decision_function(named[[0, 1, 2, 3]]), scores)  # by name
    np.testing.assert_array_equal(model.decision_function(named.to_numpy()), scores)  # by place
    setting = model.setting_
    setting["epochs"] = 9
    assert all(of["epochs"] == 2 for of in SETTINGS)


def test_a_pickle_holds_no_row():
    frame = FRAME.assign(income=FRAME["income"] * 0 + 31_415.92653589)
    planted = [31_415.92653589, np.float32(31_415.92653589)]
    bits = pickle.dumps(classifier().fit(frame, LABELS))
    assert not any(np.asarray(value).tobytes() in bits for value in planted)
    model = pickle.loads(bits)
    np.testing.assert_array_equal(model.predict(frame), classifier().fit(frame, LABELS).predict(frame))


RELEASED = {"model_", "setting_", "error_", "error_interval_"}
PUBLIC = {
    "guarantee_", "error_deviation_", "notes_", "encoding_", "public_", "n_features_in_", "feature_names_in_", "_fits",
}  # fmt: skip


STEPS_RELEASED = {"constant_error_", "constant_deviation_", "confusion_"}  # the deviation of a constant follows from it
STEPS_PUBLIC = {"confusion_deviation_"}


@pytest.mark.daily("classifier-*", "*-steps")
@pytest.mark.parametrize("settings", [SETTINGS, None], ids=["settings", "steps"])
@pytest.mark.parametrize(("make", "own"), [(classifier, "classes_"), (regressor, "target_range_")])
def test_all_that_a_fit_leaves_is_the_release_or_follows_from_public_arguments(make, own, settings, untrained):
    steps = (STEPS_RELEASED | STEPS_PUBLIC) if settings is None else set()
    steps -= {"confusion_", "confusion_deviation_"} if make is regressor else set()
    targets = LABELS.tolist() if make is classifier else FRAME["age"].tolist()

    def public(frame, targets):
        model = make(settings=settings).fit(frame, targets)
        assert set(vars(model)) == set(model.get_params(deep=False)) | RELEASED | PUBLIC | {own} | steps
        model.notes_ = tuple(note for note in model.notes_ if notes.SOURCES[note.id] != notes.RELEASE)
        return {
            name: pickle.dumps(value) for name, value in vars(model).items() if name not in RELEASED | STEPS_RELEASED
        }

    usual = public(FRAME, targets)
    for row, odd in enumerate((np.nan, -1e300, 55, "many", None)):
        frame = FRAME.astype({"age": object, "sex": object}).copy()
        frame.loc[row, ["age", "income", "sex"]] = odd, 7.0, odd
        assert public(frame, [*targets[:row], odd, *targets[row + 1 :]]) == usual


def test_a_pickled_model_has_no_key(fitted):
    assert pickle.loads(pickle.dumps(fitted)).key is None


# -- scikit-learn's conventions ---------------------------------------------------------------------------------------


def test_the_last_step_of_a_pipeline():
    model = make_pipeline(FunctionTransformer(), classifier()).fit(FRAME, LABELS)
    assert model.score(FRAME, LABELS) > 0.5
    assert clone(classifier()).get_params()["columns"] == COLUMNS


EVERY_LABEL = "the classes are public and listed: other labels do not train"
PRIVATE = "a private value never raises"
EXPECTED = {
    "check_classifiers_train": EVERY_LABEL,
    "check_classifiers_classes": EVERY_LABEL,
    "check_classifiers_regression_target": EVERY_LABEL,
    "check_supervised_y_no_nan": PRIVATE,
    "check_regressors_train": "a list is refused: its values would choose a dtype",
    "check_fit2d_1sample": "one row is refused in other words",
    "check_sample_weight_equivalence_on_dense_data": "the number of rows is public, also of rows without a weight",
    "check_sample_weight_equivalence_on_sparse_data": "as on dense data",
    "check_all_zero_sample_weights_error": "what weights hold is silent",
    "check_classifiers_one_label": EVERY_LABEL,
    "check_classifiers_one_label_sample_weights": EVERY_LABEL,
    "check_class_weight_classifiers": "class_weight is of the listed classes, not of those in the rows",
    "check_dataframe_column_names_consistency": "columns may come in any order",
}


def train_zeros(data, config, key):
    return np.zeros((config.features, config.outputs), data.dtype)


@pytest.fixture
def untrained(request, monkeypatch):
    """A constant for every model unless under --full: each new shape in the checks would compile a training."""
    if not request.config.getoption("--full"):
        monkeypatch.setattr(private_steps, "_compile", lambda config, key: train_zeros)


@pytest.mark.daily("classifier")
@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("make", [classifier, regressor])
def test_scikit_learns_own_checks(make):
    options = {"classes": (0, 1, 2, 3)} if make is classifier else {"target_range": (-200, 200)}
    estimator = make(space.real(-5, 5), **options, delta=1e-3, settings=None, largest_weight=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(estimator, expected_failed_checks=EXPECTED, on_skip=None, on_fail=None)
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
