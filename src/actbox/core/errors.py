"""What can go wrong: the kinds a result reports, and the exceptions this library raises.

A program that fails is not an exception: it is an `ExecutionResult` whose `error` says what happened. Exceptions
are for the caller's own mistakes (a policy that makes no sense) and for what this machine cannot do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class ErrorKind(Enum):
    """Why a run failed. The value is the name that JSON carries."""

    SYNTAX = "SYNTAX"
    """The source is not a program."""
    MISSING_DEPENDENCY = "MISSING_DEPENDENCY"
    """The program imports a package that its environment lacks."""
    RUNTIME = "RUNTIME"
    """The program raised an exception."""
    TOOL = "TOOL"
    """A tool call failed and the program did not catch it."""
    EXIT = "EXIT"
    """The program or command ended itself with a non-zero code."""
    TIMEOUT = "TIMEOUT"
    """Wall time (`limit: wall_seconds`) or CPU time (`limit: cpu_seconds`) ran out."""
    MEMORY = "MEMORY"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    DISK = "DISK"
    """A file or the workspace outgrew its limit."""
    PROCESSES = "PROCESSES"
    """Too many processes or threads."""
    POLICY = "POLICY"
    """The program asked for what its policy or the sandbox's kernel filter denies."""
    NETWORK = "NETWORK"
    """The program asked for a network that it does not have."""
    TYPE = "TYPE"
    """A static check refused the program before it ran."""
    UNSUPPORTED = "UNSUPPORTED"
    """This engine lacks what the program needs, or does not take the program as it was given."""
    BUDGET = "BUDGET"
    """A budget other than time or memory is spent: tool calls, steps."""
    CANCELLED = "CANCELLED"
    CRASH = "CRASH"
    """The program died by a signal, which the error's type names."""
    PROTOCOL = "PROTOCOL"
    """The guest broke the rules of the channel and was ended."""
    SANDBOX = "SANDBOX"
    """The sandbox itself failed: a fault of ours or of the machine, not of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """Why a run failed, in words that a model can act on.

    `type` is the exception's class name, a signal's name, or empty; `line` counts from 1 in the program's own source;
    `traceback` has the program's own frames only; `limit` names the field of `Limits` that was reached,
    or what else a language bounds (`steps`, `depth`, `value_bytes` of RTFS); `hint` says what to do about it.
    """

    kind: ErrorKind
    type: str = ""
    message: str = ""
    line: int | None = None
    traceback: str = ""
    hint: str = ""
    limit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, the kind as its upper-case name."""
        return {
            "kind": self.kind.value,
            "type": self.type,
            "message": self.message,
            "line": self.line,
            "traceback": self.traceback,
            "hint": self.hint,
            "limit": self.limit,
        }


class ActboxError(Exception):
    """Every exception that this library raises on purpose."""


class InvalidValue(ActboxError, ValueError):
    """A policy, program or setting makes no sense; the message names the field and says what would."""


class Unsupported(ActboxError):
    """This engine or machine cannot do what was asked; the message names what can."""


class SandboxUnavailable(ActboxError):
    """No sandbox could be opened here; the message says why and what to do (`actbox doctor` says more)."""


class SandboxStopped(ActboxError):
    """The sandbox was used before `start()` or after `stop()`."""


class CannotFork(ActboxError):
    """A session cannot be copied as it is now; the message says why, and names the threads where it has some."""


class FileError(ActboxError, OSError):
    """A workspace file method failed; the message names the path inside the sandbox."""


class ToolError(ActboxError):
    """A tool call failed. `tool` is the tool's name; the message is fit for a model to read.

    A host function may raise it itself to choose the message that the program sees.
    """

    def __init__(self, message: str, *, tool: str = "") -> None:
        super().__init__(message)
        self.tool = tool
