"""Any form that RTFS source can hold, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from actbox.rtfs.syntax import (
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

CONSTANTS = {"true", "false", "nil"}
names = st.one_of(
    st.from_regex(r"[a-z_$*/=<>!?%λé][a-z0-9_$+\-*/=<>!?%.@]{0,8}", fullmatch=True),
    st.from_regex(r"[+-][a-z+\-*]{0,3}", fullmatch=True),
    st.sampled_from(["a.b/c", "a.b:v1.0/c", "resource:ref", "resource", "fn", "%", "%2", "->"]),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
integers = st.integers(-(2**63), 2**63 - 1)
literals = st.one_of(st.none(), st.booleans(), integers, st.floats(), texts).map(Literal)
keywords = names.map(Keyword)
symbols = st.one_of(names.filter(lambda name: name not in CONSTANTS), st.sampled_from(["&", ":"])).map(Symbol)
atoms: st.SearchStrategy[Form] = st.one_of(
    literals,
    keywords,
    symbols,
    st.builds(Context, names, st.booleans()),
    st.uuids().map(lambda value: Uuid(str(value))),
    st.sampled_from(["2024-01-01T00:00:00Z", "1999-12-31T23:59:59_123Z", "2024-01-01T00:00:00.5Z"]).map(Timestamp),
    st.sampled_from(["resource://a/b?c=d;e", "resource://é"]).map(Resource),
)
keys = st.one_of(keywords, symbols, st.one_of(integers, texts).map(Literal))


# Filters only draw from leaves: hypothesis names a strategy whose filter refuses, and these names nest.
@st.composite
def _maps(draw: st.DrawFn, forms: st.SearchStrategy[Form]) -> MapForm:
    return MapForm(tuple((key, draw(forms)) for key in draw(st.lists(keys, max_size=4, unique=True))))


def _containers(forms: st.SearchStrategy[Form]) -> st.SearchStrategy[Form]:
    return st.one_of(
        st.lists(forms, min_size=1, max_size=5).map(lambda items: ListForm(tuple(items))),
        st.lists(forms, max_size=5).map(lambda items: VectorForm(tuple(items))),
        _maps(forms),
        forms.map(Quasiquote),
        forms.map(Unquote),
        forms.map(Splice),
        st.builds(Annotated, st.one_of(_maps(forms), st.just(Keyword("delegation"))), forms),
    )


forms: st.SearchStrategy[Form] = st.recursive(atoms, _containers, max_leaves=25)
