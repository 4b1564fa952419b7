"""Files written completely or not at all, and private files: owned by you, closed to others, not links."""

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o600  # file mode: closed to others


class NotPrivate(ValueError):
    """A private file belongs to another user, is open to others, or is not a regular file."""


def write_once(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file completely or not at all. Only a killed process leaves an unfinished file behind.

    Raises:
      FileExistsError: the file exists, and stays unchanged.
      NotPrivate: ``mode`` is ``PRIVATE``, and any user may replace files in the folder.
    """
    if mode == PRIVATE:
        expect_guarded_folder(path)
    unfinished = _write_unfinished(path, content, mode)
    try:
        os.link(unfinished, path)  # unlike a rename, a link never replaces
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path)


def replace(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file atomically: a concurrent reader gets the old or the new content, complete."""
    unfinished = _write_unfinished(path, content, mode)
    try:
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path)


def unlink(path: Path) -> None:
    """Remove a file, if present, and the unfinished files of processes killed during its writing."""
    unfinished = re.compile(re.escape(path.name) + r"\.[0-9a-f]{16}")
    for stale in (path, *(other for other in path.parent.iterdir() if unfinished.fullmatch(other.name))):
        stale.unlink(missing_ok=True)
    sync_folder(path)


def write_all(descriptor: int, content: bytes, start: int) -> None:
    """Write all bytes at offset ``start``. A full file system may take a part of them and then raise."""
    while content:
        written = os.pwrite(descriptor, content, start)
        content, start = content[written:], start + written


def sync_folder(path: Path) -> None:
    """Flush the folder of a file to disk, and with it the name of the file."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_private(path: str | Path, most: int | None = None) -> bytes:
    """Read a private file, or its first ``most`` bytes.

    Raises:
      FileNotFoundError: there is no such file.
      NotPrivate: see ``open_private``.
    """
    with open(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read(-1 if most is None else most)


@contextlib.contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Hold a private lock file, which stays. Raise a BlockingIOError if another process, or thread, holds it.

    Raises:
      NotPrivate: see ``open_private``.
    """
    import fcntl  # POSIX only

    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, f"{path.name} is in use by another process") from None
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_private_folder(parent: str | Path, prefix: str) -> Iterator[Path]:
    """Make a folder that is closed to others, and remove it at the end. First remove those that killed processes left.

    A process locks its folder while it lives. On a file system without locks no other folder is removed.

    Raises:
      NotPrivate: see ``expect_guarded_folder``.
    """
    expect_guarded_folder(Path(parent) / prefix)
    for stale in Path(parent).glob(f"{prefix}*"):
        # An OSError: locked, removed meanwhile, of another user, or no folder
        with contextlib.suppress(OSError), _lock_folder(stale):
            shutil.rmtree(stale)
    with contextlib.ExitStack() as stack:
        folder = None
        while folder is None:  # another process may remove a folder that has no lock yet
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            try:
                stack.enter_context(_lock_folder(folder))
            except (BlockingIOError, FileNotFoundError):
                folder = None
            except OSError:  # no locks here
                pass
        yield folder


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder of this user. Raise an OSError if another process has the lock, or the folder is gone."""
    import fcntl  # POSIX only

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
        os.stat(folder)  # another process may have removed it before the lock
        yield
    finally:
        os.close(descriptor)


def open_private(path: str | Path, flags: int) -> int:
    """Open a private file and return its descriptor. ``os.O_CREAT`` creates a private file.

    Raises:
      FileNotFoundError: there is no such file.
      NotPrivate: the file belongs to another user, is open to others, or is not a regular file; or any user may replace
        files in its folder. The message says which, and quotes no content.
    """
    name = Path(path).name
    expect_guarded_folder(path)
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise NotPrivate(f"{name} is a symbolic link: give its target instead") from None
    try:
        status = os.fstat(descriptor)
        _expect_own(name, status)
        if status.st_mode & 0o077:
            raise NotPrivate(f"{name} must be closed to others, who may have read it: chmod 600")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def expect_own(path: str | Path) -> None:
    """Refuse a file that another user may have written. A missing file passes.

    Raises:
      NotPrivate: the file belongs to another user or is not a regular file, or any user may replace it in its folder.
    """
    expect_guarded_folder(path)
    try:
        _expect_own(Path(path).name, os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return


def expect_guarded_folder(path: str | Path) -> None:
    """Refuse a file if every user may replace files in its folder. The sticky bit, as on /tmp, prevents that.

    Raises:
      NotPrivate: all users may write to the folder, and it has no sticky bit.
    """
    path = Path(path).absolute()
    mode = os.stat(path.parent).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise NotPrivate(f"{path.name} must lie where no other user can replace it: chmod o-w its folder")


def _expect_own(name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotPrivate(f"{name} must be a file, and no link")
    if status.st_uid != os.geteuid():
        raise NotPrivate(
            f"{name} must be yours, and belongs to another user, who may have written it: give another name, or chown "
            "it if you wrote it"
        )


def _write_unfinished(path: Path, content: bytes, mode: int) -> Path:
    """Write the content to a new temporary file in the same folder, flush it to disk, and return its path."""
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
