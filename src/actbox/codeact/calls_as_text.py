"""Recognition of a tool call that a model wrote as text: as JSON, bare or fenced, or between `<tool_call>` tags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from markdown_it import MarkdownIt

from .model import ToolCall

MOST_CHARS: Final = 100_000
"""The most characters of an answer that is searched for a call."""

_NAMES: Final = ("name", "tool", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "input", "args")
# Inline content and references hold no blocks, and parsing much of them takes long.
_PARSER: Final = MarkdownIt("commonmark").disable(["inline", "reference"])
_TAGS: Final = re.compile(r"<(tool_call|function_call)>(.*?)(?:</\1>|\Z)", re.DOTALL)


def call_as_text(answer: str) -> ToolCall | None:
    """Return the first tool call of an answer that ends with one, its `id` empty, or `None`.

    A call is a JSON object with a name and arguments, in the forms that models are trained on: `{"name": …,
    "arguments": …}`, such an object below `"function"`, a list of them, or a list below `"tool_calls"`. It is the whole
    answer, a fenced block of JSON at its end, or stands between tags.
    """
    if len(answer) > MOST_CHARS or not ("{" in answer and '"' in answer):
        return None
    for text in _places(answer):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        call = _call(found)
        if call is not None:
            return call
    return None


def _places(answer: str) -> Iterator[str]:
    yield answer
    yield from (found[2] for found in _TAGS.finditer(answer))
    tokens = _PARSER.parse(answer)
    if tokens and tokens[-1].type == "fence" and tokens[-1].info.strip().lower() in ("", "json", "tool_call"):
        yield tokens[-1].content


def _call(found: Any) -> ToolCall | None:
    for _ in range(3):  # up to three levels: a list below "tool_calls", an object in it, the call below "function"
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, Mapping):
            inner = found.get("tool_calls") or found.get("function")
            found = inner if isinstance(inner, list | Mapping) else found
    if not isinstance(found, Mapping):
        return None
    name = next((found[key] for key in _NAMES if key in found), None)
    given = next((found[key] for key in _ARGUMENTS if key in found), None)
    return ToolCall("", name, given) if isinstance(name, str) and isinstance(given, Mapping | str) else None
