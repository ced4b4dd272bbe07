"""Large messages to a guest, encoded in parts: what comes of it is what comes of it at once, and no part is large."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actbox.sandbox.channel import encoding
from actbox.sandbox.channel.encoding import encode
from actbox.sandbox.guest import wire
from actbox.tools import large_values
from actbox.tools.large_values import FEW_BYTES, FEW_VALUES

_MOST_BYTES = 2**24


def message(frame: bytes) -> Any:
    return next(wire.FrameReader(_MOST_BYTES + 10_000).feed(frame))


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("\0") | st.binary()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3) | st.just("\0a"), inner, max_size=5)
    ),
    max_leaves=40,
)


@pytest.mark.slow
@given(value=values, few=st.integers(0, 4))
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
def test_in_parts_and_at_once_the_same_is_read(value: Any, few: int) -> None:
    whole = {"t": "return", "value": value}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "is_large", lambda part: large_values.is_large(part, few, 3))
        patch.setattr(encoding, "FEW_BYTES", 3)
        patch.setattr(large_values, "_BLOCK", 2)
        in_parts = encode(whole, _MOST_BYTES)
    assert repr(message(in_parts)) == repr(message(wire.encode(whole, _MOST_BYTES)))


LARGE: dict[str, Any] = {
    "numbers": list(range(100_000)),
    "records": [{"a": 1, "b": "x", "c": [1.5]}] * 20_000,
    "entries": {f"k{number}": number for number in range(50_000)},
    "a text": '7"\n' * FEW_BYTES,
    "texts": ["x" * 1000] * 5000,
    "one in the other": [[[list(range(2_000))] * 3] * 3, {"a": {"b": ["x" * FEW_BYTES] * 2}}],
    "bytes": [b"x" * 1000] * 2_000,
}


@pytest.mark.parametrize("kind", LARGE)
def test_no_part_of_a_large_message_is_large(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    dumps, looked_at = json.dumps, wire.check_text
    longest = [0]

    def counted(part: Any, **options: Any) -> str:
        given.append(part)
        return dumps(part, **options)

    def noted(text: str) -> None:
        longest[0] = max(longest[0], len(text))
        looked_at(text)

    monkeypatch.setattr(json, "dumps", counted)
    monkeypatch.setattr(wire, "check_text", noted)
    frame = encode({"t": "return", "value": LARGE[kind]}, _MOST_BYTES)
    monkeypatch.undo()
    sizes = [part for part in given if large_values.is_large(part, FEW_VALUES, FEW_BYTES)]
    if kind != "bytes":  # the sizes of which are written at once
        assert not sizes
    assert longest[0] < 2 * FEW_BYTES
    assert message(frame) == {"t": "return", "value": LARGE[kind]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1] * (wire.MAX_VALUES + 1), "more than 2000000 values"),
        ([[]] * (wire.MAX_VALUES // 11 + 1), "more than 2000000 values"),
        ({"a": [1] * 2_000, "b": 10**wire.MAX_DIGITS}, "4300 digits"),
        ([0] * 2_000 + json.loads("[" * wire.MAX_DEPTH + "]" * wire.MAX_DEPTH), "nested more than 200 deep"),
        (["x" * FEW_BYTES] * 17, "a message of more than"),
        ("é" * 3 * FEW_BYTES, "a message of more than"),
    ],
    ids=["values", "lists", "digits", "depth", "texts", "text"],
)
def test_a_large_message_has_the_bounds_of_any(value: Any, error: str) -> None:
    with pytest.raises((ValueError, wire.MessageTooLong), match=error):
        encode({"t": "return", "value": value}, _MOST_BYTES)
    with pytest.raises((ValueError, wire.MessageTooLong)):
        wire.encode({"t": "return", "value": value}, _MOST_BYTES)
