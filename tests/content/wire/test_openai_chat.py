"""Chat Completions: what OpenAI's own types say is what comes out, and everything that it can say comes back."""

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
    DataContent,
    FunctionCall,
    FunctionResult,
    HostedCodeInterpreterTool,
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
from actbox.content.wire.formats import detect
from actbox.content.wire.openai_chat import FORMAT, Reader, read, write
from tests.content import items_to_try
from tests.content.matrix import TRANSCRIPT
from tests.content.wire.sdk_types import SdkType

PARAMS = SdkType("openai.types.chat:ChatCompletionMessageParam", many=True)
SDK_COMPLETION = SdkType("openai.types.chat:ChatCompletion")
SDK_CHUNK = SdkType("openai.types.chat:ChatCompletionChunk")
CONVERSATION: list[dict[str, Any]] = [
    {"role": "developer", "content": "You can look things up."},
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    {
        "role": "user",
        "name": "ann",
        "content": [
            {"type": "text", "text": "What is this?", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8=", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
            {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGVsbG8=", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": "aGVsbG8=", "filename": "b.bin"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"what": "seven"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "look_up", "arguments": '{"what":"eight"}'}},
            {"id": "call_3", "type": "custom", "custom": {"name": "sql", "input": '{"not": "arguments"}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "it is 7"},
    {
        "role": "tool",
        "tool_call_id": "call_2",
        "content": [{"type": "text", "text": "it"}, {"type": "text", "text": "8"}],
    },
    {"role": "tool", "tool_call_id": "call_3", "content": ""},
    {"role": "assistant", "content": "", "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": "so it was"},
    {"role": "assistant", "content": [{"type": "text", "text": "No."}, {"type": "refusal", "refusal": "I cannot."}]},
    {"role": "assistant", "refusal": "I will not.", "content": None},
    {"role": "assistant", "audio": {"id": "audio_1"}},
]
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_760_000_000,
    "model": "gpt-x",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "It is 42, I believe.",
                "refusal": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a": 1}'}},
                    {"id": "call_2", "type": "function", "function": {"name": "go", "arguments": "{}"}},
                ],
            },
            "logprobs": {"content": [{"token": "It", "logprob": -0.1, "top_logprobs": []}], "refusal": None},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 12,
        "completion_tokens": 34,
        "total_tokens": 46,
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
    "system_fingerprint": "fp_1",
    "service_tier": "default",
}


def chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "gpt-x",
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        "choices": [choice],
        "usage": None,
    }


def call_piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return chunk({"tool_calls": [{"index": index, "function": function, **more}]})


LOGPROBS = COMPLETION["choices"][0]["logprobs"]
CHUNKS = [
    chunk({"role": "assistant", "content": "", "refusal": None}),
    chunk({"content": "It is 42,"}, logprobs=LOGPROBS),
    chunk({"content": " I believe."}),
    call_piece(0, "", id="call_1", name="look_up", type="function"),
    call_piece(0, '{"a":'),
    call_piece(1, "{", id="call_2", name="go", type="function"),
    call_piece(0, " 1}"),
    call_piece(1, "}"),
    chunk({}, finish_reason="tool_calls"),
    {**chunk({}), "choices": [], "usage": COMPLETION["usage"]},
]


def streamed(chunks: list[dict[str, Any]]) -> list[Message]:
    reader = Reader()
    return messages_from_updates(update for event in chunks for update in reader.feed(event))


def test_a_conversation_comes_back_as_it_was() -> None:
    written = write(read(CONVERSATION))
    assert written.document == CONVERSATION
    assert not written.losses
    PARAMS.validate(CONVERSATION)


def test_every_kind_of_part_is_read() -> None:
    messages = read({"model": "gpt-x", "messages": CONVERSATION})
    assert [type(item) for item in messages[2].contents] == [
        TextContent,
        DataContent,
        UriContent,
        DataContent,
        HostedFileContent,
        DataContent,
        DataContent,
    ]
    assert messages[2].author == "ann"
    first, _, third = messages[3].contents
    assert isinstance(first, FunctionCall) and first.arguments == {"what": "seven"}
    assert isinstance(third, FunctionCall) and third.arguments == '{"not": "arguments"}'
    call, result = messages[7].contents[0], messages[8].contents[0]
    assert isinstance(call, FunctionCall) and isinstance(result, FunctionResult) and call.call_id == result.call_id
    assert messages[9].text == "No.I cannot."
    assert messages[10].text == "I will not."
    assert messages[-1].provider_data["openai-chat"]["request"] == {"model": "gpt-x"}


def test_a_completion_is_read_and_its_message_can_be_sent_back() -> None:
    SDK_COMPLETION.validate(COMPLETION)
    (message,) = read(COMPLETION)
    assert (message.response_id, message.model, message.finish_reason) == ("chatcmpl-1", "gpt-x", "tool_calls")
    assert message.created_at is not None and message.created_at.timestamp() == 1_760_000_000
    usage = message.contents[-1]
    assert isinstance(usage, UsageContent)
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (12, 34, 46)
    assert usage.counts == {"completion_tokens_details.reasoning_tokens": 5}
    written = write([message])
    sent = {key: value for key, value in COMPLETION["choices"][0]["message"].items() if value is not None}
    assert written.document == [sent]
    assert [loss.what for loss in written.losses] == ["usage"]


def test_chunks_come_to_the_completion() -> None:
    for event in CHUNKS:
        SDK_CHUNK.validate(event)
        assert FORMAT.is_event is not None and FORMAT.is_event(event)
    assert streamed(CHUNKS) == read(COMPLETION)


def test_several_choices_of_one_stream_are_kept_apart() -> None:
    pieces = [(0, "a", None), (1, "x", None), (0, "b", None), (1, "y", "stop"), (0, "c", "stop")]
    events = [chunk({"role": "assistant", "content": text}, index=at, finish_reason=end) for at, text, end in pieces]
    choices = [
        {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for at, text in enumerate(("abc", "xy"))
    ]
    messages = streamed(events)
    assert [message.text for message in messages] == ["abc", "xy"]
    whole = read({**COMPLETION, "choices": choices, "usage": None})
    assert [(message.id, message.contents) for message in messages] == [(one.id, one.contents) for one in whole]


def test_sound_is_read_by_its_transcript() -> None:
    sound = {"id": "audio_1", "data": "aGVsbG8=", "transcript": "Hello there", "expires_at": 7}
    message = {"role": "assistant", "content": None, "audio": sound}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    (whole,) = read({**COMPLETION, "choices": [choice], "usage": None})
    assert whole.text == "Hello there"
    assert write([whole]).document == [message]
    events = [
        chunk({"role": "assistant", "audio": {"id": "audio_1", "transcript": "Hello "}}),
        chunk({"audio": {"data": "aGVs", "transcript": "there"}}),
        chunk({"audio": {"data": "bG8=", "expires_at": 7}}, finish_reason="stop"),
    ]
    assert streamed(events) == [whole]


def test_what_other_servers_say_of_thinking_is_reasoning() -> None:
    document = [{"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}]
    (message,) = read(document)
    assert isinstance(message.contents[0], ReasoningContent)
    assert write([message]).document == document
    assert (
        streamed([chunk({"reasoning_content": "H"}), chunk({"reasoning_content": "m."})])[0].contents
        == (message.contents[:1])
    )


def test_citations_of_web_pages_come_back() -> None:
    cited = {"url": "https://example.com/math", "title": "Maths", "start_index": 6, "end_index": 8}
    note = {"type": "url_citation", "url_citation": cited}
    document = [{"role": "assistant", "content": "It is 42.", "annotations": [note, {"type": "later"}]}]
    (message,) = read(document)
    (text,) = message.contents
    assert (text.annotations[0].url, text.annotations[0].start) == ("https://example.com/math", 6)
    assert write([message]).document == document
    (lost,) = write([message.model_copy(update={"contents": (text, text)})]).document
    assert len(lost["annotations"]) == 4


def test_code_becomes_a_call_of_a_function_and_its_result_a_message_of_its_own() -> None:
    written = write(
        [
            Message(
                contents=(
                    TextContent(text="Let me see."),
                    CodeInterpreterCall(call_id="c", inputs=(code_content("print(1)"), HostedFileContent(file_id="f"))),
                    CodeInterpreterResult(call_id="c", outputs=(TextContent(text="1\n", stream="stdout"),)),
                    TextContent(text="It is 1."),
                )
            )
        ]
    )
    assert [message["role"] for message in written.document] == ["assistant", "tool", "assistant"]
    assert written.document[0]["content"] == "Let me see."
    (call,) = written.document[0]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"code": "print(1)", "language": "python"}
    assert written.document[1] == {"role": "tool", "tool_call_id": "c", "content": "1\n"}
    assert {loss.what for loss in written.losses} == {
        "code_interpreter_call",
        "code_interpreter_call.inputs",
        "code_interpreter_result",
        "text.stream",
    }


def test_the_whole_transcript_is_one_that_the_api_takes() -> None:
    PARAMS.validate(write(TRANSCRIPT).document)


def test_hosted_tools_are_left_out_and_that_is_said() -> None:
    assert FORMAT.write_tools is not None
    written = FORMAT.write_tools([HostedCodeInterpreterTool()])
    assert written.document == []
    assert [loss.what for loss in written.losses] == ["tool code_interpreter"]


def test_what_is_no_message_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match="message 2 is no message"):
        read([{"role": "user", "content": "a"}, {"text": "b"}])
    with pytest.raises(ValueError, match="choice 0 of the response has no message"):
        read({"choices": [{"index": 0}]})
    with pytest.raises(ValueError, match="messages are a list"):
        read({"messages": "none"})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8"}},
        {"type": "image_url", "image_url": "https://example.com/cat.png"},
        {"type": "input_audio", "input_audio": {"data": "%", "format": "wav"}},
        {"type": "file", "file": None},
        {"type": "text", "text": None},
        {"type": "video", "video": {}},
        "text",
        None,
    ],
    ids=str,
)
def test_a_part_that_is_not_whole_or_not_known_is_kept(part: Any) -> None:
    document = [{"role": "user", "content": [part]}]
    (message,) = read(document)
    assert isinstance(message.contents[0], UnknownContent)
    assert write([message]).document == document


HALF = {"name": "f", "arguments": '{"a'}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": 7},
        {"role": "assistant", "content": "a", "tool_calls": "none"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}, None, {"type": "later", "id": "d"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": HALF}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f"}},
        {"role": "user", "content": "a\u0000b", "later": {"a": 1}},
        {"role": "user", "content": []},
        {"role": "tool", "content": "a result before its call, and without an id"},
        {"role": "tool", "tool_call_id": "c", "content": None},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}, {"type": "later"}]},
        {"role": "assistant", "content": [], "annotations": [{"type": "url_citation"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:text/x;base64,aGVsbG8="}}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "ogg"}}]},
        {"role": "critic", "content": "no"},
    ],
    ids=str,
)
def test_what_is_odd_in_a_message_comes_back(message: dict[str, Any]) -> None:
    assert write(read([message])).document == [message]


def test_two_results_for_one_call_are_both_kept() -> None:
    document = [{"role": "tool", "tool_call_id": "c", "content": text} for text in ("a", "b")]
    assert write(read(document)).document == document


def test_an_event_that_is_not_known_is_kept() -> None:
    (update,) = Reader().feed({"error": {"message": "overloaded"}})
    assert update.contents == (UnknownContent(format="openai-chat", raw={"error": {"message": "overloaded"}}),)


def test_its_documents_are_told_by_their_marks() -> None:
    assert FORMAT.looks_like(COMPLETION) == 1
    assert FORMAT.looks_like(CONVERSATION) > 0.9
    assert FORMAT.looks_like({"messages": CONVERSATION}) > 0.9
    assert 0 < FORMAT.looks_like([{"role": "user", "content": "Hello"}]) < 0.5
    anthropic = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "b"}]}]
    gemini = [{"role": "user", "parts": [{"text": "a"}]}]
    bedrock = [{"role": "user", "content": [{"text": "a"}]}]
    ours = [message.to_dict() for message in TRANSCRIPT]
    responses = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}]
    for other in (anthropic, gemini, bedrock, ours, responses, [], {}, None, 7):
        assert FORMAT.looks_like(other) == 0


texts = st.builds(TextContent, text=items_to_try.texts.filter(bool))
pictures = st.builds(DataContent, media_type=st.sampled_from(["image/png", "audio/wav"]), data=st.binary(max_size=20))
files = st.builds(
    DataContent, media_type=st.sampled_from(["application/pdf", "text/csv"]), data=st.binary(), name=items_to_try.words
)
hosted = st.builds(HostedFileContent, file_id=items_to_try.words, name=st.none() | items_to_try.words)
calls = st.builds(
    FunctionCall,
    call_id=items_to_try.words,
    name=items_to_try.words,
    arguments=items_to_try.json_objects | items_to_try.words,
)
results = st.builds(
    FunctionResult, call_id=items_to_try.words, outputs=st.just(()) | st.tuples(texts) | st.tuples(texts, texts)
)


def said_by(role: str, *items: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    return st.builds(Message, role=st.just(role), contents=st.tuples(*items), author=st.none() | items_to_try.words)


conversations = st.lists(
    st.one_of(
        said_by("user", texts, st.one_of(texts, pictures, files, hosted)),
        said_by("system", texts),
        said_by("assistant", texts, calls, calls),
        st.builds(Message, role=st.just("tool"), contents=st.tuples(results)),
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(conversations)
def test_text_files_calls_and_results_of_text_lose_nothing(messages: list[Message]) -> None:
    written = write(messages)
    assert not written.losses
    PARAMS.validate(written.document)
    back = read(written.document)
    assert write(back).document == written.document
    assert [_without_marks(message) for message in back] == messages


def _without_marks(message: Message) -> Message:
    def bare(item: Content) -> Content:
        changes: dict[str, Any] = {"provider_data": {}}
        return item.model_copy(update=changes)

    return message.model_copy(update={"contents": tuple(bare(item) for item in message.contents), "provider_data": {}})


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(items_to_try.messages, max_size=3))
def test_any_content_can_be_written_and_read_again(messages: list[Message]) -> None:
    written = write(messages)
    json.dumps(written.document)
    assert write(read(written.document)).document == written.document


KEYS = (
    "role",
    "content",
    "tool_calls",
    "function_call",
    "refusal",
    "annotations",
    "audio",
    "text",
    "image_url",
    "file",
)
json_of_it = st.recursive(
    items_to_try.json_values | st.sampled_from(["user", "tool", "text", "file", "image_url"]),
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        | st.fixed_dictionaries({"role": st.sampled_from(["user", "tool", "assistant"]), "content": inner})
        | st.fixed_dictionaries({"type": st.sampled_from(["text", "file", "image_url"])}, optional={"file": inner})
        | st.fixed_dictionaries({"choices": st.lists(st.fixed_dictionaries({"message": inner, "delta": inner}))})
        | st.lists(inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(json_of_it)
def test_no_json_makes_reading_fail_but_with_a_value_error(document: Any) -> None:
    if isinstance(document, dict):
        Reader().feed(document)
    try:
        messages = read(document)
    except ValueError:
        return
    write(messages)


# As Mistral's reasoning models answer: https://docs.mistral.ai/capabilities/reasoning
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Six times seven"}], "closed": True}
REFERENCE = {"type": "reference", "reference_ids": [1]}


def test_content_that_a_stream_gives_as_a_list_is_read_as_text_and_reasoning() -> None:
    pieces = [{**THOUGHT, "thinking": [{"type": "text", "text": text}]} for text in ("Six times ", "seven")]
    (message,) = streamed(
        [
            chunk({"role": "assistant", "content": ""}),
            *(chunk({"content": [piece]}) for piece in pieces),
            chunk({"content": [{"type": "text", "text": "It is "}]}),
            chunk({"content": "42."}, finish_reason="stop"),
        ]
    )
    reasoning, text = message.contents
    assert isinstance(reasoning, ReasoningContent) and reasoning.text == "Six times seven"
    assert (text.type, message.text) == ("text", "It is 42.")
    assert "fields" not in message.provider_data.get("openai-chat", {})


@pytest.mark.parametrize(
    "thought",
    [THOUGHT, {"type": "thinking", "thinking": [*THOUGHT["thinking"], {"type": "text", "text": "!"}]}],
    ids=["one text", "two texts"],
)
def test_thinking_among_the_parts_of_a_message_is_reasoning_and_comes_back(thought: dict[str, Any]) -> None:
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "42"}, REFERENCE]}
    (message,) = read([said])
    assert isinstance(message.contents[0], ReasoningContent)
    assert write([message]).document == [said]
    assert detect([{"role": "user", "content": "6 * 7?"}, said]) is FORMAT


def test_a_part_of_a_kind_that_is_not_known_does_not_hide_the_format() -> None:
    video = {"type": "video_url", "video_url": {"url": "https://example.com/v.mp4"}}
    assert detect([{"role": "user", "content": [video]}, *CONVERSATION[3:7]]) is FORMAT
