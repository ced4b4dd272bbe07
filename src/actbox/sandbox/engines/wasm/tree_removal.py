"""Removes a directory in which a program may have nested directories deeper than a path or open files can reach.

It imports nothing of the package, and is a program too: a worker executes it when its host has ended, so that no
instance that could add files runs any more. Other workers do the same at the same time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time

_TRIES = 600
_PAUSE_SECONDS = 0.1


def remove_tree(top: str) -> None:
    """Remove a directory and everything below it; no link is followed. Raises `OSError`.

    Each subdirectory is moved up, to a name that no program knows, before its content is read.
    """
    left = [top]
    while left:
        folder = left[-1]
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                elif folder == top:
                    inner.append(entry.path)
                else:
                    inner.append(f"{top}/.{secrets.token_hex(8)}")
                    os.rename(entry.path, inner[-1])
        if inner:
            left += inner
        else:
            os.rmdir(left.pop())


def main() -> None:
    """Remove the directory named by the first argument, retrying while other workers remove it too."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError):
            remove_tree(sys.argv[1])
        if not os.path.lexists(sys.argv[1]):
            return
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
