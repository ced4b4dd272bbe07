"""Agent Framework's dictionaries: what its own classes say is read and written again, and they take what is written."""

from __future__ import annotations

import json
from typing import Any

import agent_framework as af
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
    HostedVectorStoreContent,
    Message,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    messages_from_updates,
)
from actbox.content.wire.agent_framework import FORMAT, Reader, read, write
from tests.content import items_to_try
from tests.content.matrix import TRANSCRIPT
from tests.content.wire.plain import has_unknown, plain

CITATION = af.Annotation(
    type="citation",
    title="Maths",
    url="https://example.com/math",
    tool_name="web_search",
    annotated_regions=[{"type": "text_span", "start_index": 0, "end_index": 2}],
)
CONTENTS = [
    af.Content.from_text("It is 7.", annotations=[CITATION]),
    af.Content.from_text_reasoning(text="Let me think.", protected_data="c2VhbGVk"),
    af.Content.from_data(b"hello", "image/png", name="plot.png"),
    af.Content.from_uri("https://example.com/cat.png", media_type="image/png"),
    af.Content.from_error(message="boom", error_code="E1", error_details="line 1"),
    af.Content.from_function_call("c1", "look_up", arguments={"what": "seven"}),
    af.Content.from_function_call("c2", "look_up", arguments='{"what": "seven"}'),
    af.Content.from_function_result("c1", result="it is 7"),
    af.Content.from_function_result("c1", result=[af.Content.from_text("a"), af.Content.from_data(b"x", "image/png")]),
    af.Content.from_function_result("c2", exception="no such number"),
    af.Content.from_usage({"input_token_count": 1, "output_token_count": 2, "cache_read_input_token_count": 3}),
    af.Content.from_hosted_file("file-1", media_type="text/csv", name="numbers.csv"),
    af.Content.from_hosted_vector_store("vs_1"),
    af.Content.from_code_interpreter_tool_call(
        call_id="ci_1", inputs=[af.Content.from_data(b"print(1)", "text/x-python")], status="completed"
    ),
    af.Content.from_code_interpreter_tool_result(
        call_id="ci_1", outputs=[af.Content.from_text("1\n"), af.Content.from_hosted_file("file-2")]
    ),
    af.Content.from_shell_tool_call(call_id="s1", commands=["ls"]),
    af.Content.from_shell_tool_result(
        call_id="s1", outputs=[af.Content.from_shell_command_output(stdout="a", stderr="b", exit_code=0)]
    ),
    af.Content.from_mcp_server_tool_call("m1", "search", server_name="docs", arguments={"q": "x"}),
]
MESSAGE = af.Message("assistant", CONTENTS, author_name="analyst", message_id="msg_1")


def contents(*items: dict[str, Any]) -> list[Content]:
    (message,) = read(list(items))
    return list(message.contents)


def test_every_kind_of_content_is_read() -> None:
    (message,) = read(MESSAGE.to_dict())
    assert (message.role, message.author, message.id) == ("assistant", "analyst", "msg_1")
    assert [type(item) for item in message.contents] == [
        TextContent,
        ReasoningContent,
        DataContent,
        UriContent,
        ErrorContent,
        FunctionCall,
        FunctionCall,
        FunctionResult,
        FunctionResult,
        FunctionResult,
        UsageContent,
        HostedFileContent,
        HostedVectorStoreContent,
        CodeInterpreterCall,
        CodeInterpreterResult,
        UnknownContent,
        UnknownContent,
        UnknownContent,
    ]
    note = message.contents[0].annotations[0]
    assert (note.url, note.start, note.end) == ("https://example.com/math", 0, 2)
    failed, call = message.contents[9], message.contents[13]
    assert isinstance(failed, FunctionResult) and failed.is_error
    assert isinstance(call, CodeInterpreterCall) and (call.code, call.status) == ("print(1)", "completed")


def test_what_the_framework_writes_comes_back_as_it_was() -> None:
    written = write(read(MESSAGE.to_dict()))
    assert written.document == [MESSAGE.to_dict()]
    assert not written.losses
    assert write(read([item.to_dict() for item in CONTENTS])).document[0]["contents"] == MESSAGE.to_dict()["contents"]


def test_the_framework_takes_what_is_written() -> None:
    written = write(TRANSCRIPT)
    messages = [af.Message.from_dict(message) for message in written.document]
    assert [json.loads(message.to_json()) for message in messages] == [
        _redacted(message) for message in written.document
    ]
    result = messages[6].contents[1]
    assert result.type == "code_interpreter_tool_result"
    assert [output.type for output in result.outputs] == ["text", "text", "data", "data", "hosted_file"]
    assert result.exit_code == 0


def _redacted(message: Any) -> Any:
    """Return a message as its class gives it: with a marker of its own for an exception, and flags of calls."""
    document = json.loads(json.dumps(message))
    for item in document["contents"]:
        if item["type"] == "function_call":
            item["hosted"] = False
    return document


def test_a_failure_is_not_an_empty_text_for_the_model() -> None:
    result = FunctionResult(call_id="f", outputs=(ErrorContent(message="no x"),), is_error=True)
    (message,) = write([Message(role="tool", contents=(result,))]).document
    assert af.Message.from_dict(message).contents[0].result == "error: no x"


def test_everything_of_the_transcript_survives() -> None:
    written = write(TRANSCRIPT)
    assert read(written.document) == list(TRANSCRIPT)
    assert not written.losses


def test_a_response_comes_to_the_same_whole_and_in_updates() -> None:
    call = [
        af.Content.from_function_call("c1", "look_up", arguments='{"what": '),
        af.Content.from_function_call("", "", arguments='"seven"}'),
    ]
    code = [
        af.Content.from_code_interpreter_tool_call(call_id="ci", inputs=[af.Content.from_text(piece)])
        for piece in ("print(", "1)")
    ]
    printed = af.Content.from_code_interpreter_tool_result(call_id="ci", outputs=[af.Content.from_text("1\n")])
    usage = af.Content.from_usage({"input_token_count": 1, "output_token_count": 2})
    common: dict[str, Any] = {"role": "assistant", "message_id": "m", "response_id": "r", "conversation_id": "v"}
    updates = [
        af.ChatResponseUpdate(contents=[item], model="some-model", **common)
        for item in (af.Content.from_text("a"), af.Content.from_text("b"), *call, *code, printed)
    ]
    updates.append(af.ChatResponseUpdate(contents=[usage], finish_reason="tool_calls", **common))
    reader = Reader()
    events = [json.loads(update.to_json()) for update in updates]
    assert all(FORMAT.is_event is not None and FORMAT.is_event(event) for event in events)
    streamed = messages_from_updates(update for event in events for update in reader.feed(event))
    whole = af.ChatResponse.from_updates(updates)
    assert streamed == read(json.loads(whole.to_json()))


def test_an_agents_response_is_read_too() -> None:
    response = af.AgentResponse(messages=[MESSAGE], response_id="r", agent_id="agent")
    document = json.loads(response.to_json())
    (message,) = read(document)
    assert message.response_id == "r"
    assert FORMAT.looks_like(document) == 1
    (update,) = Reader().feed(af.AgentResponseUpdate(contents=CONTENTS[:1], agent_id="agent").to_dict())
    assert update.contents[0] == message.contents[0]


def test_a_piece_that_replaces_is_one_here() -> None:
    piece = af.Content.from_code_interpreter_tool_call(
        call_id="c", inputs=[af.Content.from_text("x")], merge_mode="replace"
    )
    (call,) = contents(piece.to_dict())
    assert isinstance(call, CodeInterpreterCall) and call.merge_mode == "replace"
    assert write([Message(contents=(call,))]).document[0]["contents"] == [piece.to_dict()]


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(ValueError, match="message 2 is no message"):
        read([{"role": "user", "contents": []}, None])
    with pytest.raises(ValueError, match="neither role nor contents"):
        read([{"a": 1}])
    with pytest.raises(ValueError, match="no response"):
        read(7)


MORE = {"additional_properties": {}}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "data", "uri": "data:image/png;base64,aGVsbG8", "media_type": "image/png", **MORE},
        {"type": "text", "text": None, **MORE},
        {"type": "hosted_file", "file_id": "", **MORE},
        {"type": "function_call", "name": "f", **MORE},
        {"type": "oauth_consent_request", "consent_link": "https://example.com", **MORE},
    ],
    ids=lambda item: str(item["type"]),
)
def test_a_malformed_or_unknown_item_is_kept_whole(item: dict[str, Any]) -> None:
    (found,) = contents(item)
    assert isinstance(found, UnknownContent)
    assert write([Message(contents=(found,))]).document[0]["contents"] == [item]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "code_interpreter_tool_call", "call_id": "c", "inputs": None, **MORE},
        {"type": "code_interpreter_tool_result", "call_id": "c", "outputs": None, "exit_code": "one", **MORE},
        {"type": "code_interpreter_tool_result", "call_id": "c", "outputs": [], "merge_mode": "append", **MORE},
        {"type": "code_interpreter_tool_result", "call_id": "c", "outputs": {"type": "text"}, **MORE},
        {"type": "text", "text": "a\u0000b", "annotations": [], **MORE},
        {"type": "text", "text": "a", "additional_properties": None},
        {"type": "data", "uri": "data:text/plain,a", "media_type": "text/csv", "file_id": "f", **MORE},
        {"type": "usage", "usage_details": {"input_token_count": "many"}, **MORE},
    ],
    ids=lambda item: str(item["type"]),
)
def test_what_is_odd_in_an_item_comes_back(item: dict[str, Any]) -> None:
    (found,) = contents(item)
    assert not isinstance(found, UnknownContent)
    assert write([Message(contents=(found,))]).document[0]["contents"] == [item]


def test_its_documents_are_told_by_their_types() -> None:
    assert FORMAT.looks_like(MESSAGE.to_dict()) == 1
    assert FORMAT.looks_like([item.to_dict() for item in CONTENTS[:3]]) > 0
    openai: dict[str, Any] = {"type": "message", "role": "user", "content": [{"type": "text", "text": "a"}]}
    for other in ([], {}, None, openai, {"type": "text", "text": "a"}, {"role": "user", "contents": []}):
        assert FORMAT.looks_like(other) == 0
    assert FORMAT.looks_like([message.to_dict() for message in TRANSCRIPT]) == 0


known_items = items_to_try.items.filter(lambda item: not has_unknown(item)).map(plain)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(known_items, max_size=4).map(tuple))
def test_whatever_is_known_here_comes_back(items: tuple[Content, ...]) -> None:
    messages = [Message(role="user", contents=items, author="a", finish_reason="length")]
    written = write(messages)
    assert [plain(message) for message in read(written.document)] == messages
    assert not written.losses
    for message in written.document:
        af.Message.from_dict(message)


json_of_it = st.recursive(
    items_to_try.json_values,
    lambda inner: (
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    ["text", "data", "usage", "function_result", "code_interpreter_tool_call", "message"]
                )
            },
            optional=dict.fromkeys(
                (
                    "text",
                    "uri",
                    "call_id",
                    "items",
                    "result",
                    "annotations",
                    "additional_properties",
                    "contents",
                ),
                inner,
            ),
        )
        | st.dictionaries(st.sampled_from(["contents", "messages", "role", "usage_details"]), inner, max_size=3)
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
