"""Documents say what the results say, and every result says where it comes from and of which code it is."""

import json
import re

import pytest

from benchmarks import bench, numbers, report, reproductions
from benchmarks.tables import BLOCKS, SENTENCES, markdown, summary

RESULTS = sorted(report.STORED.glob("*.json"))


def test_documents_say_what_the_results_say():
    assert not numbers.differences(), "run scripts/numbers"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_result_says_where_it_comes_from(path):
    result = json.loads(path.read_text())
    assert set(report.FIELDS) <= result.keys()
    assert set(report.SETTINGS) <= result["settings"].keys()
    assert result["noise"].partition(": ")[::2] in report.NOISE.items()
    assert len(result["commit"]) == 40
    assert result["seeds"]
    assert {"processor", "cores", "jax"} <= result["machine"].keys()


def test_every_result_belongs_to_a_command():
    items = {f"{paper}_{item}" for paper in reproductions.PAPERS for item in reproductions.items(paper)}
    benches = {f"bench_{name}" for name in bench.MODULES} | {"bench_demo"}
    stems = {re.sub(r"_\d+-\d+$", "", path.stem) for path in RESULTS}  # other seeds of an item
    assert stems <= items | benches | {"audit", "audit_one_run", "audit_silos"}


def test_a_result_of_code_that_was_not_committed_is_refused(tmp_path, monkeypatch):
    result = report.find_result("kharkovskii_branin")
    monkeypatch.setattr(report, "STORED", tmp_path)
    (tmp_path / "one.json").write_text(json.dumps(result | {"modified": True}))
    with pytest.raises(ValueError, match=r"one\.json must be measured by committed code, but has 'modified': true"):
        report.find_result("one")


def test_no_result_is_of_code_that_was_not_committed():
    assert not [path.stem for path in RESULTS if json.loads(path.read_text())["modified"]]


def test_a_changed_number_is_seen(tmp_path, monkeypatch):
    document = tmp_path / "page.md"
    name = "sopa_fig1"
    document.write_text(f"before\n<!-- numbers: {name} -->\n<!-- end -->\nafter\n")
    monkeypatch.setattr(numbers, "documents", lambda: [document])
    assert numbers.differences() == [document]
    document.write_text(numbers.fill_page(document))
    assert document.read_text() == f"before\n<!-- numbers: {name} -->\n{BLOCKS[name]()}\n<!-- end -->\nafter\n"
    assert not numbers.differences()
    document.write_text(document.read_text().replace("0.506", "0.507"))
    assert numbers.differences() == [document]


def test_a_changed_figure_of_a_sentence_is_seen():
    marked = "it is <!-- number: sgd_accuracy -->4<!-- end --> and <!-- number: grid_regret --><!-- end -->."
    figures = [SENTENCES[name]() for name in ("sgd_accuracy", "grid_regret")]
    expected = "it is <!-- number: sgd_accuracy -->{}<!-- end --> and <!-- number: grid_regret -->{}<!-- end -->."
    assert numbers.fill(marked) == expected.format(*figures)


def test_every_figure_of_a_sentence_is_used():
    used = {name for page in numbers.documents() for name, _ in numbers.INLINE.findall(page.read_text())}
    assert used == SENTENCES.keys()


def test_a_summary_says_what_was_not_measured(monkeypatch):
    of = summary.Figure("it", "bench_it", lambda result: result["it"])
    monkeypatch.setattr(summary, "FIGURES", (of, of._replace(source="bench_other"), of._replace(seconds=True)))
    assert summary.rows({"bench_it": {"it": 2.5}}.get) == [("it", "2.5"), ("it", "not measured"), ("it", "2.5 s")]
    assert summary.rows({"bench_it": {"other": 2.5}}.get)[0][1] == "not measured at this size"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- numbers: nothing -->\n<!-- end -->", "there is no 'nothing'"),
        ("it is <!-- number: nothing -->4<!-- end -->", "there is no 'nothing'"),
        ("it is <!-- number: sgd_accuracy -->4\n<!-- end -->", "needs its '<!-- end -->' on its line"),
        ("<!-- numbers: sopa_fig1 -->\n", "needs its '<!-- end -->'"),
    ],
)
def test_a_wrong_marker_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        numbers.fill(text)


def test_what_a_result_lacks_is_said(tmp_path):
    given = {"seeds": [0, 1], "noise": "none", "dtype": "float64", "started": 0.0}
    settings = {"printed in the paper": {}, "chosen here": {}}
    with pytest.raises(ValueError, match="measurements must leave commit"):
        report.write_result(tmp_path / "x.json", {"commit": "a"}, settings=settings, **given)
    with pytest.raises(ValueError, match="settings must say what is chosen here"):
        report.write_result(tmp_path / "x.json", {}, settings={"printed in the paper": {}}, **given)
    report.write_result(tmp_path / "x.json", {"mean": 1.0}, settings=settings, **given)
    written = json.loads((tmp_path / "x.json").read_text())
    assert set(report.FIELDS) <= written.keys()
    assert written["commit"] == report.commit_state()[0]


@pytest.mark.parametrize(
    ("value", "digits", "said"), [(107.09, 3, "107"), (0.5, 2, "0.50"), (1234.5, 3, "1,230"), (7.649, 3, "7.65")]
)
def test_figures_are_rounded_to_digits(value, digits, said):
    assert markdown.figures(value, digits) == said
