"""Folders by descriptor: every step opens one name in a folder that is open, and follows no link."""

from __future__ import annotations

import os
import shutil
import subprocess

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Sequence

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder(root: str, parts: Sequence[str], make: bool = False) -> int:
    """Return a descriptor of the folder at `parts` below `root`; with `make`, folders that are missing are made."""
    folder = os.open(root, FOLDER)
    for name in parts:
        try:
            inner = _step(folder, name, make)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _step(folder: int, name: str, make: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        return os.open(name, FOLDER, dir_fd=folder)
    inner = os.open(name, FOLDER, dir_fd=folder)
    os.fchmod(inner, 0o755)  # whatever this account's mask is
    return inner


def remove_tree(path: str) -> None:
    """Remove a folder that a program may have made hard to remove: locked, or nested deeper than Python can go."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        subprocess.run(["chmod", "-R", "u+rwx", "--", path], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", "--", path], check=False, stderr=subprocess.DEVNULL)
