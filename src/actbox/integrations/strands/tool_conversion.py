"""Converts Strands' tools to functions for programs, and our tools to the form that Strands runs.

A program may call the agent's registered tools and the `code_tools` of its sandbox, which no model sees. Such a call
goes through the executor of the agent that the program runs for. Names, arguments and results are converted only in
this file. A program can reach only the names in its `Toolset`, whatever it sends.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import inspect
import json
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from strands import Agent
from strands.tools.decorator import DecoratedFunctionTool
from strands.types.tools import AgentTool, ToolResult, ToolSpec, ToolUse

from actbox.core.errors import ActboxError, InvalidValue, ToolError
from actbox.integrations.call_sizes import check_size
from actbox.integrations.model_values import for_model
from actbox.tools import Tool, Toolset
from actbox.tools.toolset import RESERVED, alias_of

from .background import approver_at_home
from .executor import Answered, result_event, tools_of

NestedCall = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Makes a call from a tool's name and its arguments; returns JSON data or `bytes`. Raises `ToolError`."""

_MEDIA: Final = ("image", "document", "video")


class NotForPrograms:
    """A marker base for tools that run programs: programs cannot call them, whatever their names."""


@dataclass(frozen=True, slots=True)
class NestedTools:
    """The tools of programs. `left_out` has a sentence for each tool that a program cannot call.

    `unregistered` are the sandbox's tools that the agent has not registered, by name.
    """

    toolset: Toolset
    unregistered: Mapping[str, CodeTool]
    left_out: tuple[str, ...] = ()


def nested_tools(
    agent: Agent, call: NestedCall, *, allowed_tools: Collection[str] | None = None, code_tools: Toolset | None = None
) -> NestedTools:
    """Return an agent's tools as functions that `call` answers; with `allowed_tools` only those names.

    `code_tools` are those of the sandbox where programs run, by default the agent's sandbox.

    Tools that run programs themselves are left out. A name that is no identifier has an alias: `get-weather` is
    `get_weather`. If one alias stands for several tools, calling it fails with a sentence that names them, and
    `call_tool(name)` calls each. Raises `InvalidValue` for an allowed name that no tool has.
    """
    code_tools = code_tools_of(agent) if code_tools is None else code_tools
    unregistered = unregistered_tools(agent, code_tools)
    known = {**tools_of(agent), **unregistered}
    offered = {name: tool for name, tool in known.items() if not isinstance(tool, NotForPrograms)}
    if allowed_tools is not None:
        missing = sorted(set(allowed_tools).difference(offered))
        if missing:
            raise InvalidValue(
                f"allowed_tools names {missing[0]!r}, which programs cannot call: the agent has no such tool, or it"
                f" runs programs itself. Tools: {', '.join(offered) or 'none'}"
            )
        offered = {name: tool for name, tool in offered.items() if name in allowed_tools}
    tools: list[Tool] = []
    left_out: list[str] = []
    for name, tool in offered.items():
        try:
            if name in RESERVED:
                raise InvalidValue("programs have something of that name")
            tools.append(replace(_template(name, tool), function=_caller(name, call)))
        except ActboxError as error:
            left_out.append(f"programs cannot call the tool {name!r}: {error}")
    toolset = Toolset([*tools, *_ambiguous(tool.name for tool in tools)])
    toolset = toolset.approved(set(toolset.requiring).difference(code_tools.requiring))
    if code_tools.approver is not None:
        toolset = toolset.asking(approver_at_home(code_tools.approver))
    return NestedTools(toolset, unregistered, tuple(left_out))


def in_place_of_python(toolset: Toolset, program: str) -> tuple[str, ...]:
    """Return a sentence for each tool named in a Python program that hides a built-in function."""
    named = set(re.findall(r"\w+", program))
    hiding = [alias_of(tool.name) for tool in toolset]
    return tuple(
        f"{name} is the tool of that name in programs; Python's own is builtins.{name}, after `import builtins`"
        for name in dict.fromkeys(hiding)
        if name in named and hasattr(builtins, name)
    )


def unregistered_tools(agent: Agent, code_tools: Toolset | None = None) -> dict[str, CodeTool]:
    """Return the tools of a sandbox, by default the agent's, that the agent has not registered by name."""
    registered = tools_of(agent)
    code_tools = code_tools_of(agent) if code_tools is None else code_tools
    return {tool.name: CodeTool(tool) for tool in code_tools if tool.name not in registered}


def nested_id(outer: str, ordinal: int, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the tool-use id of a call: equal for the same call of the same program; `ordinal` counts from 1.

    It has only characters that providers allow in such ids.
    """
    call = json.dumps([name, arguments], sort_keys=True, default=repr)
    return f"{outer}-{ordinal}-{hashlib.sha256(call.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def value_of(answered: Answered, tool: AgentTool | None, name: str) -> Any:
    """Return a tool's result as JSON data. Raises `ToolError` for a failed one.

    Structured content of MCP and `json` blocks are returned as their data. So is text that is the JSON of a function's
    return value, or of a tool with an output schema. Bytes that a function returned stay bytes, and other text is a
    string. An image is `{"type": "image", "format": "png", "base64": "…"}`; a document is the same with its `name`.
    Several blocks make a list; none is `None`.
    """
    result = answered.result
    if result.get("status") == "error":
        raise ToolError(_text(result) or "the tool failed and does not say why", tool=name)
    blocks = [*result.get("content", ())]
    if answered.data is not None and blocks == [{"text": str(answered.data)}]:  # no hook has replaced the text
        return bytes(answered.data)
    media = [block for block in blocks if any(kind in block for kind in _MEDIA)]
    structured = result.get("structuredContent")
    if structured is not None and not media:
        return structured
    declares = tool is not None and tool.tool_spec.get("outputSchema") is not None
    parses = answered.holds_data or declares
    values = [_value(block, parses) for block in blocks]
    if structured is not None:
        return [structured, *(_value(block, False) for block in media)]
    return values[0] if len(values) == 1 else values or None


def _value(block: Mapping[str, Any], parses: bool) -> Any:
    if "json" in block:
        return block["json"]
    if "text" in block:
        return _data(block["text"]) if parses else block["text"]
    for kind in _MEDIA:
        if kind in block:
            return _medium(kind, block[kind])
    if "bytes" in block:
        return block["bytes"]
    return _plain(block)


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # a hook has replaced the JSON


def _medium(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"type": kind} | {key: value for key, value in block.items() if isinstance(value, str)}
    source = block.get("source", {})
    if isinstance(source.get("bytes"), (bytes, bytearray)):
        return fields | {"base64": base64.b64encode(source["bytes"]).decode("ascii")}
    return fields | {"source": _plain(source)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return base64.b64encode(value).decode("ascii") if isinstance(value, (bytes, bytearray)) else value


def _text(result: ToolResult) -> str:
    return "\n".join(
        block["text"] if "text" in block else json.dumps(block["json"], ensure_ascii=False, default=repr)
        for block in result.get("content", ())
        if "text" in block or "json" in block
    )


# Strands' tools to ours

_templates: WeakKeyDictionary[AgentTool | Tool, tuple[Mapping[str, Any], Tool]] = WeakKeyDictionary()


def _template(name: str, tool: AgentTool) -> Tool:
    """Return a tool with a Strands tool's name, schemas and checks, cached until its specification changes."""
    spec = tool.tool_spec
    own = tool.tool if isinstance(tool, CodeTool) else None
    made = _templates.get(own or tool)
    if made is not None and made[0] == spec and made[1].name == name:
        return made[1]
    takes = dict(spec["inputSchema"].get("json", spec["inputSchema"]))
    gives = spec.get("outputSchema")
    template = Tool.from_schema(
        name,
        spec.get("description", ""),
        {"type": "object", **takes},
        _caller(name, _nowhere),
        output_schema=None if gives is None else gives.get("json", gives),
        approval="never_require" if own is None else own.approval,
    )
    _templates[own or tool] = ({**spec}, template)
    return template


def _caller(name: str, call: NestedCall) -> Callable[..., Awaitable[Any]]:
    async def nested(**arguments: Any) -> Any:
        check_size(name, arguments)
        return await call(name, arguments)

    return nested


async def _nowhere(name: str, arguments: dict[str, Any]) -> Any:
    raise ToolError(f"the tool {name!r} is not part of a run", tool=name)


def _ambiguous(names: Iterable[str]) -> list[Tool]:
    """Return, for each alias of several tools, a tool with that name that refuses calls and says why."""
    meant: dict[str, list[str]] = defaultdict(list)
    for name in names:
        meant[alias_of(name)].append(name)
    return [_refusing(alias, several) for alias, several in meant.items() if len(several) > 1 and alias not in several]


def _refusing(alias: str, several: list[str]) -> Tool:
    ways = " or ".join(f"call_tool({name!r}, …)" for name in several)
    sentence = f"{alias!r} could be any of {len(several)} tools: write {ways}"

    async def refuse(**arguments: Any) -> Any:
        raise ToolError(sentence, tool=alias)

    return Tool.from_schema(alias, sentence, {"type": "object"}, refuse)


# Our tools to Strands', and the tools of a sandbox


class CodeTool(AgentTool):
    """One of our tools in the form that Strands' executor runs. Agents do not register it, so models do not see it."""

    def __init__(self, tool: Tool) -> None:
        super().__init__()
        self.tool = tool

    @property
    def tool_name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def tool_type(self) -> str:
        """The kind of tool, for listings."""
        return "code"

    @property
    def tool_spec(self) -> ToolSpec:
        """The tool's schemas and description."""
        spec: ToolSpec = {
            "name": self.tool.name,
            "description": self.tool.description,
            "inputSchema": {"json": self.tool.input_schema},
        }
        if self.tool.output_schema is not None:
            spec["outputSchema"] = {"json": self.tool.output_schema}
        return spec

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> AsyncGenerator[Any]:
        """Call the tool. Data becomes one `json` block; bytes get a block that only programs read."""
        result: ToolResult = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": []}
        try:
            value = await self.tool.call(tool_use["input"])
        except ToolError as error:
            result["status"], result["content"] = "error", [{"text": str(error)}]
        else:
            result["content"] = [self._block(value)]
        yield result_event(result)

    def _block(self, value: Any) -> Any:
        return {"bytes": value} if isinstance(value, bytes) else {"json": value}


class _ModelTool(CodeTool):
    """One of our tools that an agent registers, so that its model calls it."""

    def _block(self, value: Any) -> Any:
        return {"json": for_model(value)}


def model_tools(tools: Toolset | Iterable[Tool | Callable[..., Any]]) -> list[AgentTool]:
    """Return actbox tools for `Agent(tools=…)`, which a model calls itself: `model_tools(CapabilityTools(registry))`.

    The model reads why a call failed. Of a result it reads no files, and no text whole that is very long: programs,
    which call tools as functions, have them. Raises `InvalidValue` for a tool that requires approval, about which
    nobody could be asked; capabilities ask by way of their registry.
    """
    toolset = Toolset.of(tools)
    if toolset.requiring:
        raise InvalidValue(
            f"the tool {toolset.requiring[0]!r} requires approval, and nobody is asked about calls of a model"
        )
    return [_ModelTool(tool) for tool in toolset]


def toolset_of(code_tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
    """Return the tools of a sandbox from our tools, host functions, and functions with Strands' `@tool`.

    Raises `InvalidValue` for others: also for a function that needs the agent that calls it, and for other Strands
    tools.
    """
    if (
        callable(code_tools)
        or isinstance(code_tools, (Toolset, str, bytes, Mapping))
        or not isinstance(code_tools, Iterable)
    ):
        return Toolset.of(code_tools)
    return Toolset.of([_tool_of(given) for given in code_tools])


def _tool_of(given: Any) -> Tool | Callable[..., Any]:
    if not isinstance(given, AgentTool):
        function: Tool | Callable[..., Any] = given
        return function
    spec = given.tool_spec
    if not isinstance(given, DecoratedFunctionTool):
        raise InvalidValue(
            f"{given.tool_name!r} cannot be a code tool: those are functions, also with @tool, and no"
            f" {type(given).__name__}. Give it to Agent(tools=[…]): programs may call it there"
        )
    function = given.__wrapped__  # type: ignore[attr-defined]
    offered = spec["inputSchema"]["json"]["properties"]
    injected = [
        name for name, it in inspect.signature(function).parameters.items() if name not in offered and _is_one(it)
    ]
    if injected:
        raise InvalidValue(
            f"{given.tool_name!r} cannot be a code tool: {injected[0]!r} is what Strands gives it of the agent that"
            " calls it, and code tools belong to the sandbox. Give it to Agent(tools=[…]): programs may call it there"
        )
    return Tool.from_function(function, name=given.tool_name, description=spec["description"])


def _is_one(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def code_tools_of(agent: Agent) -> Toolset:
    """Return the tools of the agent's sandbox: its attribute `code_tools`, if it has one."""
    return toolset_of(getattr(agent.sandbox, "code_tools", None))
