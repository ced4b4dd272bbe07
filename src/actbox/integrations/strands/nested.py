"""An agent's tools as functions that programs can call.

What a program may call is the agent's registered tools and the `code_tools` of its sandbox, which no model is shown.
The names in a `Toolset` are the only ones that a program can reach, whatever it sends.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from strands import Agent
from strands.types.tools import AgentTool, ToolResult

from actbox.core.errors import ActboxError, InvalidValue, ToolError
from actbox.tools import Tool, Toolset
from actbox.tools.toolset import RESERVED, alias_of

from .background import approver_at_home
from .code_tools import CodeTool, code_tools_of
from .executor import Answered, tools_of

NestedCall = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Makes a call: a tool's name and its arguments in, JSON data or `bytes` out. Raises `ToolError`."""

_MEDIA: Final = ("image", "document", "video")


class NotForPrograms:
    """What a tool is that runs programs by itself: programs cannot call it, whatever it is named."""


@dataclass(frozen=True, slots=True)
class NestedTools:
    """The tools of programs. `left_out` has a sentence for each that a program cannot have.

    `unregistered` are those that the agent has not registered, by name: those of its sandbox.
    """

    toolset: Toolset
    unregistered: Mapping[str, CodeTool]
    left_out: tuple[str, ...] = ()


def nested_tools(
    agent: Agent, call: NestedCall, *, allowed_tools: Collection[str] | None = None, code_tools: Toolset | None = None
) -> NestedTools:
    """Return an agent's tools as functions which `call` answers; with `allowed_tools` those of these names only.

    `code_tools` are those of the sandbox where programs run; without it, those of the agent's sandbox.

    Left out are tools that run programs themselves. A name that is no identifier has an alias: `get-weather` is
    `get_weather`. Where one alias stands for several tools, calling it fails with a sentence that names them, and
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
    """Return a sentence for each tool that a Python program names and that hides a function of Python's own."""
    named = set(re.findall(r"\w+", program))
    hiding = [alias_of(tool.name) for tool in toolset]
    return tuple(
        f"{name} is the tool of that name in programs; Python's own is builtins.{name}, after `import builtins`"
        for name in dict.fromkeys(hiding)
        if name in named and hasattr(builtins, name)
    )


def unregistered_tools(agent: Agent, code_tools: Toolset | None = None) -> dict[str, CodeTool]:
    """Return the tools of a sandbox, an agent's unless told, that the agent has not registered by that name."""
    registered = tools_of(agent)
    code_tools = code_tools_of(agent) if code_tools is None else code_tools
    return {tool.name: CodeTool(tool) for tool in code_tools if tool.name not in registered}


def nested_id(outer: str, ordinal: int, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the tool-use id of a call: the same for the same call of the same program, with `ordinal` counted from 1.

    It has the letters that providers allow in such ids.
    """
    said = json.dumps([name, arguments], sort_keys=True, default=repr)
    return f"{outer}-{ordinal}-{hashlib.sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def value_of(answered: Answered, tool: AgentTool | None, name: str) -> Any:
    """Return a tool's result as JSON data. Raises `ToolError` for one that failed.

    Structured content of MCP, and a `json` block, are their data; so is text that is JSON of what a function returned,
    or where the tool declares an output schema. Bytes that a function returned are bytes. Other text is text. An image
    is `{"type": "image", "format": "png", "base64": "…"}`, a document the same with its `name`. Several blocks are a
    list; none is `None`.
    """
    result = answered.result
    if result.get("status") == "error":
        raise ToolError(_text(result) or "the tool failed and does not say why", tool=name)
    blocks = [*result.get("content", ())]
    if answered.data is not None and blocks == [{"text": str(answered.data)}]:  # no hook has put something in its place
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
        return text  # a hook has put something else in its place


def _medium(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    said = {"type": kind} | {key: value for key, value in block.items() if isinstance(value, str)}
    source = block.get("source", {})
    if isinstance(source.get("bytes"), (bytes, bytearray)):
        return said | {"base64": base64.b64encode(source["bytes"]).decode("ascii")}
    return said | {"source": _plain(source)}


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


# From a tool of Strands' to one of ours

_templates: WeakKeyDictionary[AgentTool | Tool, tuple[Mapping[str, Any], Tool]] = WeakKeyDictionary()


def _template(name: str, tool: AgentTool) -> Tool:
    """Return a tool's name, schemas and checks; they are made once, as long as the tool says the same of itself."""
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
        return await call(name, arguments)

    return nested


async def _nowhere(name: str, arguments: dict[str, Any]) -> Any:
    raise ToolError(f"the tool {name!r} is not part of a run", tool=name)


def _ambiguous(names: Iterable[str]) -> list[Tool]:
    """Return for each alias that could be several tools a tool of that name which says so."""
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
