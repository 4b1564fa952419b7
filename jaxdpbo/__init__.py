"""Differentially private Bayesian optimisation in JAX."""

from jaxdpbo import outsourcing
from jaxdpbo.algorithms import (
    dp_gd,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    gp_ucb,
    po_gp_ucb,
    private_evaluations,
    random_search,
)
from jaxdpbo.drivers import (
    PrivateObjective,
    Recording,
    Run,
    RunInterrupted,
    minimize,
    preview,
    run_loop,
    run_scan,
    sweep,
)
from jaxdpbo.privacy import accounting, ledger, transforms
from jaxdpbo.privacy.guarantee import Guarantee
from jaxdpbo.privacy.keys import secret_key
from jaxdpbo.surrogate import kernels

__version__ = "0.1.0"
__all__ = [
    "Guarantee",
    "PrivateObjective",
    "Recording",
    "Run",
    "RunInterrupted",
    "accounting",
    "dp_gd",
    "dp_gibo",
    "dp_gp_ucb",
    "dpareto",
    "gp_ucb",
    "kernels",
    "ledger",
    "minimize",
    "outsourcing",
    "po_gp_ucb",
    "preview",
    "private_evaluations",
    "random_search",
    "run_loop",
    "run_scan",
    "secret_key",
    "sweep",
    "transforms",
]
