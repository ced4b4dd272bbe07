"""Hosted tools as a request has them."""

from __future__ import annotations

from collections.abc import Sequence

from actbox.content.items import HostedVectorStoreContent, JsonObject
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire.format import Json
from actbox.content.wire.written import Losses, Written

from .names import NAME


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return tools as a request has them. The API takes files as parts of a message, and not with its tools."""
    losses = Losses()
    written = []
    for tool in tools:
        ours = dict(tool.provider_data.get(NAME, {}))
        if isinstance(tool, HostedCodeInterpreterTool):
            if tool.inputs:
                losses.add("code_interpreter.inputs", "left out: files go as `fileData` parts of the user's message")
            written.append({"codeExecution": {}, **ours})
            continue
        stores = [item.vector_store_id for item in tool.inputs if isinstance(item, HostedVectorStoreContent)]
        if len(stores) < len(tool.inputs):
            losses.add("file_search.inputs", "left out but for vector stores: it searches stores only")
        search: JsonObject = {"fileSearchStoreNames": [*stores]}
        if tool.maximum_result_count is not None:
            search["topK"] = tool.maximum_result_count
        written.append({"fileSearch": {**search, **ours}})
    return losses.written(written)
