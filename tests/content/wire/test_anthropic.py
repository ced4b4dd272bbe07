"""Anthropic's messages: what the SDK's own types say is what comes out, and everything comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    HostedCodeInterpreterTool,
    HostedFileContent,
    HostedFileSearchTool,
    HostedVectorStoreContent,
    Message,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    code_content,
    message_from_updates,
)
from actbox.content.messages import items_of
from actbox.content.wire.anthropic import FORMAT, Reader, read, write, write_response, write_tools
from tests.content import items_to_try, matrix
from tests.content.wire.sdk_types import SdkType

MESSAGE = SdkType("anthropic.types:Message")
BETA_MESSAGE = SdkType("anthropic.types.beta:BetaMessage")
MESSAGES = SdkType("anthropic.types:MessageParam", many=True)
BETA_MESSAGES = SdkType("anthropic.types.beta:BetaMessageParam", many=True)
BETA_BLOCKS = SdkType("anthropic.types.beta:BetaContentBlockParam", many=True)
EVENTS = SdkType("anthropic.types:RawMessageStreamEvent", many=True)
TOOL = SdkType("anthropic.types:ToolUnionParam")

THINKING = {"type": "thinking", "thinking": "Run it.", "signature": "c2lnbmVk"}
REDACTED = {"type": "redacted_thinking", "data": "c2VhbGVk"}
PYTHON_CALL = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "code_execution",
    "input": {"code": "import sys\nprint('å', 6 * 7)\n"},
}
PYTHON_RESULT = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "code_execution_result",
        "stdout": "å 42\n",
        "stderr": "",
        "return_code": 0,
        "content": [{"type": "code_execution_output", "file_id": "file_1"}],
    },
}
SHELL_CALL = {
    "type": "server_tool_use",
    "id": "srvtoolu_2",
    "name": "bash_code_execution",
    "input": {"command": "ls /none"},
    "caller": {"type": "direct"},
}
SHELL_RESULT = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {
        "type": "bash_code_execution_result",
        "stdout": "",
        "stderr": "ls: no such file\n",
        "return_code": 2,
        "content": [],
    },
}
EDIT_CALL = {
    "type": "server_tool_use",
    "id": "srvtoolu_3",
    "name": "text_editor_code_execution",
    "input": {"command": "str_replace", "path": "a.py", "old_str": "1", "new_str": "2"},
}


def edit_result(**content: Any) -> dict[str, Any]:
    kind = content.pop("kind")
    return {
        "type": "text_editor_code_execution_tool_result",
        "tool_use_id": "srvtoolu_3",
        "content": {"type": f"text_editor_code_execution_{kind}", **content},
    }


REPLACED = edit_result(
    kind="str_replace_result", old_start=1, old_lines=1, new_start=1, new_lines=1, lines=["-1", "+2"]
)
VIEWED = edit_result(kind="view_result", file_type="text", content="a = 1", num_lines=1, start_line=1, total_lines=1)
CREATED = edit_result(kind="create_result", is_file_update=False)
NO_FILE = edit_result(kind="tool_result_error", error_code="file_not_found", error_message="no such file")
SEARCH_CALL = {"type": "server_tool_use", "id": "srvtoolu_4", "name": "web_search", "input": {"query": "six"}}
SEARCH_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_4",
    "content": [
        {
            "type": "web_search_result",
            "title": "Six",
            "url": "https://example.com/6",
            "encrypted_content": "Eo8",
            "page_age": None,
        }
    ],
}
CITED = {
    "type": "text",
    "text": "It is six.",
    "citations": [
        {
            "type": "web_search_result_location",
            "url": "https://example.com/6",
            "title": "Six",
            "cited_text": "6",
            "encrypted_index": "Eo9",
        },
        {
            "type": "char_location",
            "document_index": 0,
            "document_title": None,
            "cited_text": "six",
            "start_char_index": 0,
            "end_char_index": 3,
        },
    ],
}
PROGRAM_CALLS = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "look_up",
    "input": {"what": "seven"},
    "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"},
}
CONTENT = [
    THINKING,
    REDACTED,
    {"type": "text", "text": "Let me see."},
    {"type": "text", "text": "First, Python."},
    PYTHON_CALL,
    PYTHON_RESULT,
    SHELL_CALL,
    SHELL_RESULT,
    EDIT_CALL,
    REPLACED,
    SEARCH_CALL,
    SEARCH_RESULT,
    {"type": "text", "text": "According to a page: "},
    CITED,
    {"type": "container_upload", "file_id": "file_2"},
    PROGRAM_CALLS,
]
RESPONSE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": CONTENT,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "container": {"id": "container_1", "expires_at": "2025-11-20T10:00:00Z"},
    "usage": {
        "input_tokens": 100,
        "output_tokens": 50,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 5},
        "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
        "service_tier": "standard",
    },
}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
REQUEST: list[dict[str, Any]] = [
    {"role": "system", "content": "You can run code."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": CONTENT},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "it is 7"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": [CITED | {"citations": []}]},
            {"type": "tool_result", "tool_use_id": "toolu_3", "is_error": False},
            {"type": "tool_result", "tool_use_id": "toolu_4", "content": [{"type": "image", "source": PNG}]},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And this?", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": PNG},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_3"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "Paper",
                "citations": {"enabled": True},
            },
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "title": None},
            {"type": "document", "source": {"type": "file", "file_id": "file_4"}, "context": "Mine."},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "å"}, "title": "note"},
            {"type": "document", "source": {"type": "content", "content": "parts"}},
            {"type": "container_upload", "file_id": "file_5"},
            {"type": "search_result", "source": "a", "title": "b", "content": [{"type": "text", "text": "c"}]},
        ],
    },
]


def contents_of(*blocks: Any) -> tuple[Content, ...]:
    (message,) = read({"role": "assistant", "content": [*blocks]})
    return message.contents


def said(message: Message) -> Message:
    """A message without what only the provider has of it."""
    return message.model_copy(update={"provider_data": {}})


# What is read


def test_a_response_is_a_message() -> None:
    (message,) = read(RESPONSE)
    assert (message.id, message.model, message.role) == ("msg_1", "claude-sonnet-4-5", "assistant")
    assert message.finish_reason == "tool_calls"
    assert message.provider_data["anthropic"]["container"] == RESPONSE["container"]


def test_a_run_of_python_is_a_call_and_a_result() -> None:
    call, result = contents_of(PYTHON_CALL, PYTHON_RESULT)
    assert isinstance(call, CodeInterpreterCall)
    assert isinstance(result, CodeInterpreterResult)
    assert (call.call_id, call.code, call.language) == ("srvtoolu_1", PYTHON_CALL["input"]["code"], "python")
    assert (result.call_id, result.exit_code, result.outcome, result.success) == ("srvtoolu_1", 0, "ok", True)
    assert result.outputs == (TextContent(text="å 42\n", stream="stdout"), HostedFileContent(file_id="file_1"))


def test_a_run_of_the_shell_that_fails_has_its_exit_code() -> None:
    call, result = contents_of(SHELL_CALL, SHELL_RESULT)
    assert isinstance(call, CodeInterpreterCall)
    assert isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language, call.name) == ("ls /none", "shell", "bash_code_execution")
    assert (result.exit_code, result.success) == (2, False)
    assert result.outputs == (TextContent(text="ls: no such file\n", stream="stderr"),)


def test_a_command_for_the_editor_is_a_program_in_json() -> None:
    (call,) = contents_of(EDIT_CALL)
    assert isinstance(call, CodeInterpreterCall)
    assert (json.loads(call.code), call.language) == (EDIT_CALL["input"], "json")


@pytest.mark.parametrize(
    ("block", "text"), [(REPLACED, "-1\n+2"), (VIEWED, "a = 1"), (CREATED, "")], ids=["replace", "view", "create"]
)
def test_what_the_editor_did_is_a_result(block, text) -> None:
    (result,) = contents_of(block)
    assert isinstance(result, CodeInterpreterResult)
    assert (result.text, result.success) == (text, True)
    assert write(read([block])).document[0]["content"] == [block]


@pytest.mark.parametrize(
    ("code", "outcome"), [("unavailable", "failed"), ("execution_time_exceeded", "timeout"), ("new_code", "failed")]
)
@pytest.mark.parametrize("tool", ["code_execution", "bash_code_execution"])
def test_an_error_of_the_tool_is_an_error(tool, code, outcome) -> None:
    content = {"type": f"{tool}_tool_result_error", "error_code": code}
    block = {"type": f"{tool}_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    (result,) = contents_of(block)
    assert isinstance(result, CodeInterpreterResult)
    assert (result.outcome, result.success, result.exit_code) == (outcome, False, None)
    assert result.outputs == (ErrorContent(message=code, code=code),)
    assert write(read([block])).document[0]["content"] == [block]


def test_the_message_of_an_error_of_the_editor_is_kept() -> None:
    (result,) = contents_of(NO_FILE)
    assert isinstance(result, CodeInterpreterResult)
    assert result.outputs == (ErrorContent(message="no such file", code="file_not_found"),)
    assert write(read([NO_FILE])).document[0]["content"] == [NO_FILE]


def test_what_is_encrypted_stays_so() -> None:
    content = {"type": "encrypted_code_execution_result", "encrypted_stdout": "Eo8", "stderr": "x", "return_code": 0}
    block = PYTHON_RESULT | {"content": content | {"content": []}}
    (result,) = contents_of(block)
    assert isinstance(result, CodeInterpreterResult)
    assert (result.text, result.success) == ("x", True)
    assert write(read([block])).document[0]["content"] == [block]


def test_a_program_that_calls_a_tool_is_named_by_the_call() -> None:
    (call,) = contents_of(PROGRAM_CALLS)
    assert isinstance(call, FunctionCall)
    assert (call.name, call.arguments, call.called_by) == ("look_up", {"what": "seven"}, "srvtoolu_1")


def test_thinking_has_its_signature_and_sealed_thinking_its_data() -> None:
    open_one, sealed = contents_of(THINKING, REDACTED)
    assert isinstance(open_one, ReasoningContent)
    assert isinstance(sealed, ReasoningContent)
    assert (open_one.text, open_one.protected_data) == ("Run it.", "c2lnbmVk")
    assert (sealed.text, sealed.protected_data) == ("", "c2VhbGVk")


def test_citations_are_annotations() -> None:
    (text,) = contents_of(CITED)
    page, document = text.annotations
    assert (page.url, page.title, page.snippet) == ("https://example.com/6", "Six", "6")
    assert document.provider_data["anthropic"]["start_char_index"] == 0


def test_counts_within_counts_have_both_names() -> None:
    (usage,) = [item for item in read(RESPONSE)[0].contents if isinstance(item, UsageContent)]
    assert (usage.input_tokens, usage.output_tokens) == (100, 50)
    assert usage.counts["server_tool_use.web_search_requests"] == 1
    assert usage.counts["cache_read_input_tokens"] == 7


def test_a_search_is_kept_as_it_is() -> None:
    assert contents_of(SEARCH_CALL, SEARCH_RESULT) == (
        UnknownContent(format="anthropic", raw=SEARCH_CALL),
        UnknownContent(format="anthropic", raw=SEARCH_RESULT),
    )


def test_pictures_and_documents_are_data_links_or_files() -> None:
    items = read(REQUEST)[-1].contents
    assert [type(item) for item in items[1:8]] == [
        DataContent,
        UriContent,
        HostedFileContent,
        DataContent,
        UriContent,
        HostedFileContent,
        DataContent,
    ]
    paper, note = items[4], items[7]
    assert isinstance(paper, DataContent)
    assert isinstance(note, DataContent)
    assert (paper.media_type, paper.name, note.text, note.name) == ("application/pdf", "Paper", "å", "note")


def test_results_of_tools_alone_are_a_message_of_the_tool() -> None:
    assert [message.role for message in read(REQUEST)] == ["system", "user", "assistant", "tool", "user"]


def test_a_whole_request_is_read_with_its_system() -> None:
    request = {"model": "m", "max_tokens": 9, "system": "Be short.", "messages": [{"role": "user", "content": "Hi"}]}
    system, user = read(request)
    assert (system.role, system.text, user.text) == ("system", "Be short.", "Hi")
    assert system.provider_data["anthropic"]["request"] == {"model": "m", "max_tokens": 9}
    with pytest.raises(ValueError, match="no messages"):
        read({"messages": [], "max_tokens": 9})


def test_an_error_answer_is_an_error() -> None:
    (message,) = read(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}
    )
    (error,) = message.contents
    assert isinstance(error, ErrorContent)
    assert (error.code, error.message) == ("overloaded_error", "Overloaded")


def test_only_searches_and_their_like_are_not_known() -> None:
    samples = [*CONTENT, VIEWED, CREATED, NO_FILE, *REQUEST[3]["content"], *REQUEST[4]["content"]]
    unknown = [item.raw for item in contents_of(*samples) if isinstance(item, UnknownContent)]
    assert unknown == [SEARCH_CALL, SEARCH_RESULT, REQUEST[4]["content"][8], REQUEST[4]["content"][10]]


# What is written


def test_a_response_comes_back_whole() -> None:
    written = write_response(read(RESPONSE)[0])
    assert written.document == RESPONSE
    assert written.losses == ()
    MESSAGE.validate(written.document)
    BETA_MESSAGE.validate(written.document)


def test_a_request_comes_back_whole() -> None:
    written = write(read(REQUEST))
    assert written.document == REQUEST
    assert written.losses == ()


@pytest.mark.parametrize("messages", [MESSAGES, BETA_MESSAGES], ids=["stable", "beta"])
def test_what_is_written_is_what_the_sdk_takes(messages: SdkType) -> None:
    messages.validate(write(read(REQUEST)).document)
    messages.validate(write(matrix.TRANSCRIPT).document)


def test_what_the_sdk_makes_of_a_message_is_the_same_again() -> None:
    dumped = BETA_MESSAGE.validate(RESPONSE).model_dump(mode="json")
    assert write_response(read(dumped)[0]).document == dumped


def test_what_a_request_cannot_say_is_told() -> None:
    losses = {loss.what for loss in write(read(RESPONSE)).losses}
    assert losses == {"message.id", "message.model", "message.finish_reason", "message.provider_data", "usage"}


def test_a_picture_that_is_put_before_stderr_is_reported_as_text_is() -> None:
    picture = DataContent(media_type="image/png", data=b"x", name="plot.png")
    outputs = (TextContent(text="careful\n", stream="stderr"), picture)
    result = CodeInterpreterResult(call_id="c", outputs=outputs, exit_code=0)
    losses = {loss.what for loss in write([Message(role="tool", contents=(result,))]).losses}
    assert losses == {"code_interpreter_result.data", "code_interpreter_result.outputs"}


def test_code_of_others_becomes_a_call_of_the_tool() -> None:
    messages = [
        Message(
            contents=(
                CodeInterpreterCall(call_id="c", inputs=(code_content("1 + 1"), HostedFileContent(file_id="f"))),
                CodeInterpreterCall(call_id="s", inputs=(code_content("ls", "shell"),)),
                CodeInterpreterCall(call_id="r", inputs=(code_content("x <- 1", "r"),)),
            )
        ),
        Message(
            role="tool",
            contents=(
                CodeInterpreterResult(
                    call_id="s",
                    outputs=(
                        TextContent(text="a\n", stream="stdout"),
                        DataContent(media_type="image/png", data=b"png", name="chart.png"),
                        ErrorContent(message="broke"),
                    ),
                    outcome="timeout",
                ),
            ),
        ),
    ]
    written = write(messages)
    MESSAGES.validate(written.document)
    assert [block["name"] for block in written.document[0]["content"]] == [
        "code_execution",
        "bash_code_execution",
        "code_execution",
    ]
    assert written.document[1] == {
        "role": "assistant",
        "content": [
            {
                "type": "bash_code_execution_tool_result",
                "tool_use_id": "s",
                "content": {
                    "type": "bash_code_execution_result",
                    "return_code": 1,
                    "stdout": "a\n[chart.png: image/png, 3 bytes]\n",
                    "stderr": "error: broke\n",
                    "content": [],
                },
            }
        ],
    }
    assert {loss.what for loss in written.losses} == {
        "code_interpreter_call.inputs",
        "code_interpreter_call.language",
        "code_interpreter_result.data",
        "code_interpreter_result.error",
        "code_interpreter_result.exit_code",
        "code_interpreter_result.outcome",
    }


def test_a_hosted_file_of_a_user_is_uploaded_to_the_container() -> None:
    written = write([Message(role="user", contents=(HostedFileContent(file_id="file_9"),))])
    assert written.document == [{"role": "user", "content": [{"type": "container_upload", "file_id": "file_9"}]}]


def test_tools_are_asked_for_with_their_files() -> None:
    written = write_tools(
        [
            HostedCodeInterpreterTool(
                inputs=(HostedFileContent(file_id="file_1"), DataContent(media_type="text/csv", data=b"a"))
            ),
            HostedFileSearchTool(inputs=(HostedVectorStoreContent(vector_store_id="v"),), maximum_result_count=3),
        ]
    )
    tool, uploads = written.document
    TOOL.validate(tool)
    assert tool == {"type": "code_execution_20250825", "name": "code_execution"}
    assert uploads == {"role": "user", "content": [{"type": "container_upload", "file_id": "file_1"}]}
    assert [loss.what for loss in written.losses] == [
        "code_interpreter.inputs.data",
        "code_interpreter.inputs",
        "file_search",
    ]


# Streams


def deltas_of(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins in a stream, and its pieces."""
    match block["type"]:
        case "text":
            begun: dict[str, Any] = {"type": "text", "text": ""}
            pieces = [{"type": "text_delta", "text": character} for character in block["text"]]
            if "citations" in block:
                begun["citations"] = []
                pieces = [{"type": "citations_delta", "citation": one} for one in block["citations"]] + pieces
            return begun, pieces
        case "thinking":
            pieces = [
                {"type": "thinking_delta", "thinking": word} for word in (block["thinking"][:3], block["thinking"][3:])
            ]
            return block | {"thinking": "", "signature": ""}, [
                *pieces,
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use" | "server_tool_use":
            # As they are sent: an empty piece first, and escapes cut in two.
            text = json.dumps(block["input"])
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *text)]
        case _:
            return block, []


def events_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The events in which a response is streamed."""
    begun = {**response, "content": [], "stop_reason": None, "usage": {**response["usage"], "output_tokens": 2}}
    del begun["container"]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(response["content"]):
        first, pieces = deltas_of(block)
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events += [{"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces]
        events.append({"type": "content_block_stop", "index": index})
    delta = {name: response[name] for name in ("stop_reason", "stop_sequence", "container")}
    events.append(
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": response["usage"]["output_tokens"]}}
    )
    return [*events, {"type": "message_stop"}]


def streamed(events: list[dict[str, Any]]) -> Message:
    reader = Reader()
    return message_from_updates(update for event in events for update in reader.feed(event))


def test_the_events_are_those_of_the_sdk() -> None:
    EVENTS.validate([event for event in events_of(RESPONSE) if event["type"] != "ping"])
    assert all(FORMAT.is_event is not None and FORMAT.is_event(event) for event in events_of(RESPONSE))


def test_a_stream_comes_to_what_the_response_is() -> None:
    assert streamed(events_of(RESPONSE)) == read(RESPONSE)[0]


@pytest.mark.parametrize("block", CONTENT, ids=lambda block: block["type"])
def test_a_block_that_is_streamed_is_the_same_as_whole(block) -> None:
    assert streamed(events_of({**RESPONSE, "content": [block]})) == read({**RESPONSE, "content": [block]})[0]


@settings(max_examples=50)
@given(items_to_try.texts, st.integers(1, 4), st.booleans())
def test_a_program_is_handed_on_as_it_comes(code, size, ascii_only) -> None:
    reader = Reader()
    block = {**PYTHON_CALL, "input": {}}
    updates = reader.feed({"type": "content_block_start", "index": 0, "content_block": block})
    text = json.dumps({"code": code}, ensure_ascii=ascii_only)
    for start in range(0, len(text), size):
        delta = {"type": "input_json_delta", "partial_json": text[start : start + size]}
        updates += reader.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    (before,) = message_from_updates(updates).contents
    updates += reader.feed({"type": "content_block_stop", "index": 0})
    (after,) = message_from_updates(updates).contents
    assert isinstance(before, CodeInterpreterCall)
    assert isinstance(after, CodeInterpreterCall)
    assert before.code == after.code == code


def test_usage_in_a_stream_is_what_was_added() -> None:
    reader = Reader()
    updates = [update for event in events_of(RESPONSE) for update in reader.feed(event)]
    counts = [item.output_tokens for update in updates for item in update.contents if isinstance(item, UsageContent)]
    assert counts == [2, 48]


def test_a_stream_that_is_cut_has_what_came() -> None:
    events = events_of({**RESPONSE, "content": [PYTHON_CALL]})
    message = streamed(
        [*events[:20], {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]
    )
    _, call, error = message.contents
    assert isinstance(call, CodeInterpreterCall)
    assert isinstance(error, ErrorContent)
    assert call.provider_data["anthropic"]["partial_json"]
    assert error.code == "overloaded_error"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "new_event", "a": 1},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_start", "index": None, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 0},
        {"type": "message_start", "message": None},
        {"type": "message_delta", "delta": None},
        {},
    ],
)
def test_an_event_that_is_not_as_it_should_be_is_kept(event) -> None:
    (update,) = Reader().feed(event)
    assert update.contents == (UnknownContent(format="anthropic", raw=event),)


def test_a_piece_of_a_kind_that_is_not_known_is_kept() -> None:
    reader = Reader()
    reader.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta"}}
    assert reader.feed(event)[0].contents == (UnknownContent(format="anthropic", raw=event),)


def test_a_citation_that_comes_late_is_kept() -> None:
    citation = CITED["citations"][0]
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "six"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}},
    ]
    (text,) = streamed(events).contents
    assert isinstance(text, TextContent)
    assert text.text == "six"
    assert text.annotations[0].url == "https://example.com/6"


# What is malformed


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": PNG | {"data": "iVBOR"}},
        {"type": "image", "source": None},
        {"type": "text", "text": None},
        {"type": "text", "text": 3},
        {"type": "smell", "of": "roses"},
        {"type": "container_upload", "file_id": ""},
        {"type": "tool_use", "id": "a", "name": "b", "input": None},
        {"type": "tool_use", "id": "a", "name": "b", "input": "text"},
        PYTHON_RESULT | {"content": None},
        PYTHON_RESULT | {"content": {"type": "code_execution_result", "return_code": "0", "content": []}},
        PYTHON_RESULT | {"content": {"type": "new_result"}},
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "a",
            "content": {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": None},
        },
        None,
        "text",
        {},
    ],
)
def test_a_block_that_is_not_as_it_should_be_is_kept(block) -> None:
    assert contents_of(block) == (UnknownContent(format="anthropic", raw=block),)
    assert write([Message(contents=contents_of(block))]).document == [{"role": "assistant", "content": [block]}]


def test_citations_that_are_null_or_no_objects_are_kept() -> None:
    for citations in (None, [], [3]):
        block = {"type": "text", "text": "a", "citations": citations}
        assert contents_of(block)[0].annotations == ()
        assert write([Message(contents=contents_of(block))]).document[0]["content"] == [block]


def test_a_result_before_its_call_and_two_for_one_call_stay_in_their_order() -> None:
    content = [PYTHON_RESULT, PYTHON_CALL, PYTHON_RESULT]
    items = contents_of(*content)
    assert [type(item) for item in items] == [CodeInterpreterResult, CodeInterpreterCall, CodeInterpreterResult]
    assert write([Message(contents=items)]).document == [{"role": "assistant", "content": content}]


def test_a_nul_in_text_is_text() -> None:
    (text,) = contents_of({"type": "text", "text": "a\0b"})
    assert text == TextContent(text="a\0b")


@pytest.mark.parametrize("content", [None, 3, {}])
def test_content_that_is_no_list_is_kept(content) -> None:
    document = [{"role": "user", "content": content}]
    assert write(read(document)).document == document


@pytest.mark.parametrize("document", [{}, [{"a": 1}], [1], "text", 3, None, {"role": "user"}])
def test_what_is_no_message_is_refused(document) -> None:
    with pytest.raises(ValueError, match="message of Anthropic's"):
        read(document)


blocks = st.one_of(
    st.sampled_from([*CONTENT, VIEWED, CREATED, NO_FILE, *REQUEST[3]["content"], *REQUEST[4]["content"]]),
    st.builds(
        lambda block, more: {**block, **more},
        st.sampled_from([*CONTENT, *REQUEST[3]["content"], *REQUEST[4]["content"]]),
        st.dictionaries(
            st.sampled_from(["type", "text", "content", "input", "source", "new", "id", "name", "file_id", "caller"]),
            items_to_try.json_values,
            max_size=2,
        ),
    ),
    items_to_try.json_values,
)


@given(st.lists(blocks, max_size=4))
def test_any_message_comes_back_as_it_was(content) -> None:
    document = [{"role": "assistant", "content": content}]
    assert write(read(document)).document == document


@given(items_to_try.json_values | st.lists(blocks, max_size=3))
def test_no_document_is_a_crash(document) -> None:
    try:
        messages = read(document)
    except ValueError:
        return
    assert json.dumps(write(messages).document)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(items_to_try.messages, max_size=2))
def test_any_content_can_be_written(messages) -> None:
    TypeAdapter(list[Any]).dump_json(write(messages).document)


_plain = {"annotations": st.just(()), "provider_data": st.just({})}
sayable: st.SearchStrategy[Content] = st.one_of(
    st.builds(TextContent, text=items_to_try.texts),
    st.builds(ReasoningContent, text=items_to_try.texts, protected_data=items_to_try.words),
    st.builds(DataContent, media_type=st.just("image/png"), data=st.binary(max_size=9)),
    st.builds(FunctionCall, call_id=items_to_try.words, name=items_to_try.words, arguments=items_to_try.json_objects),
    st.builds(
        CodeInterpreterResult,
        call_id=items_to_try.words,
        outputs=st.tuples(st.builds(TextContent, text=items_to_try.words, stream=st.just("stderr"))),
        exit_code=st.integers(0, 3),
    ),
    st.builds(
        lambda call_id, code: CodeInterpreterCall(call_id=call_id, inputs=(code_content(code),)),
        items_to_try.words,
        items_to_try.texts,
    ),
)


@given(st.lists(sayable, max_size=4))
def test_what_can_be_said_comes_back(contents) -> None:
    """Text, signed thinking, pictures, calls of tools and of Python, and results with an exit code and one stream."""
    written = write([Message(contents=tuple(contents))])
    assert written.losses == ()
    again = items_of(read(written.document))
    bare = [item.model_copy(update={"provider_data": {}}) for item in again]
    for item, before in zip(bare, contents, strict=True):
        names = ("text", "protected_data", "data", "call_id", "arguments", "inputs", "outputs", "exit_code")
        assert all(getattr(item, name, None) == getattr(before, name, None) for name in names)
        assert type(item) is type(before)


# Its looks


def test_messages_are_told_by_their_looks() -> None:
    assert FORMAT.looks_like(RESPONSE) == 1
    assert FORMAT.looks_like(REQUEST) > 0.9
    assert FORMAT.looks_like(PYTHON_CALL) > 0.8
    assert 0 < FORMAT.looks_like([{"role": "user", "content": "hi"}]) < 0.5


@pytest.mark.parametrize(
    "document",
    [
        {
            "type": "message",
            "role": "assistant",
            "id": "m",
            "status": "completed",
            "content": [{"type": "output_text"}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "b"},
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "hi"}]},
        {"role": "user", "contents": [{"type": "text", "text": "hi"}]},
        {"content": [{"type": "text", "text": "hi"}], "isError": False},
        [{"cell_type": "code", "source": ""}],
    ],
)
def test_those_of_others_are_not(document) -> None:
    assert FORMAT.looks_like(document) == 0
    assert FORMAT.is_event is not None
    assert not FORMAT.is_event(document)


def test_the_beta_takes_every_block() -> None:
    BETA_BLOCKS.validate(write(read(REQUEST)).document[2]["content"])
