"""The commands parse, refuse with a message, and install nothing when given a Python; a hidden skip fails a run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import bench, reproduce, speed

ROOT = Path(__file__).parent.parent
COMMANDS = sorted(path for path in (ROOT / "scripts").iterdir() if not path.name.startswith("_"))


@pytest.mark.parametrize("path", [*COMMANDS, ROOT / "scripts" / "_python", ROOT / ".ci" / "run"], ids=lambda p: p.name)
def test_scripts_parse(path):
    assert subprocess.run(["bash", "-n", path]).returncode == 0
    assert path.name == "_python" or os.access(path, os.X_OK)


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


@pytest.mark.parametrize("script", ["bench", "test"])
@pytest.mark.parametrize("device", ["moon", "cpu:0", ""])
def test_an_unknown_device_is_refused_before_anything_runs(script, device):
    environment = os.environ | {"JAXDPBO_PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "scripts" / script, "--device", device],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT.parent,
    )
    assert done.returncode == 2
    assert f"--device must be cpu, cpu:N, gpu, cuda, rocm or tpu, got {device}" in done.stderr
    assert done.stdout == ""
    assert "installing" not in done.stderr


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


@pytest.mark.parametrize(("body", "passes"), [("pass", True), ("pytest.skip('tired')", False)])
def test_an_unlisted_skip_fails_the_run(tmp_path, body, passes):
    (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_it():\n    {body}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-c", os.devnull, "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}"},
    )
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert ("UNLISTED SKIP" in done.stdout) != passes
