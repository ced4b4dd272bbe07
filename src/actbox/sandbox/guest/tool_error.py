"""`ToolError`, the exception that a program gets for a tool call that failed."""

from __future__ import annotations

import builtins

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict

# Built-in exceptions that a program can catch. Left out are those that end something (a generator, an iteration, the
# process) and those about the program itself (memory, an import, its syntax).
_CATCHABLE = frozenset(
    [
        *("ArithmeticError", "AssertionError", "AttributeError", "BlockingIOError", "BrokenPipeError"),
        *("BufferError", "ChildProcessError", "ConnectionAbortedError", "ConnectionError"),
        *("ConnectionRefusedError", "ConnectionResetError", "EOFError", "FileExistsError"),
        *("FileNotFoundError", "FloatingPointError", "IndexError", "InterruptedError", "IsADirectoryError"),
        *("KeyError", "LookupError", "NameError", "NotADirectoryError", "NotImplementedError", "OSError"),
        *("OverflowError", "PermissionError", "ProcessLookupError", "ReferenceError", "RuntimeError"),
        *("TimeoutError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError"),
        *("UnicodeError", "UnicodeTranslateError", "ValueError", "ZeroDivisionError"),
    ]
)


class ToolError(Exception):
    """A tool call failed; the message says how.

    `tool` is the tool's name; `refused` is true if approval was refused.
    """

    def __init__(self, message: str, tool: str = "", refused: bool = False) -> None:
        super().__init__(message)
        self.tool = tool
        self.refused = refused

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # a KeyError would quote it


# Programs see the bare name, as with a built-in exception.
ToolError.__module__ = "builtins"


def catchable(name: str) -> Any:
    """Return the built-in exception class of this name if programs may catch it, else `None`."""
    return getattr(builtins, name) if name in _CATCHABLE else None


def tool_error(answer: Dict[str, Any], tool: str) -> ToolError:
    """Return the error of an answer: a `ToolError` that is also an instance of the tool's built-in exception."""
    also = catchable(str(answer.get("builtin", "")))
    kind: Any = ToolError
    if also is not None:
        kind = type("ToolError", (ToolError, also), {"__module__": "builtins"})
    # Not by `kind(…)`: a UnicodeDecodeError needs five values, and a program gets only the message.
    error: ToolError = kind.__new__(kind)
    error.args = (str(answer["error"]),)
    error.tool, error.refused = tool, bool(answer.get("refused"))
    if "os_error" in answer:
        error.errno, error.strerror = answer["os_error"]  # type: ignore[attr-defined]
    return error
