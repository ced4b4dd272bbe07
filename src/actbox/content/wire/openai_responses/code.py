"""Items of the Responses API that run code: what each of them is read as, and which item a call becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
)

from .interpreter import INTERPRETER, read_interpreter
from .parts import ours
from .shell import (
    CALLS,
    RESULTS,
    read_local_shell_call,
    read_program,
    read_shell_call,
    read_shell_output,
    read_text_output,
)

KINDS = frozenset({INTERPRETER, *CALLS, *RESULTS})


def read_code(item: Mapping[str, Any]) -> list[Content] | None:
    """Return what an item of one of `KINDS` comes to; `None` where it is not as it should be."""
    match item.get("type"):
        case "code_interpreter_call":
            return read_interpreter(item)
        case "shell_call":
            return read_shell_call(item)
        case "local_shell_call":
            return read_local_shell_call(item)
        case "program":
            return read_program(item)
        case "shell_call_output":
            return read_shell_output(item)
        case "local_shell_call_output":
            return read_text_output(item, "id" if "call_id" not in item else "call_id", "output")
        case "program_output":
            return read_text_output(item, "call_id", "result")
    return None


def kind_of_call(call: CodeInterpreterCall) -> str:
    """Return the type of item that a call becomes; "" where none runs its language."""
    kind = ours(call).get("type")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    return {"python": INTERPRETER, "shell": "shell_call"}.get(call.language, "")


def kind_of_result(result: CodeInterpreterResult) -> str:
    """Return the type of item of the call whose result this is, where that call is not there to ask."""
    kind = str(ours(result).get("type"))
    return RESULTS.get(kind, INTERPRETER)
