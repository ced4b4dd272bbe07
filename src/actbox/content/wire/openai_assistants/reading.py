"""Messages of threads and steps of runs as content: what is said, attached files, and calls with what they came to.

The service is OpenAI's no more. A `Dialect` says how one that still has such threads differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
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
    JsonObject,
    TextContent,
    UnknownContent,
    UriContent,
    arguments_from_json,
    code_content,
)
from actbox.content.messages import Message
from actbox.content.wire.blocks import At, Blocks, Kind, Notes
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses
from actbox.content.wire.usage import read_usage
from actbox.content.wire.values import (
    instant_or_none,
    integer_or_none,
    kept,
    object_or_empty,
    rest_of,
    text_or_none,
    word_or_none,
)

UNDER_WAY = frozenset({"queued", "in_progress", "requires_action", "cancelling"})
"""States of steps and runs that are not over."""
TOKENS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
_CITED = {"file_id": "file_id", "quote": "snippet", "url": "url", "title": "title"}


def unread_fields(raw: Mapping[str, Any], message: Message, is_step: bool) -> JsonObject:
    """Return what a message keeps of a message of a thread, or a step, that it has no field for."""
    known = ("id", "run_id", "created_at", "role", "content", "attachments", "usage", "last_error")
    details = rest_of(object_or_empty(raw.get("step_details")), ("tool_calls",))
    rest = rest_of(raw, (*known, "step_details"))
    return {"step": {**rest, "step_details": details}} if is_step else {"fields": rest}


@dataclass(frozen=True)
class Dialect:
    """A service whose threads look like those of OpenAI Assistants, and where its threads differ.

    `citations` are the kinds of annotations that a text may have. With `runs` a run is a message of its own, which has
    its error and its usage; without, it is kept with the last message of a stream. `keep` returns what a message keeps
    of what it was read from; it is told whether that is a step.
    """

    name: str
    citations: tuple[str, ...] = ("file_citation", "file_path")
    runs: bool = False
    keep: Callable[[Mapping[str, Any], Message, bool], JsonObject] = unread_fields

    @cached_property
    def parts(self) -> Blocks:
        """The parts of what is said."""
        return Blocks(
            self.name,
            (
                Kind(
                    "text",
                    TextContent,
                    (At("text.value", "text"), Notes("text.annotations", "annotations", optional=True, always=True)),
                ),
                Kind("text", TextContent, (At("text", "text"),)),
                Kind("refusal", TextContent, (At("refusal", "text"),)),
                Kind(
                    "image_file", HostedFileContent, (At("image_file.file_id", "file_id", word_or_none),), {}, _PICTURE
                ),
                Kind("image_url", UriContent, (At("image_url.url", "uri"),), {}, _PICTURE),
            ),
            read_note=self.read_note,
            write_note=partial(_write_note, self),
        )

    @cached_property
    def attached(self) -> Blocks:
        """The files attached to a message, which may be assets at a URI."""
        kinds = (
            Kind("file_id", HostedFileContent, (At("file_id", "file_id", word_or_none),)),
            Kind("data_source", UriContent, (At("data_source.uri", "uri"),)),
        )
        return Blocks(self.name, kinds, _kind_of_attachment, typed="")

    @cached_property
    def outputs(self) -> Blocks:
        """What code in a step printed, and the pictures that it made."""
        kinds = (
            Kind("logs", TextContent, (At("logs", "text"),), {}, {"stream": "stdout"}),
            Kind(
                "image",
                HostedFileContent,
                (At("image.file_id", "file_id", word_or_none),),
                {},
                {"media_type": "image/png"},
            ),
        )
        return Blocks(self.name, kinds)

    def read_note(self, raw: Json) -> Annotation:
        """Return a citation; one of another kind is kept whole."""
        note = object_or_empty(raw)
        kind = text_or_none(note.get("type")) or ""
        if kind not in self.citations or not isinstance(note.get(kind), Mapping):
            return Annotation(kind="unknown", provider_data={self.name: {"raw": raw}})
        values = {
            ours: note[kind][theirs] for theirs, ours in _CITED.items() if isinstance(note[kind].get(theirs), str)
        }
        start, end = integer_or_none(note.get("start_index")), integer_or_none(note.get("end_index"))
        ours_kind = "file_path" if kind == "file_path" else "citation"
        return Annotation(kind=ours_kind, start=start, end=end, provider_data={self.name: {"raw": raw}}, **values)


_PICTURE = {"media_type": "image/*"}


def _write_note(dialect: Dialect, note: Annotation, text: str, losses: Losses) -> Json | None:
    raw = note.provider_data.get(dialect.name, {}).get("raw")
    if raw is not None and dialect.read_note(raw) == note:
        return raw
    kind = "file_path" if note.kind == "file_path" else "file_citation" if note.file_id else "url_citation"
    if kind not in dialect.citations or note.start is None or note.end is None:
        losses.add("text.annotations", f"left out but for {' and '.join(sorted(dialect.citations))}")
        return None
    names = ("url", "title") if kind == "url_citation" else ("file_id", "quote")
    cited: JsonObject = {name: getattr(note, _CITED[name]) for name in names if getattr(note, _CITED[name]) is not None}
    place: JsonObject = {"text": text[note.start : note.end], "start_index": note.start, "end_index": note.end}
    return {"type": kind, kind: cited, **place}


def _kind_of_attachment(raw: Json) -> str:
    attached = object_or_empty(raw)
    return "data_source" if "data_source" in attached and "file_id" not in attached else "file_id"


def read_document(document: Json, dialect: Dialect) -> list[Message]:
    """Return one message for each message of a thread or step of a run: in a list, as one page of it, or alone.

    Raises `ValueError` for what is neither.
    """
    if isinstance(document, Mapping):
        listed = next((document[name] for name in ("data", "messages") if isinstance(document.get(name), list)), None)
        return read_document([document] if listed is None else listed, dialect)
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


def _read_one(raw: Json, place: str, dialect: Dialect) -> Message:
    if isinstance(raw, Mapping) and "step_details" in raw:
        return read_step(raw, dialect)
    if isinstance(raw, Mapping) and ("role" in raw or "content" in raw):
        return read_message(raw, dialect)
    raise ValueError(f"{place} is neither a message of a thread nor a step of a run")


def about(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message or a step says of itself that we have fields for."""
    seconds = integer_or_none(raw.get("created_at"))
    at = None if seconds is None else instant_or_none(seconds)
    found = {"id": text_or_none(raw.get("id")), "response_id": text_or_none(raw.get("run_id")), "created_at": at}
    return {name: value for name, value in found.items() if value is not None}


def _with_kept(message: Message, raw: Mapping[str, Any], dialect: Dialect, *, is_step: bool) -> Message:
    return message.model_copy(update={"provider_data": kept(dialect.name, dialect.keep(raw, message, is_step))})


def read_message(raw: Mapping[str, Any], dialect: Dialect) -> Message:
    """Return a message of a thread; its attached files come after what it says."""
    contents: list[Content] = []
    content, attached, parts = raw.get("content"), raw.get("attachments"), dialect.parts
    if isinstance(content, str):
        contents.append(TextContent(text=content))
    elif isinstance(content, list):
        contents += [parts.read_one(part, place or None) for place, part in enumerate(content)]
    if isinstance(attached, list):
        contents += [_attached(dialect.attached.read_one(one), dialect) for one in attached]
    role = text_or_none(raw.get("role")) or "assistant"
    return _with_kept(Message(role=role, contents=tuple(contents), **about(raw)), raw, dialect, is_step=False)


def _attached(item: Content, dialect: Dialect) -> Content:
    ours = {**item.provider_data.get(dialect.name, {}), "attached": True}
    return item.model_copy(update={"provider_data": {dialect.name: ours}})


def read_step(raw: Mapping[str, Any], dialect: Dialect) -> Message:
    """Return a step of a run as a message of the assistant, with the calls of tools and what they came to.

    A run that is a message of its own is read so too: it has the error and the usage of a step, and no calls.
    """
    contents: list[Content] = []
    calls = object_or_empty(raw.get("step_details")).get("tool_calls")
    said = about(raw)
    for number, call in enumerate(calls if isinstance(calls, list) else (), 1):
        contents += read_tool_call(call, dialect, made_up_id(said.get("id"), number), text_or_none(raw.get("status")))
    error, usage = object_or_empty(raw.get("last_error")), raw.get("usage")
    if isinstance(error.get("message"), str):
        contents.append(ErrorContent(message=error["message"], code=text_or_none(error.get("code"))))
    if isinstance(usage, Mapping):
        contents.append(read_usage(usage, TOKENS, dialect.name))
    return _with_kept(Message(contents=tuple(contents), **said), raw, dialect, is_step=True)


def outcome_of(status: str | None) -> str | None:
    """Return the outcome of code in a step of this status; `None` where the step is not over, or does not say."""
    return None if status in UNDER_WAY else "ok" if status == "completed" else status


def made_up_id(step_id: str | None, number: int) -> str:
    """Return an id for a call that has none, by its place in the step."""
    return f"{step_id or 'call'}-{number}"


def read_tool_call(raw: Json, dialect: Dialect, own_id: str, status: str | None) -> list[Content]:
    """Return a call of a tool and, where it has ended, its result.

    `own_id` is for a call without an id; `status` is that of the step.
    """
    call = object_or_empty(raw)
    kind = text_or_none(call.get("type")) or ""
    inner = object_or_empty(call.get(kind))
    call_id = word_or_none(call.get("id")) or own_id
    code, name, arguments = (text_or_none(inner.get(key)) for key in ("input", "name", "arguments"))
    if kind == "code_interpreter" and code is not None:
        data = _rest_of_call(call, kind, ("input", "outputs"), dialect)
        called = CodeInterpreterCall(call_id=call_id, inputs=(code_content(code),), status=status, provider_data=data)
        outputs, outcome = inner.get("outputs"), outcome_of(status)
        if not isinstance(outputs, list) or not (outputs or outcome):
            return [called]
        return [called, CodeInterpreterResult(call_id=call_id, outputs=read_outputs(outputs, dialect), outcome=outcome)]
    if kind == "function" and name is not None and arguments is not None:
        data = _rest_of_call(call, kind, ("name", "arguments", "output"), dialect)
        given = arguments_from_json(arguments)
        asked = FunctionCall(call_id=call_id, name=name, arguments=given, provider_data=data)
        output = inner.get("output")
        if not isinstance(output, str):
            return [asked]
        return [asked, FunctionResult(call_id=call_id, name=name, outputs=(TextContent(text=output),))]
    return [UnknownContent(format=dialect.name, raw=raw, provider_data={dialect.name: {"in": "tool_calls"}})]


def read_outputs(outputs: list[Json], dialect: Dialect, first: int = 0) -> tuple[Content, ...]:
    """Return the outputs of code; each after the first keeps its place, so that it is not joined with another."""
    return tuple(dialect.outputs.read_one(output, place or None) for place, output in enumerate(outputs, first))


def _rest_of_call(
    call: Mapping[str, Any], kind: str, known: tuple[str, ...], dialect: Dialect
) -> dict[str, JsonObject]:
    inner = rest_of(call[kind], known)
    return kept(dialect.name, {**rest_of(call, ("id", "type", kind)), **({kind: inner} if inner else {})})
