"""What a tool of the framework returned, as a program gets it: JSON data or bytes."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from agent_framework import Content

from actbox.core.errors import ToolError


def plain(value: Any, tool: str) -> Any:
    """Return a tool's result without the framework's `Content`.

    One text is that text, one file its bytes, one link its address; nothing is `None`. Several are a list of objects,
    each with its `type`, and the bytes of files in base64. An error item is raised as `ToolError`. What has no
    `Content` in it is returned as it is.
    """
    if isinstance(value, Content):
        return _one([value], tool)
    if isinstance(value, list) and value and all(isinstance(item, Content) for item in value):
        return _one(value, tool)
    return value


def data_of(text: str, tool: str) -> Any:
    """Return the data of a result that comes as JSON. Raises `ToolError`."""
    try:
        return json.loads(text)
    except ValueError:
        raise ToolError("it declares that it returns data, and returned text that is no JSON", tool=tool) from None


def _one(items: list[Content], tool: str) -> Any:
    for item in items:
        if item.type == "error":
            said = ": ".join(text for text in (item.message, item.error_details) if text)
            raise ToolError(said or "the tool failed and does not say why", tool=tool)
    if len(items) > 1:
        return [_form(item) for item in items]
    (item,) = items
    if item.type in ("text", "text_reasoning"):
        return item.text
    if item.type == "data":
        return _bytes_of(item)
    return item.uri if item.type == "uri" else _form(item)


def _form(item: Content) -> dict[str, Any]:
    if item.type == "text":
        return {"type": "text", "text": item.text}
    if item.type == "data":
        encoded = base64.b64encode(_bytes_of(item)).decode("ascii")
        return {"type": "data", "media_type": item.media_type, "base64": encoded}
    return item.to_dict(exclude={"raw_representation", "additional_properties"})


def _bytes_of(item: Content) -> bytes:
    header, _, body = (item.uri or "").partition(",")
    try:
        return base64.b64decode(body, validate=True) if header.endswith(";base64") else body.encode()
    except binascii.Error:
        return body.encode()
