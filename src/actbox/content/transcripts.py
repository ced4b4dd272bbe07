"""The reader of transcripts: from a file's text, in a provider's or our own format, to messages; it detects the
format.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from actbox.core.result import ExecutionResult, ShownInNotebooks

from .call_ids import with_own_call_ids
from .items import CodeInterpreterCall, JsonObject, ReasoningContent, UnknownContent, UsageContent, code_content
from .messages import Message, Update
from .recordings import Exchange, RecordingError, exchanges_of, is_yaml_recording, load_yaml
from .results import content_from_result
from .streaming import coalesce, messages_from_updates
from .wire.format import Format, StreamReader
from .wire.formats import NAMES, detect, find_format

RESULT = "result"
"""The format's name for files of results as `actbox run --json` and `actbox map` write them."""

FORMATS = (*NAMES, RESULT)

_SAMPLE = 200
"""The number of events that are examined to detect a stream's format."""


_NAME_IT = "--format NAME says which format it is"
_CUT_OFF = "the file may have been cut off, or edited by hand"
_GIVE = "give a result of `actbox run --json`, a transcript as JSON, JSON lines or captured events, or a recording"


class TranscriptError(ValueError):
    """A text that cannot be read as a transcript. `hint` says how to fix that."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Transcript(ShownInNotebooks):
    """The contents of a file: its messages in order, and the name of its format.

    `warnings` has a sentence for each part that could not be read, with its line, and for each suspected mistake.
    """

    messages: tuple[Message, ...]
    format: str
    warnings: tuple[str, ...] = ()


def read_transcript(text: str, *, format: str | None = None) -> Transcript:
    """Return the messages of a transcript.

    `text` is one JSON document (a response, a request's messages, a result of `actbox run --json`, a notebook), or has
    such a document or an event of a stream on each line (JSON lines), or is a captured stream of server-sent events, or
    a recording of requests and responses (a cassette of VCR in YAML or JSON, a list of objects with `request` and
    `response`). Without `format` the format is detected. An incomplete last line is left out, and a line of no known
    format among others becomes a message of the role `unknown`; `warnings` say so.

    Calls in documents on separate lines that share an id by chance get unique ids. Raises `TranscriptError`, a
    `ValueError`: with the line if the text is not JSON, and with the names of the formats for an unknown one.
    """
    if format not in (None, *FORMATS):
        hint = "give one of these names, or none: the format is found out then"
        raise TranscriptError(f"no format {format!r}; there are: {', '.join(FORMATS)}", hint)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise TranscriptError("there is nothing in it", "the file is empty; " + _GIVE)
    warnings: list[str] = []
    found = _read_text(text, format, warnings)
    formats = [find_format(name) for name in found.format.split(", ") if name in NAMES]
    tests = [each.only_names for each in formats if each.only_names is not None]
    messages = [message for message in found.messages if not any(test(message) for test in tests)]
    if not messages:
        warnings.append("there are no messages in it")
    return Transcript(tuple(with_own_call_ids(messages)), found.format, (*warnings, *found.warnings))


def _read_text(text: str, format: str | None, warnings: list[str]) -> Transcript:
    """Return the transcript of a text, and add to `warnings` a sentence for each part that is left out."""
    if is_yaml_recording(text):
        return _read_recording(text, format, warnings)
    if _SSE.match(text):
        values = list(_server_sent(text, warnings))
        if not values and warnings:
            raise TranscriptError(warnings[0], _CUT_OFF)
        return _read_values(values, format, as_stream=True)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as whole:
        lines = text.split("\n")  # other line ends may occur within JSON text
        if len(lines) == 1 or not _begin_with_json(lines):
            raise TranscriptError(_not_json(whole), _CUT_OFF if text.lstrip()[0] in "{[" else _GIVE) from None
        values = [_Value(line, number) for number, line in _lines(lines, warnings)]
        exchanges = exchanges_of([value.json for value in values])
        return _read_exchanges(exchanges, format, warnings) if exchanges else _read_values(values, format)
    if exchanges := exchanges_of(document):
        return _read_exchanges(exchanges, format, warnings)
    return _read_json(document, format)


def _read_json(document: Any, format: str | None) -> Transcript:
    if document == [] and format is None:
        raise TranscriptError("there are no messages in it", "the list is empty; " + _GIVE)
    parts = document if isinstance(document, list) else [document]
    # A single object may be the only event of a stream; a list of events may also be a list of messages.
    if _format_of_events(parts, format) is not None and (parts is document or _find(document, format) is None):
        return _read_values([_Value(part, None) for part in parts], format)
    return _read_document(document, format)


def _read_recording(text: str, format: str | None, warnings: list[str]) -> Transcript:
    try:
        exchanges = exchanges_of(load_yaml(text))
    except RecordingError as error:
        raise TranscriptError(str(error), error.hint or _GIVE) from None
    if not exchanges:
        raise TranscriptError("this YAML has no recorded requests and responses", _GIVE)
    return _read_exchanges(exchanges, format, warnings)


def _read_exchanges(exchanges: Sequence[Exchange], format: str | None, warnings: list[str]) -> Transcript:
    """Return the transcript of a recorder's exchanges. Messages that later requests repeat are read once."""
    messages: list[Message] = []
    formats: dict[str, None] = {}
    for exchange in exchanges:
        try:
            answer = _read_body(exchange.response, format, warnings)
            # Requests look much alike in several formats, so the format is taken from the answer.
            asked = answer if exchange.request is None else _read_body(exchange.request, answer.format, warnings)
        except TranscriptError as error:
            warnings.append(f"{exchange.name} is left out: {error}")
            continue
        new = [] if asked is answer else _without_repeated(asked.messages, messages)
        messages += [*new, *answer.messages]
        formats[answer.format] = None
        warnings += [f"{exchange.name}: {warning}" for warning in answer.warnings]
    if not messages:
        raise TranscriptError(f"of {len(exchanges)} recorded exchanges none can be read; {warnings[-1]}", _GIVE)
    return Transcript(tuple(messages), ", ".join(formats))


def _read_body(body: Any, format: str | None, warnings: list[str]) -> Transcript:
    if body is None:
        raise TranscriptError("it has no body that is text", _GIVE)
    return _read_text(body, format, warnings) if isinstance(body, str) else _read_json(body, format)


def _without_repeated(messages: Sequence[Message], said: Sequence[Message]) -> Sequence[Message]:
    """Return the messages of a request without those at its beginning that repeat earlier messages."""
    before = iter([_what_it_says(message) for message in said])
    count = 0
    while count < len(messages) and _what_it_says(messages[count]) in before:
        count += 1
    return messages[count:]


def _what_it_says(message: Message) -> tuple[Any, ...]:
    """Return the key by which a repeated message is recognized: later requests keep no more of an answer than this."""
    items = [item for item in message.contents if not isinstance(item, UsageContent | ReasoningContent)]
    return message.role, message.text, tuple((item.type, getattr(item, "call_id", None)) for item in items)


# Taking the text apart


@dataclass(frozen=True, slots=True)
class _Value:
    json: Any
    line: int | None
    event: str | None = None
    """The event's name in the stream, if the stream is server-sent."""

    @property
    def place(self) -> str:
        return "" if self.line is None else f"line {self.line}: "


_SSE = re.compile(r"\s*(?:data|event|id|retry)?:")  # no JSON document begins like this
_SSE_FIELDS = ("data", "event", "id", "retry")
_SSE_LINES = re.compile(r"\r\n|\n|\r")


def _begin_with_json(lines: list[str]) -> bool:
    """Return True if the first non-empty line is a whole document, so that the lines are JSON lines."""
    first = next(line for line in lines if line.strip())
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(lines: list[str], warnings: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield the line number and document of each line. An incomplete last line is left out with a warning."""
    full = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in full:
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            said = f"line {number} is not JSON: {_reason(error)}"
            if number != full[-1][0]:
                raise TranscriptError(said, "each line is to be a JSON document") from None
            warnings.append(f"{said}; it is the last one, and is left out")


def _server_sent(text: str, warnings: list[str]) -> Iterator[_Value]:
    """Yield the data of each server-sent event. Events need not be separated by empty lines, which captures often lack.

    A last event that is not whole is left out with a warning.
    """
    event: str | None = None
    begun: list[str] = []
    begun_at = 0
    lines = _SSE_LINES.split(text.rstrip())
    for number, line in enumerate([*lines, ""], 1):
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line.strip():
            if begun:
                said = f"line {begun_at} is not JSON: the data of this event make no document"
                if number <= len(lines):
                    raise TranscriptError(said, _CUT_OFF)
                warnings.append(f"{said}; it is the last one, and is left out")
            event = None
        elif name == "event" and colon:
            event = value.strip()
        elif name == "data" and colon:
            if not begun:
                begun_at = number
            begun.append(value)
            whole = "\n".join(begun)
            if whole.strip() == "[DONE]":
                begun = []
                continue
            try:
                document = json.loads(whole)
            except (ValueError, RecursionError):
                continue  # the next line of data may complete it
            yield _Value(document, begun_at, event)
            begun = []
        elif name not in ("", "id", "retry"):
            said = f"line {number} is no line of server-sent events: it begins with {line[:20]!r}"
            if number < len(lines) or colon or not any(field.startswith(line) for field in _SSE_FIELDS):
                raise TranscriptError(said, _CUT_OFF)
            warnings.append(f"{said}; it is the last one, and is left out")


def _not_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is not JSON: {_reason(error)}"
    return f"it is not JSON: {_reason(error)}"


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


# Finding out what it is


def _read_document(document: Any, format: str | None, place: str = "") -> Transcript:
    if format in (None, RESULT, "actbox") and _is_result(document):
        return Transcript((_message_of_result(document, place),), RESULT)
    if format == RESULT:
        raise TranscriptError(
            f"{place}this is no result as `actbox run --json` prints it", "without --format the format is found out"
        )
    found = detect(document) if format is None else find_format(format)  # a named format is tried in any case
    if found is None:
        raise TranscriptError(_of_none(place), f"{_NAME_IT}; {_GIVE}")
    messages = _read(found, document, place)
    return Transcript(tuple(messages), found.name, _warnings_of(found, messages, document, format))


def _warnings_of(read_as: Format, messages: Sequence[Message], document: Any, format: str | None) -> tuple[str, ...]:
    """Return a warning if a document seems to be of another format than the named one."""
    if format is None:
        return ()
    items = [item for message in messages for item in message.contents]
    unknown = sum(isinstance(item, UnknownContent) for item in items)
    other = None if read_as.looks_like(document) > 0 else detect(document)
    if other is not None and _kinds(_read_or_none(other, document)) == _kinds(messages):
        other = None  # a service's dialect of the other format, which must be named
    if other is None and (not unknown or 2 * unknown < len(items)):
        return ()
    likely = "" if other is None else f"; this looks like {other.name}"
    return (f"{unknown} of {len(items)} items are not known in {read_as.name}{likely}",)


def _kinds(messages: Sequence[Message] | None) -> list[str]:
    return sorted(item.type for message in messages or () for item in message.contents)


def _find(document: Any, format: str | None) -> Format | None:
    """Return the format of a document, or the named one if it is possible; `None` otherwise."""
    found = detect(document) if format is None else find_format(format)
    return found if found is not None and found.looks_like(document) > 0 else None


def _read(format: Format, document: Any, place: str) -> list[Message]:
    try:
        return format.read(document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        hint = f"{_NAME_IT}, where it is another one"
        raise TranscriptError(f"{place}this cannot be read as {_named_format(format)}: {_why(error)}", hint) from error


def _named_format(format: Format) -> str:
    return format.title if format.title == format.name else f"{format.title} ({format.name})"


def _why(error: Exception) -> str:
    """Return the reason of an error; for pydantic's errors, place and reason of the first three."""
    if not isinstance(error, ValidationError):
        return f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return "; ".join(f"{_path(each['loc'])}: {each['msg']}" for each in error.errors(include_url=False)[:3])


def _path(place: tuple[int | str, ...]) -> str:
    steps = [
        step
        for number, step in enumerate(place)
        # An item's type, which pydantic names after its number.
        if number < 2 or isinstance(step, int) or place[number - 2] not in ("contents", "inputs", "outputs")
    ]
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _of_none(place: str) -> str:
    return f"{place}this looks like none of the formats: {', '.join(FORMATS)}"


def _is_result(document: Any) -> bool:
    return isinstance(document, Mapping) and {"exit_code", "stdout", "stderr"} <= document.keys()


def _message_of_result(document: Mapping[str, Any], place: str) -> Message:
    try:
        result = ExecutionResult.from_dict(document)
    except ValueError as error:
        raise TranscriptError(f"{place}{error}", "give it as `actbox run --json` printed it") from None
    name = document.get("id")
    call_id = "run" if name is None else f"run {name}"
    contents = content_from_result(result, call_id=call_id)
    if result.code is not None:
        code = code_content(result.code, result.language or "python")
        contents.insert(0, CodeInterpreterCall(call_id=call_id, inputs=(code,)))
    about: JsonObject = {"result": "" if name is None else str(name)}
    return Message(role="assistant", contents=tuple(contents), provider_data={"actbox": about})


def _format_of_events(values: Sequence[Any], format: str | None) -> Format | None:
    """Return the format to whose streams most of the values belong as events, or `None`."""
    sample = values[:_SAMPLE]
    best, most = None, 0
    for name in NAMES if format is None else [format] if format in NAMES else []:
        candidate = find_format(name)
        if candidate.is_event is None or candidate.stream is None:
            continue
        count = sum(1 for value in sample if candidate.is_event(value))
        if count > most:
            best, most = candidate, count
    return best if 2 * most > len(sample) else None


def _read_values(values: Sequence[_Value], format: str | None, *, as_stream: bool = False) -> Transcript:
    if format in (None, RESULT, "actbox") and values and all(_is_result(value.json) for value in values):
        return Transcript(tuple(_message_of_result(value.json, value.place) for value in values), RESULT)
    plain = [value.json for value in values]
    if as_stream:
        values = _named(values, format)
    events = _format_of_events([value.json for value in values], format)
    # A value may be both, as where a piece of a stream looks like a message. Pieces are recognized by coming several in
    # a row from the same speaker.
    if events is not None and not as_stream:
        whole = _find(plain, format)
        if whole is not None and (whole is events or events.looks_like(plain) > 0):
            messages = _read_or_none(whole, plain)
            if messages is not None and (whole is not events or not _in_pieces(messages)):
                return Transcript(tuple(_joined(messages)), whole.name)
    if events is not None and events.stream is not None:
        return Transcript(tuple(_from_stream(events, values)), events.name)
    return _read_documents(values, format)


def _named(values: Sequence[_Value], format: str | None) -> list[_Value]:
    """Return the values of a stream, wrapped with their event's name if the format writes events so."""
    named = [
        value if value.event is None else _Value({"event": value.event, "data": value.json}, value.line)
        for value in values
    ]
    bare = _format_of_events([value.json for value in values], format)
    return list(values) if bare is not None or _format_of_events([v.json for v in named], format) is None else named


def _read_or_none(format: Format, documents: Any) -> list[Message] | None:
    try:
        return format.read(documents)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _in_pieces(messages: Sequence[Message]) -> bool:
    return any(
        before.role == after.role == "assistant" and before.id == after.id and before.response_id == after.response_id
        for before, after in itertools.pairwise(messages)
    )


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Return messages with adjacent ones of the same id and role merged."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before is not None and message.id is not None and (before.id, before.role) == (message.id, message.role):
            said = {name: getattr(message, name) for name in message.model_fields_set if name != "provider_data"}
            said["contents"] = coalesce((*before.contents, *message.contents))
            said["provider_data"] = {**before.provider_data, **message.provider_data}
            joined[-1] = before.model_copy(update=said)
        else:
            joined.append(message)
    return joined


def _from_stream(format: Format, values: Sequence[_Value]) -> list[Message]:
    """Return the messages that events make, preceded by documents among them, such as a request's messages."""
    assert format.stream is not None and format.is_event is not None
    messages: list[Message] = []
    updates: list[Update] = []
    reader: StreamReader | None = None
    for value in values:
        if not format.is_event(value.json) and format.looks_like(value.json) > 0:
            messages += messages_from_updates(updates)
            messages += _read(format, value.json, value.place)
            updates, reader = [], None
            continue
        if not isinstance(value.json, Mapping):
            said = f"{value.place}this is no event of a stream of {format.title}, but {value.json!r:.40}"
            raise TranscriptError(said, f"{_NAME_IT}, where it is another one")
        reader = reader or format.stream()
        try:
            updates += reader.feed(value.json)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            said = f"{value.place}this cannot be read as an event of {format.title}: {_why(error)}"
            raise TranscriptError(said, f"{_NAME_IT}, where it is another one") from error
    return messages + messages_from_updates(updates)


def _read_documents(values: Sequence[_Value], format: str | None) -> Transcript:
    """Return the transcript of one document per line: messages of one conversation, or separate responses."""
    plain = [value.json for value in values]
    if format != RESULT and (found := _find(plain, format)) is not None:
        messages = _read_or_none(found, plain)
        if messages is not None:
            return Transcript(tuple(_joined(messages)), found.name, _warnings_of(found, messages, plain, format))
    if format is None and (between := _with_foreign_lines(values)) is not None:
        return between
    each = [_read_document(value.json, format, value.place) for value in values]
    names = list(dict.fromkeys(transcript.format for transcript in each))
    messages = [message for transcript in each for message in transcript.messages]
    warnings = dict.fromkeys(warning for transcript in each for warning in transcript.warnings)
    return Transcript(tuple(messages), ", ".join(names), tuple(warnings))


def _with_foreign_lines(values: Sequence[_Value]) -> Transcript | None:
    """Return the transcript of lines of which a few are of no known format, each kept as a message; `None` if that does
    not fit.
    """
    foreign = [not _is_result(value.json) and detect(value.json) is None for value in values]
    known = [value for value, is_foreign in zip(values, foreign, strict=True) if not is_foreign]
    if len(known) == len(values) or 2 * len(known) <= len(values):
        return None
    format = _find([value.json for value in known], None)
    if format is None:
        return None
    messages: list[Message] = []
    warnings = []
    for is_foreign, group in itertools.groupby(zip(values, foreign, strict=True), key=lambda pair: pair[1]):
        run = [value for value, _ in group]
        if not is_foreign:
            messages += _read(format, [value.json for value in run], run[0].place)
            continue
        for value in run:
            kept = UnknownContent(format=format.name, raw=value.json)
            messages.append(Message(role="unknown", contents=(kept,)))
            warnings.append(f"{value.place}this is not known in {_named_format(format)}; it is shown as it is")
    return Transcript(tuple(_joined(messages)), format.name, tuple(warnings))
