from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.rtfs.errors import WriteError
from actbox.rtfs.printer import write, write_program
from actbox.rtfs.reader import read
from actbox.rtfs.syntax import (
    Annotated,
    Context,
    Form,
    Keyword,
    ListForm,
    Literal,
    MapForm,
    Resource,
    Symbol,
    Timestamp,
    Unquote,
    Uuid,
    VectorForm,
)
from tests.rtfs.rtfs_forms import forms


@given(forms)
def test_what_is_written_reads_back(form: Form):
    assert read(write(form)) == (form,)


@pytest.mark.slow
@given(st.lists(forms, max_size=4))
def test_a_program_that_is_written_reads_back(program: list[Form]):
    assert read(write_program(program)) == tuple(program)


@pytest.mark.parametrize(
    "source",
    [
        '(let [x : Int 42 {:keys [a b] :as m} {:a 1 "b" nil 3 true}] (+ x a))',
        "(defmacro m [x & rest] `(do ~x ~@rest ~ @now @:then))",
        "[1 -1 1.0 -0.0 1.5e300 1.0e-07 ##Inf ##-Inf ##NaN]",
        '^{:runtime.timeout-ms 50} (call :a.b:v1.0/c "tab\\tand \\"quote\\" and \\\\")',
        "(fn ^:delegation :remote [x : [:vector :int]] x)",
    ],
)
def test_source_in_the_writers_manner_is_written_as_it_was(source: str):
    assert write(read(source)[0]) == source


@pytest.mark.parametrize(
    "form",
    [
        ListForm(()),
        Symbol(""),
        Symbol("a b"),
        Symbol("true"),
        Symbol("-1"),
        Symbol("+1a"),
        Symbol(".m"),
        Symbol("0f0f0f0f-0000-0000-0000-000000000000"),
        Symbol("abcdefab-0000-0000-0000-000000000000"),
        Symbol("a\n"),
        Keyword(""),
        Keyword(":a"),
        Keyword("a)"),
        Context("a b"),
        Literal(2**63),
        Literal(-(2**63) - 1),
        Literal(10**5000),
        Literal("\ud800"),
        Timestamp("yesterday"),
        Uuid("0"),
        Resource("resource://a b"),
        Resource("resource://\ud800"),
        MapForm(((VectorForm(()), Literal(1)),)),
        MapForm(((Literal(True), Literal(1)),)),
        MapForm(((Keyword("a"), Literal(1)), (Keyword("a"), Literal(2)))),
        Annotated(Keyword("fast"), Literal(1)),
        VectorForm((Unquote(Literal(2**64)),)),
    ],
    ids=lambda form: type(form).__name__,
)
def test_what_no_source_holds_is_not_written(form: Form):
    with pytest.raises(WriteError):
        write(form)


@pytest.mark.slow
def test_deep_forms_are_written_and_read():
    form: Form = Literal(1)
    for _ in range(20_000):
        form = Unquote(VectorForm((form,)))
    assert read(write(form), max_depth=40_000) == (form,)


def test_a_form_that_holds_itself_many_times_ends_the_writer_in_bounds():
    form: Form = Literal("x")
    for _ in range(60):
        form = VectorForm((form, form))
    with pytest.raises(WriteError, match="more than 10000 bytes"):
        write(form, max_bytes=10_000)


def test_the_bound_counts_bytes_of_the_whole_program():
    program = [Literal("é")] * 3
    assert len(write_program(program, max_bytes=15).encode()) == 15
    with pytest.raises(WriteError):
        write_program(program, max_bytes=14)
