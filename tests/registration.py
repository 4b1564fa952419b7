"""What the package has, found by looking: algorithms, mechanisms, transforms and entry points.

Tests compare it with what is registered: protocol cases, audit rows and examples. Nothing is listed by hand here, so a
new module cannot be forgotten.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import jaxdpbo
from jaxdpbo import algorithms, phases, transforms
from jaxdpbo.ledger import ledger_file
from jaxdpbo.noise import mechanisms

# Algorithms that state a guarantee and have no audit row of their own, and why.
UNAUDITED = {"po_gp_ucb": "it pays in a transform, which has a row: a run only post-processes the curated rows"}


def algorithm_modules() -> dict[str, ModuleType]:
    """Every module of ``jaxdpbo.algorithms`` with an ``algorithm``, with ``make_algorithm``, or with phases."""
    names = [module.name for module in pkgutil.iter_modules(algorithms.__path__)]
    found = {name: importlib.import_module(f"{algorithms.__name__}.{name}") for name in names}
    return {name: each for name, each in found.items() if _has_an_algorithm(each)}


def _has_an_algorithm(module: ModuleType) -> bool:
    phased = any(isinstance(value, phases.Phase) for value in vars(module).values())
    return phased or hasattr(module, "algorithm") or hasattr(module, "make_algorithm")


def modules_of(case: Any) -> set[str]:
    """The names that ``algorithm_modules`` has for the algorithm of a case, or for those of its phases."""
    config = case.config(1.0)
    if isinstance(config, phases.Config):
        modules = [type(each).__module__ for each in config.phases]
    else:
        modules = [inspect.unwrap(case.algorithm.ask).__module__]
    parts = [module.split(".") for module in modules]
    return {part[2] for part in parts if part[:2] == algorithms.__name__.split(".")}


def without_a_case(cases: Mapping[str, Any]) -> set[str]:
    """Algorithms that no protocol case runs."""
    return algorithm_modules().keys() - set().union(*map(modules_of, cases.values()))


def drawing_mechanisms() -> dict[str, Callable[..., Any]]:
    """Public functions of ``mechanisms`` that draw: their first argument is a key."""
    found = {}
    for module in pkgutil.iter_modules(mechanisms.__path__):
        loaded = importlib.import_module(f"{mechanisms.__name__}.{module.name}")
        public = _functions(loaded, [name for name in vars(loaded) if not name.startswith("_")])
        for name, function in public.items():
            arguments = list(inspect.signature(function).parameters)
            if function.__module__ == loaded.__name__ and arguments[:1] == ["key"]:
                found[name] = function
    return found


def transform_makers() -> dict[str, Callable[..., Any]]:
    """Public functions of ``transforms`` that return a ``transforms.Config``."""
    made = _functions(transforms, transforms.__all__)
    return {name: function for name, function in made.items() if _returns(function, "Config")}


def without_an_audit(cases: Mapping[str, Any], families: Mapping[str, Iterable[Any]]) -> set[str]:
    """Mechanisms, transforms and algorithms that state a guarantee, of which no row of an audit begins with the name.

    A row of a claim that must fail does not count, except for what claims nothing (``random_projection``). A mechanism
    drawn from a table given (``..._from_table``) is the one that computes it. What only moves along the path of a prior
    ("prior_averaged_dp") has no worst pair to attack: its rows are among the failures.
    """
    holds = {name: [row.name for row in rows if row.holds] for name, rows in families.items()}
    fails = [row.name for row in families["failures"]]
    private = set().union(
        *(modules_of(case) for case in cases.values() if case.private and case.notion != "prior_averaged_dp")
    )
    return {
        *(name for name in drawing_mechanisms() if not _named(name.removesuffix("_from_table"), holds["mechanisms"])),
        *(name for name in transform_makers() if not _named(name, [*holds["transforms"], *fails])),
        *(name for name in private - UNAUDITED.keys() if not _named(name, holds["algorithms"])),
    }


def with_examples_wanted() -> dict[str, Callable[..., Any]]:
    """What a user calls first: entry points, config makers, mechanisms, transforms, and the ledger's own three."""
    found = {f"jaxdpbo.{name}": each for name, each in _functions(jaxdpbo, jaxdpbo.__all__).items()}
    for name, module in algorithm_modules().items():
        makers = [each for each in vars(module) if each == "config" or each.endswith("_config")]
        found |= {f"{name}.{maker}": each for maker, each in _functions(module, makers).items()}
    drawn = {name: each for name, each in drawing_mechanisms().items() if not name.endswith("_from_table")}
    found |= {f"mechanisms.{name}": each for name, each in drawn.items()}
    found |= {f"transforms.{name}": each for name, each in transform_makers().items()}
    found["transforms.curate"] = transforms.curate
    return found | {f"ledger.{name}": getattr(ledger_file, name) for name in ("create", "charge", "describe")}


def _functions(module: ModuleType, names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    values = {name: getattr(module, name) for name in names}
    unwrapped = {name: inspect.unwrap(value) for name, value in values.items() if callable(value)}
    return {name: function for name, function in unwrapped.items() if inspect.isfunction(function)}


def _returns(function: Callable[..., Any], kind: str) -> bool:
    said = inspect.signature(function).return_annotation
    return getattr(said, "__name__", str(said)).split(".")[-1] == kind


def _named(name: str, rows: Iterable[str]) -> bool:
    """Whether a row begins with the name, or has it in brackets: "noisy_argmax (geometric)"."""
    words = [row.replace(",", " ").split() for row in rows]
    return any(name == each[0] or f"({name})" in each for each in words)
