"""One run: evaluates a program in its own task, which the clock, the sandbox or the caller can end."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.rtfs.background import in_background
from actbox.rtfs.conversion import to_json
from actbox.rtfs.errors import ReadError, excerpt_of, line_start
from actbox.rtfs.evaluator import Interpreter
from actbox.rtfs.failures import BudgetExhausted, RtfsError
from actbox.rtfs.values import Value, quoted, show, size_of
from actbox.sandbox.embedded import Outcome
from actbox.sandbox.embedded.running import Asked, EmbeddedRun, stopped
from actbox.sandbox.guest.value import MAX_TEXT
from actbox.sandbox.guest.wire import is_too_deep
from actbox.sandbox.run_end import Stop, lost_value

from .calls import SENT_AT_ONCE, Refused, RunHost, ToolFailure

_log = logging.getLogger("actbox")
_KILLED: Final = 128 + signal.SIGKILL
_HINTS: Final = {
    "steps": "use a function of the library instead of a loop, or do less in one run",
    "value_bytes": "make a smaller value: take what is needed, or reduce as you go",
    "memory_bytes": "work on less at a time, and let go of what is no longer needed",
    "tool_calls": "make fewer calls in one run: ask for more with each",
    "tool_bytes": "ask tools for less",
}


class RtfsRun(EmbeddedRun):
    """One program in an interpreter whose host makes the tool calls."""

    def __init__(self, asked: Asked, interpreter: Callable[[RunHost], Interpreter]) -> None:
        """`interpreter` is called with the run's host and returns the interpreter, with the program's inputs bound."""
        super().__init__(asked)
        self._interpreter = interpreter

    def _answering(self) -> RunHost:
        asked = self.asked
        self._host = RunHost(asked.toolset, asked.program.code, self.clock, asked.limits, self.tell)
        return self._host

    def _out_of_time(self) -> Stop:
        return replace(super()._out_of_time(), hint="do less in one run, or ask for a longer timeout")

    def _evaluate(self) -> Coroutine[Any, Any, Outcome]:
        return self._evaluated_by(self._interpreter(self._host))

    async def _evaluated_by(self, interpreter: Interpreter) -> Outcome:
        source, most = self.asked.program.code, self.asked.limits.message_bytes
        try:
            value = await interpreter.eval_async(source)
            tell = partial(succeeded, value, most)
            return tell() if size_of(value) <= SENT_AT_ONCE else await in_background(tell, _nothing)
        except (ReadError, RtfsError) as error:
            return failed(error, source)
        except Exception as error:  # a bug of ours becomes a result, so that the agent can go on
            _log.error("an RTFS program could not be evaluated", exc_info=error)
            return stopped(Stop(ErrorKind.SANDBOX, f"the evaluator failed: {type(error).__name__}: {error}"))


def _nothing() -> None:
    """Do nothing on cancellation: making the outcome ends soon by itself."""


def succeeded(value: Value, message_bytes: int) -> Outcome:
    """Return the outcome of a program with this value."""
    if value is None:
        return Outcome(value_text="nil")
    data, lost = _json_of(value, message_bytes // 4)
    return Outcome(value=data, value_text=_text(value), warnings=lost_value(lost))


def failed(error: RtfsError | ReadError, source: str) -> Outcome:
    """Return the outcome of a program that ended with this error."""
    if isinstance(error, ReadError):
        message = f"{error.message}; expected {error.expected}" if error.expected else error.message
        info = ErrorInfo(
            kind=ErrorKind.SYNTAX,
            type="ReadError",
            message=message,
            line=error.line or None,
            traceback=_traceback("ReadError", message, error.line, error.column, error.excerpt),
        )
        return Outcome(exit_code=1, error=info)
    info = ErrorInfo(
        kind=_kind_of(error),
        type=error.name,
        message=error.message,
        line=error.line or None,
        hint=error.hint,
        traceback=_traceback(error.name, error.message, error.line, error.column, _excerpt(error, source)),
    )
    if not isinstance(error, BudgetExhausted):
        return Outcome(exit_code=1, error=info)
    limit = "memory_mib" if error.limit == "memory_bytes" else error.limit
    info = replace(info, limit=limit, hint=error.hint or _HINTS.get(error.limit, ""))
    return Outcome(exit_code=_KILLED, error=info)


def _kind_of(error: RtfsError) -> ErrorKind:
    if isinstance(error, BudgetExhausted):
        return ErrorKind.MEMORY if error.limit == "memory_bytes" else ErrorKind.BUDGET
    if isinstance(error, ToolFailure):
        return ErrorKind.TOOL
    if isinstance(error, Refused) or error.name == "SecurityViolation":
        return ErrorKind.POLICY
    return ErrorKind.SYNTAX if error.name == "SyntaxError" else ErrorKind.RUNTIME


def _json_of(value: Value, most: int) -> tuple[Any, str]:
    """Return a value as JSON data and ""; or `None` and the reason, if it has no JSON form or is too large."""
    try:
        data = to_json(value)
        if type(data) not in (list, dict, str):
            return data, ""
        text = json.dumps(data, allow_nan=False)
    except (RtfsError, RecursionError, ValueError) as error:
        return None, f"value: {error.message if isinstance(error, RtfsError) else error}"
    if len(text) > most:
        return None, f"value: a message of {len(text):,} bytes; the limit is {most:,} (a quarter of message_bytes)"
    return (None, "value is nested too deeply") if is_too_deep(text) else (data, "")


def _text(value: Value) -> str:
    text = quoted(value) if isinstance(value, str) else show(value, exact=True)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"


def _traceback(name: str, message: str, line: int, column: int, excerpt: str) -> str:
    return f"line {line}, column {column}:\n{excerpt}\n{name}: {message}" if line and excerpt else ""


def _excerpt(error: RtfsError, source: str) -> str:
    if not error.line:
        return ""
    return excerpt_of(source, line_start(source, error.line) + error.column - 1)
