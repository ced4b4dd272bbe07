"""The forms of RTFS source: small immutable values that know their position.

Two forms are equal when they would be written alike; where they stood does not count. Comparing, hashing and showing
a form never uses the host's stack, however deep it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Position(NamedTuple):
    """A place in source text: the line and the column of a character, both from 1, columns in code points."""

    line: int
    column: int


NOWHERE = Position(0, 0)
"""The position of a form that no source text holds, as a macro makes them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """The base of all forms: equality, hash and repr by class, own value and parts."""

    def parts(self) -> tuple[Form, ...]:
        """Return the forms directly inside this one, in the order in which they are written."""
        return ()

    def own(self) -> object:
        """Return the hashable value that distinguishes this form from others of its class with equal parts."""
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        pairs: list[tuple[Node, Node]] = [(self, other)]
        while pairs:
            left, right = pairs.pop()
            if left is right:
                continue
            if left.__class__ is not right.__class__ or left.own() != right.own():
                return False
            pairs.extend(zip(left.parts(), right.parts(), strict=True))
        return True

    def __hash__(self) -> int:
        return hash(tuple((form.__class__, form.own()) for form in walk(self)))

    def __repr__(self) -> str:
        pieces: list[str] = []
        left: list[Node | str] = [self]
        while left:
            item = left.pop()
            if isinstance(item, str):
                pieces.append(item)
                continue
            parts = item.parts()
            value = repr(item.value if isinstance(item, Literal) else item.own()) if isinstance(item, _Named) else ""
            pieces.append(f"{item.__class__.__name__}({value}")
            left.append(")")
            for index in range(len(parts) - 1, -1, -1):
                left.append(parts[index])
                if index:
                    left.append(", ")
        return "".join(pieces)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Named(Node):
    """A form without parts, defined by its own value."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(_Named):
    """`nil` (None), a truth value, a 64-bit integer, a float (also infinite or not a number) or a string.

    Literals are told apart by type: `1`, `1.0` and `true` are three, `0.0` and `-0.0` two, and `##NaN` equals itself.
    """

    value: bool | int | float | str | None
    at: Position = NOWHERE

    def own(self) -> object:
        value = self.value
        return (float, repr(value)) if isinstance(value, float) else (type(value), value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Keyword(_Named):
    """`:name`; the name is kept without its colon, as `a.b/c`. A value of the language too."""

    name: str
    at: Position = NOWHERE

    def own(self) -> object:
        return self.name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Keyword and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name) ^ 0x3A


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Symbol(_Named):
    """A name, as `map`, `a.b/c`, `&`, or `:` alone, which stands between a name and its type."""

    name: str
    at: Position = NOWHERE

    def own(self) -> object:
        return self.name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Symbol and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name) ^ 0x27


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Timestamp(_Named):
    """A bare time, such as `2024-01-01T00:00:00Z`, kept as written."""

    text: str
    at: Position = NOWHERE

    def own(self) -> object:
        return self.text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Uuid(_Named):
    """A bare UUID, kept as written."""

    text: str
    at: Position = NOWHERE

    def own(self) -> object:
        return self.text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Resource(_Named):
    """A resource handle, `resource://…`, whole."""

    text: str
    at: Position = NOWHERE

    def own(self) -> object:
        return self.text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Context(_Named):
    """A context value by name: `@name`, or `@:name` (`keyword` is true); the name has neither sign."""

    name: str
    keyword: bool = False
    at: Position = NOWHERE

    def own(self) -> object:
        return f"@:{self.name}" if self.keyword else f"@{self.name}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListForm(Node):
    """`(a b c)`: a special form, a macro call or a function call. The reader makes none that is empty."""

    items: tuple[Form, ...]
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return self.items

    def own(self) -> object:
        return len(self.items)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VectorForm(Node):
    """`[a b c]`; `()` reads as an empty one."""

    items: tuple[Form, ...]
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return self.items

    def own(self) -> object:
        return len(self.items)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapForm(Node):
    """`{k v …}` in the order of the source, which counts in comparisons; no key stands twice.

    A key is a keyword, a string, an integer or, in a pattern (`{x :a & rest}`), a symbol.
    """

    entries: tuple[tuple[Form, Form], ...]
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return tuple(form for entry in self.entries for form in entry)

    def own(self) -> object:
        return len(self.entries)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quasiquote(Node):
    """`` `form ``: the form as data, with its unquoted parts evaluated."""

    form: Form
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return (self.form,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unquote(Node):
    """`~form`: in a quasiquote, the value of the form."""

    form: Form
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return (self.form,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Splice(Node):
    """`~@form`: in a quasiquoted sequence, the elements of the form's value."""

    form: Form
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return (self.form,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Annotated(Node):
    """`^{…} form` or `^:delegation form`: a form with metadata."""

    meta: MapForm | Keyword
    form: Form
    at: Position = NOWHERE

    def parts(self) -> tuple[Form, ...]:
        return (self.meta, self.form)


Form: TypeAlias = (
    Literal
    | Keyword
    | Symbol
    | Timestamp
    | Uuid
    | Resource
    | Context
    | ListForm
    | VectorForm
    | MapForm
    | Quasiquote
    | Unquote
    | Splice
    | Annotated
)
"""Any form of source."""


def walk(form: Node) -> Iterator[Node]:
    """Yield the form and all forms inside it, outer before inner, left before right."""
    left: list[Node] = [form]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(node.parts()))
