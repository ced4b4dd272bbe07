from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox.content import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
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
    coalesce,
    code_content,
    message_from_dict,
    messages_from_updates,
)
from actbox.content.items import Content
from actbox.content.messages import items_of
from actbox.content.wire.formats import detect, find_format
from tests.content.items_to_try import json_objects, json_values, media_types, messages, texts, words
from tests.content.wire import openai_samples as samples
from tests.content.wire.sdk_types import SdkType

NAME = "openai-responses"
FORMAT = find_format(NAME)
INPUT = SdkType("openai.types.responses:ResponseInputParam")
RESPONSE = SdkType("openai.types.responses:Response")
EVENT = SdkType("openai.types.responses:ResponseStreamEvent")
TOOLS = SdkType("openai.types.responses.tool_param:ToolParam", many=True)


def contents_of(*output: Any) -> list[Content]:
    return items_of(FORMAT.read(samples.response(list(output), usage=None)))


def again(document: Any) -> Any:
    return FORMAT.write(FORMAT.read(copy.deepcopy(document))).document


def streamed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reader = FORMAT.stream()
    return [message.to_dict() for message in messages_from_updates(u for event in events for u in reader.feed(event))]


def test_the_samples_are_what_the_sdk_says() -> None:
    RESPONSE.validate(samples.RESPONSE)
    INPUT.validate(samples.INPUT)
    for event in samples.events_of(samples.RESPONSE):
        EVENT.validate(event)


def test_the_output_of_a_response_is_written_as_it_was() -> None:
    written = FORMAT.write(FORMAT.read(samples.RESPONSE))
    assert written.document == samples.OUTPUT
    assert [loss.what for loss in written.losses] == ["usage"]


def test_the_input_of_a_request_is_written_as_it_was() -> None:
    written = FORMAT.write(FORMAT.read(samples.INPUT))
    assert written.document == samples.INPUT
    assert written.losses == ()


def test_what_is_written_is_a_list_that_the_sdk_takes() -> None:
    INPUT.validate(again(samples.INPUT))


def test_messages_survive_our_own_json_on_the_way() -> None:
    kept = [message_from_dict(json.loads(json.dumps(message.to_dict()))) for message in FORMAT.read(samples.INPUT)]
    assert FORMAT.write(kept).document == samples.INPUT


def test_a_stream_comes_to_what_the_response_does() -> None:
    whole = [message.to_dict() for message in FORMAT.read(samples.RESPONSE)]
    assert streamed(samples.events_of(samples.RESPONSE)) == whole


def test_a_stream_of_dones_only_comes_to_the_same() -> None:
    events = [
        event for event in samples.events_of(samples.RESPONSE) if not event["type"].endswith((".delta", ".added"))
    ]
    assert streamed(events) == [message.to_dict() for message in FORMAT.read(samples.RESPONSE)]


def test_a_stream_without_parts_begun_comes_to_the_same() -> None:
    left_out = ("part.added", "annotation.added", "item.added")
    whole = samples.response([samples.REASONING, samples.CODE, samples.ANSWER])
    events = [event for event in samples.events_of(whole) if not event["type"].endswith(left_out)]
    assert streamed(events) == [message.to_dict() for message in FORMAT.read(whole)]


def test_a_stream_shows_code_and_text_as_they_come() -> None:
    reader, seen, code = FORMAT.stream(), "", ""
    for event in samples.events_of(samples.RESPONSE):
        for item in (item for update in reader.feed(event) for item in update.contents):
            if event["type"] == "response.output_text.delta" and isinstance(item, TextContent):
                seen += item.text
            if event["type"] == "response.code_interpreter_call_code.delta" and isinstance(item, CodeInterpreterCall):
                code += item.code
    assert seen == "".join(part["text"] for part in samples.ANSWER["content"])
    assert code == samples.CODE["code"]


def test_two_responses_in_one_stream_are_two_messages() -> None:
    second = samples.response([samples.REFUSAL], id="resp_2")
    events = [*samples.events_of(samples.RESPONSE), *samples.events_of(second)]
    assert streamed(events) == [message.to_dict() for message in FORMAT.read([samples.RESPONSE, second])]


def test_a_response_that_was_cut_says_why_in_read_and_in_stream() -> None:
    cut = {**samples.ANSWER, "status": "incomplete"}
    why = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    whole = samples.response([cut], **why)
    events = [event for event in samples.events_of(whole) if event["type"] != "response.output_item.done"]
    message = FORMAT.read(whole)[0]
    assert message.finish_reason == "length"
    assert streamed(events) == [message.to_dict()]


def test_a_response_that_failed_has_its_error() -> None:
    failed = samples.response([], status="failed", error={"code": "server_error", "message": "Gone."}, usage=None)
    message = FORMAT.read(failed)[0]
    assert message.finish_reason == "failed"
    assert [(item.code, item.message) for item in message.contents if isinstance(item, ErrorContent)] == [
        ("server_error", "Gone.")
    ]
    assert streamed(samples.events_of(failed)) == [message.to_dict()]


def test_an_error_in_a_stream_is_an_error() -> None:
    event = {"type": "error", "code": "rate_limit", "message": "Slow down.", "param": None, "sequence_number": 3}
    EVENT.validate(event)
    (update,) = FORMAT.stream().feed(event)
    assert isinstance(update.contents[0], ErrorContent)
    assert (update.contents[0].code, update.contents[0].message) == ("rate_limit", "Slow down.")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.telepathy.delta", "delta": "?"},
        {"type": "response.output_text.delta", "delta": None, "output_index": 0, "content_index": 0},
        {"type": "response.completed"},
        {"type": None},
        {},
    ],
)
def test_an_event_that_is_not_known_is_kept(event: dict[str, Any]) -> None:
    (update,) = FORMAT.stream().feed(event)
    (item,) = update.contents
    assert isinstance(item, UnknownContent)
    assert item.raw == event


def test_code_and_what_it_came_to_are_a_call_and_a_result() -> None:
    call, result = contents_of(samples.CODE)
    assert isinstance(call, CodeInterpreterCall) and isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language, call.status) == (samples.CODE["code"], "python", "completed")
    assert call.provider_data[NAME]["container_id"] == "cntr_1"
    assert (result.text, result.outcome, result.success) == ("x    3\ny    4\n", "ok", True)
    picture, link = result.outputs[2:]
    assert isinstance(picture, DataContent) and isinstance(link, UriContent)
    assert (picture.media_type, picture.name) == ("image/png", "image-3.png")
    assert link.uri == "https://files.example/cfile_2"


def test_code_that_has_not_run_has_no_result() -> None:
    item = {**samples.CODE, "status": "interpreting", "outputs": None}
    assert [content.type for content in contents_of(item)] == ["code_interpreter_call"]
    assert again([item]) == [item]


def test_outputs_that_were_not_asked_for_stay_null() -> None:
    item = {**samples.CODE, "outputs": None}
    _, result = contents_of(item)
    assert isinstance(result, CodeInterpreterResult)
    assert result.outputs == ()
    assert again([item]) == [item]


def test_a_failed_call_of_code_is_no_success() -> None:
    _, result = contents_of({**samples.CODE, "status": "failed", "outputs": []})
    assert isinstance(result, CodeInterpreterResult)
    assert result.success is False


def test_a_shell_says_what_was_printed_where_and_how_it_ended() -> None:
    call, result = contents_of(samples.SHELL, samples.SHELL_OUTPUT)
    assert isinstance(call, CodeInterpreterCall) and isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language) == ("ls -l\ncat missing", "shell")
    assert (result.exit_code, result.outcome) == (1, "failed")
    printed = [(item.stream, item.text) for item in result.outputs if isinstance(item, TextContent)]
    assert printed == [("stdout", "total 0\n"), ("stderr", "cat: missing: No such file\n")]


def test_a_shell_that_took_too_long_is_a_timeout() -> None:
    chunk = {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
    (result,) = contents_of({**samples.SHELL_OUTPUT, "output": [chunk]})
    assert isinstance(result, CodeInterpreterResult)
    assert (result.outcome, result.exit_code, result.success) == ("timeout", None, False)


def test_an_unknown_outcome_of_a_shell_is_kept() -> None:
    chunk = {"stdout": "a", "stderr": "", "outcome": {"type": "signal", "signal": 9}}
    item = {**samples.SHELL_OUTPUT, "output": [chunk]}
    (result,) = contents_of(item)
    assert isinstance(result, CodeInterpreterResult)
    assert (result.outcome, result.success) == ("signal", None)
    assert again([item]) == [item]


def test_our_own_result_of_a_shell_call_goes_back_to_the_shell() -> None:
    ran = CodeInterpreterResult(
        call_id="call_2",
        outputs=(TextContent(text="a\n", stream="stdout"), TextContent(text="b\n", stream="stderr")),
        exit_code=3,
        outcome="failed",
    )
    written = FORMAT.write([*FORMAT.read([samples.SHELL]), Message(role="tool", contents=(ran,))])
    chunk = {"stdout": "a\n", "stderr": "b\n", "outcome": {"type": "exit", "exit_code": 3}}
    assert written.document[1] == {"type": "shell_call_output", "call_id": "call_2", "output": [chunk]}
    INPUT.validate(written.document)
    assert written.losses == ()


def test_a_call_by_a_program_knows_its_program() -> None:
    program, call, result = contents_of(samples.PROGRAM, samples.CALL_OF_PROGRAM, samples.PROGRAM_OUTPUT)
    assert isinstance(program, CodeInterpreterCall) and isinstance(call, FunctionCall)
    assert isinstance(result, CodeInterpreterResult)
    assert program.language == "javascript"
    assert call.called_by == program.call_id == result.call_id


def test_a_response_that_waits_for_a_tool_says_so() -> None:
    assert FORMAT.read(samples.RESPONSE)[0].finish_reason == "tool_calls"
    assert FORMAT.read(samples.response([samples.SHELL, samples.SHELL_OUTPUT]))[0].finish_reason == "stop"


def test_citations_have_their_place_and_their_file() -> None:
    text = next(item for item in contents_of(samples.ANSWER) if isinstance(item, TextContent))
    file, page = text.annotations
    assert text.text[file.start : file.end] == "chart.png"
    assert (file.kind, file.container_id, file.file_id) == ("container_file_citation", "cntr_1", "cfile_1")
    assert (page.url, page.title) == ("https://example.org/manual", "Manual")


def test_usage_has_its_details() -> None:
    usage = FORMAT.read(samples.RESPONSE)[0].contents[-1]
    assert isinstance(usage, UsageContent)
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (312, 96, 408)
    assert usage.counts["input_tokens_details.cached_tokens"] == 128


MALFORMED: list[Any] = [
    {**samples.CODE, "outputs": [{"type": "image", "url": "data:image/png;base64,AAA"}]},
    {**samples.CODE, "outputs": [None, 5, {"type": "logs", "logs": None}, {"type": "sound", "url": "x"}]},
    {**samples.CODE, "outputs": {"type": "logs"}},
    {**samples.CODE, "code": ["print"]},
    {**samples.CODE, "code": None, "status": "dreaming"},
    {**samples.CODE, "code": "print('\0')", "outputs": [{"type": "logs", "logs": "\0"}]},
    {"type": "code_interpreter_call"},
    {"type": "code_interpreter_call", "id": "ci_9"},
    {**samples.ANSWER, "content": None},
    {**samples.ANSWER, "content": []},
    {**samples.ANSWER, "content": [{"type": "output_text", "text": None, "annotations": []}]},
    {**samples.ANSWER, "content": [{"type": "output_text", "text": "a", "annotations": None}]},
    {**samples.ANSWER, "content": [{"type": "output_text", "text": "a", "annotations": [None, {"type": "new"}]}]},
    {**samples.ANSWER, "content": [{"type": "output_text", "text": "a"}, "b", {"type": "input_audio"}]},
    {**samples.SHELL_OUTPUT, "output": None},
    {**samples.SHELL_OUTPUT, "output": []},
    {**samples.SHELL_OUTPUT, "output": [{"stdout": None, "stderr": ""}, "x", {"stdout": "a", "stderr": "b"}]},
    {**samples.SHELL, "action": {"commands": None}},
    {**samples.SHELL, "action": {"commands": []}},
    {**samples.LOCAL_SHELL, "action": {"type": "exec", "command": None}},
    {**samples.CALL, "arguments": {"already": "parsed"}},
    {**samples.CALL, "arguments": '{"cut": '},
    {**samples.CALL, "call_id": None},
    {**samples.REASONING, "summary": None},
    {**samples.REASONING, "summary": []},
    {**samples.REASONING, "summary": [{"type": "summary_text", "text": "a", "more": 1}]},
    {**samples.REASONING, "content": [{"type": "reasoning_text", "text": "a"}], "summary": []},
    {"type": "function_call_output", "call_id": "call_1", "output": [None, {"type": "input_image", "file_id": ""}]},
    {"type": "function_call_output", "call_id": "call_1", "output": None},
    {"type": "input_text", "text": "a part alone"},
    {"type": "telepathy", "id": "t_1"},
    {"type": ["message"], "id": "t_2", "role": "user"},
]


@pytest.mark.parametrize("item", [item for item in MALFORMED if item.get("type") != "input_text"], ids=str)
def test_an_item_that_is_not_as_it_should_be_is_written_as_it_was(item: Any) -> None:
    assert again([item]) == [item]


@pytest.mark.parametrize("item", [item for item in MALFORMED if "id" in item], ids=str)
def test_a_stream_of_an_odd_item_comes_to_what_its_response_does(item: Any) -> None:
    whole = samples.response([item])
    events = [
        {"type": "response.created", "response": {**whole, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    assert streamed(events) == [message.to_dict() for message in FORMAT.read(whole)]


def test_a_part_alone_becomes_a_message() -> None:
    part = {"type": "input_text", "text": "a part alone"}
    assert FORMAT.read(part)[0].role == "user"
    assert again(part) == [{"type": "message", "role": "user", "content": [part]}]


def test_a_result_before_its_call_still_finds_it() -> None:
    result = Message(role="tool", contents=(CodeInterpreterResult(call_id="ci_1", outcome="failed"),))
    call = Message(contents=(CodeInterpreterCall(call_id="ci_1", inputs=(code_content("1/0"),)),))
    (item,) = FORMAT.write([result, call]).document
    assert (item["code"], item["status"], item["outputs"]) == ("1/0", "failed", [])


def test_of_two_results_of_one_call_both_are_written() -> None:
    results = [CodeInterpreterResult(call_id="ci_1", outputs=(TextContent(text=text),)) for text in "ab"]
    call = CodeInterpreterCall(call_id="ci_1", inputs=(code_content("x"),))
    items = FORMAT.write([Message(contents=(call, *results))]).document
    assert [item["outputs"] for item in items] == [[{"type": "logs", "logs": "a"}], [{"type": "logs", "logs": "b"}]]
    assert [item["code"] for item in items] == ["x", None]


@pytest.mark.parametrize("document", [None, 5, "text", {"a": 1}, [1, 2], {"type": 5}, {"type": []}])
def test_what_is_no_document_of_this_format_is_a_clear_error(document: Any) -> None:
    with pytest.raises(ValueError, match="Responses API"):
        FORMAT.read(document)


def test_what_the_format_cannot_say_is_reported() -> None:
    call = CodeInterpreterCall(
        call_id="c1",
        inputs=(code_content("1/0"), DataContent(media_type="text/csv", data=b"x", name="a.csv")),
    )
    result = CodeInterpreterResult(
        call_id="c1",
        outputs=(
            TextContent(text="out", stream="stdout"),
            TextContent(text="err", stream="stderr"),
            ErrorContent(message="division by zero", code="ZeroDivisionError"),
            DataContent(media_type="image/png", data=b"p", name="plot.png"),
            DataContent(media_type="text/csv", data=b"x", name="b.csv"),
        ),
        exit_code=1,
        outcome="failed",
    )
    written = FORMAT.write([Message(author="ada", contents=(ReasoningContent(text="Hm."), call, result))])
    (item,) = written.document
    assert item["outputs"][0]["logs"] == "outerr\nerror ZeroDivisionError: division by zero"
    assert item["status"] == "failed"
    assert {loss.what for loss in written.losses} == {
        "message.author",
        "reasoning",
        "code_interpreter_call.inputs.data",
        "code_interpreter_result.exit_code",
        "text.stream",
        "error",
        "data.name",
        "data",
    }
    INPUT.validate(written.document)


def test_code_of_a_language_without_a_tool_becomes_a_function() -> None:
    call = CodeInterpreterCall(call_id="c1", inputs=(code_content("1+1", "javascript"),))
    result = CodeInterpreterResult(call_id="c1", outputs=(TextContent(text="2"),))
    written = FORMAT.write([Message(contents=(call, result))])
    assert [item["type"] for item in written.document] == ["function_call", "function_call_output"]
    assert {loss.what for loss in written.losses} == {"code_interpreter_call", "code_interpreter_result"}


def test_annotated_text_of_others_is_written_with_its_citations() -> None:
    annotations = (
        Annotation(url="https://example.org", title="A page", start=0, end=3, snippet="A"),
        Annotation(file_id="f1", start=3, end=3),
        Annotation(file_id="f2", container_id="c1"),
        Annotation(kind="other"),
    )
    written = FORMAT.write([Message(contents=(TextContent(text="See", annotations=annotations),))])
    INPUT.validate(written.document)
    kinds = [annotation["type"] for annotation in written.document[0]["content"][0]["annotations"]]
    assert kinds == ["url_citation", "file_citation", "container_file_citation"]
    assert {loss.what for loss in written.losses} == {"annotation", "annotation.snippet"}


def test_tools_have_their_files_stores_and_most_results() -> None:
    tools = [
        HostedCodeInterpreterTool(inputs=(HostedFileContent(file_id="file_1"), TextContent(text="x"))),
        HostedFileSearchTool(
            inputs=(HostedVectorStoreContent(vector_store_id="vs_1"), HostedFileContent(file_id="file_2")),
            maximum_result_count=90,
        ),
        HostedCodeInterpreterTool(inputs=(HostedFileContent(file_id="cfile_1", container_id="cntr_1"),)),
    ]
    assert FORMAT.write_tools is not None
    written = FORMAT.write_tools(tools)
    assert written.document == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}},
        {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 50},
        {"type": "code_interpreter", "container": "cntr_1"},
    ]
    assert [loss.what for loss in written.losses] == [
        "code_interpreter.inputs.text",
        "file_search.inputs.hosted_file",
        "file_search.maximum_result_count",
    ]
    TOOLS.validate(written.document)


def test_it_is_told_by_its_looks() -> None:
    assert FORMAT.looks_like(samples.RESPONSE) == 1
    assert FORMAT.looks_like(samples.INPUT) > 0.9
    others: list[Any] = [
        {**samples.RESPONSE, "agent_reference": {"type": "agent_reference", "name": "a"}},
        [{"role": "user", "contents": [{"type": "text", "text": "a"}]}],
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"candidates": []},
        {"content": [{"type": "text", "text": "a"}], "isError": False},
        [],
        5,
    ]
    assert [FORMAT.looks_like(document) for document in others] == [0] * len(others)
    assert FORMAT.is_event is not None
    assert all(FORMAT.is_event(event) for event in samples.events_of(samples.RESPONSE))
    assert not FORMAT.is_event({"type": "message_start", "message": {}})


_names = st.sampled_from(["type", "id", "output", "content", "role", "text", "call_id", "status", "code", "outputs"])
_kinds = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "function_call_output", "code_interpreter_call", "shell_call"),
        *("shell_call_output", "local_shell_call", "local_shell_call_output", "program", "program_output"),
        *("output_text", "input_text", "input_image", "input_file", "logs", "image", "refusal", "url_citation"),
        *("custom_tool_call", "custom_tool_call_output", "item_reference", "new"),
    ]
)
_fields = st.sampled_from(
    [
        *("id", "content", "role", "text", "call_id", "status", "code", "outputs", "output", "summary", "arguments"),
        *("name", "annotations", "logs", "url", "action", "commands", "command", "stdout", "stderr", "outcome", "item"),
        *("image_url", "file_data", "encrypted_content", "result", "input", "data"),
    ]
)
_odd = st.recursive(
    json_values,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(lambda kind, rest: {**rest, "type": kind}, _kinds, st.dictionaries(_fields, inner, max_size=5))
    ),
    max_leaves=8,
)
_EVENTS = sorted({event["type"] for event in samples.events_of(samples.RESPONSE)})
_odd_items = st.builds(lambda kind, rest: {**rest, "type": kind}, _kinds, st.dictionaries(_fields, _odd, max_size=6))


@settings(max_examples=40, deadline=None)
@given(json_values | _odd | json_objects)
def test_any_json_is_read_or_refused(document: Any) -> None:
    try:
        FORMAT.read(document)
    except ValueError:
        pass
    FORMAT.looks_like(document)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(_odd_items, max_size=4))
def test_any_list_of_items_is_written_as_it_was(items: list[Any]) -> None:
    items = [item for item in items if item["type"] not in ("output_text", "input_text", "refusal")]
    items = [item for item in items if item["type"] not in ("input_image", "input_file")]
    assert again(items) == items


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(_fields, _odd, max_size=5),
    st.sampled_from(sorted({e["type"] for e in samples.events_of(samples.RESPONSE)})),
)
def test_any_event_is_read(fields: dict[str, Any], kind: str) -> None:
    reader = FORMAT.stream()
    reader.feed({**fields, "type": kind, "output_index": 0, "content_index": 0, "summary_index": 0, "command_index": 0})


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(messages, max_size=3))
def test_any_messages_can_be_written(some: list[Message]) -> None:
    again(FORMAT.write(some).document)


_spoken = st.builds(TextContent, text=texts)
_files = (
    st.builds(DataContent, media_type=media_types, data=st.binary(max_size=9), name=words)
    | st.builds(HostedFileContent, file_id=words, name=st.none() | words)
    | st.builds(UriContent, uri=words, name=st.none() | words)
)
_codes = st.builds(
    lambda code, outputs, outcome: (
        CodeInterpreterCall(
            call_id="", inputs=(code_content(code),), status="completed" if outcome == "ok" else "failed"
        ),
        CodeInterpreterResult(
            call_id="", outputs=coalesce(TextContent(text=text, stream="stdout") for text in outputs), outcome=outcome
        ),
    ),
    texts,
    st.lists(texts, max_size=2),
    st.sampled_from(["ok", "failed"]),
)


def _plain(item: Content) -> Any:
    """Return an item without what only this format has, and without what it cannot say of pictures: their names."""
    data = item.to_dict()
    for inner in [data, *data.get("inputs", []), *data.get("outputs", [])]:
        inner.pop("provider_data", None)
    if data["type"] in ("data", "hosted_file", "uri") and "image" in str(data.get("media_type")):
        data.pop("name", None)
    return data


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(_spoken | _files, min_size=1, max_size=3),
    st.lists(_spoken, max_size=2),
    _codes,
    st.builds(FunctionCall, call_id=words, name=words, arguments=json_objects),
    st.builds(FunctionResult, call_id=words, outputs=st.lists(_spoken, min_size=1, max_size=2).map(tuple)),
)
def test_text_files_code_and_functions_go_there_and_back(
    asked: list[Content],
    said: list[Content],
    code: tuple[CodeInterpreterCall, CodeInterpreterResult],
    call: FunctionCall,
    result: FunctionResult,
) -> None:
    asked = [item for item in asked if not isinstance(item, HostedFileContent | UriContent) or item.media_type is None]
    turns = [
        Message(role="user", contents=tuple(asked)),
        Message(contents=(*said, *(item.model_copy(update={"call_id": "ci_1"}) for item in code), call)),
        Message(role="tool", contents=(result,)),
    ]
    written = FORMAT.write(turns)
    INPUT.validate(written.document)
    back = FORMAT.read(written.document)
    assert [_plain(item) for item in items_of(back)] == [_plain(item) for item in items_of(turns)]


def test_output_of_a_shell_that_was_null_takes_text_again() -> None:
    ended = {"stdout": "a", "stderr": None, "outcome": {"type": "exit", "exit_code": 0}}
    late = {"stdout": "", "stderr": "boo", "outcome": {"type": "timeout"}}
    items = [
        {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "shell_call_output", "id": "o", "call_id": "c", "output": [ended, late]},
    ]
    messages = find_format("openai-responses").read(items)
    for format in ("openai-responses", "azure-foundry", "anthropic"):
        assert find_format(format).write(messages).document


# What xAI answers, where the item of a run has its program in the arguments, as a call of a function has.
OF_XAI = {
    "arguments": '{"code":"print(6 * 7)"}',
    "call_id": "",
    "name": "code_execution",
    "type": "code_interpreter_call",
    "id": "fc_5138abcf_0",
    "status": "completed",
}


@pytest.mark.parametrize("empty", [{}, {"code": None}, {"code": ""}], ids=["absent", "null", "empty"])
def test_a_program_of_xai_is_read_from_the_arguments(empty: dict[str, Any]) -> None:
    item = {**OF_XAI, **empty}
    whole = samples.response([item])
    call, result, *_ = FORMAT.read(whole)[0].contents
    assert isinstance(call, CodeInterpreterCall) and (call.code, call.language) == ("print(6 * 7)", "python")
    assert isinstance(result, CodeInterpreterResult) and result.call_id == call.call_id == "fc_5138abcf_0"
    assert again([item]) == [item]
    begun = {**item, "status": "in_progress", "arguments": ""}
    events = [
        {"type": "response.created", "response": {**whole, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.code_interpreter_call.interpreting", "output_index": 0, "item_id": item["id"]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    assert streamed(events) == [message.to_dict() for message in FORMAT.read(whole)]


@pytest.mark.parametrize("empty", [{}, {"code": None}, {"code": ""}], ids=["absent", "null", "empty"])
def test_a_program_of_xai_that_was_changed_is_written_without_the_old_one(empty: dict[str, Any]) -> None:
    (message,) = FORMAT.read([{**OF_XAI, **empty}])
    call, *others = message.contents
    changed = call.model_copy(update={"inputs": (code_content("print(43)"),)})
    (item,) = FORMAT.write([message.model_copy(update={"contents": (changed, *others)})]).document
    assert item["code"] == "print(43)" and "arguments" not in item


# The item as the proposal of Microsoft.Extensions.AI writes it (dotnet/extensions, pull request 6620).
PICTURE = base64.b64encode(b"\xff\xd8\xff picture").decode()
PROPOSED = {
    "type": "code_interpreter_call",
    "outputs": [
        {"type": "output_text", "text": "Calculation result: 42"},
        {"type": "output_text", "text": "and more"},
        {"type": "output_image", "image": PICTURE},
    ],
}


def test_outputs_may_be_output_text_and_output_image() -> None:
    assert detect(PROPOSED) is FORMAT
    _, result = FORMAT.read(PROPOSED)[0].contents
    assert isinstance(result, CodeInterpreterResult)
    assert [item.text for item in result.outputs if isinstance(item, TextContent)] == [
        "Calculation result: 42",
        "and more",
    ]
    (picture,) = (item for item in result.outputs if isinstance(item, DataContent))
    assert (picture.media_type, picture.data, picture.name) == ("image/jpeg", b"\xff\xd8\xff picture", "image-3.jpeg")
    assert again(PROPOSED) == [PROPOSED]


@pytest.mark.parametrize("outputs", [None, [{"type": "logs", "logs": "one\ntwo\n"}]], ids=["no outputs", "outputs"])
def test_output_is_handed_on_as_it_is_streamed(outputs: Any) -> None:
    item = {**samples.CODE, "outputs": outputs}
    deltas = [
        {"type": "response.code_interpreter_call_output.delta", "output_index": 0, "item_id": item["id"], "delta": text}
        for text in ("one\n", "two\n", {"type": "output_image", "image": PICTURE})
    ]
    begun = {**item, "status": "in_progress", "code": "", "outputs": None}
    (before,) = streamed([{"type": "response.output_item.added", "output_index": 0, "item": begun}, *deltas])
    printed, picture = before["contents"][1]["outputs"]
    assert (printed["text"], printed["stream"], picture["type"]) == ("one\ntwo\n", "stdout", "data")
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    (after,) = streamed([{"type": "response.output_item.added", "output_index": 0, "item": begun}, *deltas, done])
    # The outputs of the item are the whole of them, unless it has none.
    assert len(after["contents"][1]["outputs"]) == (2 if outputs is None else 1)
    assert after["contents"][1]["outputs"][0]["text"] == "one\ntwo\n"
