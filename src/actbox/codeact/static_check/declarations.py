"""The tools as stubs for a type checker: strict about names and results, lenient where the host converts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actbox.tools.definition import Tool
from actbox.tools.signature_text import TYPE_MODULES, TypeWriter, is_writable
from actbox.tools.toolset import Toolset
from actbox.tools.types_from_schema import free_name

from .reading import Reading

_MODULE = "_actbox"
_TOOL = "_actbox_tool_"
_CALL = "_call"
_ANY_CALL, _BAD_CALL = f"{_CALL}_any", f"{_CALL}_bad"
_OURS = re.compile(rf"\b(?:{_TOOL}(\d+)|{_CALL}(?:[\da-f]{{4}}|_any|_bad))\b")


@dataclass(frozen=True)
class Declarations:
    """Stub files by name, with the names and types that they declare.

    `calls` has what stands for `call_tool` in the copy that is checked, by the tool's name in quotes; `parameters` the
    types of parameters by functions of the stubs, in order; `types` the names of the results' types.
    """

    files: Mapping[str, str]
    calls: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, str]]
    types: frozenset[str]
    aliases: tuple[str, ...]

    def named(self, message: str) -> str:
        """Return a checker's message with the stubs' names replaced by those that programs use."""
        return _OURS.sub(lambda found: self.aliases[int(found[1])] if found[1] else "call_tool", message)


def declare(toolset: Toolset, names: Sequence[str], reading: Reading) -> Declarations:
    """Return the stubs for a program: tools, `call_tool`, `ToolError`, and names of unknown type.

    A call of `call_tool` with a name in quotes is checked as a function of its own, so that what is said of it is about
    that tool alone; the stand-in's name is as long as `call_tool`, so that all columns stay.
    """
    define = "async def" if reading.awaits else "def"
    reserved = [*toolset.aliases.values(), _MODULE, "Mapping", "ToolError"]
    results, arguments = _Results(reserved), _Arguments(reserved)
    called = frozenset[str]() if "call_tool" in names else {name for name, _ in reading.named_calls}
    calls = dict.fromkeys(called, _BAD_CALL)
    known = ", ".join(repr(name) for name in dict.fromkeys([*toolset.names, *toolset.aliases.values()]))
    named = f"Literal[{known}]" if known else "Never"
    parameters: dict[str, Mapping[str, str]] = {_ANY_CALL: {"name": "str"}, _BAD_CALL: {"name": named}}
    functions = [
        f"{define} {function}(name: {given['name']}, /, **arguments: Any) -> Any: ..."
        for function, given in parameters.items()
    ]
    bound = {name: name for name in ("ToolError", "display", _BAD_CALL)} | (
        {"call_tool": _ANY_CALL} if len(toolset) else {}
    )
    for at, tool in enumerate(toolset):
        schema = tool.output_schema
        returns = "Any" if schema is None else results.type_of(schema, schema, f"Result_{at}")
        alias, function, stand_in = toolset.aliases[tool.name], f"{_TOOL}{at}", f"{_CALL}{at:04x}"
        by_place, by_name, parameters[function] = arguments.of_tool(tool)
        parameters[stand_in] = parameters[function]
        functions.append(f"{define} {function}{by_place} -> {returns}: ...")
        bound[alias] = function
        if quoted := {tool.name, alias} & called:
            calls.update(dict.fromkeys(quoted, stand_in))
            functions.append(f"{define} {stand_in}{by_name} -> {returns}: ...")
            bound[stand_in] = stand_in
    builtins = [f"import {_MODULE}", "from typing import Any"]
    builtins += [f"{name} = {_MODULE}.{ours}" for name, ours in bound.items() if name not in names]
    builtins += [f"{name}: Any" for name in names]
    # The types that programs are shown; nothing is certain about them, since the host converts their values.
    types = toolset.type_code()[0] if any(tool.names_types for tool in toolset) else ()
    builtins += [f"{name}: type[Any]" for name in types if name not in names and name not in bound]
    stub = [
        "from typing import Any, Literal, Never, NotRequired, TypedDict",
        "from collections.abc import Mapping",
        *(f"import {name}" for name in TYPE_MODULES),
        *results.definitions,
        "class ToolError(Exception):\n    tool: str",
        "def display(*objects: object, raw: bool = ..., **options: object) -> None: ...",
        *functions,
    ]
    files = {f"{_MODULE}.pyi": "\n".join(stub) + "\n", "__builtins__.pyi": "\n".join(builtins) + "\n"}
    return Declarations(
        files,
        calls,
        parameters,
        types=frozenset(results.defined),
        aliases=tuple(toolset.aliases[tool.name] for tool in toolset),
    )


class _Results(TypeWriter):
    """A writer of result types. An object that may have unlisted keys counts as any object."""

    def _defined(self, schema: Mapping[str, Any], root: Mapping[str, Any], wanted: str) -> str:
        is_open = schema.get("properties") and schema.get("additionalProperties")
        return "dict[str, Any]" if is_open else super()._defined(schema, root, wanted)


class _Arguments(TypeWriter):
    """A writer of argument types as far as they are certain; the contents of lists and objects are left to the host."""

    def of_tool(self, tool: Tool) -> tuple[str, str, Mapping[str, str]]:
        """Return the parameters of a tool's function, those of `call_tool` with its name, and their types in order."""
        properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
        name = f"({free_name('_name', properties)}: str, /, "
        optional = [parameter not in tool.input_schema.get("required", ()) for parameter in tool.parameters]
        # In a stub, a parameter named `__name` is positional-only.
        plain = all(is_writable(parameter) and not parameter.startswith("__") for parameter in properties)
        if tool.collects or not plain or optional != sorted(optional):  # a stub cannot declare this parameter order
            return "(*args: Any, **arguments: Any)", f"{name}**arguments: Any)", {}
        by_place, by_name = (
            self.signature(tool.name, tool.input_schema, None, parameters).removesuffix(" -> Any")
            for parameters in (tool.parameters, ())
        )
        names = dict.fromkeys([*tool.parameters, *properties])
        types = {each: self.type_of(properties.get(each, True), tool.input_schema, "") for each in names}
        return by_place, name + by_name.removeprefix("("), types

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], root: Mapping[str, Any], hint: str) -> str:
        if kind == "string" and "format" in schema:
            return self.anything  # a date or a decimal: the host also accepts values of other types for it
        if kind == "array":
            return "list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]"
        return "Mapping[Any, Any]" if kind == "object" else self.simple.get(kind, self.anything)

    def _defined(self, schema: Mapping[str, Any], root: Mapping[str, Any], wanted: str) -> str:
        if wanted in self._unfinished:  # a recursive type
            return self.anything
        self._unfinished.add(wanted)
        text = self.type_of(schema, root, wanted)
        self._unfinished.discard(wanted)
        return text
