"""Both ends of a Flower app: relay messages to a silo's process, and run a search over a grid of nodes."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxdpbo import checks, silos
from jaxdpbo.silos import silo, sockets

RECORD, FIELD = "jaxdpbo", "content"  # where a message has its bytes
LOOK = 1.0  # seconds between two looks for new nodes
LEAST = 10.0  # seconds: Flower looks for replies every 3 seconds


def client_app(socket: str = "{silo}") -> object:
    """The client's end: an app that passes each message on to the silo's process, and its reply back.

    Formal guarantee: none of its own. The silo's process (``silos.serve_silo``) holds the rows and keeps the guarantee.
    Flower's server sends the code of an app to all nodes, so run the node under an account that cannot read the rows.

    >>> from jaxdpbo.integrations import flower
    >>> app = flower.client_app("/run/silos/{silo}.socket")

    Returns:
      A ClientApp of Flower.

    Args:
      socket: the path of the silo's socket, with names of the node's configuration in braces. By default the
        configuration has the path: ``flower-supernode --node-config 'silo="/run/silos/bern.socket"'``.
    """
    app = _flower("clientapp").ClientApp()

    @app.query()
    def relay(message: Any, context: Any) -> Any:
        path = socket.format_map(context.node_config)
        reply = silos.forward(path, _content(message), wait=max(message.metadata.ttl, LEAST))
        return _flower("app").Message(_wrap(reply), reply_to=message)

    return app


def run_on_grid(
    agreement: silos.Agreement, grid: object, *, record: str | Path | None = None, wait: float = 60.0
) -> silos.SiloRun:
    """The server's end: run a search over the nodes of a grid, in the main function of a ``ServerApp``.

    Formal guarantee: ``agreement.guarantees``, which the silos enforce against any server.

    The search starts as soon as all silos of the roster are there, or with those that are there after ``wait`` seconds.
    A silo that goes is left out of the next sum, if enough silos remain, and takes part again once it is back, unless
    its process died in a sum. A node with a silo that refused a request, or stopped, is asked no more. A node speaks
    for a silo if it shows the silo's signed key, which other nodes see too: let Flower authenticate its nodes.

    >>> from flwr.serverapp import ServerApp
    >>> from jaxdpbo.integrations import flower
    >>> server = ServerApp()
    >>> @server.main()
    ... def main(grid, context):
    ...     run = flower.run_on_grid(agreement, grid, record="sums.jsonl")  # the agreement of ``silos.agree``
    ...     run.report("record.html")

    Args:
      agreement: the terms, the same as in all silos.
      grid: the Grid that Flower gives to the main function.
      record: a file for the public record of the run. Start the app again with the same file after the server was
        killed: the search goes on after the last sum on record.
      wait: the most seconds to wait for silos that are absent, and for an answer, 10 or more. Make the number larger
        than the seconds of a sum: an answer that comes later is spent.

    Raises:
      silos.SiloError: too few silos are there, or their answers are used up; with what silos refused.
      ValueError: ``wait`` is out of range, or the record is of other terms.
      BlockingIOError: another server runs with this record.
    """
    if (wait := checks.positive("wait", wait)) < LEAST:
        raise ValueError(f"wait must be {LEAST:g} seconds or more, got {wait:g}")
    nodes = _Nodes(agreement, grid, wait)
    try:
        return silos.run_silos(agreement, nodes.find, nodes.send, record=record)
    except silos.SiloError as error:
        refusals = "".join(f"; {name}: {text}" for name, text in sorted(nodes.refusals.values()))
        raise silos.SiloError(f"{error}{refusals}") from None


class _Nodes:
    """Which node speaks for which silo.

    Attributes:
      refusals: the silo and the text of each node that is asked no more, by node.
    """

    def __init__(self, agreement: silos.Agreement, grid: Any, wait: float) -> None:
        self._agreement, self._grid, self._wait = agreement, grid, wait
        self._cards: dict[int, tuple[str, silos.Credential]] = {}  # by node
        self._expected = set(agreement.roster.names)
        self._mute = set[int]()  # nodes that did not reply at all: each costs the whole wait
        self.refusals: dict[int, tuple[str, str]] = {}

    def find(self) -> dict[str, silos.Credential]:
        """The keys of the silos that are there: all that took part before, or those that came in time."""
        deadline = time.monotonic() + self._wait
        while True:
            present = set(self._grid.get_node_ids()) - self.refusals.keys()
            self._cards = {node: card for node, card in self._cards.items() if node in present}
            self._mute &= present
            complete = self._expected <= set(self._names())
            self._meet(present - self._cards.keys() - (self._mute if complete else set()), deadline)
            credentials = dict(self._cards.values())
            if self._expected <= credentials.keys() or time.monotonic() >= deadline:
                self._expected = set(credentials)
                return credentials
            time.sleep(LOOK)

    def send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Pass requests to silos, and return the answers that came in time."""
        nodes, answers = self._names(), {}
        silent = {nodes[name] for name in requests}
        for node, content in self._ask({nodes[name]: content for name, content in requests.items()}, self._wait):
            if content is None:
                continue
            silent.discard(node)
            name, _ = self._cards[node]
            try:
                answers[name] = sockets.parse_answer(content)
            except silos.Refused as refusal:
                self.refusals[node] = name, str(refusal)
                self._expected.discard(name)
        for node in silent:  # gone, or slow: meet again
            del self._cards[node]
        return answers

    def _names(self) -> dict[str, int]:
        """The node of each silo."""
        return {name: node for node, (name, _) in self._cards.items()}

    def _meet(self, nodes: Iterable[int], deadline: float) -> None:
        """Ask nodes which silo they speak for. The first node of a silo is its node until it goes."""
        seconds = max(deadline - time.monotonic(), LEAST)
        self._mute.update(nodes := list(nodes))
        for node, content in self._ask(dict.fromkeys(nodes, sockets.ASK_CREDENTIAL), seconds):
            self._mute.discard(node)
            with contextlib.suppress(silos.Refused):
                name, credential = sockets.parse_credential(content or b"")
                if name not in self._names() and silo.verify(self._agreement, name, credential):
                    self._cards[node] = name, credential

    def _ask(self, contents: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | None]]:
        """Send a message to each node; the replies that come in time, by node; None for an error of Flower."""
        if not contents:
            return
        new = _flower("app").Message
        messages = [new(_wrap(content), node, "query", ttl=seconds) for node, content in contents.items()]
        for reply in self._grid.send_and_receive(messages, timeout=seconds):
            node = reply.metadata.src_node_id
            if node in contents:
                yield node, None if reply.has_error() else _content(reply)


def _flower(name: str) -> Any:
    """A module of Flower."""
    return checks.extra(f"flwr.{name}", "flower", "integrations.flower")


def _wrap(content: bytes) -> Any:
    app = _flower("app")
    return app.RecordDict({RECORD: app.ConfigRecord({FIELD: content})})


def _content(message: Any) -> bytes:
    """The bytes of a message; b"" of a message of another app."""
    records = message.content.config_records
    content = records[RECORD].get(FIELD) if RECORD in records else None
    return content if isinstance(content, bytes) else b""
