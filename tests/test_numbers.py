"""Documents say what the results say, and every result says where it comes from and of which code it is."""

import json

import conftest
import pytest

from benchmarks import fingerprint, numbers, report
from benchmarks.tables import BLOCKS, aims, markdown, verdicts

RESULTS = sorted(report.STORED.glob("*.json"))


def test_documents_say_what_the_results_say():
    assert not numbers.differing(), "run scripts/numbers"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_result_says_where_it_comes_from(path):
    result = json.loads(path.read_text())
    assert set(report.FIELDS) <= result.keys()
    assert set(report.SETTINGS) <= result["settings"].keys()
    assert result["noise"].partition(": ")[::2] in report.NOISE.items()
    assert len(result["commit"]) == 40
    assert result["seeds"]
    assert {"processor", "cores", "jax"} <= result["machine"].keys()


def test_every_result_has_a_module_that_measures_it():
    assert {name for name, _, _ in numbers.measured()} == {path.stem for path in RESULTS}


def test_every_small_result_belongs_to_a_figure():
    assert {path.stem for path in numbers.QUICK.glob("*.json")} <= {path.stem for path in RESULTS}
    figures = {name for name, _, within in numbers.measured() if within == fingerprint.FIGURE}
    assert figures - set(numbers.confirmable()) == set(numbers.UNCONFIRMED)


def test_no_figure_is_older_than_its_code(full_only):
    stale = [name for name in numbers.changed() if name not in numbers.UNCONFIRMED]
    assert not stale, "scripts/numbers --confirm changed, or measure anew"


def test_a_row_of_evidence_dies_with_its_test():
    for row in json.loads(conftest.EVIDENCE.read_text()):
        assert {"commit", "date", "machine", "count", "seed"} <= row.keys()
        assert conftest.is_defined(row["test"]), row["test"]
    assert not conftest.is_defined("tests/test_numbers.py::test_that_is_gone")
    assert not conftest.is_defined("tests/test_gone.py::test_a_row_of_evidence_dies_with_its_test")


def test_a_changed_number_is_seen(tmp_path, monkeypatch):
    document = tmp_path / "page.md"
    name = "sopa_fig1"
    document.write_text(f"before\n<!-- numbers: {name} -->\n<!-- end -->\nafter\n")
    monkeypatch.setattr(numbers, "documents", lambda: [document])
    assert numbers.differing() == [document]
    document.write_text(numbers.placed(document))
    assert document.read_text() == f"before\n<!-- numbers: {name} -->\n{BLOCKS[name]()}\n<!-- end -->\nafter\n"
    assert not numbers.differing()
    document.write_text(document.read_text().replace("0.506", "0.507"))
    assert numbers.differing() == [document]


@pytest.mark.parametrize(
    ("aimed", "at_least", "expected"),
    [(2.0, True, "met"), (3.0, True, "missed"), (3.0, False, "met"), (2.0, False, "missed"), (2.5, True, "met")],
)
def test_an_aim_is_met_on_its_own_side(monkeypatch, aimed, at_least, expected):
    of = aims.Aim("it", "bench_it", lambda result: result["it"], aimed, at_least=at_least)
    monkeypatch.setattr(aims, "AIMS", (of, of._replace(source="bench_other")))
    measured, not_measured = aims.rows({"bench_it": {"it": 2.5}}.get)
    assert (measured[0], measured[1], measured[3]) == ("it", "2.5", expected)
    assert not_measured == ("it", "not measured", measured[2], "")
    assert aims.rows({"bench_it": {"other": 2.5}}.get)[0][1] == "not measured at this size"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- numbers: nothing -->\n<!-- end -->", "there is no block 'nothing'"),
        ("<!-- numbers: sopa_fig1 -->\n", "needs its '<!-- end -->'"),
    ],
)
def test_a_wrong_marker_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        numbers.written(text)


SOURCES = {
    "benchmarks.item": (
        "from jaxdpbo import part\n\ndef main():\n    from jaxdpbo.room import deep\n    return part.f() + deep.g\n"
    ),
    "jaxdpbo.part": "def f():\n    return 1\n",
    "jaxdpbo.room": "other = 2\n",
    "jaxdpbo.room.deep": "g = 3\n",
    "benchmarks.report": "x = 1\n",
}  # fmt: skip


def test_the_hash_sees_code_and_nothing_else():
    def of(**changes):
        return fingerprint.digest(
            "benchmarks.item", read=(SOURCES | {k.replace("_", "."): v for k, v in changes.items()}).get
        )

    before = of()
    assert fingerprint.modules("benchmarks.item", read=SOURCES.get) == [
        "benchmarks.item", "jaxdpbo.part", "jaxdpbo.room.deep",
    ]  # fmt: skip
    assert of(jaxdpbo_part='"""Words."""\n\n\ndef f():\n    """More."""\n    # and more\n    return (1)\n') == before
    assert of(jaxdpbo_part="def f():\n    return 2\n") != before
    assert of(jaxdpbo_room_deep="g = 4\n") != before
    assert of(jaxdpbo_room="other = 3\n") == before
    with pytest.raises(ValueError, match="there is no module"):
        fingerprint.digest("benchmarks.gone", read=SOURCES.get)


def test_results_are_compared_to_rounding():
    before = {"mean": {"1": [1.0, 2.0], "2": "inf"}, "seconds": 3.0, "n": 4}
    near = {"mean": {"1": [1.000001, 2.0], "2": "inf"}, "seconds": 9.0, "n": 4, "commit": "another"}
    assert not list(numbers.differences(before, near))
    for wrong in (
        {"mean": {"1": [1.001, 2.0], "2": "inf"}, "n": 4},
        {"mean": {"1": [1.0], "2": "inf"}, "n": 4},
        {"mean": {"1": [1.0, 2.0], "2": 3.0}, "n": 4},
        {"mean": {"1": [1.0, 2.0], "2": "inf"}, "n": 5},
        {"mean": {"1": [1.0, 2.0], "2": "inf"}},
    ):
        assert len(list(numbers.differences(before, wrong))) == 1


def test_a_confirmed_figure_keeps_its_own_provenance(tmp_path, monkeypatch):
    """And one that differs is not confirmed."""
    name = "kharkovskii_branin"
    stored = tmp_path / "stored"
    (stored / "quick").mkdir(parents=True)
    result = report.stored(name) | {"code": "old", "confirmed": {"code": "older"}}
    (stored / f"{name}.json").write_text(json.dumps(result))
    (stored / "quick" / f"{name}.json").write_text(json.dumps({"mean": [1.0, 2.0]}))
    monkeypatch.setattr(report, "STORED", stored)
    monkeypatch.setattr(numbers, "QUICK", stored / "quick")
    monkeypatch.setattr(report, "RESULTS", tmp_path)

    def item(value):
        def run(seeds, quick):
            assert (seeds, quick) == (None, True)
            (report.RESULTS / "branin_quick.json").write_text(json.dumps({"mean": [1.0, value]}))

        return {"branin": run}

    monkeypatch.setattr(
        numbers, "measured", lambda: iter([(name, "benchmarks.reproductions.kharkovskii.branin", fingerprint.FIGURE)])
    )
    monkeypatch.setattr(numbers.reproductions, "items", lambda paper: item(2.5))
    assert numbers.confirm(name) == [".mean[1]: 2.0 before, 2.5 now"]
    assert list(numbers.changed()) == [name]
    monkeypatch.setattr(numbers.reproductions, "items", lambda paper: item(2.0))
    assert numbers.confirm(name) == []
    assert not numbers.changed()
    written = json.loads((stored / f"{name}.json").read_text())
    assert written | {"confirmed": result["confirmed"]} == result
    assert written["confirmed"]["code"] == fingerprint.digest("benchmarks.reproductions.kharkovskii.branin")


def test_what_a_result_lacks_is_said(tmp_path):
    given = {"entry": "benchmarks.report", "seeds": [0, 1], "noise": "none", "dtype": "float64", "started": 0.0}
    settings = {"printed in the paper": {}, "chosen here": {}}
    with pytest.raises(ValueError, match="found must leave commit"):
        report.write_result(tmp_path / "x.json", {"commit": "a"}, settings=settings, **given)
    with pytest.raises(ValueError, match="settings must say what is chosen here"):
        report.write_result(tmp_path / "x.json", {}, settings={"printed in the paper": {}}, **given)
    report.write_result(tmp_path / "x.json", {"mean": 1.0}, settings=settings, **given)
    written = json.loads((tmp_path / "x.json").read_text())
    assert set(report.FIELDS) <= written.keys()
    assert written["commit"] == report.committed()[0]


@pytest.mark.parametrize(
    ("value", "digits", "said"), [(107.09, 3, "107"), (0.5, 2, "0.50"), (1234.5, 3, "1,230"), (7.649, 3, "7.65")]
)
def test_figures_are_rounded_to_digits(value, digits, said):
    assert markdown.figures(value, digits) == said


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [([-2.0, -1.0], verdicts.HOLDS), ([-1.0, 1.0], verdicts.UNSEEN), ([1.0, 2.0], verdicts.REVERSED)],
)
def test_a_verdict_follows_from_the_numbers(interval, verdict):
    name = "DP-GIBO, mu=1 - random search"
    paired = {"mean difference": 0.0, "95%": interval, "lower in": 1, "of": 2}
    page = verdicts.page(lambda name: None)
    assert "sopa_fig1 | a larger budget ends nearer to the minimiser | not measured" in page
    claim = next(claim for claim in verdicts.CLAIMS if "random search" in claim.printed)
    assert claim.measured({"paired": {name: paired}})[1] == verdict
