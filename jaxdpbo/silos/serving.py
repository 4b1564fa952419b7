"""The server of a run over Unix sockets: one for each silo, and one for anyone who asks how the run is."""

import contextlib
import socket as _sockets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent import futures
from pathlib import Path

from jaxdpbo import checks
from jaxdpbo.silos import conversation, coordinator, sockets
from jaxdpbo.silos.agreement import Agreement

TURN = 0.2  # seconds between two looks of a thread whether it must end


class _Sockets:
    """The socket of each silo, by name."""

    def __init__(self, paths: Mapping[str, str | Path]) -> None:
        self._paths = dict(paths)

    def peers(self) -> Collection[str]:
        return self._paths.keys()

    def name(self, peer: str) -> str:
        return peer

    def ask(self, contents: Mapping[str, bytes], seconds: float) -> Iterator[tuple[str, bytes | None]]:
        """All at once: a silo sums while the others do."""
        with futures.ThreadPoolExecutor(len(contents)) as pool:
            asked = {pool.submit(self._forward, name, content, seconds): name for name, content in contents.items()}
            for done in futures.as_completed(asked):
                yield asked[done], done.result()

    def _forward(self, name: str, content: bytes, seconds: float) -> bytes | None:
        with contextlib.suppress(OSError):
            return sockets.forward(self._paths[name], content, wait=seconds)
        return None


def run_on_sockets(
    agreement: Agreement,
    paths: Mapping[str, str | Path],
    *,
    record: str | Path | None = None,
    wait: float = 60.0,
    patience: float = 86400.0,
    status: str | Path | None = None,
    tell: Callable[[conversation.Status], None] = lambda status: None,
) -> coordinator.SiloRun:
    """Run a search among silos behind Unix sockets, such as those of ``serve_silo``, of ssh, or of a proxy.

    Before the first sum all silos of the roster must be there: the server looks for them again and again, after a
    second, then two, up to half a minute, and charges nobody. Later a silo that goes is left out of the next sum, if
    enough silos remain, and takes part again once it is back, unless its process died in a sum. A silo that refused a
    request, or stopped, is asked no more.

    Formal guarantee: ``agreement.guarantees``, which the silos enforce against any server.

    >>> import base64
    >>> from jaxdpbo import dp_gibo, silos
    >>> cards = [silos.Member(name, 100, base64.b64encode(name.encode() * 32).decode()) for name in "AB"]
    >>> config = dp_gibo.config(users=200, steps=5, mu=1.0, bounds=[(0, 6)] * 3, clip_norm=1.0, memory="none")
    >>> agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    >>> silos.run_on_sockets(agreement, {"A": "/nowhere/A.socket", "B": "/nowhere/B.socket"}, patience=0.1)
    Traceback (most recent call last):
      ...
    jaxdpbo.silos.coordinator.SiloError: not there before the first sum: A, B; no silo is charged

    Args:
      agreement: the terms.
      paths: the socket of each silo of the roster, by name.
      record: see ``run_silos``.
      wait: the most seconds to wait for an answer, and between two sums for a silo that was there. Make the number
        larger than the seconds of a sum: an answer that comes later is spent.
      patience: the most seconds to wait for all silos before the first sum.
      status: a path for a socket that tells ``ask_status`` how the run is.
      tell: called with each change of the status.

    Raises:
      SiloError: silos are missing before the first sum, too few are there later, or their answers are used up.
      ValueError: a number out of range, another set of silos, or a record of other terms.
      BlockingIOError: another server runs with this record, or this socket.
    """
    wait, patience = checks.positive("wait", wait), checks.positive("patience", patience)
    if paths.keys() != set(agreement.roster.names):
        raise ValueError(f"paths must have a socket for each of {', '.join(agreement.roster.names)}")
    shown: list[conversation.Status] = []

    def show(new: conversation.Status) -> None:
        shown[:] = [new]
        tell(new)

    with _serve_status(status, shown) if status is not None else contextlib.nullcontext():
        return conversation.converse(agreement, _Sockets(paths), record=record, wait=wait, patience=patience, tell=show)


def ask_status(socket: str | Path, *, wait: float = 10.0) -> conversation.Status:
    """Ask a running server how its run is.

    >>> from jaxdpbo import silos
    >>> silos.ask_status("/nowhere/march.status")
    Traceback (most recent call last):
      ...
    FileNotFoundError: [Errno 2] No such file or directory

    Args:
      socket: the ``status`` of ``run_on_sockets``.
      wait: the most seconds to wait.

    Raises:
      OSError: no server answers there.
      ValueError: what answers there is no server of ``run_on_sockets``, or ``wait`` is out of range.
    """
    with _sockets.socket(_sockets.AF_UNIX) as server:
        server.settimeout(wait := checks.positive("wait", wait))
        server.connect(str(socket))
        return conversation.parse_status(sockets.receive(server, time.monotonic() + wait, sockets.LARGEST) or b"")


@contextlib.contextmanager
def _serve_status(path: str | Path, shown: list[conversation.Status]) -> Iterator[None]:
    """Tell the status to each caller, from a thread of its own."""
    ended = threading.Event()

    def answer() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):  # of the caller alone, or nobody came
                caller, _ = listener.accept()
                with caller:
                    sockets.send(caller, "".join(status.to_json() for status in shown).encode(), sockets.PATIENCE)

    with sockets.listen(Path(path)) as listener:
        listener.settimeout(TURN)
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
