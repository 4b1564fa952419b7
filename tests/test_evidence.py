"""docs/evidence.md keeps the counts of tests that exist."""

import evidence
from suite import LISTED_SKIPS


def test_evidence_keeps_the_counts_of_tests_that_are_there(tmp_path):
    rows, page = tmp_path / "results" / "rows.json", tmp_path / "page.md"
    known = "tests/test_evidence.py::test_a_line_is_of_a_test_that_is_there"
    today = {"date": "2026-01-02", "commit": "0123456789abcdef"}
    evidence.record([{"test": f"{known}[{n}]", "count": 1000 * n} | today for n in (3, 2)], rows, page)
    evidence.record([{"test": "tests/test_evidence.py::test_that_is_gone", "count": 9} | today], rows, page)
    counts = {"drawn": 12, "killed": 8, "time": 1, "survived": 1, "equivalent": 2}
    evidence.record_mutants({"privacy": counts}, "scripts/test --mutants 12", **today, page=page)
    parts = [{"route": "a", "draws": "2 choice", "neighbours": 9}, {"route": "a", "charged": "dp 1.0000"}]
    evidence.record_conformance(parts, **today, page=page)
    rows.unlink()  # as in a fresh clone
    evidence.record([{"test": known, "count": 5} | today], rows, page)
    text = page.read_text()
    assert f"| {known} | 1 | 5 | 2026-01-02 | 01234567 |" in text
    assert "gone" not in text
    assert text.count("(2026-01-02, 01234567)") == 2
    assert "| a | 2 choice | 9 |  |  | dp 1.0000 |" in text
    assert "| all | 12 | 8 | 1 | 1 | 2 | 90.0% |" in text
    assert not evidence.is_defined("tests/test_gone.py::test_a_line_is_of_a_test_that_is_there")


def test_a_line_is_of_a_test_that_is_there():
    tests = [line[1] for line in evidence.LINE.finditer(evidence.PAGE.read_text())]
    assert len(tests) > 50
    gone = [test for test in tests if not evidence.is_defined(test)]
    assert [test for test in gone if not evidence.is_left_out(evidence.ROOT / test)] == []


def test_a_listed_skip_is_of_a_test_that_is_there():
    gone = [test for test in LISTED_SKIPS if not evidence.is_defined(test)]
    assert [test for test in gone if not evidence.is_left_out(evidence.ROOT / test)] == []
