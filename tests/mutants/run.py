"""Mutants: one small change to the package at a time; a change that no test sees reveals a missing test.

``scripts/test --mutants [N] [--seed S]`` draws N mutants (300 by default) of the whole package. For each mutant, the
command runs the tests that enter the changed function. It prints the survivors and the counts by package, and appends
results to ``results/mutants/mutants.jsonl``. A mutant with a result runs again only after its function has changed.

    scripts/test --mutants                     300 mutants; counts go to docs/test_counts.md when all have a result
    scripts/test --mutants 300 --seed 7        300 others
    scripts/test --mutants 20 --only gdp       20 mutants of modules or functions with "gdp" in the name
    scripts/test --mutants --again             run survivors again, after you have added tests
    scripts/test --mutants --map [FILES]       record again the tests that enter each function (all, or those of FILES)

A test that fails without any change kills nobody: at the end, each killing test runs on the unchanged tree.
"""

import argparse
import ast
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import evidence  # noqa: E402
from compilation import UNOPTIMISED  # noqa: E402
from mutants import mutations, session  # noqa: E402

EQUIVALENTS = ROOT / "tests" / "mutants" / "equivalents.json"
KEPT = ROOT / "results" / "mutants"  # between runs: the map of tests, and a line for each mutant
COUNT, SEED = 300, 0
KINDS = "drawn", "equivalent", "killed", "time", "survived", "none"
LIMIT = 120.0  # seconds for one process of a mutant; beyond, it is killed by time
USUAL = (
    150.0  # seconds that one mutant's tests take without it, each in a process of its own; together they share programs
)
FIRST = 12  # tests in a first process: most mutants die there
STORED = 150  # tests a function in the map
CHEAP = 0.05  # seconds of a test that is always worth running
FOLDERS = ("tests", "benchmarks/tests")
FILES = 6  # test files, where the map has nothing
# Times and prose: what a change in the package should not decide, or so slow that others decide it sooner.
APART = ("first_answer", "speed", "scripts", "layers", "readme", "docs", "mutants", "benchmarks", "packaging", "typing")


class Slot(NamedTuple):
    """A copy of the tree, for one process at a time."""

    place: Path

    @property
    def tree(self) -> Path:
        return self.place / "tree"

    @contextlib.contextmanager
    def changed(self, mutation: mutations.Mutation) -> Iterator[None]:
        """The copy with one mutation; its time of change is its own, so that no other's bytecode is taken for it."""
        path = self.tree / mutation.module
        source = path.read_bytes()
        try:
            path.write_bytes(mutation.apply(source))
            stamp = 10**9 * (int.from_bytes(os.urandom(4)) // 2)  # a second that file systems keep: before 2038
            os.utime(path, ns=(stamp, stamp))
            yield
        finally:
            path.write_bytes(source)


Task = Callable[[Slot], Generator[dict[str, Any], Any, None]]


def copies(count: int, place: Path) -> list[Slot]:
    """Copies of all that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    slots = []
    for number in range(count):
        slot = Slot(place / str(number))
        for name in names:
            (slot.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, slot.tree / name)
        (ROOT / ".cache").mkdir(exist_ok=True)
        (slot.tree / ".cache").symlink_to(ROOT / ".cache")
        slots.append(slot)
    return slots


def drive(tasks: Iterable[Task], slots: list[Slot]) -> None:
    """Run tasks, one a slot at a time.

    A task yields what to run, ``{"work": ..., "limit": seconds, **options}``, and is sent its answer: what ``work``
    returned, "time" where it was killed at its limit, or None where its process ended without one.
    """
    waiting, free, running = iter(tasks), list(slots), {}

    def advance(slot: Slot, task: Generator, answer: Any) -> None:
        try:
            wanted = task.send(answer)
        except StopIteration:
            free.append(slot)
            return
        limit, work = wanted.pop("limit"), wanted.pop("work")
        path = slot.place / "answer.json"
        path.unlink(missing_ok=True)
        child = session.fork(slot.tree, slot.place / "log", path, work, **wanted)
        running[child] = slot, task, time.monotonic() + limit

    try:
        while True:
            while free and (task := next(waiting, None)) is not None:
                slot = free.pop()
                advance(slot, task(slot), None)
            if not running:
                return
            child, _ = os.waitpid(-1, os.WNOHANG)
            late = [one for one, (_, _, deadline) in running.items() if time.monotonic() > deadline]
            if child in running:
                slot, task, _ = running.pop(child)
                _end(child)  # what it may have started
                path = slot.place / "answer.json"
                advance(slot, task, json.loads(path.read_text()) if path.exists() else None)
            elif late:
                slot, task, _ = running.pop(late[0])
                _end(late[0])
                os.waitpid(late[0], 0)
                advance(slot, task, "time")
            else:
                time.sleep(0.02)
    finally:
        for child in running:
            _end(child)


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


# Which tests.


class Map(NamedTuple):
    """What ``--map`` measured. ``tests``: seconds by test, cheapest first; ``functions``: places in ``tests``."""

    tests: dict[str, float]
    functions: dict[str, list[int]]

    @classmethod
    def read(cls, path: Path) -> "Map":
        if not path.exists():
            return cls({}, {})
        held = json.loads(path.read_text())
        return cls(held["tests"], held["functions"])

    def entered(self) -> dict[str, dict[str, Any]]:
        """By file and test, as ``session.record`` gives it; of functions that many tests enter, those stored."""
        functions: dict[str, list[str]] = {name: [] for name in self.tests}
        names = list(self.tests)
        for function, places in self.functions.items():
            for place in places:
                functions[names[place]].append(function)
        files: dict[str, dict[str, Any]] = {}
        for name, seconds in self.tests.items():
            one = {"green": True, "seconds": seconds, "functions": functions[name]}
            files.setdefault(name.partition("::")[0], {})[name] = one
        return files

    def tests_of(self, mutation: mutations.Mutation, root: Path = ROOT) -> list[str]:
        """The tests that enter the mutated function, in order; whole files of tests where none is known to."""
        module, names = mutation.module, list(self.tests)
        known = {one.partition("::")[2]: held for one, held in self.functions.items() if one.startswith(module + "::")}
        function = mutation.function
        while function not in known and "." in function:
            function = function.rpartition(".")[0]
        if function in known:
            return [names[place] for place in known[function] if place < len(names)]
        # A constant of the module or of a class: tests of the functions that name it, or of all; then whole files.
        source = (root / module).read_text()
        using = _using(source, mutation) & known.keys()
        places = sorted({place for one in using or known for place in known[one]})
        return [*(names[place] for place in places[:STORED] if place < len(names)), *importing(module, root)]

    def within(self, tests: list[str], seconds: float) -> list[str]:
        """The first of them that take that long together."""
        chosen, total = [], 0.0
        for test in tests:
            total += self.tests.get(test, seconds / FILES)
            if not chosen or total <= seconds:
                chosen.append(test)
        return chosen


def _using(source: str, mutation: mutations.Mutation) -> set[str]:
    """Functions of a module that name what the mutated statement of its top level sets."""
    tree = ast.parse(source)
    names: set[str] = set()
    for node in tree.body:
        if node.lineno <= mutation.line <= (node.end_lineno or node.lineno):
            bound = (one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
            names |= {node.name} if isinstance(node, ast.ClassDef) else {one.id for one in bound}
    found: set[str] = set()
    for name, node in mutations.all_functions(tree):
        used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        used |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        if used & names:
            found.add(name)
    return found


def importing(module: str, root: Path = ROOT) -> list[str]:
    """Test files that import a module or its package: the named ones first, the short ones first."""
    dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found = []
    for path in files_of_tests(root):
        names: set[str] = set()
        for node in ast.walk(ast.parse((root / path).read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for room in ("algorithms", "noise", "surrogate"):  # jaxdpbo.dp_gibo and the like are in a room
            names |= {f"jaxdpbo.{room}.{name.removeprefix('jaxdpbo.')}" for name in names}
        names -= {"jaxdpbo", "jaxdpbo.algorithms", "jaxdpbo.noise", "jaxdpbo.surrogate"}
        if dotted in names or any(dotted.startswith(name + ".") for name in names):
            found.append((dotted not in names, (root / path).stat().st_size, path))
    return [path for _, _, path in sorted(found)][:FILES]


def files_of_tests(root: Path) -> list[str]:
    paths = [path for folder in FOLDERS for path in sorted((root / folder).glob("test_*.py"))]
    return [
        path.relative_to(root).as_posix()
        for path in paths
        if not path.stem.startswith(tuple(f"test_{a}" for a in APART))
    ]


def measure(files: list[str], slots: list[Slot], path: Path) -> None:
    """``--map``: run test files, one process each, and write which functions each test enters."""
    current = files_of_tests(ROOT)
    entered = {file: tests for file, tests in Map.read(path).entered().items() if file in current}

    def task_of(file: str) -> Task:
        def task(slot: Slot):
            begun = time.monotonic()
            answer = yield {"work": session.record, "file": file, "limit": 1200.0}
            taken = time.monotonic() - begun
            if not isinstance(answer, dict) or not answer["tests"]:
                print(f"{file}: no result in {taken:.0f} s ({answer}): {_tail(slot)}", flush=True)
                return
            red = [name for name, one in answer["tests"].items() if not one["green"]]
            entered[file] = answer["tests"]
            print(
                f"{file}: {len(answer['tests'])} tests, {taken:.0f} s",
                *(f"not green: {one}" for one in red),
                sep="\n  ",
            )

        return task

    slowest_first = sorted(files, key=lambda file: -sum(one["seconds"] for one in entered.get(file, {}).values()))
    drive(map(task_of, slowest_first), slots)
    write_map(entered, path)


def write_map(entered: dict[str, dict[str, Any]], path: Path, inside: set[str] | None = None) -> None:
    """The map of all that was recorded: for each function the tests to run, the cheapest and most particular first."""
    if inside is None:
        inside = {f"{one.module}::{one.function}" for one in mutations.scope(ROOT)}
    green = {name: one for tests in entered.values() for name, one in tests.items() if one["green"]}
    cost = {name: one["seconds"] + 0.02 * len(one["functions"]) for name, one in green.items()}
    usable = sorted(
        (name for name in green if green[name]["seconds"] <= USUAL / 2), key=lambda name: (cost[name], name)
    )
    by_function: dict[str, list[str]] = {}
    for name in usable:
        for function in green[name]["functions"]:
            if function in inside:
                by_function.setdefault(function, []).append(name)
    for function, names in by_function.items():
        module = Path(function.partition("::")[0])
        own = tuple(f"tests/test_{name}.py" for name in (module.stem.lstrip("_"), module.parent.name.lstrip("_")))
        names.sort(key=lambda name: cost[name])
        times: Counter = Counter()
        turn = {}  # what costs nothing; a case of each test, and of those in its own file thirty; then another
        for name in names:
            if green[name]["seconds"] >= CHEAP:
                turn[name] = times[name.partition("[")[0]] // (30 if name.startswith(own) else 1)
                times[name.partition("[")[0]] += 1
            else:
                turn[name] = 0
        by_function[function] = sorted(names, key=lambda name: turn[name])[:STORED]
    used = set().union(*map(set, by_function.values()))
    tests = {name: round(green[name]["seconds"], 2) for name in usable if name in used}
    place = {name: number for number, name in enumerate(tests)}
    functions = {function: [place[name] for name in names] for function, names in sorted(by_function.items())}
    rows = ",\n".join(f"  {json.dumps(name)}: {seconds}" for name, seconds in tests.items())
    lists = ",\n".join(f"  {json.dumps(name)}: {json.dumps(places)}" for name, places in functions.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{\n "tests": {{\n{rows}\n }},\n "functions": {{\n{lists}\n }}\n}}\n')


# Which mutants died.


def tree_hash(root: Path = ROOT) -> str:
    """Of the package and its tests."""
    digest = hashlib.sha256()
    for folder in ("jaxdpbo", *FOLDERS):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


class Results:
    """The append-only file: one line a mutant, and one for each test that killed, run on the tree as it is."""

    def __init__(self, path: Path, tree: str):
        self.path, self.tree = path, tree
        self.mutants: dict[tuple[str, ...], dict] = {}
        self.controls: dict[str, bool] = {}
        self.unproved: set[str] = set()  # killed, and were not run on the tree as it is since
        if path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    def _take(self, line: dict) -> None:
        if "control" in line:
            self.unproved.discard(line["control"])
            if line["green"] or line["tree"] == self.tree:
                self.controls[line["control"]] = line["green"]
            else:
                self.controls.pop(line["control"], None)
        else:
            if line["status"] == "killed" and line["test"].startswith(FOLDERS):
                self.unproved.add(line["test"])
            self.mutants[tuple(line[name] for name in ("module", "function", "change", "source"))] = line

    def add(self, line: dict) -> None:
        line |= {"tree": self.tree}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._take(line)

    def of(self, mutation: mutations.Mutation) -> dict | None:
        """The last result, unless the test that killed is red without the mutant."""
        line = self.mutants.get(mutation.key)
        return None if line and self.controls.get(line.get("test") or "") is False else line

    def red(self) -> set[str]:
        return {test for test, green in self.controls.items() if not green}


def examine(mutation: mutations.Mutation, tests: list[str], known: Map, results: Results) -> Task:
    """One mutant: a first few tests, then the others."""

    def task(slot: Slot):
        chosen = known.within([test for test in tests if test not in results.red()], USUAL)
        begun, ran, left, status, killer = time.monotonic(), 0, 0, "survived", None
        rest = (len(chosen) - FIRST) // 2 + FIRST
        for part in filter(None, (chosen[:FIRST], chosen[FIRST:rest], chosen[rest:])):  # a process each
            with slot.changed(mutation):
                wanted = {"work": session.judge, "tests": part, "seconds": LIMIT * 2 / 3}
                answer = yield wanted | {"limit": LIMIT}
            if answer == "time":
                status = "time"
            elif answer is None or answer["status"] == session.UNIMPORTABLE:  # at once: does it without the mutant too?
                sound = yield {
                    "work": session.judge,
                    "tests": part[: 1 if answer else None],
                    "seconds": LIMIT,
                    "limit": 300.0,
                }
                if not isinstance(sound, dict) or sound["status"] == session.UNIMPORTABLE:
                    raise RuntimeError(f"tests fail without a mutant ({part}): {sound} {_tail(slot)}")
                status, killer = "killed", answer["red"][0] if answer else "crash"
            else:
                ran, left = ran + len(answer["ran"]), left + answer["left"]
                if answer["red"]:
                    status, killer = "killed", answer["red"][0]
            if status != "survived":
                break
        line = {name: getattr(mutation, name) for name in ("module", "function", "change", "source", "kind", "line")}
        line |= {"status": status, "test": killer, "ran": ran, "left": left, "of": len(chosen)}
        results.add(line | {"seconds": round(time.monotonic() - begun, 1)})
        print(
            f"{status:9}{time.monotonic() - begun:5.0f} s  {mutation.module}:{mutation.line}  {mutation.change}",
            flush=True,
        )

    return task


def control(tests: list[str], results: Results) -> Task:
    """The tests that killed, on the tree as it is."""

    def task(slot: Slot):
        answer = yield {"work": session.judge, "tests": tests, "seconds": 1e4, "first": False, "limit": 900.0}
        ran, red = (set(answer["ran"]), set(answer["red"])) if isinstance(answer, dict) else (set(), set(tests))
        for test in tests:
            green = test not in red and (test in ran or "::" not in test)
            results.add({"control": test, "green": green})
            if not green:
                print(f"not green without a mutant, so it kills nobody: {test}", flush=True)

    return task


def judge_all(sample: list[mutations.Mutation], again: bool, known: Map, results: Results, slots: list[Slot]) -> None:
    """Results for a sample: run what has none, then the controls; what only a red test killed runs once more."""
    for _ in range(3):
        waiting = [
            one for one in sample if (line := results.of(one)) is None or (again and line["status"] == "survived")
        ]
        drive((examine(one, known.tests_of(one), known, results) for one in waiting), slots)
        again = False
        killers = sorted(results.unproved)
        size = max(1, min(40, -(-len(killers) // len(slots))))
        drive((control(killers[at : at + size], results) for at in range(0, len(killers), size)), slots)
        if all(results.of(one) for one in sample):
            return


def equivalents(path: Path) -> dict[tuple[str, str, str], str]:
    """Mutants that no test can tell from the package, each with its reason."""
    return {(one["module"], one["function"], one["change"]): one["reason"] for one in json.loads(path.read_text())}


def report(sample: list[mutations.Mutation], same: dict, results: Results) -> dict[str, dict[str, int]]:
    """Print the survivors and the counts; return the counts by package."""
    packages: dict[str, dict[str, int]] = {}
    for one in sample:
        counts = packages.setdefault(package_of(one.module), dict.fromkeys(KINDS, 0))
        counts["drawn"] += 1
        if one.name in same:
            counts["equivalent"] += 1
            continue
        line = results.of(one)
        counts[line["status"] if line else "none"] += 1
        if line and line["status"] == "survived":
            before, _, after = one.change.partition(" -> ")
            short = f" ({line['left']} of {line['of']} not run, for time)" if line["left"] else ""
            print(f"survived: {one.module}:{one.line} in {one.function} [{one.kind}]{short}\n  - {before}\n  + {after}")
    for name, counts in packages.items():
        judged = counts["drawn"] - counts["equivalent"] - counts["none"]
        share = f", {(counts['killed'] + counts['time']) / judged:.1%} killed" if judged else ""
        print(f"{name}: {', '.join(f'{number} {kind}' for kind, number in counts.items())}{share}")
    return packages


def package_of(module: str) -> str:
    """Name of the package of a module; of a module at the top, "jaxdpbo"."""
    parts = module.split("/")
    return parts[1] if len(parts) > 2 else parts[0]


def environment(writing: float) -> None:
    """Set before JAX is imported: one cache for all, what is compiled compiled cheaply."""
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "mutants" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(writing),
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",
        **UNOPTIMISED,
        "OPENBLAS_NUM_THREADS": "1",
    }


def _tail(slot: Slot) -> str:
    return "\n".join((slot.place / "log").read_text(errors="replace").splitlines()[-25:])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=COUNT)
    parser.add_argument("--map", nargs="*", metavar="FILE", help="measure which tests enter which functions")
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument("--only", default="", help="mutants whose module or function holds this")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--out", type=Path, default=KEPT / "mutants.jsonl")
    given = parser.parse_args(arguments)
    if given.count < 1:
        parser.error(f"count must be at least 1, got {given.count}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no child is left behind
    if given.map is not None:
        environment(0.0)
        session.preload(ROOT)
        with tempfile.TemporaryDirectory(prefix="mutants-") as place:
            measure(given.map or files_of_tests(ROOT), copies(given.workers, Path(place)), KEPT / "map.json")
        return 0

    everything = list(mutations.scope(ROOT))
    sources = {module: (ROOT / module).read_bytes() for module in {one.module for one in everything}}
    same = equivalents(EQUIVALENTS)
    for name in same.keys() - {one.name for one in everything}:
        print("equivalents.json has a mutant that is none:", *name)
    within = [one for one in everything if given.only in f"{one.module}::{one.function}"]
    sample = mutations.sample(within, given.count, given.seed, lambda one: mutations.sound(one, sources[one.module]))
    if given.list:
        for one in sample:
            print(f"{one.module}:{one.line} {one.function} [{one.kind}] {one.change}")
        return 0
    environment(0.3)  # a mutant's own programs are seldom wanted again
    session.preload(ROOT)
    results = Results(given.out, tree_hash())
    known = Map.read(KEPT / "map.json")
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        slots = copies(given.workers, Path(place))
        judge_all([one for one in sample if one.name not in same], given.again, known, results, slots)
    packages = report(sample, same, results)
    if given.count >= COUNT and not given.only and not any(counts["none"] for counts in packages.values()):
        command = f"scripts/test --mutants {given.count} --seed {given.seed}"
        evidence.record_mutants(packages, command, **evidence.today())
    return 0


if __name__ == "__main__":
    sys.exit(main())
