"""What the server asks of silos, as bytes that all of them hash in the same way."""

import base64
import contextlib
import hashlib
import json
import math
from typing import NamedTuple

import numpy as np

from jaxdpbo.ledger import ledger_file

LARGEST = 2**24  # bytes of a message, for 50 silos and 10,000 points of 100 numbers in float64
PROTOCOL = 1  # of messages, masks and what a silo adds up: raise it with a change of any of these
ENDED = "so it answers nothing more in this run: start a new run"


class Sentences(dict[str, str]):
    """Why a silo did not answer, by a short name: all that a silo says of a request, and that a server repeats."""


# A silo sends the name of a sentence: no text of a loss, a row or a file can travel, and none of a hostile silo is
# printed.
SENTENCES = Sentences(
    {
        "long": "the request is longer than any of this run",
        "garbage": "the request is not a request of jaxdpbo",
        "run": "this silo agreed to another run",
        "few": "the sum has fewer silos than agreed",
        "stranger": "a silo of the sum is not on the roster",
        "unsigned": "a silo of the sum did not sign its key for these terms",
        "key": "the request does not have this silo's key for the run",
        "weak": "a key of the request agrees on no secret",
        "step": "the step or the attempt is not one of this run",
        "query": "the arrays of the query are not those of the agreed search",
        "queries": "a sum must be of one query",
        "outside": "a point of the query is outside of the agreed box",
        "kind": "the step adds up something else in the agreed run",
        "repeated": "this attempt of this step was answered before",
        "changed": "this step was answered for another query",
        "failed": f"a sum of this silo failed, {ENDED}",
        "unended": "a sum of this silo did not end: if another process of this silo still works on it, ask again "
        "later; if that process died, start a new run",
        "spent": "all agreed answers of this silo are given",
        "often": "this step was answered before, and the answers left are for other steps",
        "busy": "another process of this silo answers at the same time",
        "stopped": "this silo stopped",
        "silent": "this silo did not reply in time",
        "nonsense": "the reply is not the reply of a silo",
        "length": "the answer has another length than the agreed sum",
        "terms": "this silo's key is not signed for these terms: compare the hashes of the terms",
        "proof": "somebody showed this silo's key without being this silo",
        "second": "another connection speaks for this silo already",
    }
)


REQUEST = {"run": str, "step": int, "attempt": int, "credentials": dict, "leaves": list}
KEY = {"public": str, "signature": str}


class Refused(ValueError):
    """A silo does not answer: the request is not one that it agreed to. Nothing was sent. Says one of ``SENTENCES``.

    Attributes:
      kind: the name of the sentence.
    """

    def __init__(self, kind: str) -> None:
        """Refuse by a sentence of the list. Raise a KeyError for any other text."""
        super().__init__(SENTENCES[kind])
        self.kind = kind

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """Pickle by the name of the sentence."""
        return type(self), (self.kind,)


class Credential(NamedTuple):
    """The public key of a silo for one run, and the silo's signature under it, both in base64."""

    public: str
    signature: str


class Request(NamedTuple):
    """A request for a silo's part of a sum. All fields are public.

    Attributes:
      run: the name of the run.
      step: the number of the step, from 0.
      attempt: the number of the attempt at this step, from 0.
      credentials: the ``Credential`` of each silo in the sum, by name.
      leaves: the arrays of the stacked queries, each a dtype, a shape, and bytes in base64.
    """

    run: str
    step: int
    attempt: int
    credentials: dict[str, Credential]
    leaves: tuple[tuple[str, tuple[int, ...], str], ...]

    def to_bytes(self) -> bytes:
        """The request as JSON, with sorted names."""
        content = self._asdict() | {"credentials": {name: key._asdict() for name, key in self.credentials.items()}}
        return json.dumps(content, sort_keys=True).encode()

    def digest(self) -> bytes:
        """The SHA-256 of the request."""
        return hashlib.sha256(self.to_bytes()).digest()


def parse_request(content: bytes, most: int) -> Request:
    """Read a request of at most so many bytes. Raise a Refused if the bytes are no request."""
    if len(content) > most:
        raise Refused("long")
    try:
        fields = ledger_file.parse_fields(content, REQUEST)
        if not all(ledger_file.has_fields(key, KEY) for key in fields["credentials"].values()):
            raise ValueError("credentials")
        fields["credentials"] = {name: Credential(**key) for name, key in fields["credentials"].items()}
        fields["leaves"] = tuple(_check_leaf(*leaf) for leaf in fields["leaves"])
    except (ValueError, TypeError):
        raise Refused("garbage") from None
    request = Request(**fields)
    if request.to_bytes() != content:  # all silos hash the same bytes
        raise Refused("garbage")
    return request


def find_step(content: bytes, steps: int) -> int | None:
    """The step of a request, for a log; None of other bytes, and of a step that is not one of so many."""
    with contextlib.suppress(Refused):
        step = parse_request(content, len(content)).step
        return step if 0 <= step < steps else None
    return None


def _check_leaf(dtype: object, shape: object, data: object) -> tuple[str, tuple[int, ...], str]:
    """Check the types of an array as text."""
    if not (type(dtype) is str and type(shape) is list and type(data) is str):
        raise ValueError("leaves")
    if not all(type(size) is int for size in shape):
        raise ValueError("leaves")
    return dtype, tuple(shape), data


def write_leaves(leaves: list[np.ndarray]) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    """Arrays as text."""
    arrays = [np.ascontiguousarray(leaf) for leaf in leaves]
    return tuple((str(a.dtype), a.shape, base64.b64encode(a.tobytes()).decode()) for a in arrays)


def read_leaves(leaves: tuple[tuple[str, tuple[int, ...], str], ...], like: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays from text, stacked on a first axis; ``like`` has the shape and dtype of a row of each.

    Raises:
      Refused: other arrays.
    """
    counts, arrays = {shape[:1] for _, shape, _ in leaves}, []
    if len(leaves) != len(like) or len(counts) != 1:
        raise Refused("query")
    for (dtype, shape, data), row in zip(leaves, like, strict=True):
        content = b""
        with contextlib.suppress(ValueError):
            content = base64.b64decode(data, validate=True)
        if dtype != str(row.dtype) or shape[1:] != row.shape or sum(shape[:1]) < 1:
            raise Refused("query")
        if len(content) != math.prod(shape) * row.dtype.itemsize:
            raise Refused("query")
        if row.dtype == bool and any(byte > 1 for byte in content):
            raise Refused("query")
        arrays.append(np.frombuffer(content, row.dtype).reshape(shape))
    return arrays
