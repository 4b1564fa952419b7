"""Run an algorithm on an objective: in one compiled program, around any Python callable, or many times over.

A driver checks and converts once, then passes clean arrays on. The keys of step ``t`` come from
``fold_in(key, t)``, so a run resumed from a state draws the keys it would have drawn.
"""

from jaxdpbo.drivers.loop import run_loop
from jaxdpbo.drivers.minimize import minimize
from jaxdpbo.drivers.result import Diagnostics, Run, RunInterrupted
from jaxdpbo.drivers.scan import run_scan, scan
from jaxdpbo.drivers.sweep import Sweep, distribute, sweep

__all__ = [
    "Diagnostics",
    "Run",
    "RunInterrupted",
    "Sweep",
    "distribute",
    "minimize",
    "run_loop",
    "run_scan",
    "scan",
    "sweep",
]
