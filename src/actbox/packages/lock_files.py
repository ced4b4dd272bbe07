"""Lock files of the package cache: one for each entry, held while it is made, used or removed, with its last use."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class LockFiles:
    """The lock files in one directory, by name. The methods block, and may be called from any thread and process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, name: str, how: int) -> int:
        """Return the descriptor of a locked file; closing it releases the lock. `how` is `fcntl.LOCK_EX` or the like.

        Raises `BlockingIOError` for a `how` with `fcntl.LOCK_NB` if another holds the lock.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            descriptor = os.open(self._folder / name, flags, 0o600)
            try:
                fcntl.flock(descriptor, how)
                # Whoever removes an entry removes its lock file too, and a lock on that counts for nobody.
                if os.fstat(descriptor).st_nlink:
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold a lock alone for a block."""
        descriptor = self.take(name, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def held_if_free(self, name: str) -> Iterator[bool]:
        """Hold a lock alone for a block if nobody else has it. The block gets whether it holds the lock."""
        try:
            descriptor = self.take(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            os.close(descriptor)

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix."""
        return [name for name in os.listdir(self._folder) if name.startswith(prefix)]

    def last_use(self, name: str) -> float:
        """Return when a lock file was made or noted last, in seconds since 1970; 0.0 if there is none."""
        try:
            return (self._folder / name).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def note_use(self, name: str) -> None:
        """Note that an entry is used now, if it has a lock file."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._folder / name)

    def remove(self, name: str) -> None:
        """Remove a lock file, which the caller holds."""
        (self._folder / name).unlink(missing_ok=True)
