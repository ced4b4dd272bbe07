from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actbox.rtfs.errors import ReadError
from actbox.rtfs.printer import write_program
from actbox.rtfs.reader import MAX_BYTES, read
from actbox.rtfs.syntax import (
    Annotated,
    Context,
    Keyword,
    ListForm,
    Literal,
    MapForm,
    Node,
    Position,
    Quasiquote,
    Resource,
    Splice,
    Symbol,
    Timestamp,
    Unquote,
    Uuid,
    VectorForm,
    walk,
)

FN, X = Symbol("fn"), Symbol("x")
UUID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("nil", Literal(None)),
        ("true", Literal(True)),
        ("-007", Literal(-7)),
        ("+1", Literal(1)),
        ("9223372036854775807", Literal(2**63 - 1)),
        ("-9223372036854775808", Literal(-(2**63))),
        ("0" * 5000 + "1", Literal(1)),
        ("1.5", Literal(1.5)),
        ("-0.0", Literal(-0.0)),
        ("1.0e-3", Literal(0.001)),
        ("##-Inf", Literal(float("-inf"))),
        ("##NaN", Literal(float("nan"))),
        ('"a\\n\\t\\r\\\\\\""', Literal('a\n\t\r\\"')),
        ('"two\nlines, é and \x00"', Literal("two\nlines, é and \x00")),
        ("a.b/c", Symbol("a.b/c")),
        ("a.b:v1.0/c", Symbol("a.b:v1.0/c")),
        ("->", Symbol("->")),
        ("-", Symbol("-")),
        ("λ", Symbol("λ")),
        ("nil?", Symbol("nil?")),
        ("resource:ref", Symbol("resource:ref")),
        (":a.b:v1.0/c", Keyword("a.b:v1.0/c")),
        (":=>", Keyword("=>")),
        (":string?", Keyword("string?")),
        ("2024-01-01T00:00:00Z", Timestamp("2024-01-01T00:00:00Z")),
        ("2024-01-01T00:00:00_123Z", Timestamp("2024-01-01T00:00:00_123Z")),
        (UUID, Uuid(UUID)),
        ("a" + UUID[1:], Uuid("a" + UUID[1:])),
        ("resource://db/main?x=1;y", Resource("resource://db/main?x=1;y")),
        ("@plan.id", Context("plan.id")),
        ("@:plan", Context("plan", keyword=True)),
        ("()", VectorForm(())),
        ("#| a ) \n |# [1 ; two\n 2]", VectorForm((Literal(1), Literal(2)))),
        ("(x : :int & y)", ListForm((X, Symbol(":"), Keyword("int"), Symbol("&"), Symbol("y")))),
        ("[x:Int]", VectorForm((X, Keyword("Int")))),
        ("[x: Int]", VectorForm((X, Symbol(":"), Symbol("Int")))),
        ("[:a]", VectorForm((Keyword("a"),))),
        (
            '{:a 1 "a" 2 1 3 & x}',
            MapForm(
                (
                    (Keyword("a"), Literal(1)),
                    (Literal("a"), Literal(2)),
                    (Literal(1), Literal(3)),
                    (Symbol("&"), X),
                )
            ),
        ),
        ("`(x ~x ~@x)", Quasiquote(ListForm((X, Unquote(X), Splice(X))))),
        ("~ @x", Unquote(Context("x"))),
        ("`~`x", Quasiquote(Unquote(Quasiquote(X)))),
        ("^{:k 1} x", Annotated(MapForm(((Keyword("k"), Literal(1)),)), X)),
        ("^:delegation x", Annotated(Keyword("delegation"), X)),
        ("(.getMessage x)", ListForm((Symbol("getMessage"), X))),
        ("#(x)", ListForm((FN, VectorForm(()), ListForm((X,))))),
        ("#()", ListForm((FN, VectorForm(()), VectorForm(())))),
        ("#(% %1 x)", ListForm((FN, VectorForm((Symbol("%"),)), ListForm((Symbol("%"), Symbol("%"), X))))),
        ("#(.x %2)", ListForm((FN, VectorForm((Symbol("%"), Symbol("%2"))), ListForm((X, Symbol("%2")))))),
        (
            "#(x #(x %2) %)",
            ListForm(
                (
                    FN,
                    VectorForm((Symbol("%"),)),
                    ListForm(
                        (
                            X,
                            ListForm(
                                (FN, VectorForm((Symbol("%"), Symbol("%2"))), ListForm((X, Symbol("%2")))),
                            ),
                            Symbol("%"),
                        )
                    ),
                )
            ),
        ),
        ("(fn [%] %)", ListForm((FN, VectorForm((Symbol("%"),)), Symbol("%")))),
        ("#(%x)", ListForm((FN, VectorForm(()), ListForm((Symbol("%x"),))))),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_source_reads_as(source: str, form: Node):
    assert read(source) == (form,)
    assert read(source.encode()) == (form,)


def test_a_program_is_any_number_of_forms():
    assert read("") == ()
    assert read(" \t\r\n ; nothing\n") == ()
    assert read('1"a":b[c]') == (Literal(1), Literal("a"), Keyword("b"), VectorForm((Symbol("c"),)))
    assert read("\ufeff1") == (Literal(1),)


def test_forms_know_where_they_stood():
    (form,) = read('\r\n ; é\n  (été\n\t{:a "x\ny" :b ~z})')
    stood = [(type(part).__name__, part.at) for part in walk(form)]  # type: ignore[attr-defined]
    assert stood == [
        ("ListForm", Position(3, 3)),
        ("Symbol", Position(3, 4)),
        ("MapForm", Position(4, 2)),
        ("Keyword", Position(4, 3)),
        ("Literal", Position(4, 6)),
        ("Keyword", Position(5, 4)),
        ("Unquote", Position(5, 7)),
        ("Symbol", Position(5, 8)),
    ]


@pytest.mark.parametrize(
    ("source", "line", "column", "message", "expected"),
    [
        ("[1 2 3)", 1, 7, "`)` does not close the `[` of line 1, column 1", "`]`"),
        ('{:key "value"]', 1, 14, "`]` does not close the `{` of line 1, column 1", "`}`"),
        ("(+ 1 2))", 1, 8, "`)` closes nothing", "a form or the end"),
        ("(a\n (b [c\n", 2, 5, "this `[` is never closed", "`]` before the end of the source"),
        ("\n#(a", 2, 1, "this `#(` is never closed", "`)` before the end of the source"),
        ("(a ~)", 1, 5, "`~` has no form after it", "a form"),
        ("`", 1, 1, "`` ` `` has no form after it", "a form"),
        ("^{:a 1}", 1, 1, "`^` has no form after it", "a form"),
        ("^:invalid-metadata x", 1, 2, "this keyword is no metadata", "`^{:key value} form` or `^:delegation`"),
        ("^[1] x", 1, 2, "a vector is no metadata", "`^{:key value} form` or `^:delegation`"),
        ("[1, 2]", 1, 3, "`,` is not white space in RTFS", "a space"),
        ("'x", 1, 1, "`'` does not quote in RTFS", "a quasiquote: `` ` ``"),
        ('(a "b)', 1, 4, "the string is never closed", '`"` before the end of the source'),
        ('"a\\', 1, 1, "the string is never closed", '`"` before the end of the source'),
        ('"a\\d"', 1, 3, "`\\d` is no escape", '`\\n`, `\\t`, `\\r`, `\\\\` or `\\"`'),
        ("#| a", 1, 1, "the comment is never closed", "`|#` before the end of the source"),
        ("#{1}", 1, 1, "`#` begins no form here", "`#(…)`, `##Inf`, `##-Inf`, `##NaN` or a comment `#| … |#`"),
        ("\\a", 1, 1, "RTFS has no character literals", "a string"),
        ("[a \x00]", 1, 4, "a NUL character stands outside of a string", "a form"),
        ("a\u00a0b", 1, 2, "U+00A0 begins no form", "a form"),
        ("[(a .b)]", 1, 5, "`.b` stands where no method is called", "`(.method target …)`"),
        ("(.true x)", 1, 2, "`.true` names no method", "a symbol after the point"),
        ("1.", 1, 1, "`1.` is no number", "an integer, or a float with digits on both sides of its point"),
        (".5", 1, 1, "`.5` is no number", "an integer, or a float with digits on both sides of its point"),
        ("1e5", 1, 1, "`1e5` is no number", "an integer, or a float with digits on both sides of its point"),
        ("12ab", 1, 1, "`12ab` is no number", "an integer, or a float with digits on both sides of its point"),
        (
            "9223372036854775808",
            1,
            1,
            "the integer does not fit in 64 bits",
            "-9223372036854775808 to 9223372036854775807",
        ),
        ("1.0e999", 1, 1, "the number is too large for a float", "at most 1.7976931348623157e308, or ##Inf"),
        ("{:a 1 :b}", 1, 7, "the last key of the map has no value", "as many values as keys"),
        ("{:a 1\n :a 2}", 2, 2, "the key `:a` stands twice in the map", "each key once"),
        ('{"a" 1 "a" 2}', 1, 8, "the key `a` stands twice in the map", "each key once"),
        (
            "{##NaN 1}",
            1,
            2,
            "a float cannot be a key of a map",
            "a keyword, a string, an integer or, in a pattern, a symbol",
        ),
        (
            "{true 1}",
            1,
            2,
            "a truth value cannot be a key of a map",
            "a keyword, a string, an integer or, in a pattern, a symbol",
        ),
        (
            "{[1] 1}",
            1,
            2,
            "a vector cannot be a key of a map",
            "a keyword, a string, an integer or, in a pattern, a symbol",
        ),
        ("#(+ %0)", 1, 5, "`%0` is no parameter of a short function", "`%` to `%20`"),
        ("#(+ %21)", 1, 5, "`%21` is no parameter of a short function", "`%` to `%20`"),
        (":1", 1, 1, "`:` begins no keyword here", "a keyword's name, or a space and a type"),
    ],
)
def test_what_is_not_rtfs_is_refused_with_its_place(source: str, line: int, column: int, message: str, expected: str):
    with pytest.raises(ReadError) as caught:
        read(source)
    found = caught.value
    assert (found.line, found.column, found.message, found.expected) == (line, column, message, expected)


def test_the_report_shows_the_line_and_a_caret():
    with pytest.raises(ReadError) as caught:
        read("(do\n\t(f 1, 2))")
    assert str(caught.value) == (
        "line 2, column 6: `,` is not white space in RTFS; expected a space\n   (f 1, 2))\n       ^"
    )
    assert pickle.loads(pickle.dumps(caught.value)).expected == "a space"


def test_a_long_line_is_shown_around_the_place():
    with pytest.raises(ReadError) as caught:
        read("a " * 500 + ", " + "b " * 500)
    shown, caret = caught.value.excerpt.split("\n")
    assert len(shown) < 80
    assert shown[len(caret) - 1] == ","


def test_what_a_terminal_would_obey_is_not_in_the_report():
    with pytest.raises(ReadError) as caught:
        read('"\x1b[2J\x9b" \x1b')
    assert "\x1b" not in str(caught.value)
    assert "\x9b" not in str(caught.value)


@pytest.mark.parametrize(("before", "line", "column"), [(b"", 1, 1), ('(a "é\nb'.encode(), 2, 2)])
def test_bytes_that_are_not_utf_8_are_refused(before: bytes, line: int, column: int):
    with pytest.raises(ReadError, match="byte 0xFF is not UTF-8") as caught:
        read(before + b"\xff)")
    assert (caught.value.line, caught.value.column) == (line, column)


def test_half_of_a_surrogate_pair_is_refused():
    with pytest.raises(ReadError, match=r"U\+D800 is half of a surrogate pair") as caught:
        read('"\n\ud800"')
    assert (caught.value.line, caught.value.column) == (2, 1)


@pytest.mark.parametrize("make", [lambda size: b" " * size, lambda size: "é" * (size // 2), lambda size: "(" * size])
def test_source_of_ten_megabytes_is_refused(make: Callable[[int], str | bytes]):
    with pytest.raises(ReadError, match="is the most"):
        read(make(10_000_000))


def test_the_size_is_counted_in_bytes():
    assert len(read("é" * 5, max_bytes=10)) == 1
    with pytest.raises(ReadError, match="11 bytes"):
        read("é" * 5 + " ", max_bytes=10)


@pytest.mark.parametrize("mark", ["(", "[", "{", "#(", "`", "~", "~@", "^", "(a [", "{:a "])
def test_a_hundred_thousand_forms_in_each_other_are_refused(mark: str):
    with pytest.raises(ReadError, match="more than 10000 forms stand inside each other"):
        read(mark * 100_000)


@pytest.mark.slow
def test_forms_may_be_as_deep_as_the_bound():
    (form,) = read("[" * 10_000 + "]" * 10_000)
    assert sum(1 for _ in walk(form)) == 10_000  # type: ignore[arg-type]
    (form,) = read("(a " * 50_000 + ")" * 50_000, max_depth=50_000)
    assert sum(1 for _ in walk(form)) == 100_000  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        " " * MAX_BYTES,
        ";" * MAX_BYTES,
        '"' + "\\n" * 1_000_000,
        '"' + "\\n" * 1_000_000 + '"',
        "#|" + "|" * 1_000_000,
        "a:" + "b" * 1_000_000,
        ":" + "a" * 1_000_000,
        "0" * 1_000_000,
        "1." + "0" * 1_000_000,
        "1" * 1_000_000,
        "resource://" + "a" * 1_000_000,
        "\n" * 1_000_000 + ")",
        "." + "a" * 1_000_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_one_long_token_is_read_or_refused(text: str):
    try:
        read(text)
    except ReadError as problem:
        assert len(str(problem)) < 400


# Pieces that mean something to the reader; texts made of them get further into it than random characters do.
PIECES = [
    *"()[]{}`~^@#:&%.;,'\"\\ \n",
    *("#(", "~@", "#|", "|#", "##", "##Inf", "##NaN", "^{", "^:delegation", ":a", "@a", "@:a", ".m", "%1", "%2"),
    *("a", "a/b", "a:v1/b", "resource:ref", "resource://x", "nil", "true", "1", "-1", "1.5", "1.", "1e5", "\\n", "é"),
    *("2024-01-01T00:00:00Z", UUID, "9" * 30, "\x00", "\ud800", "\ufeff", "\u00a0", "λ", "²", "٣"),
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.binary())


@given(texts)
@example("²")
@example("٣")
@example("\x00")
def test_any_text_gives_forms_or_a_read_error_with_a_place(text: str | bytes):
    try:
        forms = read(text)
    except ReadError as problem:
        lines = (text if isinstance(text, str) else text.decode(errors="replace")).split("\n")
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert problem.expected
        assert problem.excerpt.endswith("^")
        assert str(problem).startswith(f"line {problem.line}, column {problem.column}: {problem.message}; expected ")
    else:
        assert read(write_program(forms)) == forms


def test_the_programs_of_the_reference_read_and_are_written_back():
    cases = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))["cases"]
    refused = []
    for case in cases:
        try:
            program = read(case["source"])
        except ReadError:
            refused.append(case["source"])
        else:
            assert read(write_program(program)) == program
    # The reader takes the shapes of special forms as they come; the compiler refuses these two.
    shapes = ["(def)", "(if true)"]
    assert sorted(refused + shapes) == sorted(case["source"] for case in cases if case.get("phase") == "parse")
