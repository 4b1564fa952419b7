"""Notes: sentences about public facts, each with an id; shown in a repr, in a report, and once on a terminal."""

import inspect
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdpbo
from jaxdpbo import notes, report, tuning
from jaxdpbo.guarantee import guarantees

ROOT = Path(__file__).parent.parent
LIMITS = ROOT / "docs" / "limits.md"
STATED = guarantees.guarantee("gdp", 1.0, "replace_one", "users")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def rows_of_ids(page):
    """The ids in the table of notes, with what they follow from."""
    found = {}
    (page,) = re.findall(r"^\| id \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    for line in re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| ([^|]+) \|", page, re.MULTILINE):
        found |= dict.fromkeys(re.findall("`([a-z-]+)`", line[0]), line[1])
    return found


def test_the_page_of_limits_lists_every_note_and_what_it_follows_from():
    assert rows_of_ids(LIMITS.read_text()) == notes.SOURCES


def makers(source):
    """Functions of the room that return notes, by the ids in their source."""
    return set(re.findall(r'_note\(\s*"([a-z-]+)"', source))


def test_every_kind_of_note_has_one_maker_in_one_room():
    assert makers(inspect.getsource(notes)) == set(notes.SOURCES)
    others = [path for path in (ROOT / "jaxdpbo").rglob("*.py") if path.name != "notes.py"]
    assert [str(path) for path in others if re.search(r"\bNote\(", path.read_text())] == []
    with pytest.raises(AssertionError):
        notes._note("a-new-kind", "the column is of float64")


def test_makers_take_public_numbers_and_names_alone():
    """An array, or a thing with a dtype, cannot be passed: a note about values would need another signature."""
    named = [value for name, value in vars(notes).items() if inspect.isfunction(value) and not name.startswith("_")]
    made = [each for each in named if inspect.signature(each).return_annotation == notes.Notes and each != notes.show]
    assert len(made) == len(notes.SOURCES)
    kinds = {each.annotation for one in made for each in inspect.signature(one).parameters.values()}
    assert kinds <= {int, float, bool, str, Sequence[str]}


def test_a_terminal_shows_each_sentence_once_and_a_file_none(monkeypatch):
    said = notes.few_users(31, private=True) + notes.few_users(32, private=True)
    monkeypatch.setattr(notes, "_shown", set())
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    assert notes.show(said) == said
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    notes.show(said[:1])
    notes.show(said)
    assert file.getvalue() == ""
    lines = terminal.getvalue().splitlines()
    assert [line[:26] for line in lines] == ["jaxdpbo: 31 users are fewe", "jaxdpbo: 32 users are fewe"]
    assert all(line.endswith("[few-users]") for line in lines)


def test_an_account_in_a_ledger_of_others_does_not_steer_the_terminal(monkeypatch):
    monkeypatch.setattr(notes, "_shown", set())
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    notes.show(notes.from_ledger("march", "ada\x1b[2J\n", "2026-11-01"))
    assert terminal.getvalue().startswith("jaxdpbo: this is the release of run 'march', which ada?[2J? charged on 2026")
    assert terminal.getvalue().count("\n") == 1


def absolute(point, data):
    return jnp.abs(data - point[0])


def test_a_call_shows_its_notes_in_the_terminal_the_repr_and_the_report(monkeypatch):
    monkeypatch.setattr(notes, "_shown", set())
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    options = {"space": [(0, 1)], "mu": 1.0, "search": jaxdpbo.Search(method="local", steps=2, batch=2, clip_norm=1.0)}
    runs = [jaxdpbo.minimize(absolute, np.linspace(0, 1, 40), **options) for _ in range(2)]
    (said,) = (note for note in runs[0].notes if note.id == "few-users")
    assert terminal.getvalue().count(f"jaxdpbo: {said}\n") == 1
    assert f"\nnote: {said}\n" in repr(runs[1])
    made = runs[1].report()
    assert said in made.notes
    assert {"id": said.id, "text": said.text} in made.to_dict()["notes"]
    assert said.text in made.html()


def test_a_report_without_notes_has_no_heading_for_them():
    assert "<h2>Notes</h2>" not in report.report("a search", (STATED,)).html()


def test_a_registry_gets_the_notes_without_accounts():
    pytest.importorskip("yaml")
    said = notes.from_ledger("march", "ada, which <b>\nshe charged on , charged on", "2026-11-01T00:00:00")
    entry = {
        "name": "a", "data_curators": ["b"], "intended_use": "c", "data_product_region": "d",
        "publication_date": "2026-11-26", "registry_authors": ["e"],
    }  # fmt: skip
    text = report.report("a search", (STATED,), notes=said).registry(**entry)
    assert "ada" not in text
    assert "she" not in text
    assert "this is the release of run 'march', charged on 2026-11-01; nothing was charged" in " ".join(text.split())


def test_a_result_of_the_least_epsilon_shows_its_cost_and_no_model():
    reserved = guarantees.guarantee("ex_post_dp", 2.0, "replace_one", "rows", delta=1e-5, largest=2.0)
    found = tuning.LeastEpsilonResult(False, 0.5, object(), None, None, None, None, (reserved,))
    assert [note.id for note in found.notes] == ["error-not-reached"]
    assert "note: no training reached the error; this outcome cost epsilon 0.5, at most 2 was possible" in repr(found)
    assert "object" not in repr(found)
    assert found.report().notes == found.notes


def test_notes_are_sentences_without_line_breaks():
    said = [
        *notes.few_users(3, private=True), *notes.few_rows(3), *notes.few_public_rows(4),
        *notes.weights_train_alone("sample_weight"),
        *notes.one_fit(1), *notes.loss_without_code(),
        *notes.not_compared(), *notes.path_like_noise(), *notes.epsilon_reached(1.0, 2.0),
        *notes.error_not_reached(1.0, 2.0), *notes.resumed("a", "b", "2026-11-01", 1, "step"),
        *notes.from_ledger("a", "b", "2026-11-01"), *notes.values_like_noise(4), *notes.equal_points(4),
        *notes.narrowed_columns(["start"], "the files hold 64 bits", "compute it"),
        *notes.many_readings(3),
        *notes.clipped_integers(["data['cents']"]),
        *notes.ranges_from_rows(["'age'"], 0.05), *notes.ranges_like_noise(["'age'"]),
        *notes.ranges_at_limits(["'age'"]),
            *notes.best_within_noise(2, 3), *notes.error_like_a_constant(0.4, 0.5), *notes.wide_error(0.25),
    ]  # fmt: skip
    assert {note.id for note in said} == set(notes.SOURCES)
    assert all(note.text.isprintable() and not note.text.endswith(".") for note in said)
    assert notes.resumed("a", "b", "2026-11-01", 0, "step") == ()
