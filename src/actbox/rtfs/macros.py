"""Macros: before compilation, each macro call is replaced by the macro's template with the argument forms filled in."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from .budget import Meter
from .failures import BudgetExhausted, RtfsError
from .shapes import head_name, malformed, shape, symbol_name, vector_of
from .syntax import Annotated, Form, ListForm, Literal, MapForm, Quasiquote, Splice, Symbol, Unquote, VectorForm, walk

MAX_FORMS = 200_000
"""The most forms that a program's expansions may add; it ends a macro that calls itself."""


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: its parameters, its rest parameter (after `&`), and its template."""

    name: str
    names: tuple[str, ...]
    rest: str | None
    template: Form


class MacroExpander:
    """The macros of an interpreter. Substitution is unhygienic, and a macro is known only after its definition."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._macros: dict[str, Macro] = {}
        self._left = MAX_FORMS

    @property
    def names(self) -> frozenset[str]:
        """The names of the defined macros."""
        return frozenset(self._macros)

    def state(self) -> dict[str, Macro]:
        """Return a copy of the macros by their names."""
        return dict(self._macros)

    def restore(self, macros: Mapping[str, Macro]) -> None:
        """Replace all macros by these."""
        self._macros = dict(macros)

    def expand(self, form: Form) -> Form:
        """Return the form with all macro calls expanded. Raises BudgetExhausted if the expansion grows too large."""
        self._left = MAX_FORMS + sum(1 for _ in walk(form))
        work: list[Generator[Form, Form, Form]] = []
        result: Form = form
        current: Form | None = form
        while True:
            if current is not None:
                work.append(self._visit(current))
                current = None
                step: Form | None = None
            else:
                step = result
            try:
                current = next(work[-1]) if step is None else work[-1].send(step)
            except StopIteration as stop:
                work.pop()
                result = stop.value
                if not work:
                    return result

    def _visit(self, form: Form) -> Generator[Form, Form, Form]:
        while isinstance(form, ListForm) and head_name(form) in self._macros:
            form = self._called(self._macros[head_name(form)], form)
        self._spend(form)
        if isinstance(form, ListForm):
            if head_name(form) == "defmacro":
                self._define(form)
                return Literal(None, form.at)
            return replace(form, items=(yield from self._all(form.items)))
        if isinstance(form, VectorForm):
            return replace(form, items=(yield from self._all(form.items)))
        if isinstance(form, MapForm):
            values = yield from self._all(tuple(value for _, value in form.entries))
            return replace(form, entries=tuple((k, v) for (k, _), v in zip(form.entries, values, strict=True)))
        if isinstance(form, Annotated):
            return replace(form, form=(yield form.form))
        return form

    def _all(self, forms: tuple[Form, ...]) -> Generator[Form, Form, tuple[Form, ...]]:
        found: list[Form] = []
        for form in forms:
            atom = not isinstance(form, (ListForm, VectorForm, MapForm, Annotated))
            found.append(form if atom else (yield form))
        return tuple(found)

    def _define(self, form: ListForm) -> None:
        expected = "(defmacro name [parameter …] `template)"
        parts = shape(form, 3, None, expected)
        name = symbol_name(parts[0], expected)
        if isinstance(parts[1], Literal) and isinstance(parts[1].value, str) and len(parts) > 3:
            parts = parts[1:]
        names = [symbol_name(item, expected) for item in vector_of(parts[1], expected)]
        rest: str | None = None
        if "&" in names:
            at = names.index("&")
            if at != len(names) - 2:
                raise malformed(parts[1], "& is not followed by one name at the end", expected)
            rest = names[at + 1]
            names = names[:at]
        self._macros[name] = Macro(name, tuple(names), rest, parts[2])

    def _called(self, macro: Macro, form: ListForm) -> Form:
        arguments = form.items[1:]
        count = len(macro.names)
        if len(arguments) < count or (len(arguments) > count and macro.rest is None):
            raise RtfsError(
                "ArityMismatch",
                f"the macro {macro.name} takes {'at least ' if macro.rest else ''}{count} arguments,"
                f" not {len(arguments)}",
            ).located(form.at)
        values: dict[str, Form] = dict(zip(macro.names, arguments, strict=False))
        if macro.rest is not None:
            left = arguments[count:]
            values[macro.rest] = ListForm(left, form.at) if left else VectorForm((), form.at)
        if isinstance(macro.template, Quasiquote):
            return self._substituted(macro.template.form, values, bare=False)
        return self._substituted(macro.template, values, bare=True)

    def _substituted(self, template: Form, values: dict[str, Form], *, bare: bool) -> Form:
        """Return the template with arguments substituted: for unquoted names, or (`bare`) for all names."""
        done: list[list[Form]] = [[]]
        work: list[tuple[Form, bool, bool]] = [(template, bare, False)]
        while work:
            node, bare, closing = work.pop()
            if closing:
                parts = done.pop()
                done[-1].append(_rebuilt(node, parts))
                continue
            self._spend(node)
            if isinstance(node, Symbol) and bare and node.name in values:
                done[-1].append(values[node.name])
            elif isinstance(node, Unquote) and not bare:
                work.append((node.form, True, False))
            elif isinstance(node, Splice) and not bare:
                if not (isinstance(node.form, Symbol) and node.form.name in values):
                    raise malformed(node, "~@ is not followed by a parameter of the macro", "~@parameter")
                spliced = values[node.form.name]
                if not isinstance(spliced, (ListForm, VectorForm)):
                    raise malformed(spliced, "what is spliced is no sequence", "a vector or a list")
                self._spend(node, len(spliced.items))
                done[-1].extend(spliced.items)
            elif isinstance(node, (ListForm, VectorForm, MapForm)):
                done.append([])
                work.append((node, bare, True))
                work.extend((part, bare, False) for part in reversed(node.parts()))
            else:
                done[-1].append(node)
        if len(done[0]) != 1:
            raise malformed(template, "a macro's template is spliced into nothing", "one form")
        return done[0][0]

    def _spend(self, form: Form, count: int = 1) -> None:
        self._meter.charge(count)
        self._left -= count
        if self._left < 0:
            raise BudgetExhausted("steps", f"macros expanded to more than {MAX_FORMS} forms").located(form.at)


def _rebuilt(form: Form, parts: list[Form]) -> Form:
    if isinstance(form, ListForm):
        return ListForm(tuple(parts), form.at) if parts else VectorForm((), form.at)
    if isinstance(form, VectorForm):
        return VectorForm(tuple(parts), form.at)
    assert isinstance(form, MapForm)
    if len(parts) % 2:
        raise malformed(form, "a map in a macro has a key without a value", "{key value …}")
    return MapForm(tuple(zip(parts[::2], parts[1::2], strict=True)), form.at)
