"""Amazon Bedrock AgentCore's Code Interpreter: requests that invoke its tools, and the events that they return.

https://docs.aws.amazon.com/bedrock-agentcore/latest/APIReference/API_InvokeCodeInterpreter.html

There are no messages and no call ids here: calls are numbered by their place, and a result is of the request before it.
Bytes are base64 text in JSON; `read` takes those of the SDK for Python too, and `for_sdk` makes bytes of what was
written. A result is written as the event that has it, `{"result": …}`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    JsonObject,
    UnknownContent,
    code_content,
)
from actbox.content.messages import Message, Update
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire.blobs import with_bytes, without_bytes
from actbox.content.wire.format import Format, Json
from actbox.content.wire.program import program_and_files
from actbox.content.wire.reading import kept, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses, Written

from .results import (
    NAME,
    STRUCTURED,
    read_code_result,
    read_function_result,
    write_code_result,
    write_function_result,
)

INTERPRETER = "aws.codeinterpreter.v1"
"""The interpreter that is asked for where none is named: the one that AWS provides."""

_CODE, _COMMAND = "executeCode", "executeCommand"
_PROGRAM_FIELDS = {_CODE: "code", _COMMAND: "command", "startCommandExecution": "command"}
_TOOLS = frozenset(_PROGRAM_FIELDS) | {"readFiles", "listFiles", "removeFiles", "writeFiles", "getTask", "stopTask"}
_LANGUAGES = ("python", "javascript", "typescript")
_EXCEPTIONS = frozenset(
    {"accessDeniedException", "conflictException", "internalServerException", "resourceNotFoundException"}
    | {"serviceQuotaExceededException", "throttlingException", "validationException"}
)
_BYTES = frozenset({"blob", "data"})


def for_sdk(document: Json) -> Json:
    """Return what was written with bytes for base64, as the SDK for Python takes it."""
    return with_bytes(document, _BYTES)


@dataclass(slots=True)
class _Calls:
    """The call that was read last, whose the next results are."""

    number: int = 0
    call_id: str = ""
    function: str | None = None
    ended: bool = False
    """Whether a result of it had the exit code, or was an exception: what follows is another call's."""

    def of_result(self) -> str:
        """Return the call id of a result."""
        return self.begin(None) if self.ended or not self.call_id else self.call_id

    def begin(self, function: str | None) -> str:
        self.number, self.function, self.ended = self.number + 1, function, False
        self.call_id = f"{'code' if function is None else 'call'}-{self.number}"
        return self.call_id


def read(document: Json) -> list[Message]:
    """Return a message for each request, response, event or result of a list, or for the one that there is.

    A request is a call that the assistant makes: of code, or of a function that has the tool's name. Raises
    `ValueError` for what is none of these.
    """
    plain = without_bytes(document)
    calls = _Calls()
    documents = plain if isinstance(plain, list) else [plain]
    if documents and not any(_is_ours(one) for one in documents):
        raise ValueError("number 1 is neither a request nor a result of AgentCore's Code Interpreter")
    return [_read_one(one, calls) for one in documents]


def _is_ours(document: Json) -> bool:
    if not isinstance(document, Mapping):
        return False
    streams = isinstance(document.get("stream"), list)
    return _is_request(document) or streams or _is_result(document) or bool(_kind_of(document))


def _read_one(document: Json, calls: _Calls) -> Message:
    if isinstance(document, Mapping):
        if _is_request(document):
            return Message(contents=(_read_request(document, calls),))
        if isinstance(document.get("stream"), list):
            contents = tuple(_read_event(event, calls) for event in document["stream"])
            return Message(
                role="tool", contents=contents, provider_data={NAME: {"response": rest_of(document, ("stream",))}}
            )
    return Message(role="tool", contents=(_read_event(document, calls),))


def _is_request(document: Mapping[str, Any]) -> bool:
    return text_or_none(document.get("name")) in _TOOLS


def _is_result(document: Mapping[str, Any]) -> bool:
    return "content" in document or "structuredContent" in document


def _kind_of(event: Json) -> str:
    """Return the kind of an event, "" for what is none."""
    kind = str(next(iter(event))) if isinstance(event, Mapping) and len(event) == 1 else ""
    return kind if (kind == "result" or kind in _EXCEPTIONS) and isinstance(event[kind], Mapping) else ""


def _read_request(request: Mapping[str, Any], calls: _Calls) -> Content:
    name, arguments = request["name"], object_or_empty(request.get("arguments"))
    rest = rest_of(request, ("name", "arguments"))
    if "codeInterpreterIdentifier" not in request:
        rest["codeInterpreterIdentifier"] = None
    item: Content
    program_field = _PROGRAM_FIELDS.get(name)
    program = arguments.get(program_field) if program_field is not None else None
    if program_field is not None and isinstance(program, str):
        language = "shell"
        if name == _CODE:
            said = text_or_none(arguments.get("language"))
            language = said or "python"
            rest |= {} if said else {"unsaid": True}
        if more := rest_of(arguments, (program_field, *(["language"] if name == _CODE else []))):
            rest["arguments"] = more
        call_id = calls.begin(None)
        code = (code_content(program, language),)
        item = CodeInterpreterCall(call_id=call_id, inputs=code, name=name, provider_data=kept(NAME, rest))
    else:
        call_id = calls.begin(name)
        if "arguments" not in request:
            rest["unsaid"] = True
        item = FunctionCall(call_id=call_id, name=name, arguments=dict(arguments), provider_data=kept(NAME, rest))
    return item if _write_call(item, Losses()) == request else UnknownContent(format=NAME, raw=dict(request))


def _read_event(event: Json, calls: _Calls) -> Content:
    kind = _kind_of(event)
    if kind in _EXCEPTIONS:
        item: Content | None = _read_exception(kind, event[kind], calls)
    else:
        result = event[kind] if kind else event
        item = _read_result(result, calls) if isinstance(result, Mapping) and _is_result(result) else None
        if item is not None and not kind:
            ours = {**item.provider_data.get(NAME, {}), "bare": True}
            item = item.model_copy(update={"provider_data": {NAME: ours}})
    if item is None or _write_result(item, Losses()) != event:
        return UnknownContent(format=NAME, raw=event)
    return item


def _read_result(result: Mapping[str, Any], calls: _Calls) -> Content | None:
    call_id = calls.of_result()
    calls.ended = "exitCode" in object_or_empty(result.get("structuredContent"))
    if calls.function is not None:
        return read_function_result(result, call_id, calls.function)
    return read_code_result(result, call_id)


def _read_exception(kind: str, body: Mapping[str, Any], calls: _Calls) -> Content:
    call_id = calls.of_result()
    calls.ended = True
    message = text_or_none(body.get("message"))
    rest: dict[str, JsonObject] = {NAME: {"exception": rest_of(body, ("message",) if message is not None else ())}}
    error = ErrorContent(message=kind if message is None else message, code=kind)
    if calls.function is not None:
        return FunctionResult(call_id=call_id, name=calls.function, outputs=(error,), is_error=True, provider_data=rest)
    return CodeInterpreterResult(call_id=call_id, outputs=(error,), outcome="failed", provider_data=rest)


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return requests and results, each result after its call. Nothing else has a place."""
    losses = Losses()
    written: list[Json] = []
    items = (item for message in messages for item in message.contents)
    functions = {item.call_id for item in items if isinstance(item, FunctionCall) and item.name in _TOOLS}
    last: Message | None = None
    for message, item in _in_order(messages):
        response = message.provider_data.get(NAME, {}).get("response")
        if isinstance(response, dict) and message is not last:
            written.append({**response, "stream": []})
        last = message
        one: Json = None
        match item:
            case None:
                continue
            case UnknownContent() if item.format == NAME:
                one = item.raw
            case CodeInterpreterCall():
                one = _write_call(item, losses)
            case FunctionCall() if item.call_id in functions:
                one = _write_call(item, losses)
            case CodeInterpreterResult():
                one = _write_result(item, losses)
            case FunctionResult() if item.call_id in functions or item.name in _TOOLS:
                one = _write_result(item, losses)
            case _:
                losses.add(item.type, "left out: only calls of the interpreter's tools and their results have a place")
                continue
        if isinstance(response, dict):
            written[-1]["stream"].append(one)
        else:
            written.append(one)
    return losses.written(written)


def _in_order(messages: Sequence[Message]) -> Iterator[tuple[Message, Content | None]]:
    """Yield each item with its message, `None` for a message without any.

    A result that another call comes before is moved to its own call.
    """
    entries: list[tuple[Message, Content | None]] = []
    for message in messages:
        entries += [(message, item) for item in message.contents or (None,)]
    results: dict[str, list[int]] = {}
    last = ""
    for place, (_, item) in enumerate(entries):
        if isinstance(item, CodeInterpreterCall | FunctionCall):
            last = item.call_id
            results.setdefault(last, [])
        elif isinstance(item, CodeInterpreterResult | FunctionResult) and item.call_id in results.keys() - {last}:
            results[item.call_id].append(place)
    moved = {place for places in results.values() for place in places}
    for place, (message, item) in enumerate(entries):
        if place in moved:
            continue
        yield message, item
        if isinstance(item, CodeInterpreterCall | FunctionCall):
            for other in results.pop(item.call_id, []):
                yield entries[other]


def _write_call(item: Content, losses: Losses) -> Json:
    ours = dict(item.provider_data.get(NAME, {}))
    identifier = ours.pop("codeInterpreterIdentifier", INTERPRETER)
    named: JsonObject = {} if identifier is None else {"codeInterpreterIdentifier": identifier}
    unsaid, more = ours.pop("unsaid", False), object_or_empty(ours.pop("arguments", None))
    arguments: JsonObject = {}
    if isinstance(item, FunctionCall):
        name = item.name
        arguments = item.arguments if isinstance(item.arguments, dict) else {}
        if isinstance(item.arguments, str) and item.arguments:
            losses.add("function_call.arguments", "left out where they are no JSON object")
        if item.called_by is not None:
            losses.add("function_call.called_by", "left out: there is no place for it")
        if unsaid and not arguments:
            return {**named, "name": name, **ours}
    elif isinstance(item, CodeInterpreterCall):
        program, files = program_and_files(item)
        name = item.name if item.name in _PROGRAM_FIELDS else _COMMAND if item.language == "shell" else _CODE
        arguments = {_PROGRAM_FIELDS[name]: program}
        if files:
            losses.add("code_interpreter_call.inputs", "files are left out: `writeFiles` takes them before")
        if item.name not in (None, name):
            losses.add("code_interpreter_call.name", f"becomes {name}")
        if item.status is not None:
            losses.add("code_interpreter_call.status", "left out")
        if name == _CODE and not unsaid:
            arguments["language"] = item.language
            if item.language not in _LANGUAGES and not ours:
                losses.add("code_interpreter_call.language", "left out: it runs Python, JavaScript and TypeScript only")
                del arguments["language"]
    return {**named, "name": name, "arguments": {**arguments, **more}, **ours}


def _write_result(item: Content, losses: Losses) -> Json:
    ours = dict(item.provider_data.get(NAME, {}))
    outputs = item.outputs if isinstance(item, CodeInterpreterResult | FunctionResult) else ()
    exception = ours.pop("exception", None)
    if isinstance(exception, dict) and outputs and isinstance(outputs[0], ErrorContent) and outputs[0].code:
        error = outputs[0]
        said: JsonObject = {} if "message" in exception or error.message == error.code else {"message": error.message}
        return {str(error.code): {**said, **exception}}
    bare = ours.pop("bare", False)
    plain = item.model_copy(update={"provider_data": kept(NAME, ours)})
    if isinstance(plain, FunctionResult):
        result = write_function_result(plain, losses)
    else:
        result = write_code_result(plain, losses) if isinstance(plain, CodeInterpreterResult) else {}
    return result if bare else {"result": result}


class Reader:
    """Reads the events of one invocation: all are of one call, `code-1`, and are put together by its id.

    What follows a result with an exit code is of another call, as where results are in one file.
    """

    def __init__(self) -> None:
        self._calls = _Calls()

    def feed(self, event: Mapping[str, Json]) -> list[Update]:
        """Return what an event adds; one that is not known is kept as an unknown item."""
        return [Update(role="tool", contents=(_read_event(without_bytes(event), self._calls),))]


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return the request that writes the inputs of the tool as files; the interpreter itself needs no asking for."""
    losses = Losses()
    written: list[Json] = []
    for tool in tools:
        if not isinstance(tool, HostedCodeInterpreterTool):
            losses.add("file_search", "left out: there is no such tool")
            continue
        files: list[Json] = []
        for number, item in enumerate(tool.inputs, 1):
            if isinstance(item, DataContent):
                path: JsonObject = {"path": item.name or f"input-{number}"}
                files.append({**path, "blob": base64.b64encode(item.data).decode("ascii")})
                losses.add("code_interpreter.inputs.data.media_type", "left out")
            else:
                losses.add(f"code_interpreter.inputs.{item.type}", "left out: only data can be written")
        if files:
            request: JsonObject = {"codeInterpreterIdentifier": INTERPRETER, "name": "writeFiles"}
            written.append({**request, "arguments": {"content": files}})
    return losses.written(written)


def _looks_like(document: Json) -> float:
    if isinstance(document, list):
        scores = [_looks_like(one) for one in document]
        return max(scores, default=0.0) if all(scores) else 0.0
    if not isinstance(document, Mapping):
        return 0.0
    if _is_request(document):
        return 1.0 if "codeInterpreterIdentifier" in document else 0.9 if "arguments" in document else 0.0
    if _kind_of(document):
        return 0.9 if _is_event(document) else 0.0
    if isinstance(document.get("stream"), list):
        return min((_looks_like(event) for event in document["stream"]), default=0.3 if "sessionId" in document else 0)
    structured = document.get("structuredContent")
    if "content" in document and isinstance(structured, Mapping) and structured and structured.keys() <= STRUCTURED:
        return 0.95
    return 0.0


def _is_event(event: Any) -> bool:
    kind = _kind_of(event)
    return kind in _EXCEPTIONS or (kind == "result" and "content" in event[kind])


FORMAT = Format(NAME, "Bedrock AgentCore Code Interpreter", read, write, _looks_like, Reader, _is_event, write_tools)
