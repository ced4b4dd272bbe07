"""The writer of JSON schemas as types, shared by Python and TypeScript."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

Schema = Mapping[str, Any]


class SchemaTypes(ABC):
    """A writer of types that collects the definitions they need.

    Two tools that use the same definition share it; two different ones of the same name are told apart by a number.
    """

    anything: ClassVar[str]
    nothing: ClassVar[str]
    binary: ClassVar[str]
    simple: ClassVar[Mapping[str, str]]
    """The language's names for the JSON types that have no parts."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *self.simple.values()}
        self._names: dict[str, str] = {}  # canonical text of a definition → its name
        self.definitions: list[str] = []

    # Methods that each language implements

    @abstractmethod
    def _named(self, text: str) -> str:
        """Return a text changed into a valid name."""

    @abstractmethod
    def _define(self, name: str, schema: Schema, root: Schema) -> None:
        """Add a definition to the collected ones."""

    @abstractmethod
    def _one_of(self, values: Sequence[Any]) -> str:
        """Return the type that has exactly these values."""

    @abstractmethod
    def _all_of(self, parts: Sequence[Any], root: Schema, hint: str) -> str | None:
        """Return the type of values that fit all of several schemas, or `None` if the language has no such type."""

    @abstractmethod
    def _list(self, item: str) -> str:
        """Return the type of a list of any length."""

    @abstractmethod
    def _tuple(self, items: Sequence[str]) -> str:
        """Return the type of a list with exactly these items."""

    @abstractmethod
    def _mapping(self, value: str) -> str:
        """Return the type of an object with arbitrary keys."""

    # Methods that all languages share

    def type_of(self, schema: Any, root: Schema, hint: str) -> str:
        """Return the type of a schema; `hint` names an object that has no name of its own."""
        if schema is False:
            return self.nothing
        if not isinstance(schema, Mapping):
            return self.anything
        if "$ref" in schema:
            target = resolve(root, schema)
            if not isinstance(target, Mapping):
                return self.anything
            return self._defined(target, root, str(schema["$ref"]).rpartition("/")[2])
        if "const" in schema:
            return self._one_of([schema["const"]])
        if "enum" in schema:
            return self._one_of(schema["enum"])
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._union(self.type_of(choice, root, f"{hint}{at or ''}") for at, choice in enumerate(choices))
        if schema.get("allOf"):
            both = self._all_of(schema["allOf"], root, hint)
            if both is not None:
                return both
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list):
            return self._union(self._of_kind(kind, schema, root, hint) for kind in kinds)
        return self._of_kind(kinds, schema, root, hint)

    def _of_kind(self, kind: Any, schema: Schema, root: Schema, hint: str) -> str:
        if kind == "string" and schema.get("format") == "binary":
            return self.binary
        if kind == "array":
            if "prefixItems" in schema:
                parts = enumerate(schema["prefixItems"])
                return self._tuple([self.type_of(part, root, f"{hint}Item{at or ''}") for at, part in parts])
            return self._list(self.type_of(schema.get("items", True), root, f"{hint}Item"))
        if kind == "object":
            if schema.get("properties"):
                title = schema.get("title")
                return self._defined(schema, root, title if isinstance(title, str) and title else hint)
            return self._mapping(self.type_of(schema.get("additionalProperties", True), root, f"{hint}Value"))
        return self.simple.get(kind, self.anything)

    def _defined(self, schema: Schema, root: Schema, wanted: str) -> str:
        """Return the name of a definition, and add the definition if it is new."""
        wanted = self._named(wanted)
        canonical = wanted + _canonical(schema, root)
        if canonical not in self._names:
            name = free_name(wanted, self._taken)
            self._taken.add(name)
            self._names[canonical] = name
            self._define(name, schema, root)
        return self._names[canonical]

    def _union(self, texts: Iterable[str]) -> str:
        unique = list(dict.fromkeys(texts))
        if self.anything in unique:
            return self.anything
        return " | ".join(unique) or self.nothing


def has_fields(schema: Schema) -> bool:
    """Return True for the schema of an object with listed properties."""
    return bool(schema.get("properties")) and "anyOf" not in schema and "oneOf" not in schema


def resolve(root: Schema, schema: Any) -> Any:
    """Return the schema at the end of a chain of references within `root`; a reference that leads nowhere allows
    anything.
    """
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


def camel(text: str) -> str:
    """Return the words of a text joined in CamelCase."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", text))


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """Return `wanted` if it is free, else the name with a number."""
    used = set(taken)
    name, number = wanted, 2
    while name in used:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _canonical(schema: Schema, root: Schema) -> str:
    """Return a text that is equal for two definitions exactly if they, and all that they refer to, are the same."""
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
