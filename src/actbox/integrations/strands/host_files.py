"""Files of the host by their paths, where programs may have put anything: a named pipe, a device, an endless file."""

from __future__ import annotations

import errno
import os
import stat as stat_modes

from strands.sandbox import FileInfo

from actbox.core.errors import FileError
from actbox.sandbox.regular_file import read_regular_at


def read(place: str, most: int) -> bytes:
    """Return a regular file's content, links followed. Raises `OSError`, and `FileError` beyond `most` bytes."""
    content = read_regular_at(place, most + 1)
    if len(content) > most:
        raise FileError(errno.EFBIG, f"{place} has more than {most:,} bytes, which is what a file may have here")
    return content


def write(place: str, content: bytes) -> None:
    """Create or replace the content of a regular file, links followed, making its parent folders. Raises `OSError`."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    # Not to wait for the reader of a named pipe.
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as file:
        if not stat_modes.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileError(errno.EINVAL, f"{place} is not a regular file")
        file.truncate()
        file.write(content)


def entries(place: str) -> list[FileInfo]:
    """Return the entries of a folder, sorted by name. Raises `OSError`."""
    with os.scandir(place) as found:
        return sorted((_info(entry) for entry in found), key=lambda info: info.name)


def _info(entry: os.DirEntry[str]) -> FileInfo:
    try:
        is_folder = entry.is_dir()
        return FileInfo(entry.name, is_folder, None if is_folder else entry.stat().st_size)
    except OSError:  # it has gone meanwhile, or nobody may look
        return FileInfo(entry.name)
