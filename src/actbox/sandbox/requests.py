"""What a caller asks for, checked: how long a run may take, and the frame by which a guest is told what to run."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable
from types import NoneType
from typing import Any

from actbox.core.errors import InvalidValue
from actbox.core.program import Program
from actbox.tools import Toolset

from .contract import Command
from .guest import wire

# What the guest takes as its first message; the program itself is bounded before.
_MAX_PROGRAM_MESSAGE = 64 * 2**20


def encode_program(message: dict[str, Any]) -> bytes:
    """Return the frame of a message with a program and its inputs. Raises `InvalidValue` if they are too large."""
    try:
        return wire.encode(message, _MAX_PROGRAM_MESSAGE)
    except (wire.MessageTooLong, ValueError, RecursionError) as error:
        raise InvalidValue(f"the program and its inputs cannot be sent: {error}; put data into files") from None


def run_message(program: Program, toolset: Toolset, root: str) -> dict[str, Any]:
    """Return what a guest is told of a program: what it is, and what it is given. `root` is its working folder."""
    message = {
        "t": "run",
        "code": program.code,
        "language": program.language,
        "name": program.name,
        "inputs": program.inputs,
        "tools": toolset.guest_spec(),
    }
    if program.cwd:
        message["cwd"] = posixpath.join(root, program.cwd)
    if program.env:
        message["env"] = program.env
    return message


def check_names(program: Program, toolset: Toolset) -> None:
    """Raise `InvalidValue` for a name that is both an input and a tool of one run."""
    taken = set(toolset.aliases.values()) & set(program.inputs)
    if taken:
        raise InvalidValue(f"{min(taken)!r} is both an input and a tool of this run; rename one")


def source_of(program: Program | str) -> str:
    """Return the source of a program, however it was given."""
    return program.code if isinstance(program, Program) else program


def arguments_of(command: Command, stdin: bytes, cwd: str | None) -> list[str]:
    """Return the arguments that a command is, a shell's for text. Raises `InvalidValue` for what is no command."""
    if not isinstance(command, Iterable):
        raise InvalidValue(f"execute() takes a command line, or a sequence of texts, not {command!r}")
    arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else [*command]
    if not arguments or not all(isinstance(argument, str) for argument in arguments):
        raise InvalidValue("execute() takes a command line, or a non-empty sequence of texts")
    if not isinstance(stdin, bytes) or not isinstance(cwd, (str, NoneType)):
        raise InvalidValue("execute() takes stdin as bytes and cwd as text")
    if any("\0" in argument for argument in (*arguments, cwd or "")):
        raise InvalidValue("a command cannot have a NUL character in it")
    return arguments


def seconds_of(timeout: float | None, most: float) -> float:
    """Return how many seconds a run may take, given the caller's wish and the policy's limit."""
    if timeout is None:
        return most
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or math.isnan(timeout) or timeout <= 0:
        raise InvalidValue(f"timeout must be a number of seconds above zero, not {timeout!r}")
    return min(timeout, most)
