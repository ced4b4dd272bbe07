"""Converse's messages: what the service's own model says is what comes out, and everything comes back."""

from __future__ import annotations

import base64
import json
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
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
    HostedCodeInterpreterTool,
    HostedFileContent,
    HostedFileSearchTool,
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
from actbox.content.wire.bedrock_converse import FORMAT, Reader, for_sdk, read, write, write_response, write_tools
from tests.content import items_to_try, matrix

MODEL = botocore.session.get_session().get_service_model("bedrock-runtime")
PNG = "iVBORw0KGgo="
REASONING = {"reasoningContent": {"reasoningText": {"text": "Run it.", "signature": "c2lnbmVk"}}}
SEALED = {"reasoningContent": {"redactedContent": "c2VhbGVk"}}
CALL = {
    "toolUse": {
        "toolUseId": "tooluse_1",
        "name": "nova_code_interpreter",
        "type": "server_tool_use",
        "input": {"code": "print(6 * 7)"},
    }
}
SAID = '{"stdOut":"42\\n","stdErr":"careful","exitCode":0,"isError":false}'
RESULT = {
    "toolResult": {
        "toolUseId": "tooluse_1",
        "type": "nova_code_interpreter_result",
        "content": [{"text": SAID}],
        "status": "success",
    }
}
FUNCTION = {"toolUse": {"toolUseId": "tooluse_2", "name": "look_up", "input": {"what": "seven"}}}
CITED = {
    "citationsContent": {
        "content": [{"text": "It is six."}],
        "citations": [
            {"title": "Six", "sourceContent": [{"text": "6"}], "location": {"web": {"url": "https://example.com/6"}}},
            {"title": "Paper", "location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 4}}},
        ],
    }
}
CONTENT = [REASONING, SEALED, {"text": "Let me"}, {"text": " see."}, CALL, RESULT, CITED, FUNCTION]
RESPONSE = {
    "output": {"message": {"role": "assistant", "content": CONTENT}},
    "stopReason": "tool_use",
    "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cacheReadInputTokens": 3},
    "metrics": {"latencyMs": 200},
}
TOOL_RESULT = {
    "toolResult": {
        "toolUseId": "tooluse_2",
        "content": [
            {"text": "it is"},
            {"json": {"value": [7, None, 1.5]}},
            {"image": {"format": "png", "source": {"bytes": PNG}}},
        ],
        "status": "success",
    }
}
FAILED = {"toolResult": {"toolUseId": "tooluse_3", "content": [], "status": "error"}}
INPUTS = [
    {"text": "And this?"},
    {"image": {"format": "jpeg", "source": {"bytes": PNG}}},
    {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/cat.png", "bucketOwner": "1" * 12}}}},
    {"document": {"format": "pdf", "name": "Paper", "source": {"bytes": "JVBERi0="}, "citations": {"enabled": True}}},
    {"document": {"format": "csv", "name": "Table", "source": {"bytes": "YSxi"}, "context": "Mine."}},
    {"document": {"format": "txt", "name": "Note", "source": {"text": "å"}}},
    {"document": {"name": "Parts", "source": {"content": [{"text": "a"}]}}},
    {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/film.mp4"}}}},
    {"audio": {"format": "wav", "source": {"bytes": "UklGRg=="}}},
    {"cachePoint": {"type": "default"}},
    {"guardContent": {"text": {"text": "guard", "qualifiers": ["query"]}}},
]
REQUEST: list[dict[str, Any]] = [
    {"role": "user", "content": [{"text": "Hello"}]},
    {"role": "assistant", "content": CONTENT},
    {"role": "user", "content": [TOOL_RESULT, FAILED]},
    {"role": "assistant", "content": [{"text": "So."}]},
    {"role": "user", "content": INPUTS},
]


def accepts(document: Any, *, response: bool = False) -> None:
    """Fail where the service's model does not take the messages of a request, or a response."""
    operation = MODEL.operation_model("Converse")
    if response:
        report = ParamValidator().validate(for_sdk(document), operation.output_shape)
    else:
        report = ParamValidator().validate({"modelId": "m", "messages": for_sdk(document)}, operation.input_shape)
    assert not report.has_errors(), report.generate_report()


def contents_of(*blocks: Any) -> tuple[Content, ...]:
    (message,) = read({"role": "assistant", "content": [*blocks]})
    return message.contents


def said_by(item: Content) -> dict[str, Any]:
    return item.model_copy(update={"provider_data": {}}).to_dict()


# What is read


def test_a_run_of_code_is_a_call_and_a_result() -> None:
    call, result = contents_of(CALL, RESULT)
    assert isinstance(call, CodeInterpreterCall)
    assert isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language, call.call_id) == ("print(6 * 7)", "python", result.call_id)
    assert (result.exit_code, result.success) == (0, True)
    assert result.outputs == (TextContent(text="42\n", stream="stdout"), TextContent(text="careful", stream="stderr"))


def test_a_program_may_be_in_another_field_and_a_result_in_json() -> None:
    call = {"toolUse": {**CALL["toolUse"], "input": {"snippet": "1", "more": True}}}
    said = {"stdOut": "", "stdErr": "bad", "exitCode": 1, "isError": True}
    result = {"toolResult": {**RESULT["toolResult"], "content": [{"json": said}], "status": "error"}}
    first, second = contents_of(call, result)
    assert isinstance(first, CodeInterpreterCall)
    assert isinstance(second, CodeInterpreterResult)
    assert (first.code, second.success) == ("1", False)
    assert write([Message(contents=(first, second))]).document[0]["content"] == [call, result]


def test_reasoning_has_its_signature() -> None:
    open_one, sealed = contents_of(REASONING, SEALED)
    assert isinstance(open_one, ReasoningContent)
    assert isinstance(sealed, ReasoningContent)
    assert (open_one.text, open_one.protected_data, sealed.protected_data) == ("Run it.", "c2lnbmVk", "c2VhbGVk")


def test_citations_are_annotations() -> None:
    (text,) = contents_of(CITED)
    page, paper = text.annotations
    assert isinstance(text, TextContent)
    assert (text.text, page.url, page.title, page.snippet) == ("It is six.", "https://example.com/6", "Six", "6")
    assert paper.provider_data["bedrock-converse"]["location"] == {
        "documentChar": {"documentIndex": 0, "start": 1, "end": 4}
    }


def test_results_of_tools_have_text_json_and_pictures() -> None:
    (result,) = contents_of(TOOL_RESULT)
    assert isinstance(result, FunctionResult)
    assert [type(item) for item in result.outputs] == [TextContent, DataContent, DataContent]
    assert not result.is_error
    (failed,) = contents_of(FAILED)
    assert isinstance(failed, FunctionResult)
    assert failed.is_error


def test_files_are_data_or_links() -> None:
    items = contents_of(*INPUTS)
    assert [getattr(item, "media_type", None) for item in items] == [
        None,
        "image/jpeg",
        "image/png",
        "application/pdf",
        "text/csv",
        "text/plain",
        None,
        "video/mp4",
        "audio/wav",
        None,
        None,
    ]
    assert isinstance(items[2], UriContent)
    assert isinstance(items[5], DataContent)
    assert (items[5].text, items[5].name) == ("å", "Note")


def test_bytes_of_the_sdk_are_read_as_base64() -> None:
    assert read(for_sdk(REQUEST)) == read(REQUEST)


def test_a_response_is_a_message_with_usage() -> None:
    (message,) = read(RESPONSE)
    usage = message.contents[-1]
    assert message.finish_reason == "tool_calls"
    assert isinstance(usage, UsageContent)
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 5, 15)
    assert usage.counts == {"cacheReadInputTokens": 3}


def test_a_whole_request_is_read_with_its_system() -> None:
    request = {"modelId": "m", "system": [{"text": "Be short."}], "messages": REQUEST}
    system, *rest = read(request)
    assert (system.role, system.text) == ("system", "Be short.")
    assert rest == read(REQUEST)
    with pytest.raises(ValueError, match="no messages"):
        read({"messages": []})


def test_only_what_has_no_item_is_not_known() -> None:
    items = contents_of(*CONTENT, TOOL_RESULT, FAILED, *INPUTS)
    unknown = [item.raw for item in items if isinstance(item, UnknownContent)]
    assert unknown == [INPUTS[6], INPUTS[9], INPUTS[10]]


# What is written


def test_a_request_comes_back_whole() -> None:
    written = write(read(REQUEST))
    assert written.document == REQUEST
    assert written.losses == ()
    accepts(written.document)


@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "stop_sequence", "guardrail_intervened", "new_reason"])
def test_a_response_comes_back_whole(stop) -> None:
    response = {**RESPONSE, "stopReason": stop, "trace": {"promptRouter": {"invokedModelId": "m"}}}
    written = write_response(read(response)[0])
    assert written.document == response
    assert written.losses == ()
    accepts(written.document, response=True)


def test_what_is_written_of_everything_is_what_the_service_takes() -> None:
    accepts(write(matrix.TRANSCRIPT).document)


def test_messages_of_one_role_become_one() -> None:
    messages = [Message(role="user", contents=(TextContent(text=text),)) for text in "ab"]
    assert write(messages).document == [{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]


def test_what_cannot_be_said_is_told() -> None:
    result = CodeInterpreterResult(
        call_id="c",
        outputs=(TextContent(text="a"), DataContent(media_type="image/png", data=b"p"), ErrorContent(message="broke")),
        outcome="timeout",
    )
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("x", "r"), HostedFileContent(file_id="f")))
    written = write([Message(contents=(call, result)), Message(role="tool", contents=(result,))])
    accepts(written.document)
    said = written.document[0]["content"][1]["toolResult"]["content"][0]["json"]
    assert said == {
        "stdOut": "a\n[data: image/png, 1 byte]\n",
        "stdErr": "error: broke\n",
        "exitCode": 1,
        "isError": True,
    }
    assert {loss.what for loss in written.losses} == {
        "code_interpreter_call.inputs",
        "code_interpreter_call.language",
        "code_interpreter_result.data",
        "code_interpreter_result.error",
        "code_interpreter_result.exit_code",
        "code_interpreter_result.outcome",
    }


def test_outputs_that_are_not_said_leave_no_empty_lines() -> None:
    outputs = (
        TextContent(text="1\n"),
        UsageContent(input_tokens=1),
        ReasoningContent(text="hm"),
        TextContent(text="2\n"),
    )
    result = CodeInterpreterResult(call_id="c", outputs=outputs, exit_code=0)
    (message,) = write([Message(role="tool", contents=(result,))]).document
    assert message["content"][0]["toolResult"]["content"][0]["json"]["stdOut"] == "1\n2\n"


def test_the_tool_is_asked_for_and_inputs_are_told() -> None:
    written = write_tools([HostedCodeInterpreterTool(inputs=(HostedFileContent(file_id="f"),)), HostedFileSearchTool()])
    assert written.document == [{"systemTool": {"name": "nova_code_interpreter"}}]
    shape = MODEL.shape_for("ToolConfiguration")
    assert not ParamValidator().validate({"tools": written.document}, shape).has_errors()
    assert [loss.what for loss in written.losses] == ["code_interpreter.inputs", "file_search"]


# Streams


def events_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The events in which a response is streamed."""
    events: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(response["output"]["message"]["content"]):
        ((kind, body),) = block.items()
        start: dict[str, Any] | None = None
        match kind:
            case "text":
                deltas: list[Any] = [{"text": body[:2]}, {"text": body[2:]}]
            case "citationsContent":
                deltas = [{"citation": one} for one in body["citations"]]
                deltas += [{"text": character} for character in body["content"][0]["text"]]
            case "reasoningContent" if "reasoningText" in body:
                inner = body["reasoningText"]
                deltas = [{"reasoningContent": {"text": character}} for character in inner["text"]]
                deltas.append({"reasoningContent": {"signature": inner["signature"]}})
            case "reasoningContent":
                deltas = [{"reasoningContent": body}]
            case "toolUse":
                start = {"toolUse": {name: value for name, value in body.items() if name != "input"}}
                deltas = [{"toolUse": {"input": piece}} for piece in ("", *json.dumps(body["input"]))]
            case "toolResult":
                start = {"toolResult": {name: value for name, value in body.items() if name != "content"}}
                texts = [{"text": body["content"][0]["text"][:5]}, {"text": body["content"][0]["text"][5:]}]
                deltas = [{"toolResult": [text]} for text in texts] + [{"toolResult": body["content"][1:]}]
            case _:
                start = {"image": {"format": body["format"]}}
                deltas = [{"image": {"source": body["source"]}}]
        if start is not None:
            events.append({"contentBlockStart": {"start": start, "contentBlockIndex": index}})
        events += [{"contentBlockDelta": {"delta": delta, "contentBlockIndex": index}} for delta in deltas]
        events.append({"contentBlockStop": {"contentBlockIndex": index}})
    events.append({"messageStop": {"stopReason": response["stopReason"]}})
    return [*events, {"metadata": {"usage": response["usage"], "metrics": response["metrics"]}}]


def streamed(events: list[dict[str, Any]]) -> Message:
    reader = Reader()
    return message_from_updates(update for event in events for update in reader.feed(event))


def test_a_stream_comes_to_what_the_response_is() -> None:
    assert streamed(events_of(RESPONSE)) == read(RESPONSE)[0]
    assert streamed(for_sdk(events_of(RESPONSE))) == read(RESPONSE)[0]


@pytest.mark.parametrize("block", [*CONTENT, TOOL_RESULT, INPUTS[1]], ids=lambda block: next(iter(block)))
def test_a_block_that_is_streamed_is_the_same_as_whole(block) -> None:
    response = {**RESPONSE, "output": {"message": {"role": "assistant", "content": [block]}}}
    assert streamed(events_of(response)).contents == read(response)[0].contents


def test_the_events_are_those_of_the_service() -> None:
    members = MODEL.operation_model("ConverseStream").output_shape.members["stream"].members
    for event in for_sdk(events_of(RESPONSE)):
        ((kind, body),) = event.items()
        report = ParamValidator().validate(body, members[kind])
        assert not report.has_errors(), report.generate_report()
        assert FORMAT.is_event is not None
        assert FORMAT.is_event(event)


def test_an_exception_ends_a_stream_with_an_error() -> None:
    message = streamed([*events_of(RESPONSE)[:4], {"throttlingException": {"message": "Too many requests"}}])
    error = message.contents[-1]
    assert isinstance(error, ErrorContent)
    assert (error.code, error.message) == ("throttlingException", "Too many requests")


@pytest.mark.parametrize(
    "event",
    [
        {"newEvent": {"a": 1}},
        {"contentBlockDelta": {"contentBlockIndex": 3, "delta": {"toolUse": {"input": "x"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 3, "delta": {"newDelta": {}}}},
        {"contentBlockStart": {"contentBlockIndex": None, "start": None}},
        {"messageStart": None},
        {},
    ],
)
def test_an_event_that_is_not_as_it_should_be_is_kept(event) -> None:
    (update,) = Reader().feed(event)
    assert update.contents == (UnknownContent(format="bedrock-converse", raw=event),)


# What is malformed


@pytest.mark.parametrize(
    "block",
    [
        {"image": {"format": "png", "source": {"bytes": "iVBOR"}}},
        {"image": {"format": "png", "source": None}},
        {"image": None},
        {"text": None},
        {"text": 3},
        {"newKind": {"a": 1}},
        {"toolUse": {"toolUseId": "a", "name": "b", "input": None}},
        {"toolResult": {"toolUseId": "a", "content": None}},
        {"toolResult": {**RESULT["toolResult"], "content": [{"text": "no JSON"}]}},
        {"toolResult": {**RESULT["toolResult"], "content": [{"json": {"exitCode": "0"}}]}},
        {"citationsContent": None},
        {"text": "a", "image": {}},
        None,
        "text",
        {},
    ],
)
def test_a_block_that_is_not_as_it_should_be_is_kept(block) -> None:
    assert contents_of(block) == (UnknownContent(format="bedrock-converse", raw=block),)
    assert write([Message(contents=contents_of(block))]).document == [{"role": "assistant", "content": [block]}]


def test_a_result_before_its_call_and_two_for_one_call_stay_in_their_order() -> None:
    content = [RESULT, CALL, RESULT, TOOL_RESULT, TOOL_RESULT]
    assert write([Message(contents=contents_of(*content))]).document[0]["content"] == content


def test_a_nul_in_text_is_text() -> None:
    assert contents_of({"text": "a\0b"}) == (TextContent(text="a\0b"),)


@pytest.mark.parametrize("document", [{}, [{"a": 1}], [1], "text", 3, None, {"role": "user"}])
def test_what_is_no_message_is_refused(document) -> None:
    with pytest.raises(ValueError, match="message of Converse"):
        read(document)


_samples: list[Any] = [*CONTENT, TOOL_RESULT, FAILED, *INPUTS]
blocks = st.one_of(
    st.sampled_from(_samples),
    st.builds(
        lambda block, more: {
            kind: {**body, **more} if isinstance(body, dict) else body for kind, body in block.items()
        },
        st.sampled_from(_samples),
        st.dictionaries(
            st.sampled_from(["content", "input", "source", "format", "new", "toolUseId", "name", "type", "citations"]),
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
    write(messages)


sayable: st.SearchStrategy[Content] = st.one_of(
    st.builds(TextContent, text=items_to_try.texts),
    st.builds(ReasoningContent, text=items_to_try.texts, protected_data=st.none() | items_to_try.words),
    st.builds(DataContent, media_type=st.sampled_from(["image/png", "video/mp4"]), data=st.binary(max_size=9)),
    st.builds(DataContent, media_type=st.just("text/csv"), data=st.binary(max_size=9), name=st.just("Table")),
    st.builds(FunctionCall, call_id=items_to_try.words, name=items_to_try.words, arguments=items_to_try.json_objects),
    st.builds(FunctionResult, call_id=items_to_try.words, is_error=st.booleans()),
    st.builds(
        lambda call_id, code: CodeInterpreterCall(
            call_id=call_id, inputs=(code_content(code),), name="nova_code_interpreter"
        ),
        items_to_try.words,
        items_to_try.texts,
    ),
)


@given(st.lists(sayable, min_size=1, max_size=4))
def test_what_can_be_said_comes_back(contents) -> None:
    """Text, reasoning, pictures, films, documents, calls of tools and of Python, and results of tools."""
    written = write([Message(contents=tuple(contents))])
    assert written.losses == ()
    assert [said_by(item) for item in items_of(read(written.document))] == [said_by(item) for item in contents]


def test_messages_are_told_by_their_looks() -> None:
    assert FORMAT.looks_like(RESPONSE) == 1
    assert FORMAT.looks_like(REQUEST) > 0.9
    assert FORMAT.looks_like([{"role": "user", "content": [{"text": "hi"}]}]) > 0.5


@pytest.mark.parametrize(
    "document",
    [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "model", "parts": [{"text": "hi"}]},
        {"content": [{"type": "text", "text": "hi"}], "isError": False},
        {"type": "image", "source": {}},
        {"text": "hi"},
    ],
)
def test_those_of_others_are_not(document) -> None:
    assert FORMAT.looks_like(document) == 0
    assert FORMAT.is_event is not None
    assert not FORMAT.is_event(document)


def test_base64_is_that_of_the_bytes() -> None:
    written = write([Message(role="user", contents=(DataContent(media_type="image/png", data=b"\x89PNG"),))])
    source = written.document[0]["content"][0]["image"]["source"]
    assert base64.b64decode(source["bytes"]) == b"\x89PNG"
