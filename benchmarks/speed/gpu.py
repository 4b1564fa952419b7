"""``scripts/bench gpu``: an accelerator compared with a CPU of its machine, results first, then times, in 8 minutes.

Every check computes on the first device and compares bits, or a difference beside its tolerance; a failed check makes
the exit status 1. Times are medians of a compiled program on either side, in one process. The file is written after
every row. No row begins after 7 minutes, and the process ends before 8.
"""

import os
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import jax
import jaxlib
import numpy as np

from benchmarks import report
from benchmarks.speed import gpu_checks, gpu_times
from benchmarks.speed import gpu_problem as problem

SEEDS = "fixed: 0 to 16"


class Results:
    """What was measured so far, on disk after every row."""

    def __init__(self, device: Any, quick: bool):
        self.started, self.quick, self.row, self.lock = time.perf_counter(), quick, "", threading.Lock()
        self.measured: dict[str, Any] = {
            "accelerator": {
                "kind": device.device_kind,
                "platform": device.platform,
                "devices": len(jax.devices()),
                "driver": device.client.platform_version,
                "jax": jax.__version__,
                "jaxlib": jaxlib.__version__,
            },
            "checks": [],
            "times": [],
            "skipped": [],
            "failed": [],
        }

    def add(self, kind: str, row: dict[str, Any], seen: str) -> None:
        with self.lock:
            self.measured[kind].append(row)
            print(f"{time.perf_counter() - self.started:5.0f} s  {row['name']}: {seen}", flush=True)
            self.write(announce=False)

    def write(self, announce: bool) -> None:
        report.write_bench(
            "gpu",
            self.measured,
            quick=self.quick,
            seeds=SEEDS,
            noise="both",
            dtype="float32; releases and DPareto float64",
            chosen={name: value for name, value in vars(problem).items() if name.isupper()},
            started=self.started,
            announce=announce,
        )

    def skip(self, name: str, reason: str) -> None:
        self.add("skipped", {"name": name, "reason": reason}, f"skipped: {reason}")

    def attempt(self, kind: str, name: str, measure: Callable[[], dict[str, Any]]) -> None:
        """Add the row, or why there is none: the time is up, or an error, which the rows after it survive."""
        self.row = name
        if time.perf_counter() - self.started >= problem.BEGIN:
            self.skip(name, f"{problem.BEGIN:g} s had passed")
            return
        try:
            row = {"name": name} | measure()
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
            self.add("failed", {"name": name, "reason": reason}, f"FAILED: {reason.partition(chr(10))[0]}")
        else:
            self.add(kind, row, seen_in(row))

    def status(self) -> int:
        return int(bool(self.measured["failed"]) or not all(row["passed"] for row in self.measured["checks"]))

    def give_up(self) -> None:
        """End the process in the middle of a row."""
        self.skip(self.row, f"not done after {problem.END:g} s")
        sys.stdout.flush()
        os._exit(self.status())


def main(quick: bool) -> None:
    device, beside = find_devices(quick)
    results = Results(device, quick)
    alarm = threading.Timer(problem.END, results.give_up)
    alarm.daemon = True
    alarm.start()
    print(f"{device.device_kind} ({device.platform}), beside {beside.device_kind}")
    for check in gpu_checks.CHECKS:
        results.attempt("checks", check.name, partial(compare, check, check.sizes[quick], device, beside))
    for timed in gpu_times.timings(quick):
        results.attempt("times", timed.name, partial(time_row, timed, device, beside, quick))
    add_botorch(results, device, quick)
    alarm.cancel()
    show(results.measured)
    results.write(announce=True)
    raise SystemExit(results.status())


def find_devices(quick: bool) -> tuple[Any, Any]:
    """The first device, and a CPU beside it: another of the same kind where all devices are CPUs."""
    device = jax.devices()[0]
    if device.platform == "cpu" and not quick:
        refuse(f"an accelerator, but jax.devices() is {jax.devices()}: pass --quick on CPUs")
    try:
        return device, jax.devices("cpu")[-1]
    except RuntimeError as error:
        refuse(f"a CPU beside the device: pass --device, or set JAX_PLATFORMS to name both ({error})")


def refuse(needs: str) -> NoReturn:
    """End with status 2: 1 says that a check failed."""
    print(f"scripts/bench gpu needs {needs}", file=sys.stderr)
    raise SystemExit(2)


def compute_on(device: Any, double: bool, compute: Callable[[], Any]) -> list[np.ndarray]:
    """The arrays that ``compute`` returns, with ``device`` for all that it makes."""
    with jax.default_device(device), jax.enable_x64(double):
        leaves = jax.tree.leaves(compute())
        for leaf in leaves:
            expect_on(device, leaf)
        return [np.asarray(leaf) for leaf in leaves]


def expect_on(device: Any, leaf: Any) -> None:
    """Raise RuntimeError for an array of another device: a fallback would compare a CPU with itself."""
    if isinstance(leaf, jax.Array) and leaf.devices() != {device}:
        raise RuntimeError(f"computed on {leaf.devices()} in place of {device}")


def compare(check: gpu_checks.Check, size: int, device: Any, beside: Any) -> dict[str, Any]:
    """A row: what the device computed, beside what is expected."""
    begun = time.perf_counter()
    found = compute_on(device, check.double, lambda: check.compute(size))
    if check.expected is None:
        expected = compute_on(beside, check.double, lambda: check.compute(size))
    else:
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(check.expected(device.platform))]
    pairs = list(zip(found, expected, strict=True))
    tolerance = None if check.tolerance is None else check.tolerance(size)
    row = {"size": size, "tolerance": tolerance, "seconds": time.perf_counter() - begun}
    if tolerance is None:
        apart = sum(unequal(*pair) for pair in pairs)
        known = {} if check.expected is None else {"found": int(found[0]), "expected": int(expected[0])}
        return row | known | {"passed": apart == 0, "unequal": apart, "numbers": sum(leaf.size for leaf in found)}
    largest = max(difference(*pair) for pair in pairs)
    return row | {"passed": largest <= tolerance, "largest": largest if np.isfinite(largest) else None}


def unequal(found: np.ndarray, expected: np.ndarray) -> int:
    """How many numbers differ in any bit, NaN being equal to NaN."""
    return int(np.sum((found != expected) & ~((found != found) & (expected != expected))))


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest; inf where one alone is NaN, or integers, such as a chosen row, are not equal."""
    if not np.issubdtype(found.dtype, np.floating):
        return np.inf if unequal(found, expected) else 0.0
    same = (found == expected) | ((found != found) & (expected != expected))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(found.astype(float) - expected))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))


def seen_in(row: dict[str, Any]) -> str:
    """What a row found, in a few words."""
    if "device_s" in row:
        return f"{row['device_s']:.3g} s, {row.get('peer', 'CPU')} {row.get('cpu_s', row.get('peer_s')):.3g} s"
    if "found" in row:
        said = {number: "refused" if number == gpu_checks.REFUSED else f"{number:,}" for number in
                (row["found"], row["expected"])}  # fmt: skip
        return said[row["found"]] + ("" if row["passed"] else f", not {said[row['expected']]}")
    if row["tolerance"] is None:
        return "equal" if row["passed"] else f"differs, {row['unequal']:,} of {row['numbers']:,}"
    largest = "no number" if row["largest"] is None else f"{row['largest']:.2g}"  # and a JSON has no infinity
    return f"{largest} (tolerance {row['tolerance']:.2g})"


def time_row(timed: gpu_times.Timed, device: Any, beside: Any, quick: bool) -> dict[str, Any]:
    """Medians of both sides, and the seconds that their first calls took longer."""
    row: dict[str, Any] = {}
    for side, where in (("device", device), ("cpu", beside)):
        with jax.default_device(where), jax.enable_x64(timed.double):
            taken = seconds_of(timed.prepare(), where, quick)
        row[f"{side}_s"] = statistics.median(taken[1:])
        row[f"{side}_compile_s"] = max(0.0, taken[0] - row[f"{side}_s"])
        row[f"{side}_runs"] = taken[1:]
    return row | {"ratio": row["cpu_s"] / row["device_s"]}


def seconds_of(call: Callable[[], Any], device: Any, quick: bool) -> list[float]:
    """Of the first call, and of one or more after it."""
    taken: list[float] = []
    while len(taken) < 2 or (len(taken) <= problem.REPEATS[quick] and sum(taken[1:]) < problem.SHARE[quick]):
        begun = time.perf_counter()
        result = jax.block_until_ready(call())
        taken.append(time.perf_counter() - begun)
        for leaf in jax.tree.leaves(result):
            expect_on(device, leaf)
    return taken


def add_botorch(results: Results, device: Any, quick: bool) -> None:
    proposals = problem.BESIDE_BOTORCH[quick]
    name = f"DPareto, {proposals} proposals, beside BoTorch on the GPU"
    reason = "no GPU" if device.platform != "gpu" else gpu_times.botorch_unavailable()
    if reason:
        results.skip(name, reason)
        return

    def measure() -> dict[str, Any]:
        with jax.default_device(device), jax.enable_x64(True):
            ours = statistics.median(seconds_of(gpu_times.front(proposals), device, quick)[1:])
        seconds, version = gpu_times.botorch_front(proposals)
        return {"device_s": ours, "peer_s": seconds, "peer": version, "ratio": seconds / ours}

    results.attempt("times", name, measure)


def show(measured: dict[str, Any]) -> None:
    """All rows."""
    print()
    report.print_table(
        ("check", "size", "found", ""),
        [
            (row["name"], f"{row['size']:,}", seen_in(row), "" if row["passed"] else "FAILED")
            for row in measured["checks"]
        ],
        flush=(0, 3),
    )
    print()
    report.print_table(
        ("time", "device", "beside", "ratio", "compile, device", "CPU"),
        [
            (row["name"], f"{row['device_s']:.3g} s", f"{row.get('cpu_s', row.get('peer_s')):.3g} s")
            + (f"{row['ratio']:.3g}", *(f"{row.get(f'{side}_compile_s', 0):.1f} s" for side in ("device", "cpu")))
            for row in measured["times"]
        ],
    )
    print()
    for kind in ("skipped", "failed"):
        for row in measured[kind]:
            print(f"{kind}: {row['name']}: {row['reason']}")
