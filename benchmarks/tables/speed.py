"""The measurements of time and memory."""

from typing import Any

import numpy as np

from benchmarks.reproductions import common
from benchmarks.speed.dp_gibo import OVER_TWO, PART
from benchmarks.tables.markdown import figures, load_result, row_of, table, time_of

DIMENSIONS = (10, 33)  # of the measurements of per-user gradients
DTYPES = ("float32", "float64")
GP_UCB = "a suggestion, ", "a first run, "  # how the names of the rows of bench_gp_ucb begin
FAR = 0.05  # a regret that a run near the minimum does not have


def bench_dp_gibo() -> str:
    run, cold = row_of("bench_dp_gibo", "one run of a sweep"), row_of("bench_dp_gibo", "one cold run")
    more = run["more"]
    ends = [
        ", ".join(part.split(", standard deviation ")) for part in (more["ours_final_loss"], more["peer_final_loss"])
    ]
    ours, peer = (part.rpartition(" ")[2] for part in more["mean_trace"].split(", "))
    return table(
        ("", "ours", "BoTorch", "ratio"),
        [
            ("one run of a sweep of 100 seeds, warm", time_of(run["ours_s"], 2), time_of(run["peer_s"]))
            + (figures(run["ratio"]),),
            ("one run in a new process, compilation included", time_of(cold["ours_s"], 2), time_of(cold["peer_s"], 2))
            + (figures(cold["ratio"], 2),),
            ("final loss, mean and standard deviation over runs", *ends, ""),
            ("trace of the gradient's covariance, mean over a run", ours, peer, ""),
            ("compilation of the sweep's first call", time_of(run["compile_s"], 2), "", ""),
        ],
    )


def bench_step() -> str:
    rows = [row for row in load_result("bench_dp_gibo")["rows"] if row["name"].startswith(PART)]
    return table(
        ("part of a step", "time", "share"),
        [(row["name"].removeprefix(PART), time_of(row["ours_s"], 2), f"{row['ratio']:.0%}") for row in rows],
    )


def bench_machine() -> str:
    result = load_result("bench_dp_gibo")
    machine, peer = result["machine"], row_of("bench_dp_gibo", "one run of a sweep")["peer"]
    versions = peer.rpartition(", ")[0].replace(", ", " on ").split("+")[0]
    processor = machine["processor"].replace("(R)", "").removesuffix(" Processor")
    where = f"{machine['cores']} cores of {processor} (shared host), {machine['device'].upper()}"
    return f"{where}, Python {machine['python']}, JAX {machine['jax']}, {versions}."


def bench_policies() -> str:
    rows = [row for row in load_result("bench_dp_gibo")["rows"] if row["name"].startswith("two devices")]
    labels = {
        "two devices, shard, NPROC=4": "the same with `NPROC=4`",
        "one device, map": '"map" on one device (both cores)',
        "one device, vmap of 8": '"vmap" of 8 on one device',
    }
    first = ('"shard" over two host devices', time_of(rows[0]["ours_s"], 2), "")
    others = [
        (labels[row["peer"]], time_of(row["peer_s"], 2 if row["peer_s"] < 0.1 else 3))
        + (f"{figures(row['ratio'], 3 if row['ratio'] < 2 else 2)} times",)
        for row in rows
    ]
    return table(("policy", "per seed", "over the first"), [first, *others])


def bench_many() -> str:
    row = row_of("bench_dp_gibo", "1000 seeds")
    more, peaks = row["more"], row["more"]["peak_memory_mb"]
    budgets = float(more["seconds_of_20_budgets"])
    rows = [
        ("100 seeds", row["peer_s"], 100 / row["peer_s"], peaks["100"]),
        ("1,000 seeds", row["ours_s"], 1000 / row["ours_s"], peaks["1000"]),
        ("20 budgets x 100 seeds, one compilation", budgets, 2000 / budgets, peaks["2000"]),
    ]
    return table(
        ("runs in one call of `sweep`", "seconds", "runs a second", "peak memory"),
        [(name, f"{seconds:.1f}", f"{rate:.1f}", f"{peak:,} MB") for name, seconds, rate, peak in rows],
    )


def bench_gradient() -> str:
    rows = []
    for dtype, users in zip(DTYPES, (500_000, 250_000), strict=True):
        for dimension in DIMENSIONS:
            name = f"per-user gradients, n={users}, d={dimension},"
            row, spread = (row_of("bench_dp_gibo", f"{where}{name}", dtype=dtype) for where in ("", OVER_TWO))
            more = row["more"]
            ceiling = f"{time_of(row['peer_s'], 3 if row['peer_s'] < 0.03 else 2)} ({more['bound']})"
            sizes = [float(more[name]) / 1e6 for name in ("temporary_bytes", "n_by_d_bytes")]
            rows.append(
                (f"{users:,}", dimension, dtype, time_of(row["ours_s"], 3 if row["ours_s"] > 0.1 else 2), ceiling)
                + (f"{row['ratio']:.2f}", f"{spread['ratio']:.2f}", *(f"{figures(size, 2)} MB" for size in sizes))
            )
    header = (
        "users",
        "d",
        "dtype",
        "ours",
        "ceiling",
        "share",
        "share over two host devices",
        "temporaries",
        "an n x d array",
    )
    return table(header, rows)


def bench_solve() -> str:
    rows = []
    for dtype in DTYPES:
        for dimension in DIMENSIONS:
            name = f"per-user gradients, n=4500, d={dimension},"
            turn, mapped = (
                row_of("bench_dp_gibo", name, dtype=dtype, peer=peer)
                for peer in ("a solve for every user, in turn", "the same, vmapped")
            )
            cells = [
                f"{time_of(row['peer_s'])} ({figures(row['ratio'], 3 if row['ratio'] >= 100 else 2)} times)"
                for row in (turn, mapped)
            ]
            rows.append((dimension, dtype, time_of(turn["ours_s"]), *cells))
    header = ("d", "dtype", "ours", "a solve for every user, in turn")
    return table((*header, "the same by `vmap`, which JAX merges into one solve"), rows)


def bench_dp_gp_ucb() -> str:
    row = row_of("bench_dp_gp_ucb", "one run")
    cells = time_of(row["ours_s"], 2), thread_times(row["more"]["peer_seconds"]), figures(row["ratio"], 2)
    first = "compilation of the first call", time_of(row["compile_s"], 2), "", ""
    return table(("", "ours", "scikit-learn", "ratio"), [("one run of a sweep of 100 seeds, warm", *cells), first])


def thread_times(seconds: dict[str, Any]) -> str:
    """A peer's times with one thread and with two; the ratio uses the faster."""
    single, double = (time_of(float(np.median(times)), 2) for times in seconds.values())
    return f"{single} with one thread, {double} with two"


def bench_po_gp_ucb() -> str:
    recomputed, ceiling, peer = load_result("bench_po_gp_ucb")["rows"]
    rate = float(np.median(ceiling["more"]["gb_per_s"]))
    read = f"reading the data of a step once, at the speed of both cores ({rate:.1f} GB/s), "
    return table(
        ("n", "ours, a run", "compared with", "ratio"),
        [
            ("36,000", time_of(recomputed["ours_s"]))
            + (
                f"the posterior recomputed at every step, {time_of(recomputed['peer_s'])}",
                figures(recomputed["ratio"]),
            ),
            ("36,000", time_of(ceiling["ours_s"]), read + time_of(ceiling["peer_s"]), figures(ceiling["ratio"])),
            ("10,000", time_of(peer["ours_s"]), f"scikit-learn, {thread_times(peer['more']['peer_seconds'])}")
            + (figures(peer["ratio"], 2),),
            *(
                (n, time_of(row["compile_s"], 2), "compilation of the first call", "")
                for n, row in (("36,000", recomputed), ("10,000", peer))
            ),
        ],
    )


def bench_dpareto() -> str:
    short, long = load_result("bench_dpareto")["rows"]
    volumes = short["more"]["hypervolume"]

    def spread(values: list[float], places: int) -> str:
        return f"{np.median(values):.{places}f} ({min(values):.{places}f} to {max(values):.{places}f})"

    seconds = long["more"]["seconds"]
    return table(
        ("proposals", "ours", "compilation", "BoTorch", "ratio", "hypervolume, ours", "BoTorch"),
        [
            (64, time_of(short["ours_s"], 2), time_of(short["compile_s"], 2))
            + (thread_times(short["more"]["peer_seconds"]), figures(short["ratio"], 2))
            + (spread(volumes["ours"], 3), spread(volumes["peer"], 3)),
            (256, f"{time_of(long['ours_s'], 2)} ({min(seconds):.1f} to {max(seconds):.1f})")
            + (time_of(long["compile_s"], 2), "-", "-", spread(long["more"]["hypervolume"], 4), "-"),
        ],
    )


def avent_overhead() -> str:
    result = load_result("avent_overhead")
    search, accountant = (float(np.median(result[name])) for name in ("search", "accountant"))
    settings = result["settings"]["printed in the paper"]
    cost = accountant / (settings["seeds"] + settings["proposals"])
    compiled = result["first_run"] - float(np.median(np.add(result["search"], result["accountant"])))
    return (
        "`scripts/reproduce avent overhead` ([JSON](results/avent_overhead.json)) runs this search step by step from "
        f"Python, with the accountant and without trainings. The search takes {search:.1f} s and the accountant "
        f"{accountant:.1f} s, {cost * 1e3:.0f} ms a setting (medians of {len(result['search'])}; compilation, once, "
        f"{compiled:.1f} s). The paper says {settings['seconds']} s, on its machine."
    )


def bench_gp_ucb() -> str:
    return _peer_table(GP_UCB[0])


def bench_gp_ucb_first() -> str:
    return _peer_table(GP_UCB[1])


def _peer_table(start: str) -> str:
    """Rows of ``bench_gp_ucb`` that begin so, a function a line: ours, and each peer with its ratio."""
    by_function = _gp_ucb(start)
    peers = next(iter(by_function.values()))
    return table(
        ("", "ours", *peers),
        [
            (function, time_of(next(iter(by_peer.values()))["ours_s"], 2))
            + tuple(f"{time_of(row['peer_s'], 2)} ({figures(row['ratio'], 2)} times)" for row in by_peer.values())
            for function, by_peer in by_function.items()
        ],
    )


def bench_gp_ucb_regret() -> str:
    def quartiles(values: list[float]) -> str:
        low, middle, high = (f"{value:.2g}" if value < 100 else f"{value:.0f}" for value in values)
        return f"{middle} ({low} to {high})"

    cells = []
    for function, by_peer in _gp_ucb(GP_UCB[0]).items():
        for peer, row in by_peer.items():
            more, paired = row["more"], regret_difference(row)
            low, high = paired["95%"]
            cells.append(
                (function, peer, paired["of"], *(quartiles(more["quartiles"][side]) for side in ("ours", "peer")))
                + (f"{paired['mean difference']:+.2g} ({low:+.2g} to {high:+.2g})", paired["lower in"])
            )
    header = ("", "peer", "seeds of the peer", "regret, ours", "peer", "mean of ours - peer, 95 %", "ours lower in")
    return table(header, cells)


def bench_gp_ucb_summary() -> str:
    """Ranges of the ratios, and the comparisons in which regret differs."""
    of_functions = _gp_ucb(GP_UCB[0])
    warm, cold = ([row for by_peer in _gp_ucb(start).values() for row in by_peer.values()] for start in GP_UCB)
    intervals = [regret_difference(row)["95%"] for row in warm]
    worse, better = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)

    def span(rows: list[dict[str, Any]]) -> str:
        ratios = [row["ratio"] for row in rows]
        return f"{figures(min(ratios), 2)} to {figures(max(ratios), 2)} in {len(ratios)} comparisons"

    return (
        f"A peer's time over ours is {span(warm)} of a suggestion, and {span(cold)} of a first run in a new "
        f"process. The interval of the difference in regret is below 0 in {better} of {len(intervals)} comparisons "
        f"and above 0 in {worse}."
        + "".join(_far_runs(function, row) for function, by_peer in of_functions.items() for row in by_peer.values())
    )


def log_ei_rows() -> list[dict[str, Any]]:
    """Those with regrets, of all seeds."""
    return [row for row in load_result("bench_log_ei")["rows"] if "regret" in row["more"]]


def bench_log_ei() -> str:
    header = ("", "seconds, ours", "BoTorch", "ratio", "regret, ours", "BoTorch", "mean of ours - BoTorch, 95 %")
    lines = []
    for row in log_ei_rows():
        more, paired = row["more"], row["more"]["paired"]
        times = time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), f"{figures(row['ratio'], 2)} times"
        medians = (f"{more['quartiles'][side][1]:.2g}" for side in ("ours", "peer"))
        low, high = paired["95%"]
        lines.append((row["name"], *times, *medians, f"{paired['mean difference']:+.2g} ({low:+.2g} to {high:+.2g})"))
    return table(header, lines)


def bench_log_ei_first() -> str:
    lines = [
        (row["name"].removeprefix("a first run, "), time_of(row["ours_s"], 2), time_of(row["peer_s"], 2))
        for row in load_result("bench_log_ei")["rows"]
        if row["name"].startswith("a first run")
    ]
    return table(("", "ours", "BoTorch"), lines)


def regret_difference(row: dict[str, Any]) -> dict[str, Any]:
    """Ours minus the peer's, on the seeds of the peer."""
    regret = row["more"]["regret"]
    return common.paired_difference(regret["ours"][: len(regret["peer"])], regret["peer"])


def _far_runs(function: str, row: dict[str, Any]) -> str:
    """Runs that end far from the minimum, where the mean regret of ours is above the peer's."""
    paired, regret = regret_difference(row), row["more"]["regret"]
    if paired["mean difference"] <= 0:
        return ""
    runs = paired["of"]
    ours, peer = (sum(value > FAR for value in regret[side][:runs]) for side in ("ours", "peer"))
    ends = f"{ours} of {runs} runs of ours and {peer} of {row['peer']}'s"
    return f" On {function}, {ends} end more than {FAR} above the minimum."


def _gp_ucb(start: str) -> dict[str, dict[str, Any]]:
    """Rows by function and peer."""
    by_function: dict[str, dict[str, Any]] = {}
    for row in load_result("bench_gp_ucb")["rows"]:
        if row["name"].startswith(start):
            by_function.setdefault(row["name"].removeprefix(start), {})[row["peer"]] = row
    return by_function


def bench_dp_sgd() -> str:
    row = row_of("bench_dp_sgd", "64 settings")
    rates = row["more"]["useful_examples_per_second"]
    ours, padded = (figures(float(rates[name].split()[0])) for name in ("ours", "padded"))
    return table(
        ("", "useful examples a second", ""),
        [
            (f"batches in arrays of the next power of two, one compilation ({row['compile_s']:.0f} s)",)
            + (f"{ours} million", ""),
            ("every batch in an array of 512, one compilation", f"{padded} million", f"ratio {row['ratio']:.1f}"),
        ],
    )


def bench_opacus() -> str:
    rows = [row for row in load_result("bench_dp_sgd")["rows"] if row["name"].startswith("1000 steps")]
    return table(
        ("batch", "ours", "Opacus", "ratio"),
        [
            (row["name"].split(",")[0].rpartition(" ")[2], time_of(row["ours_s"], 2), time_of(row["peer_s"]))
            + (figures(row["ratio"], 2),)
            for row in rows
        ],
    )


def bench_problems() -> str:
    cells = []
    for row in load_result("bench_problems")["rows"]:
        check = row["more"]["check_s"]
        cells.append(
            (f"`{row['name'].split(',')[0]}`", row["name"].rpartition("n=")[2])
            + (time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2))
            + ("not followed" if check is None else time_of(check, 2),)
        )
    return table(
        ("problem", "users", "one person's loss", "array program", "ratio", "check of the array program"), cells
    )


def bench_exact_training() -> str:
    rows = [row for row in load_result("bench_dp_sgd")["rows"] if row["name"].startswith("exact noise")]
    cells = []
    for row in rows:
        size, model = row["name"].partition(": ")[2].split(", ")
        accuracy = row["more"]["accuracy"]
        cells.append(
            (model, size, time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2))
            + tuple(f"{accuracy[noise]:.3f}" for noise in ("exact", "float"))
        )
    header = ("model", "training", "exact noise", "noise in floats", "ratio", "accuracy, exact", "accuracy, floats")
    return table(header, cells)


def bench_secure() -> str:
    rows = [row for row in load_result("bench_secure")["rows"] if row["name"].startswith("one run")]
    return table(
        ("noise, keys", "one run", "ratio", "compile"),
        [
            (row["name"].partition(": ")[2], time_of(row["ours_s"]), f"{row['ratio']:.3g}", f"{row['compile_s']:.1f} s")
            for row in rows
        ],
    )


def bench_draws() -> str:
    def milliseconds(count: int, name: str) -> str:
        (row,) = [
            row for row in load_result("bench_secure")["rows"] if row["name"].startswith(f"{count} draws: {name}")
        ]
        return f"{row['ours_s'] * 1e3:.2g}"

    widths = [row["name"] for row in load_result("bench_secure")["rows"] if "Gaussian, width" in row["name"]][:2]
    widths = [name.partition(": ")[2] for name in widths]
    names = "float Gaussian, threefry", *widths, "discrete Laplace", "noisy argmax"
    rows = [(name, *(milliseconds(count, name) for count in (10, 1000))) for name in names]
    return table(("one call, in ms, for", "10 draws", "1,000 draws"), rows)


def bench_first_answer() -> str:
    return table(
        ("in a fresh process", "time", "over the import of JAX and optax"),
        [
            (row["name"], time_of(row["ours_s"], 2), f"{row['more']['over_import']:.1f}")
            for row in load_result("bench_first_answer")["rows"]
        ],
    )


BLOCKS = {
    block.__name__: block
    for block in (
        bench_machine, bench_dp_gibo, bench_step, bench_policies, bench_many, bench_gradient, bench_solve,
        bench_dp_gp_ucb, bench_po_gp_ucb,
        bench_dpareto, avent_overhead, bench_dp_sgd, bench_opacus, bench_exact_training, bench_problems, bench_secure,
        bench_draws, bench_first_answer, bench_gp_ucb, bench_gp_ucb_regret, bench_gp_ucb_first, bench_gp_ucb_summary,
        bench_log_ei, bench_log_ei_first,
    )
}  # fmt: skip
