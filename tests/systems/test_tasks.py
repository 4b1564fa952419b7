"""Scripts of docs/tutorials/tasks run as they stand; ``scripts/bench tasks`` runs all of them, with their times."""

import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from environments import ROOT

SCHEMA = ROOT.parent / "shared" / "data" / "registry" / "deployments-schema.yaml"


def run(name, folder):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, ROOT / "docs" / "tutorials" / "tasks" / f"{name}.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_new_algorithm_comes_nearer_with_a_larger_budget(tmp_path):
    distances = [float(line.split()[-1]) for line in run("sweep_an_algorithm", tmp_path).splitlines()]
    assert distances[-1] < distances[0]


def test_a_year_is_signed_off_with_an_entry_that_fits_the_schema(tmp_path):
    run("sign_off", tmp_path)
    assert "Privacy record" in (tmp_path / "record.html").read_text()
    if not SCHEMA.exists():
        pytest.skip("needs the schema of the registry")
    entry = yaml.safe_load((tmp_path / "registry.yaml").read_text())
    jsonschema.validate(entry, yaml.safe_load(Path(SCHEMA).read_text()))
