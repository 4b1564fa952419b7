"""Both ends of a Flower app: relay messages to a silo's process, and run a search over a grid of nodes."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxdpbo import _checks, silos
from jaxdpbo.silos import _silo, _socket

RECORD, FIELD = "jaxdpbo", "content"  # where a message has its bytes
LOOK = 1.0  # seconds between two looks for new nodes


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
        reply = silos.forward(socket.format_map(context.node_config), _content(message))
        return _flower("app").Message(_wrap(reply), reply_to=message)

    return app


def run_on_grid(
    agreement: silos.Agreement, grid: object, *, record: str | Path | None = None, wait: float = 60.0
) -> silos.SiloRun:
    """The server's end: run a search over the nodes of a grid, in the main function of a ``ServerApp``.

    Formal guarantee: ``agreement.guarantees``, which the silos enforce against any server.

    The search starts as soon as all silos of the roster are there, or with those that are there after ``wait`` seconds.
    A silo that goes is left out of the next sum, if enough silos remain, and takes part again once it is back. A silo
    that refused a request, or failed, is asked no more.

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
      wait: the most seconds to wait for silos that are absent, and for an answer.

    Raises:
      silos.SiloError: too few silos are there, or their answers are used up; with what silos refused.
      ValueError: ``wait`` is out of range, or the record is of other terms.
    """
    nodes = _Nodes(agreement, grid, _checks.positive("wait", wait))
    try:
        return silos.run_silos(agreement, nodes.find, nodes.send, record=record)
    except silos.SiloError as error:
        refusals = "".join(f"; {name}: {text}" for name, text in sorted(nodes.refusals.items()))
        raise silos.SiloError(f"{error}{refusals}") from None


class _Nodes:
    """Which node speaks for which silo.

    Attributes:
      refusals: what silos refused, by name. They are asked no more.
    """

    def __init__(self, agreement: silos.Agreement, grid: Any, wait: float) -> None:
        self._agreement, self._grid, self._wait = agreement, grid, wait
        self._cards: dict[int, tuple[str, silos.Credential]] = {}  # by node
        self._expected = set(agreement.roster.names)
        self.refusals: dict[str, str] = {}

    def find(self) -> dict[str, silos.Credential]:
        """The keys of the silos that are there: all that took part before, or those that came in time."""
        deadline = time.monotonic() + self._wait
        while True:
            self._meet(deadline - time.monotonic())
            found = {name: key for name, key in self._cards.values() if name not in self.refusals}
            if self._expected <= found.keys() or time.monotonic() > deadline:
                self._expected = set(found)
                return found
            time.sleep(LOOK)

    def send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Pass requests to silos, and return the answers that came in time."""
        nodes = {name: node for node, (name, _) in self._cards.items() if name in requests}
        names, answers = {node: name for name, node in nodes.items()}, {}
        for node, content in self._ask({node: requests[name] for name, node in nodes.items()}, self._wait):
            name = names.pop(node)
            try:
                reply = _socket.parse_reply(content)
            except silos.Refused as refusal:
                self.refusals[name] = str(refusal)
                self._expected.discard(name)
            else:
                answers[name] = reply.answer or b""
        for node in names:  # gone, or slow: meet again
            del self._cards[node]
        return answers

    def _meet(self, seconds: float) -> None:
        """Ask new nodes which silo they speak for; forget nodes that went."""
        present = set(self._grid.get_node_ids())
        self._cards = {node: card for node, card in self._cards.items() if node in present}
        new = dict.fromkeys(present - self._cards.keys(), _socket.ASK_CREDENTIAL)
        for node, content in self._ask(new, max(seconds, LOOK)) if new else ():
            try:
                card = _socket.parse_reply(content).card
            except silos.Refused:
                continue
            if card is not None and _silo.verify(self._agreement, *card) is not None:
                self._cards[node] = card

    def _ask(self, contents: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
        """Send a message to each node; the replies that come in time, by node."""
        new = _flower("app").Message
        messages = [new(_wrap(content), node, "query", ttl=seconds) for node, content in contents.items()]
        for reply in self._grid.send_and_receive(messages, timeout=seconds):
            if not reply.has_error():
                yield reply.metadata.src_node_id, _content(reply)


def _flower(name: str) -> Any:
    """A module of Flower."""
    return _checks.extra(f"flwr.{name}", "flower", "integrations.flower")


def _wrap(content: bytes) -> Any:
    app = _flower("app")
    return app.RecordDict({RECORD: app.ConfigRecord({FIELD: content})})


def _content(message: Any) -> bytes:
    """The bytes of a message; b"" of a message of another app."""
    records = message.content.config_records
    content = records[RECORD].get(FIELD) if RECORD in records else None
    return content if isinstance(content, bytes) else b""
