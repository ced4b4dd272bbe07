from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.rtfs.syntax import Form, Keyword, ListForm, Literal, Position, Symbol, VectorForm, walk
from tests.rtfs.rtfs_forms import forms

DEEP = 30_000


def deep(innermost: Form) -> Form:
    for _ in range(DEEP):
        innermost = VectorForm((innermost,))
    return innermost


def test_literals_are_told_apart_by_type():
    values = [1, 1.0, True, 0, 0.0, -0.0, False, None, "1", ""]
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            assert (Literal(left) == Literal(right)) is (i == j)
    assert Literal(float("nan")) == Literal(float("nan"))


def test_where_a_form_stood_does_not_count():
    assert Symbol("a", Position(1, 1)) == Symbol("a", Position(2, 5))
    assert hash(ListForm((Literal(1),), Position(1, 1))) == hash(ListForm((Literal(1),)))


def test_a_name_is_no_keyword_and_a_list_no_vector():
    assert Symbol("a") != Keyword("a")
    assert ListForm((Symbol("a"),)) != VectorForm((Symbol("a"),))
    assert Symbol("a") != "a"


def test_forms_cannot_be_changed():
    with pytest.raises(AttributeError):
        Symbol("a").name = "b"  # type: ignore[misc]


@pytest.mark.slow
def test_deep_forms_are_compared_hashed_and_shown():
    one, same, other = deep(Literal(1)), deep(Literal(1)), deep(Literal(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert repr(one).startswith("VectorForm(VectorForm(")
    assert sum(1 for _ in walk(one)) == DEEP + 1


@given(st.lists(forms, min_size=2, max_size=2))
def test_equal_forms_have_equal_hashes_and_are_shown_alike(pair: list[Form]):
    left, right = pair
    assert left == left
    if left == right:
        assert hash(left) == hash(right)
        assert repr(left) == repr(right)
    else:
        assert repr(left) != repr(right)
