"""How much of the disk a workspace takes."""

from __future__ import annotations

import contextlib
import os
from typing import Final

_BLOCK_BYTES: Final = 512


def is_larger(most: int, *folders: str) -> bool:
    """Return whether what lies below these folders takes more than so many bytes. No link is followed."""
    left = list(folders)
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:  # the program may have removed it
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        most -= _bytes_of(entry.stat(follow_symlinks=False))
                if most < 0:
                    return True
    return False


def _bytes_of(status: os.stat_result) -> int:
    """Return what a file takes: of one with holes less than its size."""
    blocks: int | None = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else min(status.st_size, blocks * _BLOCK_BYTES)
