"""Which tools a program names, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_CALL_TOOL = "call_tool"
# By any of these a program can come by a function whose name does not stand in it.
_DYNAMIC = frozenset(
    {"eval", "exec", "compile", "getattr", "globals", "locals", "vars", "__import__", "__builtins__", "__dict__"}
    | {"importlib", "runpy", "inspect", "gc", "modules", "__main__", "__globals__", "_getframe"}
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a program names; `None` where it may be any, because the program decides that as it runs."""

    tool: str | None

    @property
    def dynamic(self) -> bool:
        """Whether it may be any tool."""
        return self.tool is None


def tool_calls(program: str, names: Iterable[str]) -> tuple[ToolCall, ...]:
    """Return what a program names of these tools, each once. Source that cannot be read may name any."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (ToolCall(None),)
    return tuple({tool: ToolCall(tool) for tool in _tools(tree, frozenset(names))}.values())


def _tools(tree: ast.Module, names: frozenset[str]) -> Iterator[str | None]:
    read = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _CALL_TOOL:
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    yield name
                    read.add(node.func)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                if name in names:
                    yield name
                if name.partition(".")[0] in _DYNAMIC or (name == _CALL_TOOL and node not in read) or name == "*":
                    yield None
