"""The program in the arguments that a model sent to `execute_code`.

The schema says `{"code": "…"}`. Models also send the arguments as JSON text, the program as a list of its lines, or the
program in a fenced block inside of the argument. These are unambiguous, so they are accepted. Anything else is refused
with a sentence that says how to send a program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actbox.core.errors import ActboxError
from actbox.core.program import MAX_SOURCE_BYTES
from actbox.tools.problems import shown

from .blocks import only_block_of

_FENCES = ("```", "~~~")


class NoProgram(ActboxError):
    """The error for arguments without a program; its message tells the model what is wrong."""


def program_of(arguments: Any, *, tool_name: str) -> str:
    """Return the program in a tool call's arguments. Raises `NoProgram`."""
    how = f'send {tool_name} one JSON object, {{"code": "…"}}, with the whole program as text'
    for _ in range(2):  # JSON text, possibly encoded twice
        if isinstance(arguments, str):
            arguments = _read(arguments, how)
    if not isinstance(arguments, Mapping):
        raise NoProgram(f"{tool_name} was given {_kind(arguments)} for its arguments: {how}")
    if "code" not in arguments:
        there = f"they have {', '.join(map(shown, list(arguments)[:5]))}" if arguments else "they are empty"
        raise NoProgram(f"the arguments of {tool_name} have no 'code', {there}: {how}")
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
    return code


def _read(text: str, how: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoProgram(f"the arguments are no JSON ({error}): {how}") from None


def _kind(value: object) -> str:
    names = {type(None): "nothing", list: "a list", dict: "an object", str: "text", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__)
