"""Run an algorithm on an objective: in a compiled program, around any Python callable, or many times.

A driver checks and converts its arguments once, then passes clean arrays on. The keys of step ``t`` come from
``fold_in(key, t)``, so a run resumed from a snapshot draws the same keys as an uninterrupted run.
"""

from jaxdpbo import namespace
from jaxdpbo.drivers.compiled_run import pure_run
from jaxdpbo.drivers.loop import run_loop
from jaxdpbo.drivers.methods import Search
from jaxdpbo.drivers.minimization import minimize
from jaxdpbo.drivers.owner_check import check
from jaxdpbo.drivers.previews import Preview, preview
from jaxdpbo.drivers.private_objective import BudgetExhausted, Evaluation, PrivateObjective
from jaxdpbo.drivers.result import Diagnostics, ObjectiveError, Run, RunInterrupted, Snapshot
from jaxdpbo.drivers.scan import run_scan
from jaxdpbo.drivers.seed_sweep import Sweep, distribute, sweep
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.not_private import Finding, NotPrivateCheck
from jaxdpbo.notes import Note

__all__ = [
    "BudgetExhausted",
    "Diagnostics",
    "Evaluation",
    "Finding",
    "NotPrivateCheck",
    "Note",
    "ObjectiveError",
    "Preview",
    "PrivateObjective",
    "Recording",
    "Run",
    "RunInterrupted",
    "Search",
    "Snapshot",
    "Sweep",
    "check",
    "distribute",
    "minimize",
    "preview",
    "pure_run",
    "run_loop",
    "run_scan",
    "sweep",
]
__dir__ = namespace.list_public(__name__)
