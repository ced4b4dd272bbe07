"""Shells, and programs that call tools, in the Responses API: an item for the call, and one for what it came to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    JsonObject,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.wire.degrade import as_text, outputs_as_text
from actbox.content.wire.reading import integer_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses

from .interpreter import note_inputs, status_of
from .parts import NAME, ours

CALLS = {"shell_call": "shell", "local_shell_call": "local_shell", "program": "program"}
RESULTS = {
    "shell_call_output": "shell_call",
    "local_shell_call_output": "local_shell_call",
    "program_output": "program",
}
"""For each item that is a result: of which call."""


def read_shell_call(item: Mapping[str, Any]) -> list[Content] | None:
    """Return a call of a shell; several commands are one program, each on lines of its own."""
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


def read_local_shell_call(item: Mapping[str, Any]) -> list[Content] | None:
    """Return a call of the local shell, its words quoted as a shell wants them."""
    command = object_or_empty(item.get("action")).get("command")
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return None
    return _read_call(item, (), (code_content(shlex.join(command), "shell"),), {})


def read_program(item: Mapping[str, Any]) -> list[Content] | None:
    """Return a program in JavaScript that calls tools."""
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
            name=CALLS[item["type"]],
            status=status,
            provider_data={NAME: {**rest, **data}},
        )
    ]


def read_text_output(item: Mapping[str, Any], id_field: str, field: str) -> list[Content] | None:
    """Return a result that is one text, in `field`; `id_field` has the id of its call."""
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
            name=CALLS[RESULTS[item["type"]]],
            status=status,
            provider_data={NAME: data},
        )
    ]


def read_shell_output(item: Mapping[str, Any]) -> list[Content] | None:
    """Return what a shell printed and how it ended, all commands together."""
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


def write_call(call: CodeInterpreterCall, kind: str, losses: Losses) -> JsonObject:
    """Return the item of a call of a shell, or of a program that calls tools."""
    note_inputs(call, losses)
    data = ours(call)
    item: JsonObject = {"type": kind, "call_id": call.call_id}
    if call.status is not None or kind == "local_shell_call":
        item["status"] = call.status or "completed"
    if not data:
        return {**item, "action": {"commands": [call.code]}, "status": status_of(call, None, False)}
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
            written[number][name] = (written[number].get(name) or "") + as_text(item)
    return written


def _write_outcome(result: CodeInterpreterResult) -> JsonObject:
    if result.outcome == "timeout":
        return {"type": "timeout"}
    if result.exit_code is not None:
        return {"type": "exit", "exit_code": result.exit_code}
    return {"type": "exit", "exit_code": 1 if result.success is False else 0}
