"""JSON schemas written as Python: signatures, types, and the definitions that they use.

Everything comes from the schemas, not from the host's annotations, because a program deals in JSON data: what is a
model or a dataclass on the host is a dict there, so it is written as a `TypedDict`; an enum is a `Literal` of its
values.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .docstrings import property_note

Schema = Mapping[str, Any]

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
TYPING_NAMES = ("Any", "Literal", "Never", "NotRequired", "TypedDict")


def signature_text(tool: str, input_schema: Schema, output_schema: Schema | None, parameters: Sequence[str]) -> str:
    """Return `(query: str, limit: int = 10) -> list[Hit]`; without an output schema there is no arrow."""
    return TypeWriter().signature(tool, input_schema, output_schema, parameters)


def type_text(root: Schema, schema: Any) -> str:
    """Return the Python type of a schema, whose references are found in `root`."""
    return TypeWriter().type_of(schema, root, "Object")


def resolve(root: Schema, schema: Any) -> Any:
    """Follow a reference within `root` to what it refers to; one that leads nowhere allows anything."""
    for _ in range(32):  # a chain of references, or a circle
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        path = str(schema["$ref"])
        if not path.startswith("#/"):
            return True
        target: Any = root
        for part in path[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or part not in target:
                return True
            target = target[part]
        schema = target
    return True


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


class TypeWriter:
    """Writes types, and gathers the definitions that they need in the order in which they must stand.

    Two tools that use the same definition share it; two different ones of the same name are told apart by a number.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = {*reserved, *TYPING_NAMES, *_TYPES.values(), "bytes", "dict", "list"}
        self._names: dict[str, str] = {}  # canonical text of a definition → its name
        self._unfinished: set[str] = set()
        self.definitions: list[str] = []

    def signature(
        self, tool: str, input_schema: Schema, output_schema: Schema | None, parameters: Sequence[str]
    ) -> str:
        """As `signature_text`, keeping the definitions."""
        properties: Schema = input_schema.get("properties", {})
        required = set(input_schema.get("required", ()))
        camel = _camel(tool)
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
            text = self.type_of(schema, input_schema, camel + _camel(name))
            if optional:
                given = isinstance(schema, Mapping) and "default" in schema
                text += f" = {_literal(schema['default']) if given else '...'}"
            parts.append(f"{name}: {text}")
        extra = input_schema.get("additionalProperties", "properties" not in input_schema)
        if unwritable or extra:
            kind = self.type_of(extra, input_schema, camel + "Extra") if extra and not unwritable else "Any"
            parts.append(f"**{_free_name('arguments', properties)}: {kind}")
        returns = "" if output_schema is None else f" -> {self.type_of(output_schema, output_schema, camel + 'Result')}"
        return f"({', '.join(parts)}){returns}"

    def type_of(self, schema: Any, root: Schema, hint: str) -> str:
        """Return the Python type of a schema; `hint` names an object that has no name of its own."""
        if schema is False:
            return "Never"
        if not isinstance(schema, Mapping):
            return "Any"
        if "$ref" in schema:
            target = resolve(root, schema)
            if not isinstance(target, Mapping):
                return "Any"
            return self._defined(target, root, str(schema["$ref"]).rpartition("/")[2])
        if "const" in schema:
            return _literal_type([schema["const"]])
        if "enum" in schema:
            return _literal_type(schema["enum"])
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return _union(self.type_of(choice, root, f"{hint}{at or ''}") for at, choice in enumerate(choices))
        if len(schema.get("allOf", ())) == 1:
            return self.type_of(schema["allOf"][0], root, hint)
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list):
            return _union(self._simple(kind, schema, root, hint) for kind in kinds)
        return self._simple(kinds, schema, root, hint)

    def _simple(self, kind: Any, schema: Schema, root: Schema, hint: str) -> str:
        if kind == "string" and schema.get("format") == "binary":
            return "bytes"
        if kind == "array":
            if "prefixItems" in schema:
                items = (self.type_of(part, root, f"{hint}Item") for part in schema["prefixItems"])
                return f"list[{_union(items)}]"
            return f"list[{self.type_of(schema.get('items', True), root, f'{hint}Item')}]"
        if kind == "object":
            if schema.get("properties"):
                title = schema.get("title")
                return self._defined(schema, root, title if isinstance(title, str) and title else hint)
            values = schema.get("additionalProperties", True)
            return f"dict[str, {self.type_of(values, root, f'{hint}Value')}]"
        return _TYPES.get(kind, "Any")

    def _defined(self, schema: Schema, root: Schema, wanted: str) -> str:
        wanted = identifier(wanted)
        canonical = wanted + _canonical(schema, root)
        if canonical in self._names:
            return self._names[canonical]
        name = _free_name(wanted, self._taken)
        self._taken.add(name)
        self._names[canonical] = name
        self._unfinished.add(name)
        is_object = bool(schema.get("properties")) and "anyOf" not in schema and "oneOf" not in schema
        text = (self._class if is_object else self._alias)(name, schema, root)
        self._unfinished.discard(name)
        self.definitions.append(text)
        return name

    def _class(self, name: str, schema: Schema, root: Schema) -> str:
        required = set(schema.get("required", ()))
        fields: dict[str, tuple[str, str]] = {}
        for key, value in schema["properties"].items():
            kind = self._late(self.type_of(value, root, name + _camel(key)))
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


def _canonical(schema: Schema, root: Schema) -> str:
    """Return a text that two definitions share exactly if they and all that they refer to are the same."""
    seen: dict[str, Any] = {}
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen[reference] = resolve(root, part)
                waiting.append(seen[reference])
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    own = {key: value for key, value in schema.items() if key != "$defs"}
    return json.dumps([own, seen], sort_keys=True)


def _free_name(wanted: str, taken: Iterable[str]) -> str:
    used = set(taken)
    name, number = wanted, 2
    while name in used:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _union(texts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(texts))
    if "Any" in unique:
        return "Any"
    return " | ".join(unique) or "Never"


def _literal_type(values: Sequence[Any]) -> str:
    if all(value is None or isinstance(value, (str, int)) for value in values) and values:
        return f"Literal[{', '.join(_literal(value) for value in values)}]"
    names = (("None" if value is None else type(value).__name__) for value in values)
    return _union(_TYPES.get(name, name) for name in names)


def _literal(value: Any) -> str:
    return ascii(value)  # ASCII: no text can hide a line break or a lone surrogate in it


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", text))


def _one_line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
