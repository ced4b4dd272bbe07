"""JSON schemas written as Python: signatures, types, and the definitions that they use.

Everything comes from the schemas, not from the host's annotations, because a program deals in JSON data: what is a
model or a dataclass on the host is a dict there, so it is written as a `TypedDict`; an enum is a `Literal` of its
values.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .docstrings import property_note
from .schema_types import Schema, SchemaTypes, camel, free_name, has_fields

TYPING_NAMES = ("Any", "Literal", "Never", "NotRequired", "TypedDict")


def signature_text(tool: str, input_schema: Schema, output_schema: Schema | None, parameters: Sequence[str]) -> str:
    """Return `(query: str, limit: int = 10) -> list[Hit]`; without an output schema there is no arrow."""
    return TypeWriter().signature(tool, input_schema, output_schema, parameters)


def type_text(root: Schema, schema: Any) -> str:
    """Return the Python type of a schema, whose references are found in `root`."""
    return TypeWriter().type_of(schema, root, "Object")


def identifier(text: str) -> str:
    """Return `text` as something that can be a Python name."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def is_writable(parameter: str) -> bool:
    """Return whether a program can write the parameter's name in a call; else it gives a dict with `**`."""
    return parameter.isidentifier() and not keyword.iskeyword(parameter)


def docstring(text: str, indent: str = "    ") -> str:
    """Return the text as a docstring literal that no text can break out of."""
    clean = "".join(c if c == "\n" or c.isprintable() else " " for c in text).strip()
    clean = re.sub(r'"{3,}|"+\Z', lambda quotes: '\\"' * len(quotes[0]), clean.replace("\\", "\\\\"))
    lines = [line.rstrip() for line in clean.split("\n")]
    body = "\n".join(f"{indent}{line}" if line else "" for line in lines).lstrip()
    return f'{indent}"""{body}\n{indent}"""' if len(lines) > 1 else f'{indent}"""{body}"""'


class TypeWriter(SchemaTypes):
    """Writes Python's types; definitions are in the order in which they must stand."""

    anything, nothing, binary = "Any", "Never", "bytes"
    simple: ClassVar = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        super().__init__({*reserved, *TYPING_NAMES, "bytes", "dict", "list"})
        self._unfinished: set[str] = set()

    def signature(
        self, tool: str, input_schema: Schema, output_schema: Schema | None, parameters: Sequence[str]
    ) -> str:
        """As `signature_text`, keeping the definitions."""
        properties: Schema = input_schema.get("properties", {})
        required = set(input_schema.get("required", ()))
        owner = camel(tool)
        parts: list[str] = []
        by_name = False
        defaults = False
        unwritable = False
        for name in [*parameters, *(name for name in properties if name not in parameters)]:
            if not is_writable(name):
                unwritable = True
                continue
            optional = name not in required
            # After a name that cannot be written here, positions would be counted wrong.
            if not by_name and (name not in parameters or (defaults and not optional) or unwritable):
                parts.append("*")
                by_name = True
            defaults = defaults or optional
            schema = properties.get(name, True)
            text = self.type_of(schema, input_schema, owner + camel(name))
            if optional:
                given = isinstance(schema, Mapping) and "default" in schema
                text += f" = {_literal(schema['default']) if given else '...'}"
            parts.append(f"{name}: {text}")
        extra = input_schema.get("additionalProperties", "properties" not in input_schema)
        if unwritable or extra:
            kind = self.type_of(extra, input_schema, owner + "Extra") if extra and not unwritable else "Any"
            parts.append(f"**{free_name('arguments', properties)}: {kind}")
        returns = "" if output_schema is None else f" -> {self.type_of(output_schema, output_schema, owner + 'Result')}"
        return f"({', '.join(parts)}){returns}"

    def _named(self, text: str) -> str:
        return identifier(text)

    def _define(self, name: str, schema: Schema, root: Schema) -> None:
        self._unfinished.add(name)
        text = (self._class if has_fields(schema) else self._alias)(name, schema, root)
        self._unfinished.discard(name)
        self.definitions.append(text)

    def _one_of(self, values: Sequence[Any]) -> str:
        if all(value is None or isinstance(value, (str, int)) for value in values) and values:
            return f"Literal[{', '.join(_literal(value) for value in values)}]"
        names = (("None" if value is None else type(value).__name__) for value in values)
        return self._union(self.simple.get(name, name) for name in names)

    def _all_of(self, parts: Sequence[Any], root: Schema, hint: str) -> str | None:
        return self.type_of(parts[0], root, hint) if len(parts) == 1 else None

    def _list(self, item: str) -> str:
        return f"list[{item}]"

    def _tuple(self, items: Sequence[str]) -> str:
        return f"list[{self._union(items)}]"

    def _mapping(self, value: str) -> str:
        return f"dict[str, {value}]"

    def _class(self, name: str, schema: Schema, root: Schema) -> str:
        required = set(schema.get("required", ()))
        fields: dict[str, tuple[str, str]] = {}
        for key, value in schema["properties"].items():
            kind = self._late(self.type_of(value, root, name + camel(key)))
            fields[key] = (kind if key in required else f"NotRequired[{kind}]", property_note(value))
        if not all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
            inside = ", ".join(f"{key!r}: {kind}" for key, (kind, _) in fields.items())
            return f'{name} = TypedDict("{name}", {{{inside}}})'
        lines = [f"class {name}(TypedDict):"]
        if description := schema.get("description"):
            lines.append(docstring(str(description)))
        for key, (kind, note) in fields.items():
            lines.append(f"    {key}: {kind}" + (f"  # {_one_line(note)}" if note else ""))
        return "\n".join(lines)

    def _alias(self, name: str, schema: Schema, root: Schema) -> str:
        note = property_note(schema)
        kind = self._late(self.type_of(schema, root, f"{name}Value"))
        return f"{name} = {kind}" + (f"  # {_one_line(note)}" if note else "")

    def _late(self, kind: str) -> str:
        """Put a type in quotes that names a definition which does not stand above it."""
        words = set(re.findall(r"\w+", kind))
        return repr(kind) if words & self._unfinished else kind


def _literal(value: Any) -> str:
    return ascii(value)  # ASCII: no text can hide a line break or a lone surrogate in it


def _one_line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
