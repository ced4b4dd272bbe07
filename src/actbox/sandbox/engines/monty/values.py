"""Values of programs, told to the host: as JSON where they are, as text always, and never more than is bounded.

A program can make a value that refers to one list a thousand times, and that list to another: a few bytes in the
interpreter, and more than any memory once it is written out. So every value is weighed before anything walks it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from actbox.sandbox.guest.wire import MAX_DEPTH, MAX_VALUES, has_long_number, is_too_deep

from .library import shown_class

MAX_TEXT: Final = 100_000
_MOST_VALUES_SHOWN = 100_000


def is_bounded(value: Any, most_bytes: int, most_values: int = MAX_VALUES) -> bool:
    """Return whether a value, written out, has at most so many bytes and values, nested no deeper than messages are."""
    left = [(value, 0)]
    values = 0
    bytes_left = most_bytes
    while left:
        item, depth = left.pop()
        values += 1
        inner: Any = ()
        if isinstance(item, (str, bytes)):
            bytes_left -= len(item)
        elif isinstance(item, dict):
            inner = [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            inner = item
        elif isinstance(item, int):
            bytes_left -= item.bit_length() // 4
        elif (shown := shown_class(item)) is not None:
            inner = shown[1].values()
        if values + len(left) + len(inner) > most_values or bytes_left < 0 or depth > MAX_DEPTH:
            return False
        left += [(each, depth + 1) for each in inner]
    return True


def as_json(value: Any, most_bytes: int) -> Any:
    """Return a copy of a value if it is JSON of at most so many bytes, else `None`. NaN and infinity are not."""
    if value is None or not is_bounded(value, most_bytes):
        return None
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    if len(text) > most_bytes or has_long_number(text) or is_too_deep(text):
        return None
    return json.loads(text)


def as_text(value: Any) -> str:
    """Return how Python writes a value, of a long one the beginning."""
    if not is_bounded(value, 4 * MAX_TEXT, _MOST_VALUES_SHOWN):
        if isinstance(value, (str, bytes)):
            return f"{value[:MAX_TEXT]!r}… ({len(value) - MAX_TEXT} more characters)"
        count = f" with {len(value):,} entries" if isinstance(value, (list, tuple, dict, set, frozenset)) else ""
        return f"<{type(value).__name__}{count}, too large to be shown>"
    shown = shown_class(value)
    try:
        text = repr(value) if shown is None else f"<{shown[0]} object with {shown[1]!r}>"
    except (ValueError, RecursionError) as error:  # such as a number of very many digits
        return f"<{type(value).__name__} that cannot be shown: {error}>"
    if len(text) > MAX_TEXT:
        return f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"
    return text
