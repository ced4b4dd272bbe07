"""Items become JSON and come back the same, and say what they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from pydantic import ValidationError

from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    HostedCodeInterpreterTool,
    HostedFileContent,
    HostedFileSearchTool,
    LaterContent,
    Message,
    TextContent,
    UsageContent,
    code_content,
    content_from_dict,
    message_from_dict,
)
from actbox.content.media import language_of_media_type, media_type_of_language
from tests.content import items_to_try


@pytest.mark.slow
@given(items_to_try.items)
def test_an_item_comes_back_from_json_as_it_was(item) -> None:
    assert content_from_dict(json.loads(json.dumps(item.to_dict()))) == item


@given(items_to_try.items)
def test_json_by_either_way_is_the_same(item) -> None:
    assert json.loads(item.model_dump_json()) == item.to_dict()


@pytest.mark.slow
@given(items_to_try.messages)
def test_a_message_comes_back_from_json_as_it_was(message) -> None:
    assert message_from_dict(json.loads(json.dumps(message.to_dict()))) == message


def test_fields_that_have_their_usual_value_are_left_out_but_for_the_kind() -> None:
    assert TextContent(text="hi").to_dict() == {"type": "text", "text": "hi"}


def test_bytes_are_base64_in_json() -> None:
    assert DataContent(media_type="image/png", data=b"\x89PNG").to_dict()["data"] == "iVBORw=="


def test_a_field_of_a_later_version_is_kept() -> None:
    document = {"type": "text", "text": "hi", "tone": {"warm": 3}}
    assert content_from_dict(document).to_dict() == document


def test_an_item_of_a_later_version_is_kept() -> None:
    document = {"type": "smell", "of": ["roses", 1.5, None]}
    item = content_from_dict(document)
    assert isinstance(item, LaterContent)
    assert item.to_dict() == document


def test_an_item_of_a_later_version_is_kept_inside_another() -> None:
    document = {"type": "code_interpreter_result", "call_id": "c", "outputs": [{"type": "smell", "of": "roses"}]}
    assert content_from_dict(document).to_dict() == document


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"type": "data", "media_type": "image/png", "data": "iVBOR"}, "base64"),
        ({"type": "data", "media_type": "image/png", "data": None}, "NoneType"),
        ({"type": "text"}, "text"),
        ({"type": "hosted_file", "file_id": ""}, "file_id"),
        ({"text": "no type"}, "type"),
        ({"type": "code_interpreter_result", "call_id": "c", "outputs": None}, "outputs"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(document, said) -> None:
    with pytest.raises(ValidationError, match=said):
        content_from_dict(document)


def test_an_item_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TextContent(text="hi").text = "ho"  # type: ignore[misc]


@pytest.mark.slow
def test_a_nul_and_fifty_megabytes_are_kept() -> None:
    item = DataContent(media_type="image/png", data=b"\0" * 50_000_000)
    assert content_from_dict(item.to_dict()) == item
    assert content_from_dict(TextContent(text="a\0b").to_dict()) == TextContent(text="a\0b")


def test_the_text_of_a_result_is_all_that_is_text_in_its_order() -> None:
    outputs = (
        TextContent(text="one "),
        DataContent(media_type="text/plain", data=b"a file", name="a.txt"),
        TextContent(text="two", stream="stderr"),
    )
    assert CodeInterpreterResult(call_id="c", outputs=outputs).text == "one two"


ERROR = ErrorContent(message="it broke")
STDERR = TextContent(text="a warning", stream="stderr")


@pytest.mark.parametrize(
    ("fields", "success"),
    [
        ({}, True),
        ({"outputs": (STDERR,)}, True),
        ({"outputs": (ERROR,)}, False),
        ({"exit_code": 0, "outputs": (ERROR,)}, True),
        ({"exit_code": 3}, False),
        ({"outcome": "ok", "outputs": (ERROR,)}, True),
        ({"outcome": "failed"}, False),
        ({"outcome": "timeout"}, False),
        ({"outcome": "what nobody knows"}, None),
        ({"outcome": "what nobody knows", "outputs": (ERROR,)}, False),
        ({"exit_code": 0, "outcome": "failed"}, True),
    ],
)
def test_success_comes_from_the_exit_code_else_the_outcome_else_the_errors(fields, success) -> None:
    assert CodeInterpreterResult(call_id="c", **fields).success is success


def test_a_call_says_its_code_and_its_language() -> None:
    file = HostedFileContent(file_id="f1")
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("x <- 1\n", "r"), file, code_content("x", "r")))
    assert (call.code, call.language) == ("x <- 1\nx", "r")


def test_code_that_is_plain_text_is_python() -> None:
    call = CodeInterpreterCall(call_id="c", inputs=(TextContent(text="1 + 1"),))
    assert (call.code, call.language) == ("1 + 1", "python")


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "shell", "sql", "r", "c++", "brainfuck"])
def test_a_language_comes_back_from_its_media_type(language) -> None:
    assert language_of_media_type(media_type_of_language(language)) == language


@pytest.mark.parametrize("media_type", ["text/x-python; charset=utf-8", "TEXT/X-PYTHON", "application/x-python"])
def test_a_language_is_known_by_any_of_its_media_types(media_type) -> None:
    assert language_of_media_type(media_type) == "python"


def test_a_media_type_that_is_no_language_stands_for_none() -> None:
    assert language_of_media_type("image/png") == ""


def test_the_text_of_a_message_is_what_was_said() -> None:
    contents = (TextContent(text="a"), DataContent(media_type="text/plain", data=b"no"), TextContent(text="b"))
    assert Message(contents=contents).text == "ab"


def test_hosted_tools_can_be_told_apart() -> None:
    tools = [HostedCodeInterpreterTool(), HostedFileSearchTool(maximum_result_count=3)]
    assert [tool.to_dict()["type"] for tool in tools] == ["code_interpreter", "file_search"]


@pytest.mark.parametrize("count", [float("nan"), float("inf")])
def test_a_count_that_json_cannot_say_is_refused(count) -> None:
    with pytest.raises(ValidationError, match="finite"):
        UsageContent(counts={"x": count})
