"""The schemas of capabilities: one form, whether they came as JSON Schema, pydantic type or RTFS."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self

from actbox.core.errors import InvalidValue
from actbox.rtfs.conversion import from_json, to_json
from actbox.rtfs.errors import ReadError, WriteError
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.printer import write
from actbox.rtfs.schemas import Schema as Node
from actbox.rtfs.schemas import SchemaError, explain, from_json_schema, parse_schema, to_json_schema
from actbox.rtfs.schemas.nodes import (
    ANY,
    Entry,
    MapOf,
    MapWith,
    OneOf,
    OptionalOf,
    Refined,
    TupleOf,
    UnionOf,
    VectorOf,
    form_of,
)
from actbox.rtfs.syntax import Form, Keyword
from actbox.rtfs.syntax import Node as FormNode

MAX_DEPTH = 64
"""The most schemas inside each other."""
MAX_BYTES = 256 * 1024
"""The most bytes that a schema takes in RTFS."""
MAX_PROBLEMS = 10
"""The most problems with one value that are named."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Schema:
    """The type of JSON data, as a schema of RTFS. Make one with `of`. Equal schemas are written alike.

    An object whose schema names properties has no others, unless the schema says that it may.
    """

    node: Node

    @classmethod
    def of(cls, given: object, *, output: bool = False) -> Self:
        """Return a schema: of a JSON Schema (a mapping or a truth value), RTFS (text or a form), or a Python type.

        Any type that pydantic can describe is one, such as a model. `output`: the schema of what the type is dumped to,
        not of what it is read from. A schema is a schema of itself.

        Raises `InvalidValue` for what is no schema, refers to itself, is too large, or has no JSON.
        """
        if isinstance(given, Schema):
            return cls(given.node)
        try:
            if isinstance(given, str | FormNode):
                node = parse_schema(given)
            elif isinstance(given, Node):
                node = given
            elif isinstance(given, Mapping | bool):
                node = from_json_schema(given)
            else:
                node = from_json_schema(_described(given, output))
            # The way through JSON leaves the types that its values have: text for a keyword, an array for a list.
            node = _closed(from_json_schema(to_json_schema(node)))
            write(form_of(node), max_bytes=MAX_BYTES)
        except (SchemaError, ReadError, RtfsError) as error:
            raise InvalidValue(f"this is no schema: {error}") from None
        except WriteError as error:
            raise InvalidValue(f"a schema takes at most {MAX_BYTES // 1024} KiB in RTFS: {error}") from None
        return cls(node)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON Schema (draft 2020-12), a new one each time."""
        return to_json_schema(self.node)

    def to_rtfs(self) -> str:
        """Return the schema as text in RTFS, on one line."""
        return str(self.node)

    @property
    def form(self) -> Form:
        """The schema as a form of RTFS."""
        return form_of(self.node)

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The names of an object's properties; `None` for the schema of anything else."""
        if isinstance(self.node, MapWith):
            return tuple(map(_name, self.node.entries))
        return () if isinstance(self.node, MapOf) else None

    def closed(self) -> Schema:
        """Return the schema without other properties than it names, unless it says of which type others are."""
        if isinstance(self.node, MapWith) and self.node.rest is None:
            return Schema(dataclasses.replace(self.node, closed=True))
        return self

    def problems(self, value: object) -> tuple[str, ...]:
        """Return what is wrong with JSON data, each with its place; empty if the data fits. Names ten at most."""
        try:
            data = from_json(value, loose=True)
            to_json(data)  # raises for a number that is not finite
            found = explain(data, self.node, max_problems=MAX_PROBLEMS)
        except RtfsError as error:
            return (error.message,)
        return tuple(f"{_place(problem.path)}{problem.message}" for problem in found)

    def __str__(self) -> str:
        return self.to_rtfs()

    def __repr__(self) -> str:
        return repr(self.node)


def _described(given: object, output: bool) -> Mapping[str, Any]:
    # Imported here because pydantic takes some 70 ms to import.
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    from actbox.tools.annotation_schema import AnnotationSchema

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(given)  # type: ignore[arg-type]  # refused below
        mode = "serialization" if output else "validation"
        return adapter.json_schema(mode=mode, schema_generator=AnnotationSchema)  # type: ignore[arg-type]
    except (PydanticUserError, TypeError, NameError, AttributeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidValue(
            f"a schema is a JSON Schema, RTFS or a type with a JSON form, not {given!r}: {reason}"
        ) from None


def _closed(node: Node, depth: int = MAX_DEPTH) -> Node:
    """Return a schema of JSON data whose maps with named keys have no other ones, unless it says that they may."""
    if depth == 0:
        raise InvalidValue(f"a schema has at most {MAX_DEPTH} schemas inside each other")
    depth -= 1
    match node:
        case MapWith(entries, rest):
            return dataclasses.replace(
                node,
                entries=tuple(dataclasses.replace(entry, schema=_closed(entry.schema, depth)) for entry in entries),
                rest=None if rest is None else _closed(rest, depth),
                closed=node.closed or (rest is None and bool(entries)),
            )
        case MapOf(key, value):
            return MapOf(key, _closed(value, depth))
        case VectorOf(element):
            return VectorOf(_closed(element, depth))
        case TupleOf(elements):
            return TupleOf(tuple(_closed(element, depth) for element in elements))
        case OptionalOf(inner):
            return OptionalOf(_closed(inner, depth))
        case UnionOf(options):
            return UnionOf(tuple(_closed(option, depth) for option in options))
        case Refined(bases, predicates):
            return Refined(_closed_together([_closed(base, depth) for base in bases]), predicates)
    return node


def _closed_together(bases: list[Node]) -> tuple[Node, ...]:
    """Return closed schemas that all hold for one value, each of which lets pass what the others name."""
    maps = [base for base in bases if isinstance(base, MapWith)]
    if len(bases) == 1 or not any(map(_has_map, bases)):
        return tuple(bases)
    if len(maps) < len([base for base in bases if not isinstance(base, OneOf)]):
        raise InvalidValue("a schema joins objects with other types, which cannot be told apart; write one object")
    found: list[Node] = []
    for base in bases:
        if isinstance(base, MapWith) and base.closed:
            own = {entry.key for entry in base.entries}
            others = {entry.key: Entry(entry.key, ANY, optional=True) for one in maps for entry in one.entries}
            added = tuple(entry for key, entry in others.items() if key not in own)
            base = dataclasses.replace(base, entries=base.entries + added)
        found.append(base)
    return tuple(found)


def _has_map(node: Node) -> bool:
    """Return True if a value that fits can be a map with named keys."""
    match node:
        case MapWith():
            return True
        case OptionalOf(inner):
            return _has_map(inner)
        case UnionOf(options) | Refined(options):
            return any(map(_has_map, options))
    return False


def _name(entry: Entry) -> str:
    return entry.key.name if isinstance(entry.key, Keyword) else str(entry.key.value)


def _place(path: Iterable[object]) -> str:
    """Return a place in JSON data, such as `files.sales[2]: `; empty for the outermost value."""
    text = ""
    for key in path:
        name = key.name if isinstance(key, Keyword) else key
        text += f"[{name}]" if isinstance(name, int) else f".{name}" if text else str(name)
    return f"{text}: " if text else ""
