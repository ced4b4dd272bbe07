"""The nodes of schemas: small immutable values, the same for every dialect and format.

Two schemas are equal when they would be written alike; `str()` writes one in RTFS. Neither uses the host's stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from actbox.core.errors import ActboxError
from actbox.rtfs.errors import WriteError
from actbox.rtfs.printer import write
from actbox.rtfs.syntax import NOWHERE, Form, Keyword, Literal, MapForm, Position, Symbol, VectorForm
from actbox.rtfs.values import Value

from .trampoline import Steps, settle

_ANY_LENGTH = Symbol("?")


class SchemaError(ActboxError):
    """A form or JSON schema is not a valid schema, or cannot be expressed in the other format.

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
    """The type of a value: the base class of all schemas."""

    def __eq__(self, other: object) -> bool:

        return form_of(self) == form_of(other) if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:

        return hash(form_of(self))

    def __str__(self) -> str:
        from actbox.rtfs.printer import write

        return write(form_of(self))

    def __repr__(self) -> str:

        return f"<schema {text_of(self, 400)}>"


PRIMITIVES: Final = ("int", "float", "string", "bool", "nil", "keyword", "symbol", "any", "never", "bytes")
"""The types of one word. `bytes` is text in base64, as JSON carries bytes."""


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
    """A key of a map type and the type of its value."""

    key: Keyword | Literal
    """A keyword, or a string or integer literal."""
    schema: Schema
    optional: bool = False
    description: str = ""
    default: Form | None = None
    """The default, as a literal form; it appears in JSON schemas, but checks do not fill it in."""


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
    """The values of the options."""
    single: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnionOf(Schema):
    """`[:union A B]`: a value of one of these types."""

    options: tuple[Schema, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predicate:
    """`[:min-length 3]`: a condition on a value, by its name in `predicates.PREDICATES`."""

    name: str
    arguments: tuple[Form, ...]
    values: tuple[Value, ...]
    """The values of the arguments."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Refined(Schema):
    """`[:and T predicate…]`: a value of all of these types that meets every condition."""

    bases: tuple[Schema, ...]
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResourceOf(Schema):
    """`[:resource s]`: a resource handle; what kind of resource it is cannot be seen from the handle."""

    name: str


ANY: Final = Primitive("any")


def form_of(schema: Schema) -> Form:
    """Return the schema as a form, always the same one for equal schemas."""
    return settle(_form(schema))


def text_of(what: Schema | Predicate, most: int) -> str:
    """Return a schema or condition as text for a message: its own form if that has at most `most` characters."""
    form = predicate_form(what) if isinstance(what, Predicate) else form_of(what)
    try:
        # A character has at most four bytes, so a text of `most` characters is never refused for its size.
        text = write(form, max_bytes=4 * most)
    except WriteError:
        text = ""
    if text and len(text) <= most:
        return text
    head = form.items[0] if isinstance(form, VectorForm) and form.items else form
    return f"[{write(head, max_bytes=most)} …]" if isinstance(head, Keyword) else "…"


def predicate_form(condition: Predicate) -> Form:
    """Return a predicate as a form."""
    return _tagged(condition.name, condition.arguments) if condition.arguments else Keyword(condition.name)


def _tagged(tag: str, items: Iterable[Form]) -> VectorForm:
    return VectorForm((Keyword(tag), *items))


def _form(schema: Schema) -> Steps[Form]:
    match schema:
        case Primitive(name):
            return Keyword(name)
        case OptionalOf(Primitive(name)):
            return Keyword(f"{name}?")
        case OptionalOf(inner):
            return _tagged("maybe", [(yield _form(inner))])
        case VectorOf(element):
            return _tagged("vector", [(yield _form(element))])
        case ListOf(element):
            return _tagged("list", [(yield _form(element))])
        case TupleOf(elements):
            return _tagged("tuple", (yield _forms(elements)))
        case ArrayOf(element, shape):
            lengths = VectorForm(tuple(_ANY_LENGTH if length is None else Literal(length) for length in shape))
            return _tagged("array", [(yield _form(element)), lengths])
        case MapWith():
            found: Form = yield _map(schema)
            return found
        case MapOf(key, value):
            return _tagged("map-of", [(yield _form(key)), (yield _form(value))])
        case FunctionOf(parameters, rest, returns):
            forms_of_parameters: list[Form] = yield _forms(parameters)
            if rest is not None:
                forms_of_parameters += Symbol("&"), (yield _form(rest))
            return _tagged("fn", [VectorForm(tuple(forms_of_parameters)), (yield _form(returns))])
        case OneOf(options, _, single):
            return _tagged("val" if single else "enum", options)
        case UnionOf(options):
            return _tagged("union", (yield _forms(options)))
        case Refined(bases, predicates):
            return _tagged("and", [*(yield _forms(bases)), *map(predicate_form, predicates)])
        case ResourceOf(name):
            return _tagged("resource", [Literal(name)])
    raise AssertionError(f"no form is known for {type(schema).__name__}")


def _forms(schemas: Iterable[Schema]) -> Steps[list[Form]]:
    forms: list[Form] = []
    for schema in schemas:
        forms.append((yield _form(schema)))
    return forms


def _map(schema: MapWith) -> Steps[Form]:
    items: list[Form] = []
    properties: list[tuple[Form, Form]] = []
    if schema.closed:
        properties.append((Keyword("closed"), Literal(True)))
    if schema.description:
        properties.append((Keyword("description"), Literal(schema.description)))
    if properties:
        items.append(MapForm(tuple(properties)))
    for entry in schema.entries:
        items.append((yield _entry(entry)))
    if schema.rest is not None:
        items.append(_tagged("*", [(yield _form(schema.rest))]))
    return _tagged("map", items)


def _entry(entry: Entry) -> Steps[Form]:
    inner: Form = yield _form(entry.schema)
    if not entry.description and entry.default is None:
        return VectorForm((entry.key, inner, _ANY_LENGTH) if entry.optional else (entry.key, inner))
    properties: list[tuple[Form, Form]] = []
    if entry.optional:
        properties.append((Keyword("optional"), Literal(True)))
    if entry.description:
        properties.append((Keyword("description"), Literal(entry.description)))
    if entry.default is not None:
        properties.append((Keyword("default"), entry.default))
    return VectorForm((entry.key, MapForm(tuple(properties)), inner))
