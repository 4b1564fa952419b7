"""``scripts/bench`` and ``scripts/reproduce`` refuse with a message, and list what there is."""

import re
import sys

import pytest

from benchmarks import bench, reproduce, speed
from benchmarks.search import tasks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sopa", "fig9"], "sopa has fig1, fig2, fig3, fig4, fig5, clip_norms; got 'fig9'"),
        (["nobody", "fig1"], "invalid choice: 'nobody'"),
        (["sopa", "fig1", "--seeds", "5"], "must be FIRST:LAST, as 100:200, up to 10000, got 5"),
        (["sopa", "fig1", "--seeds", "9:10001"], "up to 10000, got 9:10001"),
    ],
)
def test_reproduce_says_what_it_refuses(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
    with pytest.raises(SystemExit) as refused:
        reproduce.main()
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "arguments", "lines"),
    [
        (reproduce, ["kusner"], ("kusner fig1 ", "kusner regret ")),
        (bench, [], tuple(f"{name} " for name in (*speed.NAMES, "commits", *bench.SEARCHES))),
    ],
    ids=["reproduce", "bench"],
)
def test_a_command_without_an_item_lists_what_there_is(module, arguments, lines, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["a command", *arguments])
    module.main()
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert "last took" in header
    assert all(row.startswith(line) for row, line in zip(rows, lines, strict=True))
    assert all(re.search(r"  \d+ (s|min)  |not recorded  ", row) for row in rows)


def test_every_script_of_the_tutorials_is_measured():
    assert {path.stem for path in tasks.FOLDER.glob("*.py")} == set(tasks.TASKS)
