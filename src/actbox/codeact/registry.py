"""An ordered set of entries by key, as a configuration keeps its tools, its mounts and its domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries in the order in which their keys were first added. It has no lock: its owner has one.

    `what` names an entry in messages, such as `tool`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._entries: dict[str, T] = {}

    def put(self, entries: Mapping[str, T]) -> None:
        """Add entries at the end; one whose key is there takes the place of the one that has it."""
        self._entries.update(entries)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove the entries of all these keys, or none.

        Raises `KeyError` where one is missing; the message lists what there is.
        """
        self._entries = self.without(keys)

    def without(self, keys: Iterable[str]) -> dict[str, T]:
        """Return the entries that removing these keys would leave, and remove nothing. Raises as `remove` does."""
        wanted = list(dict.fromkeys(keys))
        missing = [key for key in wanted if key not in self._entries]
        if missing:
            there = ", ".join(map(repr, self._entries)) or "none"
            raise KeyError(f"there is no {self._what} {', '.join(map(repr, missing))}; there are: {there}")
        return {key: entry for key, entry in self._entries.items() if key not in wanted}

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def values(self) -> list[T]:
        """Return the entries, in a list of the caller's own."""
        return list(self._entries.values())

    def snapshot(self) -> dict[str, T]:
        """Return the entries by key, in a dict of the caller's own."""
        return dict(self._entries)
