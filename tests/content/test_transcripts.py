"""Files become messages: documents, lines, captured streams, results; and what is none of these is named."""

from __future__ import annotations

import json

import pytest

from actbox import Artifact, ErrorInfo, ErrorKind, ExecutionResult
from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Message,
    TextContent,
    Update,
    code_content,
)
from actbox.content.results import result_from_content
from actbox.content.transcripts import RESULT, TranscriptError, read_transcript
from actbox.content.wire.formats import find_format
from tests.content.matrix import TRANSCRIPT, WRITTEN

QUESTION = Message(role="user", contents=(TextContent(text="six times seven?"),))
ANSWER = Message(
    contents=(
        CodeInterpreterCall(call_id="c", inputs=(code_content("6 * 7"),)),
        CodeInterpreterResult(call_id="c", outputs=(TextContent(text="42"),), outcome="ok"),
    )
)
PIECES = [
    Update(role="assistant", contents=(TextContent(text="for"),)),
    Update(contents=(TextContent(text="ty-"),)),
    Update(contents=(TextContent(text="two"),)),
]


def lines(parts):
    return "".join(json.dumps(part.to_dict()) + "\n" for part in parts)


def test_a_document_with_messages_is_read():
    document = {"messages": [QUESTION.to_dict(), ANSWER.to_dict()]}
    for text in (json.dumps(document), json.dumps(document, indent=2), "\ufeff" + json.dumps(document["messages"])):
        transcript = read_transcript(text)
        assert transcript.messages == (QUESTION, ANSWER)
        assert transcript.format == "actbox"


def test_a_message_on_each_line_is_read_and_empty_lines_do_not_count():
    text = lines([QUESTION, ANSWER, QUESTION]).replace("\n", "\n\n")
    assert read_transcript(text).messages == (QUESTION, ANSWER, QUESTION)


def test_a_line_separator_within_json_text_ends_no_line():
    said = [Message(role="user", contents=(TextContent(text="a\u2028b\x85c"),)), ANSWER]
    text = "".join(json.dumps(message.to_dict(), ensure_ascii=False) + "\n" for message in said)
    assert read_transcript(text).messages == tuple(said)


def test_lines_in_a_row_with_the_same_id_are_pieces_of_one_message():
    pieces = [Message(id="m", contents=(TextContent(text=text),)) for text in ("forty-", "two")]
    texts = [message.text for message in read_transcript(lines([QUESTION, *pieces, QUESTION])).messages]
    assert texts == ["six times seven?", "forty-two", "six times seven?"]


def test_the_events_of_a_stream_come_to_one_message():
    expected = Message(contents=(TextContent(text="forty-two"),))
    for text in (lines(PIECES), json.dumps([piece.to_dict() for piece in PIECES])):
        (message,) = read_transcript(text).messages
        assert message.contents == expected.contents and message.role == "assistant"


def test_a_line_that_is_the_only_event_is_read():
    text = json.dumps({"message_id": "m", **PIECES[1].to_dict()})
    assert read_transcript(text).messages[0].text == "ty-"


def test_server_sent_events_are_read_with_and_without_empty_lines_between_them():
    for gap in ("\n", "\n\n", "\r\n\r\n"):
        text = ": hello\n" + gap.join(f"id: 1\nevent: piece\ndata: {json.dumps(piece.to_dict())}" for piece in PIECES)
        transcript = read_transcript(text + gap + "data: [DONE]\n")
        assert [message.text for message in transcript.messages] == ["forty-two"]


def test_the_data_of_an_event_may_be_on_several_lines():
    text = 'data: {"role": "assistant",\ndata: "contents": [{"type": "text", "text": "42"}]}\n\n'
    assert read_transcript(text).messages[0].text == "42"


def test_a_result_of_actbox_run_is_read_with_all_it_has():
    result = ExecutionResult(
        stdout="hi\n",
        exit_code=1,
        error=ErrorInfo(kind=ErrorKind.RUNTIME, type="KeyError", message="'x'", line=3),
        artifacts=(Artifact("a.bin", b"\x00\x01"),),
    )
    transcript = read_transcript(json.dumps(result.to_dict()))
    assert transcript.format == RESULT
    assert result_from_content(transcript.messages[0].contents) == result


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "rtfs"])
def test_the_program_of_a_result_is_shown_in_its_language(language: str):
    result = ExecutionResult(code="1", language=language, sandbox="agentcore")
    call = read_transcript(json.dumps(result.to_dict())).messages[0].contents[0]
    assert isinstance(call, CodeInterpreterCall) and call.language == language


def test_the_results_of_actbox_map_are_a_message_each():
    text = "".join(json.dumps({"id": n, **ExecutionResult(stdout=f"{n}\n").to_dict()}) + "\n" for n in range(3))
    messages = read_transcript(text).messages
    assert [message.contents[0].call_id for message in messages] == ["run 0", "run 1", "run 2"]


@pytest.mark.parametrize("format", [None, "jupyter"])
def test_a_notebook_is_read(format):
    cell = {"cell_type": "code", "source": "1 + 1", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    transcript = read_transcript(json.dumps(notebook, indent=1), format=format)
    assert transcript.format == "jupyter"
    assert transcript.messages[0].contents[0].code == "1 + 1"


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_format_writes_is_found_to_be_of_it_and_read_back(name):
    found = find_format(name)
    document = found.write(TRANSCRIPT).document
    expected = found.read(document)
    assert read_transcript(json.dumps(document), format=name).messages == tuple(expected)
    assert read_transcript(json.dumps(document)).messages
    by_lines = read_transcript("".join(json.dumps(part) + "\n" for part in document), format=name)
    assert len(by_lines.messages) >= 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing in it"),
        (" \n", "nothing in it"),
        ("hello", "line 1 is not JSON"),
        ('{\n"a": 1,\nb}', "line 3 is not JSON"),
        ('{"contents": []}\n{"contents": [}\n{"contents": []}\n', "line 2 is not JSON"),
        ('{"contents": []}\n\n{"conte\n{"contents": []}', "line 3 is not JSON"),
        ('data: {"a":\n\n', "line 1 is not JSON"),
        ('data: {"a":\n\ndata: {}\n', "line 1 is not JSON"),
        ("data: {}\nnonsense\n", "line 2 is no line of server-sent events"),
        ('{"some": "thing"}', "looks like none of the formats: anthropic, "),
        ('{"some": 1}\n{"some": 2}\n', "line 1: this looks like none of the formats"),
        ("3", "looks like none of the formats"),
        ("null", "looks like none of the formats"),
        ("[]", "there are no messages in it"),
        ("[" * 200_000, "nested too deeply"),
        ("9" * 5_000, "not JSON"),
    ],
)
def test_what_is_no_transcript_is_named(text, said):
    with pytest.raises(ValueError) as caught:
        read_transcript(text)
    assert said in str(caught.value)


def test_a_damaged_message_is_named_with_its_format():
    with pytest.raises(ValueError, match=r"cannot be read as actbox: contents\[0\]\.text: Field required$"):
        read_transcript('{"contents": [{"type": "text"}]}')
    with pytest.raises(ValueError, match="the result's stdout is invalid"):
        read_transcript('{"stdout": 1, "stderr": "", "exit_code": 0}')


def test_a_format_that_there_is_not_is_named():
    with pytest.raises(TranscriptError, match="no format 'antropic'; there are: anthropic") as refused:
        read_transcript("{}", format="antropic")
    assert refused.value.hint == "give one of these names, or none: the format is found out then"


def test_a_document_is_not_read_as_a_result_that_it_is_not():
    with pytest.raises(ValueError, match="no result"):
        read_transcript(json.dumps(QUESTION.to_dict()), format=RESULT)


REQUESTS = {
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "system": "s",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    },
    "openai-responses": {"model": "m", "input": "hi"},
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "systemInstruction": {"parts": []}},
    "bedrock-converse": {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_body_of_a_request_is_read(name):
    transcript = read_transcript(json.dumps(REQUESTS[name]))
    assert transcript.format == name
    assert transcript.messages[-1].text == "hi"


@pytest.mark.parametrize(
    "more", [{}, {"tools": [{"code_execution": {}}]}, {"system_instruction": {"parts": [{"text": "s"}]}}]
)
def test_the_body_of_a_request_to_gemini_is_no_event_of_ours(more):
    document = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **more}
    for text in (json.dumps(document), json.dumps(document) + "\n" + json.dumps(document)):
        transcript = read_transcript(text)
        assert (transcript.format, transcript.messages[-1].text) == ("gemini", "hi")


def test_the_error_of_openai_is_read():
    error = {"message": "no such model", "type": "invalid_request_error", "param": None, "code": "model_not_found"}
    transcript = read_transcript(json.dumps({"error": error}))
    (found,) = transcript.messages[0].contents
    assert (transcript.format, found.message, found.code) == ("openai-responses", "no such model", "model_not_found")


def test_results_on_lines_of_their_own_are_calls_of_their_own():
    results = [
        ExecutionResult(stdout="a\n"),
        ExecutionResult(exit_code=1, error=ErrorInfo(kind=ErrorKind.TIMEOUT, type="", message="too long")),
        ExecutionResult(stdout="c\n"),
    ]
    messages = read_transcript("".join(json.dumps(result.to_dict()) + "\n" for result in results)).messages
    assert [message.contents[0].call_id for message in messages] == ["run-1", "run-2", "run-3"]
    assert [result_from_content(message.contents) for message in messages] == results


def test_two_results_of_agentcore_are_calls_of_their_own():
    lines = [
        {"result": {"content": [{"type": "text", "text": out}], "structuredContent": {"stdout": out, "exitCode": 0}}}
        for out in ("a", "b")
    ]
    messages = read_transcript("".join(json.dumps(line) + "\n" for line in lines), format="agentcore").messages
    results = [item for message in messages for item in message.contents]
    assert [result.call_id for result in results] == ["code-1", "code-2"]


def test_conversations_on_lines_of_their_own_do_not_share_calls():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talks = [
        {
            "messages": [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": answer},
            ]
        }
        for answer in ("one", "two")
    ]
    items = [
        item
        for message in read_transcript("".join(json.dumps(talk) + "\n" for talk in talks)).messages
        for item in message.contents
    ]
    assert [item.call_id for item in items] == ["c-1", "c-1", "c-2", "c-2"]


def test_calls_and_results_of_one_conversation_keep_their_ids():
    assert [item.call_id for item in read_transcript(lines([QUESTION, ANSWER])).messages[1].contents] == ["c", "c"]


@pytest.mark.parametrize(
    "messages",
    [[], [Message(role="user")], [Message(role="user"), ANSWER], [Message(), Message(role="user", author="me")]],
)
def test_messages_without_items_are_read_back(messages):
    document = {"format": "openai-chat", "messages": [message.to_dict() for message in messages]}
    transcript = read_transcript(json.dumps(document))
    assert transcript.format == "actbox" and transcript.messages == tuple(messages)
    assert transcript.warnings == (() if messages else ("there are no messages in it",))


@pytest.mark.parametrize("torn", ['{"conte', '{"contents": [}\n', "nonsense\n\n"])
def test_a_torn_last_line_hides_nothing_and_is_named(torn):
    transcript = read_transcript(lines([QUESTION, ANSWER]) + torn)
    assert transcript.messages == (QUESTION, ANSWER)
    (warning,) = transcript.warnings
    assert warning.startswith("line 3 is not JSON") and "left out" in warning


@pytest.mark.parametrize("torn", ['data: {"contents": [', 'data: {"contents": [\n\n', "dat"])
def test_a_torn_last_event_hides_nothing_and_is_named(torn):
    whole = "".join(f"data: {json.dumps(piece.to_dict())}\n\n" for piece in PIECES)
    transcript = read_transcript(whole + torn)
    assert transcript.messages[0].text == "forty-two"
    (warning,) = transcript.warnings
    assert warning.startswith("line 7 is ") and "left out" in warning


def test_a_foreign_line_is_kept_and_changes_nothing_of_the_others():
    said = [{"role": "user", "content": "a"}, {"foo": 1}, {"role": "assistant", "content": "b"}]
    transcript = read_transcript("".join(json.dumps(one) + "\n" for one in said))
    assert transcript.format == "openai-chat"
    assert [message.role for message in transcript.messages] == ["user", "unknown", "assistant"]
    assert transcript.messages[1].contents[0].raw == {"foo": 1}
    assert transcript.warnings[0].startswith("line 2: this is not known in OpenAI Chat Completions")


def test_a_format_that_does_not_fit_is_told_with_the_one_that_does():
    blocks = [{"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "1"}}]
    document = {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"}
    transcript = read_transcript(json.dumps(document), format="openai-chat")
    assert transcript.warnings == ("1 of 1 items are not known in openai-chat; this looks like anthropic",)
    assert read_transcript(json.dumps(document), format="mcp").warnings[0].endswith("; this looks like anthropic")
    assert read_transcript(json.dumps(document), format="anthropic").warnings == ()


def test_a_dialect_of_a_format_that_has_to_be_named_fits():
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    response = {"id": "r", "object": "response", "output": [said]}
    assert read_transcript(json.dumps(response)).format == "openai-responses"
    assert read_transcript(json.dumps(response), format="azure-foundry").warnings == ()


def test_a_step_that_only_made_a_message_is_no_turn():
    message = {"id": "m", "object": "thread.message", "created_at": 1, "role": "assistant", "content": "hi"}
    details = {"type": "message_creation", "message_creation": {"message_id": "m"}}
    step = {"id": "s", "object": "thread.run.step", "created_at": 1, "step_details": details, "status": "completed"}
    assert [one.id for one in read_transcript(json.dumps([message, step])).messages] == ["m"]
