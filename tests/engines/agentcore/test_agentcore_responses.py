"""What is read from the events of a stream, and what is not made up where it is missing."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.sandbox.engines.agentcore.kernel import shown_in
from actbox.sandbox.engines.agentcore.response import (
    InvalidResponse,
    ServiceResponse,
    StreamException,
    files_in,
    names_in,
    pieces_in,
    response_of,
)


def result(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"result": {"content": list(content), **more}}


def test_all_events_of_a_stream_count() -> None:
    answer = response_of(
        [
            result({"type": "text", "text": "a"}, structuredContent={"stdout": "1", "taskId": "t"}),
            result({"type": "text", "text": "b"}, isError=True, structuredContent={"stdout": "2", "exitCode": 3}),
            result(isError=False),
        ]
    )
    assert (answer.text, answer.stdout, answer.exit_code, answer.task_id) == ("a\nb", "12", 3, "t")
    assert answer.is_error


def test_what_is_missing_is_not_made_up() -> None:
    for events in ([], [{}], [{"result": {}}], [result({"type": "text"}, structuredContent={})]):
        assert response_of(events).exit_code is None
        assert not response_of(events).is_error


@pytest.mark.parametrize(
    "given",
    [
        [1],
        {"content": "abc"},
        {"content": {"a": 1}},
        {"content": [7]},
        {"isError": "no"},
        {"structuredContent": [1]},
        {"structuredContent": {"stdout": 5}},
        {"structuredContent": {"stderr": ["x"]}},
        {"structuredContent": {"exitCode": "0"}},
        {"structuredContent": {"exitCode": True}},
        {"structuredContent": {"taskId": 7}},
        {"structuredContent": {"taskStatus": ["working"]}},
    ],
)
def test_what_is_of_another_type_is_an_error(given: Any) -> None:
    with pytest.raises(InvalidResponse, match="of the type"):
        response_of([{"result": given}])


def test_an_exception_is_raised_where_it_stands() -> None:
    with pytest.raises(StreamException, match="slow down") as raised:
        response_of([result(), {"throttlingException": {"message": "slow down"}}, result()])
    assert raised.value.code == "ThrottlingException"


def test_files_are_text_or_bytes() -> None:
    text = {"type": "resource", "resource": {"type": "text", "uri": "file:///a/t", "text": "ü"}}
    blob = {"type": "resource", "resource": {"type": "blob", "uri": "file:///a/b", "blob": b"\0"}}
    answer = response_of([result(text, {"type": "resource"}, blob)])
    assert files_in(answer) == {"t": "ü".encode(), "b": b"\0"}


def test_text_that_cannot_be_written_is_no_file() -> None:
    half = {"type": "resource", "resource": {"type": "text", "uri": "file:///a/t", "text": "\ud800"}}
    assert files_in(response_of([result(half)])) == {}
    assert shown_in([response_of([result(half)])], 10, 1000) == ([], [])


def test_a_media_type_that_is_no_text_is_none() -> None:
    image = {"type": "image", "data": b"123", "mimeType": 5}
    (artifact,), _ = shown_in([response_of([result(image)])], 10, 1000)
    assert (artifact.name, artifact.media_type) == ("shown-1.png", "image/png")


def test_names_are_those_of_links_also_without_a_size() -> None:
    links = [
        {"type": "resource_link", "name": "a", "size": 3},
        {"type": "resource_link", "uri": "file:///x/b"},
        {"type": "resource_link"},
        {"type": "resource_link", "name": "d", "size": -1},
        {"type": "text", "text": "c"},
    ]
    assert names_in(response_of([result(*links)])) == {"a": 3, "b": None, "d": None}


def test_pieces_are_whole_whatever_ends_the_lines() -> None:
    said = "greeting\n#00000001\nab\ncd\n\n#end\n{}\n#.\n"
    assert pieces_in(ServiceResponse(stdout=said)) == {"00000001": b"ab\ncd\n", "end": b"{}"}
    assert pieces_in(ServiceResponse(stdout=said.replace("\n", "\r\n"))) == pieces_in(ServiceResponse(stdout=said))
    assert pieces_in(ServiceResponse(stdout="")) == {}


def test_pieces_that_were_cut_off_are_an_error() -> None:
    with pytest.raises(ValueError, match="missing"):
        pieces_in(ServiceResponse(stdout="#00000001\nab\ncd"))


def test_what_is_shown_is_bounded_and_its_name_is_no_path() -> None:
    image = {"type": "image", "data": b"123", "mimeType": "image/svg+xml"}
    named = {
        "type": "resource",
        "resource": {"uri": "file:///a/../../etc/passwd", "text": "x", "mimeType": "text/plain"},
    }
    found, warnings = shown_in([response_of([result(image, named)])], 10, 1000)
    assert [(artifact.name, artifact.data) for artifact in found] == [("shown-1.svg", b"123"), ("passwd", b"x")]
    assert warnings == []
    for most, most_bytes in ((1, 1000), (10, 3)):
        found, warnings = shown_in([response_of([result(image, named)])], most, most_bytes)
        assert ([artifact.name for artifact in found], len(warnings)) == (["shown-1.svg"], 1)
