"""Regular expressions of schemas, which come from anyone: bounded in size, and in the time of a search."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from actbox.rtfs.failures import BudgetExhausted

from .nodes import SchemaError

if TYPE_CHECKING:
    import regex

SECONDS = 1.0
"""How long one search may take."""
_MOST_CHARACTERS = 1000
_MOST_GROUPS = 100
"""The `regex` package reads nested groups by recursion, so their number is bounded before it sees them."""
_ESCAPED = re.compile(r"\\[\s\S]")
_RECURSIVE = re.compile(r"\(\?(?:R|[+-]?[0-9]|&|P>)")
"""Groups that call the pattern or a part of it, whose searches can take memory without bound."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Return a pattern that is fit to be searched for. Raises `SchemaError` (InvalidRegexPattern) for any other."""
    import regex  # takes 10 ms, which only schemas with patterns pay

    if len(pattern) > _MOST_CHARACTERS:
        raise _invalid(pattern, f"it has {len(pattern)} characters, and {_MOST_CHARACTERS} is the most")
    if pattern.count("(") > _MOST_GROUPS or pattern.count("[") > _MOST_GROUPS:
        raise _invalid(pattern, f"more than {_MOST_GROUPS} groups")
    if _RECURSIVE.search(_ESCAPED.sub("", pattern)):
        raise _invalid(pattern, "it calls itself")
    try:
        return regex.compile(pattern, regex.VERSION0)
    except (regex.error, OverflowError, ValueError) as problem:
        raise _invalid(pattern, str(problem)) from None


def found_in(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text.

    Raises `BudgetExhausted` (`wall_seconds`) when the search takes longer than `SECONDS`.
    """
    try:
        return compiled(pattern).search(text, timeout=SECONDS) is not None
    except TimeoutError:
        message = f"the pattern {pattern[:40]!r} took longer than {SECONDS:g} s on a text of {len(text)} characters"
        raise BudgetExhausted("wall_seconds", message) from None
    except MemoryError:
        message = f"the pattern {pattern[:40]!r} took all memory on a text of {len(text)} characters"
        raise BudgetExhausted("memory_bytes", message) from None


def _invalid(pattern: str, why: str) -> SchemaError:
    return SchemaError(f"{pattern[:40]!r} is no regular expression: {why}", "InvalidRegexPattern")
