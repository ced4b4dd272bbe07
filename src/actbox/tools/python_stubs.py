"""`stubs`: a toolset as typed Python, for a model to read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from .signature_text import TypeWriter, docstring, imports_of, is_writable
from .toolset import Toolset

_EITHER_WAY = "# In a program that uses `await`, await these; in any other, call them plainly."


def stubs(toolset: Toolset, *, awaitable: bool | None = None, only: Container[str] | None = None) -> str:
    """Return Python that declares the tools: functions with docstrings, after the types that they use.

    With `only`, only tools whose names are in it are written; aliases are those of the whole toolset. `awaitable` says
    how the program will call the tools: `True` writes `async def`; `None`, for a program that is not written yet,
    explains the rule. The text is valid Python whatever the tools' descriptions contain; for no tools it is empty.
    """
    aliases = toolset.aliases
    writer = TypeWriter(reserved=aliases.values())
    functions: list[str] = []
    for tool in toolset:
        if only is not None and tool.name not in only:
            continue
        signature = writer.signature(tool.name, tool.input_schema, tool.output_schema, tool.parameters, tool.collects)
        alias = aliases[tool.name]
        called = "" if alias == tool.name else f"call_tool({tool.name!r}, …) calls it too."
        unwritable = [name for name in tool.input_schema.get("properties", {}) if not is_writable(name)]
        given = f"Also takes {_in_a_dict(alias, unwritable, tool.input_schema, writer)}." if unwritable else ""
        text = "\n\n".join(part for part in (tool.documentation, given, called) if part)
        define = "async def" if awaitable else "def"
        functions.append(f"{define} {alias}{signature}:\n{docstring(text) if text else '    ...'}")
    if not functions:
        return ""
    body = "\n\n".join([*writer.definitions, *functions])
    head = [imports_of(body)] if imports_of(body) else []
    if awaitable is None:
        head.append(_EITHER_WAY)
    return "\n\n".join([*head, body]) + "\n"


def _in_a_dict(alias: str, names: Iterable[str], schema: Mapping[str, Any], writer: TypeWriter) -> str:
    """Return the note on arguments whose names Python cannot write: `'class' (str, required), as in f(**{'class':
    …})`.
    """
    told, example = [], []
    for name in names:
        optional = "" if name in schema.get("required", ()) else ", optional"
        told.append(f"{name!r} ({writer.type_of(schema['properties'][name], schema, 'Argument')}{optional})")
        example.append(f"{name!r}: …")
    return f"{', '.join(told)}, given in a dict: {alias}(**{{{', '.join(example)}}})"
