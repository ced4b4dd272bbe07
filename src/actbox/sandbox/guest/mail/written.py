"""Mail by files that something else writes, which can neither rename nor write all of a file at once.

A piece `in/N` is complete when `in/N.size` says how many bytes it has, and it has them.
"""

from __future__ import annotations

import os

from .folder import FolderPost, drop, take

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Optional

_MOST_DIGITS = 12


class WrittenPost(FolderPost):
    """The sandbox's end of such a folder, which takes nothing out."""

    def take(self, place: str, number: int) -> Optional[bytes]:
        """Return a piece that is complete."""
        told = os.path.join(place, "%d.size" % number)
        try:
            with open(os.open(told, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                size = file.read(_MOST_DIGITS)
        except FileNotFoundError:
            return None
        path = os.path.join(place, str(number))
        if not size.isdigit() or not os.path.lexists(path) or os.lstat(path).st_size < int(size):
            return None
        return take(place, number, self.piece_bytes)

    def forget(self, place: str, number: int) -> None:
        """Remove what was taken."""
        drop(place, number)
        os.unlink(os.path.join(place, "%d.size" % number))
