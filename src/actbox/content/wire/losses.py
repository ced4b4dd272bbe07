"""The result of writing content in a provider's format: the document, and the losses (what the format cannot say)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from actbox.content.items import Part

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


class ReadBack:
    """A cache, for one writing, of the items that blocks are read as, and of comparisons between items."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[Any, Any]] = {}
        self._same: dict[tuple[int, int], tuple[Any, Any, bool]] = {}

    def item_of(self, block: Any) -> Any:
        """Return the item that a block was read as, `None` where it was not read yet."""
        known = self._items.get(id(block))
        return None if known is None else known[1]

    def keep(self, block: Any, item: Any) -> None:
        """Remember the item that a block, which does not change any more, is read as."""
        self._items[id(block)] = block, item

    def is_same(self, one: Any, other: Any) -> bool:
        """Return whether two parts, or tuples of parts, say the same: the `provider_data` of each do not count."""
        if not isinstance(one, Part) or not isinstance(other, Part):
            return self._is_same_value(one, other) if isinstance(one, tuple) else bool(one == other)
        names = type(one).model_fields.keys()
        return names == type(other).model_fields.keys() and all(
            self._is_same_value(getattr(one, name), getattr(other, name)) for name in names if name != "provider_data"
        )

    def _is_same_value(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if isinstance(one, tuple) and isinstance(other, tuple):
            return len(one) == len(other) and all(map(self._is_same_value, one, other))
        if not isinstance(one, Part):
            return bool(one == other)
        # Only parts within others are compared again: for each part around them.
        if (id(one), id(other)) not in self._same:
            self._same[id(one), id(other)] = one, other, self.is_same(one, other)
        return self._same[id(one), id(other)][2]


class Losses:
    """Collects losses, each once.

    `read_back` has what blocks that were written say when they are read: checking a block need not read those in it.
    """

    def __init__(self) -> None:
        self._losses: dict[Loss, None] = {}
        self.read_back = ReadBack()

    def add(self, what: str, how: str) -> None:
        """Note that something could not be said, and what became of it."""
        self._losses[Loss(what, how)] = None

    def noted(self) -> tuple[Loss, ...]:
        """Return what has been noted so far."""
        return tuple(self._losses)

    def go_back(self, noted: tuple[Loss, ...]) -> None:
        """Forget all that was noted since."""
        self._losses = dict.fromkeys(noted)

    def written(self, document: Any) -> Written[Any]:
        """Return a document with what was noted."""
        return Written(document, tuple(self._losses))
