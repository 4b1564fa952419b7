"""``scripts/bench demo``: the demo's table, with the losses of each seed, and its time."""

import json
import time

import jax

from benchmarks import demo, report

ENTRY = demo.__name__


def main(quick: bool) -> None:
    """The whole demo: it has no smaller size."""
    jax.config.update("jax_enable_x64", True)  # as scripts/demo has it
    started = time.perf_counter()
    demo.main()
    found = json.loads((report.folder("demo") / "table.json").read_text())
    settings = {name.lower(): getattr(demo, name) for name in ("MU", "DELTA", "STEPS", "TRAIN", "EVALUATIONS")}
    report.write_result(
        report.folder("bench") / ("demo_quick.json" if quick else "demo.json"),
        {"methods": found["methods"]},
        entry=ENTRY,
        seeds=found["seeds"],
        noise="exact",
        dtype="float64",
        settings={"printed in the paper": {}, "chosen here": settings},
        started=started,
    )
