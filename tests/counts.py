"""`scripts/counts [CHECKOUT]`: size and plainness of the package, in this checkout and, optionally, in another."""

import argparse
import ast
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import prose

ROOT = Path(__file__).parent.parent
BOUNDS = ("clip_norm", "radius", "gradient_bound")  # twice one of these is what replacing one user moves
# Which files of the package a call of minimize enters before the noise; and, of these, which users' losses pass:
# those on the stack where the objective is evaluated for the run, and those entered from there on. Its walk: the files
# of the functions called from there on, one stay for all calls in a row of one file.
ENTERED = """
import json, sys
from pathlib import Path
import jax.numpy as jnp
import jaxdpbo
package, entered, passed, walk, drawn = Path(jaxdpbo.__file__).parent, set(), set(), [], []
def enter(frame, *places):
    if frame.f_code.co_filename.startswith(str(package)):
        for files in places:
            files.add(frame.f_code.co_filename)
def watch(frame, event, _):
    if event == "call" and not drawn:
        enter(frame, entered, passed)
        file = frame.f_code.co_filename
        if file.startswith(str(package)) and walk[-1:] != [file]:
            walk.append(file)
        drawn.extend(["now"] if frame.f_code.co_name in ("rounded_gaussian", "discrete_gaussian") else [])
def loss(point, data):
    if not drawn:
        passed.clear()
        walk.clear()
        frame = sys._getframe()
        while frame := frame.f_back:
            enter(frame, passed)
    return jnp.sum((data - point) ** 2, axis=1)
sys.setprofile(watch)
jaxdpbo.minimize(loss, jnp.ones((50, 3)), [[0, 0, 0], [6, 6, 6]], mu=1.0)
sys.setprofile(None)
print(json.dumps([len(entered), len(passed), len(walk), len(set(walk))]))
"""

# Past participles that a function's name may end in, but none that is an imperative as well, such as "read" and "cut"
WORDS = """
added agreed allowed answered applied asked begun bounded built calibrated called carried changed charged checked chosen
clipped closed computed conditioned converted counted curated decoded described designed divided dominated done
drained drawn encoded entered estimated evaluated exhausted expected explained failed filled finished fitted fixed
floored folded found framed gained given grouped guarded held hidden indexed inferred joined kept known located
locked logged looked lost made marked masked measured mixed moved named noised noted numbered observed opened
projected ordered padded parsed perturbed placed planned predicted prepared proposed published quantised ranked reached
rebuilt recorded reduced refined refitted refused refuted rejected released repaired replayed responded resumed
returned rewritten rounded routed scored searched seeded seen selected sent served shared shown signed silenced
snapped sorted spent squared staged standardised standardized started stated stored suggested summed swapped taken told
traced trained transformed tuned turned typed unbounded undominated unsatisfied unseen used verified whitened
wrapped written
"""
PARTICIPLES = frozenset(WORDS.split())
PREPOSITIONS = ("of", "over", "beside", "under", "within", "at", "from", "by", "on", "with", "to")
CONVERSIONS = ("to", "from")  # `to_X` and `from_X` are Python's own words for a conversion
PREDICATES = ("is", "has", "are")  # `is_checked` asks a question
KEPT = ("by_person",)  # an entry point


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All of a module, nested ones included."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines, without the docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring_lines = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring_lines


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


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Without ``self``."""
    arguments = function.args
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred)
    return [argument for argument in every if argument.arg not in ("self", "cls")]


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Public functions and methods, ``__init__`` and ``__call__`` included; not functions inside a function."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.ClassDef):
            waiting += node.body
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name.startswith("__")):
            yield node


def any_names(trees: list[ast.Module]) -> set[str]:
    """``Any``, and every alias of it: ``Name: TypeAlias = Any``, of an alias too."""
    names, before = {"Any"}, 0
    pairs = [
        (node.target, node.value) if isinstance(node, ast.AnnAssign) else (node.targets[0], node.value)
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    while len(names) > before:
        before = len(names)
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in names:
                names.add(target.id)
    return names


def any_share(package: Path) -> float:
    """The share of parameters of public functions that are annotated ``Any``, alone or in a union, or by an alias."""
    trees = [ast.parse(path.read_text()) for path in package.rglob("*.py")]
    names = any_names(trees)
    annotations = [
        ast.unparse(parameter.annotation) if parameter.annotation else "Any"
        for tree in trees
        for function in public_functions(tree)
        for parameter in parameters(function)
    ]
    return sum(bool(names & set(text.strip("'").split(" | "))) for text in annotations) / len(annotations)


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


def is_participle(name: str) -> bool:
    """Whether a function's name ends in a past participle: ``shown``, ``given_back``; ``is_shown`` does not count."""
    words = name.strip("_").split("_")
    if words[0] in PREDICATES:
        return False
    if len(words) > 1 and words[-1] in (*PREPOSITIONS, "back", "out", "off", "once", "down"):
        words = words[:-1]
    return words[-1] in PARTICIPLES


def is_prepositional(name: str) -> bool:
    """Whether a name begins or ends with a preposition: ``costs_of``, ``over``; the conversion ``to_jax`` does not."""
    words = name.strip("_").split("_")
    if name in KEPT or words[0] in PREDICATES:
        return False
    conversion = len(words) > 1 and words[0] in CONVERSIONS
    return words[-1] in PREPOSITIONS or (words[0] in PREPOSITIONS and not conversion)


def quantile(values: list[int], share: float) -> int:
    """The least of ``values`` that at least this share of them does not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def counts(root: Path) -> dict[str, object]:
    """Of the checkout at ``root``."""
    files = sorted((root / "jaxdpbo").rglob("*.py"))
    trees = {file: ast.parse(file.read_text()) for file in files}
    lines = [len(file.read_text().splitlines()) for file in files]
    all_functions = [function for tree in trees.values() for function in functions(tree)]
    lengths, many = list(map(length, all_functions)), [len(parameters(function)) for function in all_functions]
    paths = list(map(complexity, all_functions))
    alone = [sys.executable, "-c", ENTERED]
    done = subprocess.run(alone, cwd=root, check=True, capture_output=True, text=True)
    entered, passed, stays, places = json.loads(done.stdout)
    pages = prose.rates(path.read_text() for path in prose.pages(root))
    documented = prose.rates(map(prose.docstrings, files))
    return {
        "modules": len(files),
        "modules of at most 400 lines, %": round(100 * sum(count <= 400 for count in lines) / len(files), 1),
        "longest module, lines": max(lines),
        "functions": len(all_functions),
        "lines of a function: median": statistics.median(lengths),
        "lines of a function: 90th percentile": quantile(lengths, 0.9),
        "lines of a function: most": max(lengths),
        "functions over 80 lines": sum(count > 80 for count in lengths),
        "functions of complexity over 15": sum(count > 15 for count in paths),
        "complexity: most": max(paths),
        "parameters: median": statistics.median(many),
        "parameters: most": max(many),
        "functions of more than 12 parameters": sum(count > 12 for count in many),
        "Any, % of public parameters, aliases resolved": round(100 * any_share(root / "jaxdpbo"), 1),
        "functions named by a participle": sum(is_participle(function.name) for function in all_functions),
        "functions named by a preposition": sum(is_prepositional(function.name) for function in all_functions),
        "pages: words": pages[0],
        "pages: it, that, which, what, one, whose, per thousand": round(pages[1], 1),
        "pages: you, per thousand": round(pages[2], 1),
        "docstrings: words": documented[0],
        "docstrings: it, that, which, what, one, whose, per thousand": round(documented[1], 1),
        "lines of executable examples": sum(file.read_text().count(">>> ") for file in files),
        "lines of README.md": len((root / "README.md").read_text().splitlines()),
        "files that compute a sensitivity": sum(map(computes_a_sensitivity, trees.values())),
        "files that minimize enters before the noise": entered,
        "of these, files that users' losses pass": passed,
        "walk of users' losses to the noise: stays": stays,
        "walk of users' losses to the noise: files": places,
        "walk of users' losses to the noise: returns": stays - places,
    }


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="scripts/counts", description=__doc__)
    parser.add_argument(
        "checkout", nargs="?", type=Path, help="another checkout to compare with, such as an older commit's"
    )
    parser.add_argument("--names", action="store_true", help="list functions with a participle or preposition as name")
    parser.add_argument("--prose", action="store_true", help='list the rates of pointing words and of "you", by file')
    arguments = parser.parse_args()
    if arguments.prose:
        return prose.print_rates(ROOT)
    if arguments.names:
        for file in sorted((ROOT / "jaxdpbo").rglob("*.py")):
            for function in functions(ast.parse(file.read_text())):
                if is_participle(function.name) or is_prepositional(function.name):
                    print(f"{file.relative_to(ROOT)}:{function.lineno}: {function.name}")
        return
    columns = {"here": counts(ROOT)}
    if arguments.checkout is not None:
        columns = {"there": counts(arguments.checkout.resolve())} | columns
    width = max(map(len, columns["here"]))
    print(f"{'':{width}}", *(f"{name:>8}" for name in columns))
    for name in columns["here"]:
        print(f"{name:{width}}", *(f"{column[name]:>8}" for column in columns.values()))


if __name__ == "__main__":
    main()
