"""A silo behind a Unix socket: the process with the rows answers, and a process that carries messages needs no row."""

import contextlib
import json
import os
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from jaxdpbo import _files, _silence
from jaxdpbo.silos._messages import LARGEST, Credential, Refused
from jaxdpbo.silos._silo import Silo

ASK_CREDENTIAL = b"credential"  # in place of a request
CREDENTIAL, ANSWER, REFUSED, FAILED = b"C", b"A", b"R", b"F"  # the first byte of a reply
GROUP = 0o117  # umask: the account and its group may connect
PATIENCE = 10.0  # seconds that a silo waits for a message on an open connection
BACKLOG = 16


class Reply(NamedTuple):
    """What a silo replied: one of the two fields is there.

    Attributes:
      answer: of a request, 8 bytes a number.
      card: the name of the silo and its credential.
    """

    answer: bytes | None = None
    card: tuple[str, Credential] | None = None


def serve_silo(silo: Silo, socket: str | Path) -> None:
    """Answer the requests that come to a Unix socket, one after another, until the process ends.

    Run this function in the process that holds the rows. Any process that connects gets what ``Silo.credential`` and
    ``Silo.answer`` give, and no more, so a process that carries messages needs neither rows nor keys: run it under
    another account of the same group.

    Formal guarantee: ``silo.guarantee``, for any messages.

    >>> import tempfile, threading
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
    >>> while not socket.exists():
    ...     pass
    >>> silos.forward(socket, b"a request of nobody")
    b'Rthe request is not a request of jaxdpbo'

    Args:
      silo: opened in this process.
      socket: a path for the socket, in a folder where no other user can replace files. This account and its group may
        connect.

    Raises:
      OSError: another process serves this socket, or the operating system has no Unix sockets.
      Exception: of the loss or of the table. The silo answers nothing more in this run, and the server learns that a
        sum failed, without a text.
    """
    with _listen(Path(socket)) as listener:
        while True:
            failure = None
            with contextlib.suppress(OSError, EOFError), listener.accept() as caller:  # of the caller alone
                if caller.poll(PATIENCE):
                    failure = _reply(silo, caller)
            if failure is not None:
                raise failure


def forward(socket: str | Path, content: bytes) -> bytes:
    """Send a message to the silo behind a socket, and return its reply, both as they are.

    Formal guarantee: none of its own; see ``serve_silo``.

    >>> from jaxdpbo import silos
    >>> silos.forward("/nowhere/bern.socket", b"credential")
    Traceback (most recent call last):
      ...
    FileNotFoundError: [Errno 2] No such file or directory

    Args:
      socket: the path of the socket.
      content: a request of the server, or ``b"credential"`` for the silo's name and key.

    Raises:
      OSError: nobody answers at the socket.
      EOFError: the silo stopped before it answered.
    """
    with connection.Client(str(socket), family="AF_UNIX") as silo:
        silo.send_bytes(content)
        return silo.recv_bytes(LARGEST)


def parse_reply(content: bytes) -> Reply:
    """Read a reply. Raise a Refused if the silo gave no answer, or the reply is none."""
    kind, rest = content[:1], content[1:]
    if kind == ANSWER:
        return Reply(answer=rest)
    if kind == FAILED:
        raise Refused("a sum of this silo failed")
    if kind == REFUSED:
        raise Refused(rest.decode("utf-8", "replace"))
    try:
        card = json.loads(rest)
        if kind == CREDENTIAL:
            return Reply(card=(str(card["name"]), Credential(str(card["public"]), str(card["signature"]))))
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise Refused("the reply is not a reply of jaxdpbo")


def _reply(silo: Silo, caller: Any) -> BaseException | None:
    """Answer the message of a connection; return what the loss or the table raised."""
    content, failure = caller.recv_bytes(LARGEST), None
    try:
        if content == ASK_CREDENTIAL:
            reply = CREDENTIAL + json.dumps({"name": silo.name} | silo.credential()._asdict()).encode()
        else:
            reply = ANSWER + silo.answer(content)
    except Refused as refusal:
        reply = REFUSED + str(refusal).encode()
    except _silence.STOPS:
        raise
    except BaseException as error:
        reply, failure = FAILED, error
    with contextlib.suppress(OSError):
        caller.send_bytes(reply)
    return failure


def _listen(path: Path) -> connection.Listener:
    """A listener at a path, also if a process that was killed left its socket there."""
    _files.expect_guarded_folder(path)
    try:
        connection.Client(str(path), family="AF_UNIX").close()
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # no socket: bind says what is there instead
    before = os.umask(GROUP)
    try:
        return connection.Listener(str(path), family="AF_UNIX", backlog=BACKLOG)
    finally:
        os.umask(before)
