"""Markdown that models are sent."""

from __future__ import annotations

import re


def fenced(source: str, language: str) -> str:
    """Return source in a fence that it cannot end: longer than any run of backticks that others wrote into it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
    return f"{fence}{language}\n{source}\n{fence}"


def joined(*parts: str) -> str:
    """Return the parts that say something, with a blank line between two."""
    return "\n\n".join(part for part in parts if part)
