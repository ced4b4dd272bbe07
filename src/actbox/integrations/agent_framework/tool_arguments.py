"""The arguments of one of the framework's tools, checked and converted by the framework itself, once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionTool
from pydantic.fields import FieldInfo

from actbox.core.errors import ToolError
from actbox.tools.host_function import EMPTY
from actbox.tools.json_form import NoJsonForm, json_form
from actbox.tools.problems import failure
from actbox.tools.schema_arguments import SchemaArguments

from .invocation import Invocation, current

Bound = tuple[tuple[Any, ...], dict[str, Any]]


class FrameworkArguments(SchemaArguments):
    """What the framework makes of arguments, as `FunctionTool.invoke` does when nobody is asked first.

    What it says of wrong ones is what a program reads. It drops names that a tool does not have without a word; here
    they are refused, unless the tool's schema allows more.
    """

    def __init__(self, function: FunctionTool) -> None:
        super().__init__(function.name, function.parameters())
        self._function = function

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """Return the call's context, and the arguments as the function gets them. Raises `ToolError`."""
        self._refuse_unknown(arguments)
        context = (current.get() or Invocation()).context_for(self._function, arguments)
        return (context,), self._prepared(context, arguments)

    def settle(self, bound: Bound) -> tuple[Bound, dict[str, Any]]:
        """Return what will be passed, and as JSON data what the function then works with, defaults included.

        Defaults of a function are its own, and are shown only. Those of a JSON schema are passed: whoever answers the
        call may be elsewhere. Raises `ToolError` for what has no JSON form but for such a default.
        """
        (context,), passed = bound
        if self._function.input_model is None:
            passed = self._prepared(context, self._with_defaults(passed))
        form = self._shown(passed)
        return ((context,), passed), form | {name: value for name, value in self._own() if name not in passed}

    def _prepared(self, context: FunctionInvocationContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # The context keeps what this returns, and `invoke` takes it as prepared: nothing is converted a second time.
        try:
            return self._function._prepare_context_arguments(context, arguments)
        except TypeError as error:
            if not type(error).__module__.startswith("agent_framework"):
                raise failure(self._tool, error) from error
            raise failure(self._tool, ToolError(str(error))) from error
        except Exception as error:  # a validator of the host's own may raise anything
            raise failure(self._tool, error) from error

    def _own(self) -> Iterator[tuple[str, Any]]:
        """Yield the defaults of the tool's own function that programs may leave alone and that have a JSON form."""
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
    """Return the host function that a tool calls."""
    return tool.func.func if isinstance(tool.func, FunctionTool) else tool.func
