"""Many calls at once travel in few messages each way, and in their order."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import actbox
from actbox.sandbox.channel.calls import FEW_TOOLS, MOST_SUGGESTIONS
from actbox.sandbox.channel.link import Link
from actbox.sandbox.guest import channel as guest
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.channel import HostChannel
from actbox.tools import Tool, Toolset

_CALLS = 300


async def test_gathered_calls_and_their_answers_travel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    all_called = asyncio.Event()
    sent = received = called = 0
    write, receive = Link._write, Link._receive

    def count_write(link: Link, view: memoryview) -> memoryview:
        nonlocal sent
        sent += 1
        return write(link, view)

    def count_receive(link: Link) -> bool:
        nonlocal received
        has_received = receive(link)
        received += has_received
        return has_received

    monkeypatch.setattr(Link, "_write", count_write)
    monkeypatch.setattr(Link, "_receive", count_receive)

    async def meet(number: int) -> int:
        nonlocal called
        called += 1
        if called == _CALLS:
            all_called.set()
        await all_called.wait()
        return number

    code = f"import asyncio\nsum(await asyncio.gather(*[meet(n) for n in range({_CALLS})]))"
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        result = await box.run(code, tools=[meet])
    assert result.value == sum(range(_CALLS))
    assert received <= guest._SENT_SINGLY + -(-_CALLS // guest._MOST_TOGETHER) + 1  # the last is the result
    assert sent <= 4  # the program, and the answers, of which the last call's may be alone


async def test_only_the_first_calls_of_unknown_tools_are_told_what_was_meant() -> None:
    async def search() -> int:
        """Search."""
        return 1

    code = (
        f"said = []\nfor n in range({MOST_SUGGESTIONS + 2}):\n    try: call_tool('sarch')\n"
        "    except ToolError as error: said.append(\"did you mean 'search'\" in str(error))\nsaid"
    )
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        result = await box.run(code, tools=[search])
    assert result.value == [True] * MOST_SUGGESTIONS + [False] * 2


async def test_which_of_many_tools_was_meant_is_found_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    suggest = Toolset.suggest

    def noted(self: Toolset, name: str) -> str | None:
        threads.append(threading.current_thread())
        return suggest(self, name)

    monkeypatch.setattr(Toolset, "suggest", noted)
    tools = [Tool.from_function(lambda: 1, name=f"search_{number}") for number in range(FEW_TOOLS + 1)]
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        for some in (tools[:FEW_TOOLS], tools):
            result = await box.run("call_tool('saerch_7')", tools=some)
            assert result.error is not None and "did you mean 'search_7'" in result.error.message
    assert [thread is threading.current_thread() for thread in threads] == [True, False]


class _Counting:
    """A socket that counts how often something is sent."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def send(self, *given: Any) -> int:
        self.count += 1
        return self._sock.send(*given)


@pytest.fixture
def ends() -> Iterator[tuple[HostChannel, _Counting, socket.socket]]:
    ours, theirs = socket.socketpair()
    channel = HostChannel(theirs, 10_000)
    counting = channel._sock = _Counting(theirs)  # type: ignore[assignment]
    yield channel, counting, ours
    ours.close()
    theirs.close()


async def sent_by(ours: socket.socket, calls: int) -> list[int]:
    """Return the ids of the messages that have come, after a number of them."""
    reader, ids = wire.FrameReader(10_000), []
    ours.setblocking(False)
    while len(ids) < calls:
        ids += [message["id"] for message in reader.feed(await asyncio.get_running_loop().sock_recv(ours, 4096))]
    return ids


async def test_a_few_calls_are_sent_at_once_and_the_others_in_the_next_turn(
    ends: tuple[HostChannel, _Counting, socket.socket],
) -> None:
    channel, counting, ours = ends
    tasks = [asyncio.create_task(channel.call_async("add", {"a": n})) for n in range(30)]
    await asyncio.sleep(0)
    assert counting.count == guest._SENT_SINGLY
    await asyncio.sleep(0)
    assert counting.count == guest._SENT_SINGLY + 1
    assert await sent_by(ours, 30) == list(range(1, 31))
    ours.send(b"".join(wire.encode({"t": "return", "id": n, "value": n}, 1000) for n in range(1, 31)))
    assert await asyncio.gather(*tasks) == list(range(1, 31))


async def test_a_later_message_does_not_overtake_calls_that_wait_to_be_sent(
    ends: tuple[HostChannel, _Counting, socket.socket],
) -> None:
    channel, _, ours = ends
    tasks = [asyncio.create_task(channel.call_async("add", {"a": n})) for n in range(20)]
    await asyncio.sleep(0)
    channel.send({"t": "done", "id": 21})
    assert await sent_by(ours, 21) == list(range(1, 22))
    channel.end_calls()
    said = await asyncio.gather(*tasks, return_exceptions=True)
    assert {str(each) for each in said} == {guest._NO_PROGRAM}


def test_a_call_does_not_wait_for_an_answer_that_another_thread_has_read(
    ends: tuple[HostChannel, _Counting, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, _, ours = ends
    send = channel._send_whole

    def answered_meanwhile(frame: bytes, tool: str | None = None) -> None:
        send(frame, tool)
        ours.send(wire.encode({"t": "return", "id": 1, "value": "x"}, 1000))
        assert channel._receive_unless_another_does()  # as the other thread

    monkeypatch.setattr(channel, "_send_whole", answered_meanwhile)
    values: list[Any] = []
    caller = threading.Thread(target=lambda: values.append(channel.call("add", {})), daemon=True)
    caller.start()
    caller.join(10)
    assert values == ["x"]
