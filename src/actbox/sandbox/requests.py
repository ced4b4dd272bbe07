"""A caller's request, checked: how long the run may take, and the frame that tells a guest what to run."""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from types import NoneType
from typing import Any, Final

from actbox.core.errors import InvalidValue
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits
from actbox.core.policy import Policy, check_variables
from actbox.core.program import Program, can_be_bytes
from actbox.tools import Toolset

from .contract import Command
from .dependencies import NOTHING, Provided
from .guest import wire
from .taint import Taint

# The most bytes that a guest accepts as its first message; the program itself has a lower limit.
_MAX_PROGRAM_MESSAGE = 64 * 2**20
SOON: Final = wire.encode({"t": "soon"}, wire.ENVELOPE_BYTES)
"""The message that a program comes soon, to a guest that has waited for `COLD_SECONDS`: it wakes up meanwhile."""
COLD_SECONDS: Final = 0.01
"""After this time a guest sleeps, and the processor's caches hold what others did."""
# The longest fields that pid 1 is told for guests that wait, in bytes of JSON.
_MOST_AHEAD = 32 * 1024
# A program's message may come with a descriptor, which needs a free number.
_ENOUGH_OPEN_FILES = 32
_NO_TOOLS: Final = Toolset.of(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A checked request for one run, with everything that the host needs to know about it."""

    engine: str
    limits: Limits
    wall: WallTime
    frame: bytes
    """The message that tells the guest what to run."""
    toolset: Toolset = _NO_TOOLS
    program: Program | None = None
    """`None` for a command, which replaces the guest and so sends nothing more on the channel."""
    stdin: bytes = b""
    warnings: tuple[str, ...] = ()
    """Warnings about the sandbox, to be added to the result."""
    packages: Provided = NOTHING
    """The packages that the program asked for, in use until the run has ended."""
    taint: Taint | None = None
    """The label of the workspace; `None` on an engine whose programs carry no labels."""


def ahead_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a guest's first message that can be set before it comes, if they are known by then.

    Limits that could already be too low for receiving the message are left to the message.
    """
    ahead = {name: message[name] for name in ("variables", "limits", "workspace")}
    has_enough = message["limits"]["open_files"] >= _ENOUGH_OPEN_FILES
    later = {"memory_mib"} if has_enough else {"memory_mib", "open_files"}
    ahead["limits"] = {name: limit for name, limit in message["limits"].items() if name not in later}
    return ahead


def is_short(message: dict[str, Any]) -> bool:
    """Return whether these fields are short enough to be told to pid 1."""
    return len(json.dumps(message)) < _MOST_AHEAD


def encode_program(message: dict[str, Any]) -> bytes:
    """Return the frame of a message with a program and its inputs. Raises `InvalidValue` if they are too large."""
    try:
        return wire.encode(message, _MAX_PROGRAM_MESSAGE)
    except (wire.MessageTooLong, ValueError, RecursionError) as error:
        raise InvalidValue(f"the program and its inputs cannot be sent: {error}; put data into files") from None


def run_message(program: Program, toolset: Toolset, root: str) -> dict[str, Any]:
    """Return the message that tells a guest to run a program. `root` is the guest's path of the workspace."""
    tools = toolset.guest_spec()
    message: dict[str, Any] = {
        "t": "run",
        "code": program.code,
        "language": program.language,
        "name": program.name,
        "tools": tools,
        "inputs": program.inputs,
    }
    if tools and (types := toolset.types_for(program.code)):
        message["types"] = types
    if program.inputs:
        wire.put_value(message, "inputs", program.inputs)
    if program.cwd:
        message["cwd"] = posixpath.join(root, program.cwd)
    if program.env:
        message["env"] = resolved(program.env, root)
    return message


def resolved(variables: Mapping[str, str], root: str) -> dict[str, str]:
    """Return variables in which the directories of `PYTHONPATH` are absolute; `root` is the guest's `/workspace`."""
    if "PYTHONPATH" not in variables:
        return dict(variables)
    folders = [_in_place(folder, root) for folder in variables["PYTHONPATH"].split(":") if folder]
    return {**variables, "PYTHONPATH": ":".join(folders)}


def _in_place(folder: str, root: str) -> str:
    path = PurePosixPath(posixpath.normpath(posixpath.join("/workspace", folder)))
    if path.is_relative_to("/workspace"):
        return str(root / path.relative_to("/workspace"))
    return f"{root}{path}" if path.parts[1:2] in (("input",), ("output",)) else str(path)


def check_given(program: Program, toolset: Toolset, policy: Policy, root: str) -> None:
    """Raise `InvalidValue` for a name that is both an input and a tool, and for import paths out of bounds."""
    if program.env:
        policy.check_imports(program.env, root)
    if program.inputs and (shared := set(toolset.aliases.values()) & set(program.inputs)):
        raise InvalidValue(f"{min(shared)!r} is both an input and a tool of this run; rename one")


def command_message(command: Command, stdin: bytes, cwd: str | None, root: str) -> dict[str, Any]:
    """Return the message that tells a guest to execute a command: text goes to a shell (bash if there is one).

    `cwd` is relative to `root`, the guest's workspace. Raises `InvalidValue` for an invalid command.
    """
    if not isinstance(command, Iterable):
        raise InvalidValue(f"execute() takes a command line (text) or a sequence of texts, not {command!r}")
    arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else [*command]
    if not arguments or not all(isinstance(argument, str) for argument in arguments):
        raise InvalidValue("execute() takes a command line (text) or a non-empty sequence of texts")
    if not isinstance(stdin, bytes) or not isinstance(cwd, (str, NoneType)):
        raise InvalidValue("execute() takes stdin as bytes and cwd as text")
    if any("\0" in argument for argument in (*arguments, cwd or "")):
        raise InvalidValue("a command cannot have a NUL character in it")
    if not all(can_be_bytes(argument) for argument in (*arguments, cwd or "")):
        raise InvalidValue("a command, its arguments and its cwd must be text without half of a surrogate pair")
    start = posixpath.join(root, cwd or "")
    return {"t": "exec", "arguments": arguments, "by_shell": isinstance(command, str), "cwd": start}


def command_variables(env: Mapping[str, str] | None, policy: Policy, root: str) -> dict[str, str]:
    """Return a command's environment variables: the policy's and its own. Raises `InvalidValue` as a run does."""
    own = check_variables(env or {})
    policy.check_imports(own, root)
    return {**policy.variables, **own}


@dataclass(frozen=True, slots=True)
class WallTime:
    """The seconds that one run may take. `warnings` says so if the policy allows less than the caller asked for."""

    seconds: float
    warnings: tuple[str, ...] = ()


def wall_time(timeout: float | None, most: float) -> WallTime:
    """Return the time of a run: `timeout`, or `most` (the policy's limit) if that is less. Raises `InvalidValue`."""
    if timeout is None:
        return WallTime(most)
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or math.isnan(timeout) or timeout <= 0:
        raise InvalidValue(f"timeout must be a number of seconds above zero, not {timeout!r}")
    if timeout <= most:
        return WallTime(timeout)
    return WallTime(most, (f"timeout={timeout:g} is more than the policy's wall_seconds={most:g}, which hold",))
