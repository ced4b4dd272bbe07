"""Large messages, decoded in steps: what comes of it is what comes of it at once, and no step is large."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actbox.core.result import ExecutionResult
from actbox.sandbox.channel import decoding, link
from actbox.sandbox.channel.decoding import STEP_BYTES, decode_in_steps
from actbox.sandbox.channel.link import Link
from actbox.sandbox.channel.messages import Call, Done
from actbox.sandbox.guest import wire

quickly = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


def in_steps(text: bytes, blobs: bytes = b"") -> tuple[dict[str, Any], int]:
    """Return a message and how many steps it took."""
    steps, count = decode_in_steps(text, blobs), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value[0], count
        count += 1


def outcome(text: bytes, blobs: bytes, *, at_once: bool) -> Any:
    try:
        return wire.decode(text, blobs) if at_once else in_steps(text, blobs)[0]
    except wire.ProtocolError:
        return "refused"


# Texts of JSON, written as `json` would not: with keys that are given twice, space anywhere, and bytes for blobs.

space = st.sampled_from(["", "", " ", "\n\t"])
texts = st.sampled_from(
    ['""', '"a"', '"b"', r'"\\"', r'"\""', r'"\\\""', '"[{,"', '"\\u0000"', '"ü\U0001f600"', '"x,y"']
)
leaves = st.sampled_from(["1", "-2.5e3", "null", "true", '{"\\u0000":0}', "{}", "[]", "NaN", "-Infinity"]) | texts


def container(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(space, texts, space, st.just(":"), inner).map("".join)
    lists = st.lists(st.tuples(space, inner, space).map("".join), max_size=5).map(",".join)
    return lists.map("[{}]".format) | st.lists(member, max_size=5).map(",".join).map(lambda text: "{" + text + "}")


documents = st.recursive(leaves, container, max_leaves=40)
messages = st.tuples(documents, documents, st.sampled_from(["", ',"blobs":[1]', ',"blobs":[]', ',"a":3'])).map(
    lambda parts: '{{"a":{},"b":{}{}}}'.format(*parts).encode()
)


@pytest.mark.slow
@given(text=messages, step=st.integers(2, 40), blobs=st.sampled_from([b"", b"x"]))
@quickly
def test_in_steps_and_at_once_the_same_comes_of_it(text: bytes, step: int, blobs: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "STEP_BYTES", step)
        got = outcome(text, blobs, at_once=False)
    assert repr(got) == repr(outcome(text, blobs, at_once=True)) or got == outcome(text, blobs, at_once=True)


@pytest.mark.slow
@given(
    text=messages | st.binary(max_size=60),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(list(b'[]{},:"\\ 1a\xff'))), max_size=3),
    step=st.integers(2, 40),
)
@quickly
def test_in_steps_no_more_is_taken_for_json_than_at_once(
    text: bytes, changes: list[tuple[int, int]], step: int
) -> None:
    mutated = bytearray(text or b"{")
    for place, byte in changes:
        mutated[place % len(mutated)] = byte
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "STEP_BYTES", step)
        got = outcome(bytes(mutated), b"", at_once=False)
    expected = outcome(bytes(mutated), b"", at_once=True)
    assert got == expected or repr(got) == repr(expected)


@pytest.mark.slow
def test_a_key_that_takes_the_place_of_an_earlier_one_is_found_while_it_is_open() -> None:
    inner = ",".join(f'{{"k":{n},"l":[{n}]}}' for n in range(20_000))
    text = f'{{"a":1,"b":[2],"a":[{inner}],"c":{{"x":0,"y":0,"x":{{"m":[{inner}]}}}}}}'.encode()
    got, steps = in_steps(text)
    assert got == json.loads(text)
    assert steps >= len(text) // STEP_BYTES


DENSE = {
    "numbers": b"[" + b",".join([b"1.5"] * 600_000) + b"]",
    "lists": b"[" + b",".join([b"[]"] * 180_000) + b"]",
    "nested lists": b"[" + b",".join([b"[" * 150 + b"]" * 150] * 1200) + b"]",
    "texts": b"[" + b",".join([rb'"a\\\"["'] * 300_000) + b"]",
    "keys": b"{" + b",".join(b'"k%d":[%d]' % (n, n) for n in range(150_000)) + b"}",
    "blobs": b"[" + b",".join(b'{"\\u0000":%d}' % n for n in range(100_000)) + b"]",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DENSE)
def test_no_step_reads_more_than_its_share(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = b"x" * max(DENSE[kind].count(b"u0000"), 1)
    text = b'{"t":"call","args":{"x":' + DENSE[kind] + b'},"blobs":' + json.dumps([1] * len(blobs)).encode() + b"}"
    read: list[int] = []
    loads = json.loads

    def counted(part: str, **options: Any) -> Any:
        read.append(len(part))
        return loads(part, **options)

    monkeypatch.setattr(json, "loads", counted)
    got, steps = in_steps(text, blobs)
    monkeypatch.undo()
    assert got == wire.decode(text, blobs)
    brackets = 25 * wire.MAX_DEPTH  # opened before a piece
    assert max(read) <= STEP_BYTES + brackets
    assert steps >= len(read) >= len(text) // STEP_BYTES


def test_a_long_text_is_one_value_however_many_steps_it_spans() -> None:
    for filling in (r"\\" * 100_000, r"\"" * 100_000, "[,{" * 100_000, "ü" * 100_000, r"\u0001,\\\"" * 50_000):
        text = f'{{"before":[1,{{"a":2}}],"text":"{filling}","after":[3]}}'.encode()
        assert in_steps(text)[0] == json.loads(text)


@pytest.mark.parametrize(
    "inside",
    [
        "[" * 250 + "1" + "]" * 250,
        ",".join(["[]"] * 190_000),
        ",".join(["{}"] * 190_000),
        ",".join(["1"] * (wire.MAX_VALUES + 1)),
        "1,,2",
        "1,",
        "1}",
        "1],[2",
        '"\\x"',
        "9" * (wire.MAX_DIGITS + 1),
    ],
)
def test_a_large_message_that_breaks_the_rules_is_refused_too(inside: str) -> None:
    filling = json.dumps("x" * STEP_BYTES)
    text = f'{{"filling":[{filling},{filling}],"a":[{inside}],"end":{filling}}}'.encode()
    with pytest.raises(wire.ProtocolError):
        in_steps(text)
    with pytest.raises(wire.ProtocolError):
        wire.decode(text, b"")


# On the event loop


class Ends:
    """A link, what it heard, and the guest's end of it."""

    def __init__(self, max_bytes: int = 2**24) -> None:
        ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.heard: list[Call | Done] = []
        self.weights: list[int] = []
        self.lost: list[wire.ProtocolError | None] = []
        self.link = Link(ours, max_bytes, self._hear, self.lost.append)

    def _hear(self, message: Call | Done, size: int, weight: int) -> None:
        self.heard.append(message)
        self.weights.append(weight)

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.theirs, data)

    def close(self) -> None:
        self.link.close()
        self.theirs.close()


def frame(text: bytes, blobs: bytes = b"") -> bytes:
    return struct.pack("!II", len(text), len(blobs)) + text + blobs


def call(number: int, argument: bytes = b"0") -> bytes:
    return frame(b'{"t":"call","id":%d,"tool":"f","args":{"x":%s}}' % (number, argument))


def done(value: bytes) -> bytes:
    return frame(b'{"t":"done","exit":0,"value":' + value + b"}")


async def test_messages_that_take_long_give_the_event_loop_a_turn_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "_TURN_SECONDS", 0.0)
    ends = Ends()
    try:
        await ends.say(b"".join(map(call, range(1, 11))))
        while len(ends.heard) < 10:
            before = len(ends.heard)
            await asyncio.sleep(0)
            assert len(ends.heard) <= before + 1
    finally:
        ends.close()


@pytest.mark.parametrize("filling", [b"0", b"[" + b"0," * 100_000 + b"0]"], ids=["small", "large"])
async def test_a_fault_in_reading_a_message_is_the_guests_and_holds_up_no_end(
    filling: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = link.parse

    def faulty(message: dict[str, Any]) -> Call | Done:
        return read(message) if message["t"] == "call" else 1 / 0  # type: ignore[return-value]

    monkeypatch.setattr(link, "parse", faulty)
    ends = Ends()
    try:
        await ends.say(call(1, filling) + done(b"1") + done(b"2"))
        ends.theirs.close()
        ended = asyncio.Event()
        ends.link.drain(ended.set)
        await asyncio.wait_for(ended.wait(), 60)
        assert len(ends.heard) == 1
        assert [type(error) for error in ends.lost] == [wire.ProtocolError]
    finally:
        ends.close()


async def test_an_end_comes_also_where_taking_a_message_fails() -> None:
    ends = Ends()
    ends.heard = None  # type: ignore[assignment]
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    try:
        await ends.say(call(1, b"[" + b"0," * 100_000 + b"0]"))
        ends.theirs.close()
        ended = asyncio.Event()
        ends.link.drain(ended.set)
        await asyncio.wait_for(ended.wait(), 60)
        assert len(failures) == 1
    finally:
        ends.close()


async def turns_until(ends: Ends, count: int) -> int:
    """Return how many turns of the event loop pass until so many messages were heard."""
    turns = 0
    while len(ends.heard) < count:
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10**6
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("make", [lambda body: call(1, body), pytest.param(done, marks=pytest.mark.long)])
async def test_the_event_loop_has_its_turns_while_a_large_message_is_decoded(kind: str, make: Any) -> None:
    ends = Ends()
    try:
        whole = make(DENSE[kind])
        await ends.say(whole[:-1])
        for _ in range(50):  # until all of it is received
            await asyncio.sleep(0)
        assert ends.heard == []
        await ends.say(whole[-1:])
        assert await turns_until(ends, 1) >= len(whole) // STEP_BYTES
    finally:
        ends.close()


@pytest.mark.slow
async def test_one_guests_large_messages_do_not_hold_up_anothers_small_ones() -> None:
    hostile, other = Ends(), Ends()
    sending = asyncio.ensure_future(hostile.say(b"".join(call(n, DENSE["lists"]) for n in range(1, 6))))
    try:
        answered = 0
        while not sending.done() or len(hostile.heard) < 5:
            if len(other.heard) == answered:
                answered += 1
                await other.say(call(answered))
            await asyncio.sleep(0)
        assert answered > 5 * (len(DENSE["lists"]) // STEP_BYTES) // 4
    finally:
        hostile.close()
        other.close()


async def test_small_messages_are_handed_on_in_turn_too() -> None:
    hostile, other = Ends(), Ends()
    try:
        await hostile.say(b"".join(map(call, range(1, 1001))))
        await other.say(call(1))
        await turns_until(other, 1)
        assert len(hostile.heard) < 500
        await turns_until(hostile, 1000)
        assert [message.id for message in hostile.heard if isinstance(message, Call)] == list(range(1, 1001))
    finally:
        hostile.close()
        other.close()


@pytest.mark.slow
async def test_nothing_is_read_while_messages_are_left() -> None:
    ends = Ends()
    sending = asyncio.ensure_future(ends.say(b"".join(call(n, DENSE["numbers"]) for n in range(1, 9))))
    try:
        while len(ends.heard) < 8:
            await asyncio.sleep(0)
            assert ends.link._reader.pending <= len(call(1, DENSE["numbers"])) + 256 * 1024
        await sending
    finally:
        ends.close()


@pytest.mark.slow
async def test_a_paused_link_decodes_nothing_and_goes_on_where_it_was() -> None:
    ends = Ends()
    try:
        await ends.say(call(1, DENSE["lists"][:-1] + b",1]") + call(2))
        await asyncio.sleep(0)
        ends.link.pause()
        for _ in range(100):
            await asyncio.sleep(0)
        assert ends.heard == []
        ends.link.resume()
        await turns_until(ends, 2)
    finally:
        ends.close()


async def test_what_a_guest_that_has_ended_said_last_is_taken_in_before_its_end() -> None:
    ends = Ends()
    try:
        whole = done(b"[" + b"1," * 90_000 + b"1]")
        await ends.say(whole)
        ends.theirs.shutdown(socket.SHUT_RDWR)
        order: list[int] = []
        over = asyncio.Event()
        ends.link.drain(lambda: (order.append(len(ends.heard)), over.set()))
        await over.wait()
        assert order == [1]
        assert ends.lost == [None]
    finally:
        ends.close()


async def test_a_link_that_is_closed_has_taken_in_what_it_will() -> None:
    ends = Ends()
    try:
        await ends.say(done(DENSE["lists"][:60_000] + b"[]]") + done(b"[" + b"1," * 60_000 + b"1]"))
        drained: list[bool] = []
        ends.link.drain(lambda: drained.append(True))
        ends.link.close()
        assert drained == [True]
    finally:
        ends.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "value"), [(b"NaN", "nan"), (b"1e999", "inf"), (b'{"\\u0000":0}', "b'x'")], ids=["nan", "infinity", "bytes"]
)
async def test_a_large_result_may_have_what_json_lacks_and_its_document_is_strict(end: bytes, value: str) -> None:
    ends = Ends()
    try:
        text = b'{"t":"done","exit":0,"value":[' + b"1," * 100_000 + end + b'],"blobs":[1]}'
        await ends.say(frame(text, b"x"))
        await turns_until(ends, 1)
        done = ends.heard[0]
        assert isinstance(done, Done) and repr(done.value[-1]) == value
        document = ExecutionResult(value=done.value).to_dict()
        assert json.dumps(document, allow_nan=False)
        assert repr(ExecutionResult.from_dict(document).value[-1]) == value
    finally:
        ends.close()


@pytest.mark.slow
async def test_a_message_weighs_at_least_what_its_values_take() -> None:
    ends = Ends()
    try:
        for number, body in enumerate((b"[" + b"[]," * 1000 + b"1]", DENSE["lists"], DENSE["numbers"]), 1):
            await ends.say(call(number, body))
            await turns_until(ends, number)
            assert ends.weights[-1] >= 32 * body.count(b",") + 80 * body.count(b"[")
    finally:
        ends.close()
