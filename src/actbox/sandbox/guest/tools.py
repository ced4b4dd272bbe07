"""The run's tools as the program sees them: functions by name, and `call_tool`."""

from __future__ import annotations

import sys
from types import FrameType

from .channel import HostChannel, ToolError

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Container, Dict, List, Optional


def bind_tools(specs: List[Dict[str, Any]], channel: HostChannel, awaited: bool, program_name: str) -> Dict[str, Any]:
    """Return the names that a program gets: `ToolError`, each tool and, where there are any, `call_tool`.

    In a program that uses `await` (`awaited`) tools are coroutines; in one that does not, they are plain calls. With a
    call about which somebody is asked (`asks` in its tool's spec) goes the line of the program that makes it.
    """
    asking = {spec[key] for spec in specs if spec.get("asks") for key in ("name", "alias")}
    names: Dict[str, Any] = {"ToolError": ToolError}
    if specs:
        names["call_tool"] = _call_tool(channel, awaited, asking, program_name)
    for spec in specs:
        names[spec["alias"]] = _function(spec, channel, awaited, program_name)
    return names


def _function(spec: Dict[str, Any], channel: HostChannel, awaited: bool, program_name: str) -> Callable[..., Any]:
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
    if spec.get("asks"):
        if awaited:

            async def asking_async(args: Any, kwargs: Dict[str, Any], line: Optional[int]) -> Any:
                return await channel.call_async(name, arguments_of(args, kwargs), line)

            # A plain function that returns a coroutine: by the time that one runs, as a task of its own, nobody knows
            # any more where it was made.
            def asking_soon(*args: Any, **kwargs: Any) -> Any:
                return asking_async(args, kwargs, _line_in(program_name))

            asking_async.__name__ = asking_async.__qualname__ = spec["alias"]
            function = _as_coroutine_function(asking_soon)
        else:

            def asking_plain(*args: Any, **kwargs: Any) -> Any:
                return channel.call(name, arguments_of(args, kwargs), _line_in(program_name))

            function = asking_plain
    elif awaited:

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


def _call_tool(channel: HostChannel, awaited: bool, asking: Container[str], program_name: str) -> Callable[..., Any]:
    def check(name: Any) -> None:
        if not isinstance(name, str):
            raise TypeError("call_tool() takes a tool's name first, not %s" % type(name).__name__)

    def line_of(name: Any) -> Optional[int]:
        return _line_in(program_name) if isinstance(name, str) and name in asking else None

    if awaited:

        async def call_async(name: str, arguments: Dict[str, Any], line: Optional[int]) -> Any:
            check(name)
            return await channel.call_async(name, {key: plain(value) for key, value in arguments.items()}, line)

        def call_tool_async(name: str, /, **arguments: Any) -> Any:
            """Call a tool by name with keyword arguments."""
            return call_async(name, arguments, line_of(name))

        _renamed(call_async)
        return _renamed(_as_coroutine_function(call_tool_async))

    def call_tool(name: str, /, **arguments: Any) -> Any:
        """Call a tool by name with keyword arguments."""
        check(name)
        return channel.call(name, {key: plain(value) for key, value in arguments.items()}, line_of(name))

    return _renamed(call_tool)


def _line_in(program_name: str) -> Optional[int]:
    """Return the line that the program is at, in this thread; nothing where it is not among the callers."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == program_name:
            return frame.f_lineno
        frame = frame.f_back
    return None


def _as_coroutine_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say of a plain function that it returns a coroutine, where Python has a way to say so (since 3.12)."""
    import inspect  # of which `asyncio` has need too, and so has whoever has coroutines

    mark = getattr(inspect, "markcoroutinefunction", None)
    return mark(function) if mark is not None else function


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
