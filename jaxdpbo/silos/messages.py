"""What the server asks of silos, as bytes that all of them hash in the same way."""

import base64
import hashlib
import json
import math
from typing import NamedTuple

import numpy as np

from jaxdpbo.ledger import ledger_file

LARGEST = 2**24  # bytes of a message, for 50 silos and 10,000 points of 100 numbers in float64


REQUEST = {"run": str, "step": int, "attempt": int, "credentials": dict, "leaves": list}
KEY = {"public": str, "signature": str}


class Refused(ValueError):
    """A silo does not answer: the request is not one that it agreed to. Nothing was sent. Quotes no user's values."""


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
        raise Refused(f"a request of this run must have {most} bytes or fewer, got {len(content)}")
    try:
        fields = ledger_file.parse_fields(content, REQUEST)
        if not all(ledger_file.has_fields(key, KEY) for key in fields["credentials"].values()):
            raise ValueError("credentials")
        fields["credentials"] = {name: Credential(**key) for name, key in fields["credentials"].items()}
        fields["leaves"] = tuple(_check_leaf(*leaf) for leaf in fields["leaves"])
    except (ValueError, TypeError):
        raise Refused("the request is not a request of jaxdpbo") from None
    request = Request(**fields)
    if request.to_bytes() != content:  # all silos hash the same bytes
        raise Refused("the request is not a request of jaxdpbo")
    return request


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
    if len(leaves) != len(like):
        raise Refused(f"a query of this run has {len(like)} arrays, got {len(leaves)}")
    counts, arrays = {shape[:1] for _, shape, _ in leaves}, []
    for (dtype, shape, data), row in zip(leaves, like, strict=True):
        if dtype != str(row.dtype) or shape[1:] != row.shape or len(counts) != 1 or sum(shape[:1]) < 1:
            raise Refused(f"an array of a query must be {row.dtype}{row.shape}")
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            raise Refused("an array of a query must be in base64") from None
        if len(content) != math.prod(shape) * row.dtype.itemsize:
            raise Refused("an array of a query must have the bytes of its shape")
        if row.dtype == bool and any(byte > 1 for byte in content):
            raise Refused("a Boolean of a query must be 0 or 1")
        arrays.append(np.frombuffer(content, row.dtype).reshape(shape))
    return arrays
