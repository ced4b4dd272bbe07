"""What the host believes of what a guest says: every field known and of the right type, or nothing at all."""

from __future__ import annotations

from typing import Any

import pytest

from actbox import ErrorKind
from actbox.sandbox.channel.messages import Call, Done, parse
from actbox.sandbox.guest.wire import ProtocolError

CALL = {"t": "call", "id": 1, "tool": "search", "args": {"q": 1}}
DONE = {"t": "done", "exit": 0, "value": [1], "text": "[1]", "forms": {"text/html": "x", "image/png": b"y"}}
FAILED = {"t": "done", "exit": 1, "error": {"kind": "RUNTIME", "type": "E", "message": "m", "line": 1}}


def test_good_messages_are_understood() -> None:
    assert parse(CALL) == Call(1, "search", {"q": 1})
    assert parse({**CALL, "line": 7}) == Call(1, "search", {"q": 1}, 7)
    done = parse(DONE)
    assert isinstance(done, Done)
    assert (done.value, done.value_text, done.forms["image/png"]) == ([1], "[1]", b"y")
    failed = parse(FAILED)
    assert isinstance(failed, Done)
    assert failed.error is not None
    assert failed.error.kind is ErrorKind.RUNTIME


def test_a_value_may_be_anything_that_the_channel_can_carry() -> None:
    for value in (None, True, 0, "", [], {}, b"x", {"a": float("-inf")}, [{1}]):
        done = parse({**DONE, "value": value})
        assert isinstance(done, Done)
        assert done.value == value


BAD: list[dict[str, Any]] = [
    {},
    {"t": "hello"},
    {"t": 1},
    {**CALL, "extra": 1},
    {**CALL, "id": "1"},
    {**CALL, "id": True},
    {**CALL, "id": 0},
    {**CALL, "id": 2**60},
    {**CALL, "tool": 1},
    {**CALL, "tool": "x" * 1000},
    {**CALL, "args": []},
    {**CALL, "args": {"path": 1, b"path": 2}},
    {**CALL, "args": {1: 2}},
    {**CALL, "line": 0},
    {**CALL, "line": 2**40},
    {**CALL, "line": "1"},
    {**CALL, "line": True},
    {key: value for key, value in CALL.items() if key != "args"},
    {**DONE, "exit": 256},
    {**DONE, "exit": -1},
    {**DONE, "exit": 1},
    {**DONE, "exit": False},
    {**DONE, "text": 1},
    {**DONE, "lost": 1},
    {**DONE, "forms": {"text/html": 1}},
    {**DONE, "forms": {1: "x"}},
    {**DONE, "forms": {b"text/html": "x"}},
    {**DONE, "forms": {str(n): "x" for n in range(100)}},
    {**DONE, "cpu_ms": -1},
    {**DONE, "cpu_ms": "1"},
    {**DONE, "cpu_ms": 10**400},
    {**DONE, "cpu_ms": float("nan")},
    {**DONE, "max_rss_bytes": 2**60},
    {**FAILED, "exit": 0},
    {**FAILED, "error": {"kind": "NOPE"}},
    {**FAILED, "error": {"kind": "RUNTIME", "more": 1}},
    {**FAILED, "error": {"kind": "RUNTIME", "line": "1"}},
    {**FAILED, "error": "RUNTIME"},
    *[{**FAILED, "error": {"kind": kind}} for kind in ("SANDBOX", "TIMEOUT", "CANCELLED", "PROTOCOL", "CRASH")],
]


@pytest.mark.parametrize("message", BAD, ids=str)
def test_anything_else_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        parse(message)
