"""Schemas as forms, in the language's own dialect: `parse_schema(form_of(schema)) == schema`."""

from __future__ import annotations

from collections.abc import Iterable

from actbox.rtfs.errors import WriteError
from actbox.rtfs.printer import write
from actbox.rtfs.syntax import Form, Keyword, Literal, MapForm, Symbol, VectorForm

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
    TupleOf,
    UnionOf,
    VectorOf,
)
from .trampoline import Steps, settle

_ANY_LENGTH = Symbol("?")


def form_of(schema: Schema) -> Form:
    """Return the schema as a form, always the same one for equal schemas."""
    return settle(_form(schema))


def text_of(what: Schema | Predicate, most: int) -> str:
    """Return what a message shows of a schema or a condition: itself where it has at most so many characters."""
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
            taken: list[Form] = yield _forms(parameters)
            if rest is not None:
                taken += Symbol("&"), (yield _form(rest))
            return _tagged("fn", [VectorForm(tuple(taken)), (yield _form(returns))])
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
