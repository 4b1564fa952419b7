"""The sockets between curator and modeler: strangers change nothing, the silent and the slow keep nobody waiting."""

import json
import os
import socket
import stat
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice

import numpy as np
import pytest

from jaxdpbo import outsourcing
from jaxdpbo.outsourcing import ProtocolError, secrets, sockets
from jaxdpbo.privacy import transforms

KINDS = ("unix", "tcp")
WAIT = 20.0  # seconds until a test gives up


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def secret(tmp_path):
    return tmp_path / "secret"


@pytest.fixture
def place(tmp_path, request):
    return free_port() if getattr(request, "param", "tcp") == "tcp" else tmp_path / "socket" / "curator"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A test that fails does so before its patience ends."""
    monkeypatch.setattr(sockets, "CONNECT_TIME", WAIT)
    monkeypatch.setattr(sockets, "IDLE_TIME", WAIT)
    monkeypatch.setattr(sockets, "ANSWER_TIME", WAIT)


def reach(place):
    """A connection of somebody, who need not know the secret."""
    if isinstance(place, int):
        return socket.create_connection(("127.0.0.1", place), WAIT)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(WAIT)
    connection.connect(str(place))
    return connection


def heard(connection):
    """All that comes until the connection ends."""
    content = b""
    with suppress(ConnectionError):
        while chunk := connection.recv(2**16):
            content += chunk
    return content


@contextmanager
def curating(place, secret, contact):
    """``contact(session)`` for every modeler, in a thread; gives the list of what it returned."""
    done, ready, results = threading.Event(), threading.Event(), []

    def curate():
        with outsourcing.listen(place, secret) as sessions:
            ready.set()
            for session in sessions:
                try:
                    results.append(contact(session))
                except OSError as error:
                    results.append(error)
                if done.is_set():
                    return

    thread = threading.Thread(target=curate)
    thread.start()
    assert ready.wait(WAIT)
    try:
        yield results
    finally:
        done.set()
        with suppress(ProtocolError), outsourcing.connect(place, secret):  # the last one, so that it looks up
            pass
        thread.join(WAIT)
        assert not thread.is_alive()


def echo(session):
    said = []
    for line in session.lines:
        said.append(line)
        session.send(f"re: {line}")
    return said


def eventually(condition):
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def nobody_waits_at_the_door():
    """Whoever proved who it is has its place."""
    return not any(thread.name.endswith("(_admit)") for thread in threading.enumerate())


def admitted(stack, place, secret):
    """A modeler that has its seat: ``connect`` alone returns a moment before."""
    modeler = stack.enter_context(outsourcing.connect(place, secret))
    eventually(nobody_waits_at_the_door)
    return modeler


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_lines_pass_both_ways_and_modelers_come_one_after_another(place, secret):
    with curating(place, secret, echo) as results:
        for number in range(2):
            with outsourcing.connect(place, secret) as session:
                for line in (f"a{number}", "é" * 1000, ""):
                    session.send(line)
                    assert next(session.lines) == f"re: {line}"
        eventually(lambda: len(results) == 2)
    assert results[:2] == [[f"a{number}", "é" * 1000, ""] for number in range(2)]


def test_a_modeler_finds_a_curator_that_starts_after_it(place, secret):
    late = threading.Timer(0.5, lambda: stack.enter_context(curating(place, secret, echo)))
    with ExitStack() as stack:
        late.start()
        with outsourcing.connect(place, secret) as session:
            session.send("x")
            assert next(session.lines) == "re: x"
        late.join()


def test_the_socket_and_the_secret_are_the_owners_alone(tmp_path):
    place = tmp_path / "socket" / "curator"
    previous = os.umask(0)
    try:
        with curating(place, place.with_name("secret"), echo):
            modes = [stat.S_IMODE(path.lstat().st_mode) for path in (place.parent, place, place.with_name("secret"))]
    finally:
        os.umask(previous)
    assert modes == [0o700, 0o600, 0o600]
    assert len(place.with_name("secret").read_bytes()) == 32
    assert not place.exists()


def test_what_is_open_to_others_is_refused(tmp_path, secret):
    place = tmp_path / "socket" / "curator"
    place.parent.mkdir(mode=0o700)
    place.parent.chmod(0o755)
    for meet in (outsourcing.listen, outsourcing.connect):
        with pytest.raises(ProtocolError, match="socket must be a folder of yours that is closed to others"):
            meet(place, secret).__enter__()
    place.parent.chmod(0o700)
    secret.write_bytes(bytes(32))
    secret.chmod(0o640)
    with pytest.raises(ProtocolError, match="secret must be closed to others"):
        outsourcing.listen(place, secret).__enter__()
    secret.chmod(0o600)
    secret.write_bytes(bytes(31))
    with pytest.raises(ProtocolError, match="secret must be 32 bytes long"):
        outsourcing.listen(place, secret).__enter__()
    with pytest.raises(ProtocolError, match="must be shorter than 100 bytes"):
        outsourcing.listen(place.with_name("c" * 100), secret).__enter__()
    assert list(place.parent.iterdir()) == []


def test_a_socket_that_a_kill_left_is_replaced_and_a_live_one_or_a_file_is_not(tmp_path, secret):
    place = tmp_path / "socket" / "curator"
    place.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with curating(place, secret, echo):
        with pytest.raises(ProtocolError, match="another curator listens at curator"):
            outsourcing.listen(place, secret).__enter__()
        with outsourcing.connect(place, secret) as session:
            session.send("x")
            assert next(session.lines) == "re: x"
    place.write_text("precious")
    with pytest.raises(ProtocolError, match="curator must be a socket or nothing"):
        outsourcing.listen(place, secret).__enter__()
    assert place.read_text() == "precious"


# Strangers


def record_of(tmp_path):
    published = outsourcing.Published(transforms.Curated(np.zeros((8, 2)), None, None), "0" * 64)
    return outsourcing.open_journal(tmp_path / "record.jsonl", published, b"x", 3)


STRANGERS = {
    "an answer": b'{"answer": 0}\n' * 3,
    "a query": b'{"query": 1, "row": 0}\n',
    "nothing": b"\n",
    "not text": b"\xff\xfe\n",
    "two words": b"ab cd\n",
    "another secret": b"%s %s\n" % (b"0" * 64, b"0" * 64),
    "short nonces": b"00 %s\n" % (b"0" * 64),
    "three words": b"0 0 0\n",
    "a line without end": b"0" * 10_000,
}


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_stranger_ends_nothing_and_spends_nothing(tmp_path, place, secret):
    """Before, ``{"answer": 0}`` on the curator's port ended its run, and a query was answered to anybody."""
    evaluated = []

    def contact(session):
        return outsourcing.serve(record, lambda row: evaluated.append(row) or 0.5, session.lines, session.send)

    with record_of(tmp_path) as record, curating(place, secret, contact) as results:
        before = record.path.read_bytes()
        for said in STRANGERS.values():
            with reach(place) as stranger:
                stranger.sendall(said)
                answer = heard(stranger).split(b"\n")
            assert answer[0].startswith(b"jaxdpbo.outsourcing 1 ")
            assert len(answer) == 2
            assert answer[1] == b""
        assert not results
        assert not evaluated
        assert record.path.read_bytes() == before
        with outsourcing.connect(place, secret) as session:
            assert json.loads(next(session.lines))["answers"] == []
            session.send('{"query": 1, "row": 3}')
            assert json.loads(next(session.lines)) == {"query": 1, "row": 3, "output": 0.5}
            session.send('{"answer": 3}')
            assert list(session.lines) == []
        assert results == [3]
        assert evaluated == [3]


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_the_silent_and_the_slow_keep_nobody_waiting_and_are_dropped(place, secret, monkeypatch):
    """Before, one silent connection was served for ever."""
    monkeypatch.setattr(sockets, "HANDSHAKE_TIME", 1.5)
    stop = threading.Event()

    def drip(connection):
        with suppress(OSError):
            while not stop.wait(0.05):
                connection.sendall(b"0")

    with curating(place, secret, echo), ExitStack() as stack:
        silent, slow = (stack.enter_context(reach(place)) for _ in range(2))
        dripping = threading.Thread(target=drip, args=(slow,))
        dripping.start()
        start = time.monotonic()
        with outsourcing.connect(place, secret) as session:
            session.send("x")
            assert next(session.lines) == "re: x"
        assert time.monotonic() - start < 1.4
        for stranger in (silent, slow):
            assert heard(stranger).count(b"\n") == 1
        assert time.monotonic() - start < WAIT
        stop.set()
        dripping.join()


def test_a_flood_is_refused_with_a_sentence_and_passes(place, secret, monkeypatch):
    monkeypatch.setattr(sockets, "HANDSHAKE_TIME", 0.7)
    with curating(place, secret, echo), ExitStack() as stack:
        for _ in range(sockets.MAX_HANDSHAKES):
            stack.enter_context(reach(place))
        with reach(place) as refused:
            assert heard(refused) == b"busy: come again\n"
        with outsourcing.connect(place, secret) as session:  # once the silent ones are dropped
            session.send("x")
            assert next(session.lines) == "re: x"


def test_where_no_thread_can_be_started_one_is_told_and_the_next_is_served(place, secret, monkeypatch):
    honest, refusals = threading.Thread.start, ["cannot start a new thread"]

    def start(thread):
        if refusals and thread.name.endswith("(_admit)"):
            raise RuntimeError(refusals.pop())
        honest(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with curating(place, secret, echo):
        with reach(place) as refused:
            assert heard(refused) == b"busy: come again\n"
        with outsourcing.connect(place, secret) as session:
            session.send("x")
            assert next(session.lines) == "re: x"


def test_one_is_served_one_may_wait_and_others_are_refused_with_a_sentence(place, secret):
    with curating(place, secret, echo) as results:
        with ExitStack() as stack:
            first, second = (admitted(stack, place, secret) for _ in range(2))
            first.send("x")
            assert next(first.lines) == "re: x"
            with outsourcing.connect(place, secret) as third:
                (refusal,) = third.lines
                assert json.loads(refusal) == {"error": "the curator is busy with another modeler: start again later"}
            second.send("y")
            first.send("z")
            assert next(first.lines) == "re: z"
            assert not results
        eventually(lambda: len(results) >= 2)
    assert results[:2] == [["x", "z"], ["y"]]


def test_one_that_nobody_has_begun_to_serve_keeps_only_its_own_seat(place, secret):
    """Before, one that came while the curator had not yet taken the one before it was refused, though none waited."""
    said = []

    def serve(sessions):
        said.extend(next(session.lines) for session in islice(sessions, 2))

    with outsourcing.listen(place, secret) as sessions, ExitStack() as stack:
        first, second = (admitted(stack, place, secret) for _ in range(2))
        with outsourcing.connect(place, secret) as third:
            assert "busy with another modeler" in next(third.lines)
        first.send("x")
        second.send("y")
        threading.Thread(target=serve, args=(sessions,), daemon=True).start()
        eventually(lambda: said == ["x", "y"])


def test_a_modeler_that_is_silent_slow_or_reads_nothing_is_dropped(place, secret, monkeypatch):
    monkeypatch.setattr(sockets, "IDLE_TIME", 0.2)
    monkeypatch.setattr(sockets, "LINE_TIME", 0.2)

    def pour(session):
        while True:
            session.send("x" * 2**18)

    with curating(place, secret, echo) as results, outsourcing.connect(place, secret):
        eventually(lambda: results)
        assert results == [[]]
    with curating(place, secret, pour) as results, outsourcing.connect(place, secret):
        eventually(lambda: results)
        assert isinstance(results[0], OSError)


@pytest.mark.parametrize(
    ("line", "pause", "arrives"), [("x", 0, True), ("x", 0.02, False), ("x" * 5000, 0, False)], ids=["", "slow", "long"]
)
def test_a_line_must_come_whole_in_time_and_be_short(line, pause, arrives, monkeypatch):
    monkeypatch.setattr(sockets, "LINE_TIME", 0.3)
    mac = sockets._mac(bytes(32), b"theirs", bytes(8), line.encode()).hex()
    content = f"{mac} {line}\n".encode()
    ours, theirs = socket.socketpair()

    def send():
        with suppress(OSError):
            for piece in [bytes([byte]) for byte in content] if pause else [content]:
                theirs.sendall(piece)
                time.sleep(pause)
            theirs.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    with theirs:
        with ours:
            read = sockets._reader(ours, sockets.MAX_LINE)
            session = sockets._session(ours, read, bytes(32), b"ours", b"theirs", WAIT)
            thread.start()
            assert list(session.lines) == ([line] if arrives else [])
        thread.join(WAIT)


# Whoever stands between them


@contextmanager
def between(place, change):
    """A port that passes lines on to ``place``, each as ``change(sender, number, line)`` makes it: a list of lines."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def pass_on(sender, source, sink):
            with suppress(OSError, ValueError), source.makefile("rb") as lines:
                for number, line in enumerate(lines):
                    for made in change(sender, number, line):
                        sink.sendall(made)
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

        def meet():
            with suppress(OSError), server.accept()[0] as modeler, reach(place) as curator:
                back = threading.Thread(target=pass_on, args=("curator", curator, modeler))
                back.start()
                pass_on("modeler", modeler, curator)
                back.join()

        thread = threading.Thread(target=meet)
        thread.start()
        yield server.getsockname()[1]
        thread.join(WAIT)


def flipped(line):
    return line[:-3] + bytes([line[-3] ^ 1]) + line[-2:]


CHANGES = {
    "flipped": lambda held, line: [flipped(line)],
    "repeated": lambda held, line: [line, line],
    "left out": lambda held, line: [line] if held else held.append(line) or [],
    "swapped": lambda held, line: [line, held.pop()] if held else held.append(line) or [],
    "put in": lambda held, line: [b'{"answer": 0}\n', line],
    "unsealed": lambda held, line: [line[65:]],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sender", ["modeler", "curator"])
def test_a_line_that_was_changed_on_the_way_is_never_heard(place, secret, change, sender):
    first, held = (1 if sender == "modeler" else 2), []

    def meddle(who, number, line):
        return CHANGES[change](held, line) if who == sender and number > first else [line]

    with curating(place, secret, echo) as results, between(place, meddle) as port:
        with outsourcing.connect(port, secret) as session:
            replies = []
            with suppress(OSError):
                session.send("one")
                replies += [next(session.lines)]
                for line in ("two", "three"):
                    session.send(line)
                replies += list(session.lines)
        eventually(lambda: results)
    said, answered = ["one", "two", "three"], ["re: one", "re: two", "re: three"]
    assert results[0] == said[: len(results[0])]
    assert replies == answered[: len(replies)]
    if sender == "modeler":
        assert len(results[0]) == (2 if change == "repeated" else 1)
    else:
        assert len(replies) == (2 if change == "repeated" else 1)


def test_a_line_that_is_sent_back_is_not_taken_for_the_other_partys(place, secret):
    modelers = []

    def reflect(who, number, line):
        if who == "modeler":
            modelers.append(line)
        return [modelers[number - 1]] if who == "curator" and number > 1 else [line]

    with (
        curating(place, secret, echo),
        between(place, reflect) as port,
        outsourcing.connect(port, secret) as session,
    ):
        session.send("mine")
        assert list(session.lines) == []


def test_a_conversation_that_was_overheard_admits_nobody_and_has_no_secret(place, secret):
    lines = []

    def listen_in(who, number, line):
        lines.append((who, line))
        return [line]

    with curating(place, secret, echo) as results, between(place, listen_in) as port:
        with outsourcing.connect(port, secret) as session:
            session.send("x")
            assert next(session.lines) == "re: x"
        eventually(lambda: results == [["x"]])
        overheard = b"".join(line for _, line in lines)
        known = secret.read_bytes()
        assert known not in overheard
        assert known.hex().encode() not in overheard
        with reach(place) as replayed:
            replayed.sendall(b"".join(line for who, line in lines if who == "modeler"))
            assert heard(replayed).count(b"\n") == 1
        with reach(place) as reflected:  # the curator's own words
            nonce = reflected.makefile("rb").readline().split()[2]
            reflected.sendall(nonce + b" " + nonce + b"\n")
            assert heard(reflected) == b""
        assert results == [["x"]]


@pytest.mark.parametrize(
    "speech",
    [
        b"",
        b'{"answer": 0}\n',
        b'{"schema": "jaxdpbo.outsourcing", "version": 1}\n',
        b"busy: come again\n",
        b"jaxdpbo.outsourcing 1 %s\n" % (b"0" * 64),
        b"jaxdpbo.outsourcing 1 %s\n%s\n" % (b"0" * 64, b"0" * 64),
        b"jaxdpbo.outsourcing 1 00\n",
        b"jaxdpbo.outsourcing 2 %s\n" % (b"0" * 64),
        b"\xff\n",
        None,
    ],
    ids=range(10),
)
def test_a_stranger_in_the_curators_place_is_passed_over(place, secret, monkeypatch, speech):
    """Before, whatever spoke first was taken for the curator, and an error or silence from it ended the modeler."""
    monkeypatch.setattr(sockets, "HANDSHAKE_TIME", 0.2)
    secrets.new_secret(secret)
    visits = []
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", place)))

        def stranger():
            for _ in range(2):
                connection, _ = server.accept()
                visits.append(connection)
                if speech is not None:  # None: silence
                    connection.sendall(speech)
                    connection.shutdown(socket.SHUT_WR)
            server.close()
            stack.enter_context(curating(place, secret, echo))

        thread = threading.Thread(target=stranger)
        thread.start()
        with outsourcing.connect(place, secret) as session:
            session.send("x")
            assert next(session.lines) == "re: x"
        thread.join(WAIT)
        assert len(visits) == 2
        for visit in visits:
            visit.close()


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_modeler_that_finds_nobody_says_so(place, secret, monkeypatch):
    monkeypatch.setattr(sockets, "CONNECT_TIME", 0.2)
    with pytest.raises(ProtocolError, match=r"there is no curator at .* after 0\.2 s: start the curator"):
        outsourcing.connect(place, secret).__enter__()
    with curating(place, secret, echo):
        other = secret.with_name("other")
        with pytest.raises(ProtocolError, match=r"there is no file .*other"):
            outsourcing.connect(place, other).__enter__()
        secrets.new_secret(other)
        with pytest.raises(ProtocolError, match="did not show that it knows the secret"):
            outsourcing.connect(place, other).__enter__()
