"""Programs that are indented as a whole: how guest and host read them."""

from __future__ import annotations

import ast

import pytest

from actbox.core.indentation import parse, without_indentation

INDENTED = [
    ("    x = 1\n    y = 2\n", "x = 1\ny = 2\n"),
    ("\n\n\tif x:\n\t\ty = 2\n", "\n\nif x:\n\ty = 2\n"),
    ("    x = '''a\n    b\nc'''\n    x\n", "x = '''a\n    b\nc'''\nx\n"),
    ("    f(1,\n  2)\n# note\n\n    g()", "f(1,\n2)\n# note\n\ng()"),
    ('    f"""{x}\n    y"""\r\n    z', 'f"""{x}\n    y"""\r\nz'),
]
NOT_INDENTED = [
    "    x = 1\ny = 2\n",
    "x = 1\n    y = 2\n",
    "    if x:\n        y\nelse:\n    z\n",
    "    x = 1\n  y = 2\n",
]


@pytest.mark.parametrize(("source", "without"), INDENTED)
def test_the_indentation_is_taken_away_and_texts_stay(source: str, without: str) -> None:
    assert without_indentation(source) == without
    assert ast.dump(parse(source, "p")) == ast.dump(ast.parse(without))


@pytest.mark.parametrize("source", [source for source, _ in INDENTED])
def test_lines_and_columns_are_the_programs_own(source: str) -> None:
    lines = source.split("\n")
    for node in parse(source, "p").body:
        assert not lines[node.lineno - 1][: node.col_offset].strip()
        assert lines[node.lineno - 1][node.col_offset] not in " \t"


@pytest.mark.parametrize("source", NOT_INDENTED)
def test_source_of_which_only_some_is_indented_stays_no_program(source: str) -> None:
    with pytest.raises(SyntaxError):
        parse(source, "p")


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [("    x = 1\n    y = (\n", 2, 9), ("    x = 1\n    a b\n", 2, 7), ("    if x:\n    y\n", 2, 5)],
)
def test_an_error_in_it_is_told_where_it_is(source: str, line: int, column: int) -> None:
    with pytest.raises(SyntaxError) as caught:
        parse(source, "p")
    assert (caught.value.lineno, caught.value.offset) == (line, column)
    assert "line 2" not in caught.value.msg
    assert caught.value.__context__ is None
