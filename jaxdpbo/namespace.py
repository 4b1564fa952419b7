"""The attributes of packages: the public names alone, and modules imported at their first use."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType


def import_on_first_use(package: str, *names: str) -> Callable[[str], ModuleType]:
    """``__getattr__`` of a package, for modules that are slow to import or need an extra.

    Args:
      package: its ``__name__``.
      names: of the modules.
    """

    def get(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return get


def list_public(module: str) -> Callable[[], list[str]]:
    """``__dir__`` of a module: the names in its ``__all__``, and those that begin with two underscores.

    Args:
      module: its ``__name__``.
    """

    def names() -> list[str]:
        own = vars(sys.modules[module])
        return sorted({*own["__all__"], *(name for name in own if name.startswith("__"))})

    return names
