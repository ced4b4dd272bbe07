"""Conversion between literal forms and values, as `[:enum …]` and `[:= x]` need it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from actbox.rtfs.syntax import Form, Keyword, ListForm, Literal, MapForm, Resource, Symbol, Timestamp, Uuid, VectorForm
from actbox.rtfs.values import List, Map, Value, Vector, type_name

from .nodes import SchemaError
from .trampoline import Steps, settle

_ATOMS = (Keyword, Symbol, Timestamp, Uuid, Resource)


def value_of(form: Form) -> Value:
    """Return the value of a literal form; a symbol stands for itself. Raises `SchemaError` for other forms."""
    return settle(_value(form))


def form_of_value(value: Value) -> Form:
    """Return the literal form of a value. Raises `SchemaError` for a function, or an error."""
    return settle(_form(value))


def _value(form: Form) -> Steps[Value]:
    if isinstance(form, Literal):
        return form.value
    if isinstance(form, VectorForm | ListForm):
        items: list[Value] = []
        for item in form.items:
            items.append((yield _value(item)))
        return Vector(items) if isinstance(form, VectorForm) else List(items)
    if isinstance(form, MapForm):
        pairs: list[tuple[Value, Value]] = []
        for key, item in form.entries:
            pairs.append((key.value if isinstance(key, Literal) else key, (yield _value(item))))
        return Map.of(pairs)
    if isinstance(form, _ATOMS):
        return form
    raise SchemaError(f"a {type(form).__name__} is no literal", at=form.at)


def _form(value: Value) -> Steps[Form]:
    if value is None or isinstance(value, bool | int | float | str):
        return Literal(value)
    if isinstance(value, Vector | List):
        items: list[Form] = []
        for item in cast(Iterable[Value], value):
            items.append((yield _form(item)))
        return VectorForm(tuple(items)) if isinstance(value, Vector) else ListForm(tuple(items))
    if isinstance(value, Map):
        entries: list[tuple[Form, Form]] = []
        for key, item in value.pairs():
            entries.append(((yield _form(key)), (yield _form(item))))
        return MapForm(tuple(entries))
    if isinstance(value, _ATOMS):
        return value
    raise SchemaError(f"a {type_name(value)} is no part of a schema")
