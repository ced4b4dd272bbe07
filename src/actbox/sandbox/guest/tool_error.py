"""`ToolError`, the exception that a program gets for a tool call that failed."""

from __future__ import annotations

import builtins

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Sequence

# Built-in exceptions of a tool that a program gets as a `ToolError` alone. The first of them are about the program
# itself: its memory, its stack, its imports. Python takes the last two for the end of a loop: they would end a `map`
# silently, and become a `RuntimeError` where they leave a generator or a coroutine.
_NOT_CATCHABLE = frozenset(
    [
        *("MemoryError", "RecursionError", "ImportError", "ModuleNotFoundError"),
        *("StopIteration", "StopAsyncIteration"),
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


class NotInstalled(ModuleNotFoundError):
    """The program does not get a package; the message says why. `kind` and `hint` are those of the run's error."""

    kind = "MISSING_DEPENDENCY"
    hint = ""


# Programs see the bare name, as with a built-in exception.
ToolError.__module__ = NotInstalled.__module__ = "builtins"


def catchable(name: str) -> Any:
    """Return the built-in exception class of this name if programs may catch it, else `None`."""
    kind = getattr(builtins, name, None)
    if name in _NOT_CATCHABLE or kind is Exception or not (isinstance(kind, type) and issubclass(kind, Exception)):
        return None
    return kind


def tool_error(answer: Dict[str, Any], tool: str) -> ToolError:
    """Return the error of an answer: a `ToolError` that is also an instance of the tool's built-in exception."""
    message, also = str(answer["error"]), catchable(str(answer.get("builtin", "")))
    if "members" in answer and also is not None:
        return _group(also, message, [tool_error(member, tool) for member in answer["members"]], tool)
    kind: Any = ToolError
    if also is not None and also.__name__ != "ExceptionGroup":
        kind = type("ToolError", (ToolError, also), {"__module__": "builtins"})
    # Not by `kind(…)`: a UnicodeDecodeError needs five values, and a program gets only the message.
    error: ToolError = kind.__new__(kind)
    error.args = (message,)
    error.tool, error.refused = tool, bool(answer.get("refused"))
    if "os_error" in answer:
        error.errno, error.strerror = answer["os_error"]  # type: ignore[attr-defined]
    if isinstance(error, SyntaxError):
        error.msg = message
    return error


def _group(also: Any, message: str, members: Sequence[Exception], tool: str) -> ToolError:
    """Return a `ToolError` that is also an `ExceptionGroup`; so are the parts of it that `except*` makes."""

    def derive(self: Any, some: Sequence[Exception]) -> ToolError:
        return _group(also, message, some, tool)

    kind: Any = type("ToolError", (ToolError, also), {"__module__": "builtins", "derive": derive})
    error: ToolError = kind.__new__(kind, message, members)
    error.args = (message,)
    error.tool, error.refused = tool, False
    return error
