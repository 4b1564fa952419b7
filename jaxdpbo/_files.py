"""Files that stand whole or not at all, and files that are closed to others."""

import os
import re
import stat
from pathlib import Path


class NotPrivate(ValueError):
    """A file that should be closed to others is open to them, or is no file."""


def write_once(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file, whole or not at all: where this raises, nothing is left, but for a process that was killed.

    Raises:
      FileExistsError: there is such a file; it stays as it was.
    """
    unfinished = _written(path, content, mode)
    try:
        os.link(unfinished, path)  # unlike a rename it never replaces
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path)


def replace(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file in the place of another; who reads it meanwhile finds one of the two, whole."""
    unfinished = _written(path, content, mode)
    try:
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path)


def unlink(path: Path) -> None:
    """Remove a file, if there is one, and what processes left that were killed while they wrote it."""
    unfinished = re.compile(re.escape(path.name) + r"\.[0-9a-f]{16}")
    for each in (path, *(each for each in path.parent.iterdir() if unfinished.fullmatch(each.name))):
        each.unlink(missing_ok=True)
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


def read_private(path: str | Path, most: int | None = None) -> bytes:
    """The content of a file that is closed to others, or its first ``most`` bytes.

    Raises:
      FileNotFoundError: there is no such file.
      NotPrivate: others may read it, or it is no file.
    """
    name = Path(path).name
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivate(f"{name} must be a file")
        if found.st_mode & 0o077:
            raise NotPrivate(f"{name} must be closed to others: chmod 600, and make a new one if somebody has read it")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(-1 if most is None else most)
    finally:
        os.close(descriptor)


def _written(path: Path, content: bytes, mode: int) -> Path:
    """Under another name, on the disk."""
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(descriptor, content, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return unfinished
