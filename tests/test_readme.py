"""The README's example runs, and what README and scripts name exists."""

import os
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxdpbo

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def example():
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    return code


def test_the_example_runs_and_says_what_it_released(capsys):
    assert len(example().splitlines()) <= 20
    scope = {}
    with jax.numpy_rank_promotion("allow"):  # as a user has it
        exec(compile(example(), "README.md", "exec"), scope)
    printed = capsys.readouterr().out.splitlines()
    assert "gdp 0.998535, total variation at most 6.7e-34 (replace_one)" in printed[1]
    assert float(printed[2]) == pytest.approx(4.370, abs=1e-3)
    point = np.asarray(scope["run"].release.point)
    np.testing.assert_allclose(point, np.median(np.asarray(scope["records"]), axis=0), atol=0.5)


def test_every_link_and_command_exists():
    for target in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    for command in set(re.findall(r"scripts/\w+", README)):
        assert os.access(ROOT / command, os.X_OK), command


def test_every_public_name_is_there_and_said():
    assert all(hasattr(jaxdpbo, name) for name in jaxdpbo.__all__)
    assert sorted(jaxdpbo.__all__) == jaxdpbo.__all__
    for name in (
        "minimize",
        "run_scan",
        "dp_gd",
        "dp_gibo",
        "dp_gp_ucb",
        "gp_ucb",
        "private_evaluations",
        "random_search",
    ):
        assert name in README
