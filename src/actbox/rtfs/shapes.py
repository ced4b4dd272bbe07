"""The syntax of special forms, and the errors for forms that break it."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ReadError
from .syntax import NOWHERE, Annotated, Form, Keyword, ListForm, Literal, MapForm, Symbol, VectorForm

_TYPE_NAMES = frozenset(
    {
        *("int", "integer", "float", "number", "string", "bool", "boolean", "nil", "keyword", "symbol", "any"),
        *("never", "vector", "list", "map", "fn", "function"),
    }
)


def malformed(form: Form, message: str, expected: str) -> ReadError:
    """Return the error for a malformed special form."""
    return ReadError(message, form.at.line, form.at.column, expected)


def shape(form: ListForm, least: int, most: int | None, expected: str) -> tuple[Form, ...]:
    """Return the parts of a form after its head. Raises `ReadError` if there are too few or too many."""
    rest = form.items[1:]
    if len(rest) < least or (most is not None and len(rest) > most):
        raise malformed(form, f"{head_name(form)} has {len(rest)} part{'' if len(rest) == 1 else 's'}", expected)
    return rest


def head_name(form: Form) -> str:
    """Return the name at the head of a list; empty if the head is no name."""
    if isinstance(form, ListForm) and isinstance(form.items[0], Symbol):
        return form.items[0].name
    return ""


def vector_of(form: Form, expected: str) -> tuple[Form, ...]:
    """Return the items of a vector. Raises `ReadError` for anything else."""
    if not isinstance(form, VectorForm):
        raise malformed(form, "not a vector", expected)
    return form.items


def symbol_name(form: Form, expected: str) -> str:
    """Return a symbol's name. Raises `ReadError` for anything else."""
    if not isinstance(form, Symbol):
        raise malformed(form, "not a name", expected)
    return form.name


_TARGETS = frozenset({"local", "local-model", "remote"})


def without_metadata(parts: tuple[Form, ...]) -> tuple[Form, ...]:
    """Return the parts after `fn`, `defn` or `def` without leading metadata, which nothing here needs.

    `^:delegation` may say a target, which then stands between it and the name: `^:delegation :remote "model" name`.
    """
    while parts and isinstance(parts[0], Annotated):
        form = parts[0].form
        if isinstance(form, Keyword) and form.name in _TARGETS:
            parts = parts[1:]
            if len(parts) > 1 and isinstance(parts[0], Literal) and isinstance(parts[0].value, str):
                parts = parts[1:]
        else:
            parts = (form, *parts[1:])
    return parts


def is_colon(form: Form) -> bool:
    """Return True if the form is the `:` between a name and its type."""
    return isinstance(form, Symbol) and form.name == ":"


def is_type_keyword(form: Form) -> bool:
    """Return True if the form is a keyword that names a type, such as `:int` or `:String?`."""
    return isinstance(form, Keyword) and form.name.removesuffix("?").lower() in _TYPE_NAMES


def is_pattern(form: Form) -> bool:
    """Return True if a value can be bound to this form."""
    return isinstance(form, (VectorForm, MapForm)) or (isinstance(form, Symbol) and form.name not in (":", "&"))


@dataclass(frozen=True, slots=True)
class Binding:
    """`pattern : type value` of a `let`."""

    pattern: Form
    type: Form | None
    value: Form


@dataclass(frozen=True, slots=True)
class Parameter:
    """`pattern : type` of a function."""

    pattern: Form
    type: Form | None


def bindings(form: Form) -> list[Binding]:
    """Return the bindings of a `let`. Raises `ReadError` for an invalid vector.

    `[x :int y]` can be read in two ways; a keyword after a name is its type wherever the rest can be read then.
    """
    expected = "[name value …] or [name : Type value …]"
    items = vector_of(form, expected)
    count = len(items)
    # step[i]: the number of items in the binding that begins at i; 0 if no binding can begin there.
    step = [0] * (count + 1)

    def fits(end: int) -> bool:
        return end == count or (end < count and step[end] > 0)

    for i in range(count - 2, -1, -1):
        if not is_pattern(items[i]):
            continue
        if is_colon(items[i + 1]):
            step[i] = 4 if fits(i + 4) else 0
        elif is_type_keyword(items[i + 1]) and i + 2 < count and fits(i + 3):
            step[i] = 3
        elif fits(i + 2):
            step[i] = 2
    found: list[Binding] = []
    i = 0
    while i < count:
        if not step[i]:
            raise malformed(items[i], "the bindings are not pairs of a name and a value", expected)
        end = i + step[i]
        found.append(Binding(items[i], items[end - 2] if step[i] > 2 else None, items[end - 1]))
        i = end
    return found


def parameters(form: Form) -> tuple[list[Parameter], Parameter | None]:
    """Return a function's parameters, and the one after `&`. Raises `ReadError` for an invalid vector."""
    expected = "[name …], [name : Type …] or [name … & rest]"
    items = vector_of(form, expected)
    found: list[Parameter] = []
    rest: Parameter | None = None
    i = 0
    while i < len(items):
        is_rest = isinstance(items[i], Symbol) and items[i] == Symbol("&")
        if is_rest:
            i += 1
        if i >= len(items) or not is_pattern(items[i]) or rest is not None:
            raise malformed(items[min(i, len(items) - 1)], "not a parameter", expected)
        pattern = items[i]
        i += 1
        kind: Form | None = None
        if i + 1 < len(items) and is_colon(items[i]):
            kind = items[i + 1]
            i += 2
        elif i < len(items) and isinstance(items[i], Keyword):
            kind = items[i]
            i += 1
        if is_rest:
            rest = Parameter(pattern, kind)
        else:
            found.append(Parameter(pattern, kind))
    return found, rest


def body_of(forms: tuple[Form, ...]) -> Form:
    """Return several forms as one form: the form itself if there is one, else a `do`."""
    return forms[0] if len(forms) == 1 else ListForm((Symbol("do"), *forms), forms[0].at if forms else NOWHERE)
