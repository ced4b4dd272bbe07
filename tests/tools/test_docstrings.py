"""Descriptions of tools and parameters, found in docstrings of the three usual styles."""

from __future__ import annotations

import pytest

from actbox.tools.docstrings import compose, parse

GOOGLE = """Search the shelf.

Looks at titles only.
Note: capitals do not matter.

Args:
    query (str): What to find,
        as words.
    limit: How many at most: 10 is plenty.

    **more: Anything else

Returns:
    The titles, best first.

Raises:
    ValueError: never
"""

NUMPY = """Search the shelf.

Looks at titles only.
Note: capitals do not matter.

Parameters
----------
query : str
    What to find,
    as words.
limit, more : int, optional
    How many at most: 10 is plenty.

Returns
-------
    The titles, best first.

Examples
--------
>>> search("x")
"""

SPHINX = """Search the shelf.

Looks at titles only.
Note: capitals do not matter.

:param str query: What to find,
    as words.
:param limit: How many at most: 10 is plenty.
:type limit: int
:returns: The titles, best first.
:raises ValueError: never
"""


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_description_parameters_and_what_is_returned_are_found(doc: str):
    description, parameters = parse(doc)
    assert description == (
        "Search the shelf.\n\nLooks at titles only.\nNote: capitals do not matter.\n\nReturns: The titles, best first."
    )
    assert parameters["query"] == "What to find, as words."
    assert parameters["limit"] == "How many at most: 10 is plenty."


def test_parameters_that_take_any_name_lose_their_stars():
    assert parse(GOOGLE)[1]["more"] == "Anything else"
    assert parse(NUMPY)[1]["more"] == "How many at most: 10 is plenty."


def test_a_docstring_without_sections_is_all_description():
    text = "Weigh it.\n\nArgs are not a section here.\nAlso: this is a sentence."
    assert parse(text) == (text, {})
    assert parse("") == ("", {})


def test_a_header_without_an_indented_block_is_text():
    assert parse("Search.\n\nExamples:\nsearch('x')")[0] == "Search.\n\nExamples:\nsearch('x')"


def test_the_composed_text_has_a_line_for_each_argument_that_has_something_to_say():
    schema = {
        "properties": {
            "query": {"type": "string", "description": "What\nto find"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 99},
            "page": {"type": "integer"},
            "page-size": {"type": "integer", "description": "Rows"},
            "near": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
        }
    }
    assert compose("Search.", schema) == (
        "Search.\n\nquery: What to find\nlimit: (>= 1, <= 99)\n'page-size': Rows\nnear: (> 0)"
    )
    assert compose("Search.", {}) == "Search."
