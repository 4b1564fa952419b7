"""Five hospitals and a server by the commands of the tutorial: one comes late, one is killed, one is newer."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from jaxdpbo import ledger

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "tutorials" / "silos.md"
FILES = ROOT / "docs" / "tutorials" / "hospitals"
NAMES = ["Basel", "Bern", "Chur", "Geneva", "Zug"]
USERS = 60
NEWER = "import jaxdpbo; jaxdpbo.__version__ = '0.1.1'; import runpy; runpy.run_module('jaxdpbo', run_name='__main__')"
LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} "
    r"((sent|received): silo \w+, (no step|step \d+), [^,]+, \d+ bytes|(wait|charge|scan|resume|retry|release): .*)"
)


def of_page(start):
    """The command of the tutorial that begins so, in words."""
    text = re.sub(r"\\\n\s*", "", PAGE.read_text())
    fences = re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for language, fence in fences if not language for line in fence.splitlines()]
    (line,) = [line for line in lines if line.startswith(start)]
    return shlex.split(line)


class Machines:
    """A folder for each hospital and for the server, and their processes."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}
        self.environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "JAX_ENABLE_X64": "1"}

    def words(self, command, name="Bern"):
        """A command of the page, for a hospital, with the paths of this test."""
        found = [word.replace("Bern", name) for word in of_page(command)]
        found = [word.replace("/srv/hospital", str(self.folder / name)) for word in found]
        found = [word.replace("/run/silos", str(self.folder / "sockets")) for word in found]
        return [str(USERS) if word == "2000" else word for word in found][1:]

    def run(self, *words, fails=False):
        done = subprocess.run(
            [sys.executable, "-m", "jaxdpbo", *words], cwd=self.folder, env=self.environment, capture_output=True,
            text=True,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout

    def start(self, log, words, newer=False):
        command = ["-c", NEWER] if newer else ["-m", "jaxdpbo"]
        with (self.folder / f"{log}.out").open("ab") as out, (self.folder / f"{log}.err").open("ab") as err:
            self.running[log] = subprocess.Popen(
                [sys.executable, *command, *words], cwd=self.folder, env=self.environment, stdout=out, stderr=err
            )

    def hospital(self, name, newer=False):
        self.start(name, self.words("jaxdpbo silo run", name), newer)

    def kill(self, log):
        process = self.running.pop(log)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def text(self, log, end="err"):
        return (self.folder / f"{log}.{end}").read_text()

    def wait_for(self, condition, seconds=180):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail("\n".join(path.read_text()[-1500:] for path in sorted(self.folder.glob("*.err"))))
            time.sleep(0.05)

    def prepare(self, rows):
        """Keys, ledgers, roster and agreement, by the commands of the page."""
        (self.folder / "sockets").mkdir()
        for file in ("march.toml", "depot.py"):
            shutil.copy(FILES / file, self.folder)
        for name in NAMES:
            self.run(*self.words("jaxdpbo silo init", name))
            self.run(*self.words("jaxdpbo ledger create", name))
            header, patients = "east,north", self.folder / name / "patients.csv"
            np.savetxt(patients, rows[name], delimiter=",", header=header, comments="")
            shutil.copy(self.folder / name / f"{name}.card.json", self.folder)
        self.run(*self.words("jaxdpbo silo roster"))
        return self.run(*self.words("jaxdpbo silo agree"))


@pytest.fixture
def machines(tmp_path):
    made = []

    def make(name):
        (tmp_path / name).mkdir()
        made.append(Machines(tmp_path / name))
        return made[-1]

    yield make
    for each in made:
        for log in list(each.running):
            with contextlib.suppress(OSError):
                each.kill(log)


def search(machines, rows):
    """A run in which Zug is late, Geneva has a newer version, and Chur is killed and started again."""
    terms = machines.prepare(rows)
    machines.start("server", [*machines.words("jaxdpbo silo serve"), "--wait", "120"])
    for name in NAMES[:-1]:
        machines.hospital(name, newer=name == "Geneva")
    machines.wait_for(lambda: "missing: Zug;" in machines.text("server", "out"))
    status = json.loads(machines.run(*machines.words("jaxdpbo silo status")))
    machines.run(*machines.words("jaxdpbo silo health"), fails=True)
    charged = [name for name in NAMES if ledger.account(machines.folder / name / "budget.jsonl").spends]
    machines.hospital("Zug")
    machines.wait_for(lambda: "sent: silo Chur, step 1, an answer" in machines.text("Chur"))
    machines.kill("Chur")  # between two sums or in one: then it answers nothing more, and the others go on
    machines.hospital("Chur")
    machines.wait_for(lambda: machines.running["server"].poll() is not None)
    return terms, status, charged


def test_five_hospitals_find_a_point_one_late_one_killed_one_newer(machines):
    rng = np.random.default_rng(0)
    rows = {name: rng.normal([3.0, 1.5], 0.5, (USERS, 2)) for name in NAMES}
    there = machines("one")
    terms, status, charged = search(there, rows)
    assert there.running["server"].returncode == 0, there.text("server")
    assert "hash of all terms" in terms
    assert (status["state"], status["missing"], status["healthy"]) == ("waiting", ["Zug"], False)
    assert charged == []  # four were there
    answer = json.loads((there.folder / "march" / "answer.json").read_text())
    assert set(answer["point"]) == {"east", "north"}
    record = json.loads((there.folder / "march" / "record.json").read_text())
    assert record["details"]["run"] == "march"
    for name in NAMES:
        book = ledger.account(there.folder / name / "budget.jsonl")
        assert len(book.spends) == 1
        said = [json.loads(line)["content"] for line in (there.folder / name / "budget.jsonl").read_text().splitlines()]
        steps = [each["content"] for each in said if each.get("kind") == "step"]
        answers = [(each["step"], each["attempt"]) for each in steps if "attempt" in each]
        assert len(answers) == len(set(answers)) <= 5
        texts = [LINE.fullmatch(line) for line in there.text(name).splitlines()]
        assert all(texts), there.text(name)
    assert all(LINE.fullmatch(line) for line in there.text("server").splitlines()), there.text("server")
    printed = there.text("Geneva", "out") + there.text("server", "out")
    assert "released, step 3 of 3" in printed
    numbers = {f"{number:.6g}"[:6] for table in rows.values() for row in table for number in row}
    everything = "".join(there.text(log) + there.text(log, "out").split("wrote ")[0] for log in [*NAMES, "server"])
    assert not any(number in everything for number in numbers if len(number) == 6 and number != "0.1.99")
