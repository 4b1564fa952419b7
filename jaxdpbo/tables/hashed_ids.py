"""Ids of any kind, such as 64-bit numbers or text, as slots of people: a keyed hash into a public number of slots."""

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KEY = 16  # bytes
NOBODY = -1
LARGEST = 2**53  # to here a float holds a whole number exactly


@dataclass(frozen=True)
class HashedIds:
    """A column of ids, and the key of their hash; made by ``hashed``. Pickles of a table hold the key."""

    column: str
    key: bytes = field(repr=False)

    def slots(self, ids: Any, count: int) -> np.ndarray:
        """The slot in ``[0, count)`` of each id, int64; -1 for an id that is missing.

        Whole numbers count by their value in 64 bits, text by its UTF-8, bytes as they are. A float is a whole number
        up to 2^53 alone: beyond, two ids could be one float.
        """
        values = np.asarray(ids)
        if values.dtype.kind in "iub":
            return _to_slots(siphash(values.astype(np.int64, copy=False).view(np.uint64), self.key), count)
        if values.dtype.kind == "f":
            with np.errstate(all="ignore"):
                whole = (np.abs(values) < LARGEST) & (values == np.floor(values))  # False for NaN
            numbers = np.where(whole, values, 0).astype(np.int64)
            return np.where(whole, self.slots(numbers, count), NOBODY)
        return self._slots_of_objects(values.ravel().tolist(), count)

    def _slots_of_objects(self, ids: list[Any], count: int) -> np.ndarray:
        known: dict[Any, int] = {}
        return np.array([self._slot(one, count, known) for one in ids], np.int64)

    def _slot(self, one: Any, count: int, known: dict[Any, int]) -> int:
        """The slot of a Python value; each text is hashed once."""
        if type(one) in (int, float):
            if type(one) is int and not -(2**63) <= one < 2**64:
                return NOBODY
            wide = np.uint64(one) if type(one) is int and one >= 2**63 else one
            return int(self.slots(np.array([wide]), count)[0])
        if type(one) not in (str, bytes):
            return NOBODY
        if one not in known:
            content = one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one
            digest = hashlib.blake2b(content, digest_size=8, key=self.key).digest()
            known[one] = int(_to_slots(np.frombuffer(digest, "<u8"), count)[0])
        return known[one]


def hashed(column: str, *, key: bytes | None = None) -> HashedIds:
    """Name a column of ids of any kind, for ``person=`` of a table: each id goes to one of ``users`` slots.

    >>> import numpy as np
    >>> from jaxdpbo import tables
    >>> ids = tables.hashed("patient", key=bytes(16))
    >>> ids.slots(np.array([2**62, 7, 2**62]), 1000)
    array([482, 200, 482])

    Formal guarantee: of a run on the table, for one slot's rows in place of others, so for the rows of one id in place
    of any others or of none. Whether an id has rows is protected. A person who is replaced by one with ANOTHER id moves
    two slots and counts as two users; the guarantee names this assumption. Two ids may share a slot: they count as one
    user, who is protected as a whole, and ``max_rows`` holds for both together. Of ``m`` ids, about ``m (m - 1) / (2
    users)`` pairs share a slot.

    Args:
      column: the column of the ids: whole numbers, or text. A missing id is nobody's, and its row is left out.
      key: 16 bytes. By default the operating system draws them, they stay in memory, and nobody can choose ids that
        meet in a slot. Give the key of another process for the same slots there.

    Raises:
      TypeError: ``column`` is no text, or ``key`` no bytes.
      ValueError: ``key`` has another length.
    """
    if not isinstance(column, str):
        raise TypeError(f"column must be the name of a column, got {column!r}")
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"key must be bytes, got a {type(key).__name__}")
    if key is not None and len(key) != KEY:
        raise ValueError(f"key must have {KEY} bytes, got {len(key)}")
    return HashedIds(column, os.urandom(KEY) if key is None else key)


def _to_slots(hashes: np.ndarray, count: int) -> np.ndarray:
    return (hashes % np.uint64(count)).astype(np.int64)


def siphash(values: np.ndarray, key: bytes) -> np.ndarray:
    """SipHash-2-4 of each uint64 as a message of 8 bytes (Aumasson and Bernstein 2012), in arrays."""
    first, second = np.frombuffer(key, "<u8")
    # Of arrays of one element, since NumPy warns of scalars that overflow, as a hash must.
    state = [np.asarray([word]) ^ part for word, part in zip(_START, (first, second, first, second), strict=True)]
    for word in (values, np.array([8 << 56], np.uint64)):  # the message, and its length in the last byte
        state[3] = state[3] ^ word
        state = _rounds(state, 2)
        state[0] = state[0] ^ word
    state[2] = state[2] ^ np.uint64(0xFF)
    a, b, c, d = _rounds(state, 4)
    return a ^ b ^ c ^ d


_START = np.array([0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573], np.uint64)


def _rounds(state: list[np.ndarray], count: int) -> list[np.ndarray]:
    a, b, c, d = state
    for _ in range(count):
        a, c = a + b, c + d
        b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
        a, c = _rotate(a, 32) + d, c + b
        d, b = _rotate(d, 21) ^ a, _rotate(b, 17) ^ c
        c = _rotate(c, 32)
    return [a, b, c, d]


def _rotate(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
