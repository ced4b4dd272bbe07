"""The events of an interaction's stream as updates: each step begins, grows and ends.

Of the API's first months, events `content.start` and so on have a content where later ones have a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UsageContent,
    code_content,
)
from actbox.content.messages import Update
from actbox.content.wire.blocks import type_of as kind_of
from actbox.content.wire.fields import read_note
from actbox.content.wire.format import EventReader, Json
from actbox.content.wire.values import (
    instant_or_none,
    integer_or_none,
    kept,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
)

from .blocks import BLOCKS, NAME, NOTE, code_outputs

_REASONS = {"completed": "stop", "requires_action": "tool_calls", "incomplete": "length"}
_UNSAID = frozenset({"in_progress", "queued"})


def is_event(event: Json) -> bool:
    """Return whether an object is an event of a stream."""
    kind = event.get("event_type") if isinstance(event, Mapping) else None
    return isinstance(kind, str) and (kind.startswith(("interaction.", "step.", "content.")) or kind == "error")


def about_interaction(interaction: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an interaction says of the model's message."""
    name = text_or_none(interaction.get("id")) or None
    found = {
        "id": name,
        "response_id": name,
        "model": text_or_none(interaction.get("model")) or text_or_none(interaction.get("agent")),
        "created_at": instant_or_none(interaction.get("created")),
    }
    return {key: value for key, value in found.items() if value is not None}


def end_of_interaction(interaction: Mapping[str, Any]) -> tuple[list[Content], str | None, JsonObject]:
    """Return what an interaction says at its end: errors and usage, why it ended, and all else that it says."""
    contents: list[Content] = [read_error(error) for error in list_or_empty(interaction.get("errors"))]
    usage = _usage_of(interaction.get("usage"))
    contents += [usage] if usage is not None else []
    status = text_or_none(interaction.get("status"))
    reason = None if status in _UNSAID else _REASONS.get(status or "", status)
    return contents, reason, rest_of(interaction, ("steps", "outputs", "input", "id", "model", "created"))


def _usage_of(raw: Json) -> UsageContent | None:
    if not isinstance(raw, Mapping):
        return None
    counts = {name: value for name, value in raw.items() if integer_or_none(value) is not None}
    given, made, total = (counts.pop(f"total_{name}", None) for name in ("input_tokens", "output_tokens", "tokens"))
    counts = {name.removeprefix("total_"): value for name, value in counts.items()}
    return UsageContent(input_tokens=given, output_tokens=made, total_tokens=total, counts=counts)


def read_error(raw: Json) -> ErrorContent:
    """Return an error of an interaction."""
    error = object_or_empty(raw)
    message, code = text_or_none(error.get("message")), text_or_none(error.get("code"))
    return ErrorContent(message=message or code or "it failed", code=code)


class Reader(EventReader):
    """Reads the events of one stream."""

    format = NAME

    def __init__(self) -> None:
        self._steps: dict[int, Mapping[str, Any]] = {}
        """The steps, or contents, as they began."""
        self._said: dict[str, Any] = {}
        self._last = -1

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        contents = self._contents(event) if is_event(event) else None
        if contents is None:
            return None
        interaction = event.get("interaction")
        if not isinstance(interaction, Mapping):
            return [self._update(*contents)] if contents else []
        about = about_interaction(interaction)
        self._said = {key: value for key, value in about.items() if key == "response_id"}
        end, reason, rest = end_of_interaction(interaction)
        update = self._update(*contents, *end)
        about = {("message_id" if key == "id" else key): value for key, value in about.items()}
        said = {"role": "assistant", **about, "provider_data": {NAME: {"interaction": rest}}}
        return [update.model_copy(update={**said, **({"finish_reason": reason} if reason else {})})]

    def _unknown(self, item: UnknownContent) -> Update:
        return self._update(item)

    def _update(self, *contents: Content) -> Update:
        name = self._said.get("response_id")
        return Update(contents=contents, **({"message_id": name, "response_id": name} if name else {}))

    def _contents(self, event: Mapping[str, Any]) -> list[Content] | None:
        index = integer_or_none(event.get("index"))
        match event["event_type"].partition(".")[::2]:
            case "interaction", _:
                return []
            case "error", _:
                return [read_error(event.get("error"))]
            case _, "start":
                begun = event.get("step", event.get("content"))
                if index is None or not isinstance(begun, Mapping):
                    return None
                self._steps[index] = begun
                return self._begin(begun)
            case _, "delta":
                delta = event.get("delta")
                if index is None or not isinstance(delta, Mapping):
                    return None
                return self._grow(index, delta)
            case _, "stop":
                return []
        return None

    def _begin(self, begun: Mapping[str, Any]) -> list[Content]:
        call_id, arguments = text_or_none(begun.get("id")), object_or_empty(begun.get("arguments"))
        match kind_of(begun):
            case "function_call" if call_id is not None:
                name = text_or_none(begun.get("name")) or ""
                rest = rest_of(begun, ("type", "id", "name", "arguments"))
                return [
                    FunctionCall(call_id=call_id, name=name, arguments=dict(arguments), provider_data=kept(NAME, rest))
                ]
            case "code_execution_call" if call_id is not None:
                rest = rest_of(begun, ("type", "id", "arguments"))
                return [_code(call_id, arguments, rest)]
            case "user_input" | "model_output":
                return [*BLOCKS.read_all(list_or_empty(begun.get("content")))]
            case "code_execution_result" if not begun.get("result"):
                return []
            case _ if begun.keys() == {"type"}:
                return []
        return [*BLOCKS.read_all([dict(begun)])]

    def _grow(self, index: int, delta: Mapping[str, Any]) -> list[Content] | None:
        begun, before = self._steps.setdefault(index, {}), self._steps.get(index - 1)
        # A step of text right after another is marked, so that the two are not joined.
        follows = index != self._last and kind_of(begun) == kind_of(before) == "model_output"
        begins: dict[str, JsonObject] = {NAME: {"begins": {}}} if follows else {}
        self._last = index
        call_id = _call_id_of(delta) or _call_id_of(begun)
        match kind_of(delta):
            case "text" if isinstance(delta.get("text"), str):
                return [TextContent(text=delta["text"], provider_data=begins)]
            case "text_annotation_delta":
                notes = [read_note(note, NOTE, NAME) for note in list_or_empty(delta.get("annotations"))]
                return [TextContent(text="", annotations=tuple(notes))]
            case "thought_summary":
                text = text_or_none(object_or_empty(delta.get("content")).get("text"))
                return [ReasoningContent(text=text or "")]
            case "thought_signature":
                return [ReasoningContent(text="", protected_data=text_or_none(delta.get("signature")))]
            case "arguments_delta" if call_id:
                return [FunctionCall(call_id=call_id, arguments=text_or_none(delta.get("arguments")) or "")]
            case "code_execution_call" if call_id:
                rest = rest_of(delta, ("type", "id", "arguments"))
                return [_code(call_id, object_or_empty(delta.get("arguments")), rest)]
            case "code_execution_result" if call_id:
                failed = delta.get("is_error") is True
                outputs = code_outputs(delta.get("result"), failed)
                rest = rest_of(delta, ("type", "call_id", "result", "is_error"))
                return [
                    CodeInterpreterResult(
                        call_id=call_id,
                        outputs=outputs or (),
                        outcome="failed" if failed else "ok",
                        provider_data=kept(NAME, rest),
                    )
                ]
            case "function_call" | "function_result":
                return [*BLOCKS.read_all([{**begun, **delta}])]
        return [*BLOCKS.read_all([dict(delta)])]


def _call_id_of(step: Mapping[str, Any]) -> str | None:
    return text_or_none(step.get("id", step.get("call_id")))


def _code(call_id: str, arguments: Mapping[str, Any], rest: JsonObject) -> CodeInterpreterCall:
    code, language = text_or_none(arguments.get("code")), text_or_none(arguments.get("language"))
    inputs = (code_content(code, (language or "python").lower()),) if code else ()
    return CodeInterpreterCall(call_id=call_id, inputs=inputs, provider_data=kept(NAME, rest))
