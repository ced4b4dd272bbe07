"""OpenAI's Chat Completions: messages of requests, completions, and the chunks of a stream.

https://platform.openai.com/docs/api-reference/chat

The API runs no code and hosts no tools: calls and results of code become plain tool calls. A null field counts as
missing, and so do an empty list of calls or citations and an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.wire.format import Format
from actbox.content.wire.turns import scored

from .messages import read, write, write_tools
from .parts import NAME
from .stream import Reader

__all__ = ["FORMAT", "NAME", "Reader", "read", "write", "write_tools"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_MARKS = ("tool_calls", "tool_call_id", "function_call", "refusal", "audio")
_FIELDS = {"reference": "reference_ids"}
"""Kinds of parts whose content is not in the field of the kind's own name."""
_NOT_OURS = frozenset({"type", "object", "parts", "contents", "thread_id", "attachments"})


@scored()
def _looks_like(document: Mapping[str, Any]) -> float:
    if isinstance(document.get("choices"), list):
        return 1.0 if document.get("object", "chat.completion") == "chat.completion" else 0.0
    if isinstance(document.get("messages"), list):
        return _looks_like(document["messages"])
    return _looks_like_message(document)


def _looks_like_message(message: Mapping[str, Any]) -> float:
    if str(message.get("role")) not in _ROLES or not _NOT_OURS.isdisjoint(message):
        return 0.0
    marked = any(mark in message for mark in _MARKS)
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            kind = str(part.get("type")) if isinstance(part, Mapping) else ""
            if not kind or _FIELDS.get(kind, kind) not in part:
                return 0.0
            # A picture at a thread is much like one here; text alone could be anybody's.
            marked = marked or kind in ("input_audio", "file") or isinstance(part.get("thinking"), list)
    elif not isinstance(content, str) and not (content is None and marked):
        return 0.0
    if marked or message["role"] in ("tool", "function"):
        return 0.95
    return 0.5 if message["role"] in ("system", "developer") else 0.4


def _is_event(event: Any) -> bool:
    return isinstance(event, Mapping) and event.get("object") == "chat.completion.chunk"


FORMAT = Format(NAME, "OpenAI Chat Completions", read, write, _looks_like, Reader, _is_event, write_tools)
