"""What the framework calls tools, as tools that programs can call.

A call goes through `FunctionTool.invoke` of the very object that was given, so that validation, spans and the limits on
invocations are the framework's own.
"""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from agent_framework import FunctionTool, MiddlewareFailure, normalize_tools
from agent_framework.exceptions import AgentFrameworkException, UserInputRequiredException

from actbox.codeact.config import ToolEntry
from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool
from actbox.tools.annotated import output_schema
from actbox.tools.host_function import EMPTY, HostFunction

from .invocation import Invocation, current
from .tool_results import plain

_log = logging.getLogger("actbox")

_SECURITY: Final = frozenset(
    {"accepts_untrusted", "confidentiality", "max_allowed_confidentiality", "source_integrity"}
)
"""Additional properties of tools that `agent_framework.security` goes by."""


@runtime_checkable
class McpServer(Protocol):
    """The framework's clients of MCP servers, such as `MCPStdioTool`."""

    name: str
    is_connected: bool

    @property
    def functions(self) -> list[FunctionTool]:
        """Its tools, while it is connected."""
        ...

    async def connect(self) -> None:
        """Connect, and load the tools."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


def tools_in(given: Any) -> list[Any]:
    """Return what was given as a list of tools: the framework's own, functions made into such, and ours."""
    if isinstance(given, Tool):
        return [given]
    if not isinstance(given, (list, tuple)):
        return list(normalize_tools(given))
    found: list[Any] = []
    for one in given:
        found.extend([one] if isinstance(one, Tool) else normalize_tools(one) if one else [one])
    return found


def entry_of(given: Any) -> ToolEntry:
    """Return the entry of one tool. Raises `InvalidValue` for what programs cannot call, and says why not."""
    if isinstance(given, Tool):
        return ToolEntry.of(given)
    if isinstance(given, FunctionTool):
        if given.declaration_only:
            raise InvalidValue(
                f"the tool {given.name!r} is only declared, and has no function that a program could call: give it to"
                " the agent itself (tools=…)"
            )
        if _SECURITY.intersection(given.additional_properties or ()):
            _log.warning(
                "the tool %r has labels for the framework's security middleware, which does not see calls of programs:"
                " give such a tool to the agent itself (tools=…)",
                given.name,
            )
        adapted = _Adapted(given)
        adapted()  # what cannot be a tool is refused now
        return ToolEntry(name=given.name, given=given, tools=adapted)
    if isinstance(given, McpServer):
        return ToolEntry(name=given.name, given=given, tools=_Server(given), group=given.name)
    if isinstance(given, Mapping):
        named = given.get("name") or given.get("type") or "without a name"
        raise InvalidValue(
            f"the tool {named!r} is a specification for a model's provider, which runs it, and a program cannot call"
            " it: give it to the agent itself (tools=…), or write a function"
        )
    raise InvalidValue(
        f"a program cannot call {given!r}: give functions, FunctionTools, or MCP servers such as MCPStdioTool(…)"
    )


class _Adapted:
    """One `FunctionTool` as a tool: the same object as long as what is said of it stays the same."""

    def __init__(self, function: FunctionTool) -> None:
        self._function = function
        self._made: tuple[Tool, ...] = ()
        self._of: tuple[Any, ...] = ()

    def __call__(self) -> tuple[Tool, ...]:
        function = self._function
        said = (function.name, function.description, function.approval_mode, function.parameters())
        if said != self._of:
            self._of, self._made = said, (_tool_of(function),)
        return self._made


class _Server:
    """The tools of an MCP server, as they are at the moment."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._known: dict[str, tuple[FunctionTool, _Adapted]] = {}

    def __call__(self) -> tuple[Tool, ...]:
        if not self._server.is_connected:
            raise InvalidValue(
                f"the MCP server {self._server.name!r} is not connected: a provider connects it when a run begins;"
                " with a tool that stands alone, use `async with` on either of them first"
            )
        known: dict[str, tuple[FunctionTool, _Adapted]] = {}
        for function in self._server.functions:
            there = self._known.get(function.name)
            known[function.name] = there if there and there[0] is function else (function, _Adapted(function))
        self._known = known
        return tuple(tool for _, adapted in known.values() for tool in adapted())


def _tool_of(function: FunctionTool) -> Tool:
    returns, schema = _returns(function)
    return Tool.from_schema(
        function.name,
        function.description or "",
        function.parameters(),
        _caller(function),
        output_schema=schema,
        approval=function.approval_mode,
        returns=returns,
        checked=False,
    )


def _caller(function: FunctionTool) -> Callable[..., Any]:
    async def call(**arguments: Any) -> Any:
        invocation = current.get() or Invocation()
        if invocation.abort is not None:
            raise ToolError("the run is being ended, and no more calls are made", tool=function.name)
        try:
            value = await function.invoke(
                arguments=arguments,
                context=invocation.context_for(function, arguments),
                tool_call_id=invocation.next_call_id(),
                skip_parsing=True,
            )
        except MiddlewareFailure as error:
            invocation.abort = error
            raise
        except UserInputRequiredException as error:
            raise ToolError(
                f"the tool {function.name!r} wants an answer of the user, which a program cannot get: {error}",
                tool=function.name,
            ) from error
        except (AgentFrameworkException, TypeError) as error:
            # Their messages are written to be read; an exception of the tool's own function is told with its type.
            if isinstance(error, TypeError) and not type(error).__module__.startswith("agent_framework"):
                raise
            raise ToolError(str(error), tool=function.name) from error
        return plain(value, function.name)

    return call


def _returns(function: FunctionTool) -> tuple[Any, dict[str, Any] | None]:
    """Return what the tool's own function says that it returns, and the JSON schema of that; nothing where it is none.

    A type without a JSON form, such as a list of `Content`, says nothing: what comes back is looked at then.
    """
    own = function.func.func if isinstance(function.func, FunctionTool) else function.func
    called = own if inspect.isroutine(own) else type(own).__call__
    try:
        returns = typing.get_type_hints(called, include_extras=True).get("return", EMPTY)
        return returns, output_schema(HostFunction(_returns, function.name, "", True, returns=returns))
    except (InvalidValue, NameError, TypeError, AttributeError):  # the last three: it names what cannot be found
        return EMPTY, None
