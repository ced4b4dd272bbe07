"""The interface of a `Transport`, which carries pieces between the sandbox and the host."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Optional


class TransportFailed(Exception):
    """Raised when nothing can be sent or received any more; the message says why.

    `nonsense` is true if there was data that only a program can have put there.
    """

    def __init__(self, why: str, nonsense: bool = False) -> None:
        super().__init__(why)
        self.nonsense = nonsense


class InvalidPiece(Exception):
    """Raised for data that is no valid piece."""


class Transport:
    """Sends pieces to the host and receives others from it. Each method is used by one thread."""

    piece_bytes = 0
    """The largest size of a piece in bytes."""

    def send(self, number: int, piece: bytes) -> None:
        """Send a piece and return when the host has taken it. Raises `TransportFailed`."""
        raise NotImplementedError

    def receive(self, number: int) -> Optional[bytes]:
        """Wait for a piece, maybe for ever, and return it; `None` once no more will come. Raises `TransportFailed`."""
        raise NotImplementedError
