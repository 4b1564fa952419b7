"""The identity of files: a file read under two names counts its users twice."""

import itertools
import os
import posixpath
import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit


def local_path(address: str) -> str | None:
    """The path of a local address, a plain one or ``file:``; None for other addresses."""
    if re.match("(file|local):", address, re.IGNORECASE):  # "local" of pyarrow and Ray
        return unquote(urlsplit(address).path)
    return None if re.match("[a-z][a-z0-9+.-]*://", address, re.IGNORECASE) else address  # a path may hold "://"


def identify(address: str) -> tuple[int, int] | str:
    """Device and inode of a local file. Other file systems have none: the address, normalised."""
    path = local_path(address)
    try:
        status = None if path is None else os.stat(path)
    except OSError:  # of another machine
        status = None
    if status is not None:
        return status.st_dev, status.st_ino
    if path is not None:
        return posixpath.normpath(path)
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{posixpath.normpath(rest)}"


def without_secrets(address: str) -> str:
    """An address for a message: without the keys that a user may have written before the "@" or after the "?"."""
    if local_path(address) is not None:
        return address
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def find_repeated(addresses: Iterable[str]) -> str:
    """Two names of one file, in words; "" if each file has one name."""
    seen: dict[tuple[int, int] | str, str] = {}
    for address in addresses:
        identity = identify(address)
        if identity in seen:
            earlier = seen[identity]
            return f"{earlier} and {address} are one file" if earlier != address else f"{address} is named twice"
        seen[identity] = address
    return ""


def expect_files_once(source: str, *reads: Iterable[str]) -> None:
    """Raise a ValueError if reads of an engine follow a link or have two names of a file, or one read has a name twice.

    Two reads may share a name: filters may give each another part of the file.
    """
    files = [list_files(source, addresses) for addresses in reads]
    for names in (*files, dict.fromkeys(itertools.chain(*files))):
        if repeated := find_repeated(names):
            raise ValueError(f"{source} must read each file once: {repeated}")


def list_files(source: str, addresses: Iterable[str]) -> list[str]:
    """The files at addresses, and in local folders among these."""
    files = []
    for address in addresses:
        folder = local_path(address)
        if folder is None or not os.path.isdir(folder):
            files.append(address)
        elif link := find_link(folder):
            raise ValueError(f"{source} must read each file once: {link} is a symbolic link")
        else:
            files += [os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names]
    return files


def find_link(folder: str) -> str:
    """A symbolic link in a local folder, which a reader would follow; "" if there is none."""
    for inner, folders, files in os.walk(folder):  # follows no link
        for name in sorted([*folders, *files]):
            if os.path.islink(path := os.path.join(inner, name)):
                return path
    return ""
