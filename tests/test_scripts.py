"""The commands parse, refuse with a message, and install nothing when given a Python; a hidden skip fails a run."""

import os
import subprocess
import sys
from pathlib import Path

import evidence
import pytest
import suite

ROOT = Path(__file__).parent.parent
COMMANDS = sorted(path for path in (ROOT / "scripts").iterdir() if not path.name.startswith("_"))


@pytest.mark.parametrize("path", [*COMMANDS, ROOT / "scripts" / "_python", ROOT / ".ci" / "run"], ids=lambda p: p.name)
def test_scripts_parse(path):
    assert subprocess.run(["bash", "-n", path]).returncode == 0
    assert path.name == "_python" or os.access(path, os.X_OK)


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


def test_scripts_let_python_keep_what_it_compiled():
    environment = os.environ | {"JAXDPBO_PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["bash", "-c", "source scripts/_python dev && env"]
    variables = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=True).stdout
    assert "JAXDPBO_PYTHON=" in variables
    assert "PYTHONDONTWRITEBYTECODE" not in variables


@pytest.mark.parametrize(("body", "passes"), [("pass", True), ("pytest.skip('tired')", False)])
def test_an_unlisted_skip_fails_the_run(tmp_path, body, passes):
    (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_it():\n    {body}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "suite", "-c", os.devnull, "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
    )
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert ("UNLISTED SKIP" in done.stdout) != passes


@pytest.mark.parametrize(("until", "ran"), [(1.0, False), (9e9, True)])
def test_a_run_that_is_out_of_time_says_what_did_not_run(tmp_path, until, ran):
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n\ndef test_more(): assert 0 < 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "suite", "-c", os.devnull, "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", suite.UNTIL: str(until)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("2 passed" in done.stdout) == ran
    assert ("OUT OF TIME on this machine: 2 tests of test_it.py did not run" in done.stdout) != ran


DAILY = """
import pytest

@pytest.mark.daily("a*")
@pytest.mark.parametrize("case", ["a1", "a2", "b"])
def test_few(case): pass

@pytest.mark.full
def test_none(): pass

def test_all(): pass
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["test_it.py"], "3/5 tests collected (2 deselected)"),
        (["test_it.py", "--full"], "5 tests collected"),
        (["test_it.py::test_none", "test_it.py::test_few"], "4 tests collected"),
        (["test_renamed.py"], "names a case that there is not"),
    ],
    ids=["daily", "full", "named", "renamed"],
)
def test_cases_that_are_not_of_the_daily_run_are_of_the_full_one(tmp_path, monkeypatch, capsys, options, said):
    (tmp_path / "test_it.py").write_text(DAILY)
    (tmp_path / "test_renamed.py").write_text(DAILY.replace('"a*"', '"a*", "c"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evidence, "record", lambda _: None)  # nothing was counted
    of_this = ["-p", "suite", "-c", os.devnull, "--rootdir", ".", "--import-mode=importlib"]
    pytest.main([*of_this, "--collect-only", *options])
    assert said in "".join(capsys.readouterr())
