"""Values as JSON data for somebody to look at: whole, and a copy, so that looking changes nothing."""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.JSONDecoder().decode

_SEQUENCES = (list, tuple, set, frozenset)


class NoJsonForm(Exception):
    """A value cannot be shown. `opaque` says that it is for lack of a serialiser, not by its nature."""

    def __init__(self, reason: str, *, opaque: bool = False) -> None:
        super().__init__(reason)
        self.opaque = opaque


def json_form(value: Any) -> Any:
    """Return a copy of what pydantic's serialiser made in its Python mode as JSON data.

    That mode leaves what only Python has. Of that, bytes become `{"base64": "…"}`, since as text they could pass for
    another value; numbers that are none and infinities become `"NaN"`, `"Infinity"` and `"-Infinity"`; the rest gets
    the form that pydantic gives it in JSON. Raises `NoJsonForm`.
    """
    try:
        # The common case at C speed; where the round trip changes something, the slow path decides.
        copy = _decode(_encode(value))
        if copy == value:
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


def _plain(value: Any, opaque: list[str]) -> Any:
    """Return JSON data. Types without a form are added to `opaque`, and the walk goes on: there may be iterators."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, opaque)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
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
    return _plain(form, opaque)


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
