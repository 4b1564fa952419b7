"""Both ends of a Flower app: relay messages to a silo's process, and run a search over a grid of nodes."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxdpbo import checks, silos
from jaxdpbo.silos import conversation

RECORD, FIELD = "jaxdpbo", "content"  # where a message has its bytes
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
    agreement: silos.Agreement,
    grid: object,
    *,
    record: str | Path | None = None,
    wait: float = 60.0,
    patience: float = 86400.0,
) -> silos.SiloRun:
    """The server's end: run a search over the nodes of a grid, in the main function of a ``ServerApp``.

    Formal guarantee: ``agreement.guarantees``, which the silos enforce against any server.

    The search starts as soon as all silos of the roster are there, and charges nobody before. Later a silo that goes is
    left out of the next sum, if enough silos remain, and takes part again once it is back, unless its process died in a
    sum. A node with a silo that refused a request, or stopped, is asked no more. A node speaks for a silo that signs a
    fresh number of the server: let Flower authenticate its nodes, so that strangers use up no answers.

    >>> from flwr.serverapp import ServerApp
    >>> from jaxdpbo.integrations import flower
    >>> server = ServerApp()
    >>> @server.main()
    ... def main(grid, context):
    ...     run = flower.run_on_grid(agreement, grid, record="sums.jsonl")  # the agreement of ``silos.agree``
    ...     run.save("answer.json")

    Args:
      agreement: the terms, the same as in all silos.
      grid: the Grid that Flower gives to the main function.
      record: a file for the public record of the run. Start the app again with the same file after the server was
        killed: the search goes on after the last sum on record.
      wait: the most seconds to wait for an answer, and between two sums for a silo that was there, 10 or more. Make the
        number larger than the seconds of a sum: an answer that comes later is spent.
      patience: the most seconds to wait for all silos before the first sum.

    Raises:
      silos.SiloError: silos are missing before the first sum, too few are there later, or their answers are used up;
        with the last refusal of each silo.
      ValueError: ``wait`` is out of range, or the record is of other terms.
      BlockingIOError: another server runs with this record.
    """
    if (wait := checks.positive("wait", wait)) < LEAST:
        raise ValueError(f"wait must be {LEAST:g} seconds or more, got {wait:g}")
    patience = checks.positive("patience", patience)
    return conversation.converse(agreement, _Grid(grid), record=record, wait=wait, patience=patience)


class _Grid:
    """The nodes of a grid."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def peers(self) -> Collection[int]:
        return list(self._grid.get_node_ids())

    def name(self, peer: int) -> None:
        """Any node may speak for any silo."""
        del peer

    def ask(self, contents: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | None]]:
        new = _flower("app").Message
        messages = [new(_wrap(content), node, "query", ttl=seconds) for node, content in contents.items()]
        for reply in self._grid.send_and_receive(messages, timeout=seconds):
            yield reply.metadata.src_node_id, None if reply.has_error() else _content(reply)


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
