"""Which tools of a large toolset a query finds, and in which order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from actbox.codeact.tool_index import ToolIndex, stem, words
from actbox.tools import Tool, Toolset
from tests.codeact.many_tools import MEANT, made, many_tools, names

TOOLS, GROUPS = many_tools()
INDEX = ToolIndex(TOOLS, GROUPS)


def found(toolset: Toolset, query: str, groups: dict[str, str] | None = None) -> list[str]:
    return ToolIndex(toolset, groups or {}).search(query)


def test_the_set_that_is_searched_is_large():
    assert len(TOOLS) >= 200 and len(set(GROUPS.values())) >= 12


@pytest.mark.parametrize(("query", "tool"), MEANT.items())
def test_the_tool_that_is_meant_is_among_the_first_three(query: str, tool: str):
    assert tool in INDEX.search(query)[:3]


def test_most_queries_find_the_tool_first():
    first = sum(INDEX.search(query)[0] == tool for query, tool in MEANT.items())
    assert first >= 0.85 * len(MEANT)


@pytest.mark.slow
def test_a_tool_is_found_first_by_its_name_in_any_spelling():
    for tool in TOOLS.names:
        for query in (tool, TOOLS.aliases[tool], f"  {tool}\n", " ".join(words(tool)), "-".join(words(tool)).upper()):
            assert INDEX.search(query)[0] == tool, query


def test_of_two_spellings_the_one_that_was_written_comes_first():
    toolset = names("getUser", "get_user", "get-user")
    assert found(toolset, "getUser") == ["getUser", "get_user", "get-user"]
    assert found(toolset, "get_user")[0] == "get_user"
    assert found(toolset, "get-user")[0] == "get-user"
    assert found(toolset, "Get User") == ["getUser", "get_user", "get-user"]


def test_an_exact_name_is_before_a_tool_that_speaks_of_nothing_else():
    toolset = Toolset([made("pay_all_pay", "Pay, pay, pay. To pay is to pay."), made("pay")])
    assert found(toolset, "pay") == found(toolset, "PAY?") == ["pay", "pay_all_pay"]


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("trans", "text_translator"),
        ("translations", "text_translator"),
        ("translating", "text_translator"),
        ("cancelled", "order_cancel"),
        ("cancellation", "order_cancel"),
        ("categories", "list_category"),
        ("addresses", "address_book"),
        ("organise", "organizer"),
        ("webhook", "add_web_hook"),
        ("web hook", "webhook_url"),
        ("s3", "s3_copy"),
        ("erase", "note_delete"),
        ("evenement", "événement_liste"),
        ("ÉVÉNEMENT", "événement_liste"),
        ("turn on", "turn_on"),
        ("httpserver", "startHTTPServer"),
        ("http", "startHTTPServer"),
    ],
)
def test_words_match_in_other_forms(query: str, tool: str):
    toolset = names(
        "text_translator", "order_cancel", "list_category", "address_book", "organizer", "s3_copy", "note_delete"
    ).with_tools(*names("événement_liste", "turn_on", "turn_off", "startHTTPServer", "unrelated"))
    toolset = toolset.with_tools(made("webhook_url" if query == "web hook" else "add_web_hook"))
    assert found(toolset, query)[0] == tool


def test_words_that_stand_together_in_a_name_count_more_together():
    assert found(names("a_3_s", "b_s3"), "s3 please") == ["b_s3", "a_3_s"]


def test_a_common_word_counts_less_than_others():
    assert found(names("on_x", "z_post"), "post on") == ["z_post", "on_x"]


def test_writing_without_spaces_is_searched_by_its_parts():
    toolset = Toolset([made("a", "翻译文本为另一种语言"), made("b", "查询天气预报"), made("c", "税")])
    assert found(toolset, "天气") == ["b"] and found(toolset, "文本翻译")[0] == "a" and found(toolset, "税") == ["c"]


def test_of_a_very_long_description_the_beginning_is_read():
    toolset = Toolset([made("one", "walrus " + "word " * 1_000 + "penguin")])
    assert found(toolset, "walrus") == ["one"] and found(toolset, "penguin") == []


def test_descriptions_parameters_their_notes_and_groups_are_searched():
    toolset = Toolset(
        [
            made("one", "Knows about walruses."),
            made("two", walrus={"type": "string"}),
            made("three", x={"type": "string", "description": "The walrus."}),
            made("four"),
            made("five", "Nothing."),
        ]
    )
    assert set(found(toolset, "walrus", {"four": "walrus"})) == {"one", "two", "three", "four"}


def test_a_name_weighs_more_than_a_description():
    toolset = Toolset([made("alpha", "Sends a fax."), made("fax", "Alpha.")])
    assert found(toolset, "a fax please")[0] == "fax"


def test_words_that_are_in_every_sentence_find_nothing():
    assert found(Toolset([made("one", "All of this is for you.")]), "is this for you?") == []
    assert found(TOOLS, "?!") == [] and found(TOOLS, "xylophone") == []


def test_schemas_without_properties_and_tools_without_words_are_indexed():
    toolset = Toolset([Tool.from_schema("+++", "", {"type": "object"}, lambda: None), made("plain")])
    assert found(toolset, "+++") == ["+++"] and found(toolset, "???") == [] and found(toolset, "plain") == ["plain"]
    assert found(Toolset(), "anything") == []


def test_stems_of_short_words_and_of_foreign_ones_are_the_words():
    assert [stem(word) for word in ("bus", "is", "red", "größen", "status", "string")] == [
        "bus", "is", "red", "größen", "status", "string",
    ]  # fmt: skip


def test_the_order_is_the_same_for_any_order_of_the_tools():
    backwards = ToolIndex(Toolset(reversed(list(TOOLS))), GROUPS)
    for query in MEANT:
        assert backwards.search(query) == INDEX.search(query)


@pytest.mark.slow
def test_the_order_does_not_depend_on_the_process():
    program = (
        "from tests.codeact.test_tool_index import INDEX, MEANT; print([INDEX.search(query)[:9] for query in MEANT])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and "crm_find_contact" in outputs[0]
