"""Regular expressions written by untrusted programs, with bounds on size, time and memory.

The `regex` package has a time limit for each search, which Python's own module has not. What it has beyond other
dialects and takes memory or time without bound is refused: patterns that call themselves and fuzzy matches. Its reader
is recursive, so the size and the groups of a pattern are bounded before it sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from .failures import BudgetExhausted, invalid

MAX_PATTERN = 1000
"""The most characters of a pattern."""
MAX_GROUPS = 100
MAX_REPEATED = 20_000
"""The most atoms of a pattern with its repetitions written out: the `regex` package takes memory for each."""
MAX_CAPTURES = 4_000_000
"""The most characters of the text times groups of the pattern: the package keeps what each pass of a group captured."""
MAX_SECONDS = 1.0
"""The most seconds for one search."""

_ESCAPED = re.compile(r"\\[pPN]\{[^}]*\}|\\[\s\S]")
_REFUSED = {
    "it calls itself": re.compile(r"\(\?(?:R|[+-]?[0-9]|&|P>)"),
    "it matches loosely": re.compile(r"\{[^{}]*[eids][^{}]*\}"),
}


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Return the compiled pattern. Raises InvalidArgument if it is invalid, or might take too much."""
    import regex  # takes 10 ms, which only programs with patterns pay

    if len(pattern) > MAX_PATTERN:
        raise _refused(pattern, f"it has {len(pattern)} characters, and {MAX_PATTERN} is the most")
    if pattern.count("(") > MAX_GROUPS or pattern.count("[") > MAX_GROUPS:
        raise _refused(pattern, f"it has more than {MAX_GROUPS} groups")
    plain = _ESCAPED.sub("", pattern)
    for reason, sign in _REFUSED.items():
        if sign.search(plain):
            raise _refused(pattern, reason)
    if written_out(pattern) > MAX_REPEATED:
        raise _refused(pattern, f"its repetitions come to more than {MAX_REPEATED} characters")
    try:
        return regex.compile(pattern, regex.VERSION0)
    except (regex.error, OverflowError, ValueError, RecursionError) as error:
        raise _refused(pattern, str(error)) from None


def matches(how: Literal["fullmatch", "search", "finditer"], pattern: str, text: str, seconds: float) -> Iterator[Any]:
    """Yield the matches that a method of the pattern finds. Raises BudgetExhausted if the search takes too long."""
    expression = compiled(pattern)
    if len(text) * (1 + expression.groups) > MAX_CAPTURES:
        raise invalid(f"a text of {len(text)} characters is too long for a pattern of {expression.groups} groups")
    limit = min(MAX_SECONDS, seconds + 0.001)
    try:
        found = getattr(expression, how)(text, timeout=limit)
        if how == "finditer":
            yield from found
        elif found is not None:
            yield found
    except TimeoutError:
        message = f"the pattern {pattern[:40]!r} took longer than {limit:g} s on a text of {len(text)} characters"
        raise BudgetExhausted("wall_seconds", message) from None
    except MemoryError:
        message = f"the pattern {pattern[:40]!r} took all memory on a text of {len(text)} characters"
        raise BudgetExhausted("memory_bytes", message) from None


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d*)(?:,(?P<most>\d*))?\}|.", re.DOTALL)


def written_out(pattern: str) -> int:
    """Return the number of atoms in the pattern with each counted repetition written out, or a larger number."""
    groups: list[int] = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text == "(":
            groups.append(0)
            last = 0
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token["least"] is not None:
            times = max(int((token["least"] or "1")[:9]), int((token["most"] or "1")[:9]), 1)
            groups[-1] += last * (times - 1)
            last *= times
        elif text not in "?*+":
            last = 1
            groups[-1] += 1
    return sum(groups)


def _refused(pattern: str, why: str) -> Exception:
    return invalid(f"{pattern[:40]!r} is no regular expression: {why}")
