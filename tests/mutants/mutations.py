"""Mutations of Python source: one small change each, as text, so that every other line stays where it was.

What is not mutated: docstrings, annotations, decorators, assertions (they narrow types), strings, what a ``raise``
says, and ``__all__``.
"""

import ast
import copy
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

PACKAGE = "jaxdpbo"
MODULE = "<module>"

COMPARISONS = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# Calls that give back something in the place of an argument. Not conversions: dropping one changes little.
LIBRARIES = (
    "jnp",
    "np",
    "numpy",
    "math",
    "jax.numpy",
    "jax.lax",
    "jax.nn",
    "jax.scipy.special",
    "scipy.special",
    "lax",
)
CONVERSIONS = (
    "array",
    "asarray",
    "zeros",
    "ones",
    "empty",
    "full",
    "arange",
    "eye",
    "finfo",
    "iinfo",
    "shape",
    "dtype",
)
BUILTINS = ("abs", "min", "max", "round", "sorted", "reversed")
METHODS = ("_replace", "set", "add", "max", "min", "sum", "mean", "copy", "clip", "reshape", "block_until_ready")
EITHER = ("maximum", "minimum", "min", "max", "logaddexp", "fmin", "fmax")


class Mutation(NamedTuple):
    """One change: bytes ``start`` to ``end`` of ``module`` become ``text``; ``change`` is what a reader is shown."""

    module: str
    function: str
    kind: str
    change: str
    line: int
    start: int
    end: int
    text: str
    source: str  # a hash of the function's source, without its docstring and comments

    @property
    def name(self) -> tuple[str, str, str]:
        """What the list of equivalent mutants goes by."""
        return self.module, self.function, self.change

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a result is kept under: changing the function makes it another mutant."""
        return *self.name, self.source

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def scope(root: Path) -> Iterator[Mutation]:
    """Every mutation of the package."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        yield from of_source(path.read_bytes(), path.relative_to(root).as_posix())


def of_source(source: bytes, module: str) -> Iterator[Mutation]:
    """The mutations of one module, in the order of its lines; none that is no Python or changes nothing."""
    text = source.decode()
    walker = _Walker(source, ast.parse(text))
    walker.walk()
    times: Counter = Counter()
    for start, end, new, kind, function in sorted(walker.found):
        change = _change(source, start, end, new)
        times[function, change] += 1
        if times[function, change] > 1:
            change += f" ({times[function, change]})"
        line = source.count(b"\n", 0, start) + 1
        yield Mutation(module, function, kind, change, line, start, end, new, walker.hashes[function])


def sound(mutation: Mutation, source: bytes) -> bool:
    """Whether the mutated source is Python, and other Python."""
    try:
        return ast.dump(ast.parse(mutation.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _change(source: bytes, start: int, end: int, new: str) -> str:
    """The lines as they were and as they are, on one line, without comments."""
    first = source.rfind(b"\n", 0, start) + 1
    last = source.find(b"\n", end)
    last = len(source) if last < 0 else last
    old, head, tail = (part.decode() for part in (source[first:last], source[first:start], source[end:last]))
    before, after = (" ".join(re.sub(r"(^|\s)#[^\n]*", "", part).split()) for part in (old, head + new + tail))
    if max(len(before), len(after)) > 240:  # a long call: its hash stands for its end
        digest = hashlib.sha256(f"{before} {after}".encode()).hexdigest()[:8]
        before, after = before[:200] + "...", f"{after[:200]}... [{digest}]"
    return f"{before} -> {after}"


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


class _Walker:
    """Walks one module; ``found`` holds (start, end, new text, kind, function)."""

    def __init__(self, source: bytes, tree: ast.Module):
        self.source, self.tree = source, tree
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: set[tuple[int, int, str, str, str]] = set()
        self.hashes = {MODULE: _hash(tree)}

    def walk(self) -> None:
        self._body(self.tree, MODULE)

    # Places in the text.
    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _add(self, span: tuple[int, int], new: str, kind: str, function: str) -> None:
        self.found.add((*span, new, kind, function))

    def _replace(self, node: ast.AST, new: str, kind: str, function: str) -> None:
        self._add(self._span(node), new, kind, function)

    # Which nodes.
    def _body(self, node: ast.AST, function: str) -> None:
        for child in node.body:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            self._visit(child, function)

    def _visit(self, node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = node.name if function == MODULE else f"{function}.{node.name}"
            self.hashes[inner] = _hash(node)
            if not isinstance(node, ast.ClassDef):
                self._split_keys(node, inner)
                for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                    self._visit(default, inner)
            self._body(node, inner)
            return
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
            return
        if isinstance(node, ast.Raise):
            self._replace(node, "pass", "raise", function)
            return
        if isinstance(node, ast.Assign) and any(_dotted(target) == "__all__" for target in node.targets):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._visit(node.value, function)
            return
        self._mutate(node, function)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr_context):
                self._visit(child, function)

    def _mutate(self, node: ast.AST, function: str) -> None:
        if isinstance(node, ast.Constant):
            self._constant(node, function)
        elif isinstance(node, ast.Compare):
            left = node.left
            for operator, right in zip(node.ops, node.comparators, strict=True):
                old, others = COMPARISONS[type(operator)]
                for new in others:
                    self._operator(left, right, old, new, "comparison", function)
                left = right
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            self._operator(node.left, node.right, *OPERATORS[type(node.op)], "operator", function)
        elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            self._operator(node.target, node.value, old + "=", new + "=", "operator", function)
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                self._operator(left, right, old, new, "operator", function)
        elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
            self._replace(node, re.sub(r"^(not|-|~)\s*", "", self._text(node)), "operator", function)
        elif isinstance(node, ast.Call):
            self._call(node, function)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._replace(node, "pass", "call", function)
        for test in (*getattr(node, "ifs", ()), getattr(node, "test", None)):
            if test is not None:
                self._replace(test, f"not ({self._text(test)})", "condition", function)

    def _constant(self, node: ast.Constant, function: str) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value), "constant", function)
        elif isinstance(value, int):
            self._replace(node, str(value + 1), "constant", function)
        elif isinstance(value, float):
            for new in (1.0,) if value == 0 else (2 * value, value / 2):
                self._replace(node, repr(new), "constant", function)

    def _operator(self, left: ast.AST, right: ast.AST, old: str, new: str, kind: str, function: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        between = re.sub(rb"#[^\n]*", lambda found: b" " * len(found[0]), self.source[start:end])
        bounds = r"\b" if old[0].isalpha() else ""
        found = re.search((bounds + re.escape(old).replace(r"\ ", r"\s+") + bounds).encode(), between)
        if found:
            self._add((start + found.start(), start + found.end()), new, kind, function)

    def _call(self, node: ast.Call, function: str) -> None:
        name = _dotted(node.func)
        room, _, last = name.rpartition(".")
        places: list[ast.AST] = []
        args = [] if any(isinstance(one, ast.Starred) for one in node.args) else node.args
        if room == "checks" and len(args) > 1:
            places = [args[1]]  # its first is the argument's name
        elif args and last == "where" and len(args) == 3:
            places = args[1:]
        elif args and (room in LIBRARIES or name in BUILTINS) and last not in CONVERSIONS:
            places = args[:2] if last in EITHER and len(args) == 2 else args[:1]
        elif len(args) > 1 and isinstance(args[0], ast.Name) and args[0].id.endswith("key") and room != "jax.random":
            places = [args[1]]  # a mechanism: the value without its noise
        elif last in METHODS and isinstance(node.func, ast.Attribute) and room not in LIBRARIES:
            value = node.func.value  # x.at[i].set(v) -> x
            if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute) and value.value.attr == "at":
                places = [value.value.value]
            elif last not in ("set", "add"):
                places = [value]
        for place in places:
            if not isinstance(place, ast.Constant | ast.Lambda):
                text = self._text(place)
                self._replace(node, text if re.fullmatch(r"[\w.]+", text) else f"({text})", "call", function)
        if last[:1].isupper():
            return  # a record wants all its fields: that a missing one raises says nothing
        for dropped in node.keywords:
            if dropped.arg is not None:
                kept = [self._text(one) for one in (*node.args, *(one for one in node.keywords if one is not dropped))]
                self._replace(node, f"{self._text(node.func)}({', '.join(kept)})", "keyword", function)

    def _split_keys(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        """``a, b = split(key)``: a and b exchanged; each use of b reads a, and each of a the key that was split."""
        for node in ast.walk(function):
            if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)):
                continue
            call, names = node.value, [one.id for one in node.targets[0].elts if isinstance(one, ast.Name)]
            if not (isinstance(call, ast.Call) and _dotted(call.func).endswith("split") and len(names) > 1):
                continue
            if (
                len(names) != len(node.targets[0].elts)
                or not call.args
                or not all(one.endswith("key") for one in names)
            ):
                continue
            for left, right in zip(node.targets[0].elts, node.targets[0].elts[1:], strict=False):
                span = self._span(left)[0], self._span(right)[1]
                self._add(span, f"{self._text(right)}, {self._text(left)}", "swapped keys", name)
            parent = [call.args[0].id] if isinstance(call.args[0], ast.Name) else names[:1]
            instead = dict(zip(names, [*parent, *names], strict=False))
            for use in ast.walk(function):
                read = isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load) and use.lineno > node.lineno
                if read and instead.get(use.id, use.id) != use.id:
                    self._replace(use, instead[use.id], "key used twice", name)


def _hash(node: ast.AST) -> str:
    """Of the code: comments, the docstring and layout do not count, nor do a module's or a class's functions."""
    bare = copy.copy(node)
    bare.body = [
        one
        for one in node.body
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        and (isinstance(node, ast.FunctionDef) or not isinstance(one, ast.FunctionDef | ast.ClassDef))
    ]
    return hashlib.sha256(ast.unparse(bare).encode()).hexdigest()[:12]


def all_functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every function by qualified name, closures and methods among them."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if isinstance(node, ast.FunctionDef):
            yield f"{outer}{node.name}", node
        yield from all_functions(node, f"{outer}{node.name}." if named else outer)


def sample(
    mutations: list[Mutation], count: int, seed: int = 0, usable: Callable[[Mutation], bool] = lambda _: True
) -> list[Mutation]:
    """``count`` of them that are ``usable``, from each folder by its size and at least a third of an equal share.

    Drawn by hash, so that a change somewhere leaves the rest of the sample as it was.
    """
    folders: dict[str, list[Mutation]] = {}
    for one in mutations:
        folders.setdefault(one.module.rpartition("/")[0], []).append(one)
    folders = dict(sorted(folders.items()))  # equal shares are raised in this order
    count = min(count, len(mutations))
    least = max(1, count // (3 * len(folders)))
    shares = {name: min(len(held), max(least, count * len(held) // len(mutations))) for name, held in folders.items()}
    while (gap := count - sum(shares.values())) != 0:
        step = 1 if gap > 0 else -1
        fits = [name for name, held in folders.items() if 0 <= shares[name] + step <= len(held)]
        best = max(fits, key=lambda name: step * (count * len(folders[name]) / len(mutations) - shares[name]))
        shares[best] += step
    chosen = []
    for name, held in folders.items():
        held.sort(key=lambda one: hashlib.sha256(f"{seed}|{'|'.join(one.name)}".encode()).hexdigest())
        chosen += islice(filter(usable, held), shares[name])
    return chosen
