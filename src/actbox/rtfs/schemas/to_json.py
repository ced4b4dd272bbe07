"""The conversion of schemas to JSON Schema (draft 2020-12), for values in their JSON form.

Keywords and symbols are text in JSON, and so are they here; a vector and a list are both arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actbox.rtfs.conversion import to_json
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.syntax import Keyword
from actbox.rtfs.values import Value, Vector

from .literals import value_of
from .nodes import (
    ArrayOf,
    Entry,
    FunctionOf,
    ListOf,
    MapOf,
    MapWith,
    OneOf,
    OptionalOf,
    Predicate,
    Primitive,
    Refined,
    ResourceOf,
    Schema,
    SchemaError,
    TupleOf,
    UnionOf,
    VectorOf,
)
from .trampoline import Steps, settle

_Object = dict[str, Any]

_PRIMITIVES: Mapping[str, _Object] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "nil": {"type": "null"},
    "keyword": {"type": "string"},
    "symbol": {"type": "string"},
    "any": {},
    "never": {"not": {}},
    "bytes": {"type": "string", "contentEncoding": "base64"},
}
_NUMBERS = ("number",)
_STRINGS = ("string",)
_OBJECTS = ("object",)
_COLLECTIONS = ("array", "object")

_PREDICATES: Mapping[str, tuple[tuple[str, ...], Callable[..., _Object]]] = {
    ">": (_NUMBERS, lambda bound: {"exclusiveMinimum": bound}),
    ">=": (_NUMBERS, lambda bound: {"minimum": bound}),
    "<": (_NUMBERS, lambda bound: {"exclusiveMaximum": bound}),
    "<=": (_NUMBERS, lambda bound: {"maximum": bound}),
    "in-range": (_NUMBERS, lambda low, high: {"minimum": low, "maximum": high}),
    "=": ((), lambda value: {"const": value}),
    "!=": ((), lambda value: {"not": {"const": value}}),
    "min-length": (_STRINGS, lambda length: {"minLength": length}),
    "max-length": (_STRINGS, lambda length: {"maxLength": length}),
    "length": (_STRINGS, lambda length: {"minLength": length, "maxLength": length}),
    "matches-regex": (_STRINGS, lambda pattern: {"pattern": pattern}),
    "is-url": (_STRINGS, lambda: {"format": "uri"}),
    "is-email": (_STRINGS, lambda: {"format": "email"}),
    "min-count": (_COLLECTIONS, lambda count: {"minItems": count, "minProperties": count}),
    "max-count": (_COLLECTIONS, lambda count: {"maxItems": count, "maxProperties": count}),
    "count": (
        _COLLECTIONS,
        lambda count: {"minItems": count, "maxItems": count, "minProperties": count, "maxProperties": count},
    ),
    "non-empty": (("string", *_COLLECTIONS), lambda: {"minLength": 1, "minItems": 1, "minProperties": 1}),
    "has-key": (_OBJECTS, lambda key: {"required": [key]}),
    "required-keys": (_OBJECTS, lambda keys: {"required": list(dict.fromkeys(keys))}),
}
"""For each predicate name, the JSON types whose values can meet it (empty: all types) and the JSON Schema keywords."""
_ONLY = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties", "required"),
}
"""Keywords that constrain values of one type only."""


def to_json_schema(schema: Schema) -> dict[str, Any]:
    """Return a JSON Schema that the value's JSON form fits whenever the value fits this one.

    Raises `SchemaError` for what JSON has no words for: a function, a map whose keys are integers or become the same
    text, a bound that is not finite.
    """
    return settle(_object(schema))


def _object(schema: Schema) -> Steps[_Object]:
    match schema:
        case Primitive(name):
            return dict(_PRIMITIVES[name])
        case OptionalOf(inner):
            return {"anyOf": [(yield _object(inner)), {"type": "null"}]}
        case VectorOf(element) | ListOf(element):
            return _array((yield _object(element)))
        case TupleOf(elements):
            return _tuple((yield _objects(elements)))
        case ArrayOf(element, shape):
            found: _Object = yield _object(element)
            for length in reversed(shape):
                found = _array(found) | ({} if length is None else {"minItems": length, "maxItems": length})
            return found
        case MapWith():
            made: _Object = yield _map(schema)
            return made
        case MapOf(key, value):
            keys: _Object = yield _object(key)
            names = {} if keys in ({}, {"type": "string"}) else {"propertyNames": keys}
            if keys and keys.get("type", "string") != "string":
                raise SchemaError(f"a map with keys of {key} has no JSON")
            return {"type": "object", **names, "additionalProperties": (yield _object(value))}
        case FunctionOf():
            raise SchemaError("a function has no JSON")
        case OneOf(_, values, single):
            return {"const": _data(values[0])} if single else {"enum": [_data(value) for value in values]}
        case UnionOf(options):
            return {"anyOf": (yield _objects(options))}
        case Refined(bases, predicates):
            parts: list[_Object] = yield _objects(bases)
            return _both(parts, predicates)
        case ResourceOf():
            return {"type": "string", "pattern": "^resource://"}
    raise AssertionError(f"no JSON Schema is known for {type(schema).__name__}")


def _objects(schemas: tuple[Schema, ...]) -> Steps[list[_Object]]:
    found: list[_Object] = []
    for schema in schemas:
        found.append((yield _object(schema)))
    return found


def _array(items: _Object) -> _Object:
    return {"type": "array", "items": items} if items else {"type": "array"}


def _tuple(items: list[_Object]) -> _Object:
    lengths = {"minItems": len(items), "maxItems": len(items)}
    return {"type": "array", "prefixItems": items, **lengths} if items else {"type": "array", **lengths}


def _map(schema: MapWith) -> Steps[_Object]:
    found: _Object = {"type": "object"}
    if schema.description:
        found["description"] = schema.description
    properties: dict[str, _Object] = {}
    required: list[str] = []
    for entry in schema.entries:
        name = _name(entry)
        if name in properties:
            raise SchemaError(f"two keys of one map are {name!r} in JSON")
        inner: _Object = yield _object(entry.schema)
        if entry.description:
            inner = {"description": entry.description, **inner}
        if entry.default is not None:
            inner = inner | {"default": _data(value_of(entry.default))}
        properties[name] = inner
        if not entry.optional:
            required.append(name)
    if properties:
        found["properties"] = properties
    if required:
        found["required"] = required
    if schema.closed:
        found["additionalProperties"] = False
    elif schema.rest is not None:
        found["additionalProperties"] = yield _object(schema.rest)
    return found


def _name(entry: Entry) -> str:
    name = entry.key.name if isinstance(entry.key, Keyword) else entry.key.value
    if not isinstance(name, str):
        raise SchemaError(f"the key {name!r} is no text, and so none in JSON")
    return name


def _both(bases: list[_Object], predicates: tuple[Predicate, ...]) -> _Object:
    """Return the conjunction of all these schemas, as one object if no keyword occurs twice."""
    parts = [base for base in bases if base]
    for predicate in predicates:
        types, words = _PREDICATES[predicate.name]
        keywords = words(*(_data(value) for value in predicate.values))
        for key in keywords.get("required", ()):
            if not isinstance(key, str):
                raise SchemaError(f"the key {key!r} is no text, and so none in JSON")
        base = parts[0] if parts else {}
        kind = base.get("type")
        known = "number" if kind == "integer" else kind if isinstance(kind, str) else None
        if known in types:
            others = {word for name, only in _ONLY.items() if name != known for word in only}
            keywords = {word: value for word, value in keywords.items() if word not in others}
        elif types:
            keywords["type"] = types[0] if len(types) == 1 else list(types)
        if known in types and not keywords.keys() & base.keys():
            parts[0] = base | keywords
        else:
            parts.append(keywords)
    if not parts:
        return {}
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def _data(value: Value) -> Any:
    try:
        return to_json(Vector(value) if isinstance(value, tuple) else value)
    except RtfsError as problem:
        raise SchemaError(f"a value of the schema has no JSON: {problem.message}") from None
