"""``jaxdpbo tune`` prints a setting and its guarantee, and what a protected row holds prepares nothing."""

import json
import tracemalloc

import numpy as np
import pytest

from jaxdpbo import Space, commands, space
from jaxdpbo.commands import csv_rows, tune

RNG = np.random.default_rng(0)
ROWS = 60
TRAIN, PROTECTED = tune.halves(ROWS)


def table(path, changed=None):
    """Two numbers, one with gaps, a category, and what follows from the first."""
    first = RNG.__class__(np.random.PCG64(3)).normal(size=ROWS)
    rows = [
        [f"{value:.3f}", "" if i % 7 == 0 else str(i % 5), "red" if i % 2 else "blue", "yes" if value > 0 else "no"]
        for i, value in enumerate(first)
    ]
    for row, cells in (changed or {}).items():
        rows[row] = cells
    path.write_text("\n".join(["a,b,colour,bought", *(",".join(cells) for cells in rows)]) + "\n")
    return path


def test_columns_are_read_as_training_rows_have_them(tmp_path):
    from sklearn.linear_model import LogisticRegression

    usual, targets = tune.read(table(tmp_path / "a.csv"), "bought")
    bad = {PROTECTED[0]: ["ten", "nan", "green", "maybe"], PROTECTED[1]: ["1e400", "x"], PROTECTED[2]: ["1"] * 9}
    changed, others = tune.read(table(tmp_path / "b.csv", bad), "bought")
    assert usual.shape == changed.shape == (ROWS, 3)
    assert set(targets) == {"yes", "no"}
    assert (others[PROTECTED[0]], others[PROTECTED[1]]) == ("maybe", "")
    fitted = []
    for inputs, labels in ((usual, targets), (changed, others)):
        pipeline, labels = tune.prepare(LogisticRegression(), inputs, labels, TRAIN)
        fitted.append(pipeline.fit(inputs[TRAIN], labels[TRAIN]))
        assert np.all(np.isfinite(fitted[-1][:-1].transform(inputs)))
    np.testing.assert_array_equal(fitted[0].predict_proba(usual[TRAIN]), fitted[1].predict_proba(changed[TRAIN]))
    kept = np.setdiff1d(PROTECTED, list(bad))
    np.testing.assert_array_equal(fitted[0].predict_proba(usual[kept]), fitted[1].predict_proba(changed[kept]))
    assert fitted[0][:-1].transform(usual).shape[1] == 4  # two numbers and two colours


FILES = {
    b"a,b\n1,2\n3,4\n": [["1", "2"], ["3", "4"]],
    b"\xef\xbb\xbfa,b\r\n1,2\r\n3,4": [["1", "2"], ["3", "4"]],
    b'a,b\n"1","2 "\n"3,5","say ""x"""\n': [["1", "2 "], ["3,5", 'say "x"']],
    b'a,b\n"1,2\n3","4\n': [['"1', "2"], ['3"', '"4']],
    b"a,b\n1,2\n1,2,3\n4\n\n": [["1", "2"], ["", ""], ["", ""], ["", ""]],
    b"a,b\n1\r2,3\x00\n\xff,4\n": [["1\r2", "3\x00"], ["\ufffd", "4"]],
    b'a,b\n",2\n"",\n': [['"', "2"], ["", ""]],
    b"a\n1\n\n3\n": [["1"], [""], ["3"]],
    '"a",b\u2028\n1,2\u2028\x0b\n'.encode(): [["1", "2\u2028\x0b"]],
    b'a,b\n"1","2",\n"","1""\n""""",","\n"1"x,2\n': [["", ""], ["", '"1""'], ['"",', '"'], ['"1"x', "2"]],
}


@pytest.mark.parametrize("content", FILES)
def test_a_line_is_a_row_for_any_cells(content):
    parsed = csv_rows.parse("a.csv", content)
    assert parsed.cells.tolist() == FILES[content]
    assert parsed.header[0] == "a"


LETTERS = 1_000_002
LONG = {"quoted": b'"' + b"x" * LETTERS + b'"', "open": b'"' + b"x" * LETTERS, "open, of pairs": b'"' * LETTERS,
        "quoted pairs": b'"' * (LETTERS + 2), "commas": b"," * LETTERS, "cells": b"abc," * (LETTERS // 4),
        "quoted cells": b'"abc",' * (LETTERS // 6), "quotes": b'"z' + b',""b' * (LETTERS // 4)}  # fmt: skip


@pytest.mark.parametrize("kind", LONG)
def test_a_cell_costs_memory_by_its_length_alone(kind):
    content = b"a,b\n" + LONG[kind] + b",1\n"
    tracemalloc.start()
    try:
        csv_rows.parse("a.csv", content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(content)


@pytest.mark.parametrize("content", [b"a,b\r1,2\r", b"a,b\r\r\n1,2\r\r\n", b"a\x00,b\n1,2\n"])
def test_a_file_of_other_line_ends_is_refused(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.csv must be .* lines that end with LF or CRLF$"):
        tune.read(tmp_path / "a.csv", "a")


def test_a_command_line_becomes_a_space():
    found = tune._space(["C=real:0.01:100:log", "depth=integer:1:20", "kernel=categorical:rbf,poly,None"])
    assert found == {
        "C": space.real(0.01, 100, log=True),
        "depth": space.integer(1, 20),
        "kernel": space.categorical("rbf", "poly", None),
    }
    for word in ("C", "=real:0:1", "C=real:0", "C=real:1:0", "C=float:0:1", "C=real:0:1:exp", "C=categorical:a"):
        with pytest.raises(ValueError, match=r"must be|must lie|must have|be two or more"):
            tune._space([word])


def test_a_range_is_two_numbers_or_private():
    assert tune._loss_range(None) is None
    assert tune._loss_range(["private"]) == "private"
    assert tune._loss_range(["0", "1e4"]) == (0.0, 1e4)
    for words in (["1"], ["0", "1", "2"], ["0", "x"], ["private", "1"]):
        with pytest.raises(ValueError, match="loss-range must be two numbers, or private"):
            tune._loss_range(words)


@pytest.mark.parametrize("missing", ["--target", "--estimator", "--epsilon", "--delta"])
def test_no_budget_target_or_estimator_is_assumed(tmp_path, capsys, missing):
    given = {"--target": "bought", "--estimator": "sklearn.svm.SVC", "--epsilon": "1", "--delta": "1e-5"}
    words = [word for name, value in given.items() if name != missing for word in (name, value)]
    with pytest.raises(SystemExit) as end:
        commands.main(["tune", str(table(tmp_path / "a.csv")), *words, "--space", "C=real:0.1:1.0"])
    assert end.value.code == 2
    assert f"the following arguments are required: {missing}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SVC", "sklearn.nope.SVC", "sklearn.svm.Nope"])
def test_an_estimator_that_cannot_be_imported_is_named(tmp_path, capsys, name):
    words = [
        "--target",
        "bought",
        "--estimator",
        name,
        "--space",
        "C=real:0.1:1.0",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
    ]
    with pytest.raises(SystemExit) as end:
        commands.main(["tune", str(table(tmp_path / "a.csv")), *words])
    assert end.value.code == 2
    assert f"estimator must be an import path such as sklearn.svm.SVC, got '{name}'" in capsys.readouterr().err


BRANCHES = """
[kernel]
type = "branches"
weights = {rbf = 2, poly = 1, linear = 1}
branches.rbf.gamma = {type = "real", low = 0.1, high = 1}
branches.poly.degree = {type = "integer", low = 2, high = 3}
branches.linear = {}
"""


def test_a_command_searches_branches(tmp_path, capsys):
    (tmp_path / "space.toml").write_text(BRANCHES)
    line = ["tune", str(table(tmp_path / "a.csv")), "--target", "bought", "--estimator", "sklearn.svm.SVC", "--loss"]
    line += ["zero_one", "--space-file", str(tmp_path / "space.toml"), "--epsilon", "1", "--delta", "1e-5"]
    commands.main([*line, "--n-iter", "4", "--quiet", "--json"])
    params = json.loads(capsys.readouterr().out)["params"]
    expected = {"rbf": {"kernel", "gamma"}, "poly": {"kernel", "degree"}, "linear": {"kernel"}}
    assert set(params) == expected[params["kernel"]]


def test_a_file_becomes_a_space(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(
        '[C]\ntype = "real"\nlow = 0.01\nhigh = 100\nlog = true\n[k]\ntype = "categorical"\nchoices = ["a", "b"]'
    )
    assert tune._space_file(path) == {"C": space.real(0.01, 100, log=True), "k": space.categorical("a", "b")}
    path.write_text(BRANCHES)
    by_kernel = {"rbf": {"gamma": space.real(0.1, 1)}, "poly": {"degree": space.integer(2, 3)}, "linear": {}}
    assert tune._space_file(path) == {"kernel": space.branches(by_kernel, weights={"rbf": 2, "poly": 1, "linear": 1})}
    assert Space(tune._space_file(path, "model__")).keys[:2] == ("model__kernel", "model__gamma")
    path.write_text('[C]\ntype = "float"')
    with pytest.raises(ValueError, match="type of C"):
        tune._space_file(path)


def test_the_command_prints_a_setting_and_its_guarantee(tmp_path, capsys):
    path = table(tmp_path / "a.csv")
    line = ["tune", str(path), "--target", "bought", "--estimator", "sklearn.linear_model.LogisticRegression"]
    line += ["--space", "C=real:0.1:1.0", "--set", "max_iter=50", "--epsilon", "1", "--delta", "1e-5", "--n-iter", "4"]
    commands.main([*line, "--quiet", "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert 0.1 <= found["params"]["C"] <= 1.0
    assert found["guarantee"]["notion"] == "dp"
    assert err == ""
    commands.main([*line, "--quiet"])
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("C = ")
    assert 0.1 <= float(first.removeprefix("C = ")) <= 1.0
    for wrong, said in (
        (["--target", "sold"], "no column 'sold'"),
        (["--estimator", "SVC"], "must be an import path"),
    ):
        with pytest.raises(SystemExit):
            commands.main([*line, *wrong, "--quiet"])
        assert said in capsys.readouterr().err
