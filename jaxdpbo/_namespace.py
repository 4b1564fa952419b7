"""The attributes of packages: the public names alone, and modules imported at their first use."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from types import ModuleType


def lazy_modules(package: str, path: Iterable[str]) -> tuple[Callable[[str], ModuleType], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package with all its modules as attributes, imported or not.

    Args:
      package: the package's ``__name__``.
      path: the package's ``__path__``.
    """
    names = frozenset(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))

    def get(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return get, lambda: sorted({"__doc__", "__name__", *names})


def list_public(module: str) -> Callable[[], list[str]]:
    """``__dir__`` of a module: the names in its ``__all__``, and those that begin with two underscores.

    Args:
      module: its ``__name__``.
    """

    def names() -> list[str]:
        own = vars(sys.modules[module])
        return sorted({*own["__all__"], *(name for name in own if name.startswith("__"))})

    return names
