"""Avent et al. (2020), "Automatic discovery of privacy-utility Pareto fronts": its figures and its table 2."""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")  # for the surrogates; training is in float32

from benchmarks.reproductions.avent import accountants, fronts, luck, maps, overhead, table2

ITEMS = {
    **maps.ITEMS, **fronts.ITEMS, **luck.ITEMS, "table2": table2.main, "overhead": overhead.main,
    "accountants": accountants.main,
}  # fmt: skip
