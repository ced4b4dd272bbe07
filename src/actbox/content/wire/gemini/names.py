"""Names and small values of the format: both spellings of a field are read, camelCase is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from actbox.content.items import JsonObject
from actbox.content.wire.reading import bytes_or_none, kept

NAME = "gemini"
FILES_API = "https://generativelanguage.googleapis.com/v1beta/"
_SNAKE = re.compile(r"[a-z]+(_[a-z]+)+")
_URL_SAFE = str.maketrans("-_", "+/")


def camel(document: Mapping[str, Any]) -> JsonObject:
    """Return an object with its own fields' names in camelCase, and without those that are null, which say nothing.

    A field that would take another's place keeps its name.
    """
    fields: JsonObject = {}
    for name, value in document.items():
        if value is not None:
            other = _camel_name(name) if _SNAKE.fullmatch(name) else name
            fields[name if other != name and document.get(other) is not None else other] = value
    return fields


def camel_or_none(value: Any) -> JsonObject | None:
    """Return an object with its names in camelCase, `None` where the value is no object."""
    return camel(value) if isinstance(value, Mapping) else None


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def decoded(value: Any) -> bytes | None:
    """Return what base64 text of either alphabet stands for, `None` where it is not whole or not base64."""
    return bytes_or_none(value.translate(_URL_SAFE)) if isinstance(value, str) else None


def marked(**marks: Any) -> dict[str, JsonObject]:
    """Return the `provider_data` with these marks, without those that say nothing."""
    said = {name: value for name, value in marks.items() if value is not None and value is not False and value != {}}
    return kept(NAME, said)
