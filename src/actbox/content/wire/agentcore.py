"""Amazon Bedrock AgentCore's Code Interpreter: requests that invoke its tools, and the events that they return.

https://docs.aws.amazon.com/bedrock-agentcore/latest/APIReference/API_InvokeCodeInterpreter.html

There are no messages and no call ids here: calls are numbered by their place, and a result is of the request before it.
Bytes are base64 text in JSON; `read` takes those of the SDK for Python too, and `for_sdk` makes bytes of what was
written. A result is written as the event that has it, `{"result": …}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
    TextContent,
    UnknownContent,
    as_text,
    code_content,
)
from actbox.content.messages import Message, Update
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool

from .blocks import At, as_it_was, difference, only_field_of
from .degrade import program_and_files
from .fields import STREAMS, printed_texts
from .format import Format, Json
from .losses import Losses, ReadBack, Written
from .mcp import blocks_of_results, media_kind
from .turns import scored, write_code_tools
from .values import integer_or_none, kept, object_or_empty, rest_of, text_or_none, to_base64, with_bytes, without_bytes

NAME = "agentcore"
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
_STRUCTURED = frozenset({"taskId", "taskStatus", "stdout", "stderr", "exitCode", "executionTime"})
_OUTCOMES = {"completed": "ok", "failed": "failed", "canceled": "canceled", "submitted": None, "working": None}
_BLOCKS = blocks_of_results(NAME, (media_kind("image", At("name", "name", optional=True)),), forms=True)


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
            return Message(contents=(_read_call(document, calls),))
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
    kind = only_field_of(event)
    return kind if (kind == "result" or kind in _EXCEPTIONS) and isinstance(event[kind], Mapping) else ""


def _read_call(request: Mapping[str, Any], calls: _Calls) -> Content:
    item = _read_request(request)
    call_id = calls.begin(None if isinstance(item, CodeInterpreterCall) else request["name"])
    if item is None:
        return UnknownContent(format=NAME, raw=dict(request))
    rest = difference(request, _request(item, Losses()))
    return item.model_copy(update={"call_id": call_id, "provider_data": kept(NAME, rest)})


def _read_request(request: Mapping[str, Any]) -> CodeInterpreterCall | FunctionCall | None:
    name, arguments = request["name"], request.get("arguments", {})
    if not isinstance(arguments, Mapping):
        return None
    program = arguments.get(_PROGRAM_FIELDS.get(name, ""))
    if not isinstance(program, str):
        return FunctionCall(call_id="", name=name, arguments=dict(arguments))
    language = "shell" if name != _CODE else text_or_none(arguments.get("language")) or "python"
    return CodeInterpreterCall(call_id="", inputs=(code_content(program, language),), name=name)


def _read_event(event: Json, calls: _Calls) -> Content:
    kind = _kind_of(event)
    if kind in _EXCEPTIONS:
        return _read_exception(kind, event[kind], calls)
    result = event[kind] if kind else event
    if not isinstance(result, Mapping) or not _is_result(result):
        return UnknownContent(format=NAME, raw=event)
    call_id = calls.of_result()
    calls.ended = "exitCode" in object_or_empty(result.get("structuredContent"))
    item = _read_result(result, call_id, calls.function)
    if item is None:
        return UnknownContent(format=NAME, raw=event)
    rest = difference(result, _result(item, Losses()))
    found: Content = item.model_copy(update={"provider_data": kept(NAME, rest if kind else {**rest, "bare": True})})
    return found


def _read_exception(kind: str, body: Mapping[str, Any], calls: _Calls) -> Content:
    call_id = calls.of_result()
    calls.ended = True
    message = text_or_none(body.get("message"))
    rest: dict[str, JsonObject] = {NAME: {"exception": rest_of(body, ("message",) if message is not None else ())}}
    error = ErrorContent(message=kind if message is None else message, code=kind)
    if calls.function is not None:
        return FunctionResult(call_id=call_id, name=calls.function, outputs=(error,), is_error=True, provider_data=rest)
    return CodeInterpreterResult(call_id=call_id, outputs=(error,), outcome="failed", provider_data=rest)


def _read_result(result: Mapping[str, Any], call_id: str, function: str | None) -> Any:
    """Return the result of a run of code or of a command, or of a function; `None` for what is none.

    A result has what was printed twice, apart in `structuredContent` and together in blocks of text; it is read once.
    """
    structured, content, is_error = result.get("structuredContent"), result.get("content"), result.get("isError")
    if not isinstance(content, list) or (function is None and not isinstance(structured, Mapping | None)):
        return None
    if function is not None:
        outputs = _BLOCKS.read_all(content)
        return FunctionResult(call_id=call_id, name=function, outputs=outputs, is_error=is_error is True)
    said = object_or_empty(structured)
    printed = {name: said[name] for name in STREAMS if isinstance(said.get(name), str)}
    code, status = integer_or_none(said.get("exitCode")), text_or_none(said.get("taskStatus"))
    blocks = [block for block in content if not _is_repeated(block, printed)]
    if code is not None:
        outcome: str | None = "ok" if code == 0 else "failed"
    else:
        outcome = "failed" if is_error is True else "ok" if is_error is False else None
        outcome = _OUTCOMES.get(status, outcome) if status is not None else outcome
    return CodeInterpreterResult(
        call_id=call_id,
        outputs=(*printed_texts(said), *_BLOCKS.read_all(blocks)),
        exit_code=code,
        outcome=outcome,
        status=status,
    )


def _is_repeated(block: Json, printed: Mapping[str, str]) -> bool:
    """Return whether a block of text repeats what was printed."""
    text = text_or_none(object_or_empty(block).get("text"))
    if text is None or object_or_empty(block).get("type") != "text":
        return False
    if block in [{"type": "text", "text": value} for value in printed.values()]:
        return True
    whole = ["".join(printed.values()), "\n".join(printed.values()), *printed.values()]
    return bool(text.strip()) and text.strip() in (value.strip() for value in whole)


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


def _write_call(item: CodeInterpreterCall | FunctionCall, losses: Losses) -> Json:
    said, rest = item.model_copy(update={"call_id": ""}), item.provider_data.get(NAME, {})
    return as_it_was(
        partial(_request, item), rest, lambda exact: ReadBack().is_same(_read_request(exact), said), losses
    )


def _request(item: CodeInterpreterCall | FunctionCall, losses: Losses) -> JsonObject:
    named: JsonObject = {"codeInterpreterIdentifier": INTERPRETER}
    if isinstance(item, FunctionCall):
        if isinstance(item.arguments, str) and item.arguments:
            losses.add("function_call.arguments", "left out where they are no JSON object")
        if item.called_by is not None:
            losses.add("function_call.called_by", "left out: there is no place for it")
        given: Json = item.arguments if isinstance(item.arguments, dict) else {}
        return {**named, "name": item.name, "arguments": given}
    program, files = program_and_files(item)
    name = item.name if item.name in _PROGRAM_FIELDS else _COMMAND if item.language == "shell" else _CODE
    arguments: JsonObject = {_PROGRAM_FIELDS[name]: program}
    if files:
        losses.add("code_interpreter_call.inputs", "files are left out: `writeFiles` takes them before")
    if item.name not in (None, name):
        losses.add("code_interpreter_call.name", f"becomes {name}")
    if item.status is not None:
        losses.add("code_interpreter_call.status", "left out")
    if name == _CODE and item.language in _LANGUAGES:
        arguments["language"] = item.language
    elif name == _CODE:
        losses.add("code_interpreter_call.language", "left out: it runs Python, JavaScript and TypeScript only")
    return {**named, "name": name, "arguments": arguments}


def _write_result(item: CodeInterpreterResult | FunctionResult, losses: Losses) -> Json:
    ours = dict(item.provider_data.get(NAME, {}))
    exception, bare = ours.pop("exception", None), ours.pop("bare", False)
    error = item.outputs[0] if item.outputs else None
    if isinstance(exception, dict) and isinstance(error, ErrorContent) and error.code:
        said: JsonObject = {} if "message" in exception or error.message == error.code else {"message": error.message}
        return {error.code: {**said, **exception}}
    function = item.name or "" if isinstance(item, FunctionResult) else None

    def is_same(exact: JsonObject) -> bool:
        return ReadBack().is_same(_read_result(exact, item.call_id, function), item)

    result = as_it_was(partial(_result, item), ours, is_same, losses)
    return result if bare else {"result": result}


def _result(item: CodeInterpreterResult | FunctionResult, losses: Losses) -> JsonObject:
    if isinstance(item, FunctionResult):
        return {"content": _BLOCKS.write_all(item.outputs, losses), "isError": item.is_error}
    printed = dict.fromkeys(STREAMS, "")
    blocks: list[Any] = []
    for output in item.outputs:
        if isinstance(output, ErrorContent):
            losses.add("code_interpreter_result.error", "becomes text on stderr")
            printed["stderr"] += f"{as_text(output)}\n"
        elif isinstance(output, TextContent) and output.stream is not None:
            if output.stream == "stdout" and printed["stderr"]:
                losses.add("code_interpreter_result.outputs", "what came on stdout is put before stderr")
            printed[output.stream] += output.text
            if output.annotations:
                losses.add("text.annotations", "left out")
        else:
            blocks += _BLOCKS.write_all([output], losses)
    if item.status is not None:
        losses.add("code_interpreter_result.status", "left out")
    if item.outcome not in (None, "ok", "failed"):
        losses.add("code_interpreter_result.outcome", "becomes that it is an error, or not")
    structured: JsonObject = {**printed, **({} if item.exit_code is None else {"exitCode": item.exit_code})}
    texts: list[Any] = [{"type": "text", "text": text} for text in printed.values() if text]
    return {"content": [*texts, *blocks], "structuredContent": structured, "isError": item.success is False}


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
    return write_code_tools(tools, _write_tool)


def _write_tool(tool: HostedCodeInterpreterTool, losses: Losses) -> list[Json]:
    files: list[Json] = []
    for number, item in enumerate(tool.inputs, 1):
        if isinstance(item, DataContent):
            path: JsonObject = {"path": item.name or f"input-{number}"}
            files.append({**path, "blob": to_base64(item.data)})
            losses.add("code_interpreter.inputs.data.media_type", "left out")
        else:
            losses.add(f"code_interpreter.inputs.{item.type}", "left out: only data can be written")
    request: JsonObject = {"codeInterpreterIdentifier": INTERPRETER, "name": "writeFiles"}
    return [{**request, "arguments": {"content": files}}] if files else []


@scored()
def _looks_like(document: Mapping[str, Any]) -> float:
    if _is_request(document):
        return 1.0 if "codeInterpreterIdentifier" in document else 0.9 if "arguments" in document else 0.0
    if _kind_of(document):
        return 0.9 if _is_event(document) else 0.0
    if isinstance(document.get("stream"), list):
        return min((_looks_like(event) for event in document["stream"]), default=0.3 if "sessionId" in document else 0)
    structured = document.get("structuredContent")
    if "content" in document and isinstance(structured, Mapping) and structured and structured.keys() <= _STRUCTURED:
        return 0.95
    return 0.0


def _is_event(event: Any) -> bool:
    kind = _kind_of(event)
    return kind in _EXCEPTIONS or (kind == "result" and "content" in event[kind])


FORMAT = Format(NAME, "Bedrock AgentCore Code Interpreter", read, write, _looks_like, Reader, _is_event, write_tools)
