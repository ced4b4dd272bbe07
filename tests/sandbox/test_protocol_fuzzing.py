"""Nonsense on the channel, from either end: nothing but a refusal or a valid result comes of it.

Hypothesis makes streams of frames: valid ones and mutated, cut, of giant lengths, deep, with wrong types, unknown
fields, ids used twice, and bytes that are no frames. They go through a real socket to the real ends. The short pass
belongs to the suite; the long one (`make test-long`) sends more than a million frames to the host's end.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import actbox
from actbox import ErrorKind, Limits, Program
from actbox.core.result import ExecutionResult
from actbox.sandbox import reading
from actbox.sandbox.channel.messages import Call, Done, parse
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.channel import ChannelClosed, HostChannel, ToolError
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.output_stream import MOST_PARTS
from actbox.sandbox.requests import Request, WallTime
from actbox.sandbox.run_end import Ending
from actbox.sandbox.runs import Run
from actbox.tools import Toolset

MESSAGE_BYTES = 20_000
MOST_CALLS = 400
# What may wait here of a frame that is not complete: the frame, what was read along with it, its header.
MOST_PENDING = MESSAGE_BYTES + wire.ENVELOPE_BYTES + 256 * 1024 + 8
LIMITS = Limits(message_bytes=MESSAGE_BYTES, tool_calls=MOST_CALLS, wall_seconds=60)

# What a hostile guest can bring about at most: what a guest may say of itself, and what the host finds.
KINDS = {kind for kind in ErrorKind if kind not in (ErrorKind.SANDBOX, ErrorKind.CANCELLED, ErrorKind.UNSUPPORTED)}

quickly = settings(deadline=None, max_examples=75, suppress_health_check=list(HealthCheck))
LONG_FRAMES = 1_000_000
FRAMES_A_STREAM, STREAMS_AN_EXAMPLE = 25, 20


# Frames

keys = st.text(max_size=6) | st.sampled_from(
    ["t", "id", "tool", "args", "exit", "error", "blobs", "\0", "\0\0", "value"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 2**53, 2**63, 255, 256])
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["\ud800", "\0", "\x1b[2J", "x" * 300])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
with_blobs = st.recursive(
    scalars | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
)
calls = st.fixed_dictionaries(
    {
        "t": st.just("call"),
        "id": st.integers(1, 2**53 - 1),
        "tool": st.sampled_from(["echo", "later", "fails", "os.system", "__class__", "", "echo "]),
        "args": st.one_of(
            st.just({}), st.fixed_dictionaries({"value": with_blobs}), st.dictionaries(keys, with_blobs, max_size=3)
        ),
    }
)
endings = st.fixed_dictionaries(
    {"t": st.just("done"), "exit": st.just(0)},
    optional={
        "value": values,
        "text": st.text(max_size=20),
        "forms": st.dictionaries(keys, st.text(max_size=5) | st.binary(max_size=5), max_size=3),
        "alone": st.booleans(),
        "cpu_ms": st.floats(0, 1e9) | st.integers(0, 10**9),
        "max_rss_bytes": st.integers(0, 2**40),
    },
)
failures = st.fixed_dictionaries(
    {
        "t": st.just("done"),
        "exit": st.integers(1, 255),
        "error": st.fixed_dictionaries(
            {"kind": st.sampled_from([kind.value for kind in ErrorKind] + ["no kind"])},
            optional={
                "type": st.text(max_size=9),
                "message": st.text(max_size=50),
                "line": st.none() | st.integers(),
                "hint": st.text(max_size=9),
                "limit": st.text(max_size=9),
            },
        ),
    }
)


def frame(text: bytes, blobs: bytes = b"") -> bytes:
    return struct.pack("!II", len(text), len(blobs)) + text + blobs


def encoded(message: dict[Any, Any]) -> bytes:
    try:
        return wire.encode(message, 10**7)
    except (TypeError, ValueError, RecursionError):  # nothing that our own end would send: say it in plain JSON
        return frame(json.dumps(message, default=repr, skipkeys=True).encode())


@st.composite
def mistyped(draw: st.DrawFn) -> bytes:
    """A message with one field more, or one that has another type."""
    message = dict(draw(calls | endings | failures))
    message[draw(keys | st.sampled_from(list(message)))] = draw(values)
    return encoded(message)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.builds(encoded, calls | endings | failures)))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@st.composite
def cut(draw: st.DrawFn) -> bytes:
    data = draw(st.builds(encoded, calls | endings))
    return data[: draw(st.integers(0, len(data)))]


def deep(depth: int, opening: bytes, closing: bytes) -> bytes:
    return frame(b'{"t":"done","exit":0,"value":' + opening * depth + b"1" + closing * depth + b"}")


giants = st.builds(
    lambda text, blobs: struct.pack("!II", text, blobs), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)
)
nonsense = st.one_of(
    mistyped(),
    mutated(),
    cut(),
    giants,
    st.binary(max_size=60),
    st.builds(frame, st.binary(max_size=60), st.binary(max_size=10)),
    st.builds(encoded, st.dictionaries(keys, values, max_size=4)),
    st.builds(
        deep, st.integers(1, 15_000), st.sampled_from([b"[", b'{"a":', b'["",']), st.sampled_from([b"]", b"}", b""])
    ),
)
good = st.builds(encoded, calls | endings | failures)
streams = st.lists(st.one_of(st.builds(encoded, calls), good, nonsense), max_size=12)


# The host's end


class HostileGuest(GuestProcess):
    """The other end of a real channel, in the hands of the test. It has no process: it ends when it is told to."""

    def __init__(self) -> None:
        self.sock, self.theirs = socket.socketpair()
        self.stdout, self._stdout = os.pipe()
        self.stderr, self._stderr = os.pipe()
        self._when_ended: list[Callable[[Ending], None]] = []
        self._ending: Ending | None = None

    @property
    def ended(self) -> bool:
        return self._ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self._when_ended.append(call)

    def interrupt(self) -> None:
        self.kill()

    def kill(self) -> None:
        self.end(Ending(signal=9))

    def end(self, ending: Ending) -> None:
        if self._ending is None:
            self._ending = ending
            self.theirs.close()
            os.close(self._stdout)
            os.close(self._stderr)
            for call in self._when_ended:
                asyncio.get_running_loop().call_soon(call, ending)


class Tools:
    """A toolset that notes what was really called."""

    def __init__(self) -> None:
        self.called: list[str] = []

        @actbox.tool
        def echo(value: Any = None) -> Any:
            """Return what was given."""
            self.called.append("echo")
            return value

        @actbox.tool
        async def later(value: Any = None) -> Any:
            """Return what was given, after others had their turn."""
            self.called.append("later")
            await asyncio.sleep(0)
            return value

        @actbox.tool
        def fails() -> None:
            """Fail."""
            self.called.append("fails")
            raise ValueError("as it does")

        @actbox.tool
        def last() -> None:
            """Be called by nobody but what comes after nonsense."""
            self.called.append("last")

        self.toolset = Toolset([echo, later, fails, last])


async def what_comes_of(stream: bytes, tools: Tools, pieces: int = 1) -> ExecutionResult:
    """Send bytes to the host's end of a run, as a guest that then ends, and check what must always hold."""
    loop = asyncio.get_running_loop()
    unhandled: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    guest = HostileGuest()

    async def nothing_collected() -> tuple[list[Any], list[str]]:
        return [], []

    wall, toolset = WallTime(60), tools.toolset
    request = Request(engine="fuzz", limits=LIMITS, wall=wall, frame=b"", toolset=toolset, program=Program(""))
    run = Run(lambda _: nullcontext())
    async with run.over(guest, request, nothing_collected):
        guest.theirs.setblocking(False)
        size = max(1, -(-len(stream) // pieces))
        try:
            for start in range(0, len(stream), size):
                await loop.sock_sendall(guest.theirs, stream[start : start + size])
                await asyncio.sleep(0)
                assert run._link is not None
                assert run._link._reader.pending <= MOST_PENDING
                assert run._calls is None or len(run._calls._tasks) <= 1100
        except OSError:
            assert guest.ended  # the host ended it
        guest.end(Ending(exit_code=0))
        result = await run.came_to()
    assert unhandled == []
    check(result)
    return result


async def test_whoever_was_given_a_guests_channel_does_not_keep_the_host_by_sending_after_its_end() -> None:
    guest = HostileGuest()
    other = guest.theirs.dup()

    async def nothing_collected() -> tuple[list[Any], list[str]]:
        return [], []

    request = Request(engine="fuzz", limits=LIMITS, wall=WallTime(60), frame=b"", program=Program(""))
    run = Run(lambda _: nullcontext())
    async with run.over(guest, request, nothing_collected):
        link = run._link
        assert link is not None
        read, reads = link._read, 0

        def read_and_send(count: int) -> bytes:
            nonlocal reads
            reads += 1
            other.send(b" ")
            return read(count)

        link._read = read_and_send
        other.send(struct.pack("!II", MESSAGE_BYTES, 0))  # of a message that comes in very many pieces
        guest.end(Ending(exit_code=0))
        await run.came_to()
    other.close()
    assert reads == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of packets")
async def test_a_guest_that_prints_while_its_output_is_read_does_not_keep_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guest, reads, read = HostileGuest(), 0, reading.read
    fcntl.fcntl(guest._stdout, fcntl.F_SETFL, os.O_DIRECT)  # a read takes what was written at once, and no more
    os.write(guest._stdout, b"x")

    def read_and_print(descriptor: int) -> bytes:
        nonlocal reads
        data = read(descriptor)
        if descriptor == guest.stdout:
            reads += 1
            os.write(guest._stdout, b"x")
        return data

    async def nothing_collected() -> tuple[list[Any], list[str]]:
        return [], []

    request = Request(engine="fuzz", limits=LIMITS, wall=WallTime(60), frame=b"", program=Program(""))
    run = Run(lambda _: nullcontext())
    async with run.over(guest, request, nothing_collected):
        with monkeypatch.context() as patch:
            patch.setattr(reading, "read", read_and_print)
            run._read_output()
        guest.end(Ending(exit_code=0))
        result = await run.came_to()
    assert reads == MOST_PARTS
    assert result.stdout == "x" * (reads + 1)


def check(result: ExecutionResult) -> None:
    assert result.error is None or result.error.kind in KINDS, result.error
    assert (result.exit_code == 0) == (result.error is None)
    if result.error is not None and result.error.kind is ErrorKind.PROTOCOL:
        assert result.value is None
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.slow
@given(stream=streams, pieces=st.integers(1, 5))
@quickly
def test_a_hostile_guest_gets_a_refusal_or_a_valid_result(stream: list[bytes], pieces: int) -> None:
    tools = Tools()
    asyncio.run(what_comes_of(b"".join(stream), tools, pieces))
    assert set(tools.called) <= {"echo", "later", "fails"}
    assert len(tools.called) <= MOST_CALLS


@pytest.mark.slow
@given(
    before=st.lists(calls, max_size=3, unique_by=lambda call: call["id"]),
    bad=st.sampled_from([b"\xff" * 9, frame(b"[]"), frame(b'{"t":"x"}'), frame(b'{"t":"call","id":1}')]),
)
@quickly
def test_after_nonsense_no_tool_is_called(before: list[dict[str, Any]], bad: bytes) -> None:
    tools = Tools()
    stream = b"".join(map(encoded, before)) + bad + encoded({"t": "call", "id": 2**53 - 1, "tool": "last", "args": {}})
    result = asyncio.run(what_comes_of(stream, tools))
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
    assert "last" not in tools.called


@given(data=st.one_of(nonsense, good, st.builds(b"".join, streams)))
@quickly
def test_what_is_read_is_a_call_a_result_or_refused(data: bytes) -> None:
    reader = wire.FrameReader(MESSAGE_BYTES + wire.ENVELOPE_BYTES)
    try:
        for message in reader.feed(data):
            assert isinstance(parse(message), Call | Done)
    except wire.ProtocolError:
        pass
    assert reader.pending <= len(data)


@given(message=st.one_of(calls, endings))
@quickly
def test_what_the_guests_own_end_says_is_understood(message: dict[str, Any]) -> None:
    try:
        json.dumps(message.get("value"), allow_nan=False)
        data = wire.encode(message, MESSAGE_BYTES)
    except (ValueError, wire.ProtocolError):  # which our end finds out before it sends
        return
    (read,) = wire.FrameReader(MESSAGE_BYTES).feed(data)
    assert isinstance(parse(read), Call | Done)


# The guest's end

answers = st.fixed_dictionaries(
    {"t": st.just("return"), "id": st.integers(0, 3) | values},
    optional={"value": with_blobs, "error": st.text(max_size=20) | values},
)
from_host = st.one_of(st.builds(encoded, answers), nonsense, st.builds(encoded, st.just({"t": "run", "code": "1"})))


@pytest.mark.slow
@given(stream=st.lists(from_host, max_size=8))
@quickly
def test_a_guest_that_hears_nonsense_gets_an_answer_or_an_error(stream: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = HostChannel(theirs, MESSAGE_BYTES)
        sender = threading.Thread(target=send_and_close, args=(ours, b"".join(stream)))
        sender.start()
        try:
            for _ in range(2):
                channel.call("echo", {"value": 1})
        except (ToolError, ChannelClosed, wire.ProtocolError):
            pass
        finally:
            theirs.shutdown(socket.SHUT_RDWR)
            sender.join()
        assert channel._reader.pending <= MOST_PENDING


def send_and_close(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:  # the guest has heard enough
        pass


# The long run


def bulk(pool: list[bytes], chance: random.Random) -> bytes:
    """Return a stream of calls that ends with a frame of a pool, often changed, so that all before it are answered."""
    frames = []
    for number in range(FRAMES_A_STREAM - 1):
        tool = chance.choice(("echo", "later", "fails", "nobody", "os.system"))
        arguments = chance.choice(({}, {"value": chance.random()}, {"value": b"x" * 9}, {"no": [{}] * 3}))
        frames.append(wire.encode({"t": "call", "id": number + 1, "tool": tool, "args": arguments}, 10**6))
    last = bytearray(chance.choice(pool))
    for _ in range(chance.randint(0, 3)):
        if last:
            last[chance.randrange(len(last))] = chance.randrange(256)
    return b"".join([*frames, last])


@pytest.mark.long
def test_a_million_frames_do_nothing_else() -> None:
    sent, taken, started = 0, 0, time.monotonic()
    tools = Tools()

    @given(pool=st.lists(st.one_of(nonsense, good), min_size=1, max_size=20), seed=st.integers(0, 2**32))
    @settings(quickly, max_examples=1000, database=None)
    def send_many(pool: list[bytes], seed: int) -> None:
        nonlocal sent, taken
        chance = random.Random(seed)

        async def many() -> None:
            nonlocal sent, taken
            for _ in range(STREAMS_AN_EXAMPLE):
                result = await what_comes_of(bulk(pool, chance), tools, chance.randint(1, 4))
                sent += FRAMES_A_STREAM
                taken += result.usage.tool_calls

        asyncio.run(many())

    while sent < LONG_FRAMES:
        send_many()
    assert set(tools.called) <= {"echo", "later", "fails"}
    print(f"{sent:,} frames, {taken:,} of them tool calls, in {time.monotonic() - started:.0f} seconds")
