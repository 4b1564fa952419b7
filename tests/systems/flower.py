"""Silos that Flower connects, run by ``test_flower.py`` in an environment with Flower: nodes relay, silos decide."""

import contextlib
import doctest
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from jaxdpbo import dp_gibo, ledger, silos
from jaxdpbo.integrations import flower
from jaxdpbo.integrations.flower import apps
from jaxdpbo.silos import conversation
from jaxdpbo.silos import silo as _silo

ROOT = Path(__file__).parent.parent.parent
APP = ROOT / "docs" / "tutorials" / "hospitals"
X = np.random.default_rng(0).normal(1.5, 0.5, (210, 2))
NAMES = ["Basel", "Bern", "Chur", "Geneva", "Zug"]


TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 9  # as in the process of a server's app


def loss(point, batch):
    return jnp.minimum(jnp.abs(batch["x"] - point[0]) + jnp.abs(batch["y"] - point[1]), 4.0)


@pytest.mark.parametrize("function", [flower.client_app, flower.run_on_grid])
def test_an_example_does_as_it_says(function):
    said = []
    for test in doctest.DocTestFinder().find(function, function.__name__, globs={}):
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append)
    assert "".join(said) == ""


class Clock:
    """The server's time: passes only where the server waits, so no test depends on the machine's speed."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(conversation, "time", made)
    return made


class Federation:
    """Silos behind sockets in this process, with nodes that reach them by the shipped client app."""

    def __init__(self, folder, names="ABC", *, missing=0, **terms):
        self.folder, self.parts = folder, dict(zip(names, np.array_split(X, len(names)), strict=True))
        cards = [silos.create_identity(folder / name, name, users=len(part)) for name, part in self.parts.items()]
        config = dp_gibo.config(
            users=210, steps=3, mu=1.0, clip_norm=1.0, memory="none", bounds={"low": [0, 0], "high": [3, 3]}
        )
        roster = silos.make_roster(cards, missing=missing)
        self.agreement = silos.agree("march", dp_gibo.algorithm, config, roster, **terms)
        self.nodes = {number: self.serve(name) for number, name in enumerate(names, 1)}

    def serve(self, name, objective=loss):
        folder, (x, y) = self.folder / name, self.parts[name].T
        if not (folder / "book").exists():
            ledger.create(folder / "book", mu=9)
        silo = silos.Silo(self.agreement, objective, {"x": x, "y": y}, name=name, folder=folder, ledger=folder / "book")
        if objective is loss:  # compile before anybody waits
            _silo._draw_noise(jax.random.key(0), self.agreement.share_widths)
        path = folder / f"socket{len(list(folder.glob('socket*')))}"
        threading.Thread(target=quietly, args=(silo, path), daemon=True).start()
        while not path.exists():
            time.sleep(0.01)
        return Context(1, 1, {"silo": str(path)}, RecordDict(), {})

    def answers(self, name):
        return (self.folder / name / "book").read_text().count('"attempt"')


def quietly(silo, path):
    with contextlib.suppress(ZeroDivisionError):
        silos.serve_silo(silo, path)


class Grid:
    """What the server uses of Flower's grid, with Flower's own messages; a lost message takes the whole wait."""

    def __init__(self, federation, lost=lambda node, count: False):
        self.nodes, self.lost, self.count, self.app = federation.nodes, lost, 0, flower.client_app()
        self.asked, self.liars = [], {}

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):
        assert timeout > 0
        self.count += 1
        for message in messages:
            node = message.metadata.dst_node_id
            self.asked.append((self.count, node))
            message.metadata.__dict__["_message_id"] = "1"
            if self.lost(node, self.count):
                conversation.time.sleep(timeout)
                continue
            if node in self.liars:
                yield Message(apps._wrap(self.liars[node](message)), reply_to=message)
                continue
            try:
                yield self.app(message, self.nodes[node])
            except OSError:  # as a node replies if its app raises
                yield Message(Error(code=1), reply_to=message)


def test_a_run_over_a_grid_adds_up_all_users_whoever_holds_them(tmp_path, monkeypatch):
    """Without noise, three silos and two give the same sums and the same answer, bit for bit."""
    monkeypatch.setattr(_silo, "_draw_noise", lambda key, widths: np.zeros(sum(count for count, _ in widths), np.int64))
    federation = Federation(tmp_path / "grid")
    record = tmp_path / "grid.jsonl"
    run = flower.run_on_grid(federation.agreement, Grid(federation), record=record)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    other = Federation(tmp_path / "other", "AB")
    seeded = lines[0] | {"terms": other.agreement.digest.hex()}
    (tmp_path / "other.jsonl").write_text(json.dumps(seeded) + "\n")
    again = flower.run_on_grid(other.agreement, Grid(other), record=tmp_path / "other.jsonl")
    np.testing.assert_array_equal(run.release.point, again.release.point)
    totals = [[line["total"] for line in map(json.loads, path.read_text().splitlines()) if "total" in line]
              for path in (record, tmp_path / "other.jsonl")]  # fmt: skip
    assert totals[0] == totals[1]
    assert len(totals[0]) == 3
    assert run.attempts == 3


def test_a_node_that_is_lost_in_a_round_is_left_out_and_comes_back(tmp_path):
    """Flower still lists the node for a while after the node is gone."""
    federation = Federation(tmp_path, "ABCD", missing=1, answers=5)
    node = federation.nodes[3]

    def lose(number, count):
        if count == 5:  # the round of the second step
            federation.nodes[3] = node
        elif count == 4:
            federation.nodes.pop(3, None)
        return number == 3 and count in (2, 3)  # the first answer, and the question for the key

    run = flower.run_on_grid(federation.agreement, Grid(federation, lose))
    assert run.attempts == 4
    assert [federation.answers(name) for name in "ABD"] == [4, 4, 4]
    assert federation.answers("C") == 1  # in the third step


def test_a_run_begins_once_all_nodes_are_there_and_charges_nobody_before(tmp_path, clock):
    federation = Federation(tmp_path, "ABC", missing=1)
    late = federation.nodes.pop(3)
    with pytest.raises(silos.SiloError, match=r"^not there before the first sum: C; no silo is charged"):
        flower.run_on_grid(federation.agreement, Grid(federation), patience=100.0)
    assert [federation.answers(name) for name in "ABC"] == [0, 0, 0]
    assert not any("charge" in (tmp_path / name / "book").read_text() for name in "ABC")
    grid = Grid(federation)
    nodes = grid.get_node_ids

    def appear():
        if clock.seconds > 150.0:
            federation.nodes[3] = late
        return nodes()

    grid.get_node_ids = appear
    flower.run_on_grid(federation.agreement, grid)
    assert [federation.answers(name) for name in "ABC"] == [3, 3, 3]


def test_a_silo_that_was_restarted_behind_its_node_goes_on(tmp_path):
    federation = Federation(tmp_path, "ABC", answers=5)
    grid = Grid(federation)

    def restart(node, count):
        if (node, count) == (2, 3):  # in the round of the second step
            federation.nodes[2] = federation.serve("B")
            return True
        return False

    grid.lost = restart
    run = flower.run_on_grid(federation.agreement, grid)
    assert run.attempts == 4
    assert [federation.answers(name) for name in "ABC"] == [4, 3, 4]


def test_a_node_with_a_key_of_its_own_speaks_for_no_silo(tmp_path):
    federation, stranger = Federation(tmp_path / "1", "ABC", missing=1), Federation(tmp_path / "2", "ABC", missing=1)
    federation.nodes[3] = stranger.nodes[3]
    with pytest.raises(silos.SiloError, match=f"first sum: C; .*; C: {silos.SENTENCES['terms']}$"):
        flower.run_on_grid(federation.agreement, Grid(federation), patience=100.0)
    assert [federation.answers(name) for name in "ABC"] == [0, 0, 0]
    assert stranger.answers("C") == 0


@pytest.mark.parametrize("kind", ["a card", "garbage", "an answer of another length", "ANSI"])
def test_a_node_that_answers_nonsense_is_asked_once(kind, tmp_path):
    """Its nonsense costs the others one answer, and the search goes on without it."""
    federation, said = Federation(tmp_path, "ABCD", missing=1, answers=5), []
    path = federation.nodes[3].node_config["silo"]
    card = silos.forward(path, b"credential")

    def lie(message):
        if not said.append(kind) and len(said) == 1:
            return silos.forward(path, apps._content(message))
        nonsense = {"a card": card, "garbage": b"", "an answer of another length": b"A" + bytes(8), "ANSI": b"R\x1b[2J"}
        return nonsense[kind]

    grid = Grid(federation)
    grid.liars[3] = lie
    run = flower.run_on_grid(federation.agreement, grid)
    assert run.attempts == 4
    assert [federation.answers(name) for name in "ABCD"] == [4, 4, 0, 4]
    assert len(said) == 2


def test_a_node_that_shows_the_key_of_another_silo_takes_no_place_of_a_node_that_is_there(tmp_path):
    federation = Federation(tmp_path, "ABC")
    card = silos.forward(federation.nodes[2].node_config["silo"], b"credential")
    federation.nodes[9] = federation.nodes[1]
    grid = Grid(federation)
    grid.liars[9] = lambda message: card
    run = flower.run_on_grid(federation.agreement, grid)
    assert run.attempts == 3
    assert [federation.answers(name) for name in "ABC"] == [3, 3, 3]


def test_a_node_that_never_replies_costs_one_wait(tmp_path):
    federation = Federation(tmp_path, "ABC")
    federation.nodes[9] = federation.nodes[1]
    grid = Grid(federation, lost=lambda node, count: node == 9)
    flower.run_on_grid(federation.agreement, grid)
    assert [node for _, node in grid.asked].count(9) == 1


def test_a_wait_that_flower_cannot_keep_is_refused():
    with pytest.raises(ValueError, match="wait must be 10 seconds or more, got 3"):
        flower.run_on_grid(None, None, wait=3.0)


def test_a_silo_that_failed_is_asked_no_more_and_named(tmp_path):
    federation = Federation(tmp_path, "ABC", answers=9)

    def failing(point, batch):
        if np.any(np.asarray(batch["x"])):  # not of the zeros that a silo calls it on first
            raise ZeroDivisionError("Ann Smith")
        return np.asarray(batch["x"])

    federation.nodes[2] = federation.serve("B", failing)
    grid = Grid(federation)
    with pytest.raises(silos.SiloError, match=r"2 silos answer.*; B: this silo stopped$") as caught:
        flower.run_on_grid(federation.agreement, grid)
    assert "Ann" not in str(caught.value)
    assert [node for _, node in grid.asked].count(2) == 2  # for its key, and for one sum


def test_other_messages_of_flower_are_no_requests(tmp_path):
    federation = Federation(tmp_path, "AB")
    for content in (RecordDict(), RecordDict({apps.RECORD: apps._wrap(b"{}")[apps.RECORD]})):
        message = Message(content, 1, "query")
        message.metadata.__dict__["_message_id"] = "1"
        reply = flower.client_app()(message, federation.nodes[1])
        assert apps._content(reply).startswith(b"Rgarbage")
    assert federation.answers("A") == 0


# -- Processes: a SuperLink, five SuperNodes, five hospitals -----------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """Started in groups of their own, and killed at the end."""

    def __init__(self, folder):
        self.folder, self.running, self.bin = folder, {}, Path(sys.executable).parent
        self.environment = os.environ | {
            "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(folder), "FLWR_HOME": str(folder / ".flwr"),
            "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
            "XLA_FLAGS": "--xla_cpu_parallel_codegen_split_count=1",
        }  # fmt: skip

    def start(self, name, *command, cwd=None):
        log = (self.folder / f"{name}.log").open("ab")
        self.running[name] = subprocess.Popen(
            list(map(str, command)), cwd=cwd or self.folder, env=self.environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        return self.running[name]

    def kill(self, name):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.running.pop(name).pid, signal.SIGKILL)

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def processes(tmp_path):
    made = Processes(tmp_path)
    yield made
    for name in list(made.running):
        made.kill(name)


def wait_for(condition, processes, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(processes.logs())
        time.sleep(0.2)


def kill_server(port):
    """The process of the server's app, which the SuperLink at this port started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes()
            if b"flwr-serverapp" in command and str(port).encode() in command:
                os.kill(int(path.parent.name), signal.SIGKILL)


def start_hospital(processes, name):
    folder = processes.folder / name
    processes.start(
        f"{name}.silo", sys.executable, "-m", "jaxdpbo", "silo", "run", processes.folder / "agreement.json",
        "--name", name, "--folder", folder, "--data", folder / "patients.csv", "--loss", "depot:distance",
        "--ledger", folder / "budget.jsonl", "--socket", folder / "silo.socket", cwd=processes.folder / "app",
    )  # fmt: skip


def test_five_hospitals_on_five_nodes_go_on_after_a_hospital_and_the_server_were_killed(processes):
    """The app of the tutorial, on nodes of one host. One node is late, and nobody is charged before it is there. After
    the first sum a hospital and the server are killed, and started again.
    """
    folder, port = processes.folder, free_port()
    shutil.copytree(APP, folder / "app")
    terms = folder / "app" / "march.toml"
    terms.write_text(terms.read_text().replace("steps = 3", "steps = 2"))  # a message starts a process, in each node
    (folder / ".flwr").mkdir()
    (folder / ".flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    processes.start(
        "superlink", processes.bin / "flower-superlink", "--insecure", "--port", port,
        "--disable-runtime-dependency-installation",
    )  # fmt: skip
    cards = [silos.create_identity(folder / name, name, users=100) for name in NAMES]
    silos.make_roster(cards, missing=1).save(folder / "roster.json")
    agree = [sys.executable, "-m", "jaxdpbo", "silo", "agree", terms]
    subprocess.run(agree, cwd=folder, env=processes.environment, check=True, capture_output=True)
    for seed, name in enumerate(NAMES):
        rows = np.random.default_rng(seed).normal([3.0, 1.5], 1.0, (100, 2))
        np.savetxt(folder / name / "patients.csv", rows, delimiter=",", header="east,north", comments="")
        ledger.create(folder / name / "budget.jsonl", mu=3)
        start_hospital(processes, name)
    wait_for(lambda: all((folder / name / "silo.socket").exists() for name in NAMES), processes)

    def start_node(name):
        processes.start(
            f"{name}.node", processes.bin / "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}",
            "--port", free_port(), "--node-config", f'silo="{folder / name / "silo.socket"}"',
        )  # fmt: skip

    for name in NAMES[:-1]:
        start_node(name)

    def sums():
        record = folder / "sums.jsonl"
        return record.read_text().count('"total"') if record.exists() else 0

    def submit():
        files = {"agreement": "agreement.json", "sums": "sums.jsonl", "answer": "answer.json", "report": "record.html"}
        settings = {name: folder / file for name, file in files.items()}
        text = " ".join(f'{name}="{path}"' for name, path in settings.items())
        done = subprocess.run(
            [processes.bin / "flwr", "run", "app", "here", "--run-config", f"{text} wait=120.0"],
            cwd=folder, env=processes.environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr + processes.logs()

    submit()
    four = [folder / f"{name}.silo.log" for name in NAMES[:-1]]
    wait_for(lambda: all("a question for the key" in log.read_text() for log in four), processes)
    assert not any("charge: " in log.read_text() for log in four)
    assert not sums()
    start_node(NAMES[-1])
    wait_for(sums, processes)
    processes.kill("Chur.silo")
    start_hospital(processes, "Chur")
    kill_server(port)
    submit()
    wait_for(lambda: (folder / "record.json").exists(), processes)

    lines = [json.loads(line) for line in (folder / "sums.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "total" in line] == [0, 1]
    made = json.loads((folder / "record.json").read_text())
    assert made["details"]["run"] == "march"
    answer = json.loads((folder / "answer.json").read_text())
    assert {name: 0 <= value <= 10 for name, value in answer["point"].items()} == {"east": True, "north": True}
    for name in NAMES:
        said = [json.loads(line)["content"] for line in (folder / name / "budget.jsonl").read_text().splitlines()]
        steps = [each["content"] for each in said if each.get("kind") == "step"]
        answers = [(each["step"], each["attempt"]) for each in steps if "attempt" in each]
        assert 2 <= len(answers) == len(set(answers)) <= 5
