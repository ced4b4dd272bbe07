"""What writing content in a provider's format came to: the document, and what of the content it could not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Document = TypeVar("Document")


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that a format could not say as it was.

    `what` is the kind of item, or the field as `kind.field`; `how` says in a sentence what became of it.
    """

    what: str
    how: str


@dataclass(frozen=True, slots=True)
class Written(Generic[Document]):
    """A document in a provider's format, and what was lost on the way: nothing where `losses` is empty."""

    document: Document
    losses: tuple[Loss, ...] = ()


class Losses:
    """Collects losses, each once."""

    def __init__(self) -> None:
        self._losses: dict[Loss, None] = {}

    def add(self, what: str, how: str) -> None:
        """Note that something could not be said, and what became of it."""
        self._losses[Loss(what, how)] = None

    def written(self, document: Any) -> Written[Any]:
        """Return a document with what was noted."""
        return Written(document, tuple(self._losses))
