"""Reading a file that a guest made, which may be anything but a file."""

from __future__ import annotations

import errno
import os
import stat as stat_modes
from io import FileIO

# Not to wait for the other end of a named pipe that a guest put where a file should be.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

_PIECE_BYTES = 2**24


def read_regular(folder: int, name: str, most: int | None = None) -> bytes:
    """Return the content of a regular file in an open folder, at most `most` bytes of it. Raises `OSError`."""
    return _content(os.open(name, _FILE | os.O_NOFOLLOW, dir_fd=folder), most)


def read_regular_at(path: str, most: int) -> bytes:
    """Return at most `most` bytes of the regular file to which a path leads, links followed. Raises `OSError`."""
    return _content(os.open(path, _FILE), most, path)


def _content(descriptor: int, most: int | None, path: str | None = None) -> bytes:
    with open(descriptor, "rb", buffering=0) as file:
        mode = os.fstat(descriptor).st_mode
        if stat_modes.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        if not stat_modes.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        return file.readall() if most is None else _up_to(most, file)


def _up_to(most: int, file: FileIO) -> bytes:
    # Not at once: memory for as much as is asked for would be taken, and more than 2 GiB one call does not read.
    pieces = []
    while most > 0 and (piece := file.read(min(most, _PIECE_BYTES))):
        pieces.append(piece)
        most -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
