"""Programs and their results in the Responses API: the code interpreter, shells, and programs that call tools.

A call of the code interpreter is one item with its outputs; the others have an item for the call and one for what it
came to. Printed output is `stdout`: the code interpreter's logs do not say which stream it was.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    JsonObject,
    TextContent,
    UnknownContent,
    UriContent,
    code_content,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.degrade import as_text, outputs_as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import integer_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses

from .parts import NAME, from_data_uri, ours

INTERPRETER = "code_interpreter_call"
STATUSES = frozenset({"in_progress", "completed", "incomplete", "interpreting", "failed"})
_OUTCOMES = {"completed": "ok", "failed": "failed", "incomplete": "incomplete"}
"""What a status that says that it is over comes to; it is all that the code interpreter says of a result."""
_CALLS = {"shell_call": "shell", "local_shell_call": "local_shell", "program": "program"}
RESULTS = {
    "shell_call_output": "shell_call",
    "local_shell_call_output": "local_shell_call",
    "program_output": "program",
}
"""For each item that is a result: of which call."""
KINDS = frozenset({INTERPRETER, *_CALLS, *RESULTS})


def read_code(item: Mapping[str, Any]) -> list[Content] | None:
    """Return what an item of one of `KINDS` comes to; `None` where it is not as it should be."""
    match item.get("type"):
        case "code_interpreter_call":
            return _read_interpreter(item)
        case "shell_call":
            return _read_shell_call(item)
        case "local_shell_call":
            return _read_local_shell_call(item)
        case "program":
            return _read_program(item)
        case "shell_call_output":
            return _read_shell_output(item)
        case "local_shell_call_output":
            return _read_text_output(item, "id" if "call_id" not in item else "call_id", "output")
        case "program_output":
            return _read_text_output(item, "call_id", "result")
    return None


def _read_interpreter(item: Mapping[str, Any]) -> list[Content] | None:
    call_id, code, outputs = text_or_none(item.get("id")), item.get("code"), item.get("outputs")
    status = text_or_none(item.get("status"))
    if call_id is None or not (code is None or isinstance(code, str)):
        return None
    known = ["id", "code"]
    known += ["status"] if status is not None else []
    known += ["outputs"] if outputs is None or isinstance(outputs, list) else []
    data = rest_of(item, known)
    absent: list[Any] = [name for name in ("code", "outputs", "status") if name not in item]
    if absent:
        data["absent"] = absent
    call = CodeInterpreterCall(
        call_id=call_id,
        inputs=() if code is None else (code_content(code),),
        status=status,
        provider_data={NAME: data},
    )
    if not isinstance(outputs, list) and (outputs is not None or status not in _OUTCOMES):
        return [call]
    result = CodeInterpreterResult(
        call_id=call_id,
        outputs=read_outputs(outputs or []),
        outcome=_OUTCOMES.get(status or "", status),
        provider_data={NAME: {"type": INTERPRETER, **({} if isinstance(outputs, list) else {"none": True})}},
    )
    return [call, result]


def read_outputs(outputs: list[Json]) -> tuple[Content, ...]:
    """Return the outputs of the code interpreter as items; pictures are named by their place."""
    items: list[Content] = []
    for number, output in enumerate(outputs):
        # Logs that follow logs are marked, so that they are two when pieces of a stream are put together.
        follows = bool(items) and isinstance(items[-1], TextContent)
        items.append(_read_output(output, number, follows) or UnknownContent(format=NAME, raw=output))
    return tuple(items)


def _read_output(output: Json, number: int, follows: bool) -> Content | None:
    if not isinstance(output, Mapping):
        return None
    logs, url = text_or_none(output.get("logs")), text_or_none(output.get("url"))
    if output.get("type") == "logs" and logs is not None:
        data: JsonObject = rest_of(output, ("type", "logs"))
        if follows:
            data["index"] = number
        return TextContent(text=logs, stream="stdout", provider_data=kept(NAME, data))
    if output.get("type") != "image" or url is None:
        return None
    data = rest_of(output, ("url",))
    if not url.startswith("data:"):
        return UriContent(uri=url, provider_data={NAME: data})
    found = from_data_uri(url)
    if found is None:
        return None
    ending = bare_media_type(found[0]).rpartition("/")[2].partition("+")[0]
    name = f"image-{number + 1}.{ending}"
    return DataContent(media_type=found[0], data=found[1], name=name, provider_data={NAME: {**data, "named": name}})


def _read_shell_call(item: Mapping[str, Any]) -> list[Content] | None:
    action = object_or_empty(item.get("action"))
    commands = action.get("commands")
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        return None
    data: JsonObject = {"action": rest_of(action, ("commands",))}
    if len(commands) != 1:
        data["commands"] = commands
    return _read_call(item, ("action",), shell_inputs(commands), data)


def shell_inputs(commands: list[str]) -> tuple[Content, ...]:
    """Return the commands of a call of a shell as its program, one after the other."""
    return (code_content("\n".join(commands), "shell"),) if commands else ()


def _read_local_shell_call(item: Mapping[str, Any]) -> list[Content] | None:
    command = object_or_empty(item.get("action")).get("command")
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return None
    return _read_call(item, (), (code_content(shlex.join(command), "shell"),), {})


def _read_program(item: Mapping[str, Any]) -> list[Content] | None:
    code = text_or_none(item.get("code"))
    return None if code is None else _read_call(item, ("code",), (code_content(code, "javascript"),), {})


def _read_call(
    item: Mapping[str, Any], known: tuple[str, ...], inputs: tuple[Content, ...], data: JsonObject
) -> list[Content] | None:
    call_id, status = text_or_none(item.get("call_id")), text_or_none(item.get("status"))
    if call_id is None:
        return None
    rest = rest_of(item, ("call_id", *known, *(("status",) if status is not None else ())))
    return [
        CodeInterpreterCall(
            call_id=call_id,
            inputs=inputs,
            name=_CALLS[item["type"]],
            status=status,
            provider_data={NAME: {**rest, **data}},
        )
    ]


def _read_text_output(item: Mapping[str, Any], id_field: str, field: str) -> list[Content] | None:
    call_id, text, status = (text_or_none(item.get(name)) for name in (id_field, field, "status"))
    if call_id is None or text is None:
        return None
    data = rest_of(item, (id_field, field, *(("status",) if status is not None else ())))
    if id_field == "id":
        data["named_by"] = "id"
    return [
        CodeInterpreterResult(
            call_id=call_id,
            outputs=(TextContent(text=text, stream="stdout"),),
            name=_CALLS[RESULTS[item["type"]]],
            status=status,
            provider_data={NAME: data},
        )
    ]


def _read_shell_output(item: Mapping[str, Any]) -> list[Content] | None:
    call_id, status, output = text_or_none(item.get("call_id")), text_or_none(item.get("status")), item.get("output")
    if call_id is None or not isinstance(output, list):
        return None
    outputs: list[Content] = []
    chunks: list[Any] = []
    for number, chunk in enumerate(output):
        rest = rest_of(chunk, ("stdout", "stderr")) if isinstance(chunk, Mapping) else {}
        texts = {name: chunk.get(name) for name in ("stdout", "stderr")} if isinstance(chunk, Mapping) else {}
        if not texts or not all(isinstance(text, str) for text in texts.values()):
            outputs.append(UnknownContent(format=NAME, raw=chunk, provider_data={NAME: {"chunk": number}}))
            chunks.append(None)
            continue
        outputs += shell_texts(texts, number)
        chunks.append(rest)
    exit_code, outcome = _outcome_of(chunks)
    return [
        CodeInterpreterResult(
            call_id=call_id,
            outputs=tuple(outputs),
            exit_code=exit_code,
            outcome=outcome,
            name="shell",
            status=status,
            provider_data={
                NAME: {
                    **rest_of(item, ("call_id", "output", *(("status",) if status is not None else ()))),
                    "chunks": chunks,
                }
            },
        )
    ]


def shell_texts(said: Mapping[str, Any], number: int) -> list[Content]:
    """Return what a command printed; `number` is its place, which keeps apart what several printed."""
    data = kept(NAME, {"chunk": number} if number else {})
    stdout, stderr = text_or_none(said.get("stdout")), text_or_none(said.get("stderr"))
    items: list[Content] = []
    if stdout:
        items.append(TextContent(text=stdout, stream="stdout", provider_data=data))
    if stderr:
        items.append(TextContent(text=stderr, stream="stderr", provider_data=data))
    return items


def _outcome_of(chunks: list[Any]) -> tuple[int | None, str | None]:
    """Return exit code and outcome of all commands: the first that is not 0, else 0; a timeout before all."""
    outcomes = [object_or_empty(object_or_empty(chunk).get("outcome")) for chunk in chunks]
    kinds = [text_or_none(outcome.get("type")) for outcome in outcomes]
    codes = [integer_or_none(outcome.get("exit_code")) for outcome in outcomes]
    if "timeout" in kinds:
        return None, "timeout"
    strange = next((kind for kind in kinds if kind not in (None, "exit")), None)
    known = [code for code in codes if code is not None]
    if strange is not None or not known:
        return None, strange
    exit_code = next((code for code in known if code != 0), 0)
    return exit_code, "ok" if exit_code == 0 else "failed"


def kind_of_call(call: CodeInterpreterCall) -> str:
    """Return the type of item that a call becomes; "" where none runs its language."""
    kind = ours(call).get("type")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    return {"python": INTERPRETER, "shell": "shell_call"}.get(call.language, "")


def kind_of_result(result: CodeInterpreterResult) -> str:
    """Return the type of item of the call whose result this is, where that call is not there to ask."""
    kind = str(ours(result).get("type"))
    return RESULTS.get(kind, INTERPRETER)


def write_interpreter(
    call: CodeInterpreterCall | None, result: CodeInterpreterResult | None, losses: Losses
) -> JsonObject:
    """Return the one item of a call of the code interpreter and its result, of which one may not be there."""
    data = ours(call) if call is not None else {}
    absent = data.pop("absent", [])
    code: str | None = None
    if call is not None and any(_is_program(item) for item in call.inputs):
        code = "".join(_program_of(item) for item in call.inputs)
    item: JsonObject = {
        "type": INTERPRETER,
        "id": call.call_id if call is not None else result.call_id if result is not None else "",
        "code": code,
        "outputs": None,
        "status": _status(call, result, bool(data)),
    }
    if call is not None:
        _note_inputs(call, losses)
    if not data:
        # The API wants one; what ran elsewhere was in none.
        item["container_id"] = ""
    if result is not None:
        of_result = ours(result)
        if of_result.get("type") != INTERPRETER and result.exit_code is not None:
            losses.add("code_interpreter_result.exit_code", "left out: the status says whether it failed")
        if not (of_result.get("none") and not result.outputs):
            item["outputs"] = _write_outputs(result, losses)
    item |= data
    for name in absent if isinstance(absent, list) else []:
        if item.get(str(name)) is None:
            item.pop(str(name), None)
    return item


def _program_of(item: Content) -> str:
    return item.text if isinstance(item, TextContent | DataContent) and _is_program(item) else ""


def _is_program(item: Content) -> bool:
    return isinstance(item, TextContent) or (isinstance(item, DataContent) and item.is_text and item.name is None)


def _status(call: CodeInterpreterCall | None, result: CodeInterpreterResult | None, own: bool) -> str | None:
    if call is not None and (own or call.status in STATUSES):
        return call.status
    if result is None:
        return "in_progress"
    return "failed" if result.success is False else "completed"


def _note_inputs(call: CodeInterpreterCall, losses: Losses) -> None:
    for item in call.inputs:
        if not _is_program(item):
            losses.add(f"code_interpreter_call.inputs.{item.type}", "left out: files are given with the tool")
    if call.annotations:
        losses.add("code_interpreter_call.annotations", "left out")


def _write_outputs(result: CodeInterpreterResult, losses: Losses) -> list[Any]:
    outputs: list[Any] = []
    joins = False
    for item in result.outputs:
        data = ours(item)
        index = data.pop("index", None)
        named = data.pop("named", None)
        match item:
            case UnknownContent() if item.format == NAME:
                outputs.append(item.raw)
                joins = False
                continue
            case DataContent() if bare_media_type(item.media_type).startswith("image/"):
                if item.name is not None and item.name != named:
                    losses.add("data.name", "left out for pictures")
                outputs.append({"type": "image", "url": item.data_uri, **data})
                joins = False
                continue
            case UriContent() if data or bare_media_type(item.media_type or "image/").startswith("image/"):
                outputs.append({"type": "image", "url": item.uri, **data})
                joins = False
                continue
            case TextContent():
                if item.stream == "stderr":
                    losses.add("text.stream", "left out: logs are of both streams")
            case _:
                losses.add(item.type, "becomes text in the logs")
        text = item.text if isinstance(item, TextContent) else as_text(item)
        if not text and not isinstance(item, TextContent):
            continue
        if joins and index is None:
            before = outputs[-1]["logs"]
            between = "" if isinstance(item, TextContent) or not before or before.endswith("\n") else "\n"
            outputs[-1]["logs"] = f"{before}{between}{text}"
        else:
            outputs.append({"type": "logs", "logs": text, **data})
            joins = True
    return outputs


def write_call(call: CodeInterpreterCall, kind: str, losses: Losses) -> JsonObject:
    """Return the item of a call of a shell, or of a program that calls tools."""
    _note_inputs(call, losses)
    data = ours(call)
    item: JsonObject = {"type": kind, "call_id": call.call_id}
    if call.status is not None or kind == "local_shell_call":
        item["status"] = call.status or "completed"
    if not data:
        return {**item, "action": {"commands": [call.code]}, "status": _status(call, None, False)}
    if kind == "program":
        item["code"] = call.code
    elif kind == "shell_call":
        commands = data.pop("commands", None)
        same = isinstance(commands, list) and "\n".join(str(command) for command in commands) == call.code
        action = data.pop("action", None)
        rest = action if isinstance(action, dict) else {}
        item["action"] = {**rest, "commands": commands if same else [call.code]}
    else:
        action = data.get("action")
        command = action.get("command") if isinstance(action, dict) else None
        words = [str(word) for word in command] if isinstance(command, list) else []
        if isinstance(action, dict) and shlex.join(words) != call.code:
            data["action"] = {**action, "command": ["sh", "-c", call.code]}
    return {**item, **data}


def write_result(result: CodeInterpreterResult, kind: str, losses: Losses) -> JsonObject:
    """Return the item of what a call of a shell came to, or a program that calls tools; `kind` is that of the call."""
    data = ours(result)
    if str(data.get("type")) not in RESULTS:
        data = {}
    item: JsonObject = {"type": f"{kind}_output", "call_id": result.call_id}
    if result.status is not None:
        item["status"] = result.status
    if result.annotations:
        losses.add("code_interpreter_result.annotations", "left out")
    if kind == "shell_call":
        chunks = data.pop("chunks", None)
        item["output"] = _write_chunks(result, list_or_empty(chunks), losses)
        return {**item, **data}
    if kind == "local_shell_call" and (not data or data.pop("named_by", None) == "id"):
        item["id"] = item.pop("call_id")
    if result.exit_code is not None:
        losses.add("code_interpreter_result.exit_code", "left out: there is one text only")
    for output in result.outputs:
        if not isinstance(output, TextContent):
            losses.add(output.type, "becomes text")
        elif output.stream == "stderr":
            losses.add("text.stream", "left out: all output is alike")
    item["result" if kind == "program" else "output"] = outputs_as_text(result.outputs)
    if kind == "program" and not data:
        item |= {"id": f"{result.call_id}_output", "status": "completed"}
    return {**item, **data}


def _write_chunks(result: CodeInterpreterResult, chunks: list[Any], losses: Losses) -> list[Any]:
    """Return what each command printed and came to; what has no place of its own is of the first."""
    count = max(len(chunks), 1 if result.outputs or not chunks else 0)
    if not result.outputs and not chunks and result.outcome is None and result.exit_code is None and ours(result):
        count = 0
    written: list[Any] = [{"stdout": "", "stderr": "", "outcome": _write_outcome(result)} for _ in range(count)]
    for number, chunk in enumerate(chunks):
        if isinstance(chunk, dict):
            written[number] = {"stdout": "", "stderr": "", **chunk}
    for item in result.outputs:
        place = ours(item).get("chunk", 0)
        number = place if isinstance(place, int) and 0 <= place < count else 0
        if isinstance(item, UnknownContent) and item.format == NAME:
            written[number] = item.raw
            continue
        if not isinstance(item, TextContent):
            losses.add(item.type, "becomes text")
        stream = item.stream if isinstance(item, TextContent) else None
        name = stream or ("stderr" if isinstance(item, ErrorContent) else "stdout")
        if isinstance(written[number], dict):
            written[number][name] += as_text(item)
    return written


def _write_outcome(result: CodeInterpreterResult) -> JsonObject:
    if result.outcome == "timeout":
        return {"type": "timeout"}
    if result.exit_code is not None:
        return {"type": "exit", "exit_code": result.exit_code}
    return {"type": "exit", "exit_code": 1 if result.success is False else 0}
