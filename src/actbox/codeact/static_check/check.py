"""From a program and its tools to the one error that says what is certainly wrong with it."""

from __future__ import annotations

import asyncio
import keyword
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.program import Program
from actbox.review.source import Unread, parse
from actbox.tools.toolset import Toolset

from .certainty import certain, to_reveal
from .checkers import PROGRAM, Checker, Finding, Tool, checker_of
from .confined import CheckerFailed, run_confined
from .declarations import Declarations, declare
from .reading import Reading, without_settings
from .rules import Wrong

MOST_FINDINGS = 10
"""So many findings are told one by one, and of further ones how many they are."""
_MOST_CHARACTERS = 400
_HINT = "nothing of the program has run: mend these lines and send the whole program again"
_AWAIT_HINT = "; in a program that uses await, every tool call is awaited"


async def check_types(
    program: str,
    toolset: Toolset,
    *,
    checker: Checker = "ty",
    inputs: Mapping[str, Any] | None = None,
    extra_names: Iterable[str] = (),
    timeout: float = 10.0,
) -> ErrorInfo | None:
    """Return what is certainly wrong with a program that would run with these tools; `None` where nothing is.

    Errors are of kind `TYPE`: wrong arguments of tools (also by `call_tool` with a name in quotes), keys and attributes
    that results have not, a missing `await`, undefined names, calls of what cannot be called, relative imports.
    `inputs` are variables that the program is given, and `extra_names` further names that it finds. Packages are taken
    to be there and to have whatever is used of them. A source that is not a program is left to its run: `None`.

    An error of kind `SANDBOX` says that there was no check: the checker failed or took longer than `timeout` seconds.
    Raises `Unsupported` where the checker is not installed (`check_available` tells beforehand) and `InvalidValue` for
    a checker, a name or a timeout that cannot be. Cancelling ends the checker.
    """
    tool = checker_of(checker)
    if not timeout > 0:
        raise InvalidValue(f"timeout is a number of seconds above 0, not {timeout!r}")
    names = (*(inputs or {}), *extra_names)
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidValue(f"{name!r} cannot be the name of a variable")
    reading = await asyncio.to_thread(_read, program)
    if reading is None or isinstance(reading, ErrorInfo):
        return reading
    relative = [(line, "a relative import: a program is in no package") for line in reading.relative_imports]
    if relative:  # by which a checker would find files outside its folder
        return _told(relative, awaits=False)
    declared = await asyncio.to_thread(declare, toolset, names, reading)
    command = await asyncio.to_thread(tool.command)
    try:
        async with asyncio.timeout(timeout):
            findings = await _findings(tool, command, reading.copy(declared.calls), declared)
            wrong = await asyncio.to_thread(_certain, findings, reading, declared)
            if asked := to_reveal(wrong, reading):
                revealed = await _findings(tool, command, reading.copy(declared.calls, asked), declared)
                wrong = await asyncio.to_thread(_certain, findings, reading, declared, revealed)
    except TimeoutError:
        return _unchecked(f"the type checker did not finish within {timeout:g} s")
    except CheckerFailed as failure:
        return _unchecked(str(failure))
    told = [(finding.line, declared.named(finding.words)) for finding, _ in wrong]
    return _told(told, awaits=any(why is Wrong.COROUTINE for _, why in wrong)) if told else None


def _read(program: str) -> Reading | ErrorInfo | None:
    source = without_settings(program)
    tree = parse(Program(source))
    if isinstance(tree, Unread):
        return None if tree.rule == "syntax" else _unchecked(tree.message)
    return Reading(source, tree)


def _certain(
    findings: list[Finding], reading: Reading, declared: Declarations, revealed: list[Finding] | None = None
) -> list[tuple[Finding, Wrong]]:
    return [(finding, why) for finding in findings if (why := certain(finding, reading, declared, revealed))]


async def _findings(tool: Tool, command: list[str], copy: str, declared: Declarations) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="actbox-check-") as name:
        folder = Path(name)
        for path, text in {**tool.files(), **declared.files, PROGRAM: copy}.items():
            place = folder / "project" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode())
        output = await run_confined(command, folder)
        return tool.findings(output)


def _told(findings: list[tuple[int, str]], *, awaits: bool) -> ErrorInfo:
    lines = [f"line {line}: {_one_line(message)}" for line, message in sorted(set(findings))]
    more = len(lines) - MOST_FINDINGS
    shown = lines[:MOST_FINDINGS] + ([f"and {more} more"] if more > 0 else [])
    return ErrorInfo(
        kind=ErrorKind.TYPE,
        type="TypeCheck",
        message="\n".join(shown),
        line=min(line for line, _ in findings),
        hint=_HINT + (_AWAIT_HINT if awaits else ""),
    )


def _one_line(message: str) -> str:
    text = re.sub(r"\s+", " ", message).strip()
    text = "".join(c for c in text if c.isprintable())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _unchecked(message: str) -> ErrorInfo:
    return ErrorInfo(
        kind=ErrorKind.SANDBOX,
        type="TypeCheck",
        message=f"the program was not checked, and did not run: {message}",
        hint="try again; a shorter or simpler program takes less to check",
    )
