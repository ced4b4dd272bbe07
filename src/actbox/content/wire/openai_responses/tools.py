"""The hosted tools of the Responses API, as a request asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actbox.content.items import HostedFileContent, HostedVectorStoreContent, JsonObject
from actbox.content.tools import HostedCodeInterpreterTool, HostedFileSearchTool, HostedTool
from actbox.content.wire.format import Json
from actbox.content.wire.written import Losses, Written

from .parts import ours

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
    stores, asked_for = vector_store_ids(tool, losses), tool.maximum_result_count
    written: JsonObject = {"type": "file_search", "vector_store_ids": stores}
    if asked_for is not None:
        written["max_num_results"] = results_within(asked_for, losses)
    return {**written, **ours(tool)}


def results_within(asked_for: int, losses: Losses) -> int:
    """Return how many results to ask for, of which the provider gives no more than `MOST_RESULTS`."""
    if asked_for > MOST_RESULTS:
        losses.add("file_search.maximum_result_count", f"becomes {MOST_RESULTS}, which is the most")
    return min(asked_for, MOST_RESULTS)


def _container(tool: HostedCodeInterpreterTool, losses: Losses) -> Any:
    files = hosted_files(tool, losses)
    uploaded: list[Any] = [file.file_id for file in files if file.container_id is None]
    containers = {file.container_id for file in files if file.container_id is not None}
    if len(containers) == 1 and not uploaded:
        return containers.pop()
    if containers:
        losses.add("code_interpreter.inputs.hosted_file", "left out: it is in a container, and not with the others")
    return {"type": "auto", **({"file_ids": uploaded} if uploaded else {})}


def hosted_files(tool: HostedCodeInterpreterTool, losses: Losses) -> list[HostedFileContent]:
    """Return the inputs that are hosted files; the others are reported."""
    for item in tool.inputs:
        if not isinstance(item, HostedFileContent):
            losses.add(f"code_interpreter.inputs.{item.type}", "left out: only hosted files are taken")
    return [item for item in tool.inputs if isinstance(item, HostedFileContent)]


def vector_store_ids(tool: HostedFileSearchTool, losses: Losses) -> list[Any]:
    """Return the ids of the inputs that are vector stores; the others are reported."""
    for item in tool.inputs:
        if not isinstance(item, HostedVectorStoreContent):
            losses.add(f"file_search.inputs.{item.type}", "left out: only vector stores are searched")
    return [item.vector_store_id for item in tool.inputs if isinstance(item, HostedVectorStoreContent)]
