"""Items of the Responses API that are no messages, one by one: into content and back.

What is not written of an item is kept with what was read of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
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
    UriContent,
    arguments_from_json,
    arguments_to_json,
    as_text,
    code_content,
    outputs_as_text,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import as_it_was, difference, patched, restored, type_of
from actbox.content.wire.fields import STREAMS, printed_texts
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses, ReadBack
from actbox.content.wire.values import (
    bytes_or_none,
    from_data_uri,
    integer_or_none,
    kept,
    object_or_empty,
    rest_of,
    text_or_none,
    to_base64,
)

from .parts import NAME, ours, read_part, write_part

INTERPRETER = "code_interpreter_call"
SHELLS = {"shell_call": "shell", "local_shell_call": "local_shell", "program": "program"}
"""Items that are calls of code, and the names of their tools."""
RESULTS = {
    "shell_call_output": "shell_call",
    "local_shell_call_output": "local_shell_call",
    "program_output": "program",
}
"""For each item that is a result: of which call."""
CODE = frozenset({INTERPRETER, *SHELLS, *RESULTS})
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls of functions, and the field with their arguments."""
_STATUSES = frozenset({"in_progress", "completed", "incomplete", "interpreting", "failed"})
_OUTCOMES = {"completed": "ok", "failed": "failed", "incomplete": "incomplete"}
"""What a status that says that it is over comes to; it is all that the code interpreter says of a result."""


def read_item(item: Json) -> list[Content]:
    """Return what an item comes to that is no message; one that is not known, or not as it should be, is kept whole."""
    kind = type_of(item)
    found = _READERS[kind](item, kind) if kind in _READERS else None
    if not found:
        return [UnknownContent(format=NAME, raw=item)]
    rest = difference(item, _written(found, kind, Losses()))
    first = found[0].model_copy(update={"provider_data": {NAME: {"type": kind, **rest}}})
    return [first, *found[1:]]


def write_item(found: Sequence[Content], kind: str, losses: Losses) -> JsonObject:
    """Return the item of a call or a result: of the code interpreter, of both or of either."""
    data = {name: value for item in reversed(found) for name, value in ours(item).items() if name != "none"}
    write = partial(_written, found, kind)
    if not data:
        return write(losses)
    said = _said_program(data) if kind == INTERPRETER and not data.get("code", True) else None
    if said is not None and said != write(Losses())["code"]:
        # The program was read from `arguments` and changed since: the old one must not stand beside it.
        data = rest_of(data, ("code", "arguments"))

    def is_same(exact: JsonObject) -> bool:
        return ReadBack().is_same(tuple(read_item(exact)), tuple(found))

    item: JsonObject = as_it_was(write, data, is_same, losses)
    return item


def _written(found: Sequence[Content], kind: str, losses: Losses) -> JsonObject:
    first = found[0]
    if not isinstance(first, CodeInterpreterCall) and first.annotations:
        losses.add(f"{first.type}.annotations", "left out")
    match first:
        case FunctionCall():
            said = arguments_to_json(first.arguments)
            item: JsonObject = {"type": kind, "call_id": first.call_id, "name": first.name, CALLS[kind]: said}
            called: JsonObject = {"type": "program", "caller_id": first.called_by}
            return item if first.called_by is None else {**item, "caller": called}
        case FunctionResult():
            return _write_output(first, kind, losses)
        case CodeInterpreterResult() if kind != INTERPRETER:
            return _write_shell_result(first, kind, losses)
        case CodeInterpreterCall() if kind != INTERPRETER:
            return _write_shell(first, kind, losses)
    return _write_interpreter(found, losses)


def _read_call(item: Mapping[str, Any], kind: str) -> Sequence[Content] | None:
    call_id, name, said = (text_or_none(item.get(key)) for key in ("call_id", "name", CALLS[kind]))
    if call_id is None or name is None or said is None:
        return None
    caller = object_or_empty(item.get("caller"))
    called_by = text_or_none(caller.get("caller_id")) if caller.get("type") == "program" else None
    return [FunctionCall(call_id=call_id, name=name, arguments=arguments_from_json(said), called_by=called_by)]


def _read_output(item: Mapping[str, Any], kind: str) -> Sequence[Content] | None:
    call_id, name, output = text_or_none(item.get("call_id")), text_or_none(item.get("name")), item.get("output")
    if call_id is None or not isinstance(output, str | list):
        return None
    outputs = [TextContent(text=output)] if isinstance(output, str) else [_read_output_part(part) for part in output]
    return [FunctionResult(call_id=call_id, name=name, outputs=tuple(outputs))]


def _read_output_part(part: Json) -> Content:
    found = read_part(part, {})
    if isinstance(found, UnknownContent):
        return found
    rest = difference(part, write_part(found, False, Losses())[0])
    return found.model_copy(update={"provider_data": {NAME: {**ours(found), **({"rest": rest} if rest else {})}}})


def _write_output_part(output: Content, losses: Losses) -> list[Any]:
    rest = object_or_empty(ours(output).get("rest"))
    parts = write_part(output, False, losses)
    if not rest:
        return parts
    return [restored(part, rest, lambda exact: ReadBack().is_same(read_part(exact, {}), output)) for part in parts]


def _write_output(result: FunctionResult, kind: str, losses: Losses) -> JsonObject:
    if result.is_error and not any(isinstance(output, ErrorContent) for output in result.outputs):
        losses.add("function_result.is_error", "left out: the text alone can say so")
    parts = [part for output in result.outputs for part in _write_output_part(output, losses)]
    plain = [part["text"] for part in parts if isinstance(part, dict) and part.keys() == {"type", "text"}]
    said: Json = "".join(map(str, plain)) if len(parts) == len(plain) <= 1 else parts
    named: JsonObject = {"name": result.name} if result.name is not None and NAME in result.provider_data else {}
    return {"type": kind, "call_id": result.call_id, "output": said, **named}


# The code interpreter: a call is one item, with its outputs. Printed output is `stdout`: the logs do not say which
# stream it was. xAI gives the program in `arguments`, as of a function; `code` is then absent, or null or empty where
# OpenAI's SDK wrote the item. Early descriptions of the API have outputs `output_text` and `output_image`.


def _read_interpreter(item: Mapping[str, Any], kind: str) -> Sequence[Content] | None:
    call_id, code, outputs = item.get("id", "code"), item.get("code"), item.get("outputs")
    status = text_or_none(item.get("status"))
    if not isinstance(call_id, str) or not isinstance(code, str | None):
        return None
    if not code and (said := _said_program(item)) is not None:
        code = said
    inputs = () if code is None else (code_content(code),)
    call = CodeInterpreterCall(call_id=call_id, inputs=inputs, status=status)
    if not isinstance(outputs, list) and (outputs is not None or status not in _OUTCOMES):
        return [call]
    result = CodeInterpreterResult(
        call_id=call_id,
        outputs=read_outputs(outputs or []),
        outcome=_OUTCOMES.get(status or "", status),
        provider_data={NAME: {"type": INTERPRETER, **({} if isinstance(outputs, list) else {"none": True})}},
    )
    return [call, result]


def _said_program(item: Mapping[str, Any]) -> str | None:
    """Return the program in the arguments of an item of xAI's."""
    given = item.get("arguments")
    given = arguments_from_json(given) if isinstance(given, str) else given
    return text_or_none(object_or_empty(given).get("code"))


def read_outputs(outputs: list[Json]) -> tuple[Content, ...]:
    """Return the outputs of the code interpreter as items; pictures are named by their place."""
    items: list[Content] = []
    for number, output in enumerate(outputs):
        item = _read_shown(object_or_empty(output), number)
        if item is None:
            items.append(UnknownContent(format=NAME, raw=output))
            continue
        rest = {"type": type_of(output), **difference(object_or_empty(output), _write_shown(item, type_of(output)))}
        if rest["type"] in ("logs", "image"):
            del rest["type"]
        # Logs that follow logs are marked, so that they are two when pieces of a stream are put together.
        if isinstance(item, TextContent) and items and isinstance(items[-1], TextContent):
            rest["index"] = number
        if isinstance(item, DataContent):
            rest["named"] = item.name
        items.append(item.model_copy(update={"provider_data": kept(NAME, rest)}))
    return tuple(items)


_BEGINNINGS = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8", "image/gif": b"GIF8", "image/webp": b"RIFF"}


def _read_shown(output: Mapping[str, Any], number: int) -> TextContent | DataContent | UriContent | None:
    kind, url = output.get("type"), text_or_none(output.get("url"))
    printed = output.get("logs") if kind == "logs" else output.get("text") if kind == "output_text" else None
    if isinstance(printed, str):
        return TextContent(text=printed, stream="stdout")
    found: tuple[str, bytes] | None = None
    if kind == "output_image" and (data := bytes_or_none(output.get("image"))):
        found = next((kind for kind, begin in _BEGINNINGS.items() if data.startswith(begin)), "image/png"), data
    elif kind == "image" and url is not None:
        if not url.startswith("data:"):
            return UriContent(uri=url)
        found = from_data_uri(url)
    if found is None:
        return None
    ending = bare_media_type(found[0]).rpartition("/")[2].partition("+")[0]
    return DataContent(media_type=found[0], data=found[1], name=f"image-{number + 1}.{ending}")


def _write_shown(item: TextContent | DataContent | UriContent, kind: Json) -> JsonObject:
    """Return an output, of the kind that it was."""
    if isinstance(item, TextContent):
        return (
            {"type": "output_text", "text": item.text} if kind == "output_text" else {"type": "logs", "logs": item.text}
        )
    if isinstance(item, DataContent) and kind == "output_image":
        return {"type": kind, "image": to_base64(item.data)}
    return {"type": "image", "url": item.data_uri if isinstance(item, DataContent) else item.uri}


def _write_interpreter(found: Sequence[Content], losses: Losses) -> JsonObject:
    call = next((item for item in found if isinstance(item, CodeInterpreterCall)), None)
    result = next((item for item in found if isinstance(item, CodeInterpreterResult)), None)
    code: str | None = None
    if call is not None:
        _note_inputs(call, losses)
        program = [item for item in call.inputs if _is_program(item)]
        code = "".join(as_program(item) for item in program) if program else None
    item: JsonObject = {
        "type": INTERPRETER,
        "id": call.call_id if call is not None else result.call_id if result is not None else "",
        "code": code,
        "outputs": None if result is None else _write_outputs(result, losses),
        "status": _status_of(call, result),
        # The API wants one; what ran elsewhere was in none.
        "container_id": "",
    }
    if result is not None and result.exit_code is not None:
        losses.add("code_interpreter_result.exit_code", "left out: the status says whether it failed")
    return item


def as_program(item: Content) -> str:
    """Return the text of an input."""
    return item.text if isinstance(item, TextContent | DataContent) else ""


def _is_program(item: Content) -> bool:
    return isinstance(item, TextContent) or (isinstance(item, DataContent) and item.is_text and item.name is None)


def _status_of(call: CodeInterpreterCall | None, result: CodeInterpreterResult | None) -> str | None:
    """Return the status to write of a call: its own where this format had it or knows it, else as its result says."""
    if call is not None and (NAME in call.provider_data or call.status in _STATUSES):
        return call.status
    if result is None:
        return "in_progress"
    return "failed" if result.success is False else "completed"


def _note_inputs(call: CodeInterpreterCall, losses: Losses) -> None:
    """Note which inputs of a call are no program, and so are left out."""
    for item in call.inputs:
        if not _is_program(item):
            losses.add(f"code_interpreter_call.inputs.{item.type}", "left out: files are given with the tool")
    if call.annotations:
        losses.add("code_interpreter_call.annotations", "left out")


def _write_outputs(result: CodeInterpreterResult, losses: Losses) -> list[Any]:
    outputs: list[Any] = []
    for item in result.outputs:
        data = ours(item)
        index, named = data.pop("index", None), data.pop("named", None)
        bare = bare_media_type(getattr(item, "media_type", None) or "image/")
        if isinstance(item, UnknownContent) and item.format == NAME:
            outputs.append(item.raw)
            continue
        if isinstance(item, DataContent | UriContent) and (bare.startswith("image/") or data):
            if isinstance(item, DataContent) and item.name is not None and item.name != named:
                losses.add("data.name", "left out for pictures")
            outputs.append(patched(_write_shown(item, data.get("type")), data))
            continue
        if not isinstance(item, TextContent):
            losses.add(item.type, "becomes text in the logs")
        elif item.stream == "stderr":
            losses.add("text.stream", "left out: logs are of both streams")
        text = as_text(item)
        before = object_or_empty(outputs[-1]).get("logs") if outputs else None
        if isinstance(item, TextContent) and (index is not None or data or not isinstance(before, str)):
            outputs.append(patched(_write_shown(item, data.get("type")), data))
        elif isinstance(before, str):
            between = "" if isinstance(item, TextContent) or not before or before.endswith("\n") or not text else "\n"
            outputs[-1]["logs"] = f"{before}{between}{text}"
        elif text:
            outputs.append({"type": "logs", "logs": text})
    return outputs


# Shells, and programs that call tools: an item for the call, and one for what it came to.


def _read_shell(item: Mapping[str, Any], kind: str) -> Sequence[Content] | None:
    call_id, status, action = text_or_none(item.get("call_id")), text_or_none(item.get("status")), item.get("action")
    inputs: tuple[Content, ...] = ()
    if kind == "program":
        code = text_or_none(item.get("code"))
        inputs = () if code is None else (code_content(code, "javascript"),)
    else:
        words = object_or_empty(action).get("commands" if kind == "shell_call" else "command")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return None
        inputs = shell_inputs(words if kind == "shell_call" else [shlex.join(words)])
    if call_id is None or (kind == "program" and not inputs):
        return None
    return [CodeInterpreterCall(call_id=call_id, inputs=inputs, name=SHELLS[kind], status=status)]


def shell_inputs(commands: list[str]) -> tuple[Content, ...]:
    """Return the commands of a call of a shell as its program, each on lines of its own."""
    return (code_content("\n".join(commands), "shell"),) if commands else ()


def _write_shell(call: CodeInterpreterCall, kind: str, losses: Losses) -> JsonObject:
    _note_inputs(call, losses)
    item: JsonObject = {"type": kind, "call_id": call.call_id}
    if call.status is not None or NAME not in call.provider_data:
        item["status"] = _status_of(call, None)
    if kind == "program":
        return {**item, "code": call.code}
    is_local = kind == "local_shell_call"
    return {**item, "action": {"command": ["sh", "-c", call.code]} if is_local else {"commands": [call.code]}}


def _read_shell_result(item: Mapping[str, Any], kind: str) -> Sequence[Content] | None:
    named_by = "id" if kind == "local_shell_call_output" and "call_id" not in item else "call_id"
    call_id, status = text_or_none(item.get(named_by)), text_or_none(item.get("status"))
    output = item.get("result" if kind == "program_output" else "output")
    name = SHELLS[RESULTS[kind]]
    if call_id is None:
        return None
    if kind != "shell_call_output":
        if not isinstance(output, str):
            return None
        printed = (TextContent(text=output, stream="stdout"),)
        return [CodeInterpreterResult(call_id=call_id, outputs=printed, name=name, status=status)]
    if not isinstance(output, list):
        return None
    outputs: list[Content] = []
    outcomes: list[Mapping[str, Any]] = []
    for number, chunk in enumerate(output):
        if all(isinstance(object_or_empty(chunk).get(stream), str) for stream in STREAMS):
            outputs += shell_texts(chunk, number)
            outcomes.append(object_or_empty(chunk.get("outcome")))
        else:
            outputs.append(UnknownContent(format=NAME, raw=chunk, provider_data={NAME: {"chunk": number}}))
    code, outcome = _outcome_of(outcomes)
    result = CodeInterpreterResult(
        call_id=call_id, outputs=tuple(outputs), exit_code=code, outcome=outcome, name=name, status=status
    )
    return [result]


def shell_texts(said: Mapping[str, Any], number: int) -> list[Content]:
    """Return what a command printed; `number` is its place, which keeps apart what several printed."""
    data = kept(NAME, {"chunk": number} if number else {})
    return [text.model_copy(update={"provider_data": data}) for text in printed_texts(said)]


def _outcome_of(outcomes: list[Mapping[str, Any]]) -> tuple[int | None, str | None]:
    """Return the exit code and outcome of all commands: the first code that is not 0, else 0; a timeout before all."""
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


def _write_shell_result(result: CodeInterpreterResult, kind: str, losses: Losses) -> JsonObject:
    item: JsonObject = {"type": kind, "call_id": result.call_id}
    if result.status is not None:
        item["status"] = result.status
    if kind == "shell_call_output":
        return {**item, "output": _write_chunks(result, losses)}
    if result.exit_code is not None:
        losses.add("code_interpreter_result.exit_code", "left out: there is one text only")
    for output in result.outputs:
        if not isinstance(output, TextContent):
            losses.add(output.type, "becomes text")
        elif output.stream == "stderr":
            losses.add("text.stream", "left out: all output is alike")
    if kind == "local_shell_call_output":
        return {**rest_of(item, ("call_id",)), "id": result.call_id, "output": outputs_as_text(result.outputs)}
    made: JsonObject = {} if NAME in result.provider_data else {"id": f"{result.call_id}_output", "status": "completed"}
    return {**item, "result": outputs_as_text(result.outputs), **made}


def _write_chunks(result: CodeInterpreterResult, losses: Losses) -> list[Any]:
    """Return what each command printed and came to; what has no place of its own is of the first."""
    places = [place if isinstance(place := ours(item).get("chunk", 0), int) else 0 for item in result.outputs]
    outcome: JsonObject = {"type": "exit", "exit_code": 1 if result.success is False else 0}
    if result.outcome == "timeout":
        outcome = {"type": "timeout"}
    elif result.exit_code is not None:
        outcome["exit_code"] = result.exit_code
    written: list[Any] = [{"stdout": "", "stderr": "", "outcome": outcome} for _ in range(max([0, *places]) + 1)]
    for place, item in zip(places, result.outputs, strict=True):
        if isinstance(item, UnknownContent) and item.format == NAME:
            written[place] = item.raw
            continue
        if not isinstance(item, TextContent):
            losses.add(item.type, "becomes text")
        stream = item.stream if isinstance(item, TextContent) else None
        name = stream or ("stderr" if isinstance(item, ErrorContent) else "stdout")
        if isinstance(written[place], dict):
            written[place] = {**written[place], name: (written[place].get(name) or "") + as_text(item)}
    return written


_READERS: dict[str, Callable[[Mapping[str, Any], str], Sequence[Content] | None]] = {
    INTERPRETER: _read_interpreter,
    **dict.fromkeys(SHELLS, _read_shell),
    **dict.fromkeys(RESULTS, _read_shell_result),
    **dict.fromkeys(CALLS, _read_call),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), _read_output),
}
"""The function that reads each kind of item. It returns `None` for an item that is not as it should be."""
