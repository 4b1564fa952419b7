"""Differentially private Bayesian optimisation in JAX.

The packages ``integrations``, ``outsourcing``, ``problems``, ``theory``, ``training`` and ``tuning``, and ``plotting``,
are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxdpbo import (
    _namespace,
    accounting,
    dp_gd,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    drivers,
    gp_ucb,
    kernels,
    ledger,
    mechanisms,
    po_gp_ucb,
    privacy,
    private_estimate,
    private_evaluations,
    private_search,
    random_search,
    report,
    space,
    surrogate,
    tables,
    transforms,
    types,
)
from jaxdpbo._space import Space
from jaxdpbo.drivers import (
    Execution,
    PrivateObjective,
    Recording,
    Run,
    RunInterrupted,
    Search,
    minimize,
    preview,
    run_loop,
    run_scan,
    sweep,
)
from jaxdpbo.privacy._guarantee import Guarantee
from jaxdpbo.privacy._keys import secret_key
from jaxdpbo.privacy._requested_budget import LargeDelta
from jaxdpbo.privacy._separable import blocks, by_person, per_user

if TYPE_CHECKING:
    from jaxdpbo import integrations, outsourcing, plotting, problems, theory, training, tuning

__version__ = "0.1.0"
__all__ = [
    "Execution",
    "Guarantee",
    "LargeDelta",
    "PrivateObjective",
    "Recording",
    "Run",
    "RunInterrupted",
    "Search",
    "Space",
    "accounting",
    "blocks",
    "by_person",
    "dp_gd",
    "dp_gibo",
    "dp_gp_ucb",
    "dpareto",
    "drivers",
    "gp_ucb",
    "integrations",
    "kernels",
    "ledger",
    "mechanisms",
    "minimize",
    "outsourcing",
    "per_user",
    "plotting",
    "po_gp_ucb",
    "preview",
    "privacy",
    "private_estimate",
    "private_evaluations",
    "private_search",
    "problems",
    "random_search",
    "report",
    "run_loop",
    "run_scan",
    "secret_key",
    "space",
    "surrogate",
    "sweep",
    "tables",
    "theory",
    "training",
    "transforms",
    "tuning",
    "types",
]

_LAZY = ("integrations", "outsourcing", "plotting", "problems", "theory", "training", "tuning")


def __getattr__(name: str) -> Any:
    """Import a package on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'jaxdpbo' has no attribute {name!r}")
    return importlib.import_module(f"jaxdpbo.{name}")


__dir__ = _namespace.list_public(__name__)
