"""The README's example runs, and what README and scripts name exists."""

import ast
import builtins
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import evidence
import jax
import numpy as np

import jaxdpbo
from jaxdpbo.guarantee import assumptions

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = "".join(page.read_text() for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))


def examples():
    """The first search, that of an estimator, and tuning with training."""
    return re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def output():
    (printed,) = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    return printed


def masked(text):
    """Without the digits of a random point, which comes last."""
    *lines, last = text.splitlines()
    return [*lines, re.sub(r"\d+\.\d*\s*", "x ", last)]


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120
    prose = re.sub(r"```.*?```|[`*#|]|\]\(\S*\)", " ", README, flags=re.DOTALL)
    assert len(re.findall(r"[A-Za-z][\w'-]*", prose)) <= 450
    assert output().startswith("epsilon = 2.99")


def test_the_example_runs_and_prints_what_stands_below_it(capsys):
    example, _, _ = examples()
    assert len(example.splitlines()) <= 20
    scope = {}
    with jax.numpy_rank_promotion("allow"), jax.enable_x64(False):  # as a user has it
        exec(compile(example, "README.md", "exec"), scope)
    assert masked(capsys.readouterr().out) == masked(output())
    point = np.asarray(scope["run"].release.point)
    np.testing.assert_allclose(point, np.median(np.asarray(scope["records"]), axis=0), atol=0.5)
    assert scope["run"].guarantee.epsilon(delta=1e-5) <= 3


def test_an_estimator_is_searched_in_fifteen_lines(capsys):
    _, example, _ = examples()
    assert len(example.splitlines()) <= 15
    scope = {}
    with jax.numpy_rank_promotion("allow"):
        exec(compile(example.replace("n_iter=60", "n_iter=8"), "README.md", "exec"), scope)
    assert scope["search"].guarantee_.epsilon(delta=1e-5) <= 1
    assert str(scope["search"].best_params_) in capsys.readouterr().out


def test_tuning_and_training_take_ten_lines_and_print_one_epsilon(capsys):
    _, _, example = examples()
    assert len(example.splitlines()) <= 10
    with jax.numpy_rank_promotion("allow"):
        exec(compile(example, "README.md", "exec"), {})
    assert 1.8 < float(capsys.readouterr().out.splitlines()[-1]) <= 2


def unbound(source):
    """Names that a block reads and neither binds nor imports."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler))}
    bound |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    return {node.id for node in names} - bound


def test_every_block_of_a_page_stands_alone():
    """``scripts/test --systems`` runs each block alone; here no block may need a name from another."""
    docs = runpy.run_path(str(ROOT / "docs" / "run_blocks.py"))
    blocks = [(path, block) for path in docs["pages"]() for block in docs["blocks"](path)]
    assert len(blocks) > 30
    for path, block in blocks:
        assert block.reason is not None or unbound(block.source) == set(), f"{path.name}, line {block.line}"
    elsewhere = "tests/systems/engines.py runs it"
    assert sum(block.reason is not None and elsewhere not in block.reason for _, block in blocks) <= 6
    assert not any("<!-- run" in path.read_text() for path in docs["pages"]())
    assert unbound("x = [y for y in z]\nfrom a.b import c as d\nd(print, w)") == {"z", "w"}  # a planted one is seen


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_link_and_command_exists():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            if evidence.is_left_out(linked):
                continue
            assert linked.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}"
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
        assert name in PAGES


def test_every_assumption_of_the_package_has_its_words_on_the_page():
    page = re.sub(r"\s*\n(> )?", " ", (ROOT / "docs" / "assumptions.md").read_text())
    assert [text for text in assumptions.SECTIONS if text not in page] == []
    assert set(assumptions.SECTIONS.values()) <= anchors(ROOT / assumptions.PAGE)
    texts = {value for name, value in vars(assumptions).items() if name.isupper() and isinstance(value, str)}
    assert texts - assumptions.SECTIONS.keys() == {assumptions.PAGE}


PROGRAMS = """
import jax, sys
started = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: started.append(event) if event == "/jax/core/compile/backend_compile_duration" else None
)
exec(compile(sys.stdin.read(), "README.md", "exec"), {})
print(len(started))
"""


def test_the_example_starts_three_programs_at_most():
    """The run, and the user's own array: configs are arithmetic of NumPy."""
    example, *_ = examples()
    done = subprocess.run([sys.executable, "-c", PROGRAMS], input=example, capture_output=True, text=True, check=True)
    assert 1 <= int(done.stdout.split()[-1]) <= 3
