"""What a post is, and the one that a request tells of."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Optional


class PostFailed(Exception):
    """Nothing can be sent or received any more; the message says why.

    `nonsense` is whether something lay there that only a program can have put there.
    """

    def __init__(self, why: str, nonsense: bool = False) -> None:
        super().__init__(why)
        self.nonsense = nonsense


class Nonsense(Exception):
    """What is there is no piece."""


class Post:
    """Takes pieces to the host and brings others from it. Each method is used by one thread."""

    piece_bytes = 0
    """The greatest size of a piece."""

    def send(self, number: int, piece: bytes) -> None:
        """Return when the host has taken a piece. Raises `PostFailed`."""
        raise NotImplementedError

    def receive(self, number: int) -> Optional[bytes]:
        """Return a piece when it has come, which may be never; nothing once no more will come. Raises `PostFailed`."""
        raise NotImplementedError


def post_of(told: Dict[str, Any]) -> Post:
    """Return the post that a request tells of; see `Mailbox.told` on the host's side."""
    if told["by"] == "http":
        from .http import HttpPost

        return HttpPost(told["url"], told["token"], told["piece_bytes"], told["ca"])
    if told["by"] == "written":
        from .written import WrittenPost

        return WrittenPost(told["folder"], told["piece_bytes"])
    from .folder import FolderPost

    return FolderPost(told["folder"], told["piece_bytes"])
