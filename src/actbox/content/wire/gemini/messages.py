"""Documents into messages and back: responses with their candidates, requests, contents, single parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionResult,
    JsonObject,
    TextContent,
    UsageContent,
)
from actbox.content.messages import Message
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Written
from actbox.content.wire.turns import message_fields, note_unwritten
from actbox.content.wire.values import (
    integer_or_none,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
)

from .citations import citations_of, with_annotations
from .parts import KINDS, NAME, PartsReader, Writing, camel, camel_or_none, marked, write_parts

_ROLES_WRITTEN = {"assistant": "model", "tool": "user", "developer": "system"}
_REASON_NAMES = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_FIELDS_LOST = ("author", "id", "response_id", "model", "created_at", "finish_reason")
ROLES = {"user": "user", "model": "assistant", "function": "tool"}
FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}
_RESPONSE = ("candidates", "promptFeedback", "usageMetadata", "modelVersion")


def is_response(document: Any) -> bool:
    """Return whether an object has what only responses have, or chunks of one."""
    fields = camel_or_none(document) or {}
    return any(name in fields for name in _RESPONSE) and "contents" not in fields


def is_failure(document: Any) -> bool:
    """Return whether an object is what the API returns where it fails: an error with a number and a status word."""
    error = object_or_empty(object_or_empty(document).get("error"))
    return isinstance(error.get("message"), str) and isinstance(error.get("code"), int) and "status" in error


def read_response(document: Json) -> list[Message]:
    """Return a message for each candidate; one without content where there is none, as for a prompt that is blocked."""
    response = camel(document)
    candidates = list_or_empty(response.get("candidates"))
    messages = []
    for place, candidate in enumerate(candidates or [{}]):
        fields = camel_or_none(candidate)
        index = index_of(fields or {}, place)
        reader = PartsReader(prefix_of(index))
        found = reader.read_all(parts_of(fields) if fields is not None else [candidate])
        usage = usage_of(response) if place == 0 else None
        contents = (*found, *(() if usage is None else (usage,)))
        said = candidate_data(fields or {}), response_data(response) if place == 0 else {}
        message = Message(
            role="assistant",
            contents=contents,
            provider_data=marked(candidate=said[0], response=said[1]),
            id=message_id(response, index),
            **candidate_fields(response, fields or {}),
        )
        messages.append(with_annotations(message))
    return messages


def parts_of(candidate: JsonObject) -> list[Any]:
    """Return the parts of a candidate, none where it has none."""
    return list_or_empty(camel(object_or_empty(candidate.get("content"))).get("parts"))


def index_of(candidate: JsonObject, place: int) -> int:
    """Return the number of a candidate, its place where it does not say one."""
    index = integer_or_none(candidate.get("index"))
    return place if index is None else index


def prefix_of(index: int) -> str:
    """Return what made-up ids of a candidate's calls begin with, so that two candidates have no id in common."""
    return f"candidate-{index}-" if index else ""


def message_id(response: JsonObject, index: int) -> str:
    """Return the id of a candidate's message: that of the response, with the candidate's number after the first."""
    response_id = text_or_none(response.get("responseId"))
    if not response_id:
        return f"candidate-{index}"
    return f"{response_id}-{index}" if index else response_id


def candidate_fields(response: JsonObject, candidate: JsonObject) -> dict[str, Any]:
    """Return the fields of a message or update that a response and its candidate have."""
    reason = text_or_none(candidate.get("finishReason"))
    if reason is None and object_or_empty(response.get("promptFeedback")).get("blockReason"):
        reason = "SAFETY"
    about = message_fields(response, response_id="responseId", model="modelVersion", created_at="createTime")
    return about if reason is None else {"finish_reason": FINISH_REASONS.get(reason, reason), **about}


def candidate_data(candidate: JsonObject) -> JsonObject:
    """Return what only this format has of a candidate."""
    rest = rest_of(candidate, ("content",))
    content = candidate.get("content")
    if isinstance(content, Mapping):
        inner = rest_of(camel(content), ("parts",))
        if "parts" in content and not isinstance(content["parts"], list | None):
            inner["parts"] = content["parts"]
        if inner.get("role") == "model":
            del inner["role"]
        if inner:
            rest["content"] = inner
    elif content is not None:
        rest["content"] = content
    if rest.get("finishReason") == "STOP":
        del rest["finishReason"]
    return rest


def response_data(response: JsonObject) -> JsonObject:
    """Return what only this format has of a response; the counts too, of which a `UsageContent` has no details."""
    known = {name for name in ("responseId", "modelVersion") if isinstance(response.get(name), str)}
    if isinstance(response.get("candidates"), list):
        known.add("candidates")
    return rest_of(response, known)


def usage_of(response: JsonObject) -> UsageContent | None:
    """Return the counts of a response: input with what tools gave the model, output with the model's thoughts."""
    metadata = camel_or_none(response.get("usageMetadata"))
    if metadata is None:
        return None
    counts = {name: value for name, value in metadata.items() if integer_or_none(value) is not None}
    return UsageContent(
        input_tokens=_sum(counts, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=_sum(counts, "candidatesTokenCount", "thoughtsTokenCount"),
        total_tokens=_sum(counts, "totalTokenCount"),
        counts={name: value for name, value in counts.items() if name not in _TOTALS and isinstance(value, int)},
    )


_TOTALS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})


def _sum(counts: JsonObject, *names: str) -> int | None:
    found = [value for name in names if (value := integer_or_none(counts.get(name))) is not None]
    return sum(found) if found else None


def read_failure(document: Mapping[str, Any]) -> ErrorContent:
    """Return the error that the API gives instead of a response."""
    error = document["error"]
    status = text_or_none(error["status"])
    return ErrorContent(message=error["message"], code=status, provider_data=marked(failure=dict(document)))


def read_request(document: Json) -> list[Message]:
    """Return the messages of a request, the system's first; the request's other fields are in the first one's data."""
    request = camel(document)
    messages = read_contents(request.get("contents", []))
    if "systemInstruction" in request:
        instruction = request["systemInstruction"]
        if isinstance(instruction, str):
            messages.insert(0, Message(role="system", contents=(TextContent(text=instruction),)))
        else:
            message = _read_content(instruction, "the system's instruction", PartsReader())
            said = object_or_empty(instruction).get("role")
            data = message.provider_data.get("gemini", {}) | ({} if said in (None, "system") else {"role": said})
            marks = marked(**rest_of(data, ("no_role",)))
            messages.insert(0, message.model_copy(update={"role": "system", "provider_data": marks}))
    rest = rest_of(request, ("contents", "systemInstruction"))
    if rest:
        first, others = (messages[0], messages[1:]) if messages else (Message(role="system"), [])
        marks = marked(**first.provider_data.get("gemini", {}), request=rest)
        messages = [first.model_copy(update={"provider_data": marks}), *others]
    return messages


def read_contents(documents: Any) -> list[Message]:
    """Return the messages of a list of contents, or of one."""
    reader = PartsReader()
    contents = documents if isinstance(documents, list) else [documents]
    return [_read_content(content, f"content {number}", reader) for number, content in enumerate(contents, 1)]


def is_content(document: Any) -> bool:
    """Return whether an object can be a content."""
    fields = camel_or_none(document) or {}
    return bool(fields) and ("parts" in fields or fields.keys() <= {"role", "parts"})


def is_part(document: Any) -> bool:
    """Return whether an object can be a part."""
    fields = camel_or_none(document) or {}
    return not is_content(document) and bool(fields.keys() & (KINDS | {"toolCall", "toolResponse"}))


def _read_content(document: Json, place: str, reader: PartsReader) -> Message:
    if not is_content(document):
        raise ValueError(f"{place} is none of Gemini's: it has no parts")
    fields = camel(document)
    parts, said = fields.get("parts"), fields.get("role")
    rest = rest_of(fields, ("role", "parts"))
    if parts is not None and not isinstance(parts, list):
        rest["parts"] = parts
    contents = reader.read_all(list_or_empty(parts))
    role = ROLES.get(said, said) if isinstance(said, str) else "user"
    odd = said if said == "function" or not isinstance(said, str | None) else None
    if role == "user" and contents and all(isinstance(item, FunctionResult) for item in contents):
        role = "tool"
    return Message(
        role=role, contents=contents, provider_data=marked(content=rest, role=odd, no_role="role" not in fields)
    )


def read_parts(parts: list[Any]) -> list[Message]:
    """Return the one message of some parts without a content around them."""
    contents: tuple[Content, ...] = PartsReader().read_all(parts)
    is_result = all(isinstance(item, FunctionResult) for item in contents)
    return [Message(role="tool" if is_result else "assistant", contents=contents)]


# From messages to documents


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return a content for each message.

    The system's messages are among them as contents of the role `system`; the API takes them as `systemInstruction`,
    where `write_request` puts them. What a content has no place for is in `write_response`.
    """
    losses = Writing()
    contents = []
    for message in messages:
        note_unwritten(message, _FIELDS_LOST, "left out: a content has no place for it", losses)
        for item in message.contents:
            if item.annotations or any(output.annotations for output in getattr(item, "outputs", ())):
                losses.add(f"{item.type}.annotations", "left out: they are in responses only")
            if isinstance(item, UsageContent):
                losses.add("usage", "left out: it is in responses only")
        content = _content(message, losses)
        if content is not None:
            contents.append(content)
    return losses.written(contents)


def write_request(messages: Sequence[Message]) -> Written[JsonObject]:
    """Return the body of a request: what the system says is apart; other fields are of the request it was read from."""
    written = write(messages)
    ours = (object_or_empty(_ours(message).get("request")) for message in messages)
    request: JsonObject = {name: value for rest in ours for name, value in rest.items()}
    spoken = [content for content in written.document if content.get("role") != "system"]
    system = [content for content in written.document if content.get("role") == "system"]
    if system:
        instruction = {name: value for name, value in system[0].items() if name != "role"}
        role = next((_ours(message).get("role") for message in messages if message.role == "system"), None)
        named = {"role": role} if role is not None else {}
        parts = [part for content in system for part in content.get("parts", [])]
        request["systemInstruction"] = {**instruction, **named, "parts": parts}
    return Written({**request, "contents": spoken}, written.losses)


def write_response(messages: Sequence[Message]) -> Written[JsonObject]:
    """Return a response with a candidate for each message of the model; those of others have no place in one."""
    losses = Writing()
    response: JsonObject = {}
    candidates: list[Any] = []
    for message in messages:
        if message.role != "assistant":
            losses.add("message", "left out: only what the model says is in a response")
            continue
        ours = _ours(message)
        said = {"responseId": message.response_id, "modelVersion": message.model}
        response |= {name: value for name, value in said.items() if value is not None and name not in response}
        if message.created_at is not None:
            response.setdefault("createTime", message.created_at.isoformat().replace("+00:00", "Z"))
        response |= object_or_empty(ours.get("response"))
        usage = next((item for item in message.contents if isinstance(item, UsageContent)), None)
        if usage is not None:
            response.setdefault("usageMetadata", _usage_metadata(usage))
        candidate = _candidate(message, losses)
        if candidate or "promptFeedback" not in _response_of(message):
            candidates.append(candidate)
    if candidates:
        response.setdefault("candidates", candidates)
    return Written(response, losses.written(None).losses)


def _candidate(message: Message, losses: Writing) -> JsonObject:
    rest = dict(object_or_empty(_ours(message).get("candidate")))
    inner = rest.pop("content", {})
    content: Any = inner
    if isinstance(inner, dict):
        parts = write_parts(message.contents, losses)
        content = {**({"parts": parts} if parts else {}), "role": "model", **inner}
    candidate: JsonObject = {"content": content} if content != {"role": "model"} else {}
    reason = message.finish_reason
    if reason is not None and "finishReason" not in rest and "promptFeedback" not in _response_of(message):
        name = _REASON_NAMES.get(reason, reason if reason.isupper() else "OTHER")
        if FINISH_REASONS.get(name, name) != reason:
            losses.add("message.finish_reason", f"becomes {name}")
        candidate["finishReason"] = name
    candidate |= rest
    citations, lost = citations_of(message.contents)
    if lost:
        losses.add("annotations", "become citations, which have a title, a URI and a place only")
    if citations:
        metadata = camel(object_or_empty(candidate.get("citationMetadata")))
        there = metadata.get("citations")
        candidate["citationMetadata"] = {
            **metadata,
            "citations": [*(there if isinstance(there, list) else []), *citations],
        }
    return candidate


def _response_of(message: Message) -> JsonObject:
    return dict(object_or_empty(_ours(message).get("response")))


def _usage_metadata(usage: UsageContent) -> JsonObject:
    """Return counts as the API gives them: what tools gave the model, and thoughts, are counted apart."""
    counts: JsonObject = dict(usage.counts)
    tools, thoughts = (usage.counts.get(name, 0) for name in ("toolUsePromptTokenCount", "thoughtsTokenCount"))
    if usage.input_tokens is not None:
        counts["promptTokenCount"] = usage.input_tokens - int(tools)
    if usage.output_tokens is not None:
        counts["candidatesTokenCount"] = usage.output_tokens - int(thoughts)
    if usage.total_tokens is not None:
        counts["totalTokenCount"] = usage.total_tokens
    return counts


def _content(message: Message, losses: Writing) -> JsonObject | None:
    ours = _ours(message)
    parts = write_parts(message.contents, losses)
    is_empty = not message.contents and message.role != "system"
    if not parts and not is_empty:
        return None
    role = _ROLES_WRITTEN.get(message.role, message.role)
    if message.role == "tool" and not any(isinstance(item, FunctionResult) for item in message.contents):
        # The result of code that the API ran itself belongs to the model's turn, never to the user's.
        role = "model" if any(isinstance(item, CodeInterpreterResult) for item in message.contents) else role
    said: JsonObject = {} if ours.get("no_role") and role == "user" else {"role": ours.get("role", role)}
    if role == "system":
        said = {"role": "system"}
    return {**said, "parts": parts, **object_or_empty(ours.get("content"))}


def _ours(part: Any) -> JsonObject:
    found: JsonObject = part.provider_data.get(NAME, {})
    return found
