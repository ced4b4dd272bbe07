"""Tool calls of a conversation, said in words: providers refuse those of a model that is offered no tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from strands.types.content import ContentBlock, Messages


def in_words(messages: Messages) -> Messages:
    """Return a conversation in which no message calls a tool or has a result; pictures of results stay as they are."""
    return [{**message, "content": [*_blocks(message["content"])]} for message in messages]


def _blocks(content: list[ContentBlock]) -> Iterator[ContentBlock]:
    for block in content:
        if "toolUse" in block:
            call = block["toolUse"]
            yield {"text": f"[call of the tool {call['name']} with {json.dumps(call['input'], default=repr)}]"}
        elif "toolResult" in block:
            result = block["toolResult"]
            yield {"text": f"[result of a tool call, {result['status']}]"}
            for item in result["content"]:
                yield _said(item)
        else:
            yield block


def _said(item: Mapping[str, Any]) -> Any:
    return {"text": json.dumps(item["json"], ensure_ascii=False, default=repr)} if "json" in item else item
