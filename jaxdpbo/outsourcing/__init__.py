"""Search without sharing the rows: a curator publishes them transformed and answers queries, a modeler asks.

Kharkovskii et al. (2020), figure 1. The parties exchange lines of JSON:

==========================  ==========================================================================================
sender                      line
==========================  ==========================================================================================
curator, once, in a file    a header (schema, version, transform, its guarantee), then a released row on each line
curator, on each contact    ``{"schema", "version", "released", "rows", "queries", "answers"}``: the file's SHA-256, how
                            many queries it will answer, and every answer so far
modeler                     ``{"query": 8, "row": 123}``: the eighth query
curator                     ``{"query": 8, "row": 123, "output": 0.25}``, or ``{"error": "..."}``
modeler, at the end         ``{"answer": 123}``
==========================  ==========================================================================================

The curator draws the released rows once: a second draw would spend the budget again, so ``publish`` never overwrites.
The curator's record is the only memory: the curator writes every answer to disk before sending it, the modeler keeps
nothing, and you may stop either party at any moment. Refused queries cost nothing. Nothing protects the outputs. If you
delete the record, the curator starts a new record and answers ``queries`` more queries: only the record's file limits
the number of queries.

``protocol`` has the messages, ``released_file`` the file, ``curator`` and ``modeler`` the two sides. Any two
streams of text carry the lines. ``jaxdpbo modeler --curator COMMAND`` starts the curator as a child process and uses
its standard input and output; with an ``ssh`` command, OpenSSH provides encryption and authentication.
"""

from jaxdpbo import namespace
from jaxdpbo.outsourcing.curator import Journal, frame, open_journal, serve
from jaxdpbo.outsourcing.modeler import SearchAnswer, search
from jaxdpbo.outsourcing.protocol import (
    MAX_LINE_LENGTH,
    MAX_QUERIES,
    Answer,
    CuratorStopped,
    ProtocolError,
    RecordInUse,
    read_lines,
    sender,
)
from jaxdpbo.outsourcing.released_file import Publication, publish, read_publication

__all__ = [
    "MAX_LINE_LENGTH",
    "MAX_QUERIES",
    "Answer",
    "CuratorStopped",
    "Journal",
    "ProtocolError",
    "Publication",
    "RecordInUse",
    "SearchAnswer",
    "frame",
    "open_journal",
    "publish",
    "read_lines",
    "read_publication",
    "search",
    "sender",
    "serve",
]
__dir__ = namespace.list_public(__name__)
