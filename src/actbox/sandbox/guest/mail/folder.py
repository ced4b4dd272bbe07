"""Mail by files: `out/N` and `in/N` in a folder, each written under another name and then renamed.

Whoever takes a piece removes it. Programs can reach the folder, so nothing that lies in it is trusted: a piece that is
too long, or no regular file, ends the mail.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from .posts import Nonsense, Post, PostFailed

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Optional, TypeVar

    T = TypeVar("T")

OUT, IN = "out", "in"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# How often somebody looks for a piece: soon after there was one, and later.
_SOON_SECONDS, _LATER_SECONDS = 0.003, 0.02
_SOON_IS_SECONDS = 1.0


class FolderPost(Post):
    """The sandbox's end of a folder, which it makes."""

    def __init__(self, folder: str, piece_bytes: int) -> None:
        self.piece_bytes = piece_bytes
        self._folder = folder
        self._moved_at = time.monotonic()
        for name in (OUT, IN):
            os.makedirs(os.path.join(folder, name), 0o700)

    def send(self, number: int, piece: bytes) -> None:
        """Have it lie there until the host has removed it."""
        place = os.path.join(self._folder, OUT)
        try:
            put(place, number, piece)
        except OSError as error:
            raise PostFailed("a tool call cannot be written to %s: %s" % (place, error.strerror)) from None
        self._moved_at = time.monotonic()
        self._wait_until(lambda: not os.path.lexists(os.path.join(place, str(number))))  # the host has taken it

    def receive(self, number: int) -> Optional[bytes]:
        """Look for it until it is there, and remove it."""
        place = os.path.join(self._folder, IN)
        found = self._wait_until(lambda: self.take(place, number))
        self._moved_at = time.monotonic()
        self.forget(place, number)
        return found

    def take(self, place: str, number: int) -> Optional[bytes]:
        """Return a piece that lies there, nothing where it does not. Raises `Nonsense` and `OSError`."""
        return take(place, number, self.piece_bytes)

    def forget(self, place: str, number: int) -> None:
        """Remove a piece that was taken."""
        drop(place, number)

    def _wait_until(self, look: Callable[[], T]) -> T:
        while True:
            try:
                found = look()
            except Nonsense as error:
                raise PostFailed(str(error), True) from None
            except OSError as error:
                raise PostFailed("the folder of the tool calls cannot be read: %s" % error) from None
            if found:
                return found
            is_soon = time.monotonic() - self._moved_at < _SOON_IS_SECONDS
            time.sleep(_SOON_SECONDS if is_soon else _LATER_SECONDS)


def put(folder: str, number: int, piece: bytes) -> None:
    """Have a piece lie in a folder, all of it at once. Raises `OSError`."""
    draft = os.path.join(folder, ".%d" % number)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(piece)
    os.rename(draft, os.path.join(folder, str(number)))


def take(folder: str, number: int, most: int) -> Optional[bytes]:
    """Return a piece that lies in a folder, nothing where it does not. Raises `Nonsense` and `OSError`."""
    try:
        descriptor = os.open(os.path.join(folder, str(number)), _FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Nonsense("a link lies where a piece of mail is looked for") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= most:
            raise Nonsense("what lies where a piece of mail is looked for is none")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def drop(folder: str, number: int) -> None:
    """Remove a piece that was taken, which may have been removed."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, str(number)))
