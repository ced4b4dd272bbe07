"""The conversion of JSON Schema (draft 2020-12, and equivalent keywords of earlier drafts) to schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from actbox.rtfs import tokens
from actbox.rtfs.conversion import from_json
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.syntax import Form, Keyword, Literal

from .literals import form_of_value
from .nodes import (
    ANY,
    Entry,
    MapOf,
    MapWith,
    OptionalOf,
    Predicate,
    Primitive,
    Refined,
    Schema,
    SchemaError,
    TupleOf,
    UnionOf,
    VectorOf,
)
from .parsing import one_of
from .predicates import predicate
from .trampoline import Steps, settle

MAX_PARTS = 100_000
"""The most schemas inside a schema; a definition counts each time it is referred to."""

_SAID_ONLY = frozenset(
    (
        *("$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples"),
        *("example", "deprecated", "readOnly", "writeOnly", "contentMediaType"),
    )
)
"""Keywords that inform a reader and do not constrain values."""
_COMBINED = frozenset(("$ref", "const", "enum", "anyOf", "oneOf", "allOf", "not", "type"))
_BOUNDS: Mapping[str, Mapping[str, str]] = {
    "string": {"minLength": "min-length", "maxLength": "max-length", "pattern": "matches-regex"},
    "number": {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"},
    "array": {"minItems": "min-count", "maxItems": "max-count"},
    "object": {"minProperties": "min-count", "maxProperties": "max-count"},
}
"""For each type, the keywords that become predicates of one argument."""
_OTHERS: Mapping[str, frozenset[str]] = {
    "string": frozenset(("format", "contentEncoding")),
    "number": frozenset(("format",)),
    "array": frozenset(("items", "prefixItems", "uniqueItems")),
    "object": frozenset(("properties", "required", "additionalProperties", "propertyNames")),
}
_FORMATS = {"uri": "is-url", "email": "is-email"}
_TYPES: Mapping[str, Schema] = {
    "integer": Primitive("int"),
    "number": Primitive("float"),
    "string": Primitive("string"),
    "boolean": Primitive("bool"),
    "null": Primitive("nil"),
}
_NAME = re.compile(tokens.NAME)
_NO_WORDS = Literal(None)


def from_json_schema(data: Mapping[str, Any] | bool) -> Schema:
    """Return a schema for the values that this JSON Schema accepts; property names become keywords.

    An object without `type` is of the type that its words are for. `oneOf` is read as `anyOf`; words that begin with
    `x-`, and a `format` other than `uri` and `email`, say nothing of values. References stay within the document.

    Raises `SchemaError` naming the word for all that a schema cannot say (`patternProperties`, `if`, `multipleOf`, a
    definition that refers to itself, …), rather than to leave it out.
    """
    return settle(_Reading(data).schema(data))


class _Reading:
    """The conversion of one document."""

    def __init__(self, document: object) -> None:
        self.document = document
        self.parts = 0
        self.open: set[str] = set()
        """The references that are being followed now."""

    def schema(self, data: object) -> Steps[Schema]:
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise SchemaError(f"the JSON Schema has more than {MAX_PARTS} parts")
        if isinstance(data, bool):
            return ANY if data else Primitive("never")
        if not isinstance(data, Mapping):
            raise SchemaError(f"a JSON Schema is an object or a truth value, not a {type(data).__name__}")
        bases: list[Schema] = []
        predicates: list[Predicate] = []
        if "$ref" in data:
            name, target = self.target(data["$ref"])
            self.open.add(name)
            bases.append((yield self.schema(target)))
            self.open.remove(name)
        if "const" in data:
            bases.append(one_of((_literal(data["const"]),), single=True))
        if "enum" in data:
            bases.append(one_of(tuple(_literal(value) for value in _listed("enum", data["enum"]))))
        for word in ("anyOf", "oneOf"):
            if word in data:
                bases.append(_union((yield self.schemas(_listed(word, data[word])))))
        if "allOf" in data:
            bases += yield self.schemas(_listed("allOf", data["allOf"]))
        if "not" in data:
            self.negated(data["not"], bases, predicates)
        types = _types_of(data)
        typed: list[Schema] = []
        for name in types:
            typed.append((yield self.typed(name, data)))
        if typed:
            bases.append(_union(typed))
        if len(bases) == 1 and not predicates:
            return bases[0]
        return Refined(tuple(bases), tuple(predicates)) if bases or predicates else ANY

    def schemas(self, items: Iterable[object]) -> Steps[list[Schema]]:
        found: list[Schema] = []
        for item in items:
            found.append((yield self.schema(item)))
        return found

    def target(self, reference: object) -> tuple[str, object]:
        """Return the place that a reference names, and the schema at that place."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaError(f"the reference {reference!r} leads out of the document")
        if reference in self.open:
            raise SchemaError(f"the definition {reference!r} refers to itself")
        target: Any = self.document
        for part in reference.lstrip("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target:
                raise SchemaError(f"nothing stands at {reference!r}")
            target = target[key]
        return reference, target

    def negated(self, data: object, bases: list[Schema], predicates: list[Predicate]) -> None:
        if data == {} or data is True:
            bases.append(Primitive("never"))
        elif isinstance(data, Mapping) and data.keys() == {"const"}:
            predicates.append(predicate("!=", (_literal(data["const"]),), _NO_WORDS))
        else:
            raise SchemaError("`not` is known with nothing, or with one `const`, in it")

    def typed(self, name: str, data: Mapping[str, Any]) -> Steps[Schema]:
        """Return the schema that the keywords of one type make."""
        kind = "number" if name == "integer" else name
        predicates = [
            predicate(condition, (_literal(data[word]),), _NO_WORDS)
            for word, condition in _BOUNDS.get(kind, {}).items()
            if word in data
        ]
        base: Schema
        if name == "array":
            base = yield self.array(data, predicates)
        elif name == "object":
            base = yield self.object(data)
        else:
            base = _TYPES[name]
        if name == "string":
            if data.get("contentEncoding", "") == "base64":
                base = Primitive("bytes")
            elif "contentEncoding" in data:
                raise SchemaError(f"the content encoding {data['contentEncoding']!r} is not known; base64 is")
            form = data.get("format", "")
            if isinstance(form, str) and form in _FORMATS:
                predicates.append(predicate(_FORMATS[form], (), _NO_WORDS))
        return Refined((base,), tuple(predicates)) if predicates else base

    def array(self, data: Mapping[str, Any], predicates: list[Predicate]) -> Steps[Schema]:
        if data.get("uniqueItems", False) is not False:
            raise SchemaError("`uniqueItems` is not known")
        if "prefixItems" not in data:
            items: Schema = yield self.schema(data.get("items", True))
            return VectorOf(items)
        elements: list[Schema] = yield self.schemas(_listed("prefixItems", data["prefixItems"]))
        count = len(elements)
        if data.get("minItems", 0) != count or (data.get("maxItems") != count and data.get("items") is not False):
            raise SchemaError(
                "`prefixItems` is known with `minItems`, and `maxItems` or no other items, as a tuple has them"
            )
        predicates.clear()
        return TupleOf(tuple(elements))

    def object(self, data: Mapping[str, Any]) -> Steps[Schema]:
        properties, others = data.get("properties", {}), data.get("additionalProperties", True)
        required = dict.fromkeys(map(_text, _listed("required", data.get("required", []))))
        if not isinstance(properties, Mapping):
            raise SchemaError("`properties` is an object")
        if "propertyNames" in data or (isinstance(others, Mapping) and not properties and not required):
            if properties or required:
                raise SchemaError("`propertyNames` is known where no property is named")
            keys: Schema = yield self.schema(data.get("propertyNames", {"type": "string"}))
            return MapOf(keys, (yield self.schema(others)))
        entries: list[Entry] = []
        for name, inner in properties.items():
            schema: Schema = yield self.schema(inner)
            annotations = inner if isinstance(inner, Mapping) else {}
            description = annotations.get("description", "")
            default = _literal(annotations["default"]) if "default" in annotations else None
            shown = description if isinstance(description, str) and not isinstance(schema, MapWith) else ""
            entries.append(Entry(_key(name), schema, name not in required, shown, default))
        entries += (Entry(_key(name), ANY) for name in required if name not in properties)
        rest: Schema | None = None
        if isinstance(others, Mapping) or ("additionalProperties" in data and others is True):
            rest = yield self.schema(others)
        elif not isinstance(others, bool):
            raise SchemaError("`additionalProperties` is a schema")
        description = data.get("description", "")
        return MapWith(tuple(entries), rest, others is False, description if isinstance(description, str) else "")


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise SchemaError(f"{name!r} is no name of a property")
    return name


def _key(name: object) -> Keyword | Literal:
    """Return a property's key: a keyword if the name can be written as one, else a string."""
    text = _text(name)
    return Keyword(text) if _NAME.fullmatch(text) else Literal(text)


def _types_of(data: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names, or else those that its keywords imply; empty if it implies none."""
    words = {word for word in data.keys() - _SAID_ONLY - _COMBINED if not str(word).startswith("x-")}
    named = data.get("type", [])
    types = [named] if isinstance(named, str) else _listed("type", named)
    for name in types:
        if not isinstance(name, str) or name not in (*_TYPES, "array", "object"):
            raise SchemaError(f"{name!r} is no type of JSON")
    kinds = {"number" if name == "integer" else name for name in types}
    implied: list[str] = []
    for word in sorted(words, key=str):
        fitting = [kind for kind in _BOUNDS if word in _BOUNDS[kind] or word in _OTHERS[kind]]
        if not fitting:
            raise SchemaError(f"`{word}` is not known")
        if "type" not in data and word != "format" and fitting[0] not in implied:
            implied += fitting
        if "type" in data and not kinds & {*fitting}:
            raise SchemaError(f"`{word}` says nothing of the type {named!r}")
    if len(implied) > 1:
        raise SchemaError(f"without `type`, words for {implied[0]} and for {implied[1]} cannot stand together")
    return types or implied


def _union(options: list[Schema]) -> Schema:
    if not options:
        raise SchemaError("one of nothing is no schema")
    nil = Primitive("nil")
    others = [option for option in options if not (isinstance(option, Primitive) and option.name == nil.name)]
    if len(options) == 1:
        return options[0]
    if len(others) < len(options) and others:
        return OptionalOf(others[0] if len(others) == 1 else UnionOf(tuple(others)))
    return UnionOf(tuple(options))


def _listed(word: str, data: object) -> list[Any]:
    if not isinstance(data, list | tuple):
        raise SchemaError(f"`{word}` is a list")
    return list(data)


def _literal(data: object) -> Form:
    try:
        return form_of_value(from_json(data))
    except RtfsError as problem:
        raise SchemaError(f"a value in the JSON Schema is none of RTFS: {problem.message}") from None
