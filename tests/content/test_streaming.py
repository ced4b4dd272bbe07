"""Updates come to the same message however a stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.content import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    FunctionCall,
    HostedFileContent,
    MessageBuilder,
    ReasoningContent,
    TextContent,
    UnknownContent,
    Update,
    UsageContent,
    coalesce,
    code_content,
    message_from_updates,
    messages_from_updates,
)
from tests.content import items_to_try


def text(value: str, **fields) -> TextContent:
    return TextContent(text=value, **fields)


def printed(call_id: str, value: str, **fields) -> CodeInterpreterResult:
    return CodeInterpreterResult(call_id=call_id, outputs=(text(value, stream="stdout"),), **fields)


def called(call_id: str, value: str, **fields) -> CodeInterpreterCall:
    return CodeInterpreterCall(call_id=call_id, inputs=(code_content(value),), **fields)


def test_text_that_follows_text_is_joined() -> None:
    assert coalesce([text("a"), text("b"), text("c")]) == (text("abc"),)


def test_text_is_not_joined_over_something_else() -> None:
    between = HostedFileContent(file_id="f")
    assert coalesce([text("a"), between, text("b")]) == (text("a"), between, text("b"))


def test_what_was_printed_on_another_stream_is_not_joined() -> None:
    pieces = [text("a", stream="stdout"), text("b", stream="stderr"), text("c", stream="stderr")]
    assert coalesce(pieces) == (text("a", stream="stdout"), text("bc", stream="stderr"))


def test_text_with_annotations_is_joined_with_nothing() -> None:
    cited = text("b", annotations=(Annotation(url="https://example.com"),))
    assert coalesce([text("a"), cited, text("c"), text("d")]) == (text("a"), cited, text("cd"))


def test_reasoning_ends_with_its_protected_data() -> None:
    pieces = [
        ReasoningContent(text="a"),
        ReasoningContent(text="b", protected_data="sealed"),
        ReasoningContent(text="c"),
    ]
    assert coalesce(pieces) == (ReasoningContent(text="ab", protected_data="sealed"), ReasoningContent(text="c"))


def data(value: bytes, media_type: str = "text/csv", name: str | None = None) -> DataContent:
    return DataContent(media_type=media_type, data=value, name=name)


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([data(b"a"), data(b"b")], (data(b"ab"),)),
        ([data(b"a", name="x"), data(b"b", name="x")], (data(b"ab", name="x"),)),
        ([data(b"a", name="x"), data(b"b", name="y")], (data(b"a", name="x"), data(b"b", name="y"))),
        ([data(b"a"), data(b"b", "text/plain")], (data(b"a"), data(b"b", "text/plain"))),
        ([data(b"a", "image/png"), data(b"b", "image/png")], (data(b"a", "image/png"), data(b"b", "image/png"))),
    ],
)
def test_text_data_of_the_same_type_and_name_is_joined(pieces, whole) -> None:
    assert coalesce(pieces) == whole


def test_calls_and_results_are_joined_by_their_id_also_when_they_come_by_turns() -> None:
    pieces = [
        called("1", "a"),
        called("2", "x"),
        called("1", "b"),
        printed("1", "o"),
        called("2", "y"),
        printed("1", "k"),
    ]
    assert coalesce(pieces) == (called("1", "ab"), called("2", "xy"), printed("1", "ok"))


def test_a_result_may_come_before_its_call() -> None:
    assert coalesce([printed("1", "o"), called("1", "a"), printed("1", "k")]) == (printed("1", "ok"), called("1", "a"))


def test_text_around_a_piece_that_went_elsewhere_is_joined() -> None:
    assert coalesce([called("1", "a"), text("x"), called("1", "b"), text("y")]) == (called("1", "ab"), text("xy"))


def test_a_piece_that_replaces_takes_the_place_of_those_before() -> None:
    pieces = [called("1", "draft"), text("between"), called("1", "final", merge_mode="replace"), called("1", "!")]
    assert coalesce(pieces) == (called("1", "final!"), text("between"))


def test_the_last_word_on_how_a_result_ended_counts() -> None:
    ended = CodeInterpreterResult(call_id="1", exit_code=3, status="completed", outcome="failed")
    assert coalesce([printed("1", "o", status="running"), ended]) == (
        printed("1", "o", exit_code=3, status="completed", outcome="failed"),
    )


def test_the_arguments_of_a_function_come_in_pieces() -> None:
    pieces = [
        FunctionCall(call_id="1", name="f", arguments='{"a"'),
        FunctionCall(call_id="2", name="g", arguments=""),
        FunctionCall(call_id="1", arguments=": 1}"),
    ]
    assert coalesce(pieces) == (
        FunctionCall(call_id="1", name="f", arguments={"a": 1}),
        FunctionCall(call_id="2", name="g", arguments=""),
    )


def test_usage_is_summed_up() -> None:
    pieces = [
        UsageContent(input_tokens=3, counts={"cached": 1}),
        text("a"),
        UsageContent(input_tokens=1, output_tokens=2, counts={"cached": 1, "thought": 5}),
    ]
    assert coalesce(pieces) == (
        UsageContent(input_tokens=4, output_tokens=2, counts={"cached": 2, "thought": 5}),
        text("a"),
    )


def test_what_only_a_provider_has_is_kept_apart() -> None:
    first, second = text("a", provider_data={"x": {"n": 1}}), text("b", provider_data={"x": {"n": 2}})
    assert coalesce([first, second]) == (first, second)
    assert coalesce([first, text("b")]) == (text("ab", provider_data={"x": {"n": 1}}),)


def test_what_is_not_known_stays_where_it_is() -> None:
    unknown = UnknownContent(format="x", raw={"a": [1]})
    assert coalesce([text("a"), unknown, unknown, text("b")]) == (text("a"), unknown, unknown, text("b"))


def test_items_that_were_handed_in_stay_as_they_are() -> None:
    pieces = [text("a"), text("b"), called("1", "x"), called("1", "y")]
    before = [item.model_copy(deep=True) for item in pieces]
    coalesce(pieces)
    assert pieces == before


@pytest.mark.slow
@given(st.lists(items_to_try.items, max_size=8))
def test_what_is_put_together_stays_so(items) -> None:
    once = coalesce(items)
    assert coalesce(once) == once


def pieces_of(item, cut: int) -> list:
    """Cut one item into two that a stream could bring."""
    plain = not item.annotations
    if isinstance(item, TextContent) and plain:
        return [item.model_copy(update={"text": part}) for part in (item.text[:cut], item.text[cut:])]
    if isinstance(item, DataContent) and plain and item.media_type.startswith("text/"):
        return [item.model_copy(update={"data": part}) for part in (item.data[:cut], item.data[cut:])]
    if isinstance(item, CodeInterpreterCall) and plain:
        return [item.model_copy(update={"inputs": part}) for part in (item.inputs[:cut], item.inputs[cut:])]
    if isinstance(item, CodeInterpreterResult) and plain:
        return [item.model_copy(update={"outputs": part}) for part in (item.outputs[:cut], item.outputs[cut:])]
    return [item]


@pytest.mark.slow
@given(st.lists(items_to_try.items, max_size=6), st.lists(st.integers(0, 30), min_size=6, max_size=6))
def test_a_message_is_the_same_however_its_stream_was_cut(items, cuts) -> None:
    whole = coalesce(items)
    pieces = [piece for item, cut in zip(items, cuts, strict=False) for piece in pieces_of(item, cut)]
    assert coalesce(pieces) == whole


@pytest.mark.slow
@given(st.lists(items_to_try.items, max_size=8))
def test_the_state_is_right_at_any_time(items) -> None:
    builder = MessageBuilder()
    for count, item in enumerate(items, 1):
        builder.feed(Update(contents=(item,)))
        assert builder.message.contents == coalesce(items[:count])


def test_a_message_that_was_asked_for_does_not_change_later() -> None:
    builder = MessageBuilder()
    builder.feed(Update(contents=(text("a"),)))
    early = builder.message
    builder.feed(Update(contents=(text("b"),)))
    assert (early.text, builder.message.text) == ("a", "ab")


def test_what_updates_say_of_the_message_is_put_together() -> None:
    message = message_from_updates(
        [
            Update(role="assistant", message_id="m", provider_data={"x": {"a": 1}}),
            Update(contents=(text("hi"),)),
            Update(finish_reason="stop", model="some-model", provider_data={"x": {"b": 2}}),
        ]
    )
    assert (message.role, message.id, message.text, message.finish_reason) == ("assistant", "m", "hi", "stop")
    assert message.model == "some-model"
    assert message.provider_data == {"x": {"a": 1, "b": 2}}


def test_another_id_or_role_begins_another_message() -> None:
    updates = [
        Update(message_id="1", role="assistant", contents=(text("a"),)),
        Update(contents=(text("b"),)),
        Update(message_id="2", contents=(text("c"),)),
        Update(message_id="2", role="tool", contents=(text("d"),)),
    ]
    assert [message.text for message in messages_from_updates(updates)] == ["ab", "cd"]


def test_a_change_of_role_begins_another_message() -> None:
    updates = [Update(role="assistant", contents=(text("a"),)), Update(role="tool", contents=(text("b"),))]
    assert [(message.role, message.text) for message in messages_from_updates(updates)] == [
        ("assistant", "a"),
        ("tool", "b"),
    ]


def test_messages_that_come_by_turns_go_on_by_their_ids() -> None:
    updates = [Update(message_id=name, contents=(text(piece),)) for name, piece in ("1a", "2x", "1b", "2y")]
    assert [message.text for message in messages_from_updates(updates)] == ["ab", "xy"]


def test_an_update_that_says_nothing_of_itself_belongs_to_the_one_before() -> None:
    updates = [Update(message_id="1"), Update(message_id="2"), Update(message_id="1"), Update(contents=(text("a"),))]
    assert [message.text for message in messages_from_updates(updates)] == ["a", ""]


def test_an_annotation_that_comes_after_its_text_is_added_to_it() -> None:
    note, other = Annotation(file_id="file_1"), Annotation(file_id="file_2")
    pieces = [
        TextContent(text="see "),
        TextContent(text="", annotations=(note,)),
        TextContent(text="chart.png"),
        TextContent(text="", annotations=(other,)),
    ]
    assert coalesce(pieces) == (TextContent(text="see chart.png", annotations=(note, other)),)


def test_an_annotation_alone_is_not_added_to_text_of_another_part() -> None:
    note = TextContent(text="", annotations=(Annotation(file_id="file_1"),), provider_data={"some": {"part": 1}})
    assert coalesce([TextContent(text="see "), note]) == (TextContent(text="see "), note)


def test_fields_that_are_not_known_stay_with_what_they_were_said_of() -> None:
    pieces = [
        FunctionCall(call_id="a", name="f", arguments='{"x'),
        FunctionCall.model_validate({"call_id": "a", "arguments": '":1}', "zeta": 5}),
    ]
    (call,) = coalesce(pieces)
    assert call.to_dict()["zeta"] == 5
    assert message_from_updates([Update.model_validate({"zeta": 5})]).to_dict() == {"zeta": 5}


def test_usage_that_says_more_is_not_summed_up() -> None:
    more = UsageContent.model_validate({"input_tokens": 1, "zeta": 5})
    assert coalesce([UsageContent(input_tokens=1), more]) == (UsageContent(input_tokens=1), more)


def test_arguments_that_are_whole_do_not_go_on_as_text() -> None:
    pieces = [FunctionCall(call_id="a", arguments={"x": 1}), FunctionCall(call_id="a", arguments="more")]
    assert coalesce(pieces) == tuple(pieces)
