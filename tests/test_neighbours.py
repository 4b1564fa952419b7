"""One record is replaced by anything: nothing but the released numbers may follow from it, at any public entry point.

Each data set has a twin, in which odd records are the plain numbers that they count as: what leaves is the same to the
last bit. And beside ordinary records all but the numbers is the same: exceptions, warnings, what file descriptors 1 and
2 get, types, dtypes, shapes, the size of a pickle, files, and how many programs are compiled.
"""

import contextlib
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from neighbour_cases import CSV_POINTS, POINTS, USUAL, Point, told
from odd_records import CELLS, DATES, NAN, SECRET, ZOO, Odd

from jaxdpbo import drivers, notes, silence, user_values

PATTERNS: dict[str, Callable[[int], set[int]]] = {
    "one": lambda count: {count // 2},
    "all": lambda count: set(range(count)),
    "all but one": lambda count: set(range(1, count)),
}


TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + "/[^/ ]*")


class Outcome(NamedTuple):
    """What an observer sees.

    Attributes:
      error: type and message of an exception, "" where none was raised.
      streams: what file descriptors 1 and 2 got.
      logs: level and text of the records of any logger.
      kinds: types, dtypes and shapes of what was released, and all that is no number.
      size: of the pickle.
      files: names, modes and sizes of files that were left in the working directory.
      programs: how many were compiled.
      content: the pickle, in which the numbers are.
    """

    error: str
    streams: tuple[bytes, bytes]
    logs: tuple[str, ...]
    kinds: str
    size: int
    files: tuple[tuple[str, int, int], ...]
    programs: int
    content: bytes


@contextlib.contextmanager
def streams():
    """What the process's descriptors get."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [os.dup(descriptor) for descriptor in (1, 2)]
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        heard: list[bytes] = []
        try:
            with (
                open(1, "w", closefd=False) as stdout,
                open(2, "w", closefd=False) as stderr,
                contextlib.redirect_stdout(stdout),
                contextlib.redirect_stderr(stderr),
            ):
                yield heard
        finally:
            for descriptor, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
            for file in (out, err):
                file.seek(0)
                heard.append(file.read())


class Listener(logging.Handler):
    """Keeps what is logged, but for temporary paths."""

    def __init__(self):
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record):
        self.heard.append(f"{record.levelname} {record.name}: {TEMPORARY.sub('', record.getMessage())}")


@contextlib.contextmanager
def logged():
    """What the library's loggers, and all that pass records on to Python's root, get."""
    listener, ours, root = Listener(), logging.getLogger("jaxdpbo"), logging.getLogger()
    level, propagates = ours.level, ours.propagate
    ours.setLevel(logging.DEBUG)
    root.addHandler(listener)
    try:
        yield listener.heard
    finally:
        root.removeHandler(listener)
        ours.setLevel(level)
        ours.propagate = propagates


@contextlib.contextmanager
def strict():
    """A process in which whatever can raise by a value does: ``-W error``, NumPy's errors, JAX's debug flags."""
    with warnings.catch_warnings(), np.errstate(all="raise"), jax.debug_nans(True), jax.debug_infs(True):
        warnings.simplefilter("error")
        yield


def kind_of(leaf: Any) -> str:
    if isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
        return f"{type(leaf).__name__} {leaf.dtype} {leaf.shape}"
    return type(leaf).__name__ if isinstance(leaf, (int, float)) else repr(leaf)


def outcome(enter: Callable[[list[Any]], Any], records: list[Any], compilations: Any, folder: Path) -> Outcome:
    compilations.clear()
    error, released = "", None
    with streams() as heard, strict(), logged() as logs:
        try:
            released = enter(records)
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised} {getattr(raised, '__notes__', '')}"
    leaves, tree = jax.tree.flatten(released)
    content = pickle.dumps(released)
    files = tuple(sorted((path.name, path.stat().st_mode, path.stat().st_size) for path in folder.iterdir()))
    kinds = f"{tree} {[kind_of(leaf) for leaf in leaves]}"
    return Outcome(error, tuple(heard), tuple(logs), kinds, len(content), files, compilations["programs"], content)


def but_for_numbers(seen: Outcome) -> Outcome:
    return seen._replace(content=b"")


def differences(point: Point, odds: list[Odd], compilations: Any, folder: Path) -> list[str]:
    """What tells neighbours apart."""
    found = []
    for count in point.counts:
        usual = (list(USUAL) * 2)[:count]
        for _ in range(2):  # programs are compiled at the first call
            ordinary = outcome(point.enter, usual, compilations, folder)
        assert ordinary.error == "", ordinary.error
        for odd in odds:
            for name, places in PATTERNS.items():
                bad = places(count)
                seen = outcome(
                    point.enter, [odd.make() if i in bad else usual[i] for i in range(count)], compilations, folder
                )
                if but_for_numbers(seen) != but_for_numbers(ordinary):
                    parts = [
                        f"{part} {here!r:.300} beside {there!r:.300}"
                        for part, here, there in zip(Outcome._fields, seen, ordinary, strict=True)
                        if here != there and part != "content"
                    ]
                    found.append(f"{odd.name} ({name} of {count}): {'; '.join(parts)}")
                elif point.numbers:
                    number = odd.number if point.dates or odd.name not in DATES else NAN
                    twin = [number if i in bad else usual[i] for i in range(count)]
                    if seen.content != outcome(point.enter, twin, compilations, folder).content:
                        found.append(f"{odd.name} ({name} of {count}) does not count as {odd.number}")
                if count == 1:
                    break
    return found


@pytest.mark.parametrize("name", POINTS)
def test_one_record_decides_nothing_but_its_own_number(name, compilations, tmp_path, monkeypatch, trials):
    monkeypatch.chdir(tmp_path)
    some = trials("objects as records of an entry point", 6, len(ZOO), 0)
    first = list(POINTS).index(name)
    odds = [ZOO[(first * 5 + step * len(ZOO) // some) % len(ZOO)] for step in range(some)]
    found = differences(POINTS[name], odds, compilations, tmp_path)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:20])


@pytest.mark.parametrize("name", CSV_POINTS)
def test_one_cell_of_a_file_decides_nothing_but_its_own_number(name, compilations, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = differences(CSV_POINTS[name], CELLS, compilations, tmp_path)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:20])


# Planted defects, three of each kind, that the harness must see


def prints(records):
    if any(isinstance(record, str) for record in records):
        os.write(1, b"text!")


def warns(records):
    if None in records:
        warnings.warn("None", stacklevel=1)


def compiles(records):
    plus_one(jnp.zeros(1 + sum(isinstance(record, str) for record in records)))


@jax.jit
def plus_one(x):
    return x + 1


def writes(records):
    Path("seen").write_bytes(bytes(sum(record is None for record in records)))


def logs(records):
    logging.getLogger("jaxdpbo.planted").info("%d records are text", sum(isinstance(r, str) for r in records))


def typed(records):
    return np.asarray(records).dtype.itemsize


def notes_a_dtype(records):
    return [notes.Note("few-rows", f"the column is of {pandas.Series(records).dtype}")]


def notes_how_many_are_nan(kind):
    def enter(records):
        count = int(np.sum(np.isnan([record if isinstance(record, float) else np.nan for record in records])))
        return told((notes.Note(kind, f"{count} losses are NaN"),))

    return enter


@pytest.mark.parametrize(
    ("plant", "seen"),
    [
        (lambda records: [float(record) for record in records] and None, "error"),
        (lambda records: np.sum(np.array(records)) and None, "error"),
        (lambda records: np.sum(np.exp([r for r in records if isinstance(r, float)])) is None, "error"),
        (prints, "streams"),
        (lambda records: os.write(2, b"!") if any(isinstance(r, str) for r in records) else None, "streams"),
        (lambda records: print("None is here", flush=True) if None in records else None, "streams"),
        (warns, "error"),
        (lambda records: np.asarray(records, dtype=object if None in records else float), "kinds"),
        (lambda records: np.asarray([record for record in records if isinstance(record, float)]), "kinds"),
        (lambda records: np.float32(1) if None in records else np.float64(1), "kinds"),
        (lambda records: str(sum(isinstance(record, str) for record in records)), "kinds"),
        (notes_a_dtype, "kinds"),
        (notes_how_many_are_nan("few-users"), "kinds"),
        (notes_how_many_are_nan("path-like-noise"), "does not count as"),
        (notes_how_many_are_nan("a new kind"), "kinds"),
        (logs, "logs"),
        (lambda records: logging.getLogger("jaxdpbo").debug("a scan") if None in records else None, "logs"),
        (writes, "files"),
        (compiles, "programs"),
        (lambda records: [0.0 if isinstance(r, str) else 1.0 for r in records], "does not count as"),
        (lambda records: [r if isinstance(r, float) else 0.0 for r in records], "does not count as"),
        (lambda records: len(records) - sum(record is None for record in records) * 1.0, "does not count as"),
    ],
)  # fmt: skip
def test_planted_defects_are_seen(plant, seen, compilations, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odds = [odd for odd in ZOO if odd.name in ("none", "text", "inf", "nearly infinite", "one")]

    def planted(records):
        return plant(records)

    found = []
    with contextlib.suppress(AssertionError):
        found = differences(Point(planted, ()), odds, compilations, tmp_path)
    assert any(seen in line for line in found), found


# The door itself


def test_the_door_makes_the_same_numbers_of_every_object():
    for odd in ZOO:
        with streams() as heard, strict():
            of_losses = user_values.to_losses("loss", [0.5, odd.make(), 0.25], (3,), np.float64)
        np.testing.assert_array_equal(of_losses, [0.5, odd.number, 0.25], err_msg=odd.name)
        assert heard == [b"", b""], odd.name


def test_a_fork_beside_a_silent_thread_can_be_silent_too():
    """A lock that another thread held when the process was forked stays locked in the child."""
    inside, leave = threading.Event(), threading.Event()

    def isolated():
        with silence.isolate():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=isolated)
    thread.start()
    inside.wait(60)
    if (child := os.fork()) == 0:
        signal.alarm(30)
        with silence.isolate():
            os._exit(0)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


BUFFERED = """
import os, sys
sys.path[:0] = [{root!r}]
from sys import __stdout__, stderr, stdout
import warnings
from jaxdpbo import silence
heard = []
warnings.showwarning = lambda *said: heard.append(said)
with silence.silence():
    for stream in filter(None, (stdout, stderr, __stdout__)):
        stream.write({secret!r})
    for descriptor in (1, 2):
        try:
            os.write(descriptor, {secret!r}.encode())
        except OSError:
            pass  # closed
    warnings.simplefilter("always")
    warnings.warn({secret!r})
assert not heard
print("after", flush=True)
"""


@pytest.mark.parametrize("closed", ["", ">&-", "2>&-"])
def test_what_python_buffers_of_records_is_not_heard_afterwards(closed, tmp_path):
    """In a process whose streams are buffered, or closed: the next descriptor may then be that of another stream."""
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(BUFFERED.format(root=str(Path(__file__).parent.parent), secret=SECRET))
    shell = f"{sys.executable} {script} {closed}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with out.open("wb") as file:
        subprocess.run(["sh", "-c", shell], stdout=file, stderr=file, env=environment, check=not closed, timeout=120)
    assert SECRET not in out.read_text()
    assert "after" in out.read_text() or closed == ">&-"


def test_a_callback_that_fails_late_is_a_loss_that_failed():
    """JAX's program may run after the function that called it returned; the failure is charged, and not quoted."""

    def fails(value):
        raise ValueError(SECRET)

    def late(point, data):
        return jax.pure_callback(fails, jax.ShapeDtypeStruct((4,), jnp.float32), data)

    private = drivers.PrivateObjective(late, jnp.zeros(4), users=4, mu=1.0, evaluations=2, loss_range=(0.0, 1.0))
    with streams() as heard, pytest.raises(Exception, match=SECRET):
        private(0.5)
    assert private.remaining == 1
    assert heard == [b"", b""]


def test_silence_is_restored_after_threads_and_errors():
    before = os.fstat(1), os.fstat(2), sys.stdout, sys.stderr, list(warnings.filters)
    with pytest.raises(KeyError), silence.silence(), silence.silence():
        raise KeyError(SECRET)
    after = os.fstat(1), os.fstat(2), sys.stdout, sys.stderr, list(warnings.filters)
    assert [stat.st_ino for stat in after[:2]] == [stat.st_ino for stat in before[:2]]
    assert after[2:] == before[2:]
