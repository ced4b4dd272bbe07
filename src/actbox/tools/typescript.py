"""A toolset as TypeScript declarations, for a model that writes JavaScript, and for editors.

As in `stubs.py`, everything comes from the schemas: a program deals in JSON data, and in bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .docstrings import property_note
from .signature_text import resolve

if TYPE_CHECKING:
    from .toolset import Toolset

Schema = Mapping[str, Any]

_TYPES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_UNREADABLE = re.compile(
    r"[^\n\x20-\x7e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
RESERVED_WORDS = frozenset(
    [
        *("await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do"),
        *("else", "enum", "export", "extends", "false", "finally", "for", "function", "if", "implements", "import"),
        *("in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public"),
        *("return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while"),
        *("with", "yield"),
    ]
)
"""Words that no variable and no function can be called by in JavaScript."""


def javascript_name(alias: str) -> str:
    """Return what a tool of this alias is called in a program in JavaScript."""
    return f"{alias}_" if alias in RESERVED_WORDS else alias


def typescript_declarations(toolset: Toolset, *, only: Container[str] | None = None) -> str:
    """Return the tools as a `.d.ts`: functions with JSDoc, the types that they use above.

    Each takes one object with its arguments by name; programs may also give them in their order. `only` leaves out the
    tools whose names are not in it. The text is valid TypeScript whatever the tools' descriptions contain; for no tools
    it is empty.
    """
    writer = _TypeWriter(reserved=map(javascript_name, toolset.aliases.values()))
    functions: list[str] = []
    for tool in toolset:
        if only is not None and tool.name not in only:
            continue
        name = javascript_name(toolset.aliases[tool.name])
        hint = _camel(tool.name)
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


class _TypeWriter:
    """Writes types, and gathers the interfaces that they need.

    Two tools that use the same definition share it; two different ones of the same name are told apart by a number.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = {
            *reserved,
            *RESERVED_WORDS,
            *_TYPES.values(),
            "any",
            "never",
            "Array",
            "Promise",
            "Record",
            "Uint8Array",
        }
        self._names: dict[str, str] = {}  # canonical text of a definition → its name
        self.definitions: list[str] = []

    def arguments(self, schema: Schema, parameters: Iterable[str], hint: str) -> str:
        """Return the one parameter that a function has, or nothing where it takes no arguments."""
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

    def type_of(self, schema: Any, root: Schema, hint: str) -> str:
        """Return the TypeScript type of a schema; `hint` names an object that has no name of its own."""
        if schema is False:
            return "never"
        if not isinstance(schema, Mapping):
            return "any"
        if "$ref" in schema:
            target = resolve(root, schema)
            if not isinstance(target, Mapping):
                return "any"
            return self._defined(target, root, str(schema["$ref"]).rpartition("/")[2])
        if "const" in schema:
            return _literal(schema["const"])
        if "enum" in schema:
            return _union(map(_literal, schema["enum"]))
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return _union(self.type_of(choice, root, f"{hint}{at or ''}") for at, choice in enumerate(choices))
        if schema.get("allOf"):
            return " & ".join(f"({self.type_of(part, root, hint)})" for part in schema["allOf"])
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list):
            return _union(self._simple(kind, schema, root, hint) for kind in kinds)
        return self._simple(kinds, schema, root, hint)

    def _simple(self, kind: Any, schema: Schema, root: Schema, hint: str) -> str:
        if kind == "string" and schema.get("format") == "binary":
            return "Uint8Array"
        if kind == "array":
            if "prefixItems" in schema:
                items = (
                    self.type_of(part, root, f"{hint}Item{at or ''}") for at, part in enumerate(schema["prefixItems"])
                )
                return f"[{', '.join(items)}]"
            return f"Array<{self.type_of(schema.get('items', True), root, f'{hint}Item')}>"
        if kind == "object":
            if schema.get("properties"):
                title = schema.get("title")
                return self._defined(schema, root, title if isinstance(title, str) and title else hint)
            return f"Record<string, {self.type_of(schema.get('additionalProperties', True), root, f'{hint}Value')}>"
        return _TYPES.get(kind, "any")

    def _defined(self, schema: Schema, root: Schema, wanted: str) -> str:
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        if wanted[0].isdigit():
            wanted = f"_{wanted}"
        canonical = wanted + json.dumps([schema, root.get("$defs")], sort_keys=True)
        if canonical in self._names:
            return self._names[canonical]
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        self._names[canonical] = name
        place = len(self.definitions)
        self.definitions.insert(place, "")
        is_object = bool(schema.get("properties")) and "anyOf" not in schema and "oneOf" not in schema
        doc = _jsdoc(str(schema.get("description", "")))
        if is_object:
            lines = [
                f"  {line};"
                for key, value in schema["properties"].items()
                for line in self._member(key, value, schema, root, name)
            ]
            text = f"{doc}interface {name} {{\n" + "\n".join(lines) + "\n}"
        else:
            text = f"{doc}type {name} = {self.type_of(schema, root, f'{name}Value')};"
        self.definitions[place] = text
        return name

    def _member(self, key: str, value: Any, schema: Schema, root: Schema, owner: str) -> list[str]:
        note = property_note(value)
        shown = f"/** {_comment(' '.join(note.split()))} */ " if note else ""
        optional = "" if key in schema.get("required", ()) else "?"
        return [f"{shown}{_key(key)}{optional}: {self.type_of(value, root, owner + _camel(key))}"]

    def _field(self, key: str, value: Any, root: Schema, hint: str) -> str:
        optional = "" if key in root.get("required", ()) else "?"
        return f"{_key(key)}{optional}: {self.type_of(value, root, hint + _camel(key))}"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value)
    return "any"


def _union(texts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(texts))
    if "any" in unique:
        return "any"
    return " | ".join(unique) or "never"


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", text))


def _comment(text: str) -> str:
    """Return the text as it can stand in a comment that no text can end."""
    return _UNREADABLE.sub(" ", text).replace("*/", "*\u200b/").strip()


def _jsdoc(text: str) -> str:
    lines = [line.rstrip() for line in _comment(text).split("\n")]
    if not any(lines):
        return ""
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"
