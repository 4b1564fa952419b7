"""The modeler: queries the curator up to the permitted number of answers."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import checks
from jaxdpbo.algorithms import po_gp_ucb
from jaxdpbo.noise import keys
from jaxdpbo.outsourcing.protocol import (
    MAX_QUERIES,
    Answer,
    CuratorStopped,
    ProtocolError,
    expect_schema,
    parse,
    parse_answer,
    parse_integer,
    quote,
)
from jaxdpbo.outsourcing.released_file import Publication
from jaxdpbo.types import Query

GREETING = {"schema", "version", "released", "rows", "queries", "answers"}


class SearchAnswer(NamedTuple):
    """The modeler's answer: the row of the largest output, that output, and every answer."""

    row: int
    output: float
    answers: tuple[Answer, ...]


def search(
    published: Publication,
    lines: Iterable[str],
    send: Callable[[str], None],
    *,
    key: jax.Array | None = None,
    on_answer: Callable[[Answer], None] | None = None,
    **options: Any,
) -> SearchAnswer:
    """Query the curator until all queries are answered; start with the answers of earlier contacts.

    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import outsourcing, transforms
    >>> config = transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=5.0)
    >>> path = Path(tempfile.mkdtemp()) / "released.jsonl"
    >>> outsourcing.publish(path, transforms.curate(None, config, np.zeros((3, 2))))
    >>> published = outsourcing.read_publication(path)
    >>> greeting = {"schema": "jaxdpbo.outsourcing", "version": 1, "released": published.digest, "rows": 3}
    >>> lines = [json.dumps(greeting | {"queries": 1, "answers": [{"query": 1, "row": 2, "output": 0.25}]})]
    >>> outsourcing.search(published, lines, lambda line: None, lengthscale=1.0, noise_variance=0.01).row
    2

    Args:
      published: the released file.
      lines: the curator's lines.
      send: sends a line to the curator, without the newline.
      key: the key for the first row; by default from the operating system.
      on_answer: called with every answer, including answers of earlier contacts.
      options: arguments of ``po_gp_ucb.config``: ``lengthscale``, ``noise_variance`` and optional ones.

    Raises:
      ProtocolError: the curator has another released file or another version, or refused a query.
      CuratorStopped: the curator's lines ended. Restart the curator and call ``search`` again to continue.
    """
    init_key, ask_key, release_key = jax.random.split(keys.secret_key() if key is None else checks.key("key", key), 3)
    replies = iter(lines)
    greeting = _reply(replies)
    expect_schema(greeting, "the curator")
    if set(greeting) != GREETING:
        raise ProtocolError("the curator's greeting has other fields than this version's")
    if greeting["released"] != published.digest:
        raise ProtocolError("the released file is not the curator's: use the released.jsonl of this curator and search")
    count, steps = len(published.curated.z), parse_integer(greeting, "queries", 1, MAX_QUERIES)
    parse_integer(greeting, "rows", count, count)
    earlier = greeting["answers"]
    if not isinstance(earlier, list) or len(earlier) > steps:
        raise ProtocolError(f"the curator's answers must be a list of at most {steps}")
    earlier = [parse_answer(before, number, count) for number, before in enumerate(earlier, start=1)]
    config = po_gp_ucb.config(published.curated, steps=steps, **options)
    state = po_gp_ucb.init(init_key, config)
    answers: list[Answer] = []

    def learn(state, answer):
        answers.append(answer)
        if on_answer is not None:
            on_answer(answer)
        row = jnp.asarray([answer.row], jnp.int32)
        query = Query(row[:, None].astype(config.scale.dtype), jnp.ones(1, bool), row)
        output = math.nan if answer.output is None else answer.output
        return _tell(ask_key, config, state, query, jnp.asarray([output], config.scale.dtype))

    for answer in earlier:
        state = learn(state, answer)
    while len(answers) < config.steps:
        query = _ask(jax.random.fold_in(ask_key, len(answers)), config, state)
        request = {"query": len(answers) + 1, "row": int(query.rows[0])}
        send(json.dumps(request))
        answer = parse_answer(_reply(replies), request["query"], count)
        if answer.row != request["row"]:
            raise ProtocolError(f"query {answer.query} asked for row {request['row']}, answered for row {answer.row}")
        state = learn(state, answer)
    row = int(po_gp_ucb.release(release_key, config, state).row)
    send(json.dumps({"answer": row}))
    output = next(answer.output for answer in answers if answer.row == row)
    return SearchAnswer(row, math.nan if output is None else output, tuple(answers))


_ask, _tell = jax.jit(po_gp_ucb.ask), jax.jit(lambda *arguments: po_gp_ucb.tell(*arguments)[0])


def _reply(replies: Iterator[str]) -> dict[str, Any]:
    line = next(replies, None)
    if line is None:
        raise CuratorStopped("the curator stopped: its record holds all answers; start it again to continue")
    reply = parse(line)
    if "error" in reply:
        raise ProtocolError(f"the curator refused: {quote(reply['error'])}")
    return reply
