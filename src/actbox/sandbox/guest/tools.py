"""The run's tools as the program sees them: functions by name, and `call_tool`."""

from __future__ import annotations

import sys
from types import FrameType

from .channel import HostChannel
from .display import display
from .tool_error import ToolError

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Container, Dict, List, Optional


def bind_tools(specs: List[Dict[str, Any]], channel: HostChannel, awaited: bool, program_name: str) -> Dict[str, Any]:
    """Return the names for a program: `ToolError`, `display`, `raise_label`, `claim`, each tool and, if there are
    tools, `call_tool`.

    In a program that uses `await` (`awaited`) tools are coroutines; in any other they are plain calls. A call that
    somebody is asked to approve (`asks` in its tool's spec) carries the line of the program that makes it.
    """
    asking = {spec[key] for spec in specs if spec.get("asks") for key in ("name", "alias")}
    names: Dict[str, Any] = {"ToolError": ToolError, "display": display}
    names.update(_label_functions(channel))
    if specs:
        names["call_tool"] = _call_tool(channel, awaited, asking, program_name)
    for spec in specs:
        names[spec["alias"]] = _function(spec, channel, awaited, program_name)
    return names


def _label_functions(channel: HostChannel) -> Dict[str, Any]:
    """Return `raise_label` and `claim`, which are plain calls in every program."""

    def raise_label(label: str) -> None:
        """Join a label such as "pii.email" to those of what this program could have read."""
        channel.call("raise_label", {"label": label})

    def claim(name: str, label: str) -> None:
        """Say that a file below /output has a lower label than what this program could have read."""
        channel.call("claim", {"name": name, "label": label})

    for function in (raise_label, claim):
        function.__module__ = "__main__"
        function.__annotations__ = {}
    return {"raise_label": raise_label, "claim": claim}


def bind_types(message: Dict[str, Any], namespace: Dict[str, Any]) -> None:
    """Bind the types named in the stubs of a program's tools, unless the program has the name already.

    Most are a `TypedDict`, which checks nothing. They stay bound in a session, for functions of earlier programs.
    """
    given = message.get("types")
    if not given:
        return
    scope: Dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(given["code"], scope)
    except (ImportError, TypeError):  # before Python 3.11, `typing` or the types themselves lack something
        scope = {name: type(name, (dict,), {"__module__": "__main__"}) for name in given["names"]}
    for name in given["names"]:
        namespace.setdefault(name, scope[name])


def _function(spec: Dict[str, Any], channel: HostChannel, awaited: bool, program_name: str) -> Callable[..., Any]:
    name, parameters, collects = spec["name"], spec["parameters"], spec.get("collects", "")

    def arguments_of(args: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
        if len(args) > len(parameters) and not collects:
            raise TypeError(
                "%s() takes at most %d positional argument%s (%s), not %d"
                % (spec["alias"], len(parameters), "s"[len(parameters) == 1 :], ", ".join(parameters), len(args))
            )
        bound: Dict[str, Any] = dict(zip(parameters, args))  # noqa: B905 (fewer arguments than parameters is fine)
        if len(args) > len(parameters):
            bound[collects] = list(args[len(parameters) :])
        for key, value in kwargs.items():
            if key in bound:
                raise TypeError("%s() got two values for the argument %r" % (spec["alias"], key))
            bound[key] = value
        return bound

    function: Callable[..., Any]
    if spec.get("asks"):
        if awaited:

            async def asking_async(args: Any, kwargs: Dict[str, Any], line: Optional[int]) -> Any:
                return await channel.call_async(name, arguments_of(args, kwargs), line)

            # A plain function that returns a coroutine: when the coroutine runs, as its own task, its caller's line is
            # no longer known.
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
    function.__annotations__ = {}  # the annotations above name types that a program has not imported
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
            return await channel.call_async(name, arguments, line)

        def call_tool_async(name: str, /, **arguments: Any) -> Any:
            """Call a tool by name with keyword arguments."""
            return call_async(name, arguments, line_of(name))

        _renamed(call_async)
        return _renamed(_as_coroutine_function(call_tool_async))

    def call_tool(name: str, /, **arguments: Any) -> Any:
        """Call a tool by name with keyword arguments."""
        check(name)
        return channel.call(name, arguments, line_of(name))

    return _renamed(call_tool)


def _line_in(program_name: str) -> Optional[int]:
    """Return the line at which the program is in this thread; `None` if it is not among the callers."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == program_name:
            return frame.f_lineno
        frame = frame.f_back
    return None


def _as_coroutine_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a plain function as returning a coroutine, if Python can (since 3.12)."""
    import inspect  # `asyncio` imports it too, so programs with coroutines have it

    mark = getattr(inspect, "markcoroutinefunction", None)
    return mark(function) if mark is not None else function


def _renamed(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = "call_tool"
    function.__module__ = "__main__"
    function.__annotations__ = {}
    return function
