"""``scripts/bench demo``: the demo's table, with the losses of each seed and the time."""

import jax

from benchmarks import report
from jaxdpbo.commands import demo
from jaxdpbo.problems import _datasets


def main(quick: bool) -> None:
    """The whole demo: it has no smaller size."""
    jax.config.update("jax_enable_x64", True)  # as scripts/demo has it
    comparison = demo.compare(_datasets.load_dataset("diabetes"))
    demo.show(comparison)
    privacy = demo.describe_privacy(comparison.run)
    methods = {
        row["method"]: {
            "losses": row["losses"], "evaluations": row["evaluations"], "privacy": privacy[row["method"]],
        }
        for row in comparison.rows
    }  # fmt: skip
    settings = {name.lower(): getattr(demo, name) for name in ("MU", "DELTA", "STEPS", "TRAIN", "EVALUATIONS")}
    demo.plot(comparison, report.folder("bench") / "demo.png")
    report.write_bench(
        "demo",
        {"methods": methods},
        quick=quick,
        seeds=[demo.SEEDS[0], demo.SEEDS[-1] + 1],
        noise="exact",
        dtype="float64",
        chosen=settings,
    )
