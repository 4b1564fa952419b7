"""Masks that cancel in the sum of all silos, so that the server sees the sum alone.

Each pair of silos agrees on a secret (X25519), from which both derive the same stream of words (HKDF-SHA256, ChaCha20).
The first silo by name adds the stream, and the other subtracts the stream, modulo 2^64.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxdpbo import checks
from jaxdpbo.silos.roster import EXTRA


def generate_key() -> bytes:
    """A new X25519 private key, 32 bytes from the operating system."""
    keys = checks.extra("cryptography.hazmat.primitives.asymmetric.x25519", EXTRA, "silos")
    return keys.X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    """The public key of a private key, 32 bytes."""
    keys = checks.extra("cryptography.hazmat.primitives.asymmetric.x25519", EXTRA, "silos")
    return keys.X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def make_mask(name: str, private: bytes, publics: Mapping[str, bytes], context: bytes, count: int) -> np.ndarray:
    """The mask of a silo, uint64 ``(count,)``: the masks of all silos add up to 0 modulo 2^64.

    Args:
      name: of the silo.
      private: its private key.
      publics: the public keys of all silos in the sum, its own included, by name.
      context: what the sum is of. Silos that were given different contexts have masks that do not cancel.
      count: words of the mask.

    Raises:
      ValueError: a public key that agrees on no secret.
    """
    mask = np.zeros(count, np.uint64)
    for other, public in publics.items():
        if other != name:
            stream = _stream(private, public, context + b"|" + "|".join(sorted((name, other))).encode(), count)
            mask = mask + stream if name < other else mask - stream
    return mask


def _stream(private: bytes, public: bytes, info: bytes, count: int) -> np.ndarray:
    x25519: Any = checks.extra("cryptography.hazmat.primitives.asymmetric.x25519", EXTRA, "silos")
    hashes: Any = checks.extra("cryptography.hazmat.primitives.hashes", EXTRA, "silos")
    hkdf: Any = checks.extra("cryptography.hazmat.primitives.kdf.hkdf", EXTRA, "silos")
    ciphers: Any = checks.extra("cryptography.hazmat.primitives.ciphers", EXTRA, "silos")
    other = x25519.X25519PublicKey.from_public_bytes(public)
    shared = x25519.X25519PrivateKey.from_private_bytes(private).exchange(other)
    key = hkdf.HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(shared)
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None)  # a key is for one stream
    return np.frombuffer(cipher.encryptor().update(bytes(8 * count)), "<u8").astype(np.uint64)
