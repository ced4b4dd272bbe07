"""The RTFS form of capabilities: `(capability "id" :description … :input-schema … :effects [:compute])`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from actbox.core.errors import InvalidValue
from actbox.rtfs.conversion import to_json
from actbox.rtfs.errors import ReadError, WriteError
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.printer import write as write_form
from actbox.rtfs.reader import read as read_forms
from actbox.rtfs.schemas import SchemaError
from actbox.rtfs.schemas.literals import form_of_value, value_of
from actbox.rtfs.syntax import Form, Keyword, ListForm, Literal, Symbol
from actbox.rtfs.tokens import NAME
from actbox.rtfs.values import Map, Value, Vector

KEYS = {
    "description": "description",
    "version": "version",
    "input-schema": "input_schema",
    "output-schema": "output_schema",
    "runtime": "runtime",
    "effects": "effects",
    "risk": "risk",
    "approval": "approvals",
    "resources": "resources",
    "resource-estimates": "estimates",
    "filesystem": "filesystem",
    "network": "network",
    "secrets": "secrets",
    "data": "data",
    "retry-safe": "retry_safe",
}
"""The keys of the form, in the order in which they are written, and the fields of a capability that they are."""
_SCHEMAS = ("input-schema", "output-schema")
_LISTS = ("effects", "approval", "filesystem", "network", "secrets")
_RECORDS = ("runtime", "resources", "resource-estimates")
_WORDS = ("type", "effects", "risk", "approval")
"""The keys whose texts are written as keywords where they can be; all other texts are strings."""
_KEYWORD = re.compile(NAME)


def read(text: str) -> tuple[dict[str, Any], ...]:
    """Return the fields of each capability in a text: schemas as forms, all else as JSON data.

    A list may be one item without brackets, and `nil` or `false` where it is empty. Raises `InvalidValue` with the
    place in the text.
    """
    try:
        return tuple(map(_read, read_forms(text)))
    except (ReadError, SchemaError, RtfsError) as error:
        raise InvalidValue(f"the capability cannot be read: {error}") from None


def write(fields: Mapping[str, Any]) -> str:
    """Return a capability's fields, in the form that `read` returns, as text. Raises `InvalidValue`."""
    try:
        lines = [f"(capability {write_form(Literal(fields['id']))}"]
        for key, field in KEYS.items():
            if field in fields:
                value = fields[field]
                form = value if key in _SCHEMAS else form_of_value(_value(key, value))
                lines.append(f"  :{key} {write_form(form)}")
    except WriteError as error:
        raise InvalidValue(f"the capability {fields['id']} cannot be written: {error}") from None
    return "\n".join(lines) + ")"


def known(name: object, names: Iterable[str], what: str) -> str:
    """Return a name that is one of `names`. Else raise `InvalidValue` with the nearest of them."""
    listed = list(names)
    if isinstance(name, str) and name in listed:
        return name
    shown = str(name)[:100]
    near = difflib.get_close_matches(shown, listed, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(listed)}"
    raise InvalidValue(f"{what} {shown!r}; {hint}")


def _read(form: Form) -> dict[str, Any]:
    if not isinstance(form, ListForm) or len(form.items) < 2 or form.items[0] != Symbol("capability"):
        raise _at(form, 'a capability is (capability "id" :description "…" …)')
    _, name, *pairs = form.items
    if not isinstance(name, Literal) or not isinstance(name.value, str):
        raise _at(name, "the id of a capability is a string")
    fields: dict[str, Any] = {"id": name.value}
    for index in range(0, len(pairs), 2):
        key = pairs[index]
        if not isinstance(key, Keyword):
            raise _at(key, "a keyword belongs here, as :description")
        try:
            field = KEYS[known(key.name, KEYS, "a capability has no key")]
        except InvalidValue as error:
            raise _at(key, str(error)) from None
        if field in fields:
            raise _at(key, f"the key :{key.name} stands twice")
        if index + 1 == len(pairs):
            raise _at(key, f"the key :{key.name} has no value")
        fields[field] = _data(key.name, pairs[index + 1])
    return fields


def _data(key: str, form: Form) -> Any:
    if key in _SCHEMAS:
        return form
    data = to_json(value_of(form))
    if key in _LISTS:
        return data if isinstance(data, list) else [] if data is None or data is False else [data]
    if key in _RECORDS:
        if not isinstance(data, dict):
            raise _at(form, f"the value of :{key} is a map")
        return {name.replace("-", "_"): value for name, value in data.items()}
    return data


def _value(key: str, data: Any) -> Value:
    if isinstance(data, Mapping):
        return Map.of((Keyword(name.replace("_", "-")), _value(name, value)) for name, value in data.items())
    if isinstance(data, list | tuple):
        return Vector(_value(key, item) for item in data)
    return Keyword(data) if key in _WORDS and isinstance(data, str) and _KEYWORD.fullmatch(data) else data


def _at(form: Form, message: str) -> InvalidValue:
    line, column = getattr(form, "at", (0, 0))
    return InvalidValue(f"line {line}, column {column}: {message}" if line else message)
