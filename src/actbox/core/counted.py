"""Numbers with nouns in the singular or plural: "1 second", "2 seconds"."""

from __future__ import annotations


def counted(number: float, one: str, several: str = "") -> str:
    """Return a number with its noun: `one` for 1, else `several`, which defaults to `one` with an "s"."""
    figure = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{figure} {one if number == 1 else several or one + 's'}"
