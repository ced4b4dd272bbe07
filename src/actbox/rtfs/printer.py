"""The printer: from forms to source text that reads back as the same forms."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import tokens
from .errors import WriteError
from .syntax import (
    Annotated,
    Context,
    Form,
    Keyword,
    ListForm,
    Literal,
    MapForm,
    Quasiquote,
    Resource,
    Splice,
    Symbol,
    Timestamp,
    Unquote,
    Uuid,
    VectorForm,
)
from .values import float_literal

MAX_BYTES = 16 * 1024 * 1024
"""The default limit of the text's size, in bytes."""

_NAME = re.compile(tokens.NAME)
_TEXTS: dict[type, re.Pattern[str]] = {
    Timestamp: re.compile(tokens.TIMESTAMP),
    Uuid: re.compile(tokens.UUID),
    Resource: re.compile(tokens.RESOURCE),
}
_ESCAPED = str.maketrans({character: f"\\{letter}" for letter, character in tokens.ESCAPES.items()})
_BRACKETS: dict[type, tuple[str, str]] = {ListForm: ("(", ")"), VectorForm: ("[", "]"), MapForm: ("{", "}")}
_PREFIXES: dict[type, str] = {Quasiquote: "`", Unquote: "~", Splice: "~@"}


def write(form: Form, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the form as source on as few lines as its strings allow: `read(write(form)) == (form,)`.

    Never uses the host's stack, and stops when the text has `max_bytes` in UTF-8.

    Raises `WriteError` for a form that no source reads as (an empty `ListForm`, a symbol with a space in its name, an
    integer of more than 64 bits), and for a text that would be larger.
    """
    pieces: list[str] = []
    size = 0
    left: list[Form | str] = [form]
    while left:
        item = left.pop()
        if isinstance(item, ListForm | VectorForm | MapForm | Annotated):
            _queue(item, left)
            continue
        if isinstance(item, Quasiquote | Unquote | Splice):
            piece = _PREFIXES[type(item)]
            # `~ @name` is a context value unquoted; without the space it would be a splice.
            if isinstance(item, Unquote) and isinstance(item.form, Context):
                piece += " "
            left.append(item.form)
        else:
            piece = item if isinstance(item, str) else _atom(item)
        size += len(piece) if piece.isascii() else len(piece.encode())
        if size > max_bytes:
            raise WriteError(f"the form takes more than {max_bytes} bytes to write")
        pieces.append(piece)
    return "".join(pieces)


def write_program(forms: Iterable[Form], *, max_bytes: int = MAX_BYTES) -> str:
    """Return the forms as a program, each on a line of its own: `read(write_program(forms)) == tuple(forms)`.

    Raises `WriteError` as `write` does; `max_bytes` bounds the whole text.
    """
    lines: list[str] = []
    room = max_bytes
    for form in forms:
        line = write(form, max_bytes=room - len("\n")) + "\n"
        room -= len(line) if line.isascii() else len(line.encode())
        lines.append(line)
    return "".join(lines)


def _queue(form: ListForm | VectorForm | MapForm | Annotated, left: list[Form | str]) -> None:
    """Push the parts of a form on the stack of parts still to write."""
    if isinstance(form, ListForm) and not form.items:
        raise WriteError("a list without a form in it would read as an empty vector")
    if isinstance(form, MapForm):
        _check_keys(form)
    if isinstance(form, Annotated):
        if isinstance(form.meta, Keyword) and form.meta.name != "delegation":
            raise WriteError(f"{form.meta!r} is no metadata; only a map and `:delegation` are")
        opener, closer = "^", ""
    else:
        opener, closer = _BRACKETS[type(form)]
    left.append(closer)
    parts = form.parts()
    for index in range(len(parts) - 1, -1, -1):
        left.append(parts[index])
        if index:
            left.append(" ")
    left.append(opener)


def _check_keys(form: MapForm) -> None:
    """Raise `WriteError` for keys that the reader would refuse."""
    seen: set[Form] = set()
    for key, _ in form.entries:
        if not (isinstance(key, Keyword | Symbol) or (isinstance(key, Literal) and type(key.value) in (str, int))):
            raise WriteError(f"a {type(key).__name__} cannot be a key of a map")
        if key in seen:
            raise WriteError(f"the key {key!r} stands twice in the map")
        seen.add(key)


def _atom(form: Form) -> str:
    """Return the text of a form without parts."""
    if isinstance(form, Symbol):
        name = form.name
        if name in ("&", ":") or (_NAME.fullmatch(name) and not tokens.NO_SYMBOL.fullmatch(name)):
            return name
    elif isinstance(form, Keyword):
        if _NAME.fullmatch(form.name):
            return f":{form.name}"
    elif isinstance(form, Literal):
        return _literal(form.value)
    elif isinstance(form, Context):
        if _NAME.fullmatch(form.name):
            return f"@:{form.name}" if form.keyword else f"@{form.name}"
    elif isinstance(form, Timestamp | Uuid | Resource) and _TEXTS[type(form)].fullmatch(form.text):
        return form.text
    raise WriteError(f"no source reads as {form!r}")


def _literal(value: bool | int | float | str | None) -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            code = ord(value[problem.start])
            raise WriteError(f"a string with U+{code:04X}, half of a surrogate pair, cannot be written") from None
        return f'"{value.translate(_ESCAPED)}"'
    if isinstance(value, int):
        if tokens.INT_MIN <= value <= tokens.INT_MAX:
            return str(value)
        raise WriteError(f"an integer of {value.bit_length()} bits does not fit in 64")
    return float_literal(value)
