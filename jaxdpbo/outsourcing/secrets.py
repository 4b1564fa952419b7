"""Secrets of 32 bytes, in files."""

import os
from contextlib import suppress
from pathlib import Path

from jaxdpbo import _files
from jaxdpbo.outsourcing.lines import ProtocolError

SECRET_BYTES = 32


def new_secret(path: str | Path) -> bytes:
    """Draw a secret of 32 bytes and write it to a new file of mode 0600.

    Raises:
      FileExistsError: there is such a file.
    """
    secret = os.urandom(SECRET_BYTES)
    _files.write_once(Path(path), secret, 0o600)
    return secret


def read_secret(path: str | Path) -> bytes:
    """What ``new_secret`` wrote.

    Raises:
      FileNotFoundError: there is no such file.
      ProtocolError: others may read it, or it is not a file of 32 bytes.
    """
    try:
        secret = _files.read_private(path, SECRET_BYTES + 1)
    except _files.NotPrivate as error:
        raise ProtocolError(str(error)) from None
    if len(secret) != SECRET_BYTES:
        raise ProtocolError(f"{Path(path).name} must be {SECRET_BYTES} bytes long: restore it from a copy")
    return secret


def kept_secret(path: str | Path) -> bytes:
    """The secret in a file, drawn where there is no file. Raises as ``read_secret``."""
    try:
        return read_secret(path)
    except FileNotFoundError:
        with suppress(FileExistsError):  # made by another process meanwhile
            return new_secret(path)
        return read_secret(path)
