"""Sockets between a curator and a modeler: who may speak, for how long, and one at a time.

A Unix socket (mode 0600 in a folder of mode 0700), or a TCP port of this machine; both parties hold a secret of 32
bytes, in a file of mode 0600. First three lines, the MACs being HMAC-SHA256 with the secret:

=======  =========================================================
curator  ``jaxdpbo.outsourcing 1 <its nonce>``
modeler  ``<its nonce> <MAC of "modeler" and both nonces>``
curator  ``<MAC of "curator" and both nonces>``
=======  =========================================================

Nonces are 32 fresh random bytes, so neither the secret nor anything that could be replayed passes over the line. From
then on each line begins with its MAC, under a key derived from the secret and both nonces, of the direction, the line's
number and the line: a line that was changed, repeated, left out, reflected or put in ends the connection.

What this does NOT give: encryption (whoever reads the traffic of the port reads rows asked for and outputs; the number
and time of lines is visible anyway), protection from the owner of the files, from the administrator or from a backup,
nor service under a flood: whoever may connect can occupy the places where peers prove who they are, for five seconds
each. A connection that ends early cannot be distinguished from one that was cut.
"""

import hashlib
import hmac
import json
import os
import queue
import socket
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from jaxdpbo import _checks
from jaxdpbo.outsourcing import secrets
from jaxdpbo.outsourcing.lines import MAX_LINE_LENGTH, SCHEMA, VERSION, ProtocolError

HANDSHAKE_TIME = 5.0  # seconds in which a peer must prove who it is
LINE_TIME = 10.0  # seconds from the first byte of a line to its last
IDLE_TIME = 600.0  # seconds that a curator waits for a modeler's next line
ANSWER_TIME = 86_400.0  # seconds that a modeler waits for the curator's: an evaluation may take long
CONNECT_TIME = 60.0  # seconds in which a curator must come
MAX_HANDSHAKES = 8  # at once
MAX_MODELERS = 2  # at once: one is served, one waits
MAX_LINE = 4096  # bytes of a line of a modeler or a stranger
_NONCE = 32
_POLL = 0.1  # seconds between looks at whether to go on
_HELLO = f"{SCHEMA} {VERSION} "


class Session(NamedTuple):
    """A peer that proved who it is: ``lines`` from it, which end with the connection, and ``send`` to it.

    ``send`` raises OSError where the peer is gone or reads nothing.
    """

    lines: Iterator[str]
    send: Callable[[str], None]


@contextmanager
def listen(place: str | Path | int, secret: str | Path) -> Iterator[Iterator[Session]]:
    """A curator's modelers, one after another: the next is served when the iterator is asked for it. A context.

    While one is served, one more may wait; others are refused with a sentence. Whoever is silent, slow or does not know
    the secret is dropped after ``HANDSHAKE_TIME`` and is never in the iterator.

    Args:
      place: the path of a Unix socket, whose folder is made, or a port of this machine.
      secret: path of the file that holds it: 32 random bytes, made with mode 0600 where there is none.

    Raises:
      ProtocolError: the folder of the socket or the secret is open to others, or another curator listens there.
    """
    server = _tcp(place) if isinstance(place, int) else _unix(Path(place))
    with server, ExitStack() as last:
        if not isinstance(place, int):
            last.callback(Path(place).unlink, missing_ok=True)
        admitted, done = _Admitted(queue.SimpleQueue(), threading.Semaphore(MAX_MODELERS)), threading.Event()
        known = secrets.kept_secret(secret)
        door = threading.Thread(target=_door, args=(server, known, admitted, done), daemon=True)
        door.start()
        served = _served(admitted)
        try:
            yield served
        finally:
            done.set()
            served.close()
            door.join()
            with suppress(queue.Empty):
                while True:
                    admitted.waiting.get_nowait()[0].close()


@contextmanager
def connect(place: str | Path | int, secret: str | Path) -> Iterator[Session]:
    """A modeler's way to a curator that may still be starting. A context.

    Whoever listens there and does not know the secret is passed over until ``CONNECT_TIME`` has gone by.

    Args:
      place: the path of a Unix socket, or a port of this machine.
      secret: path of the file that holds it.

    Raises:
      ProtocolError: no curator came, the file of the secret is not one, or the socket's folder is open to others.
    """
    until = time.monotonic() + CONNECT_TIME
    while True:
        try:
            connection = _reached(place)
        except (FileNotFoundError, ConnectionRefusedError):
            reason = "there is no curator"
        except OSError as error:
            reason = f"no curator can be reached ({error.strerror or error})"
        else:
            with connection:
                try:
                    session = _prove(connection, secrets.read_secret(secret))
                except FileNotFoundError:
                    reason = f"there is no file {secret}"
                except (OSError, ValueError):
                    reason = "who listens there is busy, or did not show that it knows the secret"
                else:
                    yield session
                    return
        if time.monotonic() > until:
            where = f"port {place}" if isinstance(place, int) else place
            said = f"{reason} at {where} after {CONNECT_TIME:g} s"
            raise ProtocolError(f"{said}: start the curator, with the same secret, and try again")
        time.sleep(_POLL)


# Places


def _tcp(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", _checks.size("place", port, minimum=0)))


def _unix(path: Path) -> socket.socket:
    with suppress(FileExistsError):
        os.mkdir(path.parent, 0o700)
    _expect_own(path.parent)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        _bounded(path, server.bind)
        os.chmod(path, 0o600)
        server.listen(MAX_HANDSHAKES)
    except BaseException:
        server.close()
        raise
    return server


def _clear(path: Path) -> None:
    """Take away the socket of a curator that was killed."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ProtocolError(f"{path.name} must be a socket or nothing: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_POLL)
        try:
            _bounded(path, probe.connect)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:  # its queue is full
            pass
    raise ProtocolError(f"another curator listens at {path.name}")


def _reached(place: str | Path | int) -> socket.socket:
    if isinstance(place, int):
        connection = socket.create_connection(("127.0.0.1", place), HANDSHAKE_TIME)
        if connection.getsockname() == connection.getpeername():  # a free port may be given to its own caller
            connection.close()
            raise ConnectionRefusedError
        return connection
    path = Path(place)
    _expect_own(path.parent)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(HANDSHAKE_TIME)
        _bounded(path, connection.connect)
    except BaseException:
        connection.close()
        raise
    return connection


def _expect_own(folder: Path) -> None:
    """Others could put a socket of theirs into a folder that is open to them."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ProtocolError(f"{folder.name} must be a folder of yours that is closed to others: chmod 700")


def _bounded(path: Path, use: Callable[[str], None]) -> None:
    if len(os.fsencode(path)) > 100:  # 104 on some systems, with the end
        raise ProtocolError(
            f"the path of {path.name} must be shorter than 100 bytes to be a socket's: use another folder"
        )
    use(str(path))


# The curator's door


class _Admitted(NamedTuple):
    """Modelers that proved who they are; each has a seat until it has been served, whenever it is taken from here."""

    waiting: queue.SimpleQueue[tuple[socket.socket, Session]]
    seats: threading.Semaphore


def _served(admitted: _Admitted) -> Generator[Session, None, None]:
    while True:
        with suppress(queue.Empty):
            connection, session = admitted.waiting.get(timeout=1.0)  # a timeout, so that Ctrl-C is heard
            try:
                with connection:
                    yield session
            finally:
                admitted.seats.release()


def _door(server: socket.socket, secret: bytes, admitted: _Admitted, done: threading.Event) -> None:
    """Every peer proves who it is beside the others, so that nobody waits for one that is silent."""
    places = threading.Semaphore(MAX_HANDSHAKES)
    server.settimeout(_POLL)
    while not done.is_set():
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        except OSError:  # that connection is gone, or this process has too many files open
            time.sleep(_POLL)
            continue
        if places.acquire(blocking=False):
            try:
                threading.Thread(target=_admit, args=(connection, secret, admitted, places), daemon=True).start()
                continue
            except RuntimeError:  # this process has too many threads
                places.release()
        with connection, suppress(OSError):
            connection.settimeout(_POLL)
            connection.sendall(b"busy: come again\n")


def _admit(connection: socket.socket, secret: bytes, admitted: _Admitted, places: threading.Semaphore) -> None:
    """Only to the modeler is anything said beyond a nonce."""
    try:
        session = _challenge(connection, secret)
        if admitted.seats.acquire(blocking=False):
            admitted.waiting.put((connection, session))
        else:
            session.send(json.dumps({"error": "the curator is busy with another modeler: start again later"}))
            connection.close()
    except (OSError, ValueError):
        connection.close()
    finally:
        places.release()


# Proofs


def _challenge(connection: socket.socket, secret: bytes) -> Session:
    """The curator's side of the three lines.

    Raises:
      OSError: the peer is silent, slow or gone, or does not know the secret.
      ValueError: it does not speak like a modeler.
    """
    until, read = time.monotonic() + HANDSHAKE_TIME, _reader(connection, MAX_LINE)
    ours = os.urandom(_NONCE)
    _write(connection, (_HELLO + ours.hex()).encode(), HANDSHAKE_TIME)
    theirs, proof = (bytes.fromhex(word) for word in read(until, None).decode("ascii").split(" "))
    _expect(theirs, proof, _mac(secret, b"modeler", ours, theirs))
    _write(connection, _mac(secret, b"curator", ours, theirs).hex().encode(), HANDSHAKE_TIME)
    key = _mac(secret, b"lines", ours, theirs)
    return _session(connection, read, key, b"curator", b"modeler", IDLE_TIME)


def _prove(connection: socket.socket, secret: bytes) -> Session:
    """The modeler's side. Raises as ``_challenge``."""
    until, read = time.monotonic() + HANDSHAKE_TIME, _reader(connection, 2 * MAX_LINE_LENGTH)
    hello = read(until, None).decode("ascii")
    if not hello.startswith(_HELLO):
        raise ValueError("no curator of this version")
    theirs, ours = bytes.fromhex(hello.removeprefix(_HELLO)), os.urandom(_NONCE)
    if len(theirs) != _NONCE:
        raise ValueError("no nonce")
    _write(connection, f"{ours.hex()} {_mac(secret, b'modeler', theirs, ours).hex()}".encode(), HANDSHAKE_TIME)
    _expect(theirs, bytes.fromhex(read(until, None).decode("ascii")), _mac(secret, b"curator", theirs, ours))
    return _session(connection, read, _mac(secret, b"lines", theirs, ours), b"modeler", b"curator", ANSWER_TIME)


def _expect(nonce: bytes, proof: bytes, due: bytes) -> None:
    if len(nonce) != _NONCE or not hmac.compare_digest(proof, due):
        raise ConnectionError("the peer does not know the secret")


def _mac(key: bytes, use: bytes, *parts: bytes) -> bytes:
    """Of words, nonces and numbers of fixed length, and of one line at the end."""
    return hmac.new(key, b"\0".join([use, b"".join(parts)]), hashlib.sha256).digest()


# Lines


def _session(
    connection: socket.socket,
    read: Callable[[float, float | None], bytes],
    key: bytes,
    ours: bytes,
    theirs: bytes,
    idle: float,
) -> Session:
    sent = count()

    def lines() -> Iterator[str]:
        for number in count():
            try:
                line = read(time.monotonic() + idle, LINE_TIME)
                mac, content = bytes.fromhex(line[:64].decode("ascii")), line[65:]
            except (OSError, ValueError):
                return
            if line[64:65] != b" " or not hmac.compare_digest(mac, _mac(key, theirs, _number(number), content)):
                return
            yield content.decode(errors="replace")

    def send(line: str) -> None:
        content = line.encode()
        _write(connection, _mac(key, ours, _number(next(sent)), content).hex().encode() + b" " + content, LINE_TIME)

    return Session(lines(), send)


def _number(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _write(connection: socket.socket, line: bytes, seconds: float) -> None:
    connection.settimeout(seconds)
    connection.sendall(line + b"\n")  # the time is that of all of it


def _reader(connection: socket.socket, longest: int) -> Callable[[float, float | None], bytes]:
    """A function of the time until which a line must come, and of how long it may take from its first byte on.

    Raises OSError: it came later, is longer than ``longest`` bytes, or the connection ended.
    """
    held = bytearray()

    def read(until: float, whole: float | None) -> bytes:
        searched = 0
        if held and whole is not None:
            until = time.monotonic() + whole
        while (end := held.find(b"\n", searched)) < 0:
            searched = len(held)
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("a line that did not come in time")
            if searched > longest:
                raise ConnectionError("a line that is too long")
            connection.settimeout(left)
            chunk = connection.recv(2**16)
            if not chunk:
                raise ConnectionError("the connection ended")
            if not held and whole is not None:
                until = time.monotonic() + whole
            held.extend(chunk)
        if end > longest:
            raise ConnectionError("a line that is too long")
        line = bytes(held[:end])
        del held[: end + 1]
        return line

    return read
