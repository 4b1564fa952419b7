"""The papers' figures and tables, a package for each paper; run by ``scripts/reproduce``."""

import importlib
from collections.abc import Callable
from typing import Any

PAPERS = ("sopa", "kusner", "kharkovskii", "avent")


def items(paper: str) -> dict[str, Callable[..., Any]]:
    """``item(quick=)`` by name; most take ``seeds``, a range, and some ``full``."""
    return importlib.import_module(f"{__name__}.{paper}").ITEMS
