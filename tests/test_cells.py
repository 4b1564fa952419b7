"""Cells of tables: one reading of numbers in text, by a public spelling alone."""

import pickle

import jax
import numpy as np
import pandas
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn import metrics

from jaxdpbo import Space, cells, minimize, space, transforms, user_values
from jaxdpbo.integrations.sklearn import PrivateRegressor
from jaxdpbo.integrations.sklearn import columns as _columns
from jaxdpbo.integrations.sklearn.private_models import _check_target_range

GERMAN = space.real(0, 1e6, decimal=",", thousands=".")
CASES = [  # how text spells numbers, a text, and the number; None for no number
    ({"thousands": ","}, "1,234", 1234),
    ({"thousands": ","}, "1,234,567.5", 1_234_567.5),
    ({"thousands": ","}, "12,34,567", 1_234_567),
    ({"thousands": ","}, "1234.5", 1234.5),
    ({"thousands": ","}, "12,5", None),
    ({"thousands": ","}, "1,2345", None),
    ({"thousands": ","}, ",234", None),
    ({"decimal": ","}, "12,5", 12.5),
    ({"decimal": ","}, ",5", 0.5),
    ({"decimal": ","}, "5,", 5),
    ({"decimal": ","}, "12.5", None),
    ({"decimal": ","}, ",", None),
    ({"decimal": ","}, "", None),
    ({"decimal": ","}, "1,5e3", 1500),
    ({"decimal": ",", "thousands": "."}, "1.234,5", 1234.5),
    ({"decimal": ",", "thousands": "."}, "1.5", None),
    ({"decimal": ",", "thousands": " "}, "1\u202f234\u00a0567 234,5", 1_234_567_234.5),
    ({"thousands": "'"}, "1\u2019234.5", 1234.5),
    ({"unit": "$"}, "$12", 12),
    ({"unit": "$"}, "-$12", -12),
    ({"unit": "$"}, "$-12", -12),
    ({"unit": "$"}, "-$-12", None),
    ({"unit": "$"}, "12 $", 12),
    ({"unit": "$"}, "$", None),
    ({"unit": "kg"}, "12 kg", 12),
    ({"unit": "kg"}, "12 g", None),
    ({"unit": "%"}, "\u22125 %", -5),
    ({"decimal": "."}, "1_234", None),
    ({"decimal": "."}, "\u0661\u0662", None),
    ({"decimal": "."}, "nan", None),
    ({"decimal": "."}, "9" * 5000, np.inf),
    ({"decimal": "."}, " True ", 1.0),
]


@pytest.mark.parametrize(("spelling", "text", "number"), CASES)
def test_a_text_is_the_number_that_it_spells(spelling, text, number):
    dimension = space.real(-1, 1, **spelling)
    expected = np.array([np.nan if number is None else number])
    for cell in (text, text.encode(), f" {text}\n"):
        np.testing.assert_array_equal(cells.real_numbers([cell], dimension.text), expected)
    np.testing.assert_array_equal(cells.real_numbers([7, 2.5, None], dimension.text), [7, 2.5, np.nan])


def _commas(value):
    return f"{value:,.2f}"


@pytest.mark.parametrize(
    ("dimension", "spell"),
    [
        (space.real(100, 1e6, log=True, thousands=","), _commas),
        (space.real(100, 1e6, log=True, unit="$", thousands=","), lambda value: f"${_commas(value)}"),
        (space.real(100, 1e6, log=True, decimal=","), lambda value: f"{value:.2f}".replace(".", ",")),
        (GERMAN, lambda value: _commas(value).translate(str.maketrans(",.", ".,"))),
    ],
    ids=["thousands", "unit", "decimal", "both"],
)
def test_a_column_of_text_has_the_features_of_its_numbers(dimension, spell):
    """Of ../shared's kind: such columns were missing in every row, in silence."""
    numbers = np.round(np.random.default_rng(0).lognormal(9, 1, 50), 2)
    encoding = _columns.make_encoding({"income": dimension}, ["income"])
    plain = _columns.encode(encoding, [numbers])
    text = np.array([spell(value) for value in numbers], object)
    np.testing.assert_array_equal(_columns.encode(encoding, [text]), plain)
    assert not plain[:, -1].any()
    unread = _columns.make_encoding({"income": space.real(100, 1e6)}, ["income"])
    assert _columns.encode(unread, [text])[:, -1].sum() > 40  # planted: without the spelling nearly all are missing


def test_targets_are_read_as_columns_are():
    targets = ["1.234,5", "12", None, "x"]
    low, high, text = _check_target_range(GERMAN)
    assert (low, high) == (0, 1e6)
    np.testing.assert_array_equal(cells.real_numbers(targets, text), [1234.5, 12, np.nan, np.nan])
    assert _check_target_range((0, 2)) == (0, 2, None)
    refused = PrivateRegressor(space.real(0, 1), target_range=space.real(1, 2, log=True), epsilon=1, delta=1e-5)
    with pytest.raises(ValueError, match="without log"):
        refused.fit(pandas.DataFrame({"x": [1.0] * 300}), [1.0] * 300)


def test_targets_are_read_once_to_train_and_to_score(monkeypatch):
    model = PrivateRegressor(space.real(0, 1), target_range=space.real(0, 9, decimal=","), epsilon=1, delta=1e-5)
    monkeypatch.setattr(PrivateRegressor, "predict", lambda self, X: np.asarray(X)[:, 0])
    X, y = np.array([[1.0], [2.0], [4.0], [5.0]]), np.array([1.5, 2.0, 3.5, np.nan])
    expected = metrics.r2_score(y[:3], X[:3, 0])
    for spelled in (y, ["1,5", "2", "3,5", None], ["1,5", "2", "3,5", "3.5"]):
        assert model.score(X, spelled) == expected
    weights = np.array([1.0, 3.0, 2.0, 9.0])
    assert model.score(X, y, weights) == metrics.r2_score(y[:3], X[:3, 0], sample_weight=weights[:3])


@pytest.mark.parametrize(
    ("spelling", "error", "says"),
    [
        ({"decimal": ";"}, ValueError, "decimal must be"),
        ({"thousands": "x"}, ValueError, "thousands one of"),
        ({"thousands": "."}, ValueError, "differ from decimal"),
        ({"unit": "1"}, ValueError, "unit must be"),
        ({"unit": " kg"}, ValueError, "unit must be"),
        ({"unit": 3}, TypeError, "unit must be text"),
        ({"decimal": 3}, TypeError, "decimal must be text"),
    ],
)
@pytest.mark.parametrize("make", [space.real, space.integer])
def test_a_spelling_is_refused_with_its_argument(make, spelling, error, says):
    with pytest.raises(error, match=says):
        make(0, 1, **spelling)


def test_a_spelling_is_part_of_the_dimension_and_no_part_of_a_search():
    assert repr(space.integer(0, 9)) == "Integer(low=0, high=9, log=False)"
    assert repr(GERMAN) == "Real(low=0.0, high=1000000.0, log=False, decimal=',', thousands='.', unit='')"
    assert space.real(0, 1e6) != GERMAN
    assert pickle.loads(pickle.dumps(GERMAN)) == GERMAN
    with pytest.raises(ValueError, match="x must have no decimal"):
        minimize(lambda point, data: data, np.zeros(9), {"x": GERMAN}, mu=1.0)
    with pytest.raises(ValueError, match="x must have no decimal"):
        minimize(lambda point, data: data, np.zeros(9), Space({"x": GERMAN}), mu=1.0)


def test_no_cell_of_a_frame_decides_how_another_is_curated():
    """A reader makes a column integers, floats or text, and dates text."""
    config = transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, delta=1e-5)
    days = pandas.DataFrame({"a": range(9), "b": pandas.date_range("2020-01-01", periods=9)})
    for plain in (days.assign(b=days["a"] > 3), days):
        for cell in ("1,234", None):
            read = plain.astype(object)
            read.iloc[0] = cell
            read = read.astype(str) if cell else read.infer_objects()
            one, other = (
                transforms.curate(jax.random.key(0), config, rows, insecure_key=True).z for rows in (plain, read)
            )
            np.testing.assert_array_equal(one[1:], other[1:])


def test_a_table_of_arrow_is_curated_as_a_frame_and_a_sparse_matrix_is_refused_by_name():
    config = transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, delta=1e-5)
    frame = pandas.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["4", "x", None]})
    made = [pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame), frame]
    one, two, three = (transforms.curate(jax.random.key(0), config, rows, insecure_key=True).z for rows in made)
    np.testing.assert_array_equal(one, three)
    np.testing.assert_array_equal(two, three)
    with pytest.raises(TypeError, match="inputs must be an array, a list or a frame, got csr_array"):
        transforms.curate(None, config, sparse.csr_array(np.eye(2)))


def test_a_blank_or_odd_cell_is_missing_and_a_word_is_not():
    column = [None, np.nan, " ", b"", [1, 2], "x", 3, "3", False]
    assert cells.are_missing(column).tolist() == [True] * 5 + [False] * 4


def test_people_are_told_apart_by_all_digits_and_by_text_that_is_no_number():
    long = 10**17 + np.arange(3)
    assert cells.identities(long) == cells.identities([str(one) for one in long]) == long.tolist()
    assert len(set(cells.identities(["9007199254740992", "9007199254740993"]))) == 2
    assert len(set(cells.identities(["1234e567", "9876e543", "inf", "12e4", "120000"]))) == 5
    same = [7, np.int8(7), 7.0, "7", "007", " 7.0 ", b"7", "+7", np.float32(7)]
    assert set(cells.identities(same)) == {7}
    assert len(set(cells.identities([True, "True", "true", 1]))) == 1
    assert cells.identities(["2.50", 2.5, "A7", b"A7 "]) == [2.5, 2.5, "A7", "A7"]
    assert cells.identities(["9" * 5000]) == ["9" * 5000]  # longer than Python reads
    assert len(set(cells.identities(["1_23", "12_3", "1_2_3", "123", 123, b"1_23"]))) == 4  # a household, a member
    for missing in (None, np.nan, "", " ", "nan"):
        with pytest.raises(ValueError, match="each row needs an id"):
            cells.identities([1, missing])


def test_text_that_python_alone_reads_as_a_number_is_text():
    assert cells.category_numbers(("2020_1", "20201"), ["2020_1", "20201", 20201]).tolist() == [0, 1, 1]
    assert np.isnan(cells.real_numbers(["1_5"])[0])
    assert np.isnan(user_values.to_numbers(["1_5", b"1_5"], (2,))).all()
