"""OpenAI's Responses API: responses, the items of requests, and the events of streams.

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping

from actbox.content.wire.format import Format, Json

from .code import KINDS
from .parts import NAME
from .reading import is_failure, is_item, is_response, read
from .stream import Reader
from .tools import write_tools
from .writing import write

__all__ = ["FORMAT", "NAME", "Reader", "is_event", "is_of_agent", "looks_like", "read", "write", "write_tools"]

# Kinds of items that no other format has, and those whose names others have too.
_OWN = KINDS | {
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call_output",
    "file_search_call",
    "web_search_call",
    "computer_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "item_reference",
    "apply_patch_call",
    "apply_patch_call_output",
    "compaction",
}
_PARTS = frozenset({"input_text", "input_image", "input_file", "output_text", "refusal"})
_AGENTS = ("agent_reference", "agent")
"""What Azure AI Foundry adds to a response."""


def looks_like(document: Json) -> float:
    """Return how likely a document is of this format; 0 for responses of an agent of Azure AI Foundry."""
    if isinstance(document, Mapping) and is_response(document):
        return 0.0 if is_of_agent(document) else 1.0
    if isinstance(document, Mapping) and isinstance(document.get("input"), list | str) and "model" in document:
        if isinstance(document["input"], str):
            return 0.9
        document = document["input"]
    if is_failure(document):
        return 0.7
    if isinstance(document, Mapping) and isinstance(document.get("data"), list):
        document = document["data"]
    items = document if isinstance(document, list) else [document]
    if any(is_of_agent(item) or not is_item(item) for item in items):
        return 0.0
    return max((_looks_like_item(item) for item in items), default=0.0)


def is_of_agent(document: Json) -> bool:
    """Return whether a response, or an item, says of which agent of Azure AI Foundry it is."""
    if not isinstance(document, Mapping):
        return False
    made_by = document.get("created_by")
    names_agent = isinstance(made_by, Mapping) and "agent" in made_by
    return names_agent or any(isinstance(document.get(name), Mapping) for name in _AGENTS)


def _looks_like_item(item: Json) -> float:
    if not isinstance(item, Mapping) or "contents" in item:
        return 0.0
    kind, content = item.get("type"), item.get("content")
    if is_response(item):
        return 1.0
    if isinstance(kind, str) and kind in _OWN:
        # An item of our own has inputs where the API's has its code.
        return 0.0 if "inputs" in item or ("outputs" in item and "container_id" not in item) else 0.95
    if kind == "function_call":
        return 0.6 if isinstance(item.get("arguments"), str) and "call_id" in item else 0.0
    if kind == "reasoning":
        return 0.95 if isinstance(item.get("summary"), list) else 0.0
    if isinstance(kind, str) and kind in _PARTS:
        return 0.9
    if isinstance(content, list) and "role" in item:
        return 0.95 if any(isinstance(part, Mapping) and str(part.get("type")) in _PARTS for part in content) else 0.0
    return 0.2 if kind == "message" and "role" in item else 0.1 if isinstance(content, str) and "role" in item else 0.0


def is_event(event: Json) -> bool:
    """Return whether an object is an event of a stream, and not of an agent of Azure AI Foundry."""
    if not isinstance(event, Mapping) or not isinstance(event.get("type"), str):
        return False
    if event["type"] == "error":
        return "sequence_number" in event
    return event["type"].startswith("response.") and not is_of_agent(event.get("response"))


FORMAT = Format(NAME, "OpenAI Responses", read, write, looks_like, Reader, is_event, write_tools)
