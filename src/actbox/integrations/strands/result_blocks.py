"""A program's outcome as the blocks of a tool result: text and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from strands.types.tools import ToolResultContent

from actbox.content.render import MAX_CHARS, render
from actbox.core.call_log import CallLog
from actbox.core.result import ExecutionResult
from actbox.sandbox.run_end import OPEN_ANOTHER

MOST_IMAGES: Final = 20
"""The most pictures of one result; a warning has the number of further ones."""
MOST_IMAGE_BYTES: Final = 3_750_000
"""The most bytes of one picture: models accept at most five megabytes of base64."""

_FORMATS: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}

_Image = tuple[str, bytes]


def blocks_of(
    result: ExecutionResult,
    program: str,
    calls: CallLog | None = None,
    warnings: Sequence[str] = (),
    *,
    max_chars: int = MAX_CHARS,
) -> list[ToolResultContent]:
    """Return one text block, of at most `max_chars` characters, and an image block for each picture.

    Pictures are taken from the program's value, wherever they are in the form of tools (`{"type": "image", "format":
    "png", "base64": "…"}`), from the value's own picture (a figure), and from the output files.
    """
    found: list[_Image] = []
    value = _without_images(result.value, found)
    if found:
        result = replace(result, value=value, value_text=repr(value))
    files = [(item.media_type, item.data) for item in result.artifacts]
    for media_type, data in [*result.value_forms.items(), *files]:
        if media_type in _FORMATS and isinstance(data, bytes) and data:
            found.append((_FORMATS[media_type], data))
    shown = [(form, data) for form, data in found if len(data) <= MOST_IMAGE_BYTES]
    if len(found) > len(shown):
        large = f"{MOST_IMAGE_BYTES:,} bytes"
        warnings = [*warnings, f"pictures larger than {large} are not shown: {len(found) - len(shown)}"]
    if len(shown) > MOST_IMAGES:
        warnings = [*warnings, f"{len(shown) - MOST_IMAGES} more pictures are not shown"]
    result = replace(result, warnings=(*result.warnings, *warnings))
    if result.error is not None:  # its hint may address the owner of the session, which no model is
        result = replace(result, error=replace(result.error, hint=result.error.hint.removesuffix(OPEN_ANOTHER)))
    text = render(result, program=program, calls=calls, max_chars=max_chars)
    return [{"text": text}, *_blocks(shown[:MOST_IMAGES])]


def _blocks(images: Sequence[_Image]) -> Iterator[ToolResultContent]:
    for form, data in images:
        block: Any = {"image": {"format": form, "source": {"bytes": data}}}
        yield block


def _without_images(value: Any, found: list[_Image]) -> Any:
    """Return a value with each picture replaced by a few words and added to `found`."""
    if isinstance(value, Mapping):
        image = _image(value)
        if image is None:
            return {key: _without_images(item, found) for key, item in value.items()}
        found.append(image)
        return {"type": "image", "format": image[0], "shown": f"picture {len(found)}"}
    if isinstance(value, list):
        return [_without_images(item, found) for item in value]
    return value


def _image(value: Mapping[str, Any]) -> _Image | None:
    form, text = value.get("format"), value.get("base64")
    if (
        value.get("type") != "image"
        or not isinstance(form, str)
        or form not in _FORMATS.values()
        or not isinstance(text, str)
    ):
        return None
    try:
        return form, base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
