"""From what an evaluation came to, a value or an error of the language, to the words of a result."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from typing import Any, Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.result import ExecutionResult
from actbox.rtfs.conversion import to_json
from actbox.rtfs.errors import ReadError, excerpt_of, line_start
from actbox.rtfs.failures import BudgetExhausted, RtfsError
from actbox.rtfs.text import quoted, show
from actbox.rtfs.values import Value
from actbox.sandbox.ending import Stop
from actbox.sandbox.guest.value import MAX_TEXT
from actbox.sandbox.guest.wire import is_too_deep
from actbox.sandbox.verdict import EXIT_SANDBOX_FAILED, EXIT_TIMEOUT

from .calls import Refused, ToolFailure

_KILLED: Final = 128 + signal.SIGKILL
_HINTS: Final = {
    "steps": "use a function of the library instead of a loop, or do less in one run",
    "value_bytes": "make a smaller value: take what is needed, or reduce as you go",
    "memory_bytes": "work on less at a time, and let go of what is no longer needed",
    "tool_calls": "make fewer calls in one run: ask for more with each",
    "tool_bytes": "ask tools for less",
}


def succeeded(value: Value, message_bytes: int, engine: str) -> ExecutionResult:
    """Return the result of a program with this value."""
    if value is None:
        return ExecutionResult(value_text="nil", sandbox=engine)
    return ExecutionResult(value=_json_of(value, message_bytes // 4), value_text=_text(value), sandbox=engine)


def failed(error: RtfsError | ReadError, source: str, engine: str) -> ExecutionResult:
    """Return the result of a program that ended with this error."""
    if isinstance(error, ReadError):
        message = f"{error.message}; expected {error.expected}" if error.expected else error.message
        info = ErrorInfo(
            kind=ErrorKind.SYNTAX,
            type="ReadError",
            message=message,
            line=error.line or None,
            traceback=_traceback("ReadError", message, error.line, error.column, error.excerpt),
        )
        return ExecutionResult(exit_code=1, error=info, sandbox=engine)
    info = ErrorInfo(
        kind=_kind_of(error),
        type=error.name,
        message=error.message,
        line=error.line or None,
        hint=error.hint,
        traceback=_traceback(error.name, error.message, error.line, error.column, _excerpt(error, source)),
    )
    if not isinstance(error, BudgetExhausted):
        return ExecutionResult(exit_code=1, error=info, sandbox=engine)
    limit = "memory_mib" if error.limit == "memory_bytes" else error.limit
    info = replace(info, limit=limit, hint=error.hint or _HINTS.get(error.limit, ""))
    return ExecutionResult(exit_code=_KILLED, error=info, sandbox=engine)


def stopped(stop: Stop, engine: str) -> ExecutionResult:
    """Return the result of a program that the host ended."""
    code = EXIT_TIMEOUT if stop.kind is ErrorKind.TIMEOUT else _KILLED
    code = EXIT_SANDBOX_FAILED if stop.kind is ErrorKind.SANDBOX else code
    info = ErrorInfo(kind=stop.kind, message=stop.message, limit=stop.limit, hint=stop.hint)
    return ExecutionResult(exit_code=code, error=info, sandbox=engine)


def _kind_of(error: RtfsError) -> ErrorKind:
    if isinstance(error, BudgetExhausted):
        return ErrorKind.MEMORY if error.limit == "memory_bytes" else ErrorKind.BUDGET
    if isinstance(error, ToolFailure):
        return ErrorKind.TOOL
    if isinstance(error, Refused) or error.name == "SecurityViolation":
        return ErrorKind.POLICY
    return ErrorKind.SYNTAX if error.name == "SyntaxError" else ErrorKind.RUNTIME


def _json_of(value: Value, most: int) -> Any:
    try:
        data = to_json(value)
        if type(data) not in (list, dict, str):
            return data
        text = json.dumps(data, allow_nan=False)
    except (RtfsError, RecursionError, ValueError):  # what is no JSON is told as text
        return None
    return None if len(text) > most or is_too_deep(text) else data


def _text(value: Value) -> str:
    text = quoted(value) if isinstance(value, str) else show(value, exact=True)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"


def _traceback(name: str, message: str, line: int, column: int, excerpt: str) -> str:
    return f"line {line}, column {column}:\n{excerpt}\n{name}: {message}" if line and excerpt else ""


def _excerpt(error: RtfsError, source: str) -> str:
    if not error.line:
        return ""
    return excerpt_of(source, line_start(source, error.line) + error.column - 1)
