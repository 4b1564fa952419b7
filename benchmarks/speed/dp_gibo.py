"""``scripts/bench dp_gibo``: whole runs compared with BoTorch, and the per-user step with the machine's ceilings.

All processes alternate in one run of this script. Imports are never counted, and compilation is counted apart. Ours
runs on two host devices by ``policy="shard"`` unless a row says otherwise. Neither side's problem factors matrices in
batches, so the cautious default of ``drivers.distribute`` is not needed.
"""

import statistics
from contextlib import ExitStack

from tqdm import tqdm

from benchmarks.speed import gibo_problem as problem
from benchmarks.speed import rows
from benchmarks.speed.sweeps import TWO
from benchmarks.speed.worker import Worker

OURS, PEER = "benchmarks.speed.ours_gibo", "benchmarks.speed.botorch_gibo"
THREADS = (1, 2)
BUDGETS = 20
OVER_TWO = "over two host devices: "
PART = "of a step: "
SHOWN = ("bound", "read_gb_per_s", "product_gflop_per_s", "temporary_bytes", "n_by_d_bytes")  # of the gradient step


def main(quick: bool) -> None:
    results = []
    parts = whole_runs, cold_runs, step_parts, devices, memory, clipped_gradient, per_user_solve
    progress = tqdm(total=len(parts), unit="part")
    for part in parts:
        progress.set_description(part.__name__)
        results += part(quick)
        progress.update()
    progress.close()
    rows.finish("dp_gibo", results, quick)


def whole_runs(quick: bool) -> list[dict]:
    """A sweep of 100 seeds, per seed, beside one BoTorch run on one thread and on two: interleaved, warm."""
    rounds, seeds = (2, 10) if quick else (5, 100)
    with Worker(OURS, **TWO) as ours, Worker(PEER) as peer:
        first = ours("sweep", first=1000, seeds=seeds, policy="shard")["seconds"]
        for threads in THREADS:
            peer("run", seed=1000, threads=threads)
        swept, runs = [], {threads: [] for threads in THREADS}
        for turn in range(rounds):
            swept.append(ours("sweep", first=turn * seeds, seeds=seeds, policy="shard"))
            for threads in THREADS:
                runs[threads].append(peer("run", seed=turn, threads=threads))
        versions = ours("version"), peer("version")
    faster, peer_s = rows.faster(runs)
    seconds = rows.median(swept) / seeds
    losses = [loss for sweep in swept for loss in sweep["loss"]]
    peers = [run["loss"] for run in runs[1] + runs[2]]
    traces = [trace for sweep in swept for trace in sweep["trace"]]
    return [
        rows.row(
            f"one run of a sweep of {seeds} seeds",
            seconds,
            peer_s,
            f"{versions[1]}, {faster} thread(s)",
            compile_s=first - seconds * seeds,
            problem=f"d={problem.DIMENSION}, n={problem.USERS}, T={problem.STEPS}, b={problem.BATCH}, {problem.LOSS}",
            settings=problem.SETTINGS,
            ours=versions[0],
            peer_seconds={str(threads): rows.seconds(runs[threads]) for threads in THREADS},
            ours_seconds=rows.seconds(swept),
            ours_final_loss=rows.spread(losses),
            peer_final_loss=rows.spread(peers),
            mean_trace=f"ours {statistics.mean(traces):.4f}, peer "
            f"{statistics.mean(run['trace'] for run in runs[1] + runs[2]):.4f}",
        )
    ]


def cold_runs(quick: bool) -> list[dict]:
    """One run in a new process, compilation included, no compilation cache."""
    ours, peers = [], []
    for turn in range(1 if quick else 5):
        with Worker(OURS) as worker:
            ours.append(worker("run", seed=turn)["seconds"])
        with Worker(PEER) as worker:
            peers.append(worker("run", seed=turn, threads=2)["seconds"])
    ours_s, peer_s = statistics.median(ours), statistics.median(peers)
    return [rows.row("one cold run, compiled", ours_s, peer_s, "BoTorch, new process")]


def step_parts(quick: bool) -> list[dict]:
    """What a step consists of, each part beside the whole."""
    with Worker(OURS) as worker:
        taken = worker("step_parts", rounds=1 if quick else 20)
    inside = taken.pop("gradients")
    whole = sum(taken.values())
    return [
        rows.row(f"{PART}{label}", seconds, whole, "a step", ratio=seconds / whole)
        for label, seconds in (
            ("where to evaluate", taken["ask"]),
            ("the losses of all users", taken["losses"]),
            ("what users add up to", taken["contribute"]),
            ("in it the clipped gradients of all users", inside),
            ("the noise and the step", taken["tell"]),
        )
    ]


def devices(quick: bool) -> list[dict]:
    """The policies of ``sweep``, on one device and on two, interleaved.

    Eight seeds for "vmap", which at 50 has hung: see ``drivers.distribute``.
    """
    rounds, seeds = (1, 8) if quick else (5, 50)
    plans = {
        "two devices, shard": (TWO, "shard", seeds),
        "two devices, shard, NPROC=4": (TWO | {"NPROC": "4"}, "shard", seeds),
        "one device, map": ({}, "map", seeds),
        "one device, vmap of 8": ({}, "vmap", 8),
    }
    seconds = {name: [] for name in plans}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(OURS, **plan[0])) for name, plan in plans.items()}
        for turn in range(rounds + 1):
            for name, (_, policy, count) in plans.items():
                taken = workers[name]("sweep", first=0, seeds=count, policy=policy)["seconds"]
                if turn:  # the first compiles
                    seconds[name].append(taken / count)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    shard = medians.pop("two devices, shard")
    return [rows.row("two devices, shard, per seed", shard, other, name) for name, other in medians.items()]


def memory(quick: bool) -> list[dict]:
    """1,000 seeds beside 100, each in a new process, compilation included; then 20 budgets x 100 seeds."""
    few, many = (4, 8) if quick else (100, 1000)
    swept, peaks = {}, {}
    for seeds in (few, many):
        with Worker(OURS, **TWO) as worker:
            swept[seeds] = worker("sweep", first=0, seeds=seeds, policy="shard")
            peaks[seeds] = worker("peak_memory")
    with Worker(OURS, **TWO) as worker:
        budgets = worker("sweep", first=0, seeds=few, budgets=BUDGETS, policy="shard")
        peaks[BUDGETS * few] = worker("peak_memory")
    return [
        rows.row(
            f"{many} seeds, compilation included",
            swept[many]["seconds"],
            swept[few]["seconds"],
            f"{few} seeds",
            ratio=swept[many]["seconds"] / swept[few]["seconds"],
            seeds_per_second=round(many / swept[many]["seconds"], 2),
            peak_memory_mb={str(runs): round(peak) for runs, peak in peaks.items()},
            failed_factorisations=swept[many]["failed"],
            large_compilations_of_20_budgets=budgets["large_compilations"],
            seconds_of_20_budgets=round(budgets["seconds"], 1),
        )
    ]


def clipped_gradient(quick: bool) -> list[dict]:
    """The per-user clipped gradient beside the larger of two ceilings, reading the losses and the arithmetic."""
    users, repeats = (50_000, 3) if quick else (500_000, 11)
    cases = [("float32", users, 10), ("float32", users, 33), ("float64", users // 2, 10), ("float64", users // 2, 33)]
    measured = []
    with Worker(OURS) as single, Worker(OURS, **TWO) as double:
        for dtype, count, dimension in cases:
            case = {"users": count, "dimension": dimension, "dtype": dtype, "repeats": repeats}
            whole, spread = (worker("clipped_gradient", **case) for worker in (single, double))
            roof, ceiling = whole["roof"], f"ceiling ({whole['bound']})"  # of both: one device's product has all cores
            for result, where in ((whole, ""), (spread, OVER_TWO)):
                seconds = result.pop("seconds")
                name = f"{where}per-user gradients, n={count}, d={dimension}, 275 points"
                more = {key: result[key] for key in SHOWN}
                measured.append(rows.row(name, seconds, roof, ceiling, dtype=dtype, **more))
    return measured


def per_user_solve(quick: bool) -> list[dict]:
    """The step at 4,500 users beside a solve for each of them."""
    measured = []
    with Worker(OURS) as worker:
        for dtype in ("float32", "float64"):
            for dimension in (10, 33):
                result = worker("per_user_solve", dimension=dimension, dtype=dtype, repeats=5 if quick else 21)
                for plan, label in (("in_turn", "a solve for every user, in turn"), ("vmapped", "the same, vmapped")):
                    measured.append(
                        rows.row(
                            f"per-user gradients, n=4500, d={dimension}, weights included",
                            result["ours"],
                            result[plan],
                            label,
                            dtype=dtype,
                            largest_difference=result["difference"],
                        )
                    )
    return measured
