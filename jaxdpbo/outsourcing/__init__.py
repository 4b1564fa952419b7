"""Two parties that never share the rows: a curator who publishes them transformed and answers, a modeler who asks.

Kharkovskii et al. (2020), figure 1. What passes between them is lines of JSON:

==========================  ==========================================================================================
who                         says
==========================  ==========================================================================================
curator, once, in a file    a header (schema, version, transform, its guarantee), then a released row on each line
curator, on each contact    ``{"schema", "version", "released", "rows", "queries", "answers"}``: the file's SHA-256, how
                            many queries it will answer, and every answer so far
modeler                     ``{"query": 8, "row": 123}``: its eighth query
curator                     ``{"query": 8, "row": 123, "output": 0.25}``, or ``{"error": "..."}``
modeler, at the end         ``{"answer": 123}``
==========================  ==========================================================================================

The released rows are drawn once: making them again would spend their budget again, so ``publish`` never overwrites. The
curator's record is the one memory: an answer is on the disk before it is sent, the modeler keeps nothing, and either
may be stopped at any moment. A query that is refused costs nothing. The outputs themselves are protected by nothing.
A record that is deleted is begun anew, and answers ``queries`` more: what bounds them is the record's file.

``lines`` is what may be said, ``released`` the file, ``curator`` and ``modeler`` the two sides, ``sockets`` their way
to each other (who may speak, and for how long), ``secrets`` what tells either from a stranger.
"""

from jaxdpbo.outsourcing.curator import Journal, framed, open_journal, serve
from jaxdpbo.outsourcing.lines import MAX_LINE_LENGTH, MAX_QUERIES, Answer, ProtocolError, lines_of, sender
from jaxdpbo.outsourcing.modeler import Found, search
from jaxdpbo.outsourcing.released import Published, publish, read_published
from jaxdpbo.outsourcing.sockets import Session, connect, listen

__all__ = [
    "MAX_LINE_LENGTH",
    "MAX_QUERIES",
    "Answer",
    "Found",
    "Journal",
    "ProtocolError",
    "Published",
    "Session",
    "connect",
    "framed",
    "lines_of",
    "listen",
    "open_journal",
    "publish",
    "read_published",
    "search",
    "sender",
    "serve",
]  # fmt: skip
