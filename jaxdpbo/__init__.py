"""Differentially private Bayesian optimisation in JAX.

``outsourcing``, ``problems``, ``training`` and ``tuning`` are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxdpbo import drivers, privacy, space, surrogate
from jaxdpbo.algorithms import (
    dp_gd,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    gp_ucb,
    po_gp_ucb,
    private_estimate,
    private_evaluations,
    private_search,
    random_search,
)
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
from jaxdpbo.privacy import accounting, ledger, transforms
from jaxdpbo.privacy.guarantee import Guarantee
from jaxdpbo.privacy.keys import secret_key
from jaxdpbo.privacy.requested_budget import LargeDelta
from jaxdpbo.privacy.separable import blocks, by_person, per_user
from jaxdpbo.space import Space
from jaxdpbo.surrogate import kernels

if TYPE_CHECKING:
    from jaxdpbo import outsourcing, problems, training, tuning

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
    "kernels",
    "ledger",
    "minimize",
    "outsourcing",
    "per_user",
    "po_gp_ucb",
    "preview",
    "privacy",
    "private_estimate",
    "private_evaluations",
    "private_search",
    "problems",
    "random_search",
    "run_loop",
    "run_scan",
    "secret_key",
    "space",
    "surrogate",
    "sweep",
    "training",
    "transforms",
    "tuning",
]

_LAZY = ("outsourcing", "problems", "training", "tuning")


def __getattr__(name: str) -> Any:
    """Import a package on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'jaxdpbo' has no attribute {name!r}")
    return importlib.import_module(f"jaxdpbo.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
