"""Errors: the kinds of failure that a result reports, and the exceptions that this library raises.

A program that fails is not an exception: it is an `ExecutionResult` whose `error` says what happened. Exceptions
are for the caller's own mistakes (a policy that makes no sense) and for what this machine cannot do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Self

from .lazy_dataclass import dataclass


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
    """The program asked for something that its policy or the sandbox's kernel filter denies."""
    NETWORK = "NETWORK"
    """The program asked for a network that it does not have."""
    TYPE = "TYPE"
    """A static check refused the program before it ran."""
    UNSUPPORTED = "UNSUPPORTED"
    """This engine lacks a feature that the program needs, or does not accept the program in this form."""
    BUDGET = "BUDGET"
    """A budget other than time or memory is spent: tool calls, steps."""
    CANCELLED = "CANCELLED"
    CRASH = "CRASH"
    """The program died by a signal, which the error's type names."""
    PROTOCOL = "PROTOCOL"
    """The guest violated the protocol of the channel and was ended."""
    SANDBOX = "SANDBOX"
    """The sandbox itself failed: a fault of ours or of the machine, not of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """Why a run failed, in words that a model can act on.

    `type` is the exception's class name, a signal's name, or empty; `line` counts from 1 in the program's own source;
    `traceback` has the program's own frames only; `limit` names the field of `Limits` that was reached,
    or what else an engine bounds (`steps`, `depth`, `value_bytes` of RTFS; `epoll_watches`, `file_locks` of linux);
    `hint` says what to do about the error.
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
    """The base class of every exception that this library raises on purpose."""


class InvalidValue(ActboxError, ValueError):
    """A policy, program or setting is invalid; the message names the field and a valid value."""


class Unsupported(ActboxError):
    """This engine or machine does not support the request; the message names one that does."""


class SandboxUnavailable(ActboxError):
    """No sandbox could be opened here; the message says why and what to do (`actbox doctor` says more)."""


class SandboxStopped(ActboxError):
    """The sandbox was used before `start()` or after `stop()`."""


class CannotFork(ActboxError):
    """The session cannot be copied in its present state; the message says why, and names the threads if it has any."""


class FileError(ActboxError, OSError):
    """A workspace file method failed; the message names the path inside the sandbox."""


class ToolError(ActboxError):
    """A tool call failed. `tool` is the tool's name; the message is fit for a model to read.

    `builtin` names the built-in exception that the host function raised, or its nearest built-in base class: programs
    can catch the error as that too. `os_error` has the number and the text of an `OSError`, which become the program's
    `errno` and `strerror`. `members` are the errors in an `ExceptionGroup`, for `except*`. A host function may raise
    `ToolError` itself to choose the message that the program sees.
    """

    def __init__(
        self,
        message: str,
        *,
        tool: str = "",
        builtin: str = "",
        os_error: tuple[int, str] | None = None,
        members: Sequence[ToolError] = (),
    ) -> None:
        super().__init__(message)
        self.tool = tool
        self.builtin = builtin
        self.os_error = os_error
        self.members = tuple(members)

    def as_answer(self) -> dict[str, Any]:
        """Return the error as the dictionary that the channel sends to the guest."""
        answer: dict[str, Any] = {"error": str(self), "builtin": self.builtin}
        if self.os_error is not None:
            answer["os_error"] = list(self.os_error)
        if self.members:
            answer["members"] = [member.as_answer() for member in self.members]
        return answer

    @classmethod
    def of_answer(cls, answer: Mapping[str, Any], tool: str) -> Self:
        """Return the error that an answer was made of."""
        return cls(
            str(answer["error"]),
            tool=tool,
            builtin=answer.get("builtin", ""),
            os_error=tuple(answer["os_error"]) if "os_error" in answer else None,
            members=[ToolError.of_answer(member, tool) for member in answer.get("members", ())],
        )
