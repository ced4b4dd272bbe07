"""Azure AI Foundry: agents that answer through the Responses API, and threads in the manner of OpenAI's Assistants.

The differences from OpenAI, in `azure-ai-projects` 2 and `azure-ai-agents` 1:

| | OpenAI | Foundry |
|---|---|---|
| the answer comes from | a model | an agent: `agent_reference` with name and version in requests and responses |
| items | those of the Responses API | the same, with `response_id` and the agent in them |
| citations in threads | files | web pages too (`url_citation`) |
| attachments in threads | files by id | assets in Azure too (`data_source`) |
| files of the code interpreter | ids of files | ids of files, or `data_sources`, never both |
| calls of tools in steps | code, search, functions | the same, and Bing, Azure AI Search, OpenAPI and others |

Fields that Foundry adds to a response or an item are kept, like all unknown fields. A thread document without any of
these features looks like one of Assistants: this format reads it only if the caller names the format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from actbox.content.items import (
    HostedFileContent,
    HostedVectorStoreContent,
    JsonObject,
    Part,
    UriContent,
)
from actbox.content.messages import Message, Update
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire import openai_responses
from actbox.content.wire.format import EventReader, Format, Json
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.openai_assistants.reading import oldest_first
from actbox.content.wire.openai_assistants.stream import RunReader
from actbox.content.wire.turns import accepted_inputs
from actbox.content.wire.values import list_or_empty, object_or_empty

from .threads import DIALECT, NAME, is_from_thread, is_of_thread, read_one, write_one

_OPENAI = openai_responses.FORMAT.name
_OWN_CALLS = frozenset(
    {"azure_ai_search", "azure_function", "bing_grounding", "bing_custom_search", "connected_agent", "openapi"}
    | {"fabric_dataagent", "sharepoint_grounding", "deep_research", "browser_automation", "mcp"}
)


def read(document: Json) -> list[Message]:
    """Return the messages of a response or of items, or of messages, steps and runs of a thread.

    Raises `ValueError` for what is none of these.
    """
    inner = document.get("data") if isinstance(document, Mapping) and document.get("object") == "list" else document
    documents = inner if isinstance(inner, list) else [inner]
    if not any(is_of_thread(item) for item in documents):
        return [_renamed(message, _OPENAI, NAME) for message in openai_responses.read(document)]
    messages: list[Message] = []
    for item in oldest_first(documents):
        if isinstance(item, Mapping) and is_of_thread(item):
            messages.append(read_one(item))
        else:
            messages += [_renamed(message, _OPENAI, NAME) for message in openai_responses.read([item])]
    return messages


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return messages that came from threads as they were there, and all others as items of the Responses API."""
    losses = Losses()
    documents: list[Json] = []
    for from_thread, group in groupby(messages, key=is_from_thread):
        for written in map(write_one, group) if from_thread else [_write_items(list(group))]:
            documents += written.document
            for loss in written.losses:
                losses.add(loss.what, loss.how)
    return losses.written(documents)


def _write_items(messages: Sequence[Message]) -> Written[list[Json]]:
    return openai_responses.write([_renamed(message, NAME, _OPENAI) for message in messages])


def _renamed(part: Any, before: str, after: str) -> Any:
    """Return a message, an update or an item with what one format has of it under the name of another."""
    changes: dict[str, Any] = {}
    if before in part.provider_data:
        others = {name: data for name, data in part.provider_data.items() if name not in (before, after)}
        changes["provider_data"] = {**others, after: part.provider_data[before]}
    elif after in part.provider_data:
        changes["provider_data"] = {name: data for name, data in part.provider_data.items() if name != after}
    if getattr(part, "format", None) == before:
        changes["format"] = after
    for field in ("contents", "inputs", "outputs", "annotations"):
        inner: tuple[Part, ...] | None = getattr(part, field, None)
        if inner:
            changes[field] = tuple(_renamed(item, before, after) for item in inner)
    return part.model_copy(update=changes) if changes else part


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return tools as an agent's definition and the Responses API take them; `write_agent_tools` is for threads."""
    return openai_responses.write_tools([_renamed(tool, NAME, _OPENAI) for tool in tools])


def write_agent_tools(tools: Sequence[HostedTool]) -> Written[JsonObject]:
    """Return tools as an agent of threads takes them: `tools`, and `tool_resources` with files, assets and stores.

    Inputs at a URI are assets in Azure. The service takes files or assets: where there are both, assets are left out.
    """
    losses = Losses()
    definitions: list[Any] = []
    resources: JsonObject = {}
    for tool in tools:
        if isinstance(tool, HostedCodeInterpreterTool):
            definitions.append({"type": "code_interpreter"})
            given = accepted_inputs(tool, _NOT_TAKEN, losses, HostedFileContent, UriContent)
            files = [item.file_id for item in given if isinstance(item, HostedFileContent)]
            assets = [item.uri for item in given if isinstance(item, UriContent)]
            if files and assets:
                losses.add("code_interpreter.inputs.uri", "left out: there are files by id, and only one kind is taken")
            sources = [{"uri": uri, "type": "uri_asset"} for uri in assets]
            found: Any = {"file_ids": files} if files else {"data_sources": sources} if sources else {}
        else:
            details: JsonObject = {}
            if tool.maximum_result_count is not None:
                details = {
                    "file_search": {
                        "max_num_results": openai_responses.results_within(tool.maximum_result_count, losses)
                    }
                }
            definitions.append({"type": "file_search", **details})
            stores = accepted_inputs(tool, _NOT_TAKEN, losses, HostedVectorStoreContent)
            found = {"vector_store_ids": [store.vector_store_id for store in stores]} if stores else {}
        if found:
            resources[str(definitions[-1]["type"])] = found
    return losses.written({"tools": definitions, "tool_resources": resources})


_NOT_TAKEN = "left out: the tool does not take it"


class Reader(EventReader):
    """Reads the events of a response, or of a run in a thread."""

    format = NAME

    def __init__(self) -> None:
        self._responses, self._threads = openai_responses.Reader(), RunReader(DIALECT)

    def _read(self, event: Mapping[str, Any]) -> list[Update]:
        if "event" in event:
            return self._threads.feed(event)
        return [_renamed(update, _OPENAI, NAME) for update in self._responses.feed(event)]


def looks_like(document: Json) -> float:
    """Return 1 for what only Foundry has: an agent that answers, and what its threads have beside Assistants'."""
    inner = document.get("data") if isinstance(document, Mapping) and document.get("object") == "list" else document
    documents = inner if isinstance(inner, list) else [inner]
    return 1.0 if any(openai_responses.is_of_agent(item) or _is_of_own_thread(item) for item in documents) else 0.0


def _is_of_own_thread(document: Json) -> bool:
    if not isinstance(document, Mapping) or not is_of_thread(document):
        return False
    calls = list_or_empty(object_or_empty(document.get("step_details")).get("tool_calls"))
    if any(str(object_or_empty(call).get("type")) in _OWN_CALLS for call in calls):
        return True
    if any("data_source" in object_or_empty(attachment) for attachment in list_or_empty(document.get("attachments"))):
        return True
    texts = [object_or_empty(object_or_empty(part).get("text")) for part in list_or_empty(document.get("content"))]
    said = [object_or_empty(annotation) for text in texts for annotation in list_or_empty(text.get("annotations"))]
    return any(isinstance(annotation.get("url_citation"), Mapping) for annotation in said)


def is_event(event: Json) -> bool:
    """Return whether an object is an event that only Foundry has: one that tells which agent answers."""
    if not isinstance(event, Mapping):
        return False
    if "event" in event:
        return _is_of_own_thread(event.get("data"))
    kind = event.get("type")
    own = openai_responses.is_of_agent(event.get("response")) or openai_responses.is_of_agent(event.get("item"))
    return isinstance(kind, str) and kind.startswith("response.") and own


FORMAT = Format(NAME, "Azure AI Foundry", read, write, looks_like, Reader, is_event, write_tools)
