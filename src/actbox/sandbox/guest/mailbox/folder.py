"""Transports pieces through files: `out/N` and `in/N` in a directory, each written under another name and then renamed.

The reader removes each piece. Programs can reach the directory, so its content is not trusted: a piece that is too
long, or no regular file, ends the transport.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from ..beneath import DRAFT, READ, open_beneath, opened_folder, read_file, read_open
from .transport import InvalidPiece, Transport, TransportFailed

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Optional, TypeVar

    T = TypeVar("T")

OUT, IN = "out", "in"
# The polling intervals for a piece: soon after the last one, and later.
_SOON_SECONDS, _LATER_SECONDS = 0.003, 0.02
_SOON_IS_SECONDS = 1.0
_MOST_DIGITS = 12


class FolderTransport(Transport):
    """The sandbox's end of a mailbox directory, which it makes."""

    def __init__(self, folder: str, piece_bytes: int) -> None:
        self.piece_bytes = piece_bytes
        self._folder = folder
        self._moved_at = time.monotonic()
        for name in (OUT, IN):
            os.makedirs(os.path.join(folder, name), 0o700)

    def send(self, number: int, piece: bytes) -> None:
        """Put the piece there and wait until the host has removed it."""
        place = os.path.join(self._folder, OUT)
        try:
            write_piece(place, number, piece)
        except OSError as error:
            raise TransportFailed("a tool call cannot be written to %s: %s" % (place, error.strerror)) from None
        self._moved_at = time.monotonic()
        self._wait_until(lambda: not os.path.lexists(os.path.join(place, str(number))))  # the host has taken it

    def receive(self, number: int) -> Optional[bytes]:
        """Wait for the piece, return it and remove it."""
        place = os.path.join(self._folder, IN)
        found = self._wait_until(lambda: self.read(place, number))
        self._moved_at = time.monotonic()
        self.remove(place, number)
        return found

    def read(self, place: str, number: int) -> Optional[bytes]:
        """Return a piece if it is there, else `None`. Raises `InvalidPiece` and `OSError`."""
        return read_piece(place, number, self.piece_bytes)

    def remove(self, place: str, number: int) -> None:
        """Remove a piece that was read."""
        remove_piece(place, number)

    def _wait_until(self, look: Callable[[], T]) -> T:
        while True:
            try:
                found = look()
            except InvalidPiece as error:
                raise TransportFailed(str(error), True) from None
            except OSError as error:
                raise TransportFailed("the directory of the tool calls cannot be read: %s" % error) from None
            if found:
                return found
            is_soon = time.monotonic() - self._moved_at < _SOON_IS_SECONDS
            time.sleep(_SOON_SECONDS if is_soon else _LATER_SECONDS)


class WrittenFolderTransport(FolderTransport):
    """The sandbox's end of a mailbox directory whose writer can neither rename a file nor write it atomically.

    A piece `in/N` is complete when `in/N.size` gives its size in bytes, and it has that size. Only for incoming pieces.
    """

    def read(self, place: str, number: int) -> Optional[bytes]:
        """Return a piece if it is complete, else `None`."""
        try:
            with opened_folder(place) as folder:
                size = read_file(folder, "%d.size" % number, _MOST_DIGITS)
        except FileNotFoundError:
            return None
        path = os.path.join(place, str(number))
        if not size.isdigit() or not os.path.lexists(path) or os.lstat(path).st_size < int(size):
            return None
        return read_piece(place, number, self.piece_bytes)

    def remove(self, place: str, number: int) -> None:
        """Remove a piece that was read, and its size."""
        remove_piece(place, number)
        os.unlink(os.path.join(place, "%d.size" % number))


def write_piece(folder: str, number: int, piece: bytes) -> None:
    """Put a piece into a directory atomically. Raises `OSError`."""
    draft = ".%d" % number
    with opened_folder(folder) as place:
        with open(open_beneath(place, draft, DRAFT, 0o600), "wb") as file:
            file.write(piece)
        os.rename(draft, str(number), src_dir_fd=place, dst_dir_fd=place)


def read_piece(folder: str, number: int, most: int) -> Optional[bytes]:
    """Return a piece in a directory, or `None` if it is not there. Raises `InvalidPiece` and `OSError`."""
    try:
        with opened_folder(folder) as place:
            descriptor = open_beneath(place, str(number), READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InvalidPiece("a link lies where a piece of mail is looked for") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= most:
            raise InvalidPiece("what lies where a piece of mail is looked for is none")
        return read_open(descriptor, most)
    finally:
        os.close(descriptor)


def remove_piece(folder: str, number: int) -> None:
    """Remove a piece that was read; it may be gone already."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, str(number)))
