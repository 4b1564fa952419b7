"""What a long run says of itself: a bar or a line for each scan on a terminal, and log records for its events."""

import io
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from training_cases import Trivial

from jaxdpbo import (
    PrivateObjective,
    Recording,
    dp_gibo,
    drivers,
    ledger,
    logs,
    notes,
    tables,
    terminal,
    transforms,
    tuning,
)
from jaxdpbo.drivers import progress

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jaxdpbo"
SEEDED = {"key": jax.random.key(0), "insecure_key": True}
SECRET = 0.987654321
USERS = 40


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def heard(caplog):
    """The texts of all records so far, without folders."""
    caplog.set_level(logging.DEBUG, "jaxdpbo")

    def texts():
        assert {(record.name, record.levelname) for record in caplog.records} <= {("jaxdpbo", "INFO")}
        found = [re.sub(r"/\S*/", "", record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return texts


def book(folder):
    path = folder / "book"
    ledger.create(path, mu=9)
    return path


def config(steps=2):
    return dp_gibo.config(
        users=USERS, steps=steps, batch=2, mu=1.0, bounds=[(0.0, 1.0)], clip_norm=1.0, memory="none", polish_steps=2
    )


def loss(point, data):
    return np.abs(np.asarray(data["x"]) - point[0])


TABLE = tables.arrays({"x": np.full(USERS, SECRET)})


def looped(data=TABLE, objective=loss, **options):
    options = options or {**SEEDED, "traceable": False}
    return drivers.run_loop(dp_gibo.algorithm, objective, data, config(), **options)


# Log records


def test_one_room_writes_all_records():
    writers = [path.name for path in PACKAGE.rglob("*.py") if "import logging" in path.read_text()]
    assert sorted(writers) == ["logs.py", "silence.py"]  # the second switches logging off


def test_nobody_hears_them_until_asked():
    script = """
import logging
from jaxdpbo import logs
logs.released("unheard")
logging.basicConfig(level="INFO")
logs.released("x")
logs.retried("y")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["INFO:jaxdpbo:release: x", "INFO:jaxdpbo:retry: y"]


def test_a_table_search_logs_its_charge_each_scan_and_its_release(heard, tmp_path):
    looped()
    scans = ["scan: step 1 of 2, 40 users", "scan: step 2 of 2, 40 users"]
    assert heard() == [*scans, "release: of 2 steps"]
    path = book(tmp_path)
    for expected in (
        ["charge: book, run 'march': dp_gibo, 2 steps, step by step", *scans, "release: book, run 'march'"],
        ["resume: book, run 'march': released before"],
    ):
        looped(traceable=False, ledger=Recording(path, "march"))
        assert heard() == expected


def test_a_run_that_goes_on_logs_where(heard, tmp_path):
    calls = []

    def failing(point, data):
        calls.append(point)
        if len(calls) == 3:
            raise MemoryError(SECRET)
        return np.abs(data - point[0])

    records, path = np.full(USERS, SECRET), book(tmp_path)
    options = {"ledger": Recording(path, "march")}
    with pytest.raises(drivers.RunInterrupted):
        looped(records, failing, **options)
    assert heard() == ["charge: book, run 'march': dp_gibo, 2 steps, step by step"]
    looped(records, failing, **options)
    assert heard() == ["resume: book, run 'march': charged before, 2 lines", "release: book, run 'march'"]
    calls.clear()
    with pytest.raises(drivers.RunInterrupted) as stopped:
        looped(records, failing, **SEEDED)
    looped(records, failing, **SEEDED, resume=stopped.value.snapshot)
    assert heard() == ["resume: step 2 of 2", "release: of 2 steps"]


def test_a_compiled_run_logs_its_checkpoint(heard, tmp_path, monkeypatch):
    def traced(point, data):
        return jax.numpy.abs(data - point[0])

    options = {"checkpoint": tmp_path / "run.npz", **SEEDED}
    drivers.run_scan(dp_gibo.algorithm, traced, np.zeros(USERS), config(), **options)
    assert heard() == ["release: of 2 steps"]
    from jaxdpbo.drivers import checkpoint

    finish = checkpoint.finish
    monkeypatch.setattr(checkpoint, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        drivers.run_scan(dp_gibo.algorithm, traced, np.zeros(USERS), config(), **options)
    monkeypatch.setattr(checkpoint, "finish", finish)
    drivers.run_scan(dp_gibo.algorithm, traced, np.zeros(USERS), config(), **options)
    assert heard() == ["resume: run.npz: step 1 of 2", "release: of 2 steps"]


def test_an_objective_logs_each_evaluation_paid_for(heard, tmp_path):
    def of_rows(point, data):
        return np.abs(np.asarray(data["x"]) - point)

    options = {"users": USERS, "mu": 1.0, "evaluations": 2, "loss_range": (0.0, 1.0)}
    private = PrivateObjective(of_rows, TABLE, ledger=Recording(book(tmp_path), "bo"), **options)
    private(0.5)
    assert heard() == [
        "charge: book, run 'bo': private evaluations, 2 of one point",
        "scan: step 1 of 2, 40 users",
        "charge: evaluation 1 of 2",
        "release: evaluation 1 of 2",
    ]

    def quoting(point, data):
        logging.getLogger("jaxdpbo").info("the records %s", data["x"])
        raise ValueError(SECRET)

    refused = PrivateObjective(quoting, {"x": np.full(USERS, SECRET)}, **options)
    with pytest.raises(ValueError, match=str(SECRET)):
        refused(0.5)
    assert heard() == ["charge: evaluation 1 of 2"]


def test_rows_are_logged_as_a_release_and_a_selection_as_a_charge_alone(heard, tmp_path):
    """The time between the charge and the release of a selection would tell its hidden number of runs."""
    chosen = transforms.gaussian(centre=[0.0], scale=1.0, epsilon=1.0, delta=1e-5, radius=1.0)
    transforms.curate(None, chosen, [[SECRET], [0.5]])
    assert heard() == ["release: 2 rows by gaussian"]
    path = tmp_path / "book"
    ledger.create(path, notion="dp", level=9, delta=1e-2, protects="training rows")
    rows = np.zeros((20, 1)), np.zeros(20)
    tuning.least_epsilon(
        Trivial(), rows, [0.25, 0.5], error=0.5, epsilons=(1.0, 3.0), delta=1e-3, mean=2.0,
        ledgers={"training rows": Recording(path, "least")},
    )  # fmt: skip
    assert heard() == ["charge: book, run 'least': a search for the least epsilon"]


# Progress on a terminal


class FakeBar:
    """What tqdm would be told."""

    def __init__(self, told, **options):
        self.told, self.n = told, 0
        told.append((options["desc"], options["total"]))

    def update(self, users):
        self.n += users
        self.told.append(users)

    def close(self):
        self.told.append("closed")


def test_a_scan_has_a_bar_that_says_which_step(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    told = []
    monkeypatch.setattr(progress, "_make_tqdm", lambda: lambda **options: FakeBar(told, **options))
    looped()
    assert told == [("step 1 of 2", USERS), USERS, 0, "closed", ("step 2 of 2", USERS), USERS, 0, "closed"]
    told.clear()
    with pytest.raises(drivers.RunInterrupted):
        looped(objective=lambda point, data: 1 / 0, **SEEDED, traceable=False)
    assert told == [("step 1 of 2", USERS), "closed"]


def test_without_tqdm_a_scan_has_a_line_on_a_terminal_and_a_file_has_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    lines = "jaxdpbo: step 1 of 2: reading 40 users\njaxdpbo: step 2 of 2: reading 40 users\n"
    for stream, options, shown in (
        (Terminal(), {}, lines),
        (Terminal(), {"progress": False}, ""),
        (io.StringIO(), {}, ""),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        looped(**SEEDED, traceable=False, **options)
        assert stream.getvalue() == shown


def test_evaluations_on_a_table_show_their_scans_and_take_no_progress_on_arrays(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    monkeypatch.setattr(notes, "_shown", set())

    def of_rows(point, data):
        return np.abs(np.asarray(data["x"]) - point)

    options = {"users": USERS, "mu": 1.0, "evaluations": 2, "loss_range": (0.0, 1.0)}
    PrivateObjective(of_rows, TABLE, **options)(0.5)
    PrivateObjective(of_rows, TABLE, progress=False, **options)(0.5)
    assert shown.getvalue() == "jaxdpbo: step 1 of 2: reading 40 users\n"
    with pytest.raises(ValueError, match="PrivateObjective cannot use progress on arrays"):
        PrivateObjective(of_rows, {"x": np.zeros(USERS)}, progress=True, **options)


ON_A_TERMINAL = """
import sys
{first}
from jaxdpbo.drivers import progress
for scan in range(2):
    with progress.scanning("auto", f"step {{scan + 1}} of 2", 40) as count:
        count(40)
"""


@pytest.mark.daily("80-", "0-sys.modules*")
@pytest.mark.parametrize(("columns", "first"), [(0, ""), (80, ""), (0, "sys.modules['tqdm'] = None")])
def test_a_real_terminal_of_any_width_shows_each_scan(columns, first):
    """Without a width of its own tqdm prints nothing."""
    if columns == 80 or not first:
        pytest.importorskip("tqdm")
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    script = ON_A_TERMINAL.format(first=first)
    subprocess.run([sys.executable, "-c", script], stderr=slave, check=True, cwd=ROOT, env=environment, timeout=120)
    os.close(slave)
    shown = b""
    while b"step 2 of 2" not in shown:
        shown += os.read(master, 4096)
    os.close(master)
    assert b"step 1 of 2" in shown


def test_a_terminal_without_a_file_has_no_width(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert terminal.width() == 0
    assert logs.LOGGER.name == "jaxdpbo"
