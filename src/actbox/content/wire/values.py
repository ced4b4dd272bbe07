"""Small steps of reading JSON whose shape nobody vouches for: what is not as it should be is none; and of writing it.

Bytes are base64 text in JSON, as over HTTP; the SDKs of AWS for Python have them as bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
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


def object_or_none(value: Any) -> JsonObject | None:
    """Return an object, `None` where it is none."""
    return dict(value) if isinstance(value, Mapping) else None


def boolean_or_none(value: Any) -> bool | None:
    """Return a truth value, `None` where it is none."""
    return value if isinstance(value, bool) else None


def word_or_none(value: Any) -> str | None:
    """Return a text that is not empty, `None` where it is none."""
    return text_or_none(value) or None


def only_true(value: bool) -> Any:
    """Return a truth value that is only said where it is true."""
    return True if value else None


def to_base64(data: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(data).decode("ascii")


def to_bytes(value: Any) -> bytes | None:
    """Return a text as bytes, `None` where it is none."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None


def to_text(data: bytes) -> str:
    """Return bytes as text; what is none becomes a replacement character."""
    return data.decode("utf-8", "surrogatepass" if is_utf8(data) else "replace")


def to_data_uri(media_type_and_data: tuple[str, bytes]) -> str:
    """Return bytes as a `data:` URI."""
    media_type, data = media_type_and_data
    return f"data:{media_type};base64,{to_base64(data)}"


def from_data_uri(uri: str) -> tuple[str, bytes] | None:
    """Return media type and bytes of a `data:` URI in base64, `None` where it is none."""
    head, marked, body = uri.removeprefix("data:").partition(";base64,")
    data = bytes_or_none(body)
    return (head or "text/plain", data) if uri.startswith("data:") and marked and data is not None else None


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are text."""
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def to_object(arguments: JsonObject | str) -> JsonObject:
    """Return arguments as an object."""
    return arguments if isinstance(arguments, dict) else {"arguments": arguments} if arguments else {}


def json_or_none(text: Any) -> Any:
    """Return what JSON text says, `None` where it is none."""
    try:
        return json.loads(text) if isinstance(text, str | bytes) else None
    except (ValueError, RecursionError):
        return None


def without_bytes(document: Any) -> Any:
    """Return a document with base64 text for all bytes in it."""
    if isinstance(document, bytes | bytearray):
        return to_base64(bytes(document))
    if isinstance(document, Mapping):
        return {name: without_bytes(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [without_bytes(value) for value in document]
    return document


def with_bytes(document: Any, fields: frozenset[str]) -> Any:
    """Return a document with bytes for the base64 text in fields of these names, as the SDK for Python takes it."""
    if isinstance(document, Mapping):
        return {
            name: bytes_or_none(value) if name in fields and isinstance(value, str) else with_bytes(value, fields)
            for name, value in document.items()
        }
    return [with_bytes(value, fields) for value in document] if isinstance(document, list) else document
