"""Pages and docstrings speak plain English to their reader."""

import ast
from pathlib import Path

import prose
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = sorted((ROOT / "jaxdpbo").rglob("*.py"))
PAGES = [*prose.pages(ROOT), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
UNCLEAR = {"whose", "whom", "told", "whatever", "whoever", "beforehand", "likewise", "alike", "lest"}


def strings(path):
    """Every string of a module, docstrings and messages, as one text."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return "\n\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_a_page_names_its_subjects_in_plain_words(path):
    text = path.read_text()
    count, pointing, _ = prose.rates([text])
    assert count < 100 or pointing <= 35
    assert sorted(UNCLEAR & set(prose.words(text))) == []


def test_pages_speak_to_the_reader():
    _, pointing, address = prose.rates(path.read_text() for path in prose.pages(ROOT))
    assert pointing <= 25
    assert address >= 6


def test_docstrings_and_messages_name_their_subjects_in_plain_words():
    _, pointing, _ = prose.rates(map(prose.docstrings, PACKAGE))
    assert pointing <= 25
    unclear = {
        f"{path.relative_to(ROOT)}: {word}" for path in PACKAGE for word in UNCLEAR & set(prose.words(strings(path)))
    }
    assert sorted(unclear) == []


def test_a_planted_riddle_is_counted():
    riddle = "That which is told is what it is; `it`, [a](that.md) and test_it::that_one are not.\n>>> it = 1\n"
    count, pointing, address = prose.rates([riddle])
    assert (count, round(pointing * count / 1000), address) == (12, 4, 0.0)
    assert "told" in prose.words(riddle)
    assert prose.rates(["Call your function."])[2] == pytest.approx(1000 / 3)
