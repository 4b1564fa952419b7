"""A silo behind a Unix socket: the process with the rows answers, and a process that carries messages needs no row.

A caller sends one message and closes its half of the connection; the silo sends one reply and closes the other half.
"""

import contextlib
import json
import os
import socket as sockets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from jaxdpbo import checks, files, silence
from jaxdpbo.ledger import ledger_file
from jaxdpbo.silos.messages import LARGEST, Credential, Refused
from jaxdpbo.silos.silo import Silo

ASK_CREDENTIAL = b"credential"  # in place of a request
CREDENTIAL, ANSWER, REFUSED, STOPPED = b"C", b"A", b"R", b"F"  # the first byte of a reply
GROUP = 0o660  # file mode: the account and its group may connect
PATIENCE = 10.0  # seconds for a whole message, and for a whole reply
CHUNK, BACKLOG = 2**16, 16
NO_REPLY = "the reply is not the reply of a silo"
LARGEST_CREDENTIAL = 2**12  # bytes
LONGEST = 300  # letters of a refusal that are passed on


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
    b'Rthe request is not a request of jaxdpbo'

    Args:
      silo: opened in this process.
      socket: a path for the socket, in a folder where no other user can replace files. This account and its group may
        connect. A file beside the socket, with the ending ".lock", keeps other processes from serving the same socket.

    Raises:
      OSError: another process serves this socket, another file is there, or the system has no Unix sockets.
      Exception: of the loss, of the table or of the ledger. The server learns that the silo stopped, without a text.
    """
    with _listen(Path(socket)) as listener:
        failure = None
        while failure is None:
            caller, _ = listener.accept()
            with caller, contextlib.suppress(OSError):  # of the caller alone
                content = _receive(caller, time.monotonic() + PATIENCE, silo.agreement.largest_request)
                reply, failure = _reply(silo, content)
                caller.settimeout(PATIENCE)
                caller.sendall(reply)
    raise failure


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
      content: a request of the server, or ``b"credential"`` for the silo's name and signed key.
      wait: the most seconds to wait for a reply.

    Raises:
      OSError: nobody answers at the socket, or not in time.
      ValueError: ``wait`` is out of range.
    """
    deadline = time.monotonic() + checks.positive("wait", wait)
    with sockets.socket(sockets.AF_UNIX) as silo:
        silo.settimeout(wait)
        silo.connect(str(socket))
        silo.sendall(content)
        silo.shutdown(sockets.SHUT_WR)
        return _receive(silo, deadline, LARGEST)


def parse_answer(reply: bytes) -> bytes:
    """The answer in a silo's reply to a request, for ``run_silos``.

    >>> from jaxdpbo import silos
    >>> silos.parse_answer(b"Rattempt 0 of step 0 was answered before")
    Traceback (most recent call last):
      ...
    jaxdpbo.silos.messages.Refused: attempt 0 of step 0 was answered before

    Args:
      reply: of ``forward``.

    Raises:
      Refused: the silo gave no answer, with the silo's text, or the reply is none.
    """
    kind, rest = reply[:1], reply[1:]
    if kind == ANSWER:
        return rest
    if kind == STOPPED:
        raise Refused("this silo stopped")
    if kind == REFUSED:
        text = rest[:LONGEST].decode("ascii", "replace")
        raise Refused("".join(letter for letter in text if letter.isprintable()))
    raise Refused(NO_REPLY)


def parse_credential(reply: bytes) -> tuple[str, Credential]:
    """The name of a silo and its credential, in a reply to ``b"credential"``.

    >>> from jaxdpbo import silos
    >>> name, credential = silos.parse_credential(b'C{"name": "Bern", "public": "cHVi", "signature": "c2ln"}')
    >>> name
    'Bern'

    Args:
      reply: of ``forward``.

    Raises:
      Refused: another reply. Whether the silo signed its key is checked by the other silos.
    """
    if reply[:1] != CREDENTIAL:
        raise Refused(NO_REPLY)
    try:
        card = ledger_file.parse_fields(
            reply[1:], {"name": str, "public": str, "signature": str}, most=LARGEST_CREDENTIAL
        )
    except ValueError:
        raise Refused(NO_REPLY) from None
    return card.pop("name"), Credential(**card)


def _reply(silo: Silo, content: bytes) -> tuple[bytes, BaseException | None]:
    """The reply to a message, and what the loss, the table or the ledger raised."""
    try:
        if content == ASK_CREDENTIAL:
            return CREDENTIAL + json.dumps({"name": silo.name} | silo.credential()._asdict()).encode(), None
        return ANSWER + silo.answer(content), None
    except Refused as refusal:
        return REFUSED + str(refusal).encode("ascii", "backslashreplace"), None
    except silence.STOPS:
        raise
    except BaseException as error:
        return STOPPED, error


def _receive(source: sockets.socket, deadline: float, most: int) -> bytes:
    """All bytes until the other side has closed its half. Raise an OSError if that takes too long, or is too much."""
    content = bytearray()
    while len(content) <= most:
        source.settimeout(max(deadline - time.monotonic(), 1e-3))
        if not (part := source.recv(CHUNK)):
            return bytes(content)
        content += part
        if time.monotonic() > deadline:
            raise TimeoutError("the message did not end in time")
    raise OSError(f"a message must have {most} bytes or fewer")


@contextlib.contextmanager
def _listen(path: Path) -> Iterator[sockets.socket]:
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
