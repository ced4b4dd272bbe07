"""The run's tools as the program sees them: functions by name, and `call_tool`."""

from __future__ import annotations

import sys

from .channel import HostChannel, ToolError

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List


def bind_tools(specs: List[Dict[str, Any]], channel: HostChannel, awaited: bool) -> Dict[str, Any]:
    """Return the names that a program gets: each tool, `call_tool` and `ToolError`.

    In a program that uses `await` (`awaited`) tools are coroutines; in one that does not, they are plain calls.
    """
    names: Dict[str, Any] = {"ToolError": ToolError, "call_tool": _call_tool(channel, awaited)}
    for spec in specs:
        names[spec["alias"]] = _function(spec, channel, awaited)
    return names


def _function(spec: Dict[str, Any], channel: HostChannel, awaited: bool) -> Callable[..., Any]:
    name, parameters = spec["name"], spec["parameters"]

    def arguments_of(args: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
        if len(args) > len(parameters):
            raise TypeError(
                "%s() takes at most %d positional arguments (%s), not %d"
                % (spec["alias"], len(parameters), ", ".join(parameters), len(args))
            )
        bound = dict(zip(parameters, args))  # noqa: B905 (fewer arguments than parameters is fine)
        for key, value in kwargs.items():
            if key in bound:
                raise TypeError("%s() got two values for the argument %r" % (spec["alias"], key))
            bound[key] = value
        return {key: plain(value) for key, value in bound.items()}

    function: Callable[..., Any]
    if awaited:

        async def function_async(*args: Any, **kwargs: Any) -> Any:
            return await channel.call_async(name, arguments_of(args, kwargs))

        function = function_async
    else:

        def function_plain(*args: Any, **kwargs: Any) -> Any:
            return channel.call(name, arguments_of(args, kwargs))

        function = function_plain
    function.__name__ = function.__qualname__ = spec["alias"]
    function.__module__ = "__main__"
    function.__doc__ = spec["alias"] + spec["signature"] + "\n\n" + spec["doc"]
    return function


def _call_tool(channel: HostChannel, awaited: bool) -> Callable[..., Any]:
    def check(name: Any) -> None:
        if not isinstance(name, str):
            raise TypeError("call_tool() takes a tool's name first, not %s" % type(name).__name__)

    if awaited:

        async def call_tool_async(name: str, /, **arguments: Any) -> Any:
            """Call a tool by name with keyword arguments."""
            check(name)
            return await channel.call_async(name, {key: plain(value) for key, value in arguments.items()})

        return _renamed(call_tool_async)

    def call_tool(name: str, /, **arguments: Any) -> Any:
        """Call a tool by name with keyword arguments."""
        check(name)
        return channel.call(name, {key: plain(value) for key, value in arguments.items()})

    return _renamed(call_tool)


def _renamed(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = "call_tool"
    function.__module__ = "__main__"
    return function


def plain(value: Any) -> Any:
    """Return a NumPy number as the Python number that it is; anything else unchanged."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    return value
