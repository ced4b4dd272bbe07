"""What a schema consists of: small immutable values, whichever dialect or format they were written in.

Two schemas are equal when they would be written alike; `str()` writes one in RTFS. Neither uses the host's stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actbox.core.errors import ActboxError
from actbox.rtfs.syntax import NOWHERE, Form, Keyword, Literal, Position
from actbox.rtfs.values import Value


class SchemaError(ActboxError):
    """A form or a JSON schema that is no schema, or one that cannot be said in the other format.

    `name` is the error's name in the language: UnknownPredicate, InvalidRegexPattern, or TypeValidationError for all
    else. `line` and `column` count from 1, and are 0 where no source text is to blame.
    """

    def __init__(self, message: str, name: str = "TypeValidationError", at: Position = NOWHERE) -> None:
        super().__init__(f"line {at.line}, column {at.column}: {message}" if at.line else message)
        self.message = message
        self.name = name
        self.line, self.column = at

    def __reduce__(self) -> tuple[type[SchemaError], tuple[str, str, Position]]:
        return SchemaError, (self.message, self.name, Position(self.line, self.column))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """What a value must be."""

    def __eq__(self, other: object) -> bool:
        from .written import form_of

        return form_of(self) == form_of(other) if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        from .written import form_of

        return hash(form_of(self))

    def __str__(self) -> str:
        from actbox.rtfs.printer import write

        from .written import form_of

        return write(form_of(self))

    def __repr__(self) -> str:
        from .written import text_of

        return f"<schema {text_of(self, 400)}>"


PRIMITIVES: Final = ("int", "float", "string", "bool", "nil", "keyword", "symbol", "any", "never", "bytes")
"""The types that are one word. `bytes` is text in base64, as JSON carries bytes."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Primitive(Schema):
    """One of `PRIMITIVES`. An int is a float too."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OptionalOf(Schema):
    """`T?`: nil or the inner type."""

    inner: Schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VectorOf(Schema):
    """`[:vector T]`: a vector of any length."""

    element: Schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListOf(Schema):
    """`[:list T]`: a list, as rest parameters are, of any length."""

    element: Schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleOf(Schema):
    """`[:tuple A B]`: a vector of as many elements, each of its own type."""

    elements: tuple[Schema, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayOf(Schema):
    """`[:array T [3 ?]]`: vectors in vectors of these lengths, of any where the length is None."""

    element: Schema
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Entry:
    """A key of a map and what stands there."""

    key: Keyword | Literal
    """A keyword, or a string or integer literal."""
    schema: Schema
    optional: bool = False
    description: str = ""
    default: Form | None = None
    """A literal form, said in JSON schemas; the checks do not fill it in."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapWith(Schema):
    """`[:map [:k T] [:j T ?] [:* T]]`: a map with these keys.

    Other keys are allowed, of type `rest` where there is one, unless the map is `closed`.
    """

    entries: tuple[Entry, ...]
    rest: Schema | None = None
    closed: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapOf(Schema):
    """`[:map-of K V]`: a map whose keys and values are all of these types."""

    key: Schema
    value: Schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FunctionOf(Schema):
    """`[:fn [A & B] R]`: any function passes, since a call alone can show more."""

    parameters: tuple[Schema, ...]
    rest: Schema | None
    returns: Schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OneOf(Schema):
    """`[:enum a b]`, or `[:val x]` (`single`): one of these literal values."""

    options: tuple[Form, ...]
    values: tuple[Value, ...]
    """What the options say."""
    single: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnionOf(Schema):
    """`[:union A B]`: of one of these types."""

    options: tuple[Schema, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predicate:
    """`[:min-length 3]`: a condition on a value, by its name in `predicates.PREDICATES`."""

    name: str
    arguments: tuple[Form, ...]
    values: tuple[Value, ...]
    """What the arguments say."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Refined(Schema):
    """`[:and T predicate…]`: of all of these types, and every condition holds."""

    bases: tuple[Schema, ...]
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResourceOf(Schema):
    """`[:resource s]`: a resource handle; what kind of resource it is cannot be seen from the handle."""

    name: str


ANY: Final = Primitive("any")
