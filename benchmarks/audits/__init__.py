"""Claims against attacks: every mechanism and every private algorithm, on the worst pair of neighbours known.

A row is a claim, a pair of neighbours and an attack. ``measure_row`` runs it and says what was found. Run by
``scripts/audit``; benchmarks/tests/test_audits.py runs the same rows with fewer trials.
"""

from benchmarks.audits import (
    algorithms,
    curators,
    driven,
    failures,
    fronts,
    least_epsilons,
    mask_search,
    mechanisms,
    one_run,
    selections,
    silos,
    trainings,
)
from benchmarks.audits.rows import Found, Row, claim, measure_row

FAMILIES = {
    "mechanisms": mechanisms.rows,
    "algorithms": algorithms.rows,
    "transforms": curators.rows,
    "trainings": trainings.rows,
    "selections": selections.rows,
    "fronts": fronts.rows,
    "least epsilon": least_epsilons.rows,
    "drivers": driven.rows,
    "failures": failures.rows,
    "silos": lambda: [*silos.rows(), *mask_search.rows()],
    "one run": one_run.rows,
}

__all__ = ["FAMILIES", "Found", "Row", "claim", "measure_row"]
