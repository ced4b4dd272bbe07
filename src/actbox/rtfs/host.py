"""Hosts, which answer a program's `(call :name …)`: one that refuses all, one that allows some, and one with a
toolset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from actbox.core.errors import ToolError
from actbox.tools import Tool, Toolset
from actbox.tools.json_form import spelled_out

from .conversion import from_json, to_json
from .failures import RtfsError
from .values import Map, Value


@runtime_checkable
class Host(Protocol):
    """The interface that answers host calls."""

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value | Awaitable[Value]:
        """Return the value of one call, or an awaitable of it: a value of RTFS, or JSON data.

        `meta` is what `^{…}` before the call said, as JSON data. An `RtfsError` that is raised is the program's to
        catch, under its own name; any other exception becomes one named Generic with the exception's type and
        message. What is returned and is no value is a TypeError of the program. It may evaluate RTFS itself, to a
        bounded depth, but not with the interpreter that is waiting for it.
        """


class _Pure:
    """A host that refuses every call."""

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value:
        raise RtfsError("SecurityViolation", f"{name} was called, and this program may call nothing")


PURE: Host = _Pure()
"""The host for programs that may call nothing."""


class Controlled:
    """A host of which only some capabilities may be called."""

    def __init__(self, host: Host, allowed: Iterable[str]) -> None:
        self._host = host
        self._allowed = frozenset(allowed)

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value | Awaitable[Value]:
        """Pass the call on, or raise SecurityViolation if its name is not allowed."""
        if name not in self._allowed:
            names = ", ".join(sorted(self._allowed)) or "nothing"
            raise RtfsError("SecurityViolation", f"{name} may not be called; this program may call {names}")
        return self._host.call(name, arguments, meta)


class ToolHost:
    """Calls the tools of a toolset, the same that programs in sandboxes call.

    A single map whose keys are all names of the tool's parameters is taken for named arguments; others bind in order.
    Raises `InvalidValue` where a tool requires an approval that nobody has given: who is asked is the sandbox's affair.
    """

    def __init__(self, tools: Toolset | Iterable[Any] | None) -> None:
        self.toolset = Toolset.for_run(tools)

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Awaitable[Value]:
        """Call the tool of that name. Raises UnknownCapability if there is none."""
        tool = self.toolset.get(name)
        if tool is None:
            raise RtfsError("UnknownCapability", self.toolset.unknown(name))
        if self.toolset.requires(tool):
            raise RtfsError("SecurityViolation", f"{name} requires an approval, which RTFS programs cannot wait for")
        return _answered(tool, named_arguments(tool, arguments))


async def _answered(tool: Tool, arguments: dict[str, Any]) -> Value:
    try:
        answer = await tool.call(arguments)
    except ToolError as error:
        raise RtfsError("Generic", f"{tool.name}: {error}") from None
    if isinstance(answer, bytes):
        raise RtfsError("TypeError", f"{tool.name} gave bytes, which RTFS does not have")
    return from_json(spelled_out(answer), loose=True)


def named_arguments(tool: Tool, arguments: tuple[Value, ...]) -> dict[str, Any]:
    """Return the arguments by the names of the tool's parameters, as JSON data. Raises ArityMismatch for too many."""
    if len(arguments) == 1 and type(arguments[0]) is Map and len(arguments[0]):
        named: dict[str, Any] = to_json(arguments[0])
        if tool.variadic or named.keys() <= set(tool.input_schema.get("properties", {})):
            return named
    if tool.collects and len(arguments) > len(tool.parameters):
        further = [to_json(value) for value in arguments[len(tool.parameters) :]]
        return named_arguments(tool, arguments[: len(tool.parameters)]) | {tool.collects: further}
    if len(arguments) > len(tool.parameters):
        raise RtfsError("ArityMismatch", f"{tool.name}{tool.signature} was called with {len(arguments)} arguments")
    return {name: to_json(value) for name, value in zip(tool.parameters, arguments, strict=False)}


@dataclass(frozen=True, slots=True)
class HostCallStarted:
    """The program called the host. `call_id` counts from 1 within the evaluation; `arguments` are values of RTFS."""

    call_id: int
    name: str
    arguments: tuple[Value, ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostCallFinished:
    """The host call ended: with a value, or with the error that the program got."""

    call_id: int
    name: str
    value: Value = None
    error: RtfsError | None = None
    wall_ms: float = 0.0


HostEvent = HostCallStarted | HostCallFinished
