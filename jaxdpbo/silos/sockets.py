"""A silo behind a Unix socket: the process with the rows answers, and a process that carries messages needs no row.

A caller sends one message and gets one reply. Each has its length in front, in 4 bytes, so that both ends meet through
ssh, a proxy with certificates, and anything else that carries a stream both ways.
"""

import base64
import contextlib
import json
import os
import socket as sockets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from jaxdpbo import checks, files, logs, silence
from jaxdpbo.ledger import ledger_file
from jaxdpbo.silos.messages import LARGEST, SENTENCES, Credential, Refused, find_step
from jaxdpbo.silos.silo import Silo

ASK_CREDENTIAL, NONCE = b"credential", 16  # in place of a request; bytes that a server may add, for a proof
CREDENTIAL, ANSWER, REFUSED, STOPPED = b"C", b"A", b"R", b"F"  # the first byte of a reply
GROUP = 0o660  # file mode: the account and its group may connect
PATIENCE = 10.0  # seconds for a whole message, and for a whole reply
CHUNK, BACKLOG, LENGTH = 2**16, 16, 4
LARGEST_CREDENTIAL = 2**12  # bytes
ASKING = len(ASK_CREDENTIAL), len(ASK_CREDENTIAL) + NONCE  # bytes of the question, without and with a nonce
CARD = {"name": str, "public": str, "signature": str, "proof": str}
LONGEST = 16  # letters of the name of a sentence


def serve_silo(silo: Silo, socket: str | Path) -> None:
    """Answer the requests that come to a Unix socket, one after another, until the process ends.

    Run this function in the process that holds the rows. Any process that connects gets what ``Silo.credential`` and
    ``Silo.answer`` give, and no more, so a process that carries messages needs neither rows nor keys: run it under
    another account of the same group, and keep the socket in a folder of its own, away from keys and ledger.

    Formal guarantee: ``silo.guarantee``, for any messages, as ``Silo`` states.

    >>> import contextlib, tempfile, threading
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import dp_gibo, ledger, silos
    >>> folder = Path(tempfile.mkdtemp())
    >>> cards = [silos.create_identity(folder, name, users=500) for name in ("Bern", "Zug")]
    >>> config = dp_gibo.config(users=1000, steps=2, mu=1.0, bounds=[(0, 9)], clip_norm=1.0, memory="none")
    >>> agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    >>> ledger.create(folder / "budget.jsonl", mu=2)
    >>> def distance(point, batch):
    ...     return abs(batch["age"] - point[0])
    >>> columns = {"age": np.linspace(3, 5, 500)}
    >>> silo = silos.Silo(
    ...     agreement, distance, columns, name="Bern", folder=folder, ledger=folder / "budget.jsonl"
    ... )
    >>> socket = folder / "bern.socket"
    >>> threading.Thread(target=silos.serve_silo, args=(silo, socket), daemon=True).start()
    >>> reply = None
    >>> while reply is None:
    ...     with contextlib.suppress(OSError):  # until the silo listens
    ...         reply = silos.forward(socket, b"a request of nobody")
    >>> reply
    b'Rgarbage'

    Args:
      silo: opened in this process.
      socket: a path for the socket, in a folder where no other user can replace files. This account and its group may
        connect. A file beside the socket, with the ending ".lock", keeps other processes from serving the same socket.

    Raises:
      OSError: another process serves this socket, another file is there, or the system has no Unix sockets.
      Exception: of the loss, of the table or of the ledger. The server learns that the silo stopped, without a text.
    """
    with listen(Path(socket)) as listener:
        failure = answer_until_failure(silo, listener)
    raise failure


def answer_until_failure(silo: Silo, listener: sockets.socket) -> BaseException:
    """Answer all callers, until the loss, the table or the ledger raises; return what was raised."""
    failure = None
    while failure is None:
        caller, _ = listener.accept()
        with caller, contextlib.suppress(OSError):  # of the caller alone
            content = receive(caller, time.monotonic() + PATIENCE, silo.agreement.largest_request)
            reply, failure = _reply(silo, content)
            send(caller, reply, PATIENCE)
    return failure


def forward(socket: str | Path, content: bytes, *, wait: float = 600.0) -> bytes:
    """Send a message to the silo behind a socket, and return its reply, for ``parse_answer`` or ``parse_credential``.

    Formal guarantee: none of its own; see ``serve_silo``.

    >>> from jaxdpbo import silos
    >>> silos.forward("/nowhere/bern.socket", b"credential")
    Traceback (most recent call last):
      ...
    FileNotFoundError: [Errno 2] No such file or directory

    Args:
      socket: the path of the socket.
      content: a request of the server, or ``b"credential"`` for the silo's name and signed key. With 16 bytes after it,
        the reply also proves that the silo itself is there.
      wait: the most seconds to wait for a reply.

    Raises:
      OSError: nobody answers at the socket, or not in time.
      ValueError: ``wait`` is out of range.
    """
    deadline = time.monotonic() + checks.positive("wait", wait)
    with sockets.socket(sockets.AF_UNIX) as silo:
        silo.settimeout(wait)
        silo.connect(str(socket))
        send(silo, content, wait)
        if (reply := receive(silo, deadline, LARGEST)) is None:
            raise OSError(f"a reply must have {LARGEST} bytes or fewer")
        return reply


def parse_answer(reply: bytes) -> bytes:
    """The answer in a silo's reply to a request, for ``run_silos``.

    >>> from jaxdpbo import silos
    >>> silos.parse_answer(b"Rrepeated")
    Traceback (most recent call last):
      ...
    jaxdpbo.silos.messages.Refused: this attempt of this step was answered before

    Args:
      reply: of ``forward``.

    Raises:
      Refused: the silo gave no answer and named a sentence, or the reply is none.
    """
    kind, rest = reply[:1], reply[1:]
    if kind == ANSWER:
        return rest
    if kind == STOPPED:
        raise Refused("stopped")
    said = rest[:LONGEST].decode("ascii", "replace") if kind == REFUSED else ""
    raise Refused(said if said in SENTENCES else "nonsense")


def parse_credential(reply: bytes) -> tuple[str, Credential]:
    """The name of a silo and its credential, in a reply to ``b"credential"``.

    >>> from jaxdpbo import silos
    >>> name, key = silos.parse_credential(b'C{"name": "Bern", "public": "cHVi", "signature": "c2ln", "proof": ""}')
    >>> name
    'Bern'

    Args:
      reply: of ``forward``.

    Raises:
      Refused: another reply. Whether the silo signed its key is checked by the other silos.
    """
    name, credential, _ = parse_card(reply)
    return name, credential


def parse_card(reply: bytes) -> tuple[str, Credential, str]:
    """The name of a silo, its credential, and its proof. Raise a Refused for another reply."""
    if reply[:1] != CREDENTIAL:
        raise Refused("nonsense")
    try:
        card = ledger_file.parse_fields(reply[1:], CARD, most=LARGEST_CREDENTIAL)
    except ValueError:
        raise Refused("nonsense") from None
    return card["name"], Credential(card["public"], card["signature"]), card["proof"]


def _reply(silo: Silo, content: bytes | None) -> tuple[bytes, BaseException | None]:
    """The reply to a message, and what the loss, the table or the ledger raised. Both are logged without a value."""
    asks = content is not None and content.startswith(ASK_CREDENTIAL) and len(content) in ASKING
    step = None if content is None or asks else find_step(content, silo.agreement.config.steps)
    what, size = "a question for the key" if asks else "a request", len(content or b"")
    logs.message("received", silo.name, step, what if content is not None else "a message that is too long", size)
    what, failure = "the key" if asks else "an answer", None
    try:
        if content is None:
            raise Refused("long")
        if asks:
            proof = base64.b64encode(silo.prove(content[len(ASK_CREDENTIAL) :])).decode()
            card = {"name": silo.name} | silo.credential()._asdict() | {"proof": proof}
            reply = CREDENTIAL + json.dumps(card).encode()
        else:
            reply = ANSWER + silo.answer(content)
    except Refused as refusal:
        what, reply = str(refusal), REFUSED + refusal.kind.encode()
    except silence.STOPS:
        raise
    except BaseException as error:
        what, reply, failure = SENTENCES["stopped"], STOPPED, error
    logs.message("sent", silo.name, step, what, len(reply))
    return reply, failure


def send(target: sockets.socket, content: bytes, seconds: float) -> None:
    """Send a message, for ``receive``. Raise an OSError if the other side has gone, or was too slow."""
    target.settimeout(seconds)
    target.sendall(len(content).to_bytes(LENGTH) + content)


def receive(source: sockets.socket, deadline: float, most: int) -> bytes | None:
    """A message; None for one of more bytes than ``most``, of which no byte is kept.

    Raises:
      OSError: the other side has gone, or was too slow.
    """
    length = int.from_bytes(b"".join(_read(source, LENGTH, deadline)))
    if length <= most:
        return b"".join(_read(source, length, deadline))
    for _ in _read(source, min(length, LARGEST), deadline):  # a caller that is still sending hears no reply
        pass
    return None


def _read(source: sockets.socket, count: int, deadline: float) -> Iterator[bytes]:
    """So many bytes, in parts."""
    while count:
        source.settimeout(max(deadline - time.monotonic(), 1e-3))
        if not (part := source.recv(min(count, CHUNK))):
            raise ConnectionResetError("the message did not end")
        count -= len(part)
        yield part
        if count and time.monotonic() > deadline:
            raise TimeoutError("the message did not end in time")


@contextlib.contextmanager
def listen(path: Path) -> Iterator[sockets.socket]:
    """A listening socket at a path, also if a process that was killed left its socket there."""
    with files.only_process(path.with_name(f"{path.name}.lock")), sockets.socket(sockets.AF_UNIX) as listener:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        listener.bind(str(path))
        try:
            os.chmod(path, GROUP)  # before anybody can connect
            listener.listen(BACKLOG)
            yield listener
        finally:
            path.unlink(missing_ok=True)
