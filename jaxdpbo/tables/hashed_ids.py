"""Ids of any kind, such as 64-bit numbers or text, as slots of people: a keyed hash into a public number of slots."""

import decimal
import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxdpbo import user_values

KEY = 16  # bytes
NOBODY = -1
HUGE = 10**300  # a float holds it


@dataclass(frozen=True)
class HashedIds:
    """A column of ids, and the key of their hash; made by ``hashed``. Pickles of a table hold the key."""

    column: str
    key: bytes = field(repr=False)

    def slots(self, ids: Any, count: int, *, exact: bool = True) -> np.ndarray:
        """The slot in ``[0, count)`` of each id, int64; -1 for an id that is missing.

        A number counts by its value, whatever its type, and text that spells a number as this number: a reader that
        finds one odd cell turns all numbers of a part into text, or into floats. Other text counts by its UTF-8.

        Args:
          ids: ``(n,)``.
          count: the number of slots.
          exact: tell all whole numbers of 64 bits apart. False: by their nearest float alone, as a reader may have
            read another part, so that no cell decides which slots the ids of other rows have.
        """
        values = np.asarray(ids)
        if values.dtype.kind in "iub":
            whole = values.astype(np.int64, copy=False)
            return self._slots_of_numbers(whole if exact else _as_floats(whole, values), count)
        if values.dtype.kind == "f":
            return self._slots_of_floats(values.astype(np.float64, copy=False), count)
        known: dict[Any, int] = {}
        return np.array([self._slot(_code(one), count, exact, known) for one in values.ravel().tolist()], np.int64)

    def _slots_of_numbers(self, whole: np.ndarray, count: int) -> np.ndarray:
        return _to_slots(siphash(whole.view(np.uint64), self.key), count)

    def _slots_of_floats(self, values: np.ndarray, count: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            whole = (np.abs(values) < 2.0**63) & (values == np.floor(values))  # False for NaN
        bits = np.where(whole, np.where(whole, values, 0.0).astype(np.int64), values.view(np.int64))
        return np.where(np.isnan(values), NOBODY, self._slots_of_numbers(bits, count))

    def _slot(self, code: Any, count: int, exact: bool, known: dict[Any, int]) -> int:
        """The slot of one code; each is hashed once."""
        if code is None:
            return NOBODY
        if (key := (type(code), code)) not in known:
            if isinstance(code, bytes):
                digest = hashlib.blake2b(code, digest_size=8, key=self.key).digest()
                known[key] = int(_to_slots(np.frombuffer(digest, "<u8"), count)[0])
            else:
                kind = np.float64 if isinstance(code, float) else np.uint64 if code >= 2**63 else np.int64
                known[key] = int(self.slots(np.array([code], kind), count, exact=exact)[0])
        return known[key]


def _code(one: Any) -> int | float | bytes | None:
    """A Python value as a whole number of 64 bits, a float, or text; None if it is missing, or of another kind."""
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(one, (str, bytes)):
        number = _spelled(one)
        text = one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one
        return text if number is None else _code(number)
    if isinstance(one, decimal.Decimal) and one.is_finite():
        one = int(one) if one == one.to_integral_value() else float(one)
    if isinstance(one, int):  # True is 1
        return int(one) if -(2**63) <= one < 2**64 else float(one) if abs(one) < HUGE else None
    return one if isinstance(one, float) and one == one else None


def _spelled(text: str | bytes) -> int | float | None:
    """The number that text spells; None for other text."""
    if user_values.has_underscore(text):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _as_floats(whole: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Whole numbers through their nearest float, as a reader of floats has them; a view of bits from 2^63 on."""
    floats = values.astype(np.float64)
    inside = np.abs(floats) < 2.0**63
    return np.where(inside, np.where(inside, floats, 0.0).astype(np.int64), floats.view(np.int64))


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
      column: the column of the ids: whole numbers, or text; text that spells a number counts as this number. A missing
        id is nobody's, and its row is left out. Where an engine does not declare the column's type, and on Dask, ids
        from 2^53 on count by their nearest float.
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
