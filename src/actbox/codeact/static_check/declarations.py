"""The tools as stubs for a type checker: strict about names and results, lenient where the host converts."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actbox.tools.definition import Tool
from actbox.tools.schema_types import resolve
from actbox.tools.signature_text import TypeWriter
from actbox.tools.toolset import Toolset

from .reading import Reading

_MODULE = "_actbox"
_TOOL = "_actbox_tool_"
_CALL = "_actbox_call_"
_ANY_CALL = "_actbox_call_any"
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MOST_DEPTH = 16
_OURS = re.compile(rf"{_TOOL}(\d+)|{_CALL}(?:\d+|any|unknown)")


@dataclass(frozen=True)
class Declarations:
    """Stub files by name, what stands for calls by name in the copy that is checked, and names of the stubs' types."""

    files: Mapping[str, str]
    calls: Mapping[str, str]
    aliases: tuple[str, ...]
    types: frozenset[str]

    def is_ours(self, function: str) -> bool:
        """Return whether a checker's name of a function is that of a tool or of `call_tool`."""
        return _OURS.fullmatch(function) is not None or function in self.calls.values()

    def named(self, message: str) -> str:
        """Return a checker's message with the names that programs know."""
        for stand_in in set(self.calls.values()):
            message = message.replace(stand_in, "call_tool")
        return _OURS.sub(lambda found: self.aliases[int(found[1])] if found[1] else "call_tool", message)


def declare(toolset: Toolset, names: Iterable[str], reading: Reading) -> Declarations:
    """Write down what a program finds: tools, `call_tool`, `ToolError`, and names of which nothing is known.

    A call of `call_tool` with a name in quotes is checked as a function of its own, so that what is said of it is about
    that tool alone; the stand-in's name is as long as `call_tool`, so that all columns stay.
    """
    variables = tuple(dict.fromkeys(names))
    define = "async def" if reading.awaits else "def"
    writer = _Results(reserved=[*toolset.aliases.values(), _MODULE])
    functions = [f"{define} {_ANY_CALL}(name: str, /, **arguments: Any) -> Any: ..."]
    bound = {"ToolError": "ToolError"} | ({"call_tool": _ANY_CALL} if len(toolset) else {})
    calls: dict[str, str] = {}
    prefix = reading.unused_prefix()
    called = frozenset() if "call_tool" in variables else reading.names_called
    known = ", ".join(repr(name) for name in dict.fromkeys([*toolset.names, *toolset.aliases.values()]))
    for at, tool in enumerate(toolset):
        returns = "Any"
        if tool.output_schema is not None:
            returns = writer.type_of(tool.output_schema, tool.output_schema, f"Result_{at}")
        positional, by_name = _parameters(tool)
        functions.append(f"{define} {_TOOL}{at}({positional}) -> {returns}: ...")
        alias = toolset.aliases[tool.name]
        bound[alias] = f"{_TOOL}{at}"
        for name in {tool.name, alias} & called:
            stand_in = calls[name] = calls.get(name, f"{prefix}{at:04d}")
            functions.append(f"{define} {stand_in}({by_name}) -> {returns}: ...")
            bound[stand_in] = stand_in
    for name in called:
        if name not in calls:
            calls[name] = f"{prefix}none"
    if f"{prefix}none" in calls.values():
        literal = f"Literal[{known}]" if known else "Never"
        functions.append(f"{define} {prefix}none(name: {literal}, /, **arguments: Any) -> Any: ...")
        bound[f"{prefix}none"] = f"{prefix}none"
    builtins = [f"import {_MODULE}", "from typing import Any"]
    builtins += [f"{name} = {_MODULE}.{ours}" for name, ours in bound.items() if name not in variables]
    builtins += [f"{name}: Any" for name in variables]
    stub = [
        "from typing import Any, Literal, Never, NotRequired, TypedDict",
        "from collections.abc import Mapping",
        *writer.definitions,
        "class ToolError(Exception):\n    tool: str",
        *functions,
    ]
    files = {f"{_MODULE}.pyi": "\n".join(stub) + "\n", "__builtins__.pyi": "\n".join(builtins) + "\n"}
    return Declarations(files, calls, tuple(toolset.aliases[name] for name in toolset.names), frozenset(writer.classes))


class _Results(TypeWriter):
    """Types of results. An object that may have keys beyond those that are listed is any object."""

    def __init__(self, reserved: Iterable[str]) -> None:
        super().__init__(reserved=[*reserved, "Mapping", "ToolError"])
        self.classes: set[str] = set()

    def _defined(self, schema: Mapping[str, Any], root: Mapping[str, Any], wanted: str) -> str:
        if schema.get("properties") and schema.get("additionalProperties"):
            return "dict[str, Any]"
        name = super()._defined(schema, root, wanted)
        self.classes.add(name)
        return name


def _parameters(tool: Tool) -> tuple[str, str]:
    """Return the parameters of a tool's function, and those of `call_tool` with that tool's name."""
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    required = set(tool.input_schema.get("required", ()))
    written: list[str] = []
    keywords: list[str] = []
    extra = tool.variadic
    optional_before = False
    for name in [*tool.parameters, *(name for name in properties if name not in tool.parameters)]:
        # A stub takes `__name` as one that is passed by place only.
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
            return "*args: Any, **arguments: Any", f"{_free('_name', properties)}: str, /, **arguments: Any"
        optional = name not in required
        text = f"{name}: {argument_type(properties.get(name, True), tool.input_schema)}{' = ...' if optional else ''}"
        if name in tool.parameters:
            if optional_before and not optional:
                return "*args: Any, **arguments: Any", f"{_free('_name', properties)}: str, /, **arguments: Any"
            optional_before = optional_before or optional
            written.append(text)
        else:
            keywords.append(text)
    rest = [f"**{_free('arguments', properties)}: Any"] if extra else []
    star = ["*"] if keywords else []
    by_name = [f"{_free('_name', properties)}: str", "/", *(["*"] if written or keywords else []), *written, *keywords]
    return ", ".join([*written, *star, *keywords, *rest]), ", ".join([*by_name, *rest])


def _free(wanted: str, taken: Mapping[str, Any]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def argument_type(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return the type of an argument as far as it is certain: what lists and objects hold is left to the host."""
    schema = resolve(root, schema)
    if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
        return "Any"
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        plain = all(value is None or isinstance(value, (str, int)) for value in values)
        return f"Literal[{', '.join(ascii(value) for value in values)}]" if plain else "Any"
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return _union(argument_type(choice, root, depth + 1) for choice in choices)
    if "allOf" in schema:
        return argument_type(schema["allOf"][0], root, depth + 1) if len(schema["allOf"]) == 1 else "Any"
    kinds = schema.get("type", "object" if "properties" in schema else None)
    return _union(_simple(kind, schema) for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _simple(kind: Any, schema: Mapping[str, Any]) -> str:
    if kind == "string" and "format" in schema:
        return "Any"  # a date, a number of many digits: the host takes other values for it as well
    if kind == "array":
        return "list[Any] | tuple[Any, ...]"
    if kind == "object":
        return "Mapping[Any, Any]"
    return _TYPES.get(kind, "Any")


def _union(texts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(texts))
    return "Any" if "Any" in unique or not unique else " | ".join(unique)
