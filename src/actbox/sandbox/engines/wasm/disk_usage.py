"""Measures the disk space of a workspace, and removes what exceeds its limit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from actbox.core.errors import FileError

ENTRY_BYTES: Final = 4096
"""The bytes counted for each file, directory and link besides its content, because a disk has room for only so many."""
ENTRY_SECONDS: Final = 1e-6
"""Less time than a program needs to make a file: a system call through the interpreter and the library."""
_BLOCK_BYTES: Final = 512
# Placeholders in a workspace for directories that lie elsewhere.
_PLACES: Final = ("input", "output")

Remove = Callable[[str, bool], None]
"""Removes the entry at a path below a directory; if the second argument is true, recursively. Raises `FileError`."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    is_folder: bool
    size: int = ENTRY_BYTES
    modified: int = 0
    is_known: bool = True
    """False if its path is longer than the system accepts, so that it cannot be examined."""


def room(most: int, *folders: str) -> int:
    """Return how many of `most` bytes are left beside the content of these directories; negative if there is too much.

    No link is followed, and counting stops once there is too much. An entry that cannot be examined counts as too much.
    """
    left = list(folders)
    while left and most >= 0:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    most -= ENTRY_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        most -= _bytes_of(entry)
                    if most < 0:
                        return most
        except (FileNotFoundError, NotADirectoryError):  # the program has removed or replaced it
            pass
        except OSError:
            return -1
    return most


def written_by(process: int) -> int | None:
    """Return how many bytes a process has written in all; `None` if the system does not tell."""
    try:
        with open(f"/proc/{process}/io", "rb") as file:
            return int(file.read().partition(b"wchar: ")[2].split(None, 1)[0])
    except (OSError, IndexError):
        return None


def cut_back(most: int, written: Mapping[str, Remove], given: Iterable[str]) -> None:
    """Remove the latest changes in some directories until the rest takes at most `most` bytes. Blocks.

    Files are removed before directories. The content of the directories `given` counts, but stays, as does anything
    that cannot be removed.
    """
    found = [(entry, remove, top) for top, remove in written.items() for entry in _entries(top)]
    left = most - sum(entry.size for top in given for entry in _entries(top)) - sum(entry.size for entry, _, _ in found)
    unknown = [each for each in found if not each[0].is_known]
    files = sorted((each for each in found if not each[0].is_folder), key=lambda each: -each[0].modified)
    folders = sorted((each for each in found if each[0].is_folder), key=lambda each: -each[0].path.count(os.sep))
    for entry, remove, top in (*unknown, *files, *folders):
        path = os.path.relpath(entry.path, top).replace(os.sep, "/")
        if path in _PLACES or (left >= 0 and entry.is_known):
            continue
        with contextlib.suppress(FileError):  # another program has removed it meanwhile
            remove(path, not entry.is_known)
            left += entry.size


def _entries(folder: str) -> Iterator[_Entry]:
    """Yield the entries below a directory."""
    left = [folder]
    while left:
        top = left.pop()
        try:
            with os.scandir(top) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # the program has removed it
                        is_folder = entry.is_dir(follow_symlinks=False)
                        if is_folder:
                            left.append(entry.path)
                        modified = entry.stat(follow_symlinks=False).st_mtime_ns
                        size = ENTRY_BYTES + (0 if is_folder else _bytes_of(entry))
                        yield _Entry(entry.path, is_folder, size, modified)
        except (FileNotFoundError, NotADirectoryError):  # the program has removed or replaced it
            pass
        except OSError:
            yield _Entry(top, True, is_known=False)


def _bytes_of(entry: os.DirEntry[str]) -> int:
    """Return a file's bytes on disk: less than its size if it has holes, and 0 if it was just removed."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    blocks: int | None = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else min(status.st_size, blocks * _BLOCK_BYTES)
