"""One pytest run in a process forked for it: before the fork Python has imported what tests import, JAX no backend yet.

A fork copies one thread only, so nothing that was imported may have started another (``preload`` checks). The fork
imports the package and the tests afresh, from a copy of the tree in which one file may be changed.
"""

import ast
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

LOCAL = ("jaxdpbo", "benchmarks", "tests")
NEEDED = ("jax", "numpy", "optax", "scipy", "pytest", "hypothesis")
UNIMPORTABLE = -1  # the status of a run whose package cannot be imported
LARGEST = 2**30  # bytes of a file that a mutant may write


def preload(root: Path) -> None:
    """Import what the tests and the package import from elsewhere."""
    own = {path.stem for path in (root / "tests").iterdir()} | set(LOCAL)
    names = {*NEEDED, "_pytest.assertion.rewrite", "_hypothesis_pytestplugin", "jax.experimental", "jax.monitoring"}
    for path in (one for folder in ("jaxdpbo", "tests", "benchmarks/tests") for one in (root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    for name in sorted(names):
        if name.split(".")[0] not in own:
            try:
                importlib.import_module(name)
            except ImportError:
                if name in NEEDED:
                    raise  # else every mutant would die of it
    threads = Path("/proc/self/task")
    if threads.exists() and len(list(threads.iterdir())) > 1:
        raise RuntimeError("an import started a thread: a fork would lose it")


def fork(root: Path, log: Path, answer: Path, work, **options) -> int:
    """Run ``work(root, **options)`` in a process group of its own; its JSON goes to ``answer``; the child's id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        written = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        null = os.open(os.devnull, os.O_RDONLY)
        for given, place in ((null, 0), (written, 1), (written, 2)):
            os.dup2(given, place)
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, most))
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # rather than what runs beside it
        os.chdir(root)
        sys.path[:] = [str(root), str(root / "tests"), *(one for one in sys.path if not _holds_the_package(one))]
        os.environ["PYTHONPATH"] = str(root)
        answer.write_text(json.dumps(work(root, **options)))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _holds_the_package(place: str) -> bool:
    return (Path(place or ".") / "jaxdpbo").exists() or (Path(place or ".") / "mutants").exists()


def _pytest(root: Path, files: list[str], plugin: object, *options: str) -> int:
    import jaxdpbo

    assert Path(jaxdpbo.__file__).is_relative_to(root), "the package under test is another one"
    import pytest

    quiet = ("-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=short", *options)
    return int(pytest.main([*quiet, *files], plugins=[plugin]))


class Chosen:
    """Runs the tests it is given, in that order, until ``seconds`` are over; says what failed."""

    def __init__(self, tests: list[str], seconds: float):
        self.place = {test: place for place, test in enumerate(tests)}
        self.files = [test for test in tests if "::" not in test]  # whole ones
        self.seconds, self.begun = seconds, time.monotonic()
        self.ran, self.left, self.red = [], 0, []

    def pytest_collection_modifyitems(self, items):
        def place(item):
            return self.place.get(item.nodeid, self.place.get(item.nodeid.partition("::")[0], -1))

        items[:] = sorted((item for item in items if place(item) >= 0), key=place)

    def pytest_collectreport(self, report):
        if report.failed:
            self.red.append(report.nodeid)

    def pytest_runtest_logreport(self, report):
        if report.failed and report.nodeid not in self.red:
            self.red.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid):
        self.ran.append(nodeid)

    def pytest_runtest_protocol(self, item, nextitem):
        if time.monotonic() - self.begun > self.seconds:
            self.left += 1
            return True  # done: not run
        return None


def judge(root: Path, tests: list[str], seconds: float, first: bool = True) -> dict:
    """Run ``tests`` (node ids or whole files), up to the first red one if ``first``."""
    plugin = Chosen(tests, seconds)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    try:
        status = _pytest(root, files, plugin, *(["-x"] if first else []))
    except Exception as error:  # the package itself cannot be imported
        traceback.print_exc()
        return {"red": [f"import: {type(error).__name__}"], "ran": [], "left": 0, "status": UNIMPORTABLE}
    return {"red": plugin.red, "ran": plugin.ran, "left": plugin.left, "status": status}


class _Marking(importlib.abc.MetaPathFinder):
    """Imports the package's modules with a mark at the start of each function."""

    def __init__(self, root: Path, marks: set[str]):
        self.root, self.marks = root, marks

    def find_spec(self, fullname, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname.startswith("jaxdpbo") else None
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Marked(
                fullname, spec.origin, Path(spec.origin).relative_to(self.root).as_posix(), self.marks
            )
        return spec


class _Marked(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, module: str, marks: set[str]):
        super().__init__(name, path)
        self.module, self.marks = module, marks

    def get_code(self, fullname):  # no bytecode is read or written
        tree = ast.parse(self.get_data(self.path))
        self._mark(tree, "")
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module):
        module.__dict__["__mark__"] = self.marks.add
        super().exec_module(module)

    def _mark(self, node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{outer}{child.name}."
            self._mark(child, inner)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                call = ast.parse(f"__mark__({self.module + '::' + inner[:-1]!r})").body[0]
                place = 1 if ast.get_docstring(child, clean=False) is not None and len(child.body) > 1 else 0
                for part in ast.walk(call):
                    if hasattr(part, "lineno"):
                        ast.copy_location(part, child.body[place])
                child.body.insert(place, call)


class Recorder:
    """For each test: whether it passed, its seconds without XLA's compilation, and the package's functions it entered.

    What JAX has traced it does not trace again, so its caches and the package's are emptied before each test function.
    What a fixture of a wider scope enters counts for every test that uses it, what importing the file enters for all.
    """

    def __init__(self, marks: set[str]):
        import jax.monitoring

        self.marks, self.tests, self.fixtures = marks, {}, {}
        self.imported: set[str] = set()
        self.compiled, self.before = 0.0, None
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            self.compiled += duration - 0.003  # what a compiled program takes to load

    def pytest_collection_finish(self):
        self.imported = set(self.marks)
        self.marks.clear()

    def pytest_runtest_protocol(self, item, nextitem):
        import jax

        if self.before != item.nodeid.partition("[")[0]:
            self.before = item.nodeid.partition("[")[0]
            jax.clear_caches()
            for name, module in list(sys.modules.items()):
                if name.split(".")[0] == "jaxdpbo":
                    for value in vars(module).values():
                        if isinstance(value, functools._lru_cache_wrapper):
                            value.cache_clear()
        self.marks.clear()
        self.begun, self.compiled = time.monotonic(), 0.0
        self.tests[item.nodeid] = {"green": True}

    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed":
            self.tests[report.nodeid]["green"] = False

    def pytest_runtest_teardown(self, item, nextitem):
        found = set(self.marks)
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for one in definitions:
                found |= self.fixtures.get(id(one), set())
        taken = max(0.0, time.monotonic() - self.begun - self.compiled)
        self.tests[item.nodeid] |= {"seconds": round(taken, 3), "functions": sorted(found | self.imported)}


def _around_wide_fixtures(recorder: Recorder):
    import pytest

    class Around:
        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef, request):
            if fixturedef.scope == "function":
                return (yield)
            kept, held = set(recorder.marks), recorder.marks
            held.clear()
            try:
                return (yield)
            finally:
                recorder.fixtures[id(fixturedef)] = set(held)
                held |= kept

    return Around()


def record(root: Path, file: str) -> dict:
    """What the tests of one file enter: test -> green, seconds, functions."""
    import pytest

    marks: set[str] = set()
    sys.meta_path.insert(0, _Marking(root, marks))
    recorder = Recorder(marks)
    import jaxdpbo

    assert Path(jaxdpbo.__file__).is_relative_to(root), "the package under test is another one"
    quiet = ("-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=short")
    status = int(pytest.main([*quiet, file], plugins=[recorder, _around_wide_fixtures(recorder)]))
    return {"status": status, "tests": {name: one for name, one in recorder.tests.items() if "functions" in one}}
