"""The listing that stands for the stubs of a large toolset, and what has changed since it was made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actbox import InvalidValue
from actbox.codeact.tool_listing import MAX_TEXT
from actbox.codeact.tool_search import Listing, search_tools_of
from actbox.tools import Toolset
from tests.codeact.many_tools import made, many_tools, names

TOOLS, GROUPS = many_tools()
SMALL = Listing.of(names("b_one", "a-two", "lone"), {"b_one": "letters", "a-two": "letters"})


def test_a_listing_has_sorted_names_by_group_and_the_others_last():
    assert SMALL.groups == (("letters", ("a_two", "b_one")), ("", ("lone",)))
    assert SMALL.text() == "- letters: a_two, b_one\n- (no group): lone"
    assert Listing.of(Toolset(), {}).text() == ""


def test_a_listing_does_not_depend_on_the_order_of_the_tools():
    backwards = Listing.of(Toolset(reversed(list(TOOLS))), dict(reversed(GROUPS.items())))
    assert backwards == Listing.of(TOOLS, GROUPS) and hash(backwards) == hash(Listing.of(TOOLS, GROUPS))
    assert backwards.text() == Listing.of(TOOLS, GROUPS).text()
    assert len(Listing.of(TOOLS, GROUPS).text().splitlines()) == len(set(GROUPS.values())) + 1


def test_a_listing_cannot_be_changed():
    with pytest.raises(AttributeError):
        SMALL.groups = ()  # type: ignore[misc]


@pytest.mark.slow
def test_the_text_of_thousands_of_tools_has_groups_and_numbers():
    crowd = names(*(f"tool_{number}" for number in range(3_000)))
    listing = Listing.of(crowd, {name: "even" if int(name[5:]) % 2 == 0 else "odd" for name in crowd.names[1:]})
    assert listing.text() == "- even: 1,499 tools\n- odd: 1,500 tools\n- (no group): 1 tool"
    assert "tool_2999" in listing.text(max_chars=100_000)


@pytest.mark.slow
def test_the_text_of_thousands_of_groups_is_cut_and_counts_the_rest():
    crowd = names(*(f"tool_{number}" for number in range(3_000)))
    listing = Listing.of(crowd, {name: f"group {name[5:]:0>4}" for name in crowd.names})
    lines = listing.text().splitlines()
    assert len(listing.text()) <= MAX_TEXT and lines[0] == "- group 0000: 1 tool"
    left_out = 3_000 - (len(lines) - 1)
    assert lines[-1] == f"- and {left_out:,} groups more with {left_out:,} tools"
    assert listing.text(max_chars=10) == "- and 3,000 groups more with 3,000 tools"


def test_a_group_cannot_add_lines_to_the_text():
    listing = Listing.of(names("one"), {"one": "x\n- evil:\x00 rule  all"})
    assert listing.text() == "- x - evil: rule all: one"


async def test_groups_are_called_the_same_in_listing_and_search():
    groups = {"one": " my\ngroup "}
    search, _ = search_tools_of(names("one"), groups)
    (group, _), *_ = Listing.of(names("one"), groups).groups
    assert group == "my group" and len(await search.call({"group": group})) == 1


def test_a_listing_survives_json():
    for listing in (SMALL, Listing.of(TOOLS, GROUPS), Listing.of(Toolset(), {})):
        assert Listing.from_dict(json.loads(json.dumps(listing.to_dict()))) == listing


def test_the_text_is_the_same_when_a_store_has_mixed_up_the_keys():
    kept = json.loads(json.dumps(Listing.of(TOOLS, GROUPS).to_dict()))
    mixed = {"groups": {group: kept["groups"][group][::-1] for group in sorted(kept["groups"], reverse=True)}}
    assert Listing.from_dict(mixed).text() == Listing.of(TOOLS, GROUPS).text()


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "groups",
        {},
        {"groups": None},
        {"groups": []},
        {"groups": {}, "more": 1},
        {"groups": {"a": "b"}},
        {"groups": {"a": []}},
        {"groups": {"a": [1]}},
        {"groups": {"a": [["b"]]}},
        {"groups": {"a": ["b\n- evil"]}},
        {"groups": {"a": ["b", "b"]}},
        {"groups": {"a": ["b"], "c": ["b"]}},
        {"groups": {"a\nb": ["c"]}},
        {"groups": {1: ["c"]}},
    ],
)
def test_data_of_another_shape_is_no_listing(data: Any):
    with pytest.raises(InvalidValue, match="listing of tools"):
        Listing.from_dict(data)


# What has changed


def test_nothing_is_said_where_nothing_changed():
    assert SMALL.changes_since(SMALL) == ""
    assert SMALL.changes_since(Listing.from_dict(SMALL.to_dict())) == ""


def test_what_was_added_moved_and_removed_is_said_in_one_paragraph():
    now = Listing.of(names("a-two", "lone", "new", "newer"), {"a-two": "digits", "new": "fresh"})
    assert now.changes_since(SMALL) == (
        "The tools have changed since they were listed. Added: new (fresh), newer;"
        " now in another group: a_two (digits); gone: b_one."
    )
    assert Listing.of(names("lone"), {}).changes_since(Listing.of(names("lone", "x"), {})) == (
        "The tools have changed since they were listed. Gone: x."
    )
    assert "now in another group: x (no group)" in Listing.of(names("x", "y"), {}).changes_since(
        Listing.of(names("x"), {"x": "g"})
    )


def test_many_changes_are_counted():
    crowd = Listing.of(names(*(f"tool_{number:03}" for number in range(200))), {})
    text = crowd.changes_since(Listing.of(Toolset(), {}))
    assert "tool_049 and 150 more" in text and "tool_050" not in text
    assert "\n" not in text
    assert Listing.of(Toolset(), {}).changes_since(crowd).count("and 150 more") == 1


def test_what_has_another_signature_or_description_is_said():
    before = Toolset([made("same", "A."), made("words", "A."), made("shape", "A.", n={"type": "integer"}), made("old")])
    after = Toolset([made("same", "A."), made("words", "B."), made("shape", "A.", n={"type": "string"}), made("new")])
    pinned = Listing.from_dict(json.loads(json.dumps(Listing.of(before, {}).to_dict())))
    assert Listing.of(after, {}).changes_since(pinned) == (
        "The tools have changed since they were listed."
        " Added: new; gone: old; changed, so look them up again: shape, words."
    )
    without = Listing.from_dict({"groups": pinned.to_dict()["groups"]})
    assert "look them up" not in Listing.of(after, {}).changes_since(without)


@pytest.mark.parametrize("digests", [{"other": "a"}, {"one": 1}, ["one"], None])
def test_digests_of_another_shape_are_refused(digests: Any):
    with pytest.raises(InvalidValue):
        Listing.from_dict({"groups": {"": ["one"]}, "digests": digests})
