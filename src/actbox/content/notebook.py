"""What a notebook shows of results, messages and transcripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from actbox.core.result import ExecutionResult

from .items import CodeInterpreterResult, Content, DataContent, FunctionResult, TextContent
from .messages import Message
from .page import html_fragment
from .render import render
from .results import content_from_result
from .turns import outputs_of
from .wire.degrade import as_text


def bundle_of_result(result: ExecutionResult) -> dict[str, str]:
    """Return a result as text and as HTML, by media type."""
    shown = Message(contents=tuple(content_from_result(result)))
    return {"text/plain": render(result), "text/html": html_fragment([shown])}


def bundle_of_messages(messages: Iterable[Message]) -> dict[str, str]:
    """Return messages as text and as HTML, by media type."""
    messages = list(messages)
    return {"text/plain": text_of_messages(messages), "text/html": html_fragment(messages)}


def html_of_messages(messages: Iterable[Message]) -> str:
    """Return messages as HTML that changes nothing else of the page it is put in."""
    return html_fragment(messages)


def text_of_messages(messages: Iterable[Message]) -> str:
    """Return messages as plain text: each item below its message's role."""
    written = []
    for message in messages:
        items = [said for item in message.contents if (said := _as_text(item))]
        written.append("\n".join([f"[{message.role}]", *items]))
    return "\n\n".join(written)


def _as_text(item: Content) -> str:
    if isinstance(item, CodeInterpreterResult | FunctionResult):
        outputs = tuple(TextContent(text=output.text) if _is_json(output) else output for output in outputs_of(item))
        item = item.model_copy(update={"outputs": outputs})
    return as_text(item)


def _is_json(item: Content) -> TypeGuard[DataContent]:
    return isinstance(item, DataContent) and item.name is None and item.media_type == "application/json"
