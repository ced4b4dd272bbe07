"""The blocks of the tools with which Anthropic runs code: calls, and what they came to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    HostedFileContent,
    JsonObject,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.wire.degrade import as_text, exit_code
from actbox.content.wire.format import Json
from actbox.content.wire.program import program_and_files
from actbox.content.wire.reading import integer_or_none, kept, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses

NAME = "anthropic"
PYTHON, SHELL, EDITOR = "code_execution", "bash_code_execution", "text_editor_code_execution"
TOOLS = {PYTHON: ("code", "python"), SHELL: ("command", "shell"), EDITOR: ("", "json")}
"""For each tool, which field of its input has the program, and its language. Of the editor the whole input is it."""
RESULTS = frozenset(f"{tool}_tool_result" for tool in TOOLS)

_ENCRYPTED = "encrypted_code_execution_result"
_VIEW, _CREATE, _REPLACE = (f"{EDITOR}_{name}_result" for name in ("view", "create", "str_replace"))
_TIMEOUT = "execution_time_exceeded"


class Writing(Losses):
    """What is noted while messages are written: the losses, and with which tool each call of code was made."""

    def __init__(self) -> None:
        super().__init__()
        self.tools: dict[str, str] = {}


def read_call(block: Mapping[str, Any]) -> Content | None:
    """Return a call of code, `None` for a call of another of Anthropic's tools."""
    call_id, name, given = text_or_none(block.get("id")), text_or_none(block.get("name")), block.get("input")
    if call_id is None or name not in TOOLS or not isinstance(given, Mapping):
        return None
    rest = rest_of(block, ("type", "id", "name", "input"))
    program_field, language = TOOLS[name]
    inputs: tuple[Content, ...] = ()
    if name == EDITOR:
        inputs = (code_content(json.dumps(given, ensure_ascii=False), language),)
    else:
        known = [program_field] if isinstance(given.get(program_field), str) else []
        inputs = tuple(code_content(given[key], language) for key in known)
        if more := rest_of(given, known):
            rest["input"] = more
    return CodeInterpreterCall(call_id=call_id, inputs=inputs, name=name, provider_data=kept(NAME, rest))


def tool_of(item: CodeInterpreterCall | CodeInterpreterResult, tools: Mapping[str, str]) -> str:
    """Return which tool a call or result is of; for those of others, the shell's for shell, else Python's."""
    if item.name in TOOLS:
        return item.name
    if isinstance(item, CodeInterpreterCall):
        return SHELL if item.language == "shell" else PYTHON
    return tools.get(item.call_id, PYTHON)


def write_call(item: CodeInterpreterCall, writing: Writing) -> JsonObject:
    """Return a `server_tool_use` block."""
    ours = dict(item.provider_data.get(NAME, {}))
    ours.pop("partial_json", None)
    tool = writing.tools[item.call_id] = tool_of(item, writing.tools)
    program_field, language = TOOLS[tool]
    program, files = program_and_files(item)
    if files:
        writing.add(
            "code_interpreter_call.inputs", "files are left out: a user's message uploads them to the container"
        )
    if item.name not in (None, tool):
        writing.add("code_interpreter_call.name", f"becomes {tool}")
    if program and item.language != language:
        writing.add("code_interpreter_call.language", "left out: the tool takes Python only")
    given: Json = {}
    if tool == EDITOR:
        given = _parsed(program)
    elif item.inputs:
        given = {program_field: program}
    given |= object_or_empty(ours.pop("input", None))
    return {"type": "server_tool_use", "id": item.call_id, "name": tool, "input": given, **ours}


def _parsed(program: str) -> Any:
    try:
        given = json.loads(program)
    except ValueError:
        given = None
    return given if isinstance(given, dict) else {"command": program}


def read_result(block: Mapping[str, Any]) -> Content | None:
    """Return the result of a call of code."""
    call_id, content = text_or_none(block.get("tool_use_id")), block.get("content")
    tool = str(block.get("type")).removesuffix("_tool_result")
    if call_id is None or not isinstance(content, Mapping):
        return None
    kind = content.get("type")
    if kind in (f"{tool}_result", _ENCRYPTED):
        found = _read_run(content, tool)
    elif kind == f"{tool}_tool_result_error":
        found = _read_failure(content)
    elif kind in (_VIEW, _CREATE, _REPLACE):
        found = _read_edit(content)
    else:
        found = None
    if found is None:
        return None
    outputs, exit_code, outcome, inner = found
    if kind != f"{tool}_result":
        inner["type"] = kind
    rest = rest_of(block, ("type", "tool_use_id", "content"))
    if inner:
        rest["content"] = inner
    return CodeInterpreterResult(
        call_id=call_id,
        outputs=tuple(outputs),
        exit_code=exit_code,
        outcome=outcome,
        name=tool,
        provider_data=kept(NAME, rest),
    )


_Found = tuple[Sequence[Content], int | None, str | None, JsonObject]
"""The outputs, the exit code, the outcome, and the fields that nothing here stands for."""


def _read_run(content: Mapping[str, Any], tool: str) -> _Found | None:
    code, files = integer_or_none(content.get("return_code")), content.get("content")
    if code is None or not isinstance(files, list):
        return None
    outputs: list[Content] = [
        TextContent(text=content[stream], stream=stream)
        for stream in ("stdout", "stderr")
        if isinstance(content.get(stream), str) and content[stream]
    ]
    outputs += [_read_file(file, tool) for file in files]
    rest = rest_of(content, ("type", "stdout", "stderr", "return_code", "content"))
    return outputs, code, "ok" if code == 0 else "failed", rest


def _read_file(file: Json, tool: str) -> Content:
    if isinstance(file, Mapping) and file.get("type") == f"{tool}_output" and file.get("file_id"):
        file_id = text_or_none(file["file_id"])
        if file_id is not None:
            return HostedFileContent(file_id=file_id, provider_data=kept(NAME, rest_of(file, ("type", "file_id"))))
    return UnknownContent(format=NAME, raw=file)


def _read_failure(content: Mapping[str, Any]) -> _Found | None:
    code, message = text_or_none(content.get("error_code")), text_or_none(content.get("error_message"))
    if code is None:
        return None
    rest = rest_of(content, ("type", "error_code", *(["error_message"] if message is not None else [])))
    return [ErrorContent(message=message or code, code=code)], None, "timeout" if code == _TIMEOUT else "failed", rest


def _read_edit(content: Mapping[str, Any]) -> _Found | None:
    kind, outputs = content["type"], []
    rest = rest_of(content, ("type",))
    if kind == _VIEW and content.get("file_type") == "text" and isinstance(content.get("content"), str):
        outputs = [TextContent(text=content["content"])]
        del rest["content"]
    elif kind == _REPLACE and _are_texts(content.get("lines")):
        outputs = [TextContent(text="\n".join(content["lines"]))]
        del rest["lines"]
    return outputs, None, "ok", rest


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(line, str) for line in value)


def write_result(item: CodeInterpreterResult, writing: Writing) -> JsonObject:
    """Return a `…_tool_result` block."""
    ours = dict(item.provider_data.get(NAME, {}))
    tool = tool_of(item, writing.tools)
    inner = dict(object_or_empty(ours.pop("content", None)))
    kind = inner.pop("type", f"{tool}_result")
    content: JsonObject = {"type": kind}
    if kind in (_VIEW, _CREATE, _REPLACE):
        content |= _write_edit(item, kind)
    elif kind == f"{tool}_tool_result_error":
        content |= _write_failure(item)
    else:
        content |= _write_run(item, tool, writing)
        if kind == _ENCRYPTED:
            del content["stdout"]
    return {"type": f"{tool}_tool_result", "tool_use_id": item.call_id, "content": {**content, **inner}, **ours}


def _write_edit(item: CodeInterpreterResult, kind: str) -> JsonObject:
    if not item.outputs:
        return {}
    return {"lines": [*item.text.split("\n")]} if kind == _REPLACE else {"content": item.text}


def _write_failure(item: CodeInterpreterResult) -> JsonObject:
    errors = (output for output in item.outputs if isinstance(output, ErrorContent))
    error = next(errors, ErrorContent(message="unavailable"))
    code = error.code or "unavailable"
    message: JsonObject = {} if error.message == code else {"error_message": error.message}
    return {"error_code": code, **message}


def _write_run(item: CodeInterpreterResult, tool: str, losses: Losses) -> JsonObject:
    printed = {"stdout": "", "stderr": ""}
    files: list[Json] = []
    for output in item.outputs:
        match output:
            case UnknownContent() if output.format == NAME:
                files.append(output.raw)
            case TextContent():
                stream = output.stream or "stdout"
                if stream == "stdout" and printed["stderr"]:
                    losses.add("code_interpreter_result.outputs", "what came on stdout is put before stderr")
                printed[stream] += output.text
            case HostedFileContent():
                if output.model_copy(update={"provider_data": {}}) != HostedFileContent(file_id=output.file_id):
                    losses.add("hosted_file", "of a file that code made only the id is kept")
                ours = output.provider_data.get(NAME, {})
                files.append({"type": f"{tool}_output", "file_id": output.file_id, **ours})
            case _:
                stream = "stderr" if isinstance(output, ErrorContent) else "stdout"
                losses.add(f"code_interpreter_result.{output.type}", f"becomes text on {stream}")
                if text := as_text(output):
                    line_break = "" if printed[stream].endswith("\n") or not printed[stream] else "\n"
                    printed[stream] += f"{line_break}{text}\n"
        if output.annotations:
            losses.add(f"{output.type}.annotations", "left out")
    return {"return_code": exit_code(item, losses), **printed, "content": files}
