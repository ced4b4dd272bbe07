"""Documents into messages: responses with their candidates, requests, contents, single parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import Content, ErrorContent, FunctionResult, JsonObject, TextContent, UsageContent
from actbox.content.messages import Message
from actbox.content.wire.format import Json
from actbox.content.wire.reading import (
    instant_or_none,
    integer_or_none,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
)

from .citations import with_annotations
from .names import camel, camel_or_none, marked
from .parts import KINDS, PartsReader

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
            **said_of(response, fields or {}),
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


def said_of(response: JsonObject, candidate: JsonObject) -> dict[str, Any]:
    """Return what messages and updates have fields for."""
    reason = text_or_none(candidate.get("finishReason"))
    if reason is None and object_or_empty(response.get("promptFeedback")).get("blockReason"):
        reason = "SAFETY"
    said = {
        "finish_reason": FINISH_REASONS.get(reason, reason) if reason is not None else None,
        "response_id": text_or_none(response.get("responseId")),
        "model": text_or_none(response.get("modelVersion")),
        "created_at": instant_or_none(response.get("createTime")),
    }
    return {name: value for name, value in said.items() if value is not None}


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
