"""`scripts/counts [CHECKOUT]`: the package by room, and how far a loss and a step of DP-GIBO travel in it.

Also of another checkout, such as an older commit's.
"""

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BOUNDS = ("clip_norm", "radius", "gradient_bound")  # twice one of these is what replacing one user moves
WATCH = """
import json, sys
from pathlib import Path
import jax
import jax.numpy as jnp
import jaxdpbo
package, walk = str(Path(jaxdpbo.__file__).parent), []
def watch(frame, event, _):
    file = frame.f_code.co_filename
    if event == "call" and walk[-1:] != ["noise is drawn"]:
        if file.startswith(package) and walk[-1:] != [file]:
            walk.append(file)
        if frame.f_code.co_name in STOP:
            walk.append("noise is drawn")
"""
# From where the objective of a run is evaluated to the noise; a stay is all calls in a row of one file.
LOSS = """
STOP = "rounded_gaussian", "discrete_gaussian"
def loss(point, data):
    if walk[-1:] != ["noise is drawn"]:
        walk.clear()
    return jnp.sum((data - point) ** 2, axis=1)
sys.setprofile(watch)
jaxdpbo.minimize(loss, jnp.ones((50, 3)), [[0, 0, 0], [6, 6, 6]], mu=1.0)
sys.setprofile(None)
print(json.dumps([len(walk) - 1, len(set(walk)) - 1]))
"""
STEP = """
STOP = ()
algorithm = jaxdpbo.dp_gibo.algorithm
config = jaxdpbo.dp_gibo.config(users=50, steps=3, mu=1.0, bounds=[(0, 6)] * 3)
def step(key):
    state, memory = algorithm.init(key, config), algorithm.remember(config, 50)
    query = algorithm.ask(key, config, state)
    total, _ = algorithm.contribute(config, query, memory, jnp.ones((len(query.points), 50), query.points.dtype))
    return algorithm.tell(config, state, query, algorithm.perturb(key, config, query, total.whole))
sys.setprofile(watch)
jax.eval_shape(step, jax.random.key(0))
sys.setprofile(None)
print(json.dumps([len(walk), len(set(walk))]))
"""


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All of a module, nested ones included."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler),
    *(ast.comprehension, ast.Assert, ast.match_case),
)  # one more path each


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """McCabe's: 1, one for each branch, and one for each further operand of ``and`` or ``or``.

    A function inside counts here, and once more on its own.
    """
    nodes = list(ast.walk(function))
    operands = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return 1 + sum(isinstance(node, BRANCHES) for node in nodes) + operands


def doubles_a_bound(node: ast.AST) -> bool:
    """Whether it is twice a bound on one user, such as ``2.0 * config.clip_norm``: a sensitivity written out."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    factors = [ast.unparse(side) for side in (node.left, node.right)]
    return any(factor in ("2", "2.0") for factor in factors) and any(
        bound in factor for factor in factors for bound in BOUNDS
    )


def computes_a_sensitivity(tree: ast.Module) -> bool:
    """Whether a function is one, by its name, or doubles a bound on one user."""
    named = any(function.name.endswith("sensitivity") for function in functions(tree))
    return named or any(map(doubles_a_bound, ast.walk(tree)))


def lines(text: str) -> tuple[int, int, int]:
    """Lines of code, of docstrings, and with a comment; blank lines count nowhere."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            documented |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    blank = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
    code = {number for token in tokens if token.type not in blank for number in range(token.start[0], token.end[0] + 1)}
    return len(code - documented), len(documented), len(comments)


def rooms(root: Path) -> dict[str, list[int]]:
    """Files, lines of code, docstrings and comments of each room, the largest first; and of all."""
    found: dict[str, list[int]] = {}
    for file in (root / "jaxdpbo").rglob("*.py"):
        room = file.relative_to(root / "jaxdpbo").parts[0].removesuffix(".py")
        for name in ("all", room):
            row = (1, *lines(file.read_text()))
            found[name] = [sum(pair) for pair in zip(found.get(name, [0] * 4), row, strict=True)]
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def walked(root: Path, code: str) -> tuple[int, int]:
    """Stays and files of a watched program, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", WATCH + code], cwd=root, check=True, capture_output=True, text=True)
    stays, files = json.loads(done.stdout)
    return stays, files


def print_counts(root: Path) -> None:
    """Print the table of a checkout."""
    print(f"{'room':20} {'files':>6} {'code':>7} {'docstrings':>11} {'comments':>9}")
    for name, (files, code, documented, comments) in rooms(root).items():
        print(f"{name:20} {files:6} {code:7} {documented:11} {comments:9}")
    stays, files = walked(root, LOSS)
    print(f"a user's loss, to the noise: {stays} stays, {files} rooms and files, {stays - files} returns")
    print(f"a step of DP-GIBO: {walked(root, STEP)[1]} files")


def main() -> None:
    """Print the counts of this checkout, after those of another."""
    parser = argparse.ArgumentParser(prog="scripts/counts", description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, help="another checkout")
    arguments = parser.parse_args()
    for root in (arguments.checkout, ROOT):
        if root is not None:
            print(root.resolve())
            print_counts(root.resolve())


if __name__ == "__main__":
    main()
