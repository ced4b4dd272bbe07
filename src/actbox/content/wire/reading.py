"""Small steps of reading JSON whose shape nobody vouches for: what is not as it should be is none, and is kept."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from actbox.content.items import JsonObject


def text_or_none(value: Any) -> str | None:
    """Return a text, `None` where it is none."""
    return value if isinstance(value, str) else None


def integer_or_none(value: Any) -> int | None:
    """Return a whole number, `None` where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def object_or_empty(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def list_or_empty(value: Any) -> list[Any]:
    """Return a list, an empty one where it is none."""
    return value if isinstance(value, list) else []


def bytes_or_none(value: Any) -> bytes | None:
    """Return what base64 text stands for, `None` where it is not whole or not base64."""
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None


def instant_or_none(value: Any) -> datetime | None:
    """Return the time of seconds since 1970, or of a text in ISO 8601; `None` where it is neither."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def rest_of(document: Mapping[str, Any], known: Iterable[str]) -> JsonObject:
    """Return the fields of an object but for those that are known, to be kept as they are."""
    names = frozenset(known)
    return {name: value for name, value in document.items() if name not in names}


def kept(name: str, rest: JsonObject) -> dict[str, JsonObject]:
    """Return the `provider_data` that keeps these fields for a format; none where there is nothing to keep."""
    return {name: rest} if rest else {}
