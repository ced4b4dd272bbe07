"""Adapts the framework's tools for programs: their schemas, arguments and results.

The framework checks and converts the arguments, once. A call goes through `FunctionTool.invoke` of the given object
itself, so validation, spans and limits on invocations are the framework's own.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_framework import Content, FunctionInvocationContext, FunctionTool, MiddlewareFailure
from agent_framework.exceptions import AgentFrameworkException, UserInputRequiredException
from pydantic.fields import FieldInfo

from actbox.core.errors import InvalidValue, ToolError
from actbox.integrations.call_sizes import check_size
from actbox.integrations.versions import expect
from actbox.tools import Tool
from actbox.tools.annotation_schema import output_schema
from actbox.tools.hidden_parts import HiddenParts
from actbox.tools.host_function import EMPTY, HostFunction
from actbox.tools.json_form import NoJsonForm, json_form
from actbox.tools.problems import failure
from actbox.tools.schema_arguments import SchemaArguments

from .invocation import Invocation, current

expect(FunctionTool, "_prepare_context_arguments")

Bound = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Returns:
    """A tool's return value: its JSON schema, its type, and whether it arrives as JSON text."""

    schema: Mapping[str, Any] | None = None
    annotation: Any = EMPTY
    is_json: bool = False


class AdaptedTool:
    """Adapts one `FunctionTool` to a `Tool`; returns the same object until the function's description changes."""

    def __init__(self, function: FunctionTool, returns: Returns | None = None) -> None:
        """`returns` describes the return value, by default as the function itself declares it."""
        self._function = function
        self._returns = returns
        self._made: tuple[Tool, ...] = ()
        self._of: tuple[Any, ...] = ()

    def __call__(self) -> tuple[Tool, ...]:
        """Return the tool, as the only element of a tuple."""
        function = self._function
        definition = (function.name, function.description, function.approval_mode, function.parameters())
        if definition != self._of:
            self._of, self._made = definition, (_tool_of(function, self._returns or _returns(function)),)
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
            # Messages of these errors are written for readers; other exceptions keep their type.
            if isinstance(error, TypeError) and not type(error).__module__.startswith("agent_framework"):
                raise
            raise ToolError(str(error), tool=function.name) from error
        result = plain(value, function.name)
        return data_of(result, function.name) if is_json and isinstance(result, str) else result

    return call


class FrameworkArguments(SchemaArguments):
    """The arguments of one `FunctionTool`, checked and converted as `FunctionTool.invoke` does it.

    For wrong arguments a program receives the framework's message. The framework silently drops unknown names; here
    they are refused, unless the tool's schema allows more.
    """

    def __init__(self, function: FunctionTool) -> None:
        super().__init__(function.name, function.parameters())
        self._function = function

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """Return the call's context and the converted arguments. Raises `ToolError`."""
        self._refuse_unknown(arguments)
        check_size(self._function.name, arguments)
        context = (current.get() or Invocation()).context_for(self._function, arguments)
        return (context,), self._prepared(context, arguments)

    @cached_property
    def _hiding(self) -> set[str]:
        model = self._function.input_model
        return set() if model is None else HiddenParts(model.__pydantic_core_schema__).hiding

    def may_hide(self, name: str) -> bool:
        """Return whether an argument's type may hide a part of its value when it is shown."""
        return name in self._hiding

    def settle(self, bound: Bound) -> tuple[Bound, dict[str, Any]]:
        """Return the arguments to pass, and as JSON data those that the function will use, defaults included.

        A function's own defaults are only shown. Defaults of a JSON schema are passed, because the function may run
        elsewhere. Raises `ToolError` for an argument without a JSON form, unless it is a function's own default.
        """
        (context,), passed = bound
        if self._function.input_model is None:
            passed = self._prepared(context, self._with_defaults(passed))
        form = self._shown(passed)
        return ((context,), passed), form | {name: value for name, value in self._own() if name not in passed}

    def _prepared(self, context: FunctionInvocationContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # The context keeps this value, and `invoke` uses it as prepared: nothing is converted twice.
        try:
            return self._function._prepare_context_arguments(context, arguments)
        except TypeError as error:
            if not type(error).__module__.startswith("agent_framework"):
                raise failure(self._tool, error) from error
            raise failure(self._tool, ToolError(str(error))) from error
        except Exception as error:  # a validator of the host may raise anything
            raise failure(self._tool, error) from error

    def _own(self) -> Iterator[tuple[str, Any]]:
        """Yield the defaults of the tool's function that have a JSON form, for arguments that programs may omit."""
        if self._function.input_model is None:
            return
        for parameter in inspect.signature(own_function(self._function)).parameters.values():
            default = parameter.default
            if parameter.name not in self._properties or default is EMPTY or isinstance(default, FieldInfo):
                continue
            try:
                yield parameter.name, json_form(default)
            except NoJsonForm:
                continue


def own_function(tool: FunctionTool) -> Any:
    """Return the host function behind a tool."""
    return tool.func.func if isinstance(tool.func, FunctionTool) else tool.func


def _returns(function: FunctionTool) -> Returns:
    """Return the return type that the tool's function declares, and its JSON schema; an empty `Returns` if it has none.

    A type without a JSON form, such as a list of `Content`, declares nothing: each result is then examined.
    """
    own = own_function(function)
    called = own if inspect.isroutine(own) else type(own).__call__
    try:
        returns = typing.get_type_hints(called, include_extras=True).get("return", EMPTY)
        return Returns(output_schema(HostFunction(_returns, function.name, "", True, returns=returns)), returns)
    except (InvalidValue, NameError, TypeError, AttributeError):  # the last three: the annotation cannot be resolved
        return Returns()


def plain(value: Any, tool: str) -> Any:
    """Return a tool's result without the framework's `Content`.

    One text becomes a string, one file its bytes, one link its address, and an empty list `None`. Several items become
    a list of objects, each with its `type`, and files in base64. An error item is raised as `ToolError`. A result
    without `Content` is returned unchanged.
    """
    if isinstance(value, Content):
        return _one([value], tool)
    if isinstance(value, list) and value and all(isinstance(item, Content) for item in value):
        return _one(value, tool)
    return value


def data_of(text: str, tool: str) -> Any:
    """Return the parsed data of a result in JSON text. Raises `ToolError`."""
    try:
        return json.loads(text)
    except ValueError:
        raise ToolError("it declares that it returns data, and returned text that is no JSON", tool=tool) from None


def _one(items: list[Content], tool: str) -> Any:
    for item in items:
        if item.type == "error":
            message = ": ".join(text for text in (item.message, item.error_details) if text)
            raise ToolError(message or "the tool failed and does not say why", tool=tool)
    if len(items) > 1:
        return [_form(item) for item in items]
    (item,) = items
    if item.type in ("text", "text_reasoning"):
        return item.text
    if item.type == "data":
        return _bytes_of(item)
    return item.uri if item.type == "uri" else _form(item)


def _form(item: Content) -> dict[str, Any]:
    if item.type == "text":
        return {"type": "text", "text": item.text}
    if item.type == "data":
        encoded = base64.b64encode(_bytes_of(item)).decode("ascii")
        return {"type": "data", "media_type": item.media_type, "base64": encoded}
    return item.to_dict(exclude={"raw_representation", "additional_properties"})


def _bytes_of(item: Content) -> bytes:
    header, _, body = (item.uri or "").partition(",")
    try:
        return base64.b64decode(body, validate=True) if header.endswith(";base64") else body.encode()
    except binascii.Error:
        return body.encode()
