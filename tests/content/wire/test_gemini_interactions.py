"""Gemini's Interactions API: what the SDK's own models say is what is read and written, whole and as a stream."""

from __future__ import annotations

import json
from importlib import metadata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    Message,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    code_content,
    messages_from_updates,
)
from actbox.content.messages import items_of
from actbox.content.transcripts import read_transcript
from actbox.content.wire.formats import detect
from actbox.content.wire.gemini_interactions import FORMAT, Reader, read, write
from tests.content import items_to_try
from tests.content.wire.sdk_types import SdkType

STEPS = SdkType("google.genai.interactions:Step", many=True)
EVENT = SdkType("google.genai.interactions:InteractionSSEEvent")
SDK_INTERACTION = SdkType("google.genai.interactions:Interaction")

QUESTION: dict[str, Any] = {
    "type": "user_input",
    "content": [
        {"type": "text", "text": "What is in it?"},
        {"type": "image", "mime_type": "image/png", "data": "aGVsbG8="},
        {"type": "document", "mime_type": "application/pdf", "uri": "https://example.com/a.pdf"},
        {"type": "video", "mime_type": "video/mp4", "uri": "files/abc", "resolution": "low"},
    ],
}
THOUGHT: dict[str, Any] = {
    "type": "thought",
    "signature": "c2lnbmVk",
    "summary": [{"type": "text", "text": "I had better run it."}],
}
CODE: dict[str, Any] = {
    "type": "code_execution_call",
    "id": "ce_1",
    "signature": "Y29kZQ==",
    "arguments": {"language": "python", "code": "print(6 * 7)\n"},
}
PRINTED: dict[str, Any] = {
    "type": "code_execution_result",
    "call_id": "ce_1",
    "result": "42\n",
    "signature": "cmVzdWx0",
}
FAILED: dict[str, Any] = {
    "type": "code_execution_result",
    "call_id": "ce_2",
    "result": "Traceback (most recent call last):\nNameError: no x",
    "is_error": True,
}
CHART: dict[str, Any] = {
    "type": "code_execution_result",
    "call_id": "ce_3",
    "result": [{"type": "text", "text": "42"}, {"type": "image", "mime_type": "image/png", "data": "aGVsbG8="}],
}
CALL: dict[str, Any] = {"type": "function_call", "id": "f_1", "name": "look_up", "arguments": {"what": "seven"}}
RETURNED: dict[str, Any] = {"type": "function_result", "call_id": "f_1", "name": "look_up", "result": "it is 7"}
RETURNED_JSON: dict[str, Any] = {"type": "function_result", "call_id": "f_2", "result": {"seven": 7}, "is_error": True}
RETURNED_LIST: dict[str, Any] = {
    "type": "function_result",
    "call_id": "f_3",
    "result": [{"type": "text", "text": "it is 7"}],
}
SEARCH: dict[str, Any] = {"type": "google_search_call", "id": "s_1", "arguments": {"queries": ["six times seven"]}}
ANSWER: dict[str, Any] = {
    "type": "model_output",
    "content": [
        {
            "type": "text",
            "text": "It is 42.",
            "annotations": [
                {
                    "type": "url_citation",
                    "url": "https://example.com",
                    "title": "Maths",
                    "start_index": 6,
                    "end_index": 8,
                },
                {"type": "place_citation", "place_id": "p_1"},
            ],
        }
    ],
}
MORE: dict[str, Any] = {
    "type": "model_output",
    "content": [{"type": "text", "text": "Or"}, {"type": "text", "text": " so."}],
}
ALL: list[dict[str, Any]] = [
    *(QUESTION, THOUGHT, CODE, PRINTED, FAILED, CHART, CALL, RETURNED, RETURNED_JSON, RETURNED_LIST, SEARCH),
    *(ANSWER, MORE),
]
INTERACTION: dict[str, Any] = {
    "id": "v1_abc",
    "object": "interaction",
    "status": "completed",
    "model": "gemini-3-flash-preview",
    "created": "2026-06-01T12:00:00Z",
    "updated": "2026-06-01T12:00:01Z",
    "role": "model",
    "steps": [THOUGHT, CODE, PRINTED, ANSWER],
    "usage": {"total_input_tokens": 12, "total_output_tokens": 34, "total_thought_tokens": 5, "total_tokens": 51},
}


def streamed(events: list[dict[str, Any]]) -> list[Message]:
    reader = Reader()
    return messages_from_updates(update for event in events for update in reader.feed(event))


def bare(messages: list[Message]) -> list[dict[str, Any]]:
    """Return messages without what only this format has."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(inner) for key, inner in value.items() if key != "provider_data"}
        return [without(inner) for inner in value] if isinstance(value, list) else value

    return [without(message.to_dict()) for message in messages]


def test_the_samples_are_those_of_the_sdk() -> None:
    steps = ALL
    if int(metadata.version("google-genai").partition(".")[0]) < 3:
        # Version 2, which Pydantic AI needs, takes the result of code as text only.
        steps = [step for step in ALL if step["type"] != "code_execution_result" or isinstance(step["result"], str)]
        assert len(steps) == len(ALL) - 1
    assert not any(getattr(step, "is_unknown", False) for step in STEPS.validate(steps))
    SDK_INTERACTION.validate(INTERACTION)


def test_steps_come_back_as_they_were() -> None:
    written = write(read(ALL))
    assert written.document == ALL
    assert written.losses == ()


@pytest.mark.parametrize(
    "step", [*ALL, {"type": "model_output"}, {"type": "dance", "id": "d"}], ids=lambda s: s["type"]
)
def test_a_step_alone_comes_back(step: dict[str, Any]) -> None:
    assert write(read(step)).document == [step]


def test_each_kind_of_step_is_read() -> None:
    user, model, tool, rest = read(ALL)
    assert [message.role for message in (user, model, tool, rest)] == ["user", "assistant", "tool", "assistant"]
    kinds = [type(item) for item in user.contents]
    assert kinds == [TextContent, DataContent, UriContent, HostedFileContent]
    thought, call, result, failed, chart, function = model.contents
    assert isinstance(thought, ReasoningContent)
    assert (thought.text, thought.protected_data) == ("I had better run it.", "c2lnbmVk")
    assert isinstance(call, CodeInterpreterCall) and (call.code, call.language) == ("print(6 * 7)\n", "python")
    assert isinstance(result, CodeInterpreterResult) and result.call_id == call.call_id
    assert (result.outputs, result.success) == ((TextContent(text="42\n", stream="stdout"),), True)
    assert isinstance(failed, CodeInterpreterResult) and failed.success is False
    assert isinstance(failed.outputs[0], ErrorContent) and failed.outputs[0].code == "NameError"
    assert isinstance(chart, CodeInterpreterResult) and isinstance(chart.outputs[1], DataContent)
    assert isinstance(function, FunctionCall) and function.arguments == {"what": "seven"}
    assert [item.is_error for item in tool.contents if isinstance(item, FunctionResult)] == [False, True, False]
    assert rest.text == "It is 42.Or so."
    assert isinstance(rest.contents[0], UnknownContent)


def test_an_interaction_is_a_message_with_what_it_says_of_itself() -> None:
    (message,) = read(INTERACTION)
    assert (message.id, message.response_id, message.model) == ("v1_abc", "v1_abc", "gemini-3-flash-preview")
    assert message.finish_reason == "stop" and message.created_at is not None
    assert message.contents[-1] == UsageContent(
        input_tokens=12, output_tokens=34, total_tokens=51, counts={"thought_tokens": 5}
    )


@pytest.mark.parametrize("status", ["requires_action", "failed"])
def test_an_interaction_says_why_it_ended(status: str) -> None:
    errors = [{"code": "INTERNAL", "message": "a machine broke"}] if status == "failed" else []
    (message,) = read({**INTERACTION, "status": status, "errors": errors})
    assert message.finish_reason == {"requires_action": "tool_calls"}.get(status, status)
    assert any(isinstance(item, ErrorContent) for item in message.contents) is bool(errors)


@pytest.mark.parametrize("given", ["What is in it?", QUESTION["content"], [QUESTION, CALL, RETURNED]], ids=type)
def test_a_request_is_read(given: Any) -> None:
    request = {"model": "gemini-3-flash-preview", "input": given, "system_instruction": "Be brief."}
    assert detect(request) is FORMAT
    system, user, *_ = read(request)
    assert (system.role, system.text, user.role, user.text) == ("system", "Be brief.", "user", "What is in it?")


def test_an_interaction_of_the_first_months_is_read() -> None:
    turns = [{"role": "user", "content": "six times seven?"}, {"role": "model", "content": MORE["content"]}]
    early = {key: value for key, value in INTERACTION.items() if key != "steps"}
    document = {**early, "input": turns, "outputs": [THOUGHT, CODE, PRINTED, *ANSWER["content"]]}
    assert detect(document) is FORMAT
    user, before, answer = read(document)
    assert (user.role, before.role, before.text) == ("user", "assistant", "Or so.")
    assert bare([answer]) == bare(read(INTERACTION))


def _turns(model: Any, user: Any = "six times seven?") -> list[Any]:
    return [{"role": "user", "content": user}, {"role": "model", "content": model}]


_TURNS = {
    "texts": _turns("Or so."),
    "blocks": _turns(MORE["content"], QUESTION["content"]),
    "a text and blocks": _turns(MORE["content"]),
    "a block that is not known": _turns([{"type": "dance", "steps": 3}]),
}


@pytest.mark.parametrize("turns", _TURNS.values(), ids=_TURNS)
def test_turns_with_the_role_model_are_told_by_it(turns: list[Any]) -> None:
    for document in ({"model": "gemini-3", "input": turns}, {"agent": "deep", "input": turns}, turns):
        assert detect(document) is FORMAT
        assert [message.role for message in read(document)] == ["user", "assistant"]


def test_a_turn_of_the_user_alone_is_told_by_its_blocks_and_the_model() -> None:
    turn = {"role": "user", "content": QUESTION["content"]}
    for asked in (turn, [turn]):
        assert detect({"model": "gemini-3", "input": asked}) is FORMAT


@pytest.mark.parametrize(
    "given",
    [
        [{"role": "user", "content": "hi"}],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        [{"role": "user", "content": "hi"}, {"type": "function_call_output", "call_id": "c", "output": "1"}],
    ],
)
def test_a_request_of_the_responses_api_is_not_taken_for_one_of_interactions(given: list[Any]) -> None:
    for model in ("gpt-5", "gemini-3"):
        found = detect({"model": model, "input": given})
        assert found is not None and found.name == "openai-responses"
    assert detect({"model": "gpt-5", "input": []}) is not FORMAT


STREAM: list[dict[str, Any]] = [
    {
        "event_type": "interaction.created",
        "interaction": {**INTERACTION, "status": "in_progress", "steps": [], "usage": None},
    },
    {"event_type": "interaction.status_update", "interaction_id": "v1_abc", "status": "in_progress"},
    {"event_type": "step.start", "index": 0, "step": {"type": "thought"}},
    {
        "event_type": "step.delta",
        "index": 0,
        "delta": {"type": "thought_summary", "content": {"type": "text", "text": "I had "}},
    },
    {
        "event_type": "step.delta",
        "index": 0,
        "delta": {"type": "thought_summary", "content": {"type": "text", "text": "better run it."}},
    },
    {"event_type": "step.delta", "index": 0, "delta": {"type": "thought_signature", "signature": "c2lnbmVk"}},
    {"event_type": "step.stop", "index": 0},
    {"event_type": "step.start", "index": 1, "step": {"type": "code_execution_call", "id": "ce_1", "arguments": {}}},
    {"event_type": "step.delta", "index": 1, "delta": {k: CODE[k] for k in ("type", "signature", "arguments")}},
    {"event_type": "step.stop", "index": 1},
    {
        "event_type": "step.start",
        "index": 2,
        "step": {"type": "code_execution_result", "call_id": "ce_1", "result": ""},
    },
    {"event_type": "step.delta", "index": 2, "delta": {k: PRINTED[k] for k in ("type", "signature", "result")}},
    {"event_type": "step.stop", "index": 2},
    {"event_type": "step.start", "index": 3, "step": {"type": "model_output"}},
    {"event_type": "step.delta", "index": 3, "delta": {"type": "text", "text": "It is "}},
    {"event_type": "step.delta", "index": 3, "delta": {"type": "text", "text": "42."}},
    {
        "event_type": "step.delta",
        "index": 3,
        "delta": {"type": "text_annotation_delta", "annotations": ANSWER["content"][0]["annotations"]},
    },
    {"event_type": "step.stop", "index": 3},
    {"event_type": "interaction.completed", "interaction": {k: v for k, v in INTERACTION.items() if k != "steps"}},
]


def test_a_stream_comes_to_what_its_interaction_is() -> None:
    assert not any(getattr(EVENT.validate(event), "is_unknown", False) for event in STREAM)
    assert bare(streamed(STREAM)) == bare(read(INTERACTION))
    assert write(streamed(STREAM)).document == INTERACTION["steps"]


def test_a_captured_stream_is_found_to_be_one() -> None:
    text = (
        "".join(f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n" for event in STREAM) + "data: [DONE]\n"
    )
    transcript = read_transcript(text)
    assert transcript.format == FORMAT.name
    assert bare(list(transcript.messages)) == bare(read(INTERACTION))


def test_a_stream_of_the_first_months_is_read() -> None:
    renamed = {"step.start": "content.start", "step.delta": "content.delta", "step.stop": "content.stop"}
    renamed |= {"interaction.created": "interaction.start", "interaction.completed": "interaction.complete"}
    early = []
    for event in STREAM:
        now = {**event, "event_type": renamed.get(event["event_type"], event["event_type"])}
        if "step" in now:
            step = now.pop("step")
            now["content"] = {"type": "text", "text": ""} if step["type"] == "model_output" else {"type": step["type"]}
        if now.get("delta", {}).get("type") == "code_execution_call":
            now["delta"] = {**now["delta"], "id": "ce_1"}
        if now.get("delta", {}).get("type") == "code_execution_result":
            now["delta"] = {**now["delta"], "call_id": "ce_1"}
        early.append(now)
    assert bare(streamed(early)) == bare(read(INTERACTION))


def test_arguments_of_a_function_come_in_pieces() -> None:
    events = [
        {"event_type": "step.start", "index": 0, "step": {**CALL, "arguments": {}}},
        *(
            {"event_type": "step.delta", "index": 0, "delta": {"type": "arguments_delta", "arguments": piece}}
            for piece in ('{"what": ', '"seven"}')
        ),
        {"event_type": "step.stop", "index": 0},
        {"event_type": "error", "error": {"code": "INTERNAL", "message": "a machine broke"}},
    ]
    call, error = items_of(streamed(events))
    assert isinstance(call, FunctionCall) and (call.name, call.arguments) == ("look_up", {"what": "seven"})
    assert isinstance(error, ErrorContent) and error.message == "a machine broke"


def test_what_is_written_of_others_is_what_the_sdk_takes() -> None:
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("1/0"),))
    error = ErrorContent(message="ZeroDivisionError: division by zero", code="ZeroDivisionError", details="Traceback")
    result = CodeInterpreterResult(call_id="c", outputs=(TextContent(text="a", stream="stderr"), error), exit_code=1)
    written = write(
        [Message(role="system", contents=(TextContent(text="Be brief."),)), Message(contents=(call, result))]
    )
    assert not any(getattr(step, "is_unknown", False) for step in STEPS.validate(written.document))
    assert written.document[-1]["result"] == "aTraceback\nZeroDivisionError: division by zero"
    assert {loss.what for loss in written.losses} == {
        "message.role",
        "text.stream",
        "code_interpreter_result.exit_code",
    }


@pytest.mark.parametrize("document", [None, 5, {"a": 1}, [1], {"type": 5}])
def test_what_is_no_document_of_this_format_is_a_clear_error(document: Any) -> None:
    with pytest.raises(ValueError, match="interaction"):
        read(document)


@settings(max_examples=60)
@given(st.sampled_from(ALL), items_to_try.json_values, st.data())
def test_a_step_with_an_odd_value_comes_back(step: dict[str, Any], value: Any, data: Any) -> None:
    odd = {**step, data.draw(st.sampled_from([key for key in step if key != "type"])): value}
    assert write(read([odd])).document == [odd]


def test_an_error_of_another_provider_keeps_its_code_in_a_result() -> None:
    failed = ErrorContent(message="name 'x' is not defined", code="NameError", details="Traceback:\n  line 1")
    result = CodeInterpreterResult(call_id="c", outputs=(failed,), outcome="failed")
    (step,) = write([Message(contents=(result,))]).document
    assert step["result"] == "Traceback:\n  line 1\nNameError: name 'x' is not defined"
    (back,) = read([step])[0].contents
    assert isinstance(back, CodeInterpreterResult) and isinstance(back.outputs[0], ErrorContent)
    assert back.outputs[0].code == "NameError"


def test_a_call_with_an_empty_text_for_arguments_is_written_without_any() -> None:
    written = write([Message(contents=(FunctionCall(call_id="call-a", name="look", arguments=""),))])
    assert written.document == [{"type": "function_call", "id": "call-a", "name": "look", "arguments": {}}]
    assert written.losses == ()


def test_arguments_that_are_no_object_are_named_as_a_loss() -> None:
    written = write([Message(contents=(FunctionCall(call_id="call-a", name="look", arguments="[1]"),))])
    assert written.document[0]["arguments"] == {"arguments": "[1]"}
    assert [loss.what for loss in written.losses] == ["function_call.arguments"]
