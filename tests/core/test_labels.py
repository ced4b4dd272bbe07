"""Labels are a lattice: joins and the order agree, whatever the classes are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox import AllowedDomain, Artifact, ExecutionResult, FileMount, Policy, Program, Tool, tool
from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label

_CLASSES = (
    *("public", "internal", "pii", "pii.redacted", "pii.redacted.name", "pii.email", "pii.email.work", "pii.phone"),
    *("secret", "secret.key", "secret.key.old", "secret.token", "no such class"),
)
labels = st.lists(st.sampled_from(_CLASSES) | st.text(max_size=12), max_size=4).map(lambda given: Label(*given))


@given(labels, labels, labels)
def test_a_join_is_associative_commutative_and_idempotent(a: Label, b: Label, c: Label) -> None:
    assert (a | b) | c == a | (b | c) == Label(a, b, c)
    assert a | b == b | a
    assert a | a == a == a | PUBLIC


@given(labels, labels, labels)
def test_a_join_is_the_least_label_above_both_and_monotone(a: Label, b: Label, c: Label) -> None:
    assert a <= a | b
    assert (a <= b) == (a | b == b)
    assert (a | b <= c) == (a <= c and b <= c)
    assert not a <= b or a | c <= b | c


@given(labels, labels, labels)
def test_the_order_is_a_partial_order(a: Label, b: Label, c: Label) -> None:
    assert a <= a
    assert PUBLIC <= a <= Label("secret")
    assert not (a <= b and b <= c) or a <= c
    assert not (a <= b and b <= a) or a == b
    assert (a < b) == (b > a) == (a <= b and a != b)


@given(labels)
def test_the_text_of_a_label_reads_as_the_same_label(label: Label) -> None:
    assert Label.parse(str(label)) == label
    assert hash(Label(str(label))) == hash(label)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("public", "internal"),
        ("public", "pii.redacted"),
        ("pii.redacted", "pii.email"),
        ("pii.redacted.name", "pii.redacted"),
        ("pii.email.work", "pii.email"),
        ("pii.email", "pii"),
        ("secret.key", "secret"),
        ("internal", "secret.key"),
        ("pii", "secret.key"),
    ],
)
def test_a_class_is_below_another(lower: str, higher: str) -> None:
    assert Label(lower) < Label(higher)
    assert Label(lower) | Label(higher) == Label(higher)


@pytest.mark.parametrize(
    ("one", "other"),
    [("internal", "pii"), ("pii.email", "pii.phone"), ("secret.key", "secret.token"), ("pii.redactedly", "pii.email")],
)
def test_classes_of_which_none_is_above_the_other_both_stay(one: str, other: str) -> None:
    assert not Label(one) <= Label(other)
    assert not Label(other) <= Label(one)
    assert (Label(one) | Label(other)).classes == {one, other}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        *(("", "pii"), ("confidential", "pii"), ("public.x", "pii"), ("internal!", "pii"), ("pii.e mail", "pii")),
        *((" PII.Email ", "pii.email"), ("SECRET: x", "secret"), ("secret.", "secret"), ("pii+secret.x y", "secret")),
    ],
)
def test_a_text_that_is_no_class_counts_as_pii_or_as_the_secret_that_it_names(text: str, read: str) -> None:
    assert str(Label(text)) == read


def test_a_label_is_made_of_text() -> None:
    with pytest.raises(InvalidValue, match="a label is text such as"):
        Label(3)  # type: ignore[arg-type]


def _nothing() -> None: ...


def _row(row: int = 1) -> int:
    return row


def test_what_has_a_label_takes_text_and_keeps_a_label(tmp_path: Path) -> None:
    pii = Label("pii.email")
    mount = FileMount(tmp_path, "people", label="pii.email", cleared="pii")
    domain = AllowedDomain("a.example", label="pii.email", cleared="pii")
    load = tool(name="load", label="pii.email", cleared="pii")(_nothing)
    for labelled in (mount, domain, load):
        assert (labelled.label, labelled.cleared) == (pii, Label("pii"))
    policy = Policy(egress_max="public", label="pii.email")
    assert (policy.egress_max, policy.label, policy.read_label) == (PUBLIC, pii, pii)
    assert Program("1", label="pii.email").label == pii
    assert Policy(mounts=(mount,)).read_label == pii


def test_labels_count_in_a_comparison(tmp_path: Path) -> None:
    assert FileMount(tmp_path, "a") != FileMount(tmp_path, "a", label="pii")
    assert hash(AllowedDomain("a.example")) == hash(AllowedDomain("a.example", label="public"))
    assert AllowedDomain("a.example") != AllowedDomain("a.example", cleared="pii")
    assert Program("1") != Program("1", label="pii")
    assert Program("1") == Program("1", label="public")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Policy(label=3),  # type: ignore[arg-type]
        lambda: Policy(egress_max=b"public"),  # type: ignore[arg-type]
        lambda: Program("1", label=None),  # type: ignore[arg-type]
        lambda: AllowedDomain("a.example", cleared=0),  # type: ignore[arg-type]
        lambda: tool(name="load", label=1)(_nothing),  # type: ignore[call-overload]
    ],
)
def test_a_label_of_another_type_is_named(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidValue, match="is a label such as"):
        make()


def test_a_tool_made_of_another_one_keeps_its_label() -> None:
    load = tool(name="load", label="pii", cleared="secret")(_row)
    for again in (Tool.from_function(load, name="again"), Tool.from_function(partial(load, row=2), name="again")):
        assert (again.label, again.cleared) == (Label("pii"), Label("secret"))
    assert Tool.from_function(load, name="again", label="public").label == PUBLIC


def test_a_result_keeps_its_label_and_its_files_theirs() -> None:
    file = Artifact("a.txt", b"1", label=Label("pii"), claimed=PUBLIC)
    result = ExecutionResult(label=Label("pii"), artifacts=(file,))
    assert ExecutionResult.from_dict(result.to_dict()) == result
    assert result.to_dict()["label"] == "pii"
    plain = ExecutionResult(artifacts=(Artifact("a.txt", b"1"),)).to_dict()
    assert not {"label", "claimed"} & {*plain, *plain["artifacts"][0]}
