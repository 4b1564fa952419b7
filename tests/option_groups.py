"""Arguments of a driver from flat keywords, for tests that change one at a time."""

from dataclasses import fields
from typing import Any

from jaxdpbo import Search

OF_SEARCH = {option.name for option in fields(Search)}


def group_options(**flat: Any) -> dict[str, Any]:
    """``search=`` of the options of a ``Search`` among ``flat``, and the rest."""
    found = {name: value for name, value in flat.items() if name in OF_SEARCH}
    if not found:
        return flat
    assert "search" not in flat, "options are flat or grouped, not both"
    return {name: value for name, value in flat.items() if name not in OF_SEARCH} | {"search": Search(**found)}
