"""Assistants: what OpenAI's own types say is what comes out, and messages and steps come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    Message,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    coalesce,
    messages_from_updates,
)
from actbox.content.wire.openai_assistants import FORMAT, Reader, read, write
from tests.content import items_to_try
from tests.content.matrix import TRANSCRIPT
from tests.content.wire.plain import plain
from tests.content.wire.sdk_types import SdkType

SDK_MESSAGE = SdkType("openai.types.beta.threads:Message")
SDK_STEP = SdkType("openai.types.beta.threads.runs:RunStep")
SDK_EVENT = SdkType("openai.types.beta:AssistantStreamEvent")

USER: dict[str, Any] = {
    "id": "msg_1",
    "object": "thread.message",
    "created_at": 1_700_000_000,
    "thread_id": "thread_1",
    "role": "user",
    "content": [
        {"type": "text", "text": {"value": "What is in it?", "annotations": []}},
        {"type": "image_file", "image_file": {"file_id": "file-pic", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
    ],
    "attachments": [{"file_id": "file-1", "tools": [{"type": "code_interpreter"}, {"type": "file_search"}]}],
    "metadata": {"a": "b"},
    "status": "completed",
    "assistant_id": None,
    "run_id": None,
}
ANSWER = "It is 42 [1]. See sums.csv."
ASSISTANT: dict[str, Any] = {
    **USER,
    "id": "msg_2",
    "role": "assistant",
    "assistant_id": "asst_1",
    "run_id": "run_1",
    "attachments": [],
    "content": [
        {
            "type": "text",
            "text": {
                "value": ANSWER,
                "annotations": [
                    {
                        "type": "file_citation",
                        "text": "[1]",
                        "start_index": 9,
                        "end_index": 12,
                        "file_citation": {"file_id": "file-1", "quote": "42"},
                    },
                    {
                        "type": "file_path",
                        "text": "sandbox:/mnt/data/sums.csv",
                        "start_index": 18,
                        "end_index": 26,
                        "file_path": {"file_id": "file-2"},
                    },
                ],
            },
        },
        {"type": "image_file", "image_file": {"file_id": "file-plot"}},
        {"type": "refusal", "refusal": "No more."},
    ],
}
STEP: dict[str, Any] = {
    "id": "step_1",
    "object": "thread.run.step",
    "created_at": 1_700_000_001,
    "assistant_id": "asst_1",
    "run_id": "run_1",
    "thread_id": "thread_1",
    "type": "tool_calls",
    "status": "completed",
    "last_error": None,
    "step_details": {
        "type": "tool_calls",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "code_interpreter",
                "code_interpreter": {
                    "input": "print(6 * 7)\nplot()",
                    "outputs": [
                        {"type": "logs", "logs": "42\n"},
                        {"type": "logs", "logs": "done\n"},
                        {"type": "image", "image": {"file_id": "file-plot"}},
                    ],
                },
            },
            {"id": "call_2", "type": "file_search", "file_search": {"results": [{"file_id": "file-1", "score": 1.0}]}},
            {
                "id": "call_3",
                "type": "function",
                "function": {"name": "look_up", "arguments": '{"what": "seven"}', "output": "it is 7"},
            },
            {"id": "call_4", "type": "function", "function": {"name": "go", "arguments": "{}", "output": None}},
        ],
    },
    "usage": {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "total_tokens": 3,
        "prompt_token_details": {"cached_tokens": 1},
    },
}
MADE: dict[str, Any] = {
    **STEP,
    "id": "step_2",
    "type": "message_creation",
    "step_details": {"type": "message_creation", "message_creation": {"message_id": "msg_2"}},
    "usage": None,
}
RUN = {"id": "run_1", "object": "thread.run", "thread_id": "thread_1", "model": "gpt-x", "status": "completed"}


def test_nothing_is_written() -> None:
    SDK_MESSAGE.validate(USER)
    assert FORMAT.read_only
    with pytest.raises(ValueError, match="read only"):
        write(read([USER]))


def test_a_page_of_a_list_is_read_as_the_list() -> None:
    document = [USER, STEP, ASSISTANT, MADE]
    assert read({"object": "list", "data": document, "has_more": False}) == read(document)


def test_what_is_listed_with_the_newest_first_is_read_with_the_oldest_first() -> None:
    listed = [{**USER, "id": f"msg_{number}", "created_at": number} for number in (3, 2, 1)]
    for document in (listed, {"object": "list", "data": listed}, listed[::-1]):
        assert [message.id for message in read(document)] == ["msg_1", "msg_2", "msg_3"]


def test_a_step_that_made_a_message_only_names_it() -> None:
    details = {"type": "message_creation", "message_creation": {"message_id": "msg_2"}}
    step = {"id": "step_3", "object": "thread.run.step", "step_details": details}
    used = {**step, "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    assert FORMAT.only_names is not None
    assert [FORMAT.only_names(message) for message in read([USER, STEP, step, used])] == [False, False, True, False]


def test_a_message_is_read_with_its_files_and_citations() -> None:
    user, answer = read([USER, ASSISTANT])
    assert [type(item) for item in user.contents] == [TextContent, HostedFileContent, UriContent, HostedFileContent]
    assert (answer.id, answer.response_id) == ("msg_2", "run_1")
    assert answer.created_at is not None and answer.created_at.timestamp() == 1_700_000_000
    cited, path = answer.contents[0].annotations
    assert (cited.kind, cited.file_id, cited.snippet, cited.start, cited.end) == ("citation", "file-1", "42", 9, 12)
    assert (path.kind, path.file_id, ANSWER[path.start : path.end]) == ("file_path", "file-2", "sums.csv")
    assert answer.text == ANSWER + "No more."


def test_a_step_is_read_as_calls_with_what_they_came_to() -> None:
    (step,) = read(STEP)
    code, result, search, call, found, going, usage = step.contents
    assert isinstance(code, CodeInterpreterCall) and (code.call_id, code.code) == ("call_1", "print(6 * 7)\nplot()")
    assert isinstance(result, CodeInterpreterResult) and result.text == "42\ndone\n" and result.success
    assert isinstance(result.outputs[2], HostedFileContent) and result.outputs[2].file_id == "file-plot"
    assert isinstance(search, UnknownContent)
    assert isinstance(call, FunctionCall) and call.arguments == {"what": "seven"}
    assert isinstance(found, FunctionResult) and found.text == "it is 7"
    assert isinstance(going, FunctionCall)
    assert isinstance(usage, UsageContent) and usage.counts == {"prompt_token_details.cached_tokens": 1}


def test_a_step_that_failed_says_why() -> None:
    error = {"code": "server_error", "message": "Sorry"}
    document = {**STEP, "status": "failed", "last_error": error}
    SDK_STEP.validate({**document, "step_details": MADE["step_details"]})
    (step,) = read(document)
    (said,) = [item for item in step.contents if isinstance(item, ErrorContent)]
    assert (said.message, said.code) == ("Sorry", "server_error")


def code_piece(inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    return step_delta({"index": 0, "type": "code_interpreter", "code_interpreter": inner, **more})


def step_delta(call: dict[str, Any]) -> dict[str, Any]:
    details = {"type": "tool_calls", "tool_calls": [call]}
    data = {"id": "step_1", "object": "thread.run.step.delta", "delta": {"step_details": details}}
    return {"event": "thread.run.step.delta", "data": data}


def text_piece(value: str, *notes: dict[str, Any], index: int = 0) -> dict[str, Any]:
    text = {
        "value": value,
        **({"annotations": [{"index": at, **note} for at, note in enumerate(notes)]} if notes else {}),
    }
    return message_delta({"index": index, "type": "text", "text": text})


def message_delta(part: dict[str, Any]) -> dict[str, Any]:
    data = {"id": "msg_2", "object": "thread.message.delta", "delta": {"content": [part]}}
    return {"event": "thread.message.delta", "data": data}


def stream(final: dict[str, Any], *pieces: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {**STEP, "status": "in_progress", "usage": None, "step_details": {"type": "tool_calls", "tool_calls": []}}
    function = {"index": 2, "type": "function"}
    return [
        {"event": "thread.run.created", "data": {**RUN, "status": "queued"}},
        {"event": "thread.run.step.created", "data": begun},
        {"event": "thread.run.step.in_progress", "data": begun},
        code_piece({"input": "", "outputs": []}, id="call_1"),
        code_piece({"input": "print(6 * 7)\n"}),
        code_piece({"input": "plot()"}),
        step_delta({"index": 1, "type": "file_search", "id": "call_2", "file_search": {}}),
        step_delta({**function, "id": "call_3", "function": {"name": "look_up", "arguments": "", "output": None}}),
        step_delta({**function, "function": {"arguments": '{"what": '}}),
        code_piece({"outputs": [{"index": 0, "type": "logs", "logs": "42\n"}]}),
        step_delta({**function, "function": {"arguments": '"seven"}'}}),
        step_delta({**function, "index": 3, "id": "call_4", "function": {"name": "go", "arguments": "{}"}}),
        {"event": "thread.run.step.completed", "data": STEP},
        {"event": "thread.run.step.created", "data": {**MADE, "status": "in_progress"}},
        {"event": "thread.message.created", "data": {**final, "content": [], "status": "in_progress"}},
        {"event": "thread.message.in_progress", "data": {**final, "content": [], "status": "in_progress"}},
        *pieces,
        {"event": "thread.message.completed", "data": final},
        {"event": "thread.run.step.completed", "data": MADE},
        {"event": "done", "data": "[DONE]"},
    ]


def streamed(events: list[dict[str, Any]]) -> list[Message]:
    reader = Reader()
    return messages_from_updates(update for event in events for update in reader.feed(event))


def test_a_stream_comes_to_the_messages_and_steps() -> None:
    final = {**ASSISTANT, "content": [{"type": "text", "text": {"value": "It is 42.", "annotations": []}}]}
    events = stream(final, text_piece("It is"), text_piece(" 42."))
    for event in events:
        assert FORMAT.is_event is not None and FORMAT.is_event(event)
        if ".delta" in event["event"]:
            SDK_EVENT.validate(event)
    found, whole = streamed(events), read([STEP, final, MADE])
    assert [message.id for message in found] == [message.id for message in whole]
    # A piece of what is still going on keeps its first place: a call between pieces of another comes after it.
    assert _by_kind(found[0]) == _by_kind(whole[0])
    assert found[1:] == whole[1:]


def _by_kind(message: Message) -> list[Content]:
    return sorted(message.contents, key=lambda item: (item.type, json.dumps(item.to_dict(), sort_keys=True)))


def test_citations_in_a_stream_are_about_the_same_text() -> None:
    notes = ASSISTANT["content"][0]["text"]["annotations"]
    events = stream(
        ASSISTANT,
        text_piece("It is 42 "),
        text_piece("[1]", notes[0]),
        text_piece(". See "),
        text_piece("sums.csv", notes[1]),
        text_piece("."),
        message_delta({"index": 1, "type": "image_file", "image_file": {"file_id": "file-plot"}}),
        message_delta({"index": 2, "type": "refusal", "refusal": "No more."}),
    )
    message = streamed(events)[1]
    assert message.text == ANSWER + "No more."
    cited = [
        (item.text[note.start : note.end], note.file_id)
        for item in message.contents
        if isinstance(item, TextContent)
        for note in item.annotations
    ]
    assert cited == [("[1]", "file-1"), ("sums.csv", "file-2")]
    assert message.contents[-2:] == read(ASSISTANT)[0].contents[-2:]


def test_a_stream_without_deltas_says_all_at_the_end() -> None:
    events = [
        {"event": "thread.run.step.completed", "data": STEP},
        {"event": "thread.message.completed", "data": ASSISTANT},
        {"event": "thread.run.completed", "data": RUN},
    ]
    step, message = streamed(events)
    assert plain(step) == plain(read(STEP)[0])
    assert message.contents == read(ASSISTANT)[0].contents
    assert (message.model, message.provider_data["openai-assistants"]["run"]) == ("gpt-x", RUN)


def test_an_error_and_an_unknown_event_are_kept() -> None:
    reader = Reader()
    (error,) = reader.feed({"event": "error", "data": {"message": "overloaded", "code": "server_error"}})
    assert error.contents == (ErrorContent(message="overloaded", code="server_error"),)
    (later,) = reader.feed({"event": "thread.later", "data": {}})
    assert later.contents == (UnknownContent(format="openai-assistants", raw={"event": "thread.later", "data": {}}),)


def test_what_is_neither_message_nor_step_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match="number 2 is neither"):
        read([USER, {"id": "run_1"}])
    with pytest.raises(ValueError, match="no messages of a thread"):
        read("thread")


def step_with(*calls: Any) -> dict[str, Any]:
    return {**STEP, "step_details": {"type": "tool_calls", "tool_calls": list(calls)}}


def test_code_that_is_still_running_has_no_result() -> None:
    call = {"id": "c", "type": "code_interpreter", "code_interpreter": {"input": "1", "outputs": []}}
    document = {**step_with(call), "status": "in_progress", "usage": None}
    (step,) = read(document)
    assert [item.type for item in step.contents] == ["code_interpreter_call"]


def test_its_documents_are_told_by_their_marks() -> None:
    assert FORMAT.looks_like([USER, STEP]) == 1
    assert FORMAT.looks_like({"object": "list", "data": [USER]}) == 1
    assert FORMAT.looks_like({"messages": [{"role": "user", "content": "a", "attachments": []}]}) > 0.5
    assert 0 < FORMAT.looks_like([{"role": "user", "content": "a"}]) < 0.4
    ours = [message.to_dict() for message in TRANSCRIPT]
    chat = [{"role": "tool", "content": "a", "tool_call_id": "c"}]
    anthropic = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]
    for other in (ours, chat, anthropic, [], {}, None, {"object": "chat.completion", "choices": []}):
        assert FORMAT.looks_like(other) == 0


KEYS = ("role", "content", "attachments", "text", "value", "annotations", "step_details", "usage", "last_error", "id")
TYPES = ("text", "tool_calls", "code_interpreter", "function", "file_citation", "image_file")
json_of_it = st.recursive(
    items_to_try.json_values | st.sampled_from(["user", *TYPES]),
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(TYPES)},
            optional=dict.fromkeys(
                ("text", "tool_calls", "code_interpreter", "function", "image_file", "index"), inner
            ),
        )
        | st.fixed_dictionaries({"step_details": inner, "status": inner})
        | st.fixed_dictionaries({"content": st.lists(inner, max_size=2)})
        | st.fixed_dictionaries({"delta": inner})
    ),
    max_leaves=8,
)
EVENTS = ("thread.message.delta", "thread.run.step.delta", "thread.message.completed", "thread.run.step.completed")


@settings(max_examples=60)
@given(json_of_it, st.sampled_from([*EVENTS, "error", "thread.run.failed"]))
def test_no_json_makes_reading_fail_but_with_a_value_error(document: Any, event: str) -> None:
    Reader().feed({"event": event, "data": document})
    try:
        read(document)
    except ValueError:
        return


def code_call(**more: Any) -> dict[str, Any]:
    return {"id": "c", "type": "code_interpreter", "code_interpreter": {"input": "1", **more}}


@pytest.mark.parametrize("missing", ["start_index", "text"])
def test_a_citation_without_its_place_names_its_file(missing: str) -> None:
    note = {key: value for key, value in ASSISTANT["content"][0]["text"]["annotations"][0].items() if key != missing}
    document = {**ASSISTANT, "content": [{"type": "text", "text": {"value": ANSWER, "annotations": [note]}}]}
    (message,) = read(document)
    assert message.contents[0].annotations[0].file_id == "file-1"


@pytest.mark.parametrize(("status", "success"), [("completed", True), ("failed", False), ("expired", None)])
def test_code_ended_as_its_step_did(status: str, success: bool | None) -> None:
    (message,) = read({**step_with(code_call(outputs=[])), "status": status})
    code, result, _ = message.contents
    assert isinstance(code, CodeInterpreterCall) and code.status == status
    assert isinstance(result, CodeInterpreterResult) and result.success is success


def test_texts_that_follow_one_another_stay_apart() -> None:
    texts = [{"type": "text", "text": {"value": value, "annotations": []}} for value in ("one", "two")]
    document = {**ASSISTANT, "content": texts}
    assert [item.text for item in coalesce(read(document)[0].contents)] == ["one", "two"]
    pieces = [text_piece("o"), text_piece("ne"), text_piece("two", index=1)]
    assert streamed(stream(document, *pieces))[1] == read(document)[0]


def test_a_stream_with_citations_comes_to_the_message() -> None:
    notes = ASSISTANT["content"][0]["text"]["annotations"]
    document = {**ASSISTANT, "content": ASSISTANT["content"][:1]}
    pieces = [text_piece(ANSWER[:10]), text_piece(ANSWER[10:], notes[0]), message_delta(late(notes[1]))]
    assert streamed(stream(document, *pieces))[1] == read(document)[0]


def late(note: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "type": "text", "text": {"annotations": [{"index": 1, **note}]}}


def test_what_no_piece_brought_comes_with_the_finished_message() -> None:
    document = {**ASSISTANT, "attachments": USER["attachments"]}
    message = streamed(stream(document, text_piece(ANSWER[:10])))[1]
    assert message.contents == read(document)[0].contents


@pytest.mark.parametrize("name", ["thread.message.later", "thread.run.step.later", "thread.run.later"])
def test_an_event_of_a_known_object_that_is_not_known_is_kept(name: str) -> None:
    (update,) = Reader().feed({"event": name, "data": {"id": "x"}})
    assert update.contents == (UnknownContent(format="openai-assistants", raw={"event": name, "data": {"id": "x"}}),)


def test_calls_without_ids_are_told_apart_in_steps_and_streams() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}", "output": "a"}}
    first, second = read([{**step_with(call), "id": "step_1"}, {**step_with(call), "id": "step_2"}])
    assert (first.contents[0].call_id, second.contents[0].call_id) == ("step_1-1", "step_2-1")
    events = [step_delta({"index": 0, **call}), {"event": "thread.run.step.completed", "data": step_with(call)}]
    assert streamed(events)[0].contents[0].call_id == "step_1-1"
