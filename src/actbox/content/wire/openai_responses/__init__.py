"""OpenAI's Responses API: responses, the items of requests, and the events of streams.

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import HostedFileContent, HostedVectorStoreContent, JsonObject
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire.format import Format, Json
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.turns import accepted_inputs

from .items import CODE
from .messages import is_failure, is_item, is_response, read, write
from .parts import NAME, PARTS, ours
from .stream import Reader

__all__ = ["FORMAT", "NAME", "Reader", "is_event", "is_of_agent", "looks_like", "read", "write", "write_tools"]

# Kinds of items that no other format has, and those whose names others have too.
_OWN = CODE | {
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
        return 0.0 if "inputs" in item else 0.95
    if kind == "function_call":
        return 0.6 if isinstance(item.get("arguments"), str) and "call_id" in item else 0.0
    if kind == "reasoning":
        return 0.95 if isinstance(item.get("summary"), list) else 0.0
    if isinstance(kind, str) and kind in PARTS:
        return 0.9
    if isinstance(content, list) and "role" in item:
        return 0.95 if any(isinstance(part, Mapping) and str(part.get("type")) in PARTS for part in content) else 0.0
    return 0.2 if kind == "message" and "role" in item else 0.1 if isinstance(content, str) and "role" in item else 0.0


def is_event(event: Json) -> bool:
    """Return whether an object is an event of a stream, and not of an agent of Azure AI Foundry."""
    if not isinstance(event, Mapping) or not isinstance(event.get("type"), str):
        return False
    if event["type"] == "error":
        return "sequence_number" in event
    return event["type"].startswith("response.") and not is_of_agent(event.get("response"))


MOST_RESULTS = 50


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return tools as the API takes them. Files go to the code interpreter by their ids, or by their container.

    Inputs that are neither hosted files nor, for the search, vector stores are left out: upload them first.
    """
    losses = Losses()
    return losses.written([_write_tool(tool, losses) for tool in tools])


def _write_tool(tool: HostedTool, losses: Losses) -> JsonObject:
    if tool.name != type(tool).model_fields["name"].default:
        losses.add("tool.name", "left out: the provider names its tools itself")
    if isinstance(tool, HostedCodeInterpreterTool):
        return {"type": "code_interpreter", "container": _container(tool, losses), **ours(tool)}
    stores = accepted_inputs(tool, "left out: only vector stores are searched", losses, HostedVectorStoreContent)
    asked_for = tool.maximum_result_count
    written: JsonObject = {"type": "file_search", "vector_store_ids": [store.vector_store_id for store in stores]}
    if asked_for is not None:
        written["max_num_results"] = results_within(asked_for, losses)
    return {**written, **ours(tool)}


def results_within(asked_for: int, losses: Losses) -> int:
    """Return how many results to ask for, of which the provider gives no more than `MOST_RESULTS`."""
    if asked_for > MOST_RESULTS:
        losses.add("file_search.maximum_result_count", f"becomes {MOST_RESULTS}, which is the most")
    return min(asked_for, MOST_RESULTS)


def _container(tool: HostedCodeInterpreterTool, losses: Losses) -> Any:
    files = accepted_inputs(tool, "left out: only hosted files are taken", losses, HostedFileContent)
    uploaded: list[Any] = [file.file_id for file in files if file.container_id is None]
    containers = {file.container_id for file in files if file.container_id is not None}
    if len(containers) == 1 and not uploaded:
        return containers.pop()
    if containers:
        losses.add("code_interpreter.inputs.hosted_file", "left out: it is in a container, and not with the others")
    return {"type": "auto", **({"file_ids": uploaded} if uploaded else {})}


FORMAT = Format(NAME, "OpenAI Responses", read, write, looks_like, Reader, is_event, write_tools)
