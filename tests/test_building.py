"""The page for authors of other libraries: every block runs alone, and a BoTorch loop finds the optimum."""

import ast
import re
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "building.md"
TOLERANCE = 0.05  # of the answer in the unit square; the two groups of users are 0.7 apart
DOCS = runpy.run_path(str(ROOT / "docs" / "run_blocks.py"))
BLOCKS = DOCS["blocks"](PAGE)
(LOOP,) = (block for block in BLOCKS if block.reason is not None)
(OUTPUT,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def as_outside():
    """JAX as a reader has it; the loop asks for x64, which is on here already."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize("block", [block for block in BLOCKS if block is not LOOP], ids=lambda block: str(block.line))
def test_a_block_runs_alone(block, as_outside):
    DOCS["run"](PAGE, block)


class Points(np.ndarray):
    """Points with the method of a tensor that the loop calls."""

    def numpy(self):
        return np.asarray(self)


def without_botorch(source):
    """The loop without its statements that name PyTorch, GPyTorch or BoTorch: our half."""
    tree, theirs = ast.parse(source), {"torch", "gpytorch", "botorch"}
    foreign = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in theirs
    }

    def names(node):
        return {each.id if isinstance(each, ast.Name) else getattr(each, "name", None) for each in ast.walk(node)}

    tree.body = [node for node in tree.body if not names(node) & foreign]
    assert len(foreign) == 6
    return tree


def check_answer(scope):
    axis = np.linspace(0, 1, 101)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    means = [scope["losses"](point, scope["records"]).mean() for point in grid]
    np.testing.assert_allclose(scope["answer"], grid[np.argmin(means)], atol=TOLERANCE)
    assert scope["objective"].remaining == 0
    assert scope["objective"].guarantee.epsilon(delta=1e-5) <= 1


def test_our_half_of_the_loop_needs_no_botorch(as_outside):
    axis = np.linspace(0.1, 0.9, 5)
    scope = {"points": np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2).view(Points)}
    exec(compile(without_botorch(LOOP.source), str(PAGE), "exec"), scope)
    check_answer(scope)


def test_the_botorch_loop_finds_the_optimum(as_outside, capsys):
    pytest.importorskip("botorch")
    scope = {}
    exec(compile(LOOP.source, str(PAGE), "exec"), scope)
    check_answer(scope)
    assert capsys.readouterr().out.splitlines()[:-1] == OUTPUT.splitlines()[:-1]  # the last is a random point


def test_the_page_has_one_loop_of_sixty_lines():
    assert len(LOOP.source.splitlines()) <= 60
    assert len(BLOCKS) == 10
