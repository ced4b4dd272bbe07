"""MCP's results of tools: what the protocol's own types say is what comes out, and everything comes back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.content import (
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionResult,
    HostedFileContent,
    Message,
    TextContent,
    UnknownContent,
    UriContent,
)
from actbox.content.wire.mcp import FORMAT, read, write
from tests.content import items_to_try
from tests.content.wire.sdk_types import SdkType

RESULT = SdkType("mcp.types:CallToolResult")

EVERYTHING = {
    "content": [
        {"type": "text", "text": "22.5 °C", "annotations": {"audience": ["user"], "priority": 0.9}},
        {"type": "image", "data": "iVBORw0=", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "_meta": {"seconds": 1}},
        {"type": "resource_link", "uri": "file:///a/main.rs", "name": "main.rs", "mimeType": "text/x-rust", "size": 3},
        {"type": "resource", "resource": {"uri": "file:///a/notes.md", "mimeType": "text/markdown", "text": "# Hi"}},
        {"type": "resource", "resource": {"uri": "file:///a/x.bin", "blob": "AAE=", "_meta": {"a": 1}}},
    ],
    "structuredContent": {"temperature": 22.5},
    "isError": False,
    "_meta": {"took": 3},
}


def only(messages: list[Message]) -> FunctionResult:
    (message,) = messages
    (item,) = message.contents
    assert isinstance(item, FunctionResult)
    return item


def test_every_kind_of_block_is_read() -> None:
    outputs = only(read(EVERYTHING)).outputs
    assert [type(item) for item in outputs] == [
        TextContent,
        DataContent,
        DataContent,
        UriContent,
        DataContent,
        DataContent,
        DataContent,
    ]
    note = outputs[4]
    assert isinstance(note, DataContent)
    assert (note.name, note.media_type, note.text) == ("notes.md", "text/markdown", "# Hi")


def test_what_was_read_is_written_the_same() -> None:
    written = write(read(EVERYTHING))
    assert written.document == [EVERYTHING]
    assert written.losses == ()


def test_what_is_written_is_what_the_protocol_takes() -> None:
    RESULT.validate(write(read(EVERYTHING)).document[0])


def test_an_answer_of_json_rpc_has_its_call_id() -> None:
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "hi"}], "isError": True}}
    item = only(read(answer))
    assert (item.call_id, item.is_error, item.text) == ("7", True, "hi")
    assert write(read(answer)).document == [answer]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "iVBOR", "mimeType": "image/png"},
        {"type": "text", "text": None},
        {"type": "text"},
        {"type": "smell", "of": "roses"},
        {"type": "resource", "resource": None},
        {"type": "resource", "resource": {"uri": "a", "blob": "?"}},
        None,
        "text",
        {},
        {"type": [1]},
    ],
)
def test_a_block_that_is_not_as_it_should_be_is_kept(block) -> None:
    document = {"content": [block], "isError": False}
    assert only(read(document)).outputs == (UnknownContent(format="mcp", raw=block),)
    assert write(read(document)).document == [document]


def test_what_is_structured_is_an_output_unless_a_text_says_the_same() -> None:
    value = {"temperature": 22.5, "place": "\ud800"}
    beside = {"content": [{"type": "text", "text": "It is warm."}], "structuredContent": value, "isError": False}
    for document in (beside, {"structuredContent": value}, {"jsonrpc": "2.0", "id": 1, "result": beside}):
        assert FORMAT.looks_like(document) >= 0.9
        output = only(read(document)).outputs[-1]
        assert isinstance(output, DataContent) and output.media_type == "application/json"
        assert json.loads(output.data.decode("utf-8", "surrogatepass")) == value
        (written,) = write(read(document)).document
        assert (written.get("result") or written)["structuredContent"] == value
    said = {**beside, "content": [{"type": "text", "text": json.dumps(value)}]}
    assert len(only(read(said)).outputs) == 1
    assert write(read(said)).document == [said]


@pytest.mark.parametrize("document", [{"content": None}, {"content": [], "isError": "yes"}, {"structuredContent": [1]}])
def test_a_result_that_is_not_as_it_should_be_is_kept(document) -> None:
    assert write(read(document)).document[0].items() >= document.items()


@pytest.mark.parametrize("document", [{}, [{"a": 1}], "text", 3, None])
def test_what_is_no_result_is_refused(document) -> None:
    with pytest.raises(ValueError, match="no result of a tool"):
        read(document)


def test_a_result_of_code_becomes_a_result_of_a_tool() -> None:
    result = CodeInterpreterResult(
        call_id="c",
        exit_code=1,
        outputs=(
            TextContent(text="out", stream="stdout"),
            DataContent(media_type="image/png", data=b"png", name="chart.png"),
            DataContent(media_type="text/csv", data=b"a,b", name="t.csv"),
            DataContent(media_type="application/zip", data=b"\xff", name="z.zip"),
            HostedFileContent(file_id="f1", name="big.bin"),
            ErrorContent(message="it broke", details="Traceback"),
        ),
    )
    written = write([Message(contents=(result,))])
    (document,) = written.document
    RESULT.validate(document)
    assert document["isError"] is True
    assert [block["type"] for block in document["content"]] == [
        "text",
        "image",
        "resource",
        "resource",
        "resource_link",
        "text",
    ]
    assert document["content"][-1]["text"] == "error: it broke\nTraceback"
    assert {loss.what for loss in written.losses} == {
        "text.stream",
        "data.name",
        "hosted_file",
        "error",
        "function_result.call_id",
    }


def test_what_has_no_place_is_told() -> None:
    written = write([Message(contents=(TextContent(text="just said"),))])
    assert written.document == []
    assert [loss.what for loss in written.losses] == ["text"]


blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, items_to_try.texts),
    st.just({"type": "image", "data": "iVBORw0=", "mimeType": "image/png"}),
    st.builds(
        lambda uri, name: {"type": "resource_link", "uri": uri, "name": name}, items_to_try.texts, items_to_try.texts
    ),
    st.builds(
        lambda uri, text: {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}},
        items_to_try.texts,
        items_to_try.texts,
    ),
    items_to_try.json_values,
)


@given(st.lists(blocks, max_size=4), st.booleans(), items_to_try.json_objects)
def test_any_result_comes_back_as_it_was(content, is_error, more) -> None:
    document = {**more, "content": content, "isError": is_error}
    assert write(read(document)).document == [document]


@given(items_to_try.json_values)
def test_no_document_is_a_crash(document) -> None:
    try:
        read(document)
    except ValueError:
        return
    assert json.dumps(write(read(document)).document)


def test_results_are_told_by_their_looks() -> None:
    assert FORMAT.looks_like(EVERYTHING) > 0.5
    assert FORMAT.looks_like({"role": "user", "content": [{"type": "text", "text": "hi"}]}) == 0
