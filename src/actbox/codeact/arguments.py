"""The program in the arguments that a model sent to `execute_code`.

The schema says `{"code": "…"}`, and `dependencies` beside it where programs may ask for packages. Models also send the
arguments as JSON text, the program as a list of its lines, or the program in a fenced block inside of the argument.
These are unambiguous, so they are accepted. Anything else is refused with a sentence that says how to send a program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from actbox.core.errors import ActboxError
from actbox.core.program import MAX_SOURCE_BYTES, Program
from actbox.tools.problems import shown

from .blocks import only_block_of

_FENCES = ("```", "~~~")


class NoProgram(ActboxError):
    """The error for arguments without a program; its message tells the model what is wrong."""


class Sent(NamedTuple):
    """A program as a model sent it, with the packages that it asks for."""

    code: str
    dependencies: tuple[str, ...] = ()

    def to_run(self, language: str = "python") -> Program | str:
        """Return the program in a form that sandboxes take; only one that asks for packages has a language."""
        return Program(self.code, language, dependencies=self.dependencies) if self.dependencies else self.code


def program_of(arguments: Any, *, tool_name: str) -> str:
    """Return the program in the arguments of a tool that takes nothing else. Raises `NoProgram`."""
    return sent_program(arguments, tool_name=tool_name, packages=False).code


def sent_program(arguments: Any, *, tool_name: str, packages: bool, only_known: bool = False) -> Sent:
    """Return what a model sent in a tool call's arguments. Raises `NoProgram`.

    Without `packages` the tool takes no `dependencies`. Other arguments than those of the schema are ignored, and
    refused with `only_known`.
    """
    how = f'send {tool_name} one JSON object, {{"code": "…"}}, with the whole program as text'
    for _ in range(2):  # JSON text, possibly encoded twice
        if isinstance(arguments, str):
            arguments = _read(arguments, how)
    if not isinstance(arguments, Mapping):
        raise NoProgram(f"{tool_name} was given {_kind(arguments)} for its arguments: {how}")
    if "code" not in arguments:
        there = f"they have {', '.join(map(shown, list(arguments)[:5]))}" if arguments else "they are empty"
        raise NoProgram(f"the arguments of {tool_name} have no 'code', {there}: {how}")
    known = ("code", "dependencies") if packages else ("code",)
    if arguments.get("dependencies") and not packages:
        raise NoProgram(
            f"{tool_name} takes no 'dependencies': send the program without it, and do with the packages that are there"
        )
    if only_known and (unknown := [name for name in arguments if name not in known and name != "dependencies"]):
        raise NoProgram(f"{tool_name} takes no {', '.join(map(shown, unknown[:5]))}, only {' and '.join(known)}: {how}")
    code = arguments["code"]
    if isinstance(code, list) and code and all(isinstance(line, str) for line in code):
        code = "".join(code) if all(line.endswith("\n") for line in code[:-1]) else "\n".join(code)
    if not isinstance(code, str):
        raise NoProgram(f"'code' is {_kind(code)}: {how}")
    if code.lstrip().startswith(_FENCES):
        block = only_block_of(code)
        code = code if block is None else block
    if not code.strip():
        raise NoProgram(f"'code' is empty: {how}")
    if len(code) > MAX_SOURCE_BYTES:
        raise NoProgram(f"'code' has more than {MAX_SOURCE_BYTES // 2**20} MiB: put data into files, not the program")
    return Sent(code, _dependencies(arguments.get("dependencies"), tool_name))


def _dependencies(given: Any, tool_name: str) -> tuple[str, ...]:
    named = [given] if isinstance(given, str) else given or []
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise NoProgram(f"'dependencies' of {tool_name} is a list of requirements as text, such as [\"openpyxl>=3.1\"]")
    return tuple(named)


def _read(text: str, how: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoProgram(f"the arguments are no JSON ({error}): {how}") from None


def _kind(value: object) -> str:
    names = {type(None): "nothing", list: "a list", dict: "an object", str: "text", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__)
