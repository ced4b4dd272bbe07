"""AgentCore's requests and results: what the service's own model says is what comes out, and everything comes back."""

from __future__ import annotations

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
    TextContent,
    UnknownContent,
    UriContent,
    code_content,
    message_from_updates,
)
from actbox.content.messages import items_of
from actbox.content.wire.agentcore import FORMAT, Reader, for_sdk, read, write, write_tools
from tests.content import items_to_try, matrix

MODEL = botocore.session.get_session().get_service_model("bedrock-agentcore")
OPERATION = MODEL.operation_model("InvokeCodeInterpreter")


def request(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "codeInterpreterIdentifier": "aws.codeinterpreter.v1",
        "sessionId": "01ABC",
        "name": name,
        "arguments": arguments,
    }


def result(*content: Any, is_error: bool = False, **structured: Any) -> dict[str, Any]:
    return {"result": {"content": [*content], "structuredContent": structured, "isError": is_error}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


RUN = request("executeCode", code="print(6 * 7)", language="python", clearContext=False)
RAN = result(
    text("42\n"),
    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    {
        "type": "resource",
        "resource": {"type": "text", "uri": "file:///a/note.txt", "mimeType": "text/plain", "text": "å"},
    },
    {"type": "resource", "resource": {"type": "blob", "uri": "file:///a/x.bin", "blob": "AAE="}},
    {"type": "resource_link", "uri": "file:///a/big.bin", "name": "big.bin", "mimeType": "a/b", "size": 9},
    stdout="42\n",
    stderr="",
    exitCode=0,
    executionTime=12.5,
)
COMMAND = request("executeCommand", command="ls /none")
COMMANDED = result(text("ls: no such file"), stdout="", stderr="ls: no such file\n", exitCode=2, is_error=True)
READ = request("readFiles", paths=["a.txt"])
FILES = {
    "result": {
        "content": [{"type": "resource", "resource": {"type": "text", "uri": "file:///a.txt", "text": "a"}}],
        "isError": False,
    }
}
THROTTLED = {"throttlingException": {"message": "Too many requests"}}
EVERYTHING = [
    RUN,
    {"sessionId": "01ABC", "stream": [RAN]},
    COMMAND,
    COMMANDED,
    READ,
    FILES,
    request("writeFiles", content=[{"path": "a.txt", "text": "a"}, {"path": "b", "blob": "AAE="}]),
    {"result": {"content": [text("written")]}},
    request("listFiles", directoryPath=""),
    result(text("a.txt")),
    request("startCommandExecution", command="sleep 9"),
    result(taskId="t", taskStatus="submitted"),
    request("getTask", taskId="t"),
    THROTTLED,
    request("removeFiles", paths=["a.txt"]),
]


def accepts(document: Any) -> None:
    """Fail where the service's model does not take a request, or does not give an event."""
    document = for_sdk(document)
    if "name" in document:
        shape = OPERATION.input_shape
    elif "stream" in document:
        for event in document["stream"]:
            accepts(event)
        return
    else:
        ((kind, document),) = document.items()
        shape = OPERATION.output_shape.members["stream"].members[kind]
    report = ParamValidator().validate(document, shape)
    assert not report.has_errors(), report.generate_report()


def item_of(document: Any) -> Content:
    (message,) = read(document)
    (item,) = message.contents
    return item


def result_of(document: Any) -> CodeInterpreterResult:
    item = item_of(document)
    assert isinstance(item, CodeInterpreterResult)
    return item


# What is read


@pytest.mark.parametrize(
    ("document", "code", "language"),
    [
        (RUN, "print(6 * 7)", "python"),
        (request("executeCode", code="1"), "1", "python"),
        (request("executeCode", code="1", language="typescript", runtime="deno"), "1", "typescript"),
        (COMMAND, "ls /none", "shell"),
    ],
)
def test_a_request_is_a_call_of_code(document, code, language) -> None:
    call = item_of(document)
    assert isinstance(call, CodeInterpreterCall)
    assert (call.code, call.language, call.call_id) == (code, language, "code-1")
    assert write(read(document)).document == [document]


def test_a_request_of_another_tool_is_a_call_of_a_function() -> None:
    call, files = items_of(read([READ, FILES]))
    assert isinstance(call, FunctionCall)
    assert isinstance(files, FunctionResult)
    assert (call.name, call.arguments) == ("readFiles", {"paths": ["a.txt"]})
    assert (files.call_id, files.name) == (call.call_id, "readFiles")
    (file,) = files.outputs
    assert isinstance(file, DataContent)
    assert (file.name, file.text) == ("a.txt", "a")


def test_what_was_printed_is_read_once_and_files_are_named() -> None:
    ran = result_of(RAN)
    assert ran.outputs[0] == TextContent(text="42\n", stream="stdout")
    assert [type(item) for item in ran.outputs[1:]] == [DataContent, DataContent, DataContent, UriContent]
    assert [getattr(item, "name", None) for item in ran.outputs[1:]] == [None, "note.txt", "x.bin", "big.bin"]
    assert (ran.exit_code, ran.outcome, ran.success) == (0, "ok", True)


def test_what_was_printed_is_told_apart_where_the_text_has_both() -> None:
    ran = result_of(result(text("out\nerr"), stdout="out", stderr="err", exitCode=0))
    assert ran.outputs == (TextContent(text="out", stream="stdout"), TextContent(text="err", stream="stderr"))


def test_text_alone_is_what_was_printed() -> None:
    ran = result_of({"result": {"content": [text("NameError: x")], "isError": True}})
    assert (ran.text, ran.success, ran.outcome) == ("NameError: x", False, "failed")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("submitted", None), ("working", None), ("completed", "ok"), ("failed", "failed"), ("canceled", "canceled")],
)
def test_a_task_has_its_status(status, outcome) -> None:
    document = result(taskId="t", taskStatus=status)
    ran = result_of(document)
    assert (ran.status, ran.outcome) == (status, outcome)
    assert write(read(document)).document == [document]


def test_an_exception_is_a_result_with_an_error() -> None:
    ran = result_of(THROTTLED)
    assert ran.outputs == (ErrorContent(message="Too many requests", code="throttlingException"),)
    assert ran.success is False
    assert write(read(THROTTLED)).document == [THROTTLED]


def test_a_result_is_of_the_request_before_it() -> None:
    ids = [getattr(item, "call_id", "") for item in items_of(read(EVERYTHING))]
    assert ids[::2][:7] == ids[1::2][:7]
    assert len(set(ids)) == 8


def test_bytes_of_the_sdk_are_read_as_base64() -> None:
    assert read(for_sdk(EVERYTHING)) == read(EVERYTHING)


@pytest.mark.parametrize(
    "structured",
    [
        {"stdout": "a"},
        {"stderr": "a", "exitCode": 1},
        {"stdout": "", "stderr": "", "exitCode": 0},
        {"exitCode": 0, "new": 1},
        {},
    ],
)
@pytest.mark.parametrize("content", [[], [text("")], [text("a")], [text("a\n"), text("b")]])
def test_every_result_of_the_service_is_known(structured, content) -> None:
    document = {"result": {"content": content, "structuredContent": structured, "isError": False}}
    assert not any(isinstance(output, UnknownContent) for output in result_of(document).outputs)
    assert write(read(document)).document == [document]


# What is written


def test_everything_comes_back() -> None:
    written = write(read(EVERYTHING))
    assert written.document == EVERYTHING
    assert written.losses == ()


def test_a_result_without_its_event_comes_back() -> None:
    assert write(read(RAN["result"])).document == [RAN["result"]]


def test_what_is_written_is_what_the_service_takes() -> None:
    for document in [*write(read(EVERYTHING)).document, *write(matrix.TRANSCRIPT).document]:
        accepts(document)


def test_results_are_put_after_their_calls() -> None:
    calls = [CodeInterpreterCall(call_id=name, inputs=(code_content(name),)) for name in "ab"]
    results = [CodeInterpreterResult(call_id=name, exit_code=code) for name, code in (("a", 1), ("b", 0))]
    again = items_of(read(write([Message(contents=(*calls, *results))]).document))
    assert [type(item) for item in again] == [CodeInterpreterCall, CodeInterpreterResult] * 2
    assert [item.exit_code for item in again if isinstance(item, CodeInterpreterResult)] == [1, 0]


def test_what_cannot_be_said_is_told() -> None:
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("x", "r"), HostedFileContent(file_id="f")))
    ran = CodeInterpreterResult(
        call_id="c",
        outputs=(
            TextContent(text="out", stream="stdout"),
            ErrorContent(message="broke"),
            DataContent(media_type="image/png", data=b"p", name="chart.png"),
            DataContent(media_type="text/csv", data=b"a,b", name="t.csv"),
            DataContent(media_type="application/zip", data=b"\xff", name="z.zip"),
            HostedFileContent(file_id="made"),
        ),
        outcome="timeout",
    )
    written = write([Message(role="user", contents=(TextContent(text="hi"), call, ran))])
    for document in written.document:
        accepts(document)
    said = written.document[1]["result"]
    assert said["isError"] is True
    assert said["structuredContent"] == {"stdout": "out", "stderr": "error: broke\n"}
    assert [block["type"] for block in said["content"]] == [
        "text",
        "text",
        "image",
        "resource",
        "resource",
        "resource_link",
    ]
    assert {loss.what for loss in written.losses} == {
        "text",
        "code_interpreter_call.inputs",
        "code_interpreter_call.language",
        "code_interpreter_result.error",
        "code_interpreter_result.outcome",
        "hosted_file",
    }


def test_inputs_become_a_request_that_writes_files() -> None:
    tool = HostedCodeInterpreterTool(
        inputs=(DataContent(media_type="text/csv", data=b"a,b", name="t.csv"), HostedFileContent(file_id="f"))
    )
    written = write_tools([tool, HostedFileSearchTool()])
    (document,) = written.document
    accepts(document)
    assert document["arguments"] == {"content": [{"path": "t.csv", "blob": "YSxi"}]}
    assert [loss.what for loss in written.losses] == [
        "code_interpreter.inputs.data.media_type",
        "code_interpreter.inputs.hosted_file",
        "file_search",
    ]


# Streams


def test_a_stream_comes_to_what_the_response_is() -> None:
    for event in (RAN, COMMANDED, THROTTLED):
        assert message_from_updates(Reader().feed(event)).contents == read({"stream": [event]})[0].contents
        assert FORMAT.is_event is not None
        assert FORMAT.is_event(event)


def test_the_events_of_one_invocation_are_one_result() -> None:
    reader = Reader()
    events = [result(text(part), stdout=part) for part in ("4", "2\n")] + [result(exitCode=0)]
    (item,) = message_from_updates(update for event in events for update in reader.feed(event)).contents
    assert isinstance(item, CodeInterpreterResult)
    assert (item.text, item.exit_code) == ("42\n", 0)


@pytest.mark.parametrize("event", [{"newEvent": {"a": 1}}, {"result": None}, {"result": {}}, {}])
def test_an_event_that_is_not_as_it_should_be_is_kept(event) -> None:
    (update,) = Reader().feed(event)
    assert update.contents == (UnknownContent(format="agentcore", raw=event),)


# What is malformed


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "iVBOR", "mimeType": "image/png"},
        {"type": "text", "text": None},
        {"type": "smell"},
        {"type": "resource", "resource": None},
        {"type": "resource", "resource": {"type": "blob", "uri": "a", "blob": "?"}},
        None,
        "text",
    ],
)
def test_a_block_that_is_not_as_it_should_be_is_kept(block) -> None:
    document = {"result": {"content": [block], "isError": False}}
    assert result_of(document).outputs == (UnknownContent(format="agentcore", raw=block),)
    assert write(read(document)).document == [document]


@pytest.mark.parametrize(
    "document",
    [
        {"result": {"content": None}},
        {"result": {"content": [], "structuredContent": 3}},
        {"result": {"content": [], "isError": "yes"}},
        {"content": [], "structuredContent": {"exitCode": "0", "stdout": None}},
        request("executeCode", code=None),
        {"name": "executeCode", "arguments": None},
        {"name": "executeCode"},
        {"stream": []},
        {"stream": [None, {"newException": {}}]},
    ],
)
def test_a_document_that_is_not_as_it_should_be_is_kept(document) -> None:
    assert write(read(document)).document == [document]


def test_a_result_before_its_call_and_two_for_one_call_stay_in_their_order() -> None:
    documents = [RAN, RUN, RAN, COMMANDED]
    assert write(read(documents)).document == documents


def test_a_nul_in_text_is_text() -> None:
    assert result_of(result(stdout="a\0b", exitCode=0)).text == "a\0b"


@pytest.mark.parametrize("document", [{}, [{"a": 1}], [1], "text", 3, None, {"name": "other"}])
def test_what_is_none_of_it_is_refused(document) -> None:
    with pytest.raises(ValueError, match="neither a request nor a result"):
        read(document)


documents = st.one_of(
    st.sampled_from(EVERYTHING),
    st.builds(
        lambda document, more: {**document, **more},
        st.sampled_from([RUN, COMMAND, READ, RAN["result"], COMMANDED["result"]]),
        st.dictionaries(
            st.sampled_from(["name", "arguments", "content", "structuredContent", "isError", "new", "stream"]),
            items_to_try.json_values,
            max_size=2,
        ),
    ),
    st.builds(
        lambda said, structured: {"result": {"content": [text(one) for one in said], "structuredContent": structured}},
        st.lists(items_to_try.texts, max_size=3),
        st.dictionaries(
            st.sampled_from(["stdout", "stderr", "exitCode", "taskStatus", "executionTime"]),
            items_to_try.texts | items_to_try.json_values,
        ),
    ),
    items_to_try.json_values,
)


@pytest.mark.slow
@given(st.lists(documents, max_size=4))
def test_any_documents_come_back_as_they_were(given_documents) -> None:
    try:
        messages = read(given_documents)
    except ValueError:
        return
    assert json.dumps(write(messages).document) is not None
    assert write(messages).document == given_documents


@given(items_to_try.json_values)
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


printed = st.tuples(
    st.builds(TextContent, text=items_to_try.words, stream=st.just("stdout")),
    st.builds(TextContent, text=items_to_try.words, stream=st.just("stderr")),
)
files = st.one_of(
    st.builds(DataContent, media_type=st.just("image/png"), data=st.binary(max_size=9), name=items_to_try.words),
    st.builds(DataContent, media_type=st.just("application/zip"), data=st.binary(max_size=9), name=items_to_try.words),
    st.builds(UriContent, uri=items_to_try.texts, name=st.none() | items_to_try.words),
)


@given(
    items_to_try.texts,
    st.sampled_from(["python", "javascript", "typescript", "shell"]),
    printed,
    st.lists(files, max_size=2),
    st.none() | st.integers(0, 3),
)
def test_what_can_be_said_comes_back(code, language, streams, made, exit_code) -> None:
    """A program in four languages, what it printed on both streams, pictures, files, links, and its exit code."""
    call = CodeInterpreterCall(call_id="code-1", inputs=(code_content(code, language),))
    ran = CodeInterpreterResult(call_id="code-1", outputs=(*streams, *made), exit_code=exit_code)
    written = write([Message(contents=(call, ran))])
    assert written.losses == ()
    call_again, ran_again = items_of(read(written.document))
    assert isinstance(call_again, CodeInterpreterCall)
    assert isinstance(ran_again, CodeInterpreterResult)
    assert call_again.inputs == call.inputs
    bare = [item.model_copy(update={"provider_data": {}}) for item in ran_again.outputs]
    assert (bare, ran_again.exit_code, ran_again.success) == ([*ran.outputs], exit_code, ran.success)


# Its looks


def test_its_documents_are_told_by_their_looks() -> None:
    assert FORMAT.looks_like(EVERYTHING) == 1
    assert FORMAT.looks_like(RAN) > 0.8
    assert FORMAT.looks_like(RAN["result"]) > 0.9


@pytest.mark.parametrize(
    "document",
    [
        {"content": [{"type": "text", "text": "hi"}], "isError": False},
        {"content": [], "structuredContent": {"temperature": 22.5}},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": []}},
        {"role": "user", "content": [{"text": "hi"}]},
        {"type": "function", "name": "look_up", "arguments": "{}"},
        {"messageStart": {"role": "assistant"}},
    ],
)
def test_those_of_others_are_not(document) -> None:
    assert FORMAT.looks_like(document) == 0
    assert FORMAT.is_event is not None
    assert not FORMAT.is_event(document)
