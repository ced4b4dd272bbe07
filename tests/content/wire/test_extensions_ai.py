"""Microsoft.Extensions.AI's JSON: what .NET writes comes back as it was, and everything of ours survives."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    LaterContent,
    Message,
    TextContent,
    UnknownContent,
    UsageContent,
    messages_from_updates,
)
from actbox.content.wire.extensions_ai import FORMAT, Reader, read, write
from actbox.content.wire.formats import detect
from tests.content import items_to_try
from tests.content.matrix import TRANSCRIPT
from tests.content.wire.plain import has_unknown, plain

RESPONSE: dict[str, Any] = {
    "messages": [
        {
            "authorName": "analyst",
            "createdAt": "2026-01-02T03:04:05+00:00",
            "role": "assistant",
            "contents": [
                {"$type": "reasoning", "text": "I shall run it.", "protectedData": "c2VhbGVk"},
                {
                    "$type": "codeInterpreterToolCall",
                    "callId": "ci_1",
                    "inputs": [
                        {"$type": "data", "uri": "data:text/x-python;base64,cHJpbnQoMSk="},
                        {"$type": "hostedFile", "fileId": "file-1", "scope": "cntr_1", "sizeInBytes": 12},
                    ],
                },
                {
                    "$type": "codeInterpreterToolResult",
                    "callId": "ci_1",
                    "outputs": [
                        {"$type": "text", "text": "1\n"},
                        {"$type": "data", "uri": "data:image/png;base64,aGVsbG8=", "name": "plot.png"},
                        {"$type": "error", "message": "boom", "errorCode": "E1", "details": "line 1"},
                    ],
                },
                {"$type": "functionCall", "callId": "fc_1", "name": "look_up", "arguments": {"what": "seven"}},
                {
                    "$type": "text",
                    "text": "It is 1.",
                    "annotations": [
                        {
                            "$type": "citation",
                            "title": "Maths",
                            "url": "https://example.com/math",
                            "toolName": "web_search",
                            "annotatedRegions": [{"$type": "textSpan", "startIndex": 6, "endIndex": 7}],
                        }
                    ],
                },
                {"$type": "webSearchToolCall", "callId": "ws_1", "queries": ["one"]},
                {"$type": "uri", "uri": "https://example.com/cat.png", "mediaType": "image/png"},
            ],
            "messageId": "msg_1",
            "additionalProperties": {"mood": "calm"},
        },
        {
            "role": "tool",
            "contents": [{"$type": "functionResult", "callId": "fc_1", "result": {"found": [7, None]}}],
        },
    ],
    "responseId": "resp_1",
    "conversationId": "conv_1",
    "modelId": "some-model",
    "createdAt": "2026-01-02T03:04:06+00:00",
    "finishReason": "stop",
    "usage": {
        "inputTokenCount": 12,
        "outputTokenCount": 34,
        "totalTokenCount": 46,
        "reasoningTokenCount": 5,
        "additionalCounts": {"searches": 2},
    },
    "additionalProperties": {"region": "eu"},
}


def contents(*items: Any) -> list[Content]:
    (message,) = read(list(items))
    return list(message.contents)


def test_a_response_is_read_with_what_it_says_of_itself() -> None:
    first, last = read(RESPONSE)
    assert (first.id, first.author, first.response_id, first.model) == ("msg_1", "analyst", "resp_1", "some-model")
    assert (last.finish_reason, last.role) == ("stop", "tool")
    call, result = first.contents[1:3]
    assert isinstance(call, CodeInterpreterCall) and isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language, result.text, result.success) == ("print(1)", "python", "1\n", False)
    file, picture = call.inputs[1], result.outputs[1]
    assert isinstance(file, HostedFileContent) and (file.container_id, file.size_bytes) == ("cntr_1", 12)
    assert isinstance(picture, DataContent) and (picture.name, picture.data) == ("plot.png", b"hello")
    note = first.contents[4].annotations[0]
    assert (note.url, note.start, note.end) == ("https://example.com/math", 6, 7)
    assert isinstance(first.contents[5], UnknownContent)
    usage = last.contents[-1]
    assert isinstance(usage, UsageContent)
    assert (usage.input_tokens, usage.counts) == (12, {"reasoningTokenCount": 5, "searches": 2})


def test_messages_come_back_as_they_were() -> None:
    written = write(read(RESPONSE["messages"]))
    assert written.document == RESPONSE["messages"]
    assert not written.losses


def test_a_functions_result_may_be_any_json() -> None:
    for result in ("text", "", 7, [1, 2], {"a": None}, False, None, [{"$type": "text", "text": "a"}], []):
        document = [{"role": "tool", "contents": [{"$type": "functionResult", "callId": "f", "result": result}]}]
        assert write(read(document)).document == document


def test_everything_of_the_transcript_survives() -> None:
    written = write(TRANSCRIPT)
    assert read(written.document) == list(TRANSCRIPT)
    assert not written.losses


def test_updates_come_to_the_messages() -> None:
    said = {key: RESPONSE[key] for key in ("responseId", "modelId", "conversationId")}
    text = {"$type": "text", "text": "ab"}
    finished = {
        "messages": [{"role": "assistant", "messageId": "m", "contents": [text]}],
        **said,
        "finishReason": "stop",
        "usage": {"inputTokenCount": 1, "outputTokenCount": 2},
    }
    events: list[dict[str, Any]] = [
        {"role": "assistant", "messageId": "m", "contents": [{"$type": "text", "text": "a"}], **said},
        {"role": "assistant", "messageId": "m", "contents": [{"$type": "text", "text": "b"}], **said},
        {
            "messageId": "m",
            "finishReason": "stop",
            "contents": [{"$type": "usage", "details": {"inputTokenCount": 1, "outputTokenCount": 2}}],
            **said,
        },
    ]
    reader = Reader()
    assert all(FORMAT.is_event is not None and FORMAT.is_event(event) for event in events)
    assert messages_from_updates(update for event in events for update in reader.feed(event)) == read(finished)


def test_pieces_of_a_call_of_code_are_one_call_in_the_end() -> None:
    def piece(code: str) -> dict[str, Any]:
        data = {"$type": "data", "uri": DataContent(media_type="text/x-python", data=code.encode()).data_uri}
        return {"contents": [{"$type": "codeInterpreterToolCall", "callId": "c", "inputs": [data]}], "responseId": "r"}

    reader = Reader()
    (message,) = messages_from_updates(
        update for event in (piece("print("), piece("1)")) for update in reader.feed(event)
    )
    (call,) = message.contents
    assert isinstance(call, CodeInterpreterCall) and call.code == "print(1)"


def test_what_is_no_message_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match="message 2 is no message"):
        read([{"role": "user", "contents": []}, 7])
    with pytest.raises(ValueError, match="no response"):
        read("hello")


@pytest.mark.parametrize(
    "item",
    [
        {"$type": "data", "uri": "data:image/png;base64,aGVsbG8"},
        {"$type": "data", "uri": "https://example.com"},
        {"$type": "text", "text": 7},
        {"$type": "text"},
        {"$type": "error", "message": None},
        {"$type": "hostedFile", "fileId": ""},
        {"$type": "functionCall", "callId": 7, "name": "f"},
        {"$type": "toolApprovalRequest", "requestId": "a", "toolCall": {"$type": "functionCall", "callId": "a"}},
        {"$type": "codeInterpreterToolResult", "outputs": []},
    ],
    ids=lambda item: f"{item['$type']}-{len(item)}",
)
def test_a_malformed_or_unknown_item_is_kept_whole(item: dict[str, Any]) -> None:
    (found,) = contents(item)
    assert isinstance(found, UnknownContent)
    assert write([Message(contents=(found,))]).document == [{"role": "assistant", "contents": [item]}]


@pytest.mark.parametrize(
    "item",
    [
        {"$type": "codeInterpreterToolCall", "callId": "c", "inputs": None},
        {"$type": "codeInterpreterToolResult", "callId": "c", "outputs": None},
        {"$type": "codeInterpreterToolResult", "callId": "c", "outputs": []},
        {
            "$type": "codeInterpreterToolResult",
            "callId": "c",
            "outputs": [None, "text", {"$type": "text", "text": "a"}],
        },
        {"$type": "codeInterpreterToolResult", "callId": "c", "additionalProperties": {"actbox": {"outcome": "lost"}}},
        {"$type": "functionCall", "callId": "c", "name": "f", "arguments": None},
        {"$type": "functionCall", "callId": "c", "name": "f", "arguments": {}, "informationalOnly": True},
        {"$type": "text", "text": "a\u0000b", "annotations": None},
        {"$type": "text", "text": "a", "annotations": []},
        {"$type": "text", "text": "a", "annotations": ["no", {"$type": "later", "title": "t"}, {"$type": 7}]},
        {"$type": "text", "text": "a", "additionalProperties": {}},
        {"$type": "text", "text": "a", "additionalProperties": None},
        {"$type": "text", "text": "a", "additionalProperties": {"actbox": {"stream": "stdout", "later": 1}, "b": 2}},
        {"$type": "text", "text": "a", "additionalProperties": {"actbox": {"stream": "red"}}},
        {"$type": "data", "uri": "data:text/plain,a%20b", "name": None},
        {"$type": "hostedFile", "fileId": "f", "createdAt": "2026-01-02T03:04:05.1234567Z"},
        {"$type": "hostedFile", "fileId": "f", "sizeInBytes": "many"},
        {"$type": "usage", "details": {"inputTokenCount": 1.5, "later": "x"}},
    ],
    ids=lambda item: str(item["$type"]),
)
def test_what_is_odd_in_an_item_comes_back(item: dict[str, Any]) -> None:
    (found,) = contents(item)
    assert not isinstance(found, UnknownContent)
    assert write([Message(contents=(found,))]).document == [{"role": "assistant", "contents": [item]}]


def test_a_result_before_its_call_and_two_for_one_call_are_kept_in_their_order() -> None:
    result = {"$type": "codeInterpreterToolResult", "callId": "c", "outputs": [{"$type": "text", "text": "1"}]}
    call = {"$type": "codeInterpreterToolCall", "callId": "c"}
    document = [{"role": "assistant", "contents": [result, call, result]}]
    assert write(read(document)).document == document


def test_a_changed_item_is_not_written_as_it_was() -> None:
    (found,) = contents({"$type": "functionResult", "callId": "f", "result": {"a": 1}})
    changed = found.model_copy(update={"outputs": (TextContent(text="no"),)})
    (message,) = write([Message(role="tool", contents=(changed,))]).document
    assert message["contents"][0]["result"] == "no"


def test_arguments_that_are_not_whole_survive() -> None:
    call = FunctionCall(call_id="f", name="g", arguments='{"a')
    assert read(write([Message(contents=(call,))]).document) == [Message(contents=(call,))]


def test_that_a_result_is_an_error_survives() -> None:
    result = FunctionResult(call_id="f", outputs=(ErrorContent(message="no"),), is_error=True)
    assert read(write([Message(role="tool", contents=(result,))]).document)[0].contents == (result,)


def test_an_item_of_another_kind_becomes_text_and_that_is_said() -> None:
    items: tuple[Content, ...] = (
        LaterContent(type="later"),
        CodeInterpreterResult(call_id="c", outputs=(UnknownContent(format="mcp", raw=1),)),
    )
    written = write([Message(contents=items)])
    assert {loss.what for loss in written.losses} == {"later", "unknown"}
    assert [item.type for item in read(written.document)[0].contents] == ["text", "code_interpreter_result"]


def test_its_documents_are_told_by_their_discriminators() -> None:
    assert FORMAT.looks_like(RESPONSE) == 1
    assert FORMAT.looks_like(RESPONSE["messages"]) == 1
    assert FORMAT.looks_like([{"$type": "text", "text": "a"}]) > 0
    for other in ([], {}, None, [1], {"role": "user", "content": "x"}, {"role": "user", "contents": []}):
        assert FORMAT.looks_like(other) == 0
    assert FORMAT.looks_like([message.to_dict() for message in TRANSCRIPT]) == 0


known_items = items_to_try.items.filter(lambda item: not has_unknown(item)).map(plain)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(known_items, max_size=4).map(tuple))
def test_whatever_is_known_here_comes_back(items: tuple[Content, ...]) -> None:
    messages = [Message(role="user", contents=items, author="a", finish_reason="length")]
    written = write(messages)
    assert read(written.document) == messages
    assert not written.losses


json_of_it = st.recursive(
    items_to_try.json_values,
    lambda inner: (
        st.fixed_dictionaries(
            {
                "$type": st.sampled_from(
                    ["text", "data", "usage", "functionResult", "codeInterpreterToolCall", "hostedFile"]
                )
            },
            optional=dict.fromkeys(
                (
                    "text",
                    "uri",
                    "callId",
                    "fileId",
                    "details",
                    "result",
                    "annotations",
                    "additionalProperties",
                ),
                inner,
            ),
        )
        | st.dictionaries(st.sampled_from(["contents", "messages", "role", "createdAt", "usage"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=50)
@given(json_of_it)
def test_no_json_makes_reading_fail_but_with_a_value_error(document: Any) -> None:
    try:
        messages = read(document)
    except ValueError:
        return
    write(messages)
    Reader().feed(document if isinstance(document, dict) else {"contents": document})


def test_results_within_results_cost_no_more_than_their_number() -> None:
    item: dict[str, Any] = {"$type": "text", "text": "a"}
    for _ in range(60):
        item = {"$type": "codeInterpreterToolResult", "callId": "c", "outputs": [item]}
    document = [{"role": "assistant", "contents": [item]}]
    assert write(read(document)).document == document


@pytest.mark.parametrize("innermost", [{"$type": "text", "text": "a", "x": 1}, {"$type": "later"}], ids=["same", "not"])
def test_writing_results_within_results_takes_no_more_calls_than_there_are_results(innermost: dict[str, Any]) -> None:
    """With fields that are not known at each level, which are put back and checked, in the middle of the stack too."""

    def calls_to_write(depth: int) -> int:
        item = innermost
        for _ in range(depth):
            item = {"$type": "codeInterpreterToolResult", "callId": "c", "outputs": [item], "x": {"y": [1]}}
        document = [{"role": "assistant", "contents": [item], "x": 1}]
        messages, calls = read(document), 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            written = write(messages).document
        finally:
            sys.setprofile(None)
        assert written == document
        return calls

    assert calls_to_write(80) < 2.2 * calls_to_write(40)


def test_items_nested_beyond_all_measure_are_refused() -> None:
    item: dict[str, Any] = {"$type": "text", "text": "a"}
    for _ in range(3000):
        item = {"$type": "codeInterpreterToolResult", "callId": "c", "outputs": [item]}
    with pytest.raises(ValueError):
        read([{"role": "assistant", "contents": [item]}])


def test_a_result_as_its_proposal_called_it_is_a_result() -> None:
    """The `CodeExecutionResultContent` of dotnet/extensions, pull request 6620."""
    picture = {"$type": "data", "uri": "data:image/png;base64,aGVsbG8=", "name": "chart.png"}
    said = {"$type": "codeExecutionResult", "stdout": "Mean: 3.0\n", "stderr": "", "generatedContents": [picture]}
    failed = {"$type": "codeExecutionResult", "stdout": "Starting...\n", "stderr": "NameError: no x\n"}
    document = [{"role": "assistant", "contents": [said]}, {"role": "assistant", "contents": [failed]}]
    assert detect(document) is FORMAT
    (good,), (bad,) = (message.contents for message in read(document))
    assert isinstance(good, CodeInterpreterResult) and isinstance(bad, CodeInterpreterResult)
    assert good.outputs[0] == TextContent(text="Mean: 3.0\n", stream="stdout")
    assert isinstance(good.outputs[1], DataContent) and good.outputs[1].name == "chart.png"
    assert good.success is True
    assert bad.outputs[1] == TextContent(text="NameError: no x\n", stream="stderr")
    assert bad.success is False
    again = write(read(document)).document
    assert again[0]["contents"][0]["$type"] == "codeInterpreterToolResult"
    assert read(again) == read(document)


def test_a_value_that_cannot_be_read_does_not_hide_what_was_changed_beside_it() -> None:
    result = {"$type": "codeInterpreterToolResult", "callId": "code-1", "outputs": []}
    result["additionalProperties"] = {"actbox": {"outcome": 3}}
    (message,) = read([{"role": "tool", "contents": [result]}])
    changed = message.contents[0].model_copy(update={"exit_code": 7})
    (again,) = read(write([message.model_copy(update={"contents": (changed,)})]).document)
    assert again.contents[0].exit_code == 7
