"""Arguments of a driver from flat keywords, for tests that change one at a time."""

from dataclasses import fields
from typing import Any

from jaxdpbo import Execution, Search

ARGUMENTS = {Search: "search", Execution: "run"}


def group_options(*kinds: type, **flat: Any) -> dict[str, Any]:
    """``search=`` of the options of a ``Search`` among ``flat``, ``run=`` of those of an ``Execution``, and the rest.

    ``kinds``: group these alone, such as ``Execution`` for a driver with options of its own.
    """
    arguments = dict(flat)
    for kind in kinds or ARGUMENTS:
        found = {option.name: arguments.pop(option.name) for option in fields(kind) if option.name in arguments}
        if found:
            assert ARGUMENTS[kind] not in arguments, "options are flat or grouped, not both"
            arguments[ARGUMENTS[kind]] = kind(**found)
    return arguments
