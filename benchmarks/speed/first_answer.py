"""``scripts/bench first_answer [--against PATH]``: time until a new user's first answer, in fresh processes.

Each part runs in its own process. The parts and the checkouts alternate, and the least of three is the figure, since
other work on the machine only adds time. The import of JAX and optax is the reference, because nobody can avoid this
import. No program is cached but in one part, which says so. Pass ``--against`` to time a second checkout, such as a
clone of an earlier commit.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from benchmarks import report
from benchmarks.speed import rows

ROUNDS = 3
IMPORT = "import jax, optax"
PROBLEM = """
import jax.numpy as jnp
import numpy as np
import jaxdpbo

records = np.random.default_rng(0).gamma(2.0, size=(2000, {d}))

def loss(point, data):
    return {np}.log1p({np}.sum((data - point) ** 2, axis=1))

bounds = np.array([[0.0] * {d}, [6.0] * {d}])
grouped = hasattr(jaxdpbo, "Search")  # an older checkout may not have it
run = jaxdpbo.minimize(loss, {records}, bounds, mu=1.0, {more})
print(run.release.point, run.guarantee, run.guarantee.epsilon(delta=1e-5))
"""


IN_PYTHON = (
    "users=2000, **({'run': jaxdpbo.Execution(traceable=False)} if hasattr(jaxdpbo, 'Execution') else "
    "{'traceable': False})"
)
MANY_STEPS = "**({'search': jaxdpbo.Search(steps=45)} if grouped else {'steps': 45})"


def problem(dimension: int, python: bool = False, more: str = "") -> str:
    kind = {"np": "np", "records": "records"} if python else {"np": "jnp", "records": "jnp.asarray(records)"}
    return PROBLEM.format(d=dimension, more=more, **kind)


EXAMPLE = "README's example, d=3"
KEPT = "the example with a kept compilation cache"  # as the guide sets it; another process filled it
PARTS = {
    IMPORT: IMPORT,
    "import jaxdpbo": "import jaxdpbo",
    EXAMPLE: "",  # each checkout's own
    "the same in Python, traceable=False": problem(3, python=True, more=IN_PYTHON),
    KEPT: "",
    "d=20": problem(20),
    "d=100, 45 steps": problem(100, more=MANY_STEPS),
}
QUICK = tuple(PARTS)[:3]


def code_of(part: str, root: Path) -> str:
    if part not in (EXAMPLE, KEPT):
        return PARTS[part]
    return (root / "README.md").read_text().split("```python\n")[1].split("```")[0]


def seconds(code: str, root: Path, cache: str | None = None) -> float:
    """Of a whole process: from its start to its end, by its own clock for the part that counts."""
    timed = f"import time\nstart = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    dropped = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    if cache is not None:
        environment |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    with tempfile.TemporaryDirectory() as elsewhere:  # the checkout is found by its path alone
        done = subprocess.run(
            [sys.executable, "-c", timed], env=environment | {"PYTHONPATH": str(root)}, cwd=elsewhere,
            capture_output=True, text=True, timeout=900,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def main(quick: bool, against: Path | None = None) -> None:
    checkouts = {"ours": Path(__file__).parents[2]} | ({} if against is None else {"before": against.absolute()})
    parts = QUICK if quick else tuple(PARTS)
    taken = {part: {side: [] for side in checkouts} for part in parts}
    for side in checkouts.values():  # writes the byte code, which an installed package has
        seconds("import jaxdpbo", side)
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(total=ROUNDS * len(parts) * len(checkouts), unit="process") as bar,
    ):
        kept = {side: str(Path(folder, side)) for side in checkouts}
        for side, root in checkouts.items():
            seconds(code_of(KEPT, root), root, kept[side])
        for _ in range(ROUNDS):
            for part in parts:
                for side, root in checkouts.items():
                    taken[part][side].append(seconds(code_of(part, root), root, kept[side] if part == KEPT else None))
                    bar.update()
    least = {part: {side: min(values) for side, values in by_side.items()} for part, by_side in taken.items()}
    base = min(least[IMPORT].values())
    results = []
    for part in parts:
        ours, before = least[part]["ours"], least[part].get("before")
        more = {"over_import": ours / base, "ours_seconds": taken[part]["ours"]}
        if before is None:
            results.append(rows.row(part, ours, base, IMPORT, ratio=ours / base, dtype="float32", **more))
        else:
            more["peer_seconds"] = taken[part]["before"]
            results.append(rows.row(part, ours, before, "before", dtype="float32", **more))
    report.print_table(
        ("what", *checkouts, "ours / import"),
        [
            (part, *(f"{by_side[side]:.2f} s" for side in checkouts), f"{by_side['ours'] / base:.2f}")
            for part, by_side in least.items()
        ],
    )
    rows.finish("first_answer", results, quick)
