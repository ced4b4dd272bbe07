"""Threads of the Foundry Agent Service: messages, run steps and runs, in the manner of OpenAI's Assistants.

Beside what Assistants have there are citations of web pages, attachments that lie in Azure, and tools of its own, whose
calls are kept as they are. Each message, step and run becomes one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    Item,
    JsonObject,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    arguments_from_json,
    arguments_to_json,
    code_content,
)
from actbox.content.messages import Message
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import (
    instant_or_none,
    integer_or_none,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
)
from actbox.content.wire.written import Losses

NAME = "azure-foundry"

_CITATIONS: dict[str, dict[str, str]] = {
    "file_citation": {"file_id": "file_id", "quote": "snippet"},
    "file_path": {"file_id": "file_id"},
    "url_citation": {"url": "url", "title": "title"},
}
"""For each kind of citation the fields of its inner object, and ours. Assistants have no `url_citation`."""
_OUTCOMES = {"completed": "ok", "failed": "failed"}
_TALKS = frozenset({"queued", "in_progress", "requires_action", "cancelling"})
"""States of steps and runs that are not over."""


def is_of_thread(document: Json) -> bool:
    """Return whether this is a message, a step or a run of a thread, as the service returns it or takes it."""
    if not isinstance(document, Mapping):
        return False
    kind, content = text_or_none(document.get("object")), document.get("content")
    if kind is not None and kind.startswith("thread."):
        return True
    kinds = {str(part.get("type")) for part in list_or_empty(content) if isinstance(part, Mapping)}
    return "role" in document and ("attachments" in document or bool(kinds & {"text", "image_file", "image_url"}))


def read_one(document: Mapping[str, Any]) -> Message:
    """Return what one message, step or run comes to."""
    match document.get("object"):
        case "thread.run.step" if isinstance(document.get("step_details"), Mapping):
            return _read_step(document)
        case "thread.run":
            return _message(document, "run", "assistant", read_end(document), ())
        case "thread.message" | None if isinstance(document.get("content"), str | list):
            return _read_message(document)
    return _message(document, "other", "assistant", [UnknownContent(format=NAME, raw=dict(document))], tuple(document))


def _message(
    document: Mapping[str, Any], of: str, role: str, contents: list[Content], known: Sequence[str], **more: Any
) -> Message:
    return Message(
        role=role,
        contents=tuple(contents),
        id=text_or_none(document.get("id")),
        created_at=instant_or_none(document.get("created_at")),
        provider_data={NAME: {"of": of, "rest": rest_of(document, known), **more}},
    )


def _read_message(document: Mapping[str, Any]) -> Message:
    content = document["content"]
    role = text_or_none(document.get("role")) or "user"
    contents: list[Content] = [TextContent(text=content)] if isinstance(content, str) else read_parts(content)
    attachments = document.get("attachments")
    found = [_read_attachment(attachment) for attachment in list_or_empty(attachments)]
    known = ["content", *(["role"] if document.get("role") == role else [])]
    if found and all(found):
        contents += [item for item in found if item is not None]
        known.append("attachments")
    more = {"as_text": True} if isinstance(content, str) else {}
    if "role" not in document:
        more["roleless"] = True
    return _message(document, "message", role, contents, known, **more)


def read_parts(parts: list[Json]) -> list[Content]:
    """Return the parts of a message as items; what is not known, or not as it should be, is kept whole."""
    return [read_part(part, number) for number, part in enumerate(parts)]


def read_part(part: Json, number: int) -> Content:
    """Return the part of a message that has this number."""
    found = _read_part(part, {"part": number} if number else {})
    return found or UnknownContent(format=NAME, raw=part, provider_data={NAME: {"part": number}})


def _read_part(part: Json, where: JsonObject) -> Content | None:
    if not isinstance(part, Mapping):
        return None
    kind = text_or_none(part.get("type")) or ""
    inner, rest = part.get(kind), rest_of(part, ("type", kind))
    data: JsonObject = {"as": kind, **where, **({"rest": rest} if rest else {})}
    if kind == "text" and isinstance(inner, str):
        return TextContent(text=inner, provider_data={NAME: {**data, "bare": True}})
    if not isinstance(inner, Mapping):
        return None
    field = {"text": "value", "image_file": "file_id", "image_url": "url"}.get(kind, "")
    said = text_or_none(inner.get(field))
    if said is None or not (said or kind == "text"):
        return None
    annotations = inner.get("annotations") if kind == "text" else None
    known = (field, *(("annotations",) if isinstance(annotations, list) else ()))
    if more := rest_of(inner, known):
        data["inner"] = more
    if kind == "image_file":
        return HostedFileContent(file_id=said, provider_data={NAME: data})
    if kind == "image_url":
        return UriContent(uri=said, provider_data={NAME: data})
    if not isinstance(annotations, list):
        data["no_annotations"] = True
    read = tuple(read_annotation(annotation) for annotation in list_or_empty(annotations))
    return TextContent(text=said, annotations=read, provider_data={NAME: data})


def read_annotation(said: Json) -> Annotation:
    """Return a citation; what of it is not known is kept."""
    kind = said.get("type") if isinstance(said, Mapping) else None
    inner = said.get(kind) if isinstance(said, Mapping) and isinstance(kind, str) else None
    if not isinstance(said, Mapping) or not isinstance(kind, str) or not isinstance(inner, Mapping):
        return Annotation(kind="unknown", provider_data={NAME: {"raw": said}})
    names = {theirs: name for theirs, name in _CITATIONS.get(kind, {}).items() if isinstance(inner.get(theirs), str)}
    places: dict[str, Any] = {
        name: number
        for theirs, name in (("start_index", "start"), ("end_index", "end"))
        if (number := integer_or_none(said.get(theirs))) is not None
    }
    rest = rest_of(said, ("type", kind, *(f"{name}_index" for name in places)))
    data: JsonObject = {"rest": rest, "inner": rest_of(inner, names)}
    fields: dict[str, Any] = {name: inner[theirs] for theirs, name in names.items()}
    return Annotation(kind=kind, provider_data={NAME: data}, **fields, **places)


def _read_attachment(said: Json) -> Content | None:
    """Return a file that is attached: hosted, or lying in Azure."""
    if not isinstance(said, Mapping):
        return None
    file_id, source = text_or_none(said.get("file_id")), object_or_empty(said.get("data_source"))
    place = text_or_none(source.get("uri"))
    if file_id:
        return HostedFileContent(file_id=file_id, provider_data={NAME: {"attachment": rest_of(said, ("file_id",))}})
    if place is None or "file_id" in said:
        return None
    data = {**rest_of(said, ("data_source",)), "data_source": rest_of(source, ("uri",))}
    return UriContent(uri=place, provider_data={NAME: {"attachment": data}})


def _read_step(document: Mapping[str, Any]) -> Message:
    details = document["step_details"]
    calls, status = details.get("tool_calls"), text_or_none(document.get("status"))
    contents = [item for call in list_or_empty(calls) for item in read_call(call, status)]
    rest = rest_of(details, ("tool_calls",) if isinstance(calls, list) else ())
    more = {"details": rest, **({"calls": True} if isinstance(calls, list) else {})}
    return _message(document, "step", "assistant", [*contents, *read_end(document)], ("step_details",), **more)


def read_call(said: Json, status: str | None) -> list[Content]:
    """Return a call of a tool, and what it came to, if it has; calls of tools that are not known are kept whole."""
    kind = text_or_none(said.get("type")) if isinstance(said, Mapping) else None
    found: list[Content] | None = None
    if isinstance(said, Mapping) and kind in ("code_interpreter", "function"):
        call_id, inner = text_or_none(said.get("id")), said.get(kind)
        if call_id is not None and isinstance(inner, Mapping):
            read = _read_code if kind == "code_interpreter" else _read_function
            found = read(call_id, inner, rest_of(said, ("id", "type", kind)), status)
    return [UnknownContent(format=NAME, raw=said, provider_data={NAME: {"call": True}})] if found is None else found


def _read_code(call_id: str, inner: Mapping[str, Any], rest: JsonObject, status: str | None) -> list[Content] | None:
    code, outputs = inner.get("input"), inner.get("outputs")
    if not isinstance(code, str) or not isinstance(outputs, list):
        return None
    data: JsonObject = {"call": True, "rest": rest, "inner": rest_of(inner, ("input", "outputs"))}
    inputs = (code_content(code),)
    call = CodeInterpreterCall(call_id=call_id, inputs=inputs, status=status, provider_data={NAME: data})
    if not outputs and (status is None or status in _TALKS):
        return [call]
    items: list[Content] = []
    for number, output in enumerate(outputs):
        follows = bool(items) and isinstance(items[-1], TextContent)
        items.append(read_output(output, number if follows else 0) or UnknownContent(format=NAME, raw=output))
    outcome = None if status is None or status in _TALKS else _OUTCOMES.get(status, status)
    return [call, CodeInterpreterResult(call_id=call_id, outputs=tuple(items), outcome=outcome)]


def read_output(said: Json, number: int) -> Content | None:
    """Return what code printed, or a picture that it made; `number` keeps apart logs that follow logs."""
    if not isinstance(said, Mapping):
        return None
    logs, file_id = text_or_none(said.get("logs")), text_or_none(object_or_empty(said.get("image")).get("file_id"))
    if said.get("type") == "logs" and logs is not None:
        rest: JsonObject = rest_of(said, ("type", "logs"))
        data = {**rest, **({"number": number} if number else {})}
        return TextContent(text=logs, stream="stdout", provider_data={NAME: data} if data else {})
    if said.get("type") != "image" or not file_id:
        return None
    inner = rest_of(said["image"], ("file_id",))
    return HostedFileContent(
        file_id=file_id, provider_data={NAME: {"image": inner, "rest": rest_of(said, ("type", "image"))}}
    )


def _read_function(
    call_id: str, inner: Mapping[str, Any], rest: JsonObject, status: str | None
) -> list[Content] | None:
    name, said, output = (text_or_none(inner.get(field)) for field in ("name", "arguments", "output"))
    if name is None or said is None:
        return None
    known = ("name", "arguments", *(("output",) if output is not None else ()))
    data: JsonObject = {"call": True, "rest": rest, "inner": rest_of(inner, known), "said": said}
    arguments = arguments_from_json(said)
    found: list[Content] = [FunctionCall(call_id=call_id, name=name, arguments=arguments, provider_data={NAME: data})]
    if output is not None:
        found.append(FunctionResult(call_id=call_id, name=name, outputs=(TextContent(text=output),)))
    return found


def read_end(document: Mapping[str, Any]) -> list[Content]:
    """Return error and usage of a step or run. They are shown only: what they came from is kept as it is."""
    shown: dict[str, JsonObject] = {NAME: {"shown": True}}
    contents: list[Content] = []
    error, usage = object_or_empty(document.get("last_error")), document.get("usage")
    message = text_or_none(error.get("message"))
    if message is not None:
        contents.append(ErrorContent(message=message, code=text_or_none(error.get("code")), provider_data=shown))
    if isinstance(usage, Mapping):
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        inputs, outputs, total = (integer_or_none(usage.get(name)) for name in names)
        contents.append(
            UsageContent(input_tokens=inputs, output_tokens=outputs, total_tokens=total, provider_data=shown)
        )
    return contents


def write_one(message: Message, losses: Losses) -> Json:
    """Return a message that was read from a thread as it was there, with what was changed or added since."""
    data = message.provider_data[NAME]
    rest = _object(data.get("rest"))
    items = [item for item in message.contents if "shown" not in _ours(item)]
    match data.get("of"):
        case "message":
            parts = [_write_part(item, losses) for item in items if "attachment" not in _ours(item)]
            content: Any = parts
            if data.get("as_text") and len(items) == 1 and isinstance(items[0], TextContent):
                content = items[0].text
            attached = [_write_attachment(item) for item in items if "attachment" in _ours(item)]
            role = {} if "role" in rest or data.get("roleless") else {"role": message.role}
            return {**rest, **role, "content": content, **({"attachments": attached} if attached else {})}
        case "step":
            calls = _write_calls(items, losses)
            details = _object(data.get("details"))
            if calls or data.get("calls"):
                details["tool_calls"] = calls
            return {**rest, "step_details": details}
        case "run":
            return rest
    return next((item.raw for item in items if isinstance(item, UnknownContent)), rest)


def _ours(item: Item | Annotation) -> JsonObject:
    return item.provider_data.get(NAME, {})


def _object(value: Any) -> JsonObject:
    return dict(value) if isinstance(value, dict) else {}


def _write_part(item: Content, losses: Losses) -> Json:
    data = _ours(item)
    kind, rest, inner = text_or_none(data.get("as")) or "text", _object(data.get("rest")), _object(data.get("inner"))
    if isinstance(item, UnknownContent) and item.format == NAME:
        return item.raw
    if isinstance(item, HostedFileContent):
        return {"type": "image_file", **rest, "image_file": {"file_id": item.file_id, **inner}}
    if isinstance(item, UriContent):
        return {"type": "image_url", **rest, "image_url": {"url": item.uri, **inner}}
    if not isinstance(item, TextContent):
        losses.add(item.type, "becomes text")
        return {"type": "text", "text": as_text(item)}
    if data.get("bare"):
        return {"type": "text", **rest, "text": item.text}
    annotations = [_write_annotation(annotation) for annotation in item.annotations]
    said: JsonObject = {"value": item.text, **inner}
    if annotations or not data.get("no_annotations"):
        said["annotations"] = annotations
    return {"type": kind, **rest, "text": said}


def _write_annotation(annotation: Annotation) -> Any:
    data = _ours(annotation)
    if "raw" in data:
        return data["raw"]
    names = _CITATIONS.get(annotation.kind, {})
    values = {theirs: getattr(annotation, name) for theirs, name in names.items()}
    inner = {**{key: value for key, value in values.items() if value is not None}, **_object(data.get("inner"))}
    places = {"start_index": annotation.start, "end_index": annotation.end}
    said = {key: value for key, value in places.items() if value is not None}
    return {"type": annotation.kind, **said, **_object(data.get("rest")), annotation.kind: inner}


def _write_attachment(item: Content) -> Any:
    data = _object(_ours(item).get("attachment"))
    if isinstance(item, HostedFileContent):
        return {"file_id": item.file_id, **data}
    source = _object(data.get("data_source"))
    place = item.uri if isinstance(item, UriContent) else as_text(item)
    return {**data, "data_source": {"uri": place, **source}}


def _write_calls(items: Sequence[Content], losses: Losses) -> list[Any]:
    calls: list[Any] = []
    places: dict[str, JsonObject] = {}
    for item in items:
        data = _ours(item)
        rest, inner = _object(data.get("rest")), _object(data.get("inner"))
        match item:
            case UnknownContent() if item.format == NAME:
                calls.append(item.raw)
            case CodeInterpreterCall():
                inner = {"input": item.code, "outputs": [], **inner}
                calls.append({"id": item.call_id, "type": "code_interpreter", **rest, "code_interpreter": inner})
                places[item.call_id] = inner
            case FunctionCall():
                said = data.get("said")
                if not isinstance(said, str) or arguments_from_json(said) != item.arguments:
                    said = arguments_to_json(item.arguments)
                inner = {"name": item.name, "arguments": said, **inner}
                calls.append({"id": item.call_id, "type": "function", **rest, "function": inner})
                places[item.call_id] = inner
            case CodeInterpreterResult() if item.call_id in places:
                places[item.call_id]["outputs"] = [_write_output(output, losses) for output in item.outputs]
            case FunctionResult() if item.call_id in places:
                places[item.call_id]["output"] = "".join(as_text(output) for output in item.outputs)
            case _:
                losses.add(item.type, "left out: a step has calls of tools only")
    return calls


def _write_output(item: Content, losses: Losses) -> Any:
    data = {key: value for key, value in _ours(item).items() if key != "number"}
    if isinstance(item, UnknownContent) and item.format == NAME:
        return item.raw
    if isinstance(item, HostedFileContent) and "image" in data:
        image = {"file_id": item.file_id, **_object(data["image"])}
        return {"type": "image", **_object(data.get("rest")), "image": image}
    if not isinstance(item, TextContent):
        losses.add(item.type, "becomes text in the logs")
        data = {}
    return {"type": "logs", "logs": as_text(item), **data}
