"""Walks through a folder that a program fills, however deep that has become, with two descriptors and no path."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator, Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def every_entry(folder: int) -> Iterator[os.stat_result]:
    """Yield the status of each entry below an open folder; links are not followed.

    Raises `OSError`, with `EBUSY` where the folder that it is in is moved meanwhile.
    """
    here = os.open(".", _FOLDER, dir_fd=folder)
    above: list[tuple[tuple[int, int], list[str]]] = []  # each folder on the way: which it is, and what is left in it
    try:
        names = yield from _entries(here)
        while names or above:
            if not names:
                identity, names = above.pop()
                here = _instead(here, os.open("..", _FOLDER, dir_fd=here))
                if _identity(here) != identity:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
                continue
            try:
                inner = os.open(names.pop(), _FOLDER, dir_fd=here)
            except OSError as error:
                if error.errno in _GONE:  # removed or replaced meanwhile
                    continue
                raise
            above.append((_identity(here), names))
            here = _instead(here, inner)
            names = yield from _entries(here)
    finally:
        os.close(here)


def _entries(folder: int) -> Generator[os.stat_result, None, list[str]]:
    """Yield the status of each entry of one folder, and return the names of the folders among them."""
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    return names


def _instead(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
