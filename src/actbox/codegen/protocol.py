"""The protocol between the agent that has a task and the coding agent: the request, and the response in any form.

A response comes as JSON (structured output, or a block of it), as the arguments of a tool call, in fenced blocks, or as
bare code. `CodingResponse.form` says which, and what there was if there was no program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from pydantic import ValidationError

from actbox.codeact.blocks import program_in
from actbox.codeact.calls_as_text import call_as_text
from actbox.codeact.instructions import EXECUTE_CODE
from actbox.codeact.model import ModelReply, ToolCall
from actbox.core.labels import Label

from .dependencies import cleaned
from .input_schemas import FileSchema
from .reply_blocks import Block, Pieces, blocks_of, commented, pieces_of, words_outside
from .request import CodingRequest, ConstraintsForm, ContextForm, ExampleForm, InputFileForm
from .response import RESPONSE, CodingResponse, Form, json_in
from .task import ANY_LANGUAGE, Task

MOST_REPLY_CHARS: Final = 2**18
"""The most characters of a reply that is read. A longer one has no program."""

_FIRST: Final = "python"
"""The language of code that names none, where any may come."""
_CALLS: Final = (RESPONSE.name, EXECUTE_CODE)
_HTML: Final = re.compile(r"\s*(?:<!doctype html|<html[\s>])", re.IGNORECASE)
_BEGINS_JSON: Final = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"(?:code|files|language|explanation)"\s*:')
_PROSE: Final = re.compile(r"[A-Z][a-z']+ [a-z']+ [a-z']+ [a-z']+")
_CODE_ALONE: Final = "the answer was code alone: all of it was taken for the program"
_CUT: Final = "the answer ended in the middle of its program"


def request_of(task: Task, schemas: Iterable[FileSchema] = (), *, cleared: Label | None = None) -> CodingRequest:
    """Return the request for a task, with the schemas of its input files as they were found.

    `cleared` is the highest label that the model may read, `None` for any; no schema above it is in the request. Raises
    `InvalidValue` if the task's own words are above it.
    """
    task.check_cleared(cleared)
    found = {one.name: one.summary(cleared) for one in schemas}
    names = dict.fromkeys((*task.files, *task.declared))
    return CodingRequest(
        task=task.goal,
        language=task.language,
        outputs=tuple(task.outputs),
        context=ContextForm(
            input_files=tuple(
                InputFileForm(name=name, schema=found.get(name) or task.declared.get(name, "")) for name in names
            ),
            output_requirements=tuple(task.output_requirements),
            constraints=ConstraintsForm(language=task.language, **asdict(task.constraints)),
            background=task.context,
        ),
        examples=tuple(ExampleForm(input=one.input, expected_output=one.expected_output) for one in task.examples),
        profile=task.profile,
    )


def response_of(reply: ModelReply, language: str = "python") -> CodingResponse:
    """Return the response that a model's reply is; `language` is the one that it was asked for, or `auto` for any.

    Nothing is raised: a reply without a program gives a response whose `form` says what it was instead.
    """
    response = _read(reply, language)
    language = _FIRST if language == ANY_LANGUAGE else language
    notes = list(response.noted)
    if response.has_program and reply.cut and _CUT not in notes:
        notes.append(_CUT)
    spoken = response.language or language
    dependencies, said = cleaned(response.dependencies, spoken)
    return response.model_copy(
        update={"language": spoken, "dependencies": dependencies, "noted": (*notes, *said)},
    )


def _read(reply: ModelReply, language: str) -> CodingResponse:
    length = len(reply.text) + sum(_length(call.arguments) for call in reply.tool_calls)
    if length > MOST_REPLY_CHARS:
        return _without("too_long", f"the answer has {length:,} characters; at most {MOST_REPLY_CHARS:,} are read")
    empty: list[CodingResponse] = []
    blocks = blocks_of(reply.text)
    for found in _structured(reply, blocks):
        if found.has_program:
            return found
        empty.append(found)
    if found_in_blocks := _of_blocks(reply.text, blocks, language):
        return found_in_blocks
    if empty:
        return empty[0].model_copy(update={"form": "nothing", "noted": (*empty[0].noted, "the answer had no code")})
    if called := next(iter(reply.tool_calls), None) or call_as_text(reply.text):
        return _without("unknown_tool", f"the answer was a call of {_tool(called)}, without code in it")
    if not reply.text.strip():
        return _without("nothing", "the answer was empty")
    if _HTML.match(reply.text):
        return _without("html", "the answer was a web page (HTML), not a program")
    if _BEGINS_JSON.match(reply.text):
        return _without("cut", "the answer was JSON that ends in the middle, or is no JSON")
    if (source := _bare(reply.text, language)) is not None:
        return CodingResponse(code=source, dependencies=tuple(commented([source])), form="code", noted=(_CODE_ALONE,))
    return _without("words", "the answer was words without a program")


def _length(arguments: Any) -> int:
    """Return the number of characters of a call's arguments as JSON, more than may be if they are none."""
    try:
        return len(arguments) if isinstance(arguments, str) else len(json.dumps(arguments, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return MOST_REPLY_CHARS + 1


def _structured(reply: ModelReply, blocks: tuple[Block, ...]) -> Iterator[CodingResponse]:
    """Yield the responses that a reply has as JSON or as a call, with or without a program."""
    for call in reply.tool_calls:
        if (found := _of_call(call)) is not None:
            yield found
    places = [reply.text] if reply.text.lstrip().startswith("{") else []
    places += [one.source for one in blocks if one.word in ("json", "json5", "")]
    for text in places:
        if text.lstrip().startswith("{") and (found := _of_fields(json_in(text), "json")) is not None:
            yield found
    if (called := call_as_text(reply.text)) is not None and (found := _of_call(called)) is not None:
        yield found


def _of_fields(found: Any, form: Form) -> CodingResponse | None:
    """Return the response that data with code or files is, without the fields that cannot be read; else `None`."""
    if not isinstance(found, Mapping) or not ("code" in found or "files" in found):
        return None
    fields = {name: found[name] for name in RESPONSE.input_schema["properties"] if name in found}
    noted: tuple[str, ...] = ()
    while True:
        try:
            return CodingResponse(**fields, form=form, noted=noted)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            del fields[name := str(first["loc"][0])]
            noted = (*noted, f"the answer's {name!r} was left out: {first['msg'].removeprefix('Value error, ')}")


def _of_call(call: ToolCall) -> CodingResponse | None:
    """Return the response in the arguments of a call, of whatever tool, if they have code or files."""
    arguments: Any = call.arguments
    for _ in range(2):  # JSON text, possibly encoded twice
        arguments = json_in(arguments) if isinstance(arguments, str) else arguments
    response = _of_fields(arguments, "call")
    if response is None:
        return None
    response = response.model_copy(update={"call_id": call.id})
    if call.name in _CALLS:
        return response
    note = f"the answer was a call of {_tool(call)}; the code in it was taken"
    return response.model_copy(update={"noted": (*response.noted, note)})


def _of_blocks(text: str, blocks: tuple[Block, ...], language: str) -> CodingResponse | None:
    """Return the response in the fenced blocks of an answer, `None` if no block has a program."""
    found = pieces_of(blocks, language)
    if not found.language:
        # A block without a language counts only if it looks like a program.
        asked = _FIRST if language == ANY_LANGUAGE else language
        source = program_in(text, asked) if blocks else None
        if source is None:
            return None
        found = Pieces(asked, source, dependencies=found.dependencies)
    return CodingResponse(
        code=found.code,
        files=found.files,
        language=found.language,
        dependencies=found.dependencies,
        explanation=words_outside(text, blocks),
        tests=found.tests,
        form="blocks",
        noted=(_CUT,) if found.is_cut else (),
    )


def _bare(text: str, language: str) -> str | None:
    """Return an answer that is a program without any block around it, else `None`."""
    language = _FIRST if language == ANY_LANGUAGE else language
    if "```" in text or (language != "python" and _PROSE.search(text)):
        return None
    block = f"~~~~~~~~\n{text}\n~~~~~~~~\n"
    return text if program_in(block, language) is not None else None


def _tool(call: ToolCall) -> str:
    return f"the tool {call.name!r:.80}" + ("" if call.name in _CALLS else ", which does not exist")


def _without(form: Form, note: str) -> CodingResponse:
    return CodingResponse(form=form, noted=(note,))
