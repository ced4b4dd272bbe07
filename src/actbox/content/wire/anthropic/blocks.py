"""The blocks of a message: text, thinking, files, calls of tools, and of the tools with which Anthropic runs code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    Part,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    code_content,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import At, Blocks, Inner, Kind, Notes, value_at
from actbox.content.wire.degrade import add_printed, exit_code, program_for
from actbox.content.wire.fields import called, printed_texts
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses
from actbox.content.wire.values import (
    boolean_or_none,
    bytes_or_none,
    integer_or_none,
    is_utf8,
    json_or_none,
    kept,
    list_or_empty,
    object_or_empty,
    only_true,
    rest_of,
    text_or_none,
    to_base64,
    to_bytes,
    to_text,
    word_or_none,
)

NAME = "anthropic"
PYTHON, SHELL, EDITOR = "code_execution", "bash_code_execution", "text_editor_code_execution"
TOOLS = {PYTHON: ("code", "python"), SHELL: ("command", "shell"), EDITOR: ("", "json")}
"""For each tool, which field of its input has the program, and its language. Of the editor the whole input is it."""
RESULTS = frozenset(f"{tool}_tool_result" for tool in TOOLS)
_CALLER = "code_execution_20250825"
_CITATIONS: dict[Json, tuple[str, str]] = {
    "char_location": ("document_title", ""),
    "page_location": ("document_title", ""),
    "content_block_location": ("document_title", ""),
    "web_search_result_location": ("title", "url"),
    "search_result_location": ("title", "source"),
}
"""For each kind of citation, which field has the title and which the address."""


class Writing(Losses):
    """Notes of one writing of messages: the losses, and in `tools` the name of the tool by the id of a call of code."""

    def __init__(self) -> None:
        super().__init__()
        self.tools: dict[str, str] = {}


def read_citation(citation: Any) -> Annotation | None:
    """Return where a text comes from. It is about the whole of its block, so that start and end are not said."""
    if not isinstance(citation, Mapping):
        return None
    title, url = _CITATIONS.get(text_or_none(citation.get("type")), ("", ""))
    fields = {"title": title, "url": url, "file_id": "file_id" if title else "", "snippet": "cited_text"}
    said = {ours: theirs for ours, theirs in fields.items() if isinstance(citation.get(theirs), str)}
    values = {ours: citation[theirs] for ours, theirs in said.items()}
    return Annotation(**values, provider_data=kept(NAME, rest_of(citation, said.values())))


def _write_citation(note: Annotation, text: str, losses: Losses) -> JsonObject | None:
    ours = note.provider_data.get(NAME, {})
    title, url = _CITATIONS.get(str(ours.get("type")), ("title", "url"))
    values = {title: note.title, url: note.url, "file_id": note.file_id, "cited_text": note.snippet}
    said: JsonObject = {name: value for name, value in values.items() if name and value is not None}
    if ours:
        return {**said, **ours}
    if note.url is None:
        losses.add("annotation", "left out: a citation of another provider that has no address")
        return None
    losses.add("annotation", "becomes the citation of a web page, of the whole text, with an empty index")
    cited = note.snippet if note.snippet is not None else text[note.start or 0 : note.end]
    of_page: JsonObject = {"type": "web_search_result_location", "url": note.url, "title": note.title}
    return {**of_page, "cited_text": cited, "encrypted_index": ""}


def _read_call(block: Mapping[str, Any]) -> CodeInterpreterCall | None:
    call_id, tool, given = text_or_none(block.get("id")), text_or_none(block.get("name")), block.get("input")
    if call_id is None or tool not in TOOLS or not isinstance(given, Mapping):
        return None
    program_field, language = TOOLS[tool]
    program = json.dumps(given, ensure_ascii=False) if tool == EDITOR else text_or_none(given.get(program_field))
    inputs = () if program is None else (code_content(program, language),)
    return CodeInterpreterCall(call_id=call_id, inputs=inputs, name=tool)


def _tool_of(item: CodeInterpreterCall | CodeInterpreterResult, tools: Mapping[str, str]) -> str:
    """Return which tool a call or result is of; for those of others, the shell's for shell, else Python's."""
    if item.name in TOOLS:
        return item.name
    if isinstance(item, CodeInterpreterCall):
        return SHELL if item.language == "shell" else PYTHON
    return tools.get(item.call_id, PYTHON)


def _write_call(item: CodeInterpreterCall, writing: Writing) -> JsonObject:
    tool = writing.tools[item.call_id] = _tool_of(item, writing.tools)
    program_field, language = TOOLS[tool]
    how = "files are left out: a user's message uploads them to the container"
    program = program_for(item, tool, language, writing, files=how)
    given: JsonObject = {program_field: program} if item.inputs else {}
    if tool == EDITOR:
        given = found if isinstance(found := json_or_none(program), dict) else {"command": program}
    return {"type": "server_tool_use", "id": item.call_id, "name": tool, "input": given}


def _read_result(block: Mapping[str, Any]) -> CodeInterpreterResult | None:
    call_id, content = text_or_none(block.get("tool_use_id")), object_or_empty(block.get("content"))
    tool = str(block["type"]).removesuffix("_tool_result")
    found: _Found | None = None
    match str(content.get("type")).removeprefix(f"{tool}_"):
        case "result" | "encrypted_code_execution_result":
            found = _read_run(content, tool)
        case "tool_result_error" if isinstance(code := content.get("error_code"), str):
            error = ErrorContent(message=text_or_none(content.get("error_message")) or code, code=code)
            found = (error,), None, "timeout" if code == "execution_time_exceeded" else "failed"
        case "view_result" | "create_result" | "str_replace_result" as kind:
            found = _read_edit(content, kind), None, "ok"
    if call_id is None or found is None:
        return None
    outputs, code, outcome = found
    return CodeInterpreterResult(call_id=call_id, outputs=tuple(outputs), exit_code=code, outcome=outcome, name=tool)


_Found = tuple[Sequence[Content], int | None, str | None]
"""The outputs, the exit code and the outcome."""


def _read_run(content: Mapping[str, Any], tool: str) -> _Found | None:
    code, files = integer_or_none(content.get("return_code")), content.get("content")
    if code is None or not isinstance(files, list):
        return None
    made = [_read_file(object_or_empty(file), tool) or UnknownContent(format=NAME, raw=file) for file in files]
    return [*printed_texts(content), *made], code, "ok" if code == 0 else "failed"


def _read_file(file: Mapping[str, Any], tool: str) -> Content | None:
    file_id = word_or_none(file.get("file_id"))
    if file.get("type") != f"{tool}_output" or file_id is None:
        return None
    return HostedFileContent(file_id=file_id, provider_data=kept(NAME, rest_of(file, ("type", "file_id"))))


def _read_edit(content: Mapping[str, Any], kind: str) -> Sequence[Content]:
    if kind == "view_result" and content.get("file_type") == "text" and isinstance(content.get("content"), str):
        return (TextContent(text=content["content"]),)
    lines = list_or_empty(content.get("lines"))
    is_text = kind == "str_replace_result" and lines and all(isinstance(line, str) for line in lines)
    return (TextContent(text="\n".join(lines)),) if is_text else ()


def _write_result(item: CodeInterpreterResult, writing: Writing) -> JsonObject:
    tool = _tool_of(item, writing.tools)
    was = str(value_at(item.provider_data.get(NAME, {}), "content.type"))
    edited: JsonObject | None = None
    if was.endswith("_str_replace_result") and item.outputs:
        edited = {"type": was, "lines": [*item.text.split("\n")]}
    elif was.endswith("_view_result") and item.outputs:
        edited = {"type": was, "content": item.text}
    if edited is not None:
        return {"type": f"{tool}_tool_result", "tool_use_id": item.call_id, "content": edited}
    printed = {"stdout": "", "stderr": ""}
    files: list[Json] = []
    for output in item.outputs:
        match output:
            case UnknownContent() if output.format == NAME:
                files.append(output.raw)
            case HostedFileContent():
                if output.model_copy(update={"provider_data": {}}) != HostedFileContent(file_id=output.file_id):
                    writing.add("hosted_file", "of a file that code made only the id is kept")
                ours = output.provider_data.get(NAME, {})
                files.append({"type": f"{tool}_output", "file_id": output.file_id, **ours})
            case _:
                add_printed(printed, output, writing)
        if output.annotations:
            writing.add(f"{output.type}.annotations", "left out")
    content: JsonObject = {
        "type": f"{tool}_result",
        "return_code": exit_code(item, writing),
        **printed,
        "content": files,
    }
    return {"type": f"{tool}_tool_result", "tool_use_id": item.call_id, "content": content}


def _is_picture(item: DataContent | UriContent | HostedFileContent) -> bool:
    if isinstance(item, DataContent):
        return bare_media_type(item.media_type) in ("image/jpeg", "image/png", "image/gif", "image/webp")
    return (item.media_type or "").startswith("image/")


def _is_pdf(item: DataContent | UriContent) -> bool:
    bare = bare_media_type(item.media_type or "") if isinstance(item, DataContent) else item.media_type
    return bare == "application/pdf"


def _file(
    name: str,
    item: type[Part],
    source: str,
    *fields: At,
    when: Callable[[Any], bool],
    usual: Mapping[str, Any] = MappingProxyType({}),
) -> Kind:
    """Return a kind of block that has a file, by the type of its source."""
    return Kind(name, item, fields, {"source.type": source}, usual, when, inside=True)


_TITLE = At("title", "name", optional=True)
_MEDIA_TYPE, _URL = At("source.media_type", "media_type"), At("source.url", "uri")
_BYTES = At("source.data", "data", bytes_or_none, to_base64)
_FILE_ID = At("source.file_id", "file_id", word_or_none)
_PICTURE, _PDF = {"media_type": "image/*"}, {"media_type": "application/pdf"}
BLOCKS = Blocks(
    NAME,
    (
        Kind(
            "text",
            TextContent,
            (At("text", "text"), Notes("citations", "annotations", optional=True)),
            inside=True,
        ),
        Kind(
            "thinking",
            ReasoningContent,
            (
                At("thinking", "text"),
                At(
                    "signature",
                    "protected_data",
                    word_or_none,
                    lambda signature: signature or "",
                    optional=True,
                    how="written without a signature, which the API does not take back",
                ),
            ),
            inside=True,
        ),
        Kind("redacted_thinking", ReasoningContent, (At("data", "protected_data"),), inside=True),
        Kind(
            "tool_use",
            FunctionCall,
            (
                At("id", "call_id"),
                *called("name", "input"),
                At(
                    "caller",
                    "called_by",
                    lambda caller: text_or_none(object_or_empty(caller).get("tool_id")),
                    lambda call_id: call_id and {"type": _CALLER, "tool_id": call_id},
                    optional=True,
                ),
            ),
        ),
        Kind(
            "tool_result",
            FunctionResult,
            (
                At("tool_use_id", "call_id"),
                Inner("content", "outputs"),
                At("is_error", "is_error", boolean_or_none, only_true, optional=True),
            ),
        ),
        Kind("server_tool_use", CodeInterpreterCall, read=_read_call, write=_write_call),
        *(Kind(name, CodeInterpreterResult, read=_read_result, write=_write_result) for name in sorted(RESULTS)),
        _file("image", DataContent, "base64", _MEDIA_TYPE, _BYTES, when=_is_picture),
        _file("document", DataContent, "base64", _MEDIA_TYPE, _BYTES, _TITLE, when=_is_pdf),
        _file(
            "document",
            DataContent,
            "text",
            At("source.media_type", "media_type", write=lambda _: "text/plain", how="becomes text/plain"),
            At("source.data", "data", to_bytes, to_text),
            _TITLE,
            when=lambda item: item.is_text and is_utf8(item.data),
        ),
        _file("image", UriContent, "url", _URL, usual=_PICTURE, when=_is_picture),
        _file("document", UriContent, "url", _URL, _TITLE, usual=_PDF, when=_is_pdf),
        _file("image", HostedFileContent, "file", _FILE_ID, usual=_PICTURE, when=_is_picture),
        _file(
            "document",
            HostedFileContent,
            "file",
            _FILE_ID,
            _TITLE,
            when=lambda item: item.media_type in ("application/pdf", "text/plain"),
        ),
        Kind("container_upload", HostedFileContent, (At("file_id", "file_id", word_or_none),)),
    ),
    joined=("text", "thinking"),
    lost={
        "text.stream": "left out: all text is alike",
        "function_result.name": "left out: its call has it",
    },
    dropped={"usage": "left out: only a response has a place for it"},
    own=("block", "partial_json"),
    losses=Writing,
    read_note=read_citation,
    write_note=_write_citation,
)
