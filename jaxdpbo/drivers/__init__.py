"""Run an algorithm on an objective: in a compiled program, around any Python callable, or many times.

A driver checks and converts its arguments once, then passes clean arrays on. The keys of step ``t`` come from
``fold_in(key, t)``, so a run resumed from a snapshot draws the same keys as an uninterrupted run.
"""

from jaxdpbo import _namespace
from jaxdpbo.drivers._compiled_run import pure_run
from jaxdpbo.drivers._execution import Execution
from jaxdpbo.drivers._loop import run_loop
from jaxdpbo.drivers._methods import Search
from jaxdpbo.drivers._minimize import minimize
from jaxdpbo.drivers._preview import Preview, preview
from jaxdpbo.drivers._private_objective import BudgetExhausted, Evaluation, PrivateObjective
from jaxdpbo.drivers._result import Diagnostics, ObjectiveError, Run, RunInterrupted, Snapshot
from jaxdpbo.drivers._scan import run_scan
from jaxdpbo.drivers._sweep import Sweep, distribute, sweep
from jaxdpbo.privacy._recording import Recording

__all__ = [
    "BudgetExhausted",
    "Diagnostics",
    "Evaluation",
    "Execution",
    "ObjectiveError",
    "Preview",
    "PrivateObjective",
    "Recording",
    "Run",
    "RunInterrupted",
    "Search",
    "Snapshot",
    "Sweep",
    "distribute",
    "minimize",
    "preview",
    "pure_run",
    "run_loop",
    "run_scan",
    "sweep",
]
__dir__ = _namespace.list_public(__name__)
