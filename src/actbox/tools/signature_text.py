"""JSON schemas written as Python: signatures, types, and the definitions that they use.

Everything comes from the schemas, not from the host's annotations, because a program uses plain values: a host's model
or dataclass is a dict there, so it is written as a `TypedDict`; an enum is a `Literal` of its values. A value that
crosses as more than JSON (`x-python`: a date, a set) is written as its own type.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .docstrings import property_note
from .types_from_schema import Schema, SchemaTypes, camel, free_name, has_fields

_MODULE_TYPES = (
    *("datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta", "decimal.Decimal", "uuid.UUID"),
)
_KEY_TYPES = (*_MODULE_TYPES, "int", "float", "bool", "bytes", "tuple", "frozenset")
TYPE_MODULES = ("datetime", "decimal", "uuid")
# Names that a program has without defining them. A type with such a name would replace the original.
_PROGRAM_NAMES = frozenset({*dir(builtins), "ToolError", "call_tool", "display"})
TYPING_NAMES = ("Any", "Literal", "Never", "NotRequired", "TypedDict")


def signature_text(
    tool: str, input_schema: Schema, output_schema: Schema | None, parameters: Sequence[str], collects: str = ""
) -> str:
    """Return a signature such as `(query: str, limit: int = 10) -> list[Hit]`, with `Any` for a result without a
    schema.

    `collects` is the parameter that is written `*args`.
    """
    return TypeWriter().signature(tool, input_schema, output_schema, parameters, collects)


def type_text(root: Schema, schema: Any) -> str:
    """Return the Python type of a schema; its references are resolved in `root`."""
    return TypeWriter().type_of(schema, root, "Object")


def identifier(text: str) -> str:
    """Return `text` changed into a valid Python name."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def is_writable(parameter: str) -> bool:
    """Return True if a program can write the parameter's name in a call; it has to pass other names in a dict, with
    `**`.
    """
    return parameter.isidentifier() and not keyword.iskeyword(parameter)


def docstring(text: str, indent: str = "    ") -> str:
    """Return the text as a Python docstring literal, escaped so that no text can end it early."""
    clean = "".join(c if c == "\n" or c.isprintable() else " " for c in text).strip()
    clean = re.sub(r'"{3,}|"+\Z', lambda quotes: '\\"' * len(quotes[0]), clean.replace("\\", "\\\\"))
    lines = [line.rstrip() for line in clean.split("\n")]
    body = "\n".join(f"{indent}{line}" if line else "" for line in lines).lstrip()
    return f'{indent}"""{body}\n{indent}"""' if len(lines) > 1 else f'{indent}"""{body}"""'


class TypeWriter(SchemaTypes):
    """A writer of Python types; the definitions are in an order in which Python can run them."""

    anything, nothing, binary = "Any", "Never", "bytes"
    simple: ClassVar = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        super().__init__(
            {*reserved, *TYPING_NAMES, *TYPE_MODULES, "bytes", "dict", "frozenset", "list", "set", "tuple"}
        )
        self._unfinished: set[str] = set()

    @property
    def defined(self) -> tuple[str, ...]:
        """The names of the definitions, each before the definitions that use it."""
        return tuple(self._names.values())

    def signature(
        self,
        tool: str,
        input_schema: Schema,
        output_schema: Schema | None,
        parameters: Sequence[str],
        collects: str = "",
    ) -> str:
        """Return the text that `signature_text` returns, and keep the definitions that it needs."""
        properties: Schema = input_schema.get("properties", {})
        required = set(input_schema.get("required", ()))
        owner = camel(tool)
        parts: list[str] = []
        by_name = False
        defaults = False
        unwritable = False
        first = [*parameters, collects] if collects else parameters
        for name in [*first, *(name for name in properties if name not in first)]:
            if name == collects and is_writable(name) and not (by_name or unwritable):
                item = properties.get(name, {}).get("items", True)
                parts.append(f"*{name}: {self.type_of(item, input_schema, owner + camel(name))}")
                by_name = True
                continue
            if not is_writable(name):
                unwritable = True
                continue
            optional = name not in required
            # A name that Python cannot write is left out, so positions after it would be off by one.
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
        returns = self.anything
        if output_schema is not None:
            returns = self.type_of(output_schema, output_schema, owner + "Result")
        return f"({', '.join(parts)}) -> {returns}"

    def _named(self, text: str) -> str:
        name = identifier(text)
        is_taken = name in _PROGRAM_NAMES or (name.startswith("__") and name.endswith("__"))
        return f"{name}_" if is_taken else name

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

    def _of_kind(self, kind: Any, schema: Schema, root: Schema, hint: str) -> str:
        python = schema.get("x-python")
        if python in _MODULE_TYPES:
            return str(python)
        text = super()._of_kind(kind, schema, root, hint)
        if python in ("set", "frozenset"):
            return f"{python}{text.removeprefix('list')}"
        keys = schema.get("x-python-keys")
        if keys in _KEY_TYPES and text.startswith("dict[str, "):
            return f"dict[{keys}, {text.removeprefix('dict[str, ')}"
        return text

    def _tuple(self, items: Sequence[str]) -> str:
        return f"tuple[{', '.join(items) or '()'}]"

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
        """Return a type in quotes if it names a definition that is not complete yet."""
        words = set(re.findall(r"\w+", kind))
        return repr(kind) if words & self._unfinished else kind


def _literal(value: Any) -> str:
    return ascii(value)  # ASCII: no text can hide a line break or a lone surrogate in the literal


def _one_line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def imports_of(body: str) -> str:
    """Return the import statements that declarations need."""
    modules = [f"import {name}" for name in TYPE_MODULES if re.search(rf"\b{name}\.[A-Zd]", body)]
    used = [name for name in TYPING_NAMES if re.search(rf"\b{name}\b", body)]
    return "\n".join([*modules, *([f"from typing import {', '.join(used)}"] if used else [])])
