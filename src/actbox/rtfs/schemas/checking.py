"""The check of values against schemas, with an explanation of each problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from actbox.rtfs.failures import BudgetExhausted
from actbox.rtfs.syntax import Keyword, Resource, Symbol
from actbox.rtfs.values import MISSING, List, Map, Value, Vector, equal, type_name

from .nodes import (
    ArrayOf,
    FunctionOf,
    ListOf,
    MapOf,
    MapWith,
    OneOf,
    OptionalOf,
    Primitive,
    Refined,
    ResourceOf,
    Schema,
    TupleOf,
    UnionOf,
    VectorOf,
    text_of,
)
from .predicates import holds
from .trampoline import Steps, settle

MAX_PROBLEMS = 100
"""The default limit of problems that `explain` reports."""
MAX_STEPS = 1_000_000
"""The default limit of parts of a value that a check visits; a union visits a part once for each option."""

_SHOWN = 60

Path: TypeAlias = tuple[Value, ...]
_Trail: TypeAlias = tuple["_Trail", Value] | None
"""A path during a check: the trail to the enclosing value, and the key or index in it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem with a value."""

    path: Path
    """The keys and indexes from the outermost value to the faulty one; empty for the outermost itself."""
    error_name: str
    """TypeMismatch, PredicateViolation, ShapeViolation or MissingRequiredKey."""
    message: str

    def __str__(self) -> str:
        keys = " ".join(key if isinstance(key, str) else _key_text(key) for key in self.path)
        return f"{self.error_name}{f' at [{keys}]' if keys else ''}: {self.message}"


class _Found:
    """The problems found so far by a check, or by one option of a union, and the shared count of steps."""

    __slots__ = ("most", "problems", "read", "steps")

    def __init__(self, most: int, steps: list[int], *, read: bool = True) -> None:
        self.most = most
        self.read = read
        self.problems: list[Problem] = []
        self.steps = steps

    def add(self, trail: _Trail, name: str, message: str) -> None:
        path: list[Value] = []
        while trail is not None:
            trail, key = trail
            path.append(key)
        self.problems.append(Problem(tuple(reversed(path)), name, message))

    def mismatch(self, trail: _Trail, schema: Schema, value: Value) -> None:
        """Add a type mismatch; within an option of a union its text is left out, since nobody reads it."""
        expected = text_of(schema, _SHOWN) if self.read else ""
        self.add(trail, "TypeMismatch", f"expected {expected}, found {_shown(value)}")

    def enough(self) -> bool:
        return len(self.problems) >= self.most

    def spend(self) -> None:
        self.steps[0] -= 1
        if self.steps[0] < 0:
            raise BudgetExhausted("steps", "the value has too many parts to be checked")


def validate(value: Value, schema: Schema, *, max_steps: int = MAX_STEPS) -> bool:
    """Return True if the value fits the schema. Raises what `explain` raises."""
    return check(value, schema, max_steps=max_steps) is None


def check(value: Value, schema: Schema, *, max_steps: int = MAX_STEPS) -> Problem | None:
    """Return the first problem with the value, or None when it fits. Raises what `explain` raises."""
    if isinstance(schema, Primitive) and _PRIMITIVE[schema.name](value):
        return None
    problems = explain(value, schema, max_problems=1, max_steps=max_steps)
    return problems[0] if problems else None


def explain(
    value: Value, schema: Schema, *, max_problems: int = MAX_PROBLEMS, max_steps: int = MAX_STEPS
) -> list[Problem]:
    """Return at most `max_problems` problems with the value, in the value's order; an empty list if it fits.

    Never uses the host's stack. Raises `BudgetExhausted`: `steps` when the value has more than `max_steps` parts to
    look at, `wall_seconds` when a regular expression of the schema takes too long.
    """
    found = _Found(max_problems, [max_steps])
    settle(_check(schema, value, None, found))
    return found.problems[:max_problems]


def _check(schema: Schema, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    found.spend()
    kind = type(schema)
    if kind in _CONTAINERS:
        yield _CONTAINERS[kind](schema, value, trail, found)
    elif not _LEAVES[kind](schema, value):
        found.mismatch(trail, schema, value)


def _each(element: Schema, items: tuple[Value, ...], trail: _Trail, found: _Found) -> Steps[None]:
    """Check elements that are all of one type."""
    leaf = _LEAVES.get(type(element))
    for index, item in enumerate(items):
        if leaf is not None:
            found.spend()
            if not leaf(element, item):
                found.mismatch((trail, index), element, item)
        else:
            yield _check(element, item, (trail, index), found)
        if found.enough():
            return


def _optional(schema: OptionalOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    if value is not None:
        yield _check(schema.inner, value, trail, found)


def _vector(schema: VectorOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    if isinstance(value, Vector):
        yield _each(schema.element, value.items, trail, found)
    else:
        found.mismatch(trail, schema, value)


def _list(schema: ListOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    if isinstance(value, List):
        yield _each(schema.element, value.items, trail, found)
    else:
        found.mismatch(trail, schema, value)


def _tuple(schema: TupleOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    if not isinstance(value, Vector):
        found.mismatch(trail, schema, value)
        return
    if len(value.items) != len(schema.elements):
        message = f"expected {len(schema.elements)} elements, found {len(value.items)}"
        found.add(trail, "TypeMismatch", message)
        return
    for index, (element, item) in enumerate(zip(schema.elements, value.items, strict=True)):
        yield _check(element, item, (trail, index), found)
        if found.enough():
            return


def _array(schema: ArrayOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    length, inner = schema.shape[0], schema.shape[1:]
    if not isinstance(value, Vector):
        found.add(trail, "ShapeViolation", f"expected a vector, found {_shown(value)}")
        return
    if length is not None and len(value.items) != length:
        found.add(trail, "ShapeViolation", f"expected {length} elements, found {len(value.items)}")
        return
    yield _each(ArrayOf(schema.element, inner) if inner else schema.element, value.items, trail, found)


def _map(schema: MapWith, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    if not isinstance(value, Map):
        found.mismatch(trail, schema, value)
        return
    names: set[tuple[type, object]] = set()
    for entry in schema.entries:
        key = entry.key if isinstance(entry.key, Keyword) else entry.key.value
        item = value.find(key, MISSING)
        if item is not MISSING:
            yield _check(entry.schema, item, (trail, key), found)
        elif not entry.optional:
            found.add((trail, key), "MissingRequiredKey", f"the key {_key_text(key)} is missing")
        if found.enough():
            return
        names.add((type(key), key))
        if value.loose and isinstance(key, Keyword):
            names.add((str, key.name))
    if not schema.closed and schema.rest is None:
        return
    for other, item in value.pairs():
        if (type(other), other) in names:
            continue
        if schema.closed:
            found.spend()
            found.add((trail, other), "ShapeViolation", f"the key {_key_text(other)} is none of the schema's")
        elif schema.rest is not None:
            yield _check(schema.rest, item, (trail, other), found)
        if found.enough():
            return


def _map_of(schema: MapOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    if not isinstance(value, Map):
        found.mismatch(trail, schema, value)
        return
    for key, item in value.pairs():
        tried = _Found(1, found.steps)
        yield _check(schema.key, key, None, tried)
        if tried.problems and value.loose and isinstance(key, str):
            # In data from JSON, a string key stands for a keyword too.
            tried = _Found(1, found.steps)
            yield _check(schema.key, Keyword(key), None, tried)
        if tried.problems:
            found.add((trail, key), tried.problems[0].error_name, f"as a key: {tried.problems[0].message}")
        if not found.enough():
            yield _check(schema.value, item, (trail, key), found)
        if found.enough():
            return


def _union(schema: UnionOf, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    for option in schema.options:
        tried = _Found(1, found.steps, read=False)
        yield _check(option, value, trail, tried)
        if not tried.problems:
            return
    found.mismatch(trail, schema, value)


def _refined(schema: Refined, value: Value, trail: _Trail, found: _Found) -> Steps[None]:
    before = len(found.problems)
    for base in schema.bases:
        yield _check(base, value, trail, found)
        if len(found.problems) > before:
            return
    for predicate in schema.predicates:
        found.spend()
        if not holds(predicate, value):
            condition = text_of(predicate, _SHOWN) if found.read else ""
            found.add(trail, "PredicateViolation", f"{_shown(value)} does not meet {condition}")
            if found.enough():
                return


def _is_base64(value: Value) -> bool:
    # Checked by its alphabet: groups of four characters, at most two of them padding; decoding would only copy the
    # text.
    if not isinstance(value, str) or len(value) % 4 or not value.isascii():
        return False
    return value[:-2].replace("+", "A").replace("/", "A").isalnum() and _is_tail(value[-2:]) if value else True


def _is_tail(tail: str) -> bool:
    plain = tail.rstrip("=").replace("+", "A").replace("/", "A")
    return plain == "" or plain.isalnum()


_PRIMITIVE: dict[str, Callable[[Value], bool]] = {
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) is float or type(value) is int,
    "string": lambda value: type(value) is str,
    "bool": lambda value: type(value) is bool,
    "nil": lambda value: value is None,
    "keyword": lambda value: type(value) is Keyword,
    "symbol": lambda value: type(value) is Symbol,
    "any": lambda value: True,
    "never": lambda value: False,
    "bytes": _is_base64,
}
_LEAVES: dict[type, Callable[[Any, Value], bool]] = {
    Primitive: lambda schema, value: _PRIMITIVE[schema.name](value),
    OneOf: lambda schema, value: any(equal(value, option) for option in schema.values),
    FunctionOf: lambda schema, value: type_name(value) == "function",
    ResourceOf: lambda schema, value: isinstance(value, Resource),
}
_CONTAINERS: dict[type, Callable[[Any, Value, _Trail, _Found], Steps[None]]] = {
    OptionalOf: _optional,
    VectorOf: _vector,
    ListOf: _list,
    TupleOf: _tuple,
    ArrayOf: _array,
    MapWith: _map,
    MapOf: _map_of,
    UnionOf: _union,
    Refined: _refined,
}


def _shown(value: Value) -> str:
    """Return a description of a value for a message: its type, and the value itself if it is small."""
    kind = type_name(value)
    if value is None:
        return "nil"
    if isinstance(value, str):
        return f"{kind} {_cut(repr(value[: _SHOWN + 1]))}"
    if isinstance(value, bool | int | float):
        return f"{kind} {value!r}"
    return f"{kind} {_cut(_key_text(value))}" if isinstance(value, Keyword | Symbol) else kind


def _key_text(key: Value) -> str:
    if isinstance(key, Keyword):
        return f":{key.name}"
    return key.name if isinstance(key, Symbol) else repr(key)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
