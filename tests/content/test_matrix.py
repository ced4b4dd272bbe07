"""The page on what survives a conversion is what conversions do."""

from __future__ import annotations

import copy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actbox.content.wire.formats import NAMES, detect, detect_event, find_format
from tests.content import items_to_try, matrix


def test_the_transcript_has_everything() -> None:
    assert matrix.features_of(matrix.TRANSCRIPT) == list(matrix.FEATURES)


def test_our_own_format_keeps_everything() -> None:
    assert matrix.through("actbox", matrix.TRANSCRIPT) == list(matrix.TRANSCRIPT)


@pytest.mark.slow
def test_the_page_is_current() -> None:
    assert matrix.page() == matrix.PAGE.read_text(), "run `python -m tests.content.matrix`"


# What it writes is in the shape of OpenAI's responses: nothing tells them apart but what only Azure has.
_LIKE_ANOTHER = {"azure-foundry": "openai-responses"}


@pytest.mark.parametrize("name", matrix.WRITTEN)
def test_what_a_format_writes_is_told_by_its_looks(name: str) -> None:
    document = find_format(name).write(matrix.TRANSCRIPT).document
    found = detect(document)
    assert found is not None
    assert found.name == _LIKE_ANOTHER.get(name, name)


_NEW_BLOCKS = {
    "anthropic": ("content", {"type": "compaction", "content": "They counted."}),
    "openai-responses": ("content", {"type": "output_dance", "steps": 3}),
    "openai-chat": ("content", {"type": "dance", "dance": {"steps": 3}}),
    "gemini": ("parts", {"dance": {"steps": 3}}),
    "bedrock-converse": ("content", {"dance": {"steps": 3}}),
    "extensions-ai": ("contents", {"$type": "dance", "steps": 3}),
    "agent-framework": ("contents", {"type": "dance", "steps": 3}),
}
"""For each format of messages with blocks: the field that has them, and a block of a kind that is not known here."""


@pytest.mark.parametrize("name", _NEW_BLOCKS)
def test_a_block_that_is_not_known_does_not_hide_the_format(name: str) -> None:
    field, block = _NEW_BLOCKS[name]
    document = find_format(name).write(matrix.TRANSCRIPT).document
    for number, message in enumerate(document):
        blocks = message.get(field)
        if isinstance(blocks, list):
            changed = {**message, field: [*blocks, block]}
            found = detect([*document[:number], changed, *document[number + 1 :]])
            assert found is not None and found.name == name
            alone = detect([{**message, field: [block]}, *document])
            assert alone is not None and alone.name == name


@pytest.mark.parametrize("name", matrix.WRITTEN)
def test_what_came_back_once_comes_back_again(name: str) -> None:
    once = matrix.through(name, matrix.TRANSCRIPT)
    assert matrix.features_of(matrix.through(name, once)) == matrix.features_of(once)


@pytest.mark.parametrize("document", [None, 3, "text", [], {}, {"a": 1}, [1, 2], [[]]])
def test_what_is_of_no_format_is_told_to_be_of_none(document) -> None:
    assert detect(document) is None
    assert detect_event(document) is None


@pytest.mark.slow
@given(items_to_try.json_values | st.fixed_dictionaries({"content": st.lists(items_to_try.json_objects)}))
@example({"content": [{"type": [1]}, {"type": "text", "text": "a"}]})
@example({"contents": [{"parts": [{"text": {}}]}]})
def test_no_document_stops_the_search_for_its_format(document) -> None:
    detect(document)
    detect_event(document)


def _places(document, place=()):
    yield place
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from _places(value, (*place, key))


def _with(document, place, value):
    if not place:
        return value
    changed = copy.copy(document)
    changed[place[0]] = _with(document[place[0]], place[1:], value)
    return changed


@pytest.mark.parametrize("name", matrix.WRITTEN)
def test_a_value_of_another_type_anywhere_does_not_stop_the_search(name) -> None:
    for item in find_format(name).write(matrix.TRANSCRIPT).document:
        for place in _places(item):
            for value in ([1], {"a": 1}, None):
                detect(_with(item, place, value))
                detect_event(_with(item, place, value))


def test_a_format_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(KeyError, match="openai-chat"):
        find_format("openai")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "actbox" and find_format(name).stream])
@pytest.mark.parametrize(
    "event", [1, None, "text", [{}], {}, {"type": []}, {"contentBlockStop": {"contentBlockIndex": {}}}]
)
def test_an_event_that_is_none_does_not_end_the_reading_of_a_stream(name, event) -> None:
    stream = find_format(name).stream
    assert stream is not None
    stream().feed(event)


@pytest.mark.parametrize("role", [{"a": 1}, [1]])
def test_a_role_that_is_no_word_is_no_crash(role) -> None:
    detect({"role": role, "content": "x"})
    detect({"type": role, "role": "assistant", "content": []})
    found = detect({"type": "chat_message", "role": role, "contents": [{"type": "text", "text": "hi"}]})
    assert found is not None
    assert found.name == "agent-framework"
