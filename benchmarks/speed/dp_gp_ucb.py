"""``scripts/bench dp_gp_ucb``: a sweep of 100 seeds compared with the same loop on scikit-learn.

The sides alternate. Ours runs on two host devices; the peer runs with one BLAS thread and with two, and the faster time
counts. Both see the same values, so their picks are compared as well, up to the first step at which the peer's two best
scores are closer than 1e-9: beyond this step rounding decides.
"""

from benchmarks.speed import rows, sweeps
from benchmarks.speed import ucb_problem as problem

OURS, PEER = "benchmarks.speed.ours_ucb", "benchmarks.speed.sklearn_ucb"


def main(quick: bool) -> None:
    rounds, seeds = (2, 10) if quick else (5, 100)
    row = sweeps.compare(
        OURS, PEER, "values", "seeds", " seeds", runs=seeds, rounds=rounds, warming=10_000,
        sweep={"seeds": seeds, "policy": "shard"}, run={},
        problem=f"c={problem.CANDIDATES}, d={problem.DIMENSION}, T={problem.STEPS}",
    )  # fmt: skip
    rows.finish("dp_gp_ucb", [row], quick)
