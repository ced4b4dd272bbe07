"""Patterns: destructuring of values for `let`, for parameters and for `match`.

A pattern becomes a list of steps over the slots of a frame, however deeply it is nested. A step returns `None`, or a
sentence that says why the value does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .budget import COPIED_PER_STEP
from .code import Environment, Frame
from .shapes import malformed
from .syntax import Form, Keyword, Literal, MapForm, Resource, Symbol, Timestamp, Uuid, VectorForm
from .values import EMPTY_BYTES, MISSING, List, Map, Value, Vector, described, equal, heads, key_of

Step: TypeAlias = Callable[[Frame], str | None]


class PatternCompiler:
    """A compiler of patterns into steps.

    `declare` returns the slot of a name that a pattern binds, `scratch` one without a name. `refutable`: a pattern of
    `match`, in which literals are compared and a map must have just the keys named. `lenient`: missing elements are
    nil, and so is everything in nil. `rest_is_list`: what `&` gathers is a list, as in parameters.
    """

    def __init__(
        self,
        environment: Environment,
        declare: Callable[[str], int],
        scratch: Callable[[], int],
        *,
        refutable: bool = False,
        lenient: bool = False,
        rest_is_list: bool = False,
    ) -> None:
        self._environment = environment
        self._declare = declare
        self._scratch = scratch
        self._refutable = refutable
        self._lenient = lenient
        self._rest: type[Vector] | type[List] = List if rest_is_list else Vector

    def steps(self, pattern: Form, source: int) -> tuple[Step, ...]:
        """Return the steps that destructure the value in slot `source`. Raises `ReadError` for a form that is no
        pattern.
        """
        found: list[Step] = []
        left: list[tuple[Form, int]] = [(pattern, source)]
        while left:
            form, slot = left.pop()
            inner: list[tuple[Form, int]] = []
            if isinstance(form, Symbol):
                if form.name != "_":
                    found.append(_copy(slot, self._declare(form.name)))
            elif isinstance(form, VectorForm):
                found.append(self._vector(form, slot, inner))
            elif isinstance(form, MapForm):
                found.append(self._map(form, slot, inner, found))
            elif self._refutable and isinstance(form, (Literal, Keyword, Timestamp, Uuid, Resource)):
                found.append(_same(slot, form.value if isinstance(form, Literal) else form))
            else:
                raise malformed(form, "not a pattern", self._expected())
            left.extend(reversed(inner))
        return tuple(found)

    def _expected(self) -> str:
        literal = "a literal, " if self._refutable else ""
        return f"{literal}a name, _, a vector or a map of patterns"

    def _target(self, form: Form, inner: list[tuple[Form, int]]) -> int:
        """Return the slot for a part of the value, or -1 if the part is not kept. A part that is itself a pattern is
        destructured later.
        """
        if isinstance(form, Symbol):
            return -1 if form.name == "_" else self._declare(form.name)
        slot = self._scratch()
        inner.append((form, slot))
        return slot

    def _vector(self, form: VectorForm, slot: int, inner: list[tuple[Form, int]]) -> Step:
        items = list(form.items)
        if not self._refutable and len(items) > 1 and items[-2] == Keyword("as") and isinstance(items[-1], Symbol):
            inner.append((items[-1], slot))
            items = items[:-2]
        rest = -1
        has_rest = Symbol("&") in items
        if has_rest:
            at = items.index(Symbol("&"))
            if at != len(items) - 2:
                raise malformed(form, "& is not followed by one pattern at the end", "[a b & rest]")
            tail = items[at + 1]
            items = items[:at]
        targets = tuple(self._target(item, inner) for item in items)
        if has_rest:
            rest = self._target(tail, inner)
        return _vector_step(
            self._environment, slot, targets, has_rest, rest, self._rest, self._lenient and not self._refutable
        )

    def _map(self, form: MapForm, slot: int, inner: list[tuple[Form, int]], found: list[Step]) -> Step:
        wanted: list[tuple[Any, int]] = []
        rest = -1
        has_rest = False
        for key, part in form.entries:
            if isinstance(key, Symbol) and key.name == "&":
                has_rest = True
                rest = self._target(part, inner)
            elif isinstance(key, Symbol):  # {name :key}
                if not isinstance(part, (Keyword, Literal)):
                    raise malformed(part, "not a key", "{name :key}")
                wanted.append((_key(part), self._target(key, inner)))
            elif isinstance(key, Keyword) and key.name == "keys" and isinstance(part, VectorForm):
                for name in part.items:
                    if not isinstance(name, Symbol):
                        raise malformed(name, "not a name", ":keys [a b]")
                    wanted.append((Keyword(name.name), self._declare(name.name)))
            elif isinstance(key, Keyword) and key.name == "as" and isinstance(part, Symbol):
                inner.append((part, slot))
            else:
                wanted.append((_key(key), self._target(part, inner)))
        exact = self._refutable and not has_rest
        return _map_step(self._environment, slot, tuple(wanted), exact, rest, self._refutable, self._lenient)


def _key(form: Form) -> Any:
    return key_of(form.value if isinstance(form, Literal) else form)


def _copy(source: int, target: int) -> Step:
    def step(frame: Frame) -> None:
        frame[target] = frame[source]

    return step


def _same(source: int, value: Value) -> Step:
    def step(frame: Frame) -> str | None:
        return None if equal(frame[source], value) else "is another value"

    return step


def _vector_step(
    environment: Environment,
    source: int,
    targets: tuple[int, ...],
    has_rest: bool,
    rest: int,
    rest_type: type[Vector] | type[List],
    fill: bool,
) -> Step:
    count = len(targets)
    needed = f"needs {'at least ' if has_rest else ''}{count} element{'' if count == 1 else 's'}"

    def step(frame: Frame) -> str | None:
        value = frame[source]
        if value is None and fill:
            items: tuple[Value, ...] = ()
        elif type(value) is Vector or type(value) is List:
            items = value.items
        else:
            return f"needs a vector, not {described(value)}"
        if fill:
            if len(items) < count:
                items += (None,) * (count - len(items))
        elif len(items) < count or (len(items) > count and not has_rest):
            return f"{needed}, not {len(items)}"
        for target, item in zip(targets, items, strict=False):
            if target >= 0:
                frame[target] = item
        if rest >= 0:
            left = rest_type(items[count:], EMPTY_BYTES if len(items) <= count else value.size - heads(items[:count]))
            environment.meter.charge(len(left) // COPIED_PER_STEP)
            frame[rest] = environment.meter.made(left)
        return None

    return step


def _map_step(
    environment: Environment,
    source: int,
    wanted: tuple[tuple[Any, int], ...],
    exact: bool,
    rest: int,
    refutable: bool,
    fill: bool,
) -> Step:
    keys = frozenset(key for key, _ in wanted)

    def step(frame: Frame) -> str | None:
        value = frame[source]
        if type(value) is not Map:
            if value is not None or not fill or refutable:
                return f"needs a map, not {described(value)}"
            value = Map()
        if exact and len(value.entries) != len(keys):
            return "has other keys"
        for key, target in wanted:
            item = value.entries.get(key, MISSING)
            if item is MISSING and value.loose and type(key) is Keyword:
                item = value.entries.get(key.name, MISSING)
            if item is MISSING:
                if refutable:
                    return "lacks a key"
                item = None
            if target >= 0:
                frame[target] = item
        if rest >= 0:
            left = {key: item for key, item in value.entries.items() if key not in keys}
            environment.meter.charge(len(left))
            frame[rest] = environment.meter.made(Map(left, loose=value.loose))
        return None

    return step
