"""One of the framework's tools as a tool that programs can call.

A call goes through `FunctionTool.invoke` of the very object that was given, so that validation, spans and the limits on
invocations are the framework's own.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionTool, MiddlewareFailure
from agent_framework.exceptions import AgentFrameworkException, UserInputRequiredException

from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool
from actbox.tools.annotated import output_schema
from actbox.tools.host_function import EMPTY, HostFunction

from .invocation import Invocation, current
from .tool_arguments import FrameworkArguments, own_function
from .tool_results import data_of, plain


@dataclass(frozen=True, slots=True)
class Returns:
    """What a tool returns: its JSON schema, its type, and whether it comes as JSON in text."""

    schema: Mapping[str, Any] | None = None
    annotation: Any = EMPTY
    is_json: bool = False


class Adapted:
    """One `FunctionTool` as a tool: the same object as long as what is said of it stays the same."""

    def __init__(self, function: FunctionTool, returns: Returns | None = None) -> None:
        """`returns` says what comes back where the function itself does not."""
        self._function = function
        self._returns = returns
        self._made: tuple[Tool, ...] = ()
        self._of: tuple[Any, ...] = ()

    def __call__(self) -> tuple[Tool, ...]:
        """Return it alone."""
        function = self._function
        said = (function.name, function.description, function.approval_mode, function.parameters())
        if said != self._of:
            self._of, self._made = said, (_tool_of(function, self._returns or _returns(function)),)
        return self._made


def _tool_of(function: FunctionTool, returns: Returns) -> Tool:
    return Tool.from_schema(
        function.name,
        function.description or "",
        function.parameters(),
        _caller(function, returns.is_json),
        output_schema=returns.schema,
        approval=function.approval_mode,
        returns=returns.annotation,
        arguments=FrameworkArguments(function),
    )


def _caller(function: FunctionTool, is_json: bool) -> Callable[..., Any]:
    async def call(context: FunctionInvocationContext, /, **arguments: Any) -> Any:
        invocation = current.get() or Invocation()
        if invocation.abort is not None:
            raise ToolError("the run is being ended, and no more calls are made", tool=function.name)
        try:
            value = await function.invoke(
                arguments=arguments,
                context=context,
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
        result = plain(value, function.name)
        return data_of(result, function.name) if is_json and isinstance(result, str) else result

    return call


def _returns(function: FunctionTool) -> Returns:
    """Return what the tool's own function says that it returns, and the JSON schema of that; nothing where it is none.

    A type without a JSON form, such as a list of `Content`, says nothing: what comes back is looked at then.
    """
    own = own_function(function)
    called = own if inspect.isroutine(own) else type(own).__call__
    try:
        returns = typing.get_type_hints(called, include_extras=True).get("return", EMPTY)
        return Returns(output_schema(HostFunction(_returns, function.name, "", True, returns=returns)), returns)
    except (InvalidValue, NameError, TypeError, AttributeError):  # the last three: it names what cannot be found
        return Returns()
