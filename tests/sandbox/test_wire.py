"""Frames: what one end encodes the other decodes, however it is cut; and what breaks the rules is refused early."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from typing import Any

import pytest

from actbox.sandbox.guest import wire

MESSAGES: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": [None, True, 1.5, "ü\0\ud800"]},
    {"data": b"\0\xff" * 100},
    {"nested": [{"x": b"1"}, [b"", b"2"]], "text": "t"},
    {"\0": 1, "\0\0": b"x", "\0odd": {"\0": 0}},
    {"like a blob": {"\0": 0}, "real": b"y"},
    {"blobs": [1, 2]},
]


def decode(data: bytes, max_bytes: int = 10**6) -> list[dict[str, Any]]:
    return list(wire.FrameReader(max_bytes).feed(data))


@pytest.mark.parametrize("message", MESSAGES[:-1])
def test_messages_survive(message: dict[str, Any]) -> None:
    assert decode(wire.encode(message, 10**6)) == [message]


def test_frames_survive_being_cut_anywhere() -> None:
    data = b"".join(wire.encode(message, 10**6) for message in MESSAGES[:-1])
    chance = random.Random(7)
    for _ in range(50):
        reader, got, rest = wire.FrameReader(10**6), [], data
        while rest:
            size = chance.randint(1, 40)
            got += reader.feed(rest[:size])
            rest = rest[size:]
        assert got == MESSAGES[:-1]
        assert reader.pending == 0


def test_data_that_was_received_is_not_held_once_it_is_taken() -> None:
    reader = wire.FrameReader(10**6)
    frames = [wire.encode(message, 10**6) for message in MESSAGES[:-1]]
    assert list(reader.feed(b"".join(frames) + frames[0][:5])) == MESSAGES[:-1]
    assert (reader.pending, reader.missing) == (5, 3)
    assert list(reader.feed(frames[0][5:])) == MESSAGES[:1]
    assert (reader.pending, len(reader._buffer)) == (0, 0)


@pytest.mark.parametrize("text", [b' {"t": 1} ', b'\n{"t":1}', b'{"t":1}\n'])
def test_spaces_around_a_message_are_skipped(text: bytes) -> None:
    assert wire.decode(text, b"") == {"t": 1}


def test_plain_messages_have_the_same_frame_by_either_encoder() -> None:
    for message in ({"t": "call", "id": 1, "args": {"a": [1, 2.5, None, True, "é\ud800\0\n"], "": {}}}, {}):
        assert wire.frame_of(wire.plain_text(message), 10**6) == wire.encode(message, 10**6)
    with pytest.raises(wire.MessageTooLong):
        wire.frame_of(wire.plain_text({"a": "x" * 2000}), 1000)
    with pytest.raises(ValueError, match="nested"):
        wire.frame_of("[" * 300 + "]" * 300, 10**6)


def test_a_long_frame_is_refused_by_its_header() -> None:
    reader = wire.FrameReader(1000)
    with pytest.raises(wire.MessageTooLong):
        list(reader.feed(struct.pack("!II", 2**31, 2**31)))
    with pytest.raises(wire.MessageTooLong):
        wire.encode({"a": "x" * 2000}, 1000)


@pytest.mark.parametrize(
    ("text", "blobs"),
    [
        (b"not json", b""),
        (b"", b""),
        (b'{"a":1}}', b""),
        (b'{"a":1} {', b""),
        (b"[1]", b""),
        (b"1", b""),
        (b"\xff", b""),
        (b"[" * 5000, b""),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", b""),
        (b"{}", b"unlisted"),
        (b'{"blobs":[1]}', b""),
        (b'{"blobs":[2,-1]}', b"x"),
        (b'{"blobs":"x"}', b"x"),
        (b'{"blobs":{}}', b""),
        (b'{"blobs":1}', b"x"),
        (b'{"blobs":[' + b"0," * 200_000 + b"0]}", b""),
        (b'{"blobs":[true]}', b"x"),
        (b'{"blobs":[1],"\\u0000":0}', b"x"),
        (b'{"blobs":[1],"a":{"\\u0000":1}}', b"x"),
        (b'{"blobs":[1],"a":{"\\u0000":-1}}', b"x"),
        (b'{"blobs":[1],"a":[{"\\u0000":0},{"\\u0000":0}]}', b"x"),
        (b'{"blobs":[1],"a":{"\\u0000":"0"}}', b"x"),
        (b'{"blobs":[1],"a":{"\\u0000":false}}', b"x"),
        (b'{"blobs":[1],"a":{"\\u0000":0.0}}', b"x"),
        (b'{"blobs":[1],"a":{"\\u0000":[]}}', b"x"),
    ],
    ids=lambda given: repr(given)[:40],
)
def test_a_frame_that_breaks_the_rules_is_refused(text: bytes, blobs: bytes) -> None:
    with pytest.raises(wire.ProtocolError):
        decode(struct.pack("!II", len(text), len(blobs)) + text + blobs)


@pytest.mark.parametrize(
    ("message", "steps"),
    [
        ({"a": [{"\0": number} for number in range(100_000)]}, 10),  # once over the sizes, once over the places
        ({"\0key": 1, "a": [0] * 100_000}, 5),
        ({"a": {f"\0{number}": 1 for number in range(100_000)}}, 10),  # and once more for the keys
    ],
    ids=["blobs", "values", "keys with NUL"],
)
def test_blobs_are_put_in_their_places_in_bounded_steps(message: dict[str, Any], steps: int) -> None:
    message["blobs"] = [1] * 100_000 if steps == 10 and type(message["a"]) is list else []
    assert sum(1 for _ in wire._place_blobs(message, b"x" * len(message["blobs"]))) == steps


@pytest.mark.slow
def test_random_bytes_never_do_anything_else_than_be_refused_or_wait() -> None:
    chance = random.Random(11)
    for _ in range(20_000):
        data = bytearray(wire.encode(chance.choice(MESSAGES[:-1]), 10**6))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            for message in decode(bytes(data), 5000):
                assert isinstance(message, dict)
                json.dumps(message, default=lambda value: value.decode("latin1"))
        except wire.ProtocolError:
            pass


@pytest.mark.parametrize("message", [{"a": object()}, {"a": {1, 2}}, {"a": [b"x", object()]}])
def test_what_is_no_json_is_a_type_error(message: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        wire.encode(message, 1000)


@pytest.mark.slow
def test_looking_for_values_takes_time_and_memory_by_the_length_of_a_message_whatever_stands_in_it() -> None:
    """An unclosed text of escaped quotes once took the square of its length, and a long text a hundredfold memory."""
    many = "[" + "," * (wire.MAX_VALUES + 1)
    tracemalloc.start()
    try:
        for text in (many + '"' + '\\"' * 4_000_000, many + '"' + "a" * 8_000_000 + '"'):
            assert wire.has_too_many_values(text)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
    assert not wire.has_too_many_values('["' + "," * (wire.MAX_VALUES + 1) + '\\",\\\\", 1]')


def test_a_list_or_an_object_counts_as_several_values() -> None:
    most = wire.MAX_VALUES // (wire.VALUES_OF_A_CONTAINER + 1)
    for one in ("[]", "{}"):
        assert not wire.has_too_many_values("[" + ",".join([one] * (most - 2)) + "]")
        assert wire.has_too_many_values("[" + ",".join([one] * (most + 2)) + "]")
    assert not wire.has_too_many_values("[" + ",".join(["1"] * (wire.MAX_VALUES - 20)) + "]")
    with pytest.raises(ValueError, match="a list or an object counts as 10"):
        wire.encode({"a": [[]] * (most + 2)}, 10**8)


def test_depth_is_counted_outside_of_texts_and_across_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int) -> str:
        return "[" * depth + ",".join(['{"[[[": "]"}'] * 300) + "]" * depth

    for size in (7, 64, 1 << 20):
        monkeypatch.setattr(wire, "_PART", size)
        assert not wire.is_too_deep(nested(wire.MAX_DEPTH - 1))
        assert wire.is_too_deep(nested(wire.MAX_DEPTH))


def test_what_stands_in_texts_is_told_from_what_does_not_across_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [['a"b\\', "[{,", '\\"', ""], {"k[": "\\\\", "l": ['"[']}]
    text = json.dumps(values)
    for size in range(1, 12):
        monkeypatch.setattr(wire, "_PART", size)
        outside = "".join(wire._outside_texts(text))
        assert outside == "[[, , , ], {: , : []}]"


@pytest.mark.slow
def test_long_runs_of_digits_are_looked_at_once() -> None:
    digits = "1" * wire.MAX_DIGITS
    assert not wire.has_long_number(json.dumps([digits] * 4000))
    assert not wire.has_long_number(json.dumps(digits + "1"))
    assert wire.has_long_number(f"[1, -{digits}1]")
