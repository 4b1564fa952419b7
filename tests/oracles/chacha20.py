"""ChaCha20's block function, from RFC 8439 sections 2.1 to 2.3, on the words of many counters at once."""

import numpy as np

SIGMA = np.frombuffer(b"expand 32-byte k", "<u4")
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def quarter_round(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, ...]:
    """Section 2.1, on arrays of 32-bit words."""
    a = a + b
    d = _rolled(d ^ a, 16)
    c = c + d
    b = _rolled(b ^ c, 12)
    a = a + b
    d = _rolled(d ^ a, 8)
    c = c + d
    b = _rolled(b ^ c, 7)
    return a, b, c, d


def blocks(key: bytes, counters: np.ndarray, nonce: tuple[int, int, int]) -> np.ndarray:
    """Words ``(k, 16)`` of the blocks of 32-bit ``counters (k,)``; the nonce as three little-endian words."""
    counters = np.asarray(counters, np.uint32)
    fixed = [*SIGMA, *np.frombuffer(key, "<u4")]
    state = [np.full(counters.shape, word, np.uint32) for word in fixed]
    state += [counters, *(np.full(counters.shape, word, np.uint32) for word in nonce)]
    begun = [word.copy() for word in state]
    for _ in range(10):
        for places in (*COLUMNS, *DIAGONALS):
            for place, word in zip(places, quarter_round(*(state[i] for i in places)), strict=True):
                state[place] = word
    return np.stack([a + b for a, b in zip(state, begun, strict=True)], axis=-1)


def stream(key: bytes, count: int, nonce: tuple[int, int, int]) -> np.ndarray:
    """The first ``count`` words of the key stream from counter 0."""
    return blocks(key, np.arange(-(-count // 16)), nonce).reshape(-1)[:count]


def _rolled(word: np.ndarray, count: int) -> np.ndarray:
    return (word << np.uint32(count)) | (word >> np.uint32(32 - count))
