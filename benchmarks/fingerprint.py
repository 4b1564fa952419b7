"""A hash of the code that a figure depends on: the modules it imports from here, without comments and docstrings.

Imports are followed transitively, those inside functions and modules named by a string (a worker's) included. The
``__init__`` of a package counts where a name is taken from it.
"""

import ast
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIGURE = ("jaxdpbo", "benchmarks")
DEFINITION = ("benchmarks",)  # of a measurement of time: the library may change, and has its times remeasured
COMPUTES_NOTHING = ("benchmarks.report", "benchmarks.fingerprint")

Read = Callable[[str], str | None]


def folder(root: Path) -> Read:
    """Sources of the modules under a folder; None where there is no such module."""

    @cache
    def read(name: str) -> str | None:
        paths = (root / f"{name.replace('.', '/')}{end}" for end in (".py", "/__init__.py"))
        return next((path.read_text() for path in paths if path.is_file()), None)

    return read


tree = folder(ROOT)


def modules(entry: str, within: Iterable[str] = FIGURE, read: Read = tree) -> list[str]:
    """Names of all modules that ``entry`` depends on, itself included, sorted.

    Raises:
      ValueError: there is no module ``entry``.
    """
    if read(entry) is None:
        raise ValueError(f"there is no module {entry!r}")
    found, left = set(), [entry]
    while left:
        name = left.pop()
        if name in found or name in COMPUTES_NOTHING:
            continue
        found.add(name)
        left += [other for other in _imported(read(name) or "", read) if other.split(".")[0] in within]
    return sorted(found)


def digest(entry: str, within: Iterable[str] = FIGURE, read: Read = tree) -> str:
    """16 hexadecimal digits of the SHA-256 of the modules' syntax."""
    hashed = hashlib.sha256()
    for name in modules(entry, within, read):
        hashed.update(f"{name}\n{canonical(read(name) or '')}\n".encode())
    return hashed.hexdigest()[:16]


def canonical(source: str) -> str:
    """The syntax of a source without docstrings, comments and layout, the same for all versions of Python."""
    return _written(ast.parse(source))


def _written(node: object) -> str:
    if isinstance(node, list):
        return "[" + ",".join(_written(each) for each in node) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    documented = isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    if documented and ast.get_docstring(node, clean=False) is not None:  # pyright: ignore[reportArgumentType]
        fields["body"] = fields["body"][1:]
    # What is empty is left out: later versions of Python have more fields.
    kept = [f"{name}={_written(value)}" for name, value in fields.items() if value not in (None, [])]
    return f"{type(node).__name__}({','.join(kept)})"


def _imported(source: str, read: Read) -> Iterable[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            one = node.module
            names = [f"{one}.{alias.name}" if _ours(f"{one}.{alias.name}", read) else one for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("benchmarks."):
            names = [node.value]
        else:
            continue
        yield from (name for name in names if _ours(name, read))


def _ours(name: str, read: Read) -> bool:
    return name.split(".")[0] in FIGURE and all(part.isidentifier() for part in name.split(".")) and bool(read(name))
