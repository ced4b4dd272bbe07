"""How much of the disk a workspace takes, and how it is brought back to what it may take."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Final

from actbox.core.errors import FileError

_BLOCK_BYTES: Final = 512


def room(most: int, *folders: str) -> int:
    """Return how many of so many bytes what lies below these folders leaves; below zero where there is too much.

    No link is followed, and where there is too much not all is looked at.
    """
    for folder in folders:
        for _, status in _files(folder):
            most -= _bytes_of(status)
            if most < 0:
                return most
    return most


def written_by(process: int) -> int | None:
    """Return how many bytes a process of ours has written, to whatever; nothing where the system does not say."""
    try:
        with open(f"/proc/{process}/io", "rb") as file:
            return int(file.read().partition(b"wchar: ")[2].split(None, 1)[0])
    except (OSError, IndexError):
        return None


def cut_back(most: int, folder: str, input_folder: str, remove: Callable[[str], None]) -> None:
    """Remove the files written last, until what is left takes no more than so many bytes. Blocks.

    What the host gave as input counts, and stays. `remove` takes a path below `folder`; what it cannot remove stays.
    """
    found = [(status.st_mtime_ns, _bytes_of(status), path) for path, status in _files(folder)]
    left = most - sum(_bytes_of(status) for _, status in _files(input_folder)) - sum(size for _, size, _ in found)
    for _, size, path in sorted(found, reverse=True):
        if left >= 0:
            break
        with contextlib.suppress(FileError):  # another program has removed it meanwhile
            remove(os.path.relpath(path, folder).replace(os.sep, "/"))
            left += size


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of each entry below a folder that is no folder."""
    left = [folder]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:  # the program may have removed it
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        yield entry.path, entry.stat(follow_symlinks=False)


def _bytes_of(status: os.stat_result) -> int:
    """Return what a file takes: of one with holes less than its size."""
    blocks: int | None = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else min(status.st_size, blocks * _BLOCK_BYTES)
