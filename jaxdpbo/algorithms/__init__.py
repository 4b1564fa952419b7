"""The papers' algorithms and their baselines, all with the same interface.

Each module has ``config(...)`` (host side: checks arguments, makes leaves canonical) and ``algorithm``, the record of
its functions.
"""

from jaxdpbo import namespace
from jaxdpbo.algorithms import (
    dp_gd,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    gp_ucb,
    po_gp_ucb,
    private_choice,
    private_evaluations,
    private_linear,
    random_search,
)
from jaxdpbo.algorithms.private_evaluations import private_estimate

__all__ = [
    "dp_gd",
    "dp_gibo",
    "dp_gp_ucb",
    "dpareto",
    "gp_ucb",
    "po_gp_ucb",
    "private_choice",
    "private_estimate",
    "private_evaluations",
    "private_linear",
    "random_search",
]
__dir__ = namespace.list_public(__name__)
