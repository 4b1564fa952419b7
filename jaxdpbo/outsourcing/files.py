"""Files that stand whole or not at all, and secrets of 32 bytes in them."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from jaxdpbo.outsourcing.lines import ProtocolError

SECRET_BYTES = 32


def write_once(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file, whole or not at all: where this raises, nothing is left, but for a process that was killed.

    Raises:
      FileExistsError: there is such a file; it stays as it was.
    """
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(descriptor, content, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(unfinished, path)  # unlike a rename it never replaces
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path)


def write_all(descriptor: int, content: bytes, start: int) -> None:
    """Every byte, from ``start`` on; a file system at its limit takes a part of them before it raises."""
    while content:
        written = os.pwrite(descriptor, content, start)
        content, start = content[written:], start + written


def sync_folder(path: Path) -> None:
    """The name of a file on the disk."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_secret(path: str | Path) -> bytes:
    """Draw a secret of 32 bytes and write it to a new file of mode 0600.

    Raises:
      FileExistsError: there is such a file.
    """
    secret = os.urandom(SECRET_BYTES)
    write_once(Path(path), secret, 0o600)
    return secret


def read_secret(path: str | Path) -> bytes:
    """What ``new_secret`` wrote.

    Raises:
      FileNotFoundError: there is no such file.
      ProtocolError: others may read it, or it is not a file of 32 bytes.
    """
    name = Path(path).name
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ProtocolError(f"{name} must be a file")
        if found.st_mode & 0o077:
            raise ProtocolError(
                f"{name} must be closed to others: chmod 600, and make a new one if somebody has read it"
            )
        secret = os.read(descriptor, SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(secret) != SECRET_BYTES:
        raise ProtocolError(f"{name} must be {SECRET_BYTES} bytes long: restore it from a copy")
    return secret


def kept_secret(path: str | Path) -> bytes:
    """The secret in a file, drawn where there is no file. Raises as ``read_secret``."""
    try:
        return read_secret(path)
    except FileNotFoundError:
        with suppress(FileExistsError):  # made by another process meanwhile
            return new_secret(path)
        return read_secret(path)
