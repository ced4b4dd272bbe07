"""Any schema, and JSON data that fits some of them, for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from actbox.rtfs.schemas.nodes import (
    ArrayOf,
    Entry,
    FunctionOf,
    ListOf,
    MapOf,
    MapWith,
    OptionalOf,
    Primitive,
    Refined,
    ResourceOf,
    Schema,
    TupleOf,
    UnionOf,
    VectorOf,
)
from actbox.rtfs.schemas.parsing import one_of
from actbox.rtfs.schemas.predicates import predicate
from actbox.rtfs.syntax import Form, Keyword, Literal, VectorForm

NOWHERE = Literal(None)
names = st.sampled_from(["a", "b", "c"])
literals = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, -1.5]), st.sampled_from(["", "a", "é b"])
).map(Literal)
counts = st.integers(0, 3).map(Literal)
bounds = st.integers(-3, 3).map(Literal)

# JSON Schema reads `is-url`, `is-email` and `bytes` as remarks, so these are not for comparisons with it.
PRIMITIVES = ["int", "float", "string", "bool", "nil", "any", "never"]


def _predicates(name: str, *arguments: st.SearchStrategy[Form]) -> st.SearchStrategy[Any]:
    return st.tuples(*arguments).map(lambda found: predicate(name, found, NOWHERE))


predicates = st.one_of(
    *(_predicates(name, bounds) for name in (">", ">=", "<", "<=")),
    _predicates("in-range", bounds, bounds),
    *(_predicates(name, counts) for name in ("min-length", "max-length", "length", "min-count", "max-count", "count")),
    _predicates("=", literals),
    _predicates("!=", literals),
    _predicates("non-empty"),
    _predicates("matches-regex", st.sampled_from(["^a", "b|é"]).map(Literal)),
    _predicates("has-key", names.map(Keyword)),
    _predicates("required-keys", st.lists(names.map(Keyword), max_size=2).map(lambda keys: VectorForm(tuple(keys)))),
)


@st.composite
def _maps(draw: st.DrawFn, schemas: st.SearchStrategy[Schema]) -> MapWith:
    keys = draw(st.lists(names, max_size=3, unique=True))
    described = st.sampled_from(["", "", "what it is"])
    entries = [
        Entry(Keyword(key), draw(schemas), draw(st.booleans()), draw(described), draw(st.none() | literals))
        for key in keys
    ]
    rest = draw(st.none() | schemas)
    return MapWith(tuple(entries), rest, rest is None and draw(st.booleans()), draw(described))


def _larger(schemas: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    some = st.lists(schemas, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        schemas.map(OptionalOf),
        schemas.map(VectorOf),
        some.map(TupleOf),
        st.builds(ArrayOf, schemas, st.lists(st.none() | st.integers(0, 2), min_size=1, max_size=2).map(tuple)),
        _maps(schemas),
        st.builds(MapOf, st.just(Primitive("string")), schemas),
        some.map(UnionOf),
        st.builds(Refined, some, st.lists(predicates, max_size=3).map(tuple)),
    )


json_schemas: st.SearchStrategy[Schema] = st.recursive(
    st.one_of(
        st.sampled_from(PRIMITIVES).map(Primitive),
        st.lists(literals, min_size=1, max_size=3).map(lambda options: one_of(tuple(options))),
        literals.map(lambda option: one_of((option,), single=True)),
    ),
    _larger,
    max_leaves=6,
)
"""Schemas of values that JSON can carry."""

schemas: st.SearchStrategy[Schema] = st.recursive(
    st.one_of(
        json_schemas,
        st.sampled_from(["keyword", "symbol", "bytes"]).map(Primitive),
        st.builds(ResourceOf, names),
        _predicates("is-url").map(lambda found: Refined((), (found,))),
    ),
    lambda inner: st.one_of(
        _larger(inner),
        inner.map(ListOf),
        st.builds(MapOf, inner, inner),
        st.builds(FunctionOf, st.lists(inner, max_size=2).map(tuple), st.none() | inner, inner),
    ),
    max_leaves=6,
)

json_data: st.SearchStrategy[Any] = st.recursive(
    literals.map(lambda literal: literal.value),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=8,
)
