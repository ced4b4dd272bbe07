"""Amazon Nova's tool that runs Python, `nova_code_interpreter`: its calls and results.

https://docs.aws.amazon.com/nova/latest/userguide/tool-built-in.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    JsonObject,
    TextContent,
    code_content,
)
from actbox.content.wire.degrade import as_text, exit_code
from actbox.content.wire.format import Json
from actbox.content.wire.program import program_and_files
from actbox.content.wire.reading import integer_or_none, kept, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses

NAME = "bedrock-converse"
TOOL = "nova_code_interpreter"
RESULT = f"{TOOL}_result"
_PROGRAM_FIELDS = ("code", "snippet")


def is_code_call(block: Mapping[str, Any]) -> bool:
    """Return whether a `toolUse` runs code."""
    return block.get("name") == TOOL and block.get("type") == "server_tool_use"


def is_code_result(block: Mapping[str, Any]) -> bool:
    """Return whether a `toolResult` is of a run of code."""
    return block.get("type") == RESULT


def read_call(block: Mapping[str, Any]) -> Content | None:
    """Return the call of a `toolUse`. Its program is in `code`, or in `snippet`."""
    call_id, given = text_or_none(block.get("toolUseId")), block.get("input")
    if call_id is None or not isinstance(given, Mapping):
        return None
    rest = rest_of(block, ("toolUseId", "name", "type", "input"))
    found = next((name for name in _PROGRAM_FIELDS if isinstance(given.get(name), str)), None)
    if found == _PROGRAM_FIELDS[1]:
        rest["field"] = found
    if more := rest_of(given, (found,) if found else ()):
        rest["input"] = more
    inputs = (code_content(given[found]),) if found else ()
    return CodeInterpreterCall(call_id=call_id, inputs=inputs, name=TOOL, provider_data=kept(NAME, rest))


def write_call(item: CodeInterpreterCall, losses: Losses) -> JsonObject:
    """Return a `toolUse` block."""
    ours = dict(item.provider_data.get(NAME, {}))
    program, files = program_and_files(item)
    if files:
        losses.add("code_interpreter_call.inputs", "files are left out")
    if item.name not in (None, TOOL):
        losses.add("code_interpreter_call.name", f"becomes {TOOL}")
    if program and item.language != "python":
        losses.add("code_interpreter_call.language", "left out: the tool takes Python only")
    given: JsonObject = {str(ours.pop("field", _PROGRAM_FIELDS[0])): program} if item.inputs else {}
    given |= object_or_empty(ours.pop("input", None))
    use: JsonObject = {"toolUseId": item.call_id, "name": TOOL, "type": "server_tool_use", "input": given}
    return {"toolUse": {**use, **ours}}


def read_result(block: Mapping[str, Any]) -> Content | None:
    """Return the result of a `toolResult`: one block of JSON, or text that is JSON."""
    call_id, content = text_or_none(block.get("toolUseId")), block.get("content")
    if call_id is None or not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], Mapping):
        return None
    form = "json" if "json" in content[0] else "text"
    said = content[0].get(form)
    if form == "text":
        said = _parsed(said)
    code = integer_or_none(object_or_empty(said).get("exitCode"))
    if not isinstance(said, Mapping) or code is None:
        return None
    outputs = tuple(
        TextContent(text=said[field], stream=stream)
        for field, stream in _STREAMS
        if isinstance(said.get(field), str) and said[field]
    )
    known = ["exitCode", *(field for field, _ in _STREAMS if isinstance(said.get(field), str))]
    rest = rest_of(block, ("toolUseId", "type", "content"))
    rest["said"] = rest_of(said, known)
    if form == "text":
        rest["content"] = content[0]["text"]
    return CodeInterpreterResult(
        call_id=call_id,
        outputs=outputs,
        exit_code=code,
        outcome="ok" if code == 0 else "failed",
        name=TOOL,
        provider_data=kept(NAME, rest),
    )


_STREAMS: tuple[tuple[str, Literal["stdout", "stderr"]], ...] = (("stdOut", "stdout"), ("stdErr", "stderr"))


def _parsed(text: Any) -> Json:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def write_result(item: CodeInterpreterResult, losses: Losses) -> JsonObject:
    """Return a `toolResult` block, with the JSON as text where it was read so and says the same."""
    ours = dict(item.provider_data.get(NAME, {}))
    printed = {"stdOut": "", "stdErr": ""}
    for output in item.outputs:
        if isinstance(output, TextContent):
            field, text = "stdErr" if output.stream == "stderr" else "stdOut", output.text
        else:
            field, text = "stdErr" if isinstance(output, ErrorContent) else "stdOut", as_text(output)
            losses.add(f"code_interpreter_result.{output.type}", f"becomes text on {field.lower()}")
            text = f"{'' if printed[field].endswith(chr(10)) or not printed[field] else chr(10)}{text}\n"
        if field == "stdOut" and printed["stdErr"]:
            losses.add("code_interpreter_result.outputs", "what came on stdout is put before stderr")
        printed[field] += text
        if output.annotations:
            losses.add(f"{output.type}.annotations", "left out")
    code = exit_code(item, losses)
    more = ours.pop("said", None)
    said: JsonObject = {**printed, "exitCode": code}
    said |= more if isinstance(more, dict) else {"isError": code != 0}
    as_it_was = ours.pop("content", None)
    content: Json = {"json": said}
    if _parsed(as_it_was) == said:
        content = {"text": as_it_was}
    status: JsonObject = {} if isinstance(more, dict) else {"status": "success" if code == 0 else "error"}
    return {"toolResult": {"toolUseId": item.call_id, "type": RESULT, "content": [content], **status, **ours}}
