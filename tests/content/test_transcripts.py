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
from actbox.content.transcripts import RESULT, read_transcript
from actbox.content.wire.formats import NAMES, find_format
from tests.content.formats_here import is_here, only_those_here
from tests.content.matrix import TRANSCRIPT


@pytest.fixture(autouse=True)
def formats_here(monkeypatch):
    only_those_here(monkeypatch)


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


@pytest.mark.parametrize("name", NAMES)
def test_what_a_format_writes_is_found_to_be_of_it_and_read_back(name):
    if not is_here(name):
        pytest.skip(f"there is no module for the format {name} yet")
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
        ('{"contents": []}\n{"contents": [}\n', "line 2 is not JSON"),
        ('{"contents": []}\n\n{"conte', "line 3 is not JSON"),
        ('data: {"a":\n\n', "line 1 is not JSON"),
        ("data: {}\nnonsense\n", "line 2 is no line of server-sent events"),
        ('{"some": "thing"}', "looks like none of the formats: anthropic, "),
        ('{"some": 1}\n{"some": 2}\n', "line 1: this looks like none of the formats"),
        ("3", "looks like none of the formats"),
        ("null", "looks like none of the formats"),
        ("[]", "looks like none of the formats"),
        ("[" * 200_000, "nested too deeply"),
        ("9" * 5_000, "not JSON"),
    ],
)
def test_what_is_no_transcript_is_named(text, said):
    with pytest.raises(ValueError) as caught:
        read_transcript(text)
    assert said in str(caught.value)


def test_a_damaged_message_is_named_with_its_format():
    with pytest.raises(ValueError, match=r"cannot be read as actbox \(actbox\)"):
        read_transcript('{"contents": [{"type": "text"}]}')
    with pytest.raises(ValueError, match="the result's stdout is not as it should be"):
        read_transcript('{"stdout": 1, "stderr": "", "exit_code": 0}')


def test_a_format_that_there_is_not_is_named():
    with pytest.raises(KeyError, match="there are: anthropic"):
        read_transcript("{}", format="antropic")


def test_a_document_is_not_read_as_a_result_that_it_is_not():
    with pytest.raises(ValueError, match="no result"):
        read_transcript(json.dumps(QUESTION.to_dict()), format=RESULT)
