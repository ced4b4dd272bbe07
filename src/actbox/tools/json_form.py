"""Values as JSON data for display: a complete copy, so that a reader cannot change the original."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import json
import math
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from .large_values import FEW_BYTES, is_large

_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
_decode = json.JSONDecoder().decode

# pydantic writes these words for a value whose `__str__` fails, such as a fraction with more digits than Python writes.
_UNPRINTABLE = "<unprintable "

_SEQUENCES = (list, tuple, set, frozenset)


class NoJsonForm(Exception):
    """A value cannot be shown. `opaque` is True if it lacks a serializer, False if its content has no JSON form."""

    def __init__(self, reason: str, *, opaque: bool = False) -> None:
        super().__init__(reason)
        self.opaque = opaque


def json_form(value: Any) -> Any:
    """Return, as JSON data, a copy of a value that pydantic's serializer made in its Python mode.

    That mode leaves Python values without a JSON form. Bytes become `{"base64": "…"}`, since as text they could look
    like another value; NaN and infinities become `"NaN"`, `"Infinity"` and `"-Infinity"`; all others get pydantic's
    JSON form. Raises `NoJsonForm`, also for a lone surrogate, which interfaces would have to escape (so that it reads
    as other text), and for an integer of more digits than Python writes.
    """
    try:
        # The common case, at C speed; if the round trip changes anything, the slow path below decides.
        if not is_large(value):
            text = _encode(value)
            copy = _decode(text)
            if copy == value and _UNPRINTABLE not in text and (text.isascii() or text.encode()):
                return copy
    except (TypeError, ValueError, RecursionError):
        pass
    opaque: list[str] = []
    try:
        form = _plain(value, opaque)
    except RecursionError:
        raise NoJsonForm("it is nested too deeply, or contains itself") from None
    if opaque:
        raise NoJsonForm(f"{opaque[0]} has no JSON form", opaque=True)
    return form


def spelled_out(value: Any) -> Any:
    """Return a value in plain JSON types for readers without the tagged form: sets and tuples as lists, dates and the
    like as text.

    Numbers that JSON lacks, bytes and keys stay as they are.
    """
    if isinstance(value, dict):
        return {key: spelled_out(item) for key, item in value.items()}
    if isinstance(value, _SEQUENCES):
        return [spelled_out(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value) if isinstance(value, (uuid.UUID, decimal.Decimal)) else value


def _plain(value: Any, opaque: list[str]) -> Any:
    """Return a value as JSON data. Types without a form are added to `opaque`, and the walk goes on so that iterators
    are read.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, opaque)
    if isinstance(value, str):
        return _whole_text(str.__str__(value))
    if isinstance(value, int):
        most = sys.get_int_max_str_digits()
        if most and value.bit_length() > 3 * most and abs(value) >= 10**most:
            raise NoJsonForm(f"it holds an integer of more than {most:,} digits")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _not_finite(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return _object(value.items(), opaque)
    if isinstance(value, _SEQUENCES):
        return [_plain(item, opaque) for item in value]
    if isinstance(value, Iterator):
        raise NoJsonForm("it holds what can be read only once; annotate it as a list")
    try:
        form = to_jsonable_python(value)
    except PydanticSerializationError:
        opaque.append(type(value).__name__)
        return None
    except Exception as error:  # raised by a type's own code
        raise NoJsonForm(f"its {type(value).__name__} cannot be written ({type(error).__name__})") from None
    return _plain(form, opaque)


def _whole_text(text: str) -> str:
    """Return a text unchanged. Raises `NoJsonForm` for half of a surrogate pair, and for pydantic's text for an
    unprintable value.
    """
    if text.startswith(_UNPRINTABLE) and text.endswith(" object>"):
        raise NoJsonForm("it holds a value that cannot be written")
    try:
        for start in range(0, 0 if text.isascii() else len(text), FEW_BYTES):
            text[start : start + FEW_BYTES].encode()
    except UnicodeEncodeError:
        raise NoJsonForm("it holds half of a surrogate pair, which is no character") from None
    return text


def _object(items: Iterable[tuple[Any, Any]], opaque: list[str]) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for key, item in items:
        plain = _plain(key, opaque)
        name = plain if isinstance(plain, str) else _encode(plain)
        if name in form:
            raise NoJsonForm(f"two of its keys are {name!r} in JSON")
        form[name] = _plain(item, opaque)
    return form


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
