"""Sign off everything that a year published about the same users: the record of a ledger, and a registry entry."""

from pathlib import Path

import numpy as np

import jaxdpbo
from jaxdpbo import Recording, ledger, report

ages = np.random.default_rng(0).normal(40, 10, 2000)
ledger.create("budget.jsonl", epsilon=3, delta=1e-5)
for month in ("march", "april"):
    jaxdpbo.minimize(
        lambda point, ages: abs(ages / 100 - point[0]),
        ages,
        space=[(0, 1)],
        epsilon=1,
        delta=1e-5,
        loss_range=(0, 1),
        ledger=Recording("budget.jsonl", month),
    )
record = report.ledger_report("budget.jsonl").save("record.html")
print(record.sentences[0])
entry = record.registry(
    name="Ages of customers",
    data_curators=["A shop"],
    intended_use="Plan opening hours",
    data_product_type="Summary statistics",
    data_product_region="EU",
    publication_date="2026-11-27",
    release_type="Many releases",
    registry_authors=["A. Person"],
)
Path("registry.yaml").write_text(entry)
print(entry)
