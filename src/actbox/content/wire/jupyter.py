"""Jupyter notebooks (nbformat 4): a call of code and its result as a cell with its outputs; text as Markdown.

https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionResult,
    JsonObject,
    TextContent,
    UnknownContent,
    as_text,
    code_content,
)
from actbox.content.media import bare_media_type, is_text
from actbox.content.messages import Message

from .blocks import At, Blocks, Kind
from .fields import STREAMS
from .format import Format, Json
from .losses import Losses, Written
from .turns import scored
from .values import bytes_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none

NAME = "jupyter"
_CELL = ("cell_type", "source", "outputs")


def read(document: Json) -> list[Message]:
    """Return one message for each cell of a notebook, a list of cells, or a cell.

    A cell of code is a call and, where it has outputs, a result; Markdown is text that the user wrote. What a notebook
    says beside its cells is kept with the first message. Raises `ValueError` for what is neither.
    """
    about: JsonObject = {}
    if isinstance(document, Mapping) and isinstance(document.get("cells"), list):
        cells = document["cells"]
        language, about = _language_of(document), rest_of(document, ("cells",))
    elif isinstance(document, Mapping):
        cells, language = [document], "python"
    else:
        cells, language = list_or_empty(document), "python"
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, Mapping) or "cell_type" not in cell:
            raise ValueError(f"cell {number} is no cell of a notebook: it has no cell_type")
    messages = [_read_cell(cell, f"cell-{number}", language) for number, cell in enumerate(cells, 1)]
    if about and messages:
        messages[0] = messages[0].model_copy(update={"provider_data": {NAME: {"notebook": about}}})
    return messages


def _language_of(notebook: Mapping[str, Any]) -> str:
    metadata = object_or_empty(notebook.get("metadata"))
    info, kernel = object_or_empty(metadata.get("language_info")), object_or_empty(metadata.get("kernelspec"))
    return text_or_none(info.get("name")) or text_or_none(kernel.get("language")) or "python"


def _read_cell(cell: Mapping[str, Any], call_id: str, language: str) -> Message:
    source = _joined(cell.get("source"))
    if source is None:
        return Message(role="user", contents=(UnknownContent(format=NAME, raw=dict(cell)),))
    rest = rest_of(cell, _CELL)
    if cell["cell_type"] != "code":
        if cell["cell_type"] != "markdown":
            rest["cell_type"] = cell["cell_type"]
        return Message(role="user", contents=(TextContent(text=source, provider_data=kept(NAME, rest)),))
    own = object_or_empty(object_or_empty(cell.get("metadata")).get("vscode")).get("languageId")
    language = text_or_none(own) or language
    call = CodeInterpreterCall(
        call_id=call_id, inputs=(code_content(source, language),), provider_data=kept(NAME, rest)
    )
    outputs = list_or_empty(cell.get("outputs"))
    if not outputs:
        return Message(contents=(call,))
    read_outputs = tuple(item for output in outputs for item in _read_output(output))
    failed = any(isinstance(item, ErrorContent) for item in read_outputs)
    result = CodeInterpreterResult(call_id=call_id, outputs=read_outputs, outcome="failed" if failed else "ok")
    return Message(contents=(call, result))


def _read_output(output: Json) -> list[Content]:
    """Return the items of an output: one, or one for each form of a value that is shown."""
    kind, whole = _kind_of(output), output
    if kind in ("execute_result", "display_data"):
        return _read_bundle(output) or [UnknownContent(format=NAME, raw=output)]
    if kind == "stream" and (text := _joined(output.get("text"))) is not None:
        whole = {**output, "text": text}
    found = _OUTPUTS.read_one(whole)
    return [UnknownContent(format=NAME, raw=output) if isinstance(found, UnknownContent) else found]


def _kind_of(output: Json) -> str:
    return str(object_or_empty(output).get("output_type"))


def _read_error(output: Mapping[str, Any]) -> ErrorContent | None:
    name, value, lines = text_or_none(output.get("ename")), text_or_none(output.get("evalue")), output.get("traceback")
    if name is None or value is None or not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return None
    return ErrorContent(message=f"{name}: {value}", code=name, details="\n".join(lines))


def _write_error(item: ErrorContent, losses: Losses) -> JsonObject:
    name = item.code or "Error"
    details: list[Json] = [*item.details.split("\n")] if item.details else []
    said = item.message.removeprefix(f"{name}: ")
    return {"output_type": "error", "ename": name, "evalue": said, "traceback": details}


_STREAM = At("name", "stream", lambda name: STREAMS.get(str(name)), lambda stream: stream or "stdout")
_OUTPUTS = Blocks(
    NAME,
    (
        Kind("stream", TextContent, (At("text", "text"), _STREAM)),
        Kind("error", ErrorContent, read=_read_error, write=_write_error),
    ),
    _kind_of,
    typed="output_type",
    own=("actbox:evalue", "actbox:lines"),
)
"""The outputs of code that are one item each. Earlier versions kept the `own` names with an error."""


def _read_bundle(output: Mapping[str, Any]) -> list[Content]:
    """Return one item for each form of a value that is shown; all are marked as of the same output."""
    forms = output.get("data")
    if not isinstance(forms, Mapping):
        return []
    rest = rest_of(output, ("data",))
    if not forms:
        return [DataContent(media_type="text/plain", data=b"", provider_data={NAME: {"bundle": rest, "empty": True}})]
    found: list[Content] = []
    for place, (media_type, form) in enumerate(forms.items()):
        mark: JsonObject = {"bundle": rest} if place == 0 else {"form": place}
        text = _joined(form)
        if text is not None and _is_binary(media_type):
            data = bytes_or_none(text.replace("\n", ""))
            if data is None or base64.b64encode(data).decode() != text:
                mark["as_it_was"] = form
        elif text is not None:
            data = text.encode("utf-8", "surrogatepass")
        else:
            data, mark["as_it_was"] = json.dumps(form).encode(), form
        name = object_or_empty(output.get("metadata")).get("name")
        found.append(
            DataContent(
                media_type=media_type,
                data=data or b"",
                name=name if isinstance(name, str) else None,
                provider_data={NAME: mark},
            )
        )
    return found


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return the cells of a notebook: one for each call of code, with its outputs, and Markdown for what was said."""
    losses = Losses()
    if _about(messages) != _NEW:
        losses.add("notebook.metadata", "left out: it is no part of the cells; `notebook(cells, messages)` has it")
    results: dict[str, list[Content]] = {}
    called = {
        item.call_id for message in messages for item in message.contents if isinstance(item, CodeInterpreterCall)
    }
    for message in messages:
        for item in message.contents:
            if isinstance(item, CodeInterpreterResult):
                results.setdefault(item.call_id, []).extend(_outputs_of(item, losses))
    cells: list[Json] = []
    for message in messages:
        for item in message.contents:
            if isinstance(item, CodeInterpreterResult) and item.call_id in called:
                continue
            cell = _write_item(item, results, losses)
            if cell is not None:
                cells.append(
                    cell if "id" in cell or not isinstance(cell.get("source"), str) else _with_id(cell, len(cells))
                )
    return losses.written(cells)


def _write_item(item: Content, results: dict[str, list[Content]], losses: Losses) -> JsonObject | None:
    ours = item.provider_data.get(NAME, {})
    match item:
        case UnknownContent() if item.format == NAME and isinstance(item.raw, dict):
            return item.raw
        case CodeInterpreterCall():
            files = [other for other in item.inputs if not (isinstance(other, TextContent | DataContent))]
            if files:
                losses.add("code_interpreter_call.inputs", "files are left out")
            cell = _code_cell(item.code, results.pop(item.call_id, []), ours, losses)
            if not item.call_id.startswith("cell-"):
                losses.add("code_interpreter_call.call_id", "left out: a cell is known by its place")
            if item.language != "python" and "metadata" not in ours:
                cell["metadata"] = {"vscode": {"languageId": item.language}}
            return cell
        case CodeInterpreterResult():
            losses.add("code_interpreter_result", "without its call it becomes a cell without code")
            return _code_cell("", results.pop(item.call_id, []), ours, losses)
        case TextContent():
            return {"cell_type": "markdown", "metadata": {}, "source": item.text, **ours}
        case _:
            text = as_text(item)
            losses.add(item.type, "becomes Markdown" if text else "left out: there is no place for it")
            if isinstance(item, FunctionResult) and not text:
                return None
            return {"cell_type": "markdown", "metadata": {}, "source": text} if text else None


def _outputs_of(result: CodeInterpreterResult, losses: Losses) -> list[Content]:
    """Return a result's outputs, with an error where only its exit code or outcome says that it failed."""
    if result.exit_code is not None:
        losses.add("code_interpreter_result.exit_code", "left out")
    if result.success is not False or any(isinstance(item, ErrorContent) for item in result.outputs):
        return list(result.outputs)
    how = result.outcome if result.exit_code is None else f"exit code {result.exit_code}"
    losses.add("code_interpreter_result.outcome", "becomes an error output")
    return [*result.outputs, ErrorContent(message=f"Failed: {how}", code="Failed")]


def _code_cell(code: str, outputs: Iterable[Content], ours: JsonObject, losses: Losses) -> JsonObject:
    cell: JsonObject = {"cell_type": "code", "execution_count": None, "metadata": {}, "source": code, **ours}
    cell["outputs"] = _write_outputs(list(outputs), losses)
    return cell


def _write_outputs(outputs: list[Content], losses: Losses) -> list[Json]:
    written: list[Json] = []
    for item in outputs:
        ours = item.provider_data.get(NAME, {})
        match item:
            case UnknownContent() if item.format == NAME:
                written.append(item.raw)
            case TextContent() | ErrorContent():
                written.append(_OUTPUTS.write_one(item, losses))
            case DataContent() if "form" in ours and written and isinstance(written[-1].get("data"), dict):
                written[-1]["data"][item.media_type] = _write_form(item, ours)
            case DataContent():
                written.append(_write_bundle(item, ours))
            case _:
                losses.add(item.type, "becomes text on stdout")
                written.append({"output_type": "stream", "name": "stdout", "text": as_text(item) + "\n"})
    return written


def _write_bundle(item: DataContent, ours: JsonObject) -> JsonObject:
    bundle = ours.get("bundle")
    if not isinstance(bundle, dict):
        metadata: JsonObject = {"name": item.name} if item.name is not None else {}
        bundle = {"output_type": "display_data", "metadata": metadata}
    forms = {} if ours.get("empty") else {item.media_type: _write_form(item, ours)}
    return {**bundle, "data": forms}


def _write_form(item: DataContent, ours: JsonObject) -> Any:
    if "as_it_was" in ours:
        return ours["as_it_was"]
    if _is_binary(item.media_type):
        return base64.b64encode(item.data).decode("ascii")
    return item.data.decode("utf-8", "surrogatepass" if is_text(item.media_type) else "replace")


def _is_binary(media_type: str) -> bool:
    return not is_text(media_type) and bare_media_type(media_type).partition("/")[0] in (
        "image",
        "audio",
        "video",
        "application",
        "font",
    )


def _joined(value: Any) -> str | None:
    """Return a text that a notebook may have as a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return text_or_none(value)


def _with_id(cell: JsonObject, place: int) -> JsonObject:
    # Cells of nbformat 4.5 have ids; the same content gets the same ones again.
    return {**cell, "id": hashlib.sha256(f"{place}\0{cell['source']}".encode("utf-8", "replace")).hexdigest()[:8]}


def notebook(cells: Sequence[Json], messages: Sequence[Message] = ()) -> JsonObject:
    """Return a whole notebook with these cells, to be saved as an `.ipynb` file.

    Where `messages` were read from a notebook, it has the metadata and the version of that one.
    """
    return {**_about(messages), "cells": list(cells)}


_KERNEL: JsonObject = {"display_name": "Python 3", "language": "python", "name": "python3"}
_NEW: JsonObject = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": _KERNEL, "language_info": {"name": "python"}},
}
"""A new notebook, but for its cells."""


def _about(messages: Sequence[Message]) -> JsonObject:
    """Return what the notebook that messages were read from says beside its cells; of none, what a new one says."""
    kept = (message.provider_data.get(NAME, {}).get("notebook") for message in messages)
    return next((about for about in kept if isinstance(about, dict)), _NEW)


@scored(of_all=min)
def _looks_like(document: Mapping[str, Any]) -> float:
    if "nbformat" in document and "cells" in document:
        return 1.0
    return 0.9 if document.get("cell_type") in ("code", "markdown", "raw") and "source" in document else 0.0


FORMAT = Format(NAME, "Jupyter notebooks", read, write, _looks_like)
