"""Directories of the package cache for what is under way: files that are fetched or unpacked, and sessions' packages.

Each process holds a lock on every directory that it uses, so that the others can tell which ones nobody uses any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


class TemporaryFolder:
    """An empty directory that nothing else removes before `close`, or while this object exists."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def close(self) -> None:
        """Remove the directory. A second call does nothing. Blocks."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)

    def __del__(self) -> None:
        # A caller who was cancelled while a thread made the directory cannot close it; a collection removes it then.
        if self._lock >= 0:
            os.close(self._lock)


class TemporaryFolders:
    """The directories below one. The methods block, and may be called from any thread and process."""

    def __init__(self, root: Path) -> None:
        """`root` exists, and belongs to this user alone."""
        self._root = root

    def make(self, prefix: str = "") -> TemporaryFolder:
        """Return a new directory, whose name begins with `prefix`. Raises `OSError`."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=self._root))
            # A collection may remove it before it is locked.
            with contextlib.suppress(FileNotFoundError):
                lock = _open(path)
                fcntl.flock(lock, fcntl.LOCK_SH)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(lock), os.stat(path)):
                        return TemporaryFolder(path, lock)
                os.close(lock)

    @contextlib.contextmanager
    def made(self) -> Iterator[Path]:
        """Make a directory for a block. Raises `OSError`."""
        folder = self.make()
        try:
            yield folder.path
        finally:
            folder.close()

    def collect(self) -> list[Path]:
        """Remove directories that nobody uses, as those of processes that were killed; return their paths."""
        removed = []
        for entry in list(os.scandir(self._root)):
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False) and _remove_unused(entry.path):
                    removed.append(Path(entry.path))
        return removed


def _remove_unused(path: str) -> bool:
    lock = _open(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(lock)


def _open(path: str | Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
