"""Results of tools in the form in which models read them."""

from __future__ import annotations

import re
from typing import Any, Final

from actbox.content.render import MAX_CHARS, cut
from actbox.tools.json_form import json_form

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{1000,}={0,2}")


def for_model(value: Any) -> Any:
    """Return a tool's result as JSON data for a model: long texts are cut, and of files in base64 their sizes are left.

    Programs, which call tools as functions, have results whole. Raises `NoJsonForm`.
    """
    return _shortened(json_form(value))


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if not isinstance(value, str):
        return value
    if _BASE64.fullmatch(value):
        return f"[base64 of {len(value.rstrip('=')) * 3 // 4:,} bytes]"
    return cut(value, MAX_CHARS)
