"""Bytes in the documents of AWS: base64 text in JSON, as over HTTP, and bytes as its SDK for Python has them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from .reading import bytes_or_none


def without_bytes(document: Any) -> Any:
    """Return a document with base64 text for all bytes in it."""
    if isinstance(document, bytes | bytearray):
        return base64.b64encode(document).decode("ascii")
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
