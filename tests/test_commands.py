"""``jaxdpbo COMMAND``: every command says what it is, refuses with a sentence, and answers."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jaxdpbo
from jaxdpbo import commands, ledger, types
from jaxdpbo.commands import demo

ROOT = Path(__file__).parent.parent
USERS = "the users with evaluated losses"


@pytest.fixture
def path(tmp_path):
    """A ledger of mu = 2 with one run of mu = 1."""
    path = tmp_path / "budget.jsonl"
    ledger.create(path, notion="gdp", level=2, relation="replace_one", protects=USERS)
    ledger.charge(path, "march", "a mean", ledger.Spend((ledger.Event("gdp", 1),), "replace_one", USERS))
    return path


def said(capsys, *arguments):
    commands.main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def refusal(*arguments):
    with pytest.raises(SystemExit) as end:
        commands.main([str(argument) for argument in arguments])
    return str(end.value)


def test_the_module_is_the_console_script():
    done = subprocess.run(
        [sys.executable, "-m", "jaxdpbo", "ledger", "head", "nowhere.jsonl"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "nowhere.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
    assert 'jaxdpbo = "jaxdpbo.commands:main"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_every_command_helps(capsys, name):
    with pytest.raises(SystemExit) as end:
        commands.main([name, "--help"])
    assert end.value.code == 0
    assert f"usage: jaxdpbo {name}" in capsys.readouterr().out


def test_what_is_no_command_is_refused(capsys):
    for arguments in ([], ["audit"]):
        with pytest.raises(SystemExit) as end:
            commands.main(arguments)
        assert end.value.code == 2
    with pytest.raises(SystemExit):
        commands.main(["--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in commands.COMMANDS)


def test_the_ledger_is_described_and_verified_against_a_head_noted_earlier(capsys, path):
    *described, budget, spent = said(capsys, "ledger", "describe", path).splitlines()
    assert described == ledger.describe(path).splitlines()
    assert (budget[:17], spent[:17]) == ("budget: epsilon =", "spent: epsilon = ")
    head = said(capsys, "ledger", "head", path).strip()
    assert head == ledger.head(path)
    ledger.charge(path, "april", "a mean", ledger.Spend((ledger.Event("gdp", 1),), "replace_one", USERS))
    assert "whole, 2 runs charged" in said(capsys, "ledger", "verify", path, "--head", head)
    assert "whole, 2 runs charged" in said(capsys, "ledger", "verify", path)


def test_a_ledger_that_was_cut_short_is_not_verified(path):
    head = ledger.head(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert "expected line" in refusal("ledger", "verify", path, "--head", head)
    path.write_bytes(lines[0].replace(b"gdp", b"gdq") + lines[1])
    for action in ("verify", "describe", "head"):
        assert "budget.jsonl" in refusal("ledger", action, path)


def test_a_ledger_older_than_its_mark_is_not_verified(path):
    older = path.read_bytes()
    ledger.charge(path, "april", "a mean", ledger.Spend((ledger.Event("gdp", 1),), "replace_one", USERS))
    path.write_bytes(older)
    assert "is older than its mark" in refusal("ledger", "verify", path)


def test_a_missing_extra_is_named(monkeypatch):
    for name in ("matplotlib", "tqdm"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, None)
            extra = commands.EXTRAS[name]
            assert f"{name} is missing: pip install -e '.[{extra}]' in the checkout of jaxdpbo" in refusal("demo")


def test_no_text_advises_to_install_by_a_name_that_no_index_has():
    """Anybody who registered the name would be run. In pyproject.toml it is this package itself."""
    advice = re.compile(r"\b(install|add)\b(\s+-\S+)*\s+['\"]?jaxdpbo\b")
    folders = (ROOT / name for name in ("jaxdpbo", "docs", "scripts", "benchmarks"))
    found = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*"))]
    for path in found:
        if path.is_file() and path.suffix in ("", ".py", ".md", ".ipynb"):
            assert not [line for line in path.read_text().splitlines() if advice.search(line)], path
    for bad in ("pip install 'jaxdpbo[demo]'", "uv add jaxdpbo", "pip install jaxdpbo==0.1.0"):
        assert advice.search(bad)


def test_the_demo_draws_random_search_as_the_best_loss_so_far(monkeypatch):
    """Each step of random search is a batch of two points; before the first step stands the untuned loss."""
    batches = types.Info({"mean_loss": [[5.0, 3.0], [4.0, 6.0], [1.0, 9.0]]})
    found = SimpleNamespace(
        release=SimpleNamespace(point=0.5, path=[0.0, 0.5], values=[2.0], points=np.array([0.5])),
        diagnostics=SimpleNamespace(info=batches),
    )
    for name in ("run_gibo", "run_evaluations", "run_random_search"):
        monkeypatch.setattr(demo, name, lambda *_: found)
    drawn = demo.run_seed(None, lambda point: 10 * point, None, None, None, 4.0)
    assert drawn[demo.SEARCH][0] == 5.0
    np.testing.assert_array_equal(drawn[demo.SEARCH][1], [4.0, 3.0, 3.0, 1.0])


def test_the_version_is_said(capsys):
    with pytest.raises(SystemExit) as end:
        commands.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"jaxdpbo {jaxdpbo.__version__}\n"
