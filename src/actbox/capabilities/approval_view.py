"""The parts of a question that an approver reads: program, calls, differences of files, arguments, as lines of text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from actbox.core.program import Program
from actbox.review import ToolCall, review, tool_calls

from .approval_questions import Approval

_MOST_COMPARED: Final = 5000
# The line ends that Python knows; `str.splitlines` splits at more characters, and could show a comment as code.
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a question: a title and lines. Lines may have any character: escape them for where they are shown.

    In a `difference` added lines begin with `+`, removed ones with `-`.
    """

    title: str
    lines: tuple[str, ...]
    difference: bool = False


def parts(asked: Approval) -> tuple[Part, ...]:
    """Return all that an approver is shown of a question. It blocks for as long as a review of the program takes."""
    shown = dict(asked.shown)
    arguments, bound, reason = dict(shown.pop("arguments")), shown.pop("bound"), shown.pop("reason")
    files, source = shown.pop("files", {}), shown.pop("program", "") or ""
    found = [Part("Why it is asked", _lines(reason))] if reason else []
    for name in ("program", "code"):
        if isinstance(arguments.get(name), str) and (not source or arguments[name] == source):
            source = arguments.pop(name)
    if source:
        tools = [*_texts(shown.get("tools")), *_texts(bound.get("tools"))]
        found += _program(
            Program(source, language=_language(asked.capability)), tools, _texts(shown.pop("review", None))
        )
    if isinstance(files, Mapping):
        found += [_change(str(path), change) for path, change in files.items()]
    texts = {name: value for name, value in arguments.items() if isinstance(value, str) and "\n" in value}
    short = [f"{name} = {_json(value)}" for name, value in arguments.items() if name not in texts]
    if short:
        found.append(Part("Arguments", tuple(short)))
    found += [Part(f"Argument {name}", _lines(value)) for name, value in texts.items()]
    rest = [f"{name} = {_json(value)}" for name, value in {**shown, **bound}.items() if value not in (None, "", [])]
    if rest:
        found.append(Part("Other facts", tuple(rest)))
    return tuple(found)


def _program(program: Program, tools: Sequence[str], reviewed: list[str]) -> list[Part]:
    """Return a program with the findings of the review that it has had, or of one now."""
    lines = _lines(program.code)
    width = len(str(len(lines)))
    calls = [_call(one) for one in tool_calls(program, tools)]
    findings = reviewed or [
        f"line {one.line}: {one.message} (rule {one.rule})" for one in review(program, tools=tools).findings
    ]
    return [
        Part("The program", tuple(f"{number:{width}}  {line}" for number, line in enumerate(lines, 1))),
        Part("The tools that it names", tuple(calls or ("none",))),
        Part("What a review finds", tuple(findings or ("nothing, which does not make it safe",))),
    ]


def _call(call: ToolCall) -> str:
    if call.tool is None:
        return f"line {call.line}: any tool, for this part cannot be read"
    arguments = [f"{name}={value!r}" for name, value in call.arguments.items()]
    return f"line {call.line}: {call.tool}({', '.join(arguments if call.complete else [*arguments, '…'])})"


def _change(path: str, change: object) -> Part:
    if not isinstance(change, Mapping):
        return Part(f"File {path}", _lines(_json(change)))
    before, after = change.get("before"), change.get("after")
    what = "New file" if before is None else "Removed file" if after is None else "Changed file"
    old, new = ("" if text is None else str(text) for text in (before, after))
    removed, added = (text.split("\n") if text else [] for text in (old, new))
    if len(removed) + len(added) > _MOST_COMPARED:  # comparing takes the square of the lines
        lines = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    else:
        lines = list(unified_diff(removed, added, lineterm=""))[2:]
    return Part(f"{what} {path}", tuple(lines or ("no difference",)), difference=True)


def _language(capability: str) -> str:
    return "javascript" if capability.endswith("javascript") else "python"


def _texts(names: object) -> list[str]:
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _lines(text: str) -> tuple[str, ...]:
    return tuple(_LINE_END.split(text))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
