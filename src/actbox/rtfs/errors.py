"""The errors of the reader and the printer."""

from __future__ import annotations

from actbox.core.errors import ActboxError

from .syntax import Position

_WINDOW = 72
"""Characters of a source line that an excerpt shows."""


class ReadError(ActboxError):
    """The source is not RTFS.

    `str()` is the whole report: place, what is wrong, what was expected, and the line with a caret below the place.
    """

    def __init__(self, message: str, line: int, column: int, expected: str = "", excerpt: str = "") -> None:
        self.message = message
        """The error, as one sentence without a full stop."""
        self.line = line
        """The line, from 1."""
        self.column = column
        """The column, from 1, in code points."""
        self.expected = expected
        """The forms that would have been valid here; empty if none would."""
        self.excerpt = excerpt
        """The source line, shortened around the place, with a caret below it; empty if it cannot be shown."""
        report = f"line {line}, column {column}: {message}"
        if expected:
            report += f"; expected {expected}"
        super().__init__(f"{report}\n{excerpt}" if excerpt else report)

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, int, int, str, str]]:
        return ReadError, (self.message, self.line, self.column, self.expected, self.excerpt)


class WriteError(ActboxError):
    """A form cannot be written as source, such as a symbol with a space in its name, or is too large to write."""


def line_start(source: str, line: int) -> int:
    """Return the offset at which a line begins (lines count from 1), fast even with millions of lines."""
    least, most = 0, len(source)
    while least < most:
        middle = (least + most) // 2
        if source.count("\n", 0, middle) < line - 1:
            least = middle + 1
        else:
            most = middle
    return least


def position_of(source: str, offset: int) -> Position:
    """Return the position of the character at this offset; only a line feed ends a line."""
    return Position(source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset))


def excerpt_of(source: str, offset: int) -> str:
    """Return the line around this offset, at most 72 characters of it, and a caret below the character.

    Characters that a terminal would obey are shown as `·`.
    """
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    end = len(source) if end < 0 else end
    first = max(start, min(offset - _WINDOW // 2, end - _WINDOW))
    last = min(end, first + _WINDOW)
    shown = "".join(c if c.isprintable() else " " if c in "\t\r" else "·" for c in source[first:last])
    before = "…" if first > start else ""
    after = "…" if last < end else ""
    return f"  {before}{shown}{after}\n  {' ' * (len(before) + offset - first)}^"
