"""Avent et al. (2020), "Automatic discovery of privacy-utility Pareto fronts": its figures and its table 2."""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")  # for the surrogates; training is in float32

from benchmarks.avent import table2

ITEMS = {module.__name__.rsplit(".", 1)[1]: module.main for module in (table2,)}
