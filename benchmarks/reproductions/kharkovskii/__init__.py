"""Kharkovskii, Dai and Low (2020), "Private outsourced Bayesian optimization": its tables and figure 2, and what it
lacks: the same searches under transforms that do protect the rows.
"""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

from benchmarks.reproductions.kharkovskii import branin, fig2, regret, tables

ITEMS = {"fig2": fig2.main, **tables.ITEMS, "branin": branin.main, "regret": regret.main}
