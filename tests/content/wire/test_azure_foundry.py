from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    ErrorContent,
    FunctionResult,
    HostedCodeInterpreterTool,
    HostedFileContent,
    HostedFileSearchTool,
    HostedVectorStoreContent,
    Message,
    TextContent,
    UnknownContent,
    UriContent,
    message_from_dict,
    messages_from_updates,
)
from actbox.content.wire.azure_foundry import write_agent_tools
from actbox.content.wire.formats import find_format
from tests.content.items_to_try import json_values, messages
from tests.content.wire import openai_samples as samples
from tests.content.wire.sdk_types import SdkType

SDK_MESSAGE = SdkType("openai.types.beta.threads:Message")
SDK_STEP = SdkType("openai.types.beta.threads.runs:RunStep")
SDK_RESPONSE = SdkType("openai.types.responses:Response")

NAME = "azure-foundry"
FORMAT = find_format(NAME)

AGENT = {"type": "agent_reference", "name": "analyst", "version": "3"}
RESPONSE = samples.response(
    [{**item, "response_id": "resp_1", "agent_reference": AGENT} for item in samples.OUTPUT],
    agent_reference=AGENT,
)

_OF_THREAD = {"thread_id": "thread_1", "run_id": "run_1", "assistant_id": "asst_1", "metadata": {}}
ANSWER = {
    "id": "msg_1",
    "object": "thread.message",
    "created_at": 1760000000,
    "status": "completed",
    "incomplete_details": None,
    "completed_at": 1760000009,
    "incomplete_at": None,
    "role": "assistant",
    "content": [
        {"type": "image_file", "image_file": {"file_id": "assistant-1"}},
        {
            "type": "text",
            "text": {
                "value": "See the page【1†source】 and sandbox:/mnt/data/a.csv",
                "annotations": [
                    {
                        "type": "url_citation",
                        "text": "【1†source】",
                        "start_index": 12,
                        "end_index": 22,
                        "url_citation": {"url": "https://example.org", "title": "A page"},
                    },
                    {
                        "type": "file_path",
                        "text": "sandbox:/mnt/data/a.csv",
                        "start_index": 27,
                        "end_index": 50,
                        "file_path": {"file_id": "assistant-2"},
                    },
                    {
                        "type": "file_citation",
                        "text": "x",
                        "start_index": 0,
                        "end_index": 3,
                        "file_citation": {"file_id": "assistant-3", "quote": "as it says"},
                    },
                ],
            },
        },
        {"type": "text", "text": {"value": "And that is all.", "annotations": []}},
    ],
    "attachments": [],
    **_OF_THREAD,
}
STEP = {
    "id": "step_1",
    "object": "thread.run.step",
    "type": "tool_calls",
    "status": "completed",
    "created_at": 1760000001,
    "step_details": {
        "type": "tool_calls",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "code_interpreter",
                "code_interpreter": {
                    "input": "print(1)\nplot()",
                    "outputs": [
                        {"type": "logs", "logs": "1\n"},
                        {"type": "logs", "logs": "2\n"},
                        {"type": "image", "image": {"file_id": "assistant-1"}},
                    ],
                },
            },
            {
                "id": "call_2",
                "type": "function",
                "function": {"name": "lookup", "arguments": '{"id": 1}', "output": "Ada"},
            },
        ],
    },
    "last_error": None,
    "completed_at": 1760000002,
    "cancelled_at": None,
    "failed_at": None,
    "expired_at": None,
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    **_OF_THREAD,
}
OWN_STEP = {
    **STEP,
    "id": "step_2",
    "status": "failed",
    "last_error": {"code": "server_error", "message": "Bing is away."},
    "step_details": {
        "type": "tool_calls",
        "tool_calls": [{"id": "call_3", "type": "bing_grounding", "bing_grounding": {"requesturl": "https://x"}}],
    },
}
CREATION = {
    **STEP,
    "id": "step_3",
    "type": "message_creation",
    "step_details": {"type": "message_creation", "message_creation": {"message_id": "msg_1"}},
}
RUN = {"id": "run_1", "object": "thread.run", "status": "completed", "usage": STEP["usage"], "last_error": None}
ASKED = {
    "role": "user",
    "content": [
        {"type": "text", "text": "What is in the file?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "image_file", "image_file": {"file_id": "assistant-4", "detail": "auto"}},
    ],
    "attachments": [
        {"file_id": "assistant-5", "tools": [{"type": "code_interpreter"}]},
        {
            "data_source": {"uri": "azureml://data/1", "type": "uri_asset"},
            "tools": [{"type": "code_interpreter"}],
        },
    ],
}
PLAIN = {"role": "user", "content": "Hello", "attachments": None}
THREAD = [ASKED, PLAIN, STEP, OWN_STEP, CREATION, ANSWER, RUN]


def again(document: Any) -> Any:
    return FORMAT.write(FORMAT.read(copy.deepcopy(document))).document


def events_of_thread() -> list[dict[str, Any]]:
    step, answer = copy.deepcopy(STEP), copy.deepcopy(ANSWER)
    code, function = step["step_details"]["tool_calls"]
    events = [("thread.run.created", RUN), ("thread.run.step.created", {**step, "status": "in_progress"})]

    def call(index: int, **said: Any) -> None:
        details = {"type": "tool_calls", "tool_calls": [{"index": index, **said}]}
        delta = {"id": "step_1", "object": "thread.run.step.delta", "delta": {"step_details": details}}
        events.append(("thread.run.step.delta", delta))

    call(0, id="call_1", type="code_interpreter", code_interpreter={"input": "", "outputs": []})
    for piece in ("print(", "1)\npl", "ot()"):
        call(0, type="code_interpreter", code_interpreter={"input": piece})
    for number, output in enumerate(code["code_interpreter"]["outputs"]):
        call(0, type="code_interpreter", code_interpreter={"outputs": [{"index": number, **output}]})
    call(1, id="call_2", type="function", function={"name": "lookup", "arguments": "", "output": None})
    call(1, type="function", function={"arguments": '{"id"'})
    call(1, type="function", function={"arguments": ": 1}"})
    assert function["id"] == "call_2"
    events.append(("thread.run.step.completed", step))
    events += [("thread.message.created", {**answer, "content": []}), ("thread.message.in_progress", answer)]
    image = {"index": 0, **answer["content"][0]}
    events.append(("thread.message.delta", {"id": "msg_1", "delta": {"content": [image]}}))
    for index in (1, 2):
        text = answer["content"][index]["text"]
        for at in range(0, len(text["value"]), 9):
            said: dict[str, Any] = {"value": text["value"][at : at + 9]}
            if at == 9 and text["annotations"]:
                said["annotations"] = [{"index": 0, **text["annotations"][0]}]
            part = {"index": index, "type": "text", "text": said}
            events.append(("thread.message.delta", {"id": "msg_1", "delta": {"content": [part]}}))
        for number, annotation in enumerate(text["annotations"][1:], 1):
            part = {"index": index, "type": "text", "text": {"annotations": [{"index": number, **annotation}]}}
            events.append(("thread.message.delta", {"id": "msg_1", "delta": {"content": [part]}}))
    events += [("thread.message.completed", answer), ("thread.run.step.completed", CREATION)]
    events.append(("thread.run.completed", RUN))
    return [*({"event": name, "data": data} for name, data in events), {"event": "done", "data": "[DONE]"}]


def streamed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reader = FORMAT.stream()
    return [message.to_dict() for message in messages_from_updates(u for event in events for u in reader.feed(event))]


def test_the_samples_are_what_the_sdk_says_where_it_knows_them() -> None:
    SDK_RESPONSE.validate(RESPONSE)
    SDK_STEP.validate(STEP)
    SDK_STEP.validate(CREATION)
    plain = copy.deepcopy(ANSWER)
    del plain["content"][1]["text"]["annotations"][0]
    SDK_MESSAGE.validate(plain)


def test_a_response_of_an_agent_is_written_as_it_was() -> None:
    messages = FORMAT.read(RESPONSE)
    assert FORMAT.write(messages).document == RESPONSE["output"]
    assert messages[0].provider_data[NAME]["response"]["agent_reference"] == AGENT


def test_nothing_of_a_response_is_under_the_name_of_the_other_format() -> None:
    assert "openai-responses" not in json.dumps(
        [message.to_dict() for message in FORMAT.read([*RESPONSE["output"], 5])]
    )


def test_a_stream_of_an_agent_comes_to_what_its_response_does() -> None:
    assert streamed(samples.events_of(RESPONSE)) == [message.to_dict() for message in FORMAT.read(RESPONSE)]


def test_a_thread_is_written_as_it_was() -> None:
    written = FORMAT.write(FORMAT.read(copy.deepcopy(THREAD)))
    assert written.document == THREAD
    assert written.losses == ()


def test_a_thread_survives_our_own_json_on_the_way() -> None:
    kept = [message_from_dict(json.loads(json.dumps(message.to_dict()))) for message in FORMAT.read(THREAD)]
    assert FORMAT.write(kept).document == THREAD


def test_a_stream_of_a_thread_comes_to_what_its_documents_do() -> None:
    documents = [STEP, ANSWER, CREATION, RUN]
    assert streamed(events_of_thread()) == [message.to_dict() for message in FORMAT.read(documents)]


def test_a_stream_of_a_thread_without_pieces_comes_to_the_same() -> None:
    events = [event for event in events_of_thread() if not event["event"].endswith(".delta")]
    assert streamed(events) == [message.to_dict() for message in FORMAT.read([STEP, ANSWER, CREATION, RUN])]


def test_code_in_a_step_is_a_call_and_a_result() -> None:
    call, result, _, looked_up, _ = FORMAT.read(STEP)[0].contents
    assert isinstance(call, CodeInterpreterCall) and isinstance(result, CodeInterpreterResult)
    assert isinstance(looked_up, FunctionResult)
    assert (call.code, result.text, result.success) == ("print(1)\nplot()", "1\n2\n", True)
    assert isinstance(result.outputs[2], HostedFileContent)
    assert looked_up.text == "Ada"


def test_a_failed_step_shows_its_error_and_keeps_the_call_that_only_azure_has() -> None:
    call, error, _ = FORMAT.read(OWN_STEP)[0].contents
    assert isinstance(call, UnknownContent) and isinstance(error, ErrorContent)
    assert error.message == "Bing is away."


def test_citations_name_pages_and_files() -> None:
    text = FORMAT.read(ANSWER)[0].contents[1]
    page, path, citation = text.annotations
    assert (page.url, page.title, page.start, page.end) == ("https://example.org", "A page", 12, 22)
    assert (path.file_id, citation.file_id, citation.snippet) == ("assistant-2", "assistant-3", "as it says")


def test_attachments_are_files_hosted_or_in_azure() -> None:
    file, asset = FORMAT.read(ASKED)[0].contents[3:]
    assert isinstance(file, HostedFileContent) and isinstance(asset, UriContent)
    assert (file.file_id, asset.uri) == ("assistant-5", "azureml://data/1")


@pytest.mark.parametrize(
    "document",
    [
        {**ANSWER, "content": None},
        {**ANSWER, "content": []},
        {**ANSWER, "content": [None, {"type": "text"}, {"type": "text", "text": {"value": None}}, {"type": "new"}]},
        {**ANSWER, "content": [{"type": "text", "text": {"value": "\0", "annotations": None}}]},
        {**ANSWER, "content": [{"type": "text", "text": {"value": "a", "annotations": [None, {"type": "new"}]}}]},
        {**ANSWER, "attachments": [None]},
        {**STEP, "step_details": None},
        {**STEP, "step_details": {"type": "tool_calls", "tool_calls": None}},
        {**STEP, "step_details": {"type": "tool_calls", "tool_calls": []}},
        {**STEP, "step_details": {"type": "tool_calls", "tool_calls": [None, {"type": "code_interpreter"}]}},
        {**STEP, "status": "dreaming"},
        {"object": "thread.new", "id": "n_1"},
    ],
    ids=str,
)
def test_a_document_that_is_not_as_it_should_be_is_written_as_it_was(document: Any) -> None:
    assert again([document]) == [document]


def test_an_event_that_is_not_known_is_kept() -> None:
    for event in ({"event": "thread.telepathy", "data": {}}, {"event": "thread.run.step.delta", "data": None}):
        (update,) = FORMAT.stream().feed(event)
        assert isinstance(update.contents[0], UnknownContent)
        assert update.contents[0].raw == event


def test_messages_of_others_become_items_of_responses() -> None:
    written = FORMAT.write([Message(role="user", contents=(TextContent(text="Hi"),)), *FORMAT.read(STEP)])
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    assert written.document == [said, STEP]


def test_tools_of_an_agent_have_files_or_assets_and_stores() -> None:
    tools = [
        HostedCodeInterpreterTool(inputs=(UriContent(uri="azureml://data/1"), TextContent(text="x"))),
        HostedFileSearchTool(inputs=(HostedVectorStoreContent(vector_store_id="vs_1"),), maximum_result_count=7),
    ]
    written = write_agent_tools(tools)
    assert written.document == {
        "tools": [{"type": "code_interpreter"}, {"type": "file_search", "file_search": {"max_num_results": 7}}],
        "tool_resources": {
            "code_interpreter": {"data_sources": [{"uri": "azureml://data/1", "type": "uri_asset"}]},
            "file_search": {"vector_store_ids": ["vs_1"]},
        },
    }
    assert [loss.what for loss in written.losses] == ["code_interpreter.inputs.text"]


def test_files_and_assets_together_are_reported() -> None:
    inputs = (UriContent(uri="azureml://data/1"), HostedFileContent(file_id="assistant-1"))
    written = write_agent_tools([HostedCodeInterpreterTool(inputs=inputs)])
    assert written.document["tool_resources"] == {"code_interpreter": {"file_ids": ["assistant-1"]}}
    assert [loss.what for loss in written.losses] == ["code_interpreter.inputs.uri"]


def test_tools_of_a_definition_are_those_of_responses() -> None:
    assert FORMAT.write_tools is not None
    written = FORMAT.write_tools([HostedCodeInterpreterTool(inputs=(HostedFileContent(file_id="assistant-1"),))])
    assert written.document == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["assistant-1"]}}
    ]


def test_it_is_told_by_what_only_it_has() -> None:
    assert [FORMAT.looks_like(document) for document in (RESPONSE, ANSWER, OWN_STEP, ASKED, THREAD)] == [1] * 5
    others = (samples.RESPONSE, samples.INPUT, STEP, PLAIN, {"role": "user", "content": "a"}, [], 5)
    assert [FORMAT.looks_like(document) for document in others] == [0] * len(others)
    assert FORMAT.is_event is not None
    assert FORMAT.is_event(samples.events_of(RESPONSE)[0])
    assert not FORMAT.is_event(samples.events_of(samples.RESPONSE)[0])


_fields = st.sampled_from(["id", "status", "content", "step_details", "attachments", "usage", "last_error", "type"])
_kinds = st.sampled_from(["thread.message", "thread.run.step", "thread.run", "thread.new"])
_inner = st.recursive(
    json_values,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "value", "annotations", "tool_calls", "code_interpreter", "input", "outputs"]
            )
            | st.sampled_from(
                ["id", "function", "name", "arguments", "output", "image_file", "file_id", "logs", "image"]
            ),
            inner
            | st.sampled_from(["text", "tool_calls", "code_interpreter", "function", "image_file", "logs", "image"]),
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(lambda kind, rest: {**rest, "object": kind}, _kinds, st.dictionaries(_fields, _inner)), max_size=3
    )
)
def test_any_documents_of_a_thread_are_written_as_they_were(documents: list[Any]) -> None:
    assert again(documents) == documents


@settings(max_examples=25, deadline=None)
@given(_inner)
def test_any_json_is_read_or_refused(document: Any) -> None:
    try:
        FORMAT.read(document)
    except ValueError:
        pass
    FORMAT.looks_like(document)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(messages, max_size=2))
def test_any_messages_can_be_written(some: list[Message]) -> None:
    again(FORMAT.write(some).document)


def test_a_page_is_cited_where_its_place_is_not_said() -> None:
    note = {"type": "url_citation", "text": "【1】", "url_citation": {"url": "https://example.org", "title": None}}
    document = {**ANSWER, "content": [{"type": "text", "text": {"value": "See【1】", "annotations": [note]}}]}
    (message,) = FORMAT.read(document)
    assert message.contents[0].annotations[0].url == "https://example.org"
    assert FORMAT.write([message]).document == [document]


def test_a_run_that_waits_is_told_once_it_is_over() -> None:
    waiting = {"event": "thread.run.requires_action", "data": {**RUN, "status": "requires_action"}}
    assert FORMAT.stream().feed(waiting) == []
    assert streamed([waiting, {"event": "thread.run.completed", "data": RUN}]) == [
        message.to_dict() for message in FORMAT.read([RUN])
    ]


def test_documents_of_a_thread_and_others_keep_their_order() -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    documents = [{"object": "thread.new", "id": "n_1"}, ASKED, said, STEP, ANSWER, {"object": "thread.new"}, RUN]
    assert again(documents) == documents


def test_a_step_that_is_there_twice_keeps_its_results_where_they_were() -> None:
    call = {"id": "c", "type": "code_interpreter", "code_interpreter": {"input": "1", "outputs": []}}
    details = {"type": "tool_calls", "tool_calls": [call]}
    begun = {**STEP, "status": "in_progress", "usage": None, "step_details": details}
    ended = copy.deepcopy({**begun, "status": "completed"})
    ended["step_details"]["tool_calls"][0]["code_interpreter"]["outputs"] = [{"type": "logs", "logs": "1"}]
    assert again([begun, ended]) == [begun, ended]
