"""Types and protocols that an algorithm of your own implements."""

from jaxdpbo import _namespace
from jaxdpbo._types import (
    Algorithm,
    ArrayLike,
    Bounds,
    Config,
    Facts,
    Info,
    Kernel,
    Objective,
    PublicState,
    Query,
    State,
    bind,
    check_values,
)

__all__ = [
    "Algorithm",
    "ArrayLike",
    "Bounds",
    "Config",
    "Facts",
    "Info",
    "Kernel",
    "Objective",
    "PublicState",
    "Query",
    "State",
    "bind",
    "check_values",
]
__dir__ = _namespace.list_public(__name__)
