"""Kusner et al. (2015), "Differentially private Bayesian optimization": its one figure, and a comparison it lacks."""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

from benchmarks.reproductions.kusner import fig1, regret

ITEMS = {module.__name__.rsplit(".", 1)[1]: module.main for module in (fig1, regret)}
