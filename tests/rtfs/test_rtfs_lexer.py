from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.token import Comment, Error, Keyword, Literal, Name, Number, Operator, Punctuation, String

from actbox.rtfs.lexer import RtfsLexer
from actbox.rtfs.printer import write
from actbox.rtfs.syntax import Form
from tests.rtfs.rtfs_forms import forms


def highlighted(source: str) -> list[tuple[object, str]]:
    return [(kind, text) for _, kind, text in RtfsLexer().get_tokens_unprocessed(source) if not text.isspace()]


def test_the_kinds_of_tokens():
    source = '(defn f [x : :int] ; note\n  (g ~@x "é" 1 -2.5 ##Inf nil @ctx 2024-01-01T00:00:00Z)) #| all |#'
    assert highlighted(source) == [
        (Punctuation, "("),
        (Keyword, "defn"),
        (Name.Function, "f"),
        (Punctuation, "["),
        (Name, "x"),
        (Operator, ":"),
        (String.Symbol, ":int"),
        (Punctuation, "]"),
        (Comment.Single, "; note"),
        (Punctuation, "("),
        (Name.Function, "g"),
        (Operator, "~@"),
        (Name, "x"),
        (String.Double, '"é"'),
        (Number.Integer, "1"),
        (Number.Float, "-2.5"),
        (Number.Float, "##Inf"),
        (Keyword.Constant, "nil"),
        (Name.Variable.Global, "@ctx"),
        (Literal.Date, "2024-01-01T00:00:00Z"),
        (Punctuation, ")"),
        (Punctuation, ")"),
        (Comment.Multiline, "#| all |#"),
    ]


def test_what_is_still_open_lasts_to_the_end():
    assert highlighted('(f "a (b')[-1] == (String.Double, '"a (b')
    assert highlighted("1 #| a (b")[-1] == (Comment.Multiline, "#| a (b")


def test_what_begins_no_token_is_an_error():
    assert highlighted("1, 2e5 '") == [
        (Number.Integer, "1"),
        (Error, ","),
        (Error, "2e5"),
        (Error, "'"),
    ]


@given(st.one_of(st.text(), st.text('()[]{}"\\#|;:@~`^ a1.\n')))
def test_no_text_is_lost(source: str):
    assert "".join(text for _, _, text in RtfsLexer().get_tokens_unprocessed(source)) == source


@pytest.mark.slow
@given(forms)
def test_a_program_has_no_errors(form: Form):
    assert Error not in [kind for kind, _ in highlighted(write(form))]


def test_pygments_finds_the_lexer_by_its_entry_point():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    declared = project["project"]["entry-points"]["pygments.lexers"]
    assert EntryPoint("rtfs", declared["rtfs"], "pygments.lexers").load() is RtfsLexer
    assert RtfsLexer.aliases == ["rtfs"]
    assert RtfsLexer.filenames == ["*.rtfs"]
