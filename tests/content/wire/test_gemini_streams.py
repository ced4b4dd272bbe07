"""Gemini's streams: their chunks come to what the whole response does."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.content import FunctionCall, UnknownContent, UsageContent, message_from_updates
from actbox.content.wire.gemini import FORMAT, Reader, read, with_annotations, write
from tests.content.wire.gemini_samples import RESPONSE, chunks_of
from tests.content.wire.sdk_types import SdkType


def test_a_stream_comes_to_what_the_whole_response_does() -> None:
    reader = Reader()
    updates = [update for chunk in chunks_of(RESPONSE) for update in reader.feed(chunk)]
    assert all(FORMAT.is_event is not None and FORMAT.is_event(chunk) for chunk in chunks_of(RESPONSE))
    assert [with_annotations(message_from_updates(updates))] == read(RESPONSE)
    assert read(chunks_of(RESPONSE)) == read(RESPONSE)


def test_a_stream_that_is_cut_off_has_said_its_last_counts() -> None:
    reader = Reader()
    updates = [update for chunk in chunks_of(RESPONSE)[:3] for update in reader.feed(chunk)]
    data = message_from_updates(updates).provider_data["gemini"]["response"]
    assert isinstance(data, dict)
    assert data["usageMetadata"] == {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}


def test_counts_after_the_end_are_what_was_added() -> None:
    reader = Reader()
    end = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 5}}
    more = {"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 3}}
    message = message_from_updates([*reader.feed(end), *reader.feed(more), *reader.feed(more)])
    assert message.contents == (UsageContent(input_tokens=5, output_tokens=3),)


def test_citations_of_several_chunks_add_up() -> None:
    reader = Reader()
    pieces = [
        {"content": {"parts": [{"text": "abc"}]}, "citationMetadata": {"citations": [{"endIndex": 3, "uri": "a"}]}},
        {"content": {"parts": [{"text": "def"}]}, "citationMetadata": {"citations": [{"endIndex": 6, "uri": "b"}]}},
    ]
    updates = [update for piece in pieces for update in reader.feed({"candidates": [piece]})]
    (item,) = with_annotations(message_from_updates(updates)).contents
    assert [(note.url, note.end) for note in item.annotations] == [("a", 3), ("b", 6)]


def test_candidates_of_a_stream_are_told_by_message_ids() -> None:
    reader = Reader()
    chunk = {
        "candidates": [
            {"index": 0, "content": {"role": "model", "parts": [{"text": "a"}]}},
            {"index": 1, "content": {"role": "model", "parts": [{"text": "b"}]}},
        ],
        "responseId": "r",
    }
    updates = [*reader.feed(chunk), *reader.feed(chunk)]
    texts = {name: message_from_updates(u for u in updates if u.message_id == name).text for name in ("r", "r-1")}
    assert texts == {"r": "aa", "r-1": "bb"}


def test_another_response_in_the_same_stream_begins_anew() -> None:
    reader = Reader()
    chunk = {"candidates": [{"content": {"parts": [{"executableCode": {"code": "1"}}]}}]}
    first, second = (reader.feed({**chunk, "responseId": name})[0] for name in ("r1", "r2"))
    assert (first.message_id, second.message_id) == ("r1", "r2")
    assert first.contents == second.contents


@pytest.mark.parametrize("event", [{"later": 1}, {"type": "ping"}, {}])
def test_an_event_that_is_not_known_is_kept(event: Any) -> None:
    assert Reader().feed(event)[0].contents == (UnknownContent(format="gemini", raw=event),)


def test_arguments_in_pieces_are_put_together() -> None:
    """As the API streams them: values at JSON paths, text that continues, and an empty piece at the end."""
    pieces: list[Any] = [
        {"name": "book", "id": "i", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.to", "stringValue": "Bo", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.to", "stringValue": "nn"}], "willContinue": True},
        {
            "partialArgs": [
                {"jsonPath": "$.seats[0].row", "numberValue": 3},
                {"jsonPath": "$.seats[1]['row']", "numberValue": 4},
                {"jsonPath": "$.now", "boolValue": True},
                {"jsonPath": "$.note", "nullValue": "NULL_VALUE"},
            ],
            "willContinue": True,
        },
        {},
    ]
    whole = {"to": "Bonn", "seats": [{"row": 3}, {"row": 4}], "now": True, "note": None}
    parts = [{"functionCall": piece} for piece in pieces]
    for part in parts:
        SdkType("google.genai.types:Part").validate(part)
    reader = Reader()
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    message = message_from_updates(update for chunk in chunks for update in reader.feed(chunk))
    assert message.contents == (FunctionCall(call_id="i", name="book", arguments=whole),)
    assert read(parts)[0].contents == message.contents
    assert write([message]).document == [
        {"role": "model", "parts": [{"functionCall": {"id": "i", "name": "book", "args": whole}}]}
    ]
