"""Counts of the source, for the house's own rules."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "jaxdpbo"


def public_functions(source: str) -> Iterator[ast.FunctionDef]:
    """Public functions and methods, ``__init__`` and ``__call__`` included; not functions inside a function."""
    waiting = list(ast.parse(source).body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.ClassDef):
            waiting += node.body
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name.startswith("__")):
            yield node


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """All but ``self`` and ``cls``."""
    given = function.args
    starred = [each for each in (given.vararg, given.kwarg) if each is not None]
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]
    return [each for each in every if each.arg not in ("self", "cls")]


def any_share(package: Path = PACKAGE) -> float:
    """The share of parameters of public functions that are annotated exactly ``Any``."""
    found = [
        isinstance(each.annotation, ast.Name) and each.annotation.id == "Any"
        for path in package.rglob("*.py")
        for function in public_functions(path.read_text())
        for each in parameters(function)
    ]
    return sum(found) / len(found)
