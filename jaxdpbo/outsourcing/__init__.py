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
If you delete the record, the curator starts a new one and answers ``queries`` more queries: only the record's file
limits their number.

``protocol`` has the messages, ``released_file`` the file, ``curator`` and ``modeler`` the two sides. Any two streams of
text carry the lines. ``jaxdpbo modeler --curator COMMAND`` starts the curator as a child process and uses its standard
input and output; where the command begins with ``ssh``, encryption and authentication are OpenSSH's.
"""

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
from jaxdpbo.outsourcing.released_file import Published, publish, read_published

__all__ = [
    "MAX_LINE_LENGTH",
    "MAX_QUERIES",
    "Answer",
    "CuratorStopped",
    "Journal",
    "ProtocolError",
    "Published",
    "RecordInUse",
    "SearchAnswer",
    "frame",
    "open_journal",
    "publish",
    "read_lines",
    "read_published",
    "search",
    "sender",
    "serve",
]
