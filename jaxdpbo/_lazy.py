"""Modules of a package that are imported where they are first asked for."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType


def lazy_modules(package: str, path: Iterable[str]) -> tuple[Callable[[str], ModuleType], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: its modules are its attributes, imported or not.

    Args:
      package: its ``__name__``.
      path: its ``__path__``.
    """
    names = frozenset(module.name for module in pkgutil.iter_modules(path))

    def get(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return get, lambda: sorted({"__doc__", "__name__", *names})
