"""Text and HTML of results, messages and transcripts for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from actbox.core.result import ExecutionResult

from .items import CodeInterpreterResult, Content, DataContent, FunctionResult, TextContent, as_text
from .messages import Message
from .page import html_fragment
from .render import render
from .results import content_from_result
from .transcripts import Transcript
from .turns import outputs_of


def bundle_of(shown: ExecutionResult | Message | Transcript) -> dict[str, str]:
    """Return a result, message or transcript as text and as HTML, by media type."""
    if isinstance(shown, ExecutionResult):
        text, messages = render(shown), [Message(contents=tuple(content_from_result(shown)))]
    else:
        messages = [shown] if isinstance(shown, Message) else list(shown.messages)
        text = text_of_messages(messages)
    return {"text/plain": text, "text/html": html_fragment(messages)}


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
