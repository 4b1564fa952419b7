"""``scripts/functions [--check]``: write docs/functions.md, the functions of JAX that a loss of one person may call.

The script calls every function of the modules below with the forms below; the arguments contain a record of four
numbers. A call that JAX cannot trace is no form of the function. A run replaces the entry of its release of JAX in
docs/functions.json, and writes the page from all entries: set ``JAXDPBO_PYTHON`` to run another release.
"""

import argparse
import functools
import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import separable

ROOT = Path(__file__).parent.parent
PAGE, ENTRIES = ROOT / "docs" / "functions.md", ROOT / "docs" / "functions.json"
MODULES = (
    "jax.numpy", "jax.numpy.linalg", "jax.numpy.fft", "jax.nn", "jax.lax", "jax.lax.linalg", "jax.scipy.special",
    "jax.scipy.linalg", "jax.scipy.signal", "jax.scipy.fft", "jax.scipy.integrate", "jax.scipy.stats", "jax.random",
    *(
        f"jax.scipy.stats.{name}"
        for name in (
            "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm",
            "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom",
            "norm", "pareto", "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
        )
    ),
)  # fmt: skip
NO_FUNCTIONS_OF_ARRAYS = {
    "save", "savez", "load", "fromfile", "fromstring", "frombuffer", "from_dlpack", "set_printoptions", "printoptions",
    "get_printoptions", "array_repr", "array_str", "vectorize", "frompyfunc", "device_put",
    "DotDimensionNumbers",
}  # fmt: skip
# Loops of JAX's own that end when one record's numbers are done: for infinite or very large ones late, or never.
ENDLESS = (
    "jax.numpy.gcd", "jax.numpy.lcm", "jax.scipy.special.expn", "jax.scipy.special.gammainc",
    "jax.scipy.special.loggamma", "jax.scipy.stats.chi2.cdf", "jax.scipy.stats.chi2.logcdf",
    "jax.scipy.stats.gamma.cdf", "jax.scipy.stats.gamma.logcdf",
)  # fmt: skip
NO_RECORD = "the values depend on no record"
SHAPES = re.compile(r" of (\([\d, ]*\)(, )?)+")
WIDTH, USERS = 4, 3
POINT = np.array([0.7, 0.2, 1.3, 0.4])


def _matrix(row: jax.Array) -> jax.Array:
    return row[:, None] * row + jnp.eye(WIDTH)


KEY = functools.partial(jax.random.key, 0)
FORMS: dict[str, Callable[[Callable[..., Any], Any, Any], Any]] = {
    "x": lambda f, p, x: f(x),
    "x, p": lambda f, p, x: f(x, p),
    "p, x": lambda f, p, x: f(p, x),
    "x, x": lambda f, p, x: f(x, 2 * x),
    "x, p, p": lambda f, p, x: f(x, 1 + p, p),
    "x, x, x": lambda f, p, x: f(x, 2 * x, 1 + x),
    "p, p, x": lambda f, p, x: f(p, 1 + p, x),
    "x > 0, x, p": lambda f, p, x: f(x > 0, x, p),
    "[x, p]": lambda f, p, x: f([x, p]),
    "matrix": lambda f, p, x: f(_matrix(x)),
    "matrix, x": lambda f, p, x: f(_matrix(x), x),
    "matrix, matrix": lambda f, p, x: f(_matrix(x), _matrix(2 * x)),
    "x, 2": lambda f, p, x: f(x, 2),
    "x, (2, 2)": lambda f, p, x: f(x, (2, 2)),
    "matrix, 2": lambda f, p, x: f(_matrix(x), 2),
    "matrix, 1, 0": lambda f, p, x: f(_matrix(x), 1, 0),
    "integers": lambda f, p, x: f(x.astype(int)),
    "integers, integers": lambda f, p, x: f(x.astype(int), 1 + x.astype(int)),
    "x, integers": lambda f, p, x: f(x, x.astype(int)),
    "integers, x": lambda f, p, x: f(x.astype(int), x),
    "x > 0": lambda f, p, x: f(x > 0),
    "complex": lambda f, p, x: f(x + 1j * p),
    "key": lambda f, p, x: x[0] + f(KEY()),
    "key, x": lambda f, p, x: f(KEY(), x),
    "key, x, p": lambda f, p, x: f(KEY(), x, p),
    "key of x": lambda f, p, x: f(jax.random.key(x[0].astype(int))),
    "key of x, p": lambda f, p, x: f(jax.random.key(x[0].astype(int)), p),
    "key of x, p, p": lambda f, p, x: f(jax.random.key(x[0].astype(int)), p, 1 + p),
    "key, 4": lambda f, p, x: f(KEY(), WIDTH) @ x,
    "x[0], p[0], x[1]": lambda f, p, x: f(x[0], p[0], x[1]),
}


class Case(NamedTuple):
    """A call of a function, and its refusals.

    Attributes:
      function: name of the function.
      form: form of the call.
      refusal: reason of ``per_user`` to refuse the call; empty if the call is taken.
      of_all: reason of ``check_separable`` to refuse the call mapped over all users by ``jax.vmap``.
      constants: whether the call holds arrays, to be declared by ``public_constants=True``.
    """

    function: str
    form: str
    refusal: str
    of_all: str
    constants: bool


def functions() -> dict[str, Callable[..., Any]]:
    """All public functions of the modules by name, without repetition."""
    by_name: dict[str, Callable[..., Any]] = {}
    seen: set[int] = set()
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in sorted(vars(module)):
            value = getattr(module, attribute)
            public = not attribute.startswith("_") and attribute not in NO_FUNCTIONS_OF_ARRAYS
            if public and callable(value) and not isinstance(value, type) and id(value) not in seen:
                seen.add(id(value))
                by_name[f"{name}.{attribute}"] = value
    return by_name


def loss_of(function: Callable[..., Any], form: str) -> Callable[[Any, Any], jax.Array]:
    """``(point, record) -> numbers``: all results of a call in an array of float64."""

    def loss(point: Any, record: Any) -> jax.Array:
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(FORMS[form](function, point, record))]
        return jnp.concatenate([part for leaf in leaves for part in _parts(leaf)])

    return loss


def _parts(leaf: jax.Array) -> Iterator[jax.Array]:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if jnp.iscomplexobj(leaf):
        yield from (jnp.ravel(leaf.real).astype(float), jnp.ravel(leaf.imag).astype(float))
    else:
        yield jnp.ravel(leaf).astype(float)


def cases(name: str, function: Callable[..., Any]) -> list[Case]:
    """Every traceable form of a function, if its values depend on the record."""
    rows = []
    for form in FORMS:
        loss = loss_of(function, form)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                jax.eval_shape(loss, POINT, jnp.zeros(WIDTH))
            except Exception:  # no form of this function
                continue
            refusal, constants = _refusal(loss)
            of_all = _refusal_of_all(loss)
            if of_all != NO_RECORD:
                rows.append(Case(name, form, refusal, of_all, constants))
    return rows


def _refusal(loss: Callable[..., Any]) -> tuple[str, bool]:
    """The reason of ``per_user`` to refuse a loss, and whether the loss holds arrays."""
    for constants in (False, True):
        try:
            jax.eval_shape(separable.per_user(loss, public_constants=constants), POINT, np.zeros((USERS, WIDTH)))
        except separable.NotSeparable as error:
            return _reason(error), constants
        except ValueError as error:
            if constants or "public_constants" not in str(error):
                return _reason(error), constants
        else:
            return "", constants
    raise AssertionError


def _refusal_of_all(loss: Callable[..., Any]) -> str:
    mapped = jax.vmap(loss, (None, 0))
    try:
        separable.check_separable(mapped, POINT, np.zeros((USERS, WIDTH)), public_constants=True)
    except (separable.NotSeparable, ValueError) as error:
        return _reason(error)
    except NotImplementedError:
        return "has no rule for vmap"
    return ""


def _reason(error: Exception) -> str:
    return SHAPES.sub("", str(error).partition("\n")[0].partition(" at ")[0])


def release() -> str:
    """The release of JAX that runs, as in ``0.12``: releases of one minor version share an entry."""
    return ".".join(jax.__version__.split(".")[:2])


def entry(rows: list[Case]) -> dict[str, Any]:
    """The entry of this release: counts, and the rows of the tables."""
    return {
        "jax": jax.__version__,
        "traced": len({row.function for row in rows}),
        "taken": len({row.function for row in rows if not row.refusal}),
        "refused": rows_of([(row, row.refusal) for row in rows if row.refusal]),
        "refused under vmap": rows_of([(row, row.of_all) for row in rows if row.of_all and not row.refusal]),
        "constants": sorted({row.function for row in rows if row.constants and not row.refusal}),
    }


def rows_of(rows: list[tuple[Case, str]]) -> list[list[str]]:
    """A row of function, forms and reason for each function and reason."""
    by_call: dict[tuple[str, str], list[str]] = {}
    for row, why in rows:
        by_call.setdefault((row.function, why), []).append(row.form)
    return [[name, "; ".join(f"`{form}`" for form in forms), why] for (name, why), forms in by_call.items()]


def page(entries: dict[str, dict[str, Any]]) -> str:
    """The page: the numbers of functions taken, and the refused functions with reasons, by release of JAX."""
    counts = "\n".join(
        f"| {one['jax']} | {one['traced']} | {one['taken']} |" for _, one in sorted(entries.items(), key=_by_version)
    )
    held = {name: [key for key in entries if name in entries[key]["constants"]] for name in _all(entries, "constants")}
    of_some = [name if len(keys) == len(entries) else f"{name} ({_join(keys)})" for name, keys in sorted(held.items())]
    return f"""# Functions that a loss may call

You may call a function in a loss unless a table of this page refuses the call. `scripts/functions` wrote the page. It
calls every function of `jax.numpy`, `jax.lax`, `jax.nn`, `jax.scipy` and `jax.random` with {len(FORMS)} forms of
arguments, made of one record `x` of four numbers and public numbers `p`. For each call that is taken,
`tests/test_functions.py` gives one record thirteen values in turn, and checks that the results of all other records
keep every bit.

| JAX | functions traced in some form | taken by `per_user` |
|---|---|---|
{counts}

The last column of a table names the releases of JAX for which a row holds. Calls in other forms, and functions that
JAX traces in none of them, were not tried.

## Refused by `per_user`

{_table(entries, "refused")}
## Taken by `per_user`, refused by `check_separable` under `jax.vmap`

To call these, write the loss of one person and use `per_user`.

{_table(entries, "refused under vmap")}
## Slow for extreme values

Bound the arguments of these functions with `jnp.clip`. Their loops run until the numbers of a record converge, which
takes minutes or forever for infinite or very large numbers: {", ".join(f"`{name}`" for name in ENDLESS)}.

## Functions that hold constant arrays

Use `per_user(loss, public_constants=True)` with these: {", ".join(_quote(name) for name in of_some)}.
"""


def _quote(name: str) -> str:
    called, _, rest = name.partition(" ")
    return f"`{called}`" + (f" {rest}" if rest else "")


def _by_version(item: tuple[str, Any]) -> tuple[int, ...]:
    return tuple(map(int, item[0].split(".")))


def _all(entries: dict[str, dict[str, Any]], table: str) -> list[Any]:
    """The rows of a table in any release, without repetition, in order."""
    rows: dict[Any, None] = {}
    for one in entries.values():
        rows |= dict.fromkeys(tuple(row) if isinstance(row, list) else row for row in one[table])
    return list(rows)


def _join(releases: list[str]) -> str:
    return "JAX " + ", ".join(releases)


def _table(entries: dict[str, dict[str, Any]], table: str) -> str:
    rows = _all(entries, table)
    places = {name: place for place, name in reversed(list(enumerate(row[0] for row in rows)))}
    lines = []
    for name, forms, why in sorted(rows, key=lambda row: places[row[0]]):
        held = [key for key, one in entries.items() if [name, forms, why] in one[table]]
        lines.append(f"| `{name}` | {forms} | {why} | {'all' if len(held) == len(entries) else ', '.join(held)} |")
    return "\n".join(["| function | arguments | why | JAX |", "|---|---|---|---|", *lines, ""])


def read_entries() -> dict[str, dict[str, Any]]:
    """The stored entries, in order of releases."""
    entries = json.loads(ENTRIES.read_text()) if ENTRIES.exists() else {}
    return dict(sorted(entries.items(), key=_by_version))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/functions", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    options = parser.parse_args(arguments)
    mine = entry([case for name, function in functions().items() for case in cases(name, function)])
    if options.check:
        stored = read_entries()
        return int(PAGE.read_text() != page(stored) or stored[release()] | {"jax": jax.__version__} != mine)
    entries = dict(sorted((read_entries() | {release(): mine}).items(), key=_by_version))
    ENTRIES.write_text(json.dumps(entries, indent=1) + "\n")
    PAGE.write_text(page(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
