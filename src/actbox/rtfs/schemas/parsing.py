"""The parser of schemas from forms, in both dialects: the language's own, and that of capabilities.

`[:map [:k T ?]]` and `[:map [:k {:optional true} T]]` say the same, as do `[:map-of K V]` and `[:map K V]`. The
second dialect's `[:or A B]` and `[:maybe T]` are read as `[:union A B]` and `T?`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from actbox.rtfs.reader import read
from actbox.rtfs.syntax import Form, Keyword, Literal, MapForm, Node, Symbol, VectorForm
from actbox.rtfs.values import Value

from .literals import form_of_value, value_of
from .nodes import (
    ANY,
    PRIMITIVES,
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
    SchemaError,
    TupleOf,
    UnionOf,
    VectorOf,
)
from .predicates import PREDICATES, predicate
from .trampoline import Steps, settle

_ALIASES = {"integer": "int", "boolean": "bool", "str": "string", "null": "nil"}
_NO_NAMES: Mapping[str, Schema] = MappingProxyType({})
_WHOLE: dict[str, Schema] = {
    "vector": VectorOf(ANY),
    "list": ListOf(ANY),
    "map": MapWith(()),
    "record": MapWith(()),
    "fn": FunctionOf((), ANY, ANY),
    "number": UnionOf((Primitive("int"), Primitive("float"))),
}
"""The schema of a collection's word without arguments."""


def parse_schema(source: Form | Value, *, names: Mapping[str, Schema] = _NO_NAMES) -> Schema:
    """Return the schema of a form, of its text, or of its value: the value of `[:vector :int]` gives the same schema.

    `names` are types of the caller's own, as `defstruct` makes them. Raises `SchemaError` for what is no schema,
    and `ReadError` for text that is no source.
    """
    if isinstance(source, str):
        forms = read(source)
        if len(forms) != 1:
            raise SchemaError(f"a schema is one form, and this text has {len(forms)}")
        source = forms[0]
    form = cast(Form, source) if isinstance(source, Node) else form_of_value(source)
    return settle(_Parser(names).schema(form))


def one_of(options: tuple[Form, ...], *, single: bool = False) -> OneOf:
    """Return the schema of these literals. Raises `SchemaError` for other forms."""
    return OneOf(options, tuple(value_of(option) for option in options), single)


class _Parser:
    """One parse; its methods call each other through `settle`."""

    def __init__(self, names: Mapping[str, Schema]) -> None:
        self.names = names

    def schema(self, form: Form) -> Steps[Schema]:
        if isinstance(form, Keyword | Symbol):
            return self.word(form.name, form)
        if isinstance(form, MapForm):
            found: Schema = yield self.map_type((form,), form)
            return found
        if isinstance(form, Literal) and form.value is None:
            return Primitive("nil")
        if not isinstance(form, VectorForm):
            raise SchemaError("a type is a word, a vector or a map; the type of one value is `[:val x]`", at=form.at)
        if not form.items or not isinstance(form.items[0], Keyword | Symbol):
            raise SchemaError("a type in brackets begins with its word, as `[:vector :int]`", at=form.at)
        word = form.items[0].name
        parser = _WORDS.get(word)
        if parser is not None:
            whole: Schema = yield parser(self, form.items[1:], form)
            return whole
        if word in _LITERAL_WORDS:
            return _LITERAL_WORDS[word](form.items[1:], form)
        if word in PREDICATES:
            return Refined((), (predicate(word, form.items[1:], form),))
        if len(form.items) == 1:
            return self.word(word, form)
        raise SchemaError(f"`:{word}` begins no type; there are {_listed([*_WORDS, *_LITERAL_WORDS])}", at=form.at)

    def word(self, name: str, form: Form) -> Schema:
        """Return the type of one word, which may be capitalized and may end with `?`."""
        if name in self.names:
            return self.names[name]
        plain = name[:1].lower() + name[1:]
        plain = _ALIASES.get(plain, plain)
        if plain in PRIMITIVES:
            return Primitive(plain)
        if plain in _WHOLE:
            return _WHOLE[plain]
        if plain in PREDICATES:
            return Refined((), (predicate(plain, (), form),))
        if len(name) > 1 and name.endswith("?") and not name.endswith("??"):
            return OptionalOf(self.word(name[:-1], form))
        if plain.startswith("is-"):
            predicate(plain, (), form)
        known = _listed([*PRIMITIVES, *self.names])
        raise SchemaError(f"`{name}` is no type; there are {known}, and types in brackets", at=form.at)

    def schemas(self, forms: tuple[Form, ...]) -> Steps[tuple[Schema, ...]]:
        found: list[Schema] = []
        for form in forms:
            found.append((yield self.schema(form)))
        return tuple(found)

    def element(self, make: Callable[[Schema], Schema], forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        if len(forms) > 1:
            raise SchemaError("one type is the type of all elements; `[:tuple A B]` has one for each", at=form.at)
        return make((yield self.schema(forms[0])) if forms else ANY)

    def vector_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        found: Schema = yield self.element(VectorOf, forms, form)
        return found

    def list_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        found: Schema = yield self.element(ListOf, forms, form)
        return found

    def tuple_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        return TupleOf((yield self.schemas(forms)))

    def maybe(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        _exactly(1, forms, form, "`[:maybe T]`")
        return OptionalOf((yield self.schema(forms[0])))

    def union_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        if not forms:
            raise SchemaError("a union has at least one type", at=form.at)
        return UnionOf((yield self.schemas(forms)))

    def both(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        bases: list[Schema] = []
        predicates: list[Predicate] = []
        if not forms:
            raise SchemaError("`[:and T predicate…]` has at least a type", at=form.at)
        for item in forms:
            found: Schema | Predicate = yield self.condition(item)
            if isinstance(found, Predicate):
                predicates.append(found)
            else:
                bases.append(found)
        return Refined(tuple(bases), tuple(predicates))

    def condition(self, form: Form) -> Steps[Schema | Predicate]:
        """Return a part of `[:and …]`: a type, or a predicate with or without brackets."""
        if isinstance(form, Keyword | Symbol):
            if form.name in PREDICATES and form.name not in self.names:
                return predicate(form.name, (), form)
            try:
                return self.word(form.name, form)
            except SchemaError as problem:
                raise SchemaError(problem.message, "UnknownPredicate", form.at) from None
        if isinstance(form, VectorForm) and form.items and isinstance(form.items[0], Keyword | Symbol):
            word = form.items[0].name
            if word not in (*_WORDS, *_LITERAL_WORDS) and not (len(form.items) == 1 and word in (*PRIMITIVES, *_WHOLE)):
                return predicate(word, form.items[1:], form)
        found: Schema = yield self.schema(form)
        return found

    def array_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        if not 1 <= len(forms) <= 2:
            raise SchemaError("an array is `[:array T [3 ?]]`", at=form.at)
        shape: list[int | None] = []
        lengths = forms[1] if len(forms) == 2 else VectorForm((Symbol("?"),))
        if not isinstance(lengths, VectorForm) or not lengths.items:
            raise SchemaError("an array's shape is a vector of lengths, as `[3 ?]`", at=lengths.at)
        for length in lengths.items:
            if length == Symbol("?") or length == Keyword("?"):
                shape.append(None)
            elif isinstance(length, Literal) and type(length.value) is int and length.value >= 0:
                shape.append(length.value)
            else:
                raise SchemaError("a length in an array's shape is a whole number from 0, or `?`", at=length.at)
        return ArrayOf((yield self.schema(forms[0])), tuple(shape))

    def map_of(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        _exactly(2, forms, form, "`[:map-of K V]`")
        return MapOf((yield self.schema(forms[0])), (yield self.schema(forms[1])))

    def map_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        if forms and not isinstance(forms[0], VectorForm | MapForm):
            whole: Schema = yield self.map_of(forms, form)
            return whole
        entries: list[Entry] = []
        rest: Schema | None = None
        closed, description = False, ""
        for item in forms:
            if isinstance(item, MapForm) and _is_properties(item):
                found = _properties(item, {"closed": bool, "description": str})
                closed, description = found.get("closed", False), found.get("description", "")
            elif isinstance(item, MapForm):
                for key, kind in item.entries:
                    entries.append(Entry(_key(key), (yield self.schema(kind))))
            elif not isinstance(item, VectorForm) or len(item.items) < 2:
                raise SchemaError("an entry of a map is `[:k T]`, `[:k T ?]` or `[:k {:optional true} T]`", at=item.at)
            elif item.items[0] in (Keyword("*"), Symbol("*")):
                _exactly(2, item.items, item, "`[:* T]`")
                rest = yield self.schema(item.items[1])
            else:
                entries.append((yield self.entry(item)))
        seen: set[Form] = set()
        for entry in entries:
            if entry.key in seen:
                raise SchemaError("the key stands twice in the schema", at=entry.key.at)
            seen.add(entry.key)
        return MapWith(tuple(entries), rest, closed, description)

    def entry(self, form: VectorForm) -> Steps[Entry]:
        key, second, *more = form.items
        if isinstance(second, MapForm) and len(more) == 1 and more[0] not in (Symbol("?"), Keyword("?")):
            found = _properties(second, {"optional": bool, "description": str, "default": object})
            default = found.get("default")
            inner: Schema = yield self.schema(more[0])
            return Entry(_key(key), inner, found.get("optional", False), found.get("description", ""), default)
        if more and (len(more) > 1 or more[0] not in (Symbol("?"), Keyword("?"))):
            raise SchemaError("after an entry's type only `?` may stand", at=more[0].at)
        return Entry(_key(key), (yield self.schema(second)), bool(more))

    def function_type(self, forms: tuple[Form, ...], form: Form) -> Steps[Schema]:
        if not forms:
            return _WHOLE["fn"]
        if len(forms) > 2 or not isinstance(forms[0], VectorForm):
            raise SchemaError("a function's type is `[:fn [A & B] R]`", at=form.at)
        parameters, rest = forms[0].items, None
        if Symbol("&") in parameters:
            place = parameters.index(Symbol("&"))
            _exactly(1, parameters[place + 1 :], form, "`& T` at the end of a function's parameters")
            rest = yield self.schema(parameters[place + 1])
            parameters = parameters[:place]
        parameter_schemas: tuple[Schema, ...] = yield self.schemas(parameters)
        return FunctionOf(parameter_schemas, rest, (yield self.schema(forms[1])) if len(forms) == 2 else ANY)


def _enum(forms: tuple[Form, ...], form: Form) -> Schema:
    if not forms:
        raise SchemaError("an enum has at least one value", at=form.at)
    return one_of(forms)


def _val(forms: tuple[Form, ...], form: Form) -> Schema:
    _exactly(1, forms, form, "`[:val x]`")
    return one_of(forms, single=True)


def _resource(forms: tuple[Form, ...], form: Form) -> Schema:
    _exactly(1, forms, form, "`[:resource s]`")
    name = forms[0].value if isinstance(forms[0], Literal) else getattr(forms[0], "name", None)
    if not isinstance(name, str):
        raise SchemaError("a resource's type is named by a symbol, a keyword or a string", at=form.at)
    return ResourceOf(name)


_Word = Callable[[_Parser, tuple[Form, ...], Form], Steps[Schema]]
_WORDS: Mapping[str, _Word] = {
    "vector": _Parser.vector_type,
    "list": _Parser.list_type,
    "tuple": _Parser.tuple_type,
    "map": _Parser.map_type,
    "record": _Parser.map_type,
    "map-of": _Parser.map_of,
    "dict": _Parser.map_of,
    "fn": _Parser.function_type,
    "=>": _Parser.function_type,
    "union": _Parser.union_type,
    "or": _Parser.union_type,
    "and": _Parser.both,
    "maybe": _Parser.maybe,
    "optional": _Parser.maybe,
    "array": _Parser.array_type,
}


_LITERAL_WORDS: Mapping[str, Callable[[tuple[Form, ...], Form], Schema]] = {
    "enum": _enum,
    "val": _val,
    "resource": _resource,
}
"""The words of types whose arguments are not types."""


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f":{word}" for word in words)


def _exactly(count: int, forms: tuple[Form, ...], form: Form, what: str) -> None:
    if len(forms) != count:
        raise SchemaError(f"{what} is what can stand here", at=form.at)


def _key(form: Form) -> Keyword | Literal:
    if isinstance(form, Keyword) or (isinstance(form, Literal) and type(form.value) in (str, int)):
        return form
    raise SchemaError("a key in a map's type is a keyword, a string or an integer", at=form.at)


def _is_properties(form: MapForm) -> bool:
    """Return True if a map inside a map type holds properties of the type: its values are no types."""
    return bool(form.entries) and all(
        isinstance(value, Literal) and isinstance(value.value, bool | str) for _, value in form.entries
    )


def _properties(form: MapForm, known: Mapping[str, type]) -> dict[str, Any]:
    """Return the properties in a map; only `known` ones are allowed, each of its type (`object`: kept as a form)."""
    found: dict[str, Any] = {}
    for key, value in form.entries:
        kind = known.get(key.name) if isinstance(key, Keyword) else None
        if kind is None:
            raise SchemaError(f"the properties that are known here are {_listed(known)}", at=key.at)
        plain = value.value if isinstance(value, Literal) else value
        if not isinstance(plain, kind):
            raise SchemaError(f"the property must be a {kind.__name__}", at=value.at)
        found[key.name] = value if kind is object else plain  # type: ignore[union-attr]
    return found
