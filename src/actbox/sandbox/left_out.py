"""What a collection left out, told in bounded words: the program that made it chose how much it is, and its names."""

from __future__ import annotations

MOST_WARNINGS = 100
_MOST_OF_A_PATH = 200
_ITS_END = 60


class LeftOut:
    """The warnings of one collection, in order."""

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._more = 0
        self._last: list[str] = []

    def add(self, warning: str) -> None:
        """Say that one thing was left out. From a hundred on they are only counted."""
        if len(self._warnings) < MOST_WARNINGS:
            self._warnings.append(warning)
        else:
            self._more += 1

    def end(self, warning: str) -> None:
        """Say, always, why nothing more was collected."""
        self._last.append(warning)

    def warnings(self) -> list[str]:
        """Return a sentence for each thing, or for many that came last; then why nothing more was collected."""
        more = [f"{self._more:,} more were not collected"] if self._more else []
        return [*self._warnings, *more, *self._last]


def printable(path: str) -> str:
    """Return a path that a guest made as text that can be written out."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown(path: str) -> str:
    """Return such a path for a sentence: of a long one its beginning and its end."""
    path = printable(path)
    if len(path) <= _MOST_OF_A_PATH:
        return path
    return f"{path[: _MOST_OF_A_PATH - _ITS_END - 1]}…{path[-_ITS_END:]}"
