"""Values of programs on the host: a bounded copy if they can be transferred, and always a bounded text.

A program can make a list that contains another list a thousand times, and nest such lists: a few bytes in the
interpreter, and more than any memory when written out. So every value is measured before anything walks it.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any, Final

from actbox.sandbox.channel.decoding import at_once, content_of, decode_in_steps
from actbox.sandbox.channel.encoding import encode
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.tagged import CannotCross
from actbox.sandbox.guest.wire import MAX_DEPTH, MAX_VALUES

from .library import shown_class

MAX_TEXT: Final = 100_000
_MOST_VALUES_SHOWN = 100_000


def is_bounded(value: Any, most_bytes: int, most_values: int = MAX_VALUES) -> bool:
    """Return whether a value, written out, has at most so many bytes and values, nested at most `MAX_DEPTH` deep."""
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


def for_interpreter(value: Any) -> Any:
    """Return a value for the interpreter, which supports neither UUIDs nor times of day: those become text."""
    if isinstance(value, (uuid.UUID, datetime.time)):
        return str(value)
    if isinstance(value, dict):
        return {for_interpreter(key): for_interpreter(item) for key, item in value.items()}
    return type(value)(map(for_interpreter, value)) if isinstance(value, (list, tuple, set, frozenset)) else value


def transferred(value: Any, most_bytes: int) -> tuple[Any, str]:
    """Return a copy of a value and ""; or `None` and the reason, if it is too large or cannot be transferred."""
    if not is_bounded(value, most_bytes):
        return None, f"value has more than {most_bytes:,} bytes, or is nested too deeply"
    message: dict[str, Any] = {}
    try:
        wire.put_value(message, "value", value)
        received, _ = at_once(decode_in_steps(*content_of(encode(message, most_bytes))))
    except CannotCross as error:
        return None, error.within("value")
    except (wire.ProtocolError, TypeError, ValueError, RecursionError) as error:
        return None, f"value: {error}"
    return received["value"], ""


def as_text(value: Any) -> str:
    """Return a value's `repr`; of a long one, the beginning."""
    if not is_bounded(value, 4 * MAX_TEXT, _MOST_VALUES_SHOWN):
        if isinstance(value, (str, bytes)):
            return f"{value[:MAX_TEXT]!r}… ({len(value) - MAX_TEXT} more characters)"
        count = f" with {len(value):,} entries" if isinstance(value, (list, tuple, dict, set, frozenset)) else ""
        return f"<{type(value).__name__}{count}, too large to be shown>"
    shown = shown_class(value)
    try:
        text = repr(value) if shown is None else f"<{shown[0]} object with {shown[1]!r}>"
    except (ValueError, RecursionError) as error:  # such as an integer with too many digits
        return f"<{type(value).__name__} that cannot be shown: {error}>"
    if len(text) > MAX_TEXT:
        return f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"
    return text
