"""The compiler of forms: names, calls and literals. Special forms are compiled in `special.py` and its neighbors.

Each form is compiled by a generator that yields the parts which it wants compiled, so that a program's nesting never
becomes nesting of Python's calls. A form becomes an `Operand` where it needs no instruction of its own, or
instructions and the slot that they leave the value in. In tail position it may instead end the function, and there is
no operand.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from . import direct
from .annotations import checker, parse
from .budget import Meter
from .code import CALL, EVALUATE, MAX_NESTING, RETURN, TAIL_CALL, Code, Direct, Environment, Frame
from .direct import Operand, constant
from .failures import RtfsError
from .functions import Function
from .hints import undefined, unset
from .library import LENIENT, LIBRARY
from .library.maps import get_by_keyword, make_map, make_vector
from .macros import Macro, MacroExpander
from .mentioned_names import MentionedNames
from .schemas import Schema
from .scope import Builder, Scope, Slot, capture
from .shapes import head_name, malformed
from .syntax import (
    Annotated,
    Context,
    Form,
    Keyword,
    ListForm,
    Literal,
    MapForm,
    Position,
    Quasiquote,
    Resource,
    Symbol,
    Timestamp,
    Uuid,
    VectorForm,
    walk,
)
from .values import MISSING, Map, Value, Vector, key_of

Part: TypeAlias = tuple[Form, Scope, bool]
"""A form to compile, its scope, and True if its value is the function's result."""
Compiling: TypeAlias = Generator[Part, Operand | None, Operand | None]

HOPS_PER_STEP = 16
"""The number of enclosing blocks that are searched for a name in the time of one step."""
_DEFINERS = frozenset({"def", "defn", "defstruct", "import", "module", "defmacro"})


@dataclass(frozen=True, slots=True)
class CompilerState:
    """The definitions that an interpreter's programs left for later ones, without their values."""

    defined: set[str]
    aliases: dict[str, str]
    structs: dict[str, Schema]
    macros: dict[str, Macro]


@dataclass(frozen=True, slots=True)
class Special:
    """A special form: its compiling function, and whether it exists only in lenient mode."""

    compile: Callable[[Compiler, ListForm, Scope, bool], Compiling]
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Forms:
    """The table of forms that other files compile; `special.FORMS` has all of them."""

    special: Mapping[str, Special]
    quasiquoted: Callable[[Compiler, Quasiquote, Scope], Compiling]
    host_call: Callable[[Compiler, ListForm, Scope, bool, Form | None], Compiling]


class Compiler:
    """Compiles the programs of one interpreter, over its globals. Macros last from one program to the next."""

    def __init__(self, environment: Environment, meter: Meter, forms: Forms, *, lenient: bool) -> None:
        self.environment = environment
        self.meter = meter
        """The meter that compilation is charged to."""
        self._forms = forms
        self.lenient = lenient
        self.module = ""
        """The name of the module being compiled, with a slash at its end."""
        self.aliases: dict[str, str] = {}
        self.structs: dict[str, Schema] = {}
        self._macros = MacroExpander(meter)
        self._defined: set[str] = set()
        self._mentions = MentionedNames(meter, Literal(None))
        self._loops: list[Form] = []

    def program(self, forms: Iterable[Form]) -> list[Code]:
        """Return the code of each form. Raises `ReadError` for a special form that is malformed."""
        forms = list(forms)
        self._defined |= self.environment.globals.keys()
        has_macros = bool(self._macros.names)
        for form in forms:
            for node in walk(form):
                name = head_name(node) if isinstance(node, ListForm) else ""
                if name in _DEFINERS:
                    has_macros = has_macros or name == "defmacro"
                    self._defined.update(part.name for part in node.parts()[1:2] if isinstance(part, Symbol))
                    if name == "import":
                        self._defined.update(part.name for part in walk(node) if isinstance(part, Symbol))
        codes = []
        for form in forms:
            expanded = self._macros.expand(form) if has_macros else form
            codes.append(self.top_level(expanded))
        return codes

    def state(self) -> CompilerState:
        """Return a copy of the definitions that programs left for later ones."""
        return CompilerState(set(self._defined), dict(self.aliases), dict(self.structs), self._macros.state())

    def restore(self, state: CompilerState) -> None:
        """Restore the definitions of a copied state."""
        self._defined = set(state.defined)
        self.aliases = dict(state.aliases)
        self.structs = dict(state.structs)
        self._macros.restore(state.macros)
        self.module = ""

    def top_level(self, form: Form) -> Code:
        """Return the code of one form, a function without arguments."""
        self._mentions = MentionedNames(self.meter, form)
        self._loops = []
        builder = Builder("program", 0, False, None)
        scope = Scope(builder, None)
        self.finish_body(form, scope)
        return builder.finish()

    def mentions(self, form: Form, name: str) -> bool:
        """Return True if the form mentions the name."""
        return not isinstance(form, (Literal, Keyword)) and self._mentions.has(form, name)

    def means_itself(self, name: str, value: Form) -> bool:
        """Return True if a value mentions the name that it is bound to."""
        return not isinstance(value, (Literal, Keyword)) and self._mentions.means(value, name)

    def looping(self, function: ListForm) -> Form:
        """Return a function form in which the function can call itself as `recur`."""
        self._loops.append(function)
        name = Symbol("recur", function.at)
        return ListForm((Symbol("let"), VectorForm((name, function)), name), function.at)

    def is_looping(self, function: ListForm) -> bool:
        """Return True if `looping` returned this very form."""
        return any(known is function for known in reversed(self._loops))

    def finish_body(self, form: Form, scope: Scope) -> None:
        """Compile a form as the body of the scope's function, without using the host's stack."""
        work: list[Compiling] = []
        result = self._start(form, scope, True, work)
        while work:
            try:
                part = work[-1].send(result)
            except StopIteration as stop:
                work.pop()
                result = stop.value
            else:
                result = self._start(*part, work)
        self.give(result, scope)

    def give(self, result: Operand | None, scope: Scope) -> None:
        """Emit a return of this value, unless the function has ended already."""
        if result is not None:
            scope.builder.emit(RETURN, result.cost, result.run)

    def _start(self, form: Form, scope: Scope, tail: bool, work: list[Compiling]) -> Operand | None:
        kind = type(form)
        if kind is Literal:
            return constant(form.value)  # type: ignore[union-attr]
        if kind is Symbol:
            return self.symbol(form, scope)  # type: ignore[arg-type]
        if kind is Keyword or kind is Timestamp or kind is Uuid or kind is Resource:
            return constant(form)
        if kind is Context:
            return self._context(form)  # type: ignore[arg-type]
        if kind is ListForm or kind is VectorForm:
            self.meter.charge(len(form.items))  # type: ignore[union-attr]
        elif kind is MapForm:
            self.meter.charge(len(form.entries))  # type: ignore[union-attr]
        work.append(self._compound(form, scope, tail))
        return None

    def _compound(self, form: Form, scope: Scope, tail: bool) -> Compiling:
        if isinstance(form, ListForm):
            name = head_name(form)
            special = self._forms.special.get(name)
            if special is not None and (self.lenient or not special.lenient):
                return special.compile(self, form, scope, tail)
            return self.call(form, scope, tail)
        if isinstance(form, VectorForm):
            return self._vector(form, scope)
        if isinstance(form, MapForm):
            return self._map(form, scope)
        if isinstance(form, Annotated):
            return self._annotated(form, scope, tail)
        if isinstance(form, Quasiquote):
            return self._forms.quasiquoted(self, form, scope)
        raise malformed(form, "an unquote stands outside a quasiquote", "`(… ~name …)")

    # Calls

    def call(self, form: ListForm, scope: Scope, tail: bool) -> Compiling:
        """Compile a function call; a library function that is known here is called directly."""
        head, arguments = form.items[0], form.items[1:]
        at = form.at
        if isinstance(head, Keyword):
            operands = yield from self.operands(arguments, scope)
            if not 1 <= len(operands) <= 2:
                error = RtfsError(
                    "ArityMismatch", f":{head.name} takes a map and a default, not {len(operands)} arguments"
                )
                return self.failing(error, at)
            return self.settle(direct.call(partial(get_by_keyword, head), operands, at), scope)
        function = yield (head, scope, False)
        assert function is not None
        if function.constant and isinstance(function.value, Function) and function.value.kind != "driven":
            known = function.value
            operands = yield from self.operands(arguments, scope)
            return self.settle(self.library_call(known, operands, at), scope)
        builder = scope.builder
        place = None if function.stable else builder.reserve()
        before = builder.count
        operands = yield from self.operands(arguments, scope)
        if place is not None and builder.count > before:
            function = self.moved(function, place, scope)
        cost = 1 + function.cost + direct.cost_of(operands)
        if tail:
            builder.emit(TAIL_CALL, cost, function.run, direct.gather(operands), None, at)
            return None
        slot = builder.slot()
        builder.emit(CALL, cost, function.run, direct.gather(operands), slot, at)
        return direct.local(slot)

    def library_call(self, function: Function, operands: list[Operand], at: Position) -> Operand:
        """Return the operand of a direct call to a library function that takes no function argument."""
        try:
            function.check_arity(len(operands))
        except RtfsError as error:
            return self.failing(error, at)
        if function.kind == "plain":
            call = function.call
            return direct.operator_call(function.name, call, operands, at) or direct.call(call, operands, at)
        call = direct.with_meter(function.call, self.environment)
        fast = direct.operator_call(function.name, call, operands, at)
        return fast or direct.metered_call(function.call, self.environment, operands, at)

    def operands(self, forms: Iterable[Form], scope: Scope) -> Generator[Part, Operand | None, list[Operand]]:
        """Compile several forms that must be evaluated in order, and return an operand for each."""
        builder = scope.builder
        found: list[Operand] = []
        places: list[tuple[int, int] | None] = []
        for form in forms:
            operand = yield (form, scope, False)
            assert operand is not None
            found.append(operand)
            places.append(None if operand.stable else (builder.reserve(), builder.count))
        last = builder.count
        for index, place in enumerate(places):
            if place is not None and last > place[1]:
                found[index] = self.moved(found[index], place[0], scope)
        return found

    def moved(self, operand: Operand, place: int, scope: Scope) -> Operand:
        """Evaluate the operand at a reserved place, and return the slot with its value."""
        slot = scope.builder.slot()
        scope.builder.fill(place, EVALUATE, operand.cost, operand.run, slot)
        return direct.local(slot)

    def settle(self, operand: Operand, scope: Scope) -> Operand:
        """Return the operand, or the slot with its value if it is nested as deeply as allowed."""
        if operand.depth < MAX_NESTING:
            return operand
        return self.put(operand, scope)

    def put(self, operand: Operand, scope: Scope) -> Operand:
        """Evaluate the operand now, and return the slot with its value."""
        slot = scope.builder.slot()
        scope.builder.emit(EVALUATE, operand.cost, operand.run, slot)
        return direct.local(slot)

    def failing(self, error: RtfsError, at: Position) -> Operand:
        """Return an operand that raises this error."""

        def run(_: Frame) -> Value:
            raise type(error)(error.name, error.message, hint=error.hint).located(at)

        return Operand(run, 1, 1)

    # Names

    def symbol(self, form: Symbol, scope: Scope) -> Operand:
        """Return the operand for a name in this scope."""
        if scope.depth >= HOPS_PER_STEP:
            self.meter.charge(scope.depth // HOPS_PER_STEP)
        found = scope.find(form.name)
        if found is None:
            return self._global(form)
        slot, owner = found
        return self.slot_value(slot, owner, scope.builder, form)

    def slot_value(self, slot: Slot, owner: Builder, user: Builder, form: Symbol) -> Operand:
        """Return the operand that reads a local name, captured if it belongs to an enclosing function."""
        if owner is user:
            if not slot.boxed:
                return direct.local(slot.index)
            return self._boxed(lambda frame: frame[slot.index][0], form, slot)
        self.meter.charge(user.depth - owner.depth)
        index = capture(slot, owner, user)
        if not slot.boxed:
            return direct.captured(index)
        return self._boxed(lambda frame: frame[0][index][0], form, slot)

    def _boxed(self, read: Direct, form: Symbol, slot: Slot) -> Operand:
        def run(frame: Frame) -> Value:
            value = read(frame)
            if value is MISSING:
                error = unset(form.name) if slot.recursive else undefined(form.name)
                raise error.located(form.at)
            return value

        return Operand(run, 1, 2)

    def _global(self, form: Symbol) -> Operand:
        name = self.global_name(form.name)
        known = LIBRARY.get(form.name, MISSING)
        if self.lenient and known is MISSING:
            known = LENIENT.get(form.name, MISSING)
        if known is not MISSING and name not in self._defined and form.name not in self._defined:
            return constant(known)
        environment = self.environment
        plain = form.name

        def run(_: Frame) -> Value:
            value = environment.globals.get(name, MISSING)
            if value is MISSING:
                value = environment.globals.get(plain, known)
                if value is MISSING:
                    raise undefined(plain).located(form.at)
            return value

        return Operand(run, 1, 1)

    def global_name(self, name: str) -> str:
        """Return the full name of a global: with its module, or with the module that an import's alias names."""
        prefix, slash, rest = name.partition("/")
        if slash and rest:
            return f"{self.aliases.get(prefix, prefix)}/{rest}"
        return self.aliases.get(name, self.module + name)

    def _context(self, form: Context) -> Operand:
        environment, name, text = self.environment, form.name, str(form.own())
        return Operand(lambda _: environment.globals.get(name, text), 1, 1)

    # Literals

    def _vector(self, form: VectorForm, scope: Scope) -> Compiling:
        if all(type(item) is Literal for item in form.items):
            return constant(Vector(tuple(item.value for item in form.items)))  # type: ignore[union-attr]
        operands = yield from self.operands(form.items, scope)
        if all(operand.constant for operand in operands):
            return constant(Vector(tuple(operand.value for operand in operands)))
        return self.settle(direct.metered_call(make_vector, self.environment, operands, form.at), scope)

    def _map(self, form: MapForm, scope: Scope) -> Compiling:
        for key, _ in form.entries:
            if isinstance(key, Symbol):
                raise malformed(key, f"the name {key.name} is a map's key", "a keyword, string or integer")
        keys = tuple(key_of(key.value if isinstance(key, Literal) else key) for key, _ in form.entries)
        operands = yield from self.operands((value for _, value in form.entries), scope)
        if all(operand.constant for operand in operands):
            return constant(Map(dict(zip(keys, (operand.value for operand in operands), strict=True))))
        return self.settle(direct.metered_call(partial(make_map, keys), self.environment, operands, form.at), scope)

    def _annotated(self, form: Annotated, scope: Scope, tail: bool) -> Compiling:
        inner = form.form
        if isinstance(form.meta, Keyword):
            if form.meta.name != "delegation":
                raise malformed(form, f"^:{form.meta.name} is no metadata", "^{:key value} or ^:delegation")
            result = yield (inner, scope, tail)
            return result
        if head_name(inner) == "call":
            assert isinstance(inner, ListForm)
            return (yield from self._forms.host_call(self, inner, scope, tail, form.meta))
        result = yield (inner, scope, tail)
        return result

    def check(self, schema: Form, what: str, *, every: bool = False) -> Callable[[Value], Value]:
        """Return a function that returns a value of this type (or a sequence of such values) and raises for others."""
        return checker(parse(schema, self.structs), what, self.environment, every=every)
