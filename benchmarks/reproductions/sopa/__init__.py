"""Sopa et al. (2025), "Scalable differentially private Bayesian optimization": their figures, one module each."""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

from benchmarks.reproductions.sopa import clip_norms, fig1, fig2, fig3, fig4, fig5

ITEMS = {module.__name__.rsplit(".", 1)[1]: module.main for module in (fig1, fig2, fig3, fig4, fig5, clip_norms)}
