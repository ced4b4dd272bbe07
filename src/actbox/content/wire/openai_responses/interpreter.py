"""The code interpreter of the Responses API: a call is one item, with its outputs.

Printed output is `stdout`: the logs do not say which stream it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    JsonObject,
    TextContent,
    UnknownContent,
    UriContent,
    code_content,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import kept, rest_of, text_or_none
from actbox.content.wire.written import Losses

from .parts import NAME, from_data_uri, ours

INTERPRETER = "code_interpreter_call"
STATUSES = frozenset({"in_progress", "completed", "incomplete", "interpreting", "failed"})
_OUTCOMES = {"completed": "ok", "failed": "failed", "incomplete": "incomplete"}
"""What a status that says that it is over comes to; it is all that the code interpreter says of a result."""


def read_interpreter(item: Mapping[str, Any]) -> list[Content] | None:
    """Return a call of the code interpreter and its result, if it is over; `None` where it is not as it should be."""
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
        "status": status_of(call, result, bool(data)),
    }
    if call is not None:
        note_inputs(call, losses)
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


def status_of(call: CodeInterpreterCall | None, result: CodeInterpreterResult | None, own: bool) -> str | None:
    """Return the status to write of a call: its own where this format had it or knows it, else as its result says."""
    if call is not None and (own or call.status in STATUSES):
        return call.status
    if result is None:
        return "in_progress"
    return "failed" if result.success is False else "completed"


def note_inputs(call: CodeInterpreterCall, losses: Losses) -> None:
    """Note which inputs of a call are no program, and so are left out."""
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
