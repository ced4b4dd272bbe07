"""A toolset as TypeScript declarations, for a model that writes JavaScript, and for editors.

As in `stubs.py`, everything comes from the schemas, in JavaScript's types: a date with its time is a `Date`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .docstrings import property_note
from .types_from_schema import Schema, SchemaTypes, camel, has_fields

if TYPE_CHECKING:
    from .toolset import Toolset

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_UNREADABLE = re.compile(
    r"[^\n\x20-\x7e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_AS = {"datetime.datetime": "Date", "datetime.timedelta": "number", "int": "number", "float": "number"}
_KEYS_AS = {**_AS, "bool": "boolean", "bytes": "Uint8Array", "tuple": "Array<any>", "frozenset": "Set<any>"}
RESERVED_WORDS = frozenset(
    [
        *("await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do"),
        *("else", "enum", "export", "extends", "false", "finally", "for", "function", "if", "implements", "import"),
        *("in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public"),
        *("return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while"),
        *("with", "yield"),
    ]
)
"""Reserved words of JavaScript, which cannot name a variable or function."""


def javascript_name(alias: str) -> str:
    """Return the name that a tool of this alias has in a JavaScript program."""
    return f"{alias}_" if alias in RESERVED_WORDS else alias


def typescript_declarations(toolset: Toolset, *, only: Container[str] | None = None) -> str:
    """Return the tools as a `.d.ts`: functions with JSDoc, after the types that they use.

    Each function takes one object with its arguments by name; programs may also pass them by position. With `only`,
    only tools whose names are in it are written. The text is valid TypeScript whatever the tools' descriptions contain;
    for no tools it is empty.
    """
    writer = _TypeWriter(reserved=map(javascript_name, toolset.aliases.values()))
    functions: list[str] = []
    for tool in toolset:
        if only is not None and tool.name not in only:
            continue
        name = javascript_name(toolset.aliases[tool.name])
        hint = camel(tool.name)
        arguments = writer.arguments(tool.input_schema, tool.parameters, hint)
        returns = (
            "any"
            if tool.output_schema is None
            else writer.type_of(tool.output_schema, tool.output_schema, hint + "Result")
        )
        called = "" if name == tool.name else f"call_tool({json.dumps(tool.name)}, …) calls it too."
        doc = _jsdoc("\n\n".join(part for part in (tool.documentation, called) if part))
        functions.append(f"{doc}declare function {name}({arguments}): Promise<{returns}>;")
    if not functions:
        return ""
    return "\n\n".join([*writer.definitions, *functions]) + "\n"


class _TypeWriter(SchemaTypes):
    """A writer of TypeScript types and of the interfaces that they need."""

    anything, nothing, binary = "any", "never", "Uint8Array"
    simple: ClassVar = {
        "string": "string",
        "integer": "number",
        "number": "number",
        "boolean": "boolean",
        "null": "null",
    }

    def __init__(self, reserved: Iterable[str]) -> None:
        super().__init__(
            {
                *reserved,
                *RESERVED_WORDS,
                "any",
                "never",
                "Array",
                "Date",
                "Map",
                "Promise",
                "Record",
                "Set",
                "Uint8Array",
            },
        )

    def arguments(self, schema: Schema, parameters: Iterable[str], hint: str) -> str:
        """Return the text of a function's one parameter, an object with all arguments; "" if the tool takes none."""
        properties: Schema = schema.get("properties", {})
        extra = schema.get("additionalProperties", "properties" not in schema)
        names = [*parameters, *(name for name in properties if name not in parameters)]
        fields = [self._field(name, properties.get(name, True), schema, hint) for name in names]
        if extra:
            fields.append(f"[name: string]: {self.type_of(extra, schema, hint + 'Extra') if not fields else 'any'}")
        if not fields:
            return ""
        required = set(schema.get("required", ()))
        return f"args{'' if required else '?'}: {{ {'; '.join(fields)} }}"

    def _named(self, text: str) -> str:
        name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
        return f"_{name}" if name[0].isdigit() else name

    def _define(self, name: str, schema: Schema, root: Schema) -> None:
        place = len(self.definitions)
        self.definitions.insert(place, "")  # above the definitions that use it
        doc = _jsdoc(str(schema.get("description", "")))
        if has_fields(schema):
            lines = [
                f"  {line};"
                for key, value in schema["properties"].items()
                for line in self._member(key, value, schema, root, name)
            ]
            text = f"{doc}interface {name} {{\n" + "\n".join(lines) + "\n}"
        else:
            text = f"{doc}type {name} = {self.type_of(schema, root, f'{name}Value')};"
        self.definitions[place] = text

    def _one_of(self, values: Sequence[Any]) -> str:
        return self._union(map(_literal, values))

    def _all_of(self, parts: Sequence[Any], root: Schema, hint: str) -> str | None:
        return " & ".join(f"({self.type_of(part, root, hint)})" for part in parts)

    def _of_kind(self, kind: Any, schema: Schema, root: Schema, hint: str) -> str:
        python = schema.get("x-python")
        if python in _AS:
            return _AS[python]
        text = super()._of_kind(kind, schema, root, hint)
        if python in ("set", "frozenset"):
            return f"Set{text.removeprefix('Array')}"
        keys = schema.get("x-python-keys")
        if keys is not None and text.startswith("Record<string, "):
            # An empty mapping arrives as an object, since it has no key that would show its key type.
            return f"Map<{_KEYS_AS.get(keys, 'string')}, {text.removeprefix('Record<string, ')} | Record<string, never>"
        return text

    def _list(self, item: str) -> str:
        return f"Array<{item}>"

    def _tuple(self, items: Sequence[str]) -> str:
        return f"[{', '.join(items)}]"

    def _mapping(self, value: str) -> str:
        return f"Record<string, {value}>"

    def _member(self, key: str, value: Any, schema: Schema, root: Schema, owner: str) -> list[str]:
        note = property_note(value)
        shown = f"/** {_comment(' '.join(note.split()))} */ " if note else ""
        optional = "" if key in schema.get("required", ()) else "?"
        return [f"{shown}{_key(key)}{optional}: {self.type_of(value, root, owner + camel(key))}"]

    def _field(self, key: str, value: Any, root: Schema, hint: str) -> str:
        optional = "" if key in root.get("required", ()) else "?"
        return f"{_key(key)}{optional}: {self.type_of(value, root, hint + camel(key))}"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value)
    return "any"


def _comment(text: str) -> str:
    """Return the text changed so that it cannot end the comment it stands in."""
    return _UNREADABLE.sub(" ", text).replace("*/", "*\u200b/").strip()


def _jsdoc(text: str) -> str:
    lines = [line.rstrip() for line in _comment(text).split("\n")]
    if not any(lines):
        return ""
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"
