"""How sentences count: one second, two seconds."""

from __future__ import annotations


def counted(number: float, one: str, several: str = "") -> str:
    """Return a number with its noun, which is `one` with an "s" where the other form is not given."""
    figure = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{figure} {one if number == 1 else several or one + 's'}"
