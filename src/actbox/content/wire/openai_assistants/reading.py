"""From messages of a thread and steps of a run to content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    TextContent,
    UnknownContent,
    UsageContent,
    arguments_from_json,
    arguments_to_json,
    code_content,
)
from actbox.content.messages import Message
from actbox.content.wire.format import Json
from actbox.content.wire.reading import (
    instant_or_none,
    integer_or_none,
    kept,
    object_or_empty,
    rest_of,
    text_or_none,
)

from .parts import Dialect, read_attachment, read_part

UNDER_WAY = frozenset({"queued", "in_progress", "requires_action", "cancelling"})
"""States of steps and runs that are not over."""
_OUTCOMES = {"completed": "ok"}


def read_document(document: Json, dialect: Dialect) -> list[Message]:
    """Return one message for each message of a thread or step of a run: in a list, as one page of it, or alone.

    Raises `ValueError` for what is neither.
    """
    if isinstance(document, Mapping):
        if isinstance(document.get("data"), list):
            return read_document(document["data"], dialect)
        if isinstance(document.get("messages"), list):
            return read_document(document["messages"], dialect)
        document = [document]
    if not isinstance(document, list):
        raise ValueError(f"no messages of a thread: {type(document).__name__}")
    return [_read_one(raw, f"number {number}", dialect) for number, raw in enumerate(oldest_first(document), 1)]


def oldest_first(documents: list[Json]) -> list[Json]:
    """Return messages and steps with the oldest first, where the newest are first, as the API lists them.

    Those in any other order, or of which one does not say when it was made, stay as they are.
    """
    made = [integer_or_none(object_or_empty(raw).get("created_at")) for raw in documents]
    stamps = [at for at in made if at is not None]
    if len(stamps) < len(documents) or len(set(stamps)) < 2 or stamps != sorted(stamps, reverse=True):
        return documents
    return documents[::-1]


def only_names(message: Message, dialect: Dialect) -> bool:
    """Return whether a message is a step of a run that only says which message of the thread it made."""
    step = object_or_empty(message.provider_data.get(dialect.name, {}).get("step"))
    return not message.contents and object_or_empty(step.get("step_details")).get("type") == "message_creation"


def _read_one(raw: Json, place: str, dialect: Dialect) -> Message:
    if isinstance(raw, Mapping) and "step_details" in raw:
        return read_step(raw, dialect)
    if isinstance(raw, Mapping) and ("role" in raw or "content" in raw):
        return read_message(raw, dialect)
    raise ValueError(f"{place} is neither a message of a thread nor a step of a run")


def about(raw: Mapping[str, Any], *also_known: str) -> tuple[dict[str, Any], JsonObject]:
    """Return what a message or a step says of itself: what we have fields for, and the rest."""
    values: dict[str, Any] = {}
    known = list(also_known)
    for theirs, ours in {"id": "id", "run_id": "response_id"}.items():
        if isinstance(raw.get(theirs), str):
            values[ours] = raw[theirs]
            known.append(theirs)
    if (seconds := integer_or_none(raw.get("created_at"))) is not None and (at := instant_or_none(seconds)):
        values["created_at"] = at
        known.append("created_at")
    return values, rest_of(raw, known)


def read_message(raw: Mapping[str, Any], dialect: Dialect) -> Message:
    """Return a message of a thread; its attached files come after what it says."""
    values, fields = about(raw)
    contents: list[Content] = []
    ours: JsonObject = {"fields": fields}
    content = raw.get("content")
    if isinstance(content, str):
        contents.append(TextContent(text=content))
        ours["form"] = "text"
    elif isinstance(content, list):
        contents += [read_part(part, dialect, place) for place, part in enumerate(content)]
    if isinstance(content, str | list):
        del fields["content"]
    attached = raw.get("attachments")
    if isinstance(attached, list) and attached:
        contents += [read_attachment(one, dialect) for one in attached]
        del fields["attachments"]
    role = text_or_none(fields.get("role"))
    if role:
        del fields["role"]
    elif "role" not in fields:
        ours["no_role"] = True
    return Message(role=role or "assistant", contents=tuple(contents), provider_data={dialect.name: ours}, **values)


def read_step(raw: Mapping[str, Any], dialect: Dialect) -> Message:
    """Return a step of a run as a message of the assistant, with the calls of tools and what they came to.

    A run that is a message of its own is read so too: it has the error and the usage of a step, and no calls.
    """
    values, fields = about(raw)
    contents: list[Content] = []
    ours: JsonObject = {"step": fields}
    details = object_or_empty(raw.get("step_details"))
    calls = details.get("tool_calls")
    if isinstance(calls, list):
        for number, call in enumerate(calls, 1):
            own_id = made_up_id(values.get("id"), number)
            contents += read_tool_call(call, dialect, own_id, text_or_none(raw.get("status")))
        ours["details"] = rest_of(details, ("tool_calls",))
        del fields["step_details"]
    error = object_or_empty(raw.get("last_error"))
    if isinstance(error.get("message"), str):
        rest = rest_of(error, ("message", *(["code"] if isinstance(error.get("code"), str) else [])))
        code = text_or_none(error.get("code"))
        contents.append(
            ErrorContent(message=error["message"], code=code, provider_data={dialect.name: {"last_error": rest}})
        )
        del fields["last_error"]
    usage = read_usage(raw.get("usage"), dialect)
    if usage is not None:
        contents.append(usage)
        del fields["usage"]
    return Message(contents=tuple(contents), provider_data={dialect.name: ours}, **values)


def read_usage(raw: Json, dialect: Dialect) -> UsageContent | None:
    """Return what a step or a run used, which keeps all that was counted."""
    if not isinstance(raw, Mapping):
        return None
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
    found = {ours: raw[theirs] for theirs, ours in names.items() if integer_or_none(raw.get(theirs)) is not None}
    rest = rest_of(raw, [theirs for theirs, ours in names.items() if ours in found])
    counts = {
        f"{group}.{name}": value
        for group, details in rest.items()
        for name, value in object_or_empty(details).items()
        if integer_or_none(value) is not None
    }
    return UsageContent(counts=counts, provider_data=kept(dialect.name, rest), **found)


def outcome_of(status: str | None) -> str | None:
    """Return the outcome of code in a step of this status; `None` where the step is not over, or does not say."""
    return None if status is None or status in UNDER_WAY else _OUTCOMES.get(status, status)


def made_up_id(step_id: str | None, number: int) -> str:
    """Return an id for a call that has none, by its place in the step."""
    return f"{step_id or 'call'}-{number}"


def read_tool_call(raw: Json, dialect: Dialect, own_id: str, status: str | None) -> list[Content]:
    """Return a call of a tool and, where it has ended, its result.

    `own_id` is for a call without an id; `status` is that of the step.
    """
    call = object_or_empty(raw)
    kind = call.get("type")
    inner = object_or_empty(call.get(kind)) if isinstance(kind, str) else {}
    call_id = text_or_none(call.get("id"))
    rest = rest_of(call, ("type", str(kind), *(["id"] if call_id else [])))
    if not call_id:
        call_id, rest["no_id"] = own_id, True
    found: list[Content] | None = None
    if kind == "code_interpreter":
        found = _read_code(call_id, inner, rest, dialect, status)
    elif kind == "function":
        found = _read_function(call_id, inner, rest, dialect)
    kept_whole = UnknownContent(format=dialect.name, raw=raw, provider_data={dialect.name: {"in": "tool_calls"}})
    return found if found is not None else [kept_whole]


def _read_code(
    call_id: str, inner: Mapping[str, Any], rest: JsonObject, dialect: Dialect, status: str | None
) -> list[Content] | None:
    code, outputs = text_or_none(inner.get("input")), inner.get("outputs")
    if code is None:
        return None
    if more := rest_of(inner, ("input", *(["outputs"] if isinstance(outputs, list) else []))):
        rest["code_interpreter"] = more
    if "outputs" not in inner:
        rest["no_outputs"] = True
    call = CodeInterpreterCall(
        call_id=call_id, inputs=(code_content(code),), status=status, provider_data=kept(dialect.name, rest)
    )
    outcome = outcome_of(status)
    if not isinstance(outputs, list) or not (outputs or outcome):
        return [call]
    read = tuple(read_output(one, dialect, place) for place, one in enumerate(outputs))
    return [call, CodeInterpreterResult(call_id=call_id, outputs=read, outcome=outcome)]


def read_output(raw: Json, dialect: Dialect, place: int) -> Content:
    """Return one output of code: what it printed, or a picture that it made.

    What was printed keeps its `place` after the first, so that it is not joined with what was printed before it.
    """
    output = object_or_empty(raw)
    if output.get("type") == "logs" and isinstance(output.get("logs"), str):
        rest = rest_of(output, ("type", "logs")) | ({"place": place} if place else {})
        return TextContent(text=output["logs"], stream="stdout", provider_data=kept(dialect.name, rest))
    picture = object_or_empty(output.get("image"))
    file_id = text_or_none(picture.get("file_id"))
    if output.get("type") == "image" and file_id:
        inner, rest = rest_of(picture, ("file_id",)), rest_of(output, ("type", "image"))
        if inner:
            rest["image"] = inner
        return HostedFileContent(file_id=file_id, media_type="image/png", provider_data=kept(dialect.name, rest))
    return UnknownContent(format=dialect.name, raw=raw)


def _read_function(call_id: str, inner: Mapping[str, Any], rest: JsonObject, dialect: Dialect) -> list[Content] | None:
    name, text, output = text_or_none(inner.get("name")), text_or_none(inner.get("arguments")), inner.get("output")
    if name is None or text is None:
        return None
    more = rest_of(inner, ("name", "arguments", *(["output"] if isinstance(output, str) else [])))
    if more:
        rest["function"] = more
    if "output" not in inner:
        rest["no_output"] = True
    rest |= arguments_kept(text)
    call = FunctionCall(
        call_id=call_id, name=name, arguments=arguments_from_json(text), provider_data=kept(dialect.name, rest)
    )
    if not isinstance(output, str):
        return [call]
    return [call, FunctionResult(call_id=call_id, name=name, outputs=(TextContent(text=output),))]


def arguments_kept(text: str) -> JsonObject:
    """Return what keeps the text of arguments that would not be written just so."""
    return {} if arguments_to_json(arguments_from_json(text)) == text else {"arguments": text}
