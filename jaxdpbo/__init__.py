"""Differentially private Bayesian optimisation in JAX.

The packages ``integrations``, ``outsourcing``, ``problems``, ``testing``, ``training`` and ``tuning``, and
``plotting``, are imported on first use.
"""

from typing import TYPE_CHECKING

from jaxdpbo import (
    accounting,
    algorithms,
    audit,
    drivers,
    guarantee,
    ledger,
    namespace,
    noise,
    parts,
    phases,
    report,
    separable,
    space,
    surrogate,
    tables,
    transforms,
    types,
)
from jaxdpbo.accounting.requested_budget import LargeDelta
from jaxdpbo.algorithms import (
    dp_gd,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    gp_ucb,
    po_gp_ucb,
    private_choice,
    private_estimate,
    private_evaluations,
    private_linear,
    random_search,
)
from jaxdpbo.drivers import (
    PrivateObjective,
    Recording,
    Run,
    RunInterrupted,
    Search,
    check,
    minimize,
    preview,
    run_loop,
    run_scan,
    sweep,
)
from jaxdpbo.guarantee.guarantees import Guarantee
from jaxdpbo.noise import mechanisms
from jaxdpbo.noise.keys import secret_key
from jaxdpbo.separable import blocks, by_person, per_user
from jaxdpbo.space import Space
from jaxdpbo.surrogate import kernels

if TYPE_CHECKING:
    from jaxdpbo import integrations, outsourcing, plotting, problems, silos, testing, training, tuning

__version__ = "0.1.0"
__all__ = [
    "Guarantee",
    "LargeDelta",
    "PrivateObjective",
    "Recording",
    "Run",
    "RunInterrupted",
    "Search",
    "Space",
    "accounting",
    "algorithms",
    "audit",
    "blocks",
    "by_person",
    "check",
    "dp_gd",
    "dp_gibo",
    "dp_gp_ucb",
    "dpareto",
    "drivers",
    "gp_ucb",
    "guarantee",
    "integrations",
    "kernels",
    "ledger",
    "mechanisms",
    "minimize",
    "noise",
    "outsourcing",
    "parts",
    "per_user",
    "phases",
    "plotting",
    "po_gp_ucb",
    "preview",
    "private_choice",
    "private_estimate",
    "private_evaluations",
    "private_linear",
    "problems",
    "random_search",
    "report",
    "run_loop",
    "run_scan",
    "secret_key",
    "separable",
    "silos",
    "space",
    "surrogate",
    "sweep",
    "tables",
    "testing",
    "training",
    "transforms",
    "tuning",
    "types",
]

__getattr__ = namespace.import_on_first_use(
    __name__, "integrations", "outsourcing", "plotting", "problems", "silos", "testing", "training", "tuning"
)
__dir__ = namespace.list_public(__name__)
