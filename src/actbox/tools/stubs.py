"""Typed Python stubs of tools, for a model. They say what programs see: JSON data, so classes are TypedDicts."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tool import Tool
    from .toolset import Toolset

_SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list[Any]",
    "object": "dict[str, Any]",
}
_REFERENCE = "#/$defs/"


def stubs(toolset: Toolset) -> str:
    """Return Python source: the types that the tools use, then a function with signature and docstring for each."""
    definitions: dict[str, str] = {}
    functions = [_function(item, toolset.aliases[item.name], definitions) for item in toolset]
    return "\n\n".join([*definitions.values(), *functions]) + "\n" if functions else ""


def signature_of(item: Tool) -> str:
    """Return one tool's signature, such as `(city: str, days: int = 3) -> list[float]`."""
    return _signature(item, {})


def _function(item: Tool, alias: str, definitions: dict[str, str]) -> str:
    lines = [f"def {alias}{_signature(item, definitions)}:"]
    about = item.description.strip() or f"Call {item.name}."
    described = [
        f"    {name}: {schema['description']}"
        for name, schema in item.input_schema["properties"].items()
        if isinstance(schema, Mapping) and schema.get("description")
    ]
    text = about.splitlines() + (["", "Args:", *described] if described else [])
    text = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in text]
    if len(text) == 1 and not text[0].endswith('"'):
        lines.append(f'    """{text[0]}"""')
    else:
        lines.append(f'    """{text[0]}')
        lines += [f"    {line}".rstrip() for line in text[1:]]
        lines.append('    """')
    return "\n".join(lines)


def _signature(item: Tool, definitions: dict[str, str]) -> str:
    schema = item.input_schema
    shared = schema.get("$defs", {})
    required = set(schema.get("required", ()))
    names = list(schema["properties"])
    if not set(names) <= set(item.parameters):  # some are by keyword only
        names = [*(n for n in names if n in item.parameters), *(n for n in names if n not in item.parameters)]
    parts: list[str] = []
    keywords_only = False
    had_default = False
    for name in names:
        declared = schema["properties"][name]
        has_default = name not in required
        if not keywords_only and (name not in item.parameters or (had_default and not has_default)):
            keywords_only = True
            parts.append("*")
        had_default = had_default or has_default
        if not name.isidentifier() or keyword.iskeyword(name):
            continue  # it can be given as **{"name": value} only
        text = f"{name}: {_type(declared, shared, definitions)}"
        if has_default:
            default = declared.get("default") if isinstance(declared, Mapping) else None
            text += f" = {default!r}" if default is not None or "default" in declared else " = ..."
        parts.append(text)
    if item.variadic:
        parts.append("**more: Any")
    if parts and parts[-1] == "*":
        parts.pop()
    output = item.output_schema
    returns = "Any" if output is None else _type(output, output.get("$defs", {}), definitions)
    return f"({', '.join(parts)}) -> {returns}"


def _type(schema: Any, shared: Mapping[str, Any], definitions: dict[str, str]) -> str:
    if not isinstance(schema, Mapping):
        return "Any"
    reference = schema.get("$ref", "")
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        return _named(reference.removeprefix(_REFERENCE), shared, definitions)
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return _union([_type(option, shared, definitions) for option in schema[key]])
    if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
        return _type(schema["allOf"][0], shared, definitions)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([_type({**schema, "type": one}, shared, definitions) for one in kind])
    if kind == "array":
        return _array(schema, shared, definitions)
    if kind == "object":
        if schema.get("properties") and isinstance(schema.get("title"), str):
            return _typed_dict(schema["title"], schema, shared, definitions)
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values, shared, definitions)}]" if isinstance(values, Mapping) else _SIMPLE["object"]
    return _SIMPLE.get(kind, "Any") if isinstance(kind, str) else "Any"


def _array(schema: Mapping[str, Any], shared: Mapping[str, Any], definitions: dict[str, str]) -> str:
    if isinstance(schema.get("prefixItems"), list):
        return f"list[{_union([_type(item, shared, definitions) for item in schema['prefixItems']])}]"
    return f"list[{_type(schema.get('items'), shared, definitions)}]"


def _union(options: list[str]) -> str:
    return " | ".join(dict.fromkeys(options)) or "Any"


def _named(name: str, shared: Mapping[str, Any], definitions: dict[str, str]) -> str:
    schema = shared.get(name)
    if not isinstance(schema, Mapping):
        return "Any"
    if schema.get("type") == "object" and schema.get("properties"):
        return _typed_dict(name, schema, shared, definitions)
    return _type(schema, {key: value for key, value in shared.items() if key != name}, definitions)


def _typed_dict(name: str, schema: Mapping[str, Any], shared: Mapping[str, Any], definitions: dict[str, str]) -> str:
    name = "".join(character if character.isalnum() else "_" for character in name)
    name = name if name.isidentifier() and not keyword.iskeyword(name) else f"Type_{name}"
    if name in definitions:
        return name
    definitions[name] = ""  # so that a type which contains itself ends here
    required = set(schema.get("required", ()))
    fields = {}
    for key, value in schema["properties"].items():
        text = _type(value, shared, definitions)
        about = value.get("description") if isinstance(value, Mapping) else None
        fields[key] = (text if key in required else f"NotRequired[{text}]", about)
    if all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
        lines = [f"class {name}(TypedDict):"]
        for key, (text, about) in fields.items():
            lines.append(f"    {key}: {text}" + (f"  # {' '.join(about.split())}" if about else ""))
        source = "\n".join(lines)
    else:
        items = ", ".join(f"{key!r}: {text}" for key, (text, _) in fields.items())
        source = f"{name} = TypedDict({name!r}, {{{items}}})"
    del definitions[name]  # types that this one uses stand above it
    definitions[name] = source
    return name
