"""Calls of `def` tools that come one by one are made by one thread, which leaves everything else to the event loop."""

from __future__ import annotations

import contextvars
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, Limits, Policy, Sandbox
from actbox.sandbox.channel import thread_calls
from actbox.sandbox.channel.lent_socket import LentSocket
from actbox.sandbox.channel.thread_calls import ThreadCalls
from actbox.sandbox.guest.spin import Spin
from actbox.tools.threads import is_dropped

MODE: contextvars.ContextVar[str] = contextvars.ContextVar("MODE", default="")


def add(a: int, b: int = 1) -> int:
    return a + b


async def add_in_the_loop(a: int, b: int = 1) -> int:
    return a + b


def echo(value: Any) -> Any:
    return value


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        yield box


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[ThreadCalls]:
    """The calls of these kinds in each run of the test."""
    made: list[ThreadCalls] = []

    def make(*given: Any) -> ThreadCalls:
        made.append(ThreadCalls(*given))
        return made[-1]

    monkeypatch.setattr(thread_calls, "ThreadCalls", make)
    return made


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread waits for each call however long the machine takes for it."""
    monkeypatch.setattr(thread_calls, "_WAIT_SECONDS", 60)
    monkeypatch.setattr(thread_calls, "_LOOK_SECONDS", 60)


async def test_calls_one_by_one_are_made_in_one_thread(box: Sandbox, runs: list[ThreadCalls], patient: None) -> None:
    threads = []

    def note(a: int) -> int:
        threads.append(threading.get_ident())
        return a + 1

    result = await box.run("sum(note(n) for n in range(100))", tools=[note])
    assert result.value == 5050
    assert result.usage.tool_calls == 100
    assert len(set(threads[thread_calls._FROM_CALL - 1 :])) == 1
    # The first calls, and the one with which the thread begins, come by way of the event loop, as does the result.
    assert (runs[0].odds.hits, runs[0].odds.misses) == (100 - thread_calls._FROM_CALL, 1)


async def test_values_and_large_messages_are_the_same_as_in_the_event_loop(box: Sandbox, patient: None) -> None:
    code = (
        "values = [1, 'é', 1.5, None, b'x', {1, 2}, (1,), [{'a': [1]}], 'x' * 100_000, [0] * 5000]\n"
        "[add(n) for n in range(5)]\n[value for value in values * 2 if echo(value) != value]"
    )
    result = await box.run(code, tools=[add, echo])
    assert (result.error, result.value) == (None, [])


async def test_failures_are_told_as_in_the_event_loop(box: Sandbox, patient: None) -> None:
    def boom(text: str) -> None:
        raise ValueError(text)

    code = (
        "said = []\nfor n in range(5): add(n)\n"
        "for call in (lambda: add('x'), lambda: boom('it broke'), lambda: far(1), lambda: call_tool('nothing'),"
        " lambda: add(1, c=2), lambda: echo(1)):\n"
        "    try:\n        said.append(call())\n    except ToolError as error:\n        said.append(str(error))\nsaid"
    )

    def far(a: int) -> Any:
        return object()

    said = (await box.run(code, tools=[add, boom, far, echo])).value
    for expected, got in zip(
        ("should be a valid integer", "ValueError: it broke", "cannot give its result", "no tool 'nothing'", "'c'"),
        said,
        strict=False,
    ):
        assert expected in got
    assert said[-1] == 1


async def test_each_call_has_its_own_copy_of_the_context(box: Sandbox, patient: None) -> None:
    MODE.set("of the caller")

    def turn() -> str:
        before = MODE.get()
        MODE.set("of the tool")
        return before

    assert (await box.run("{turn() for n in range(20)}", tools=[turn])).value == {"of the caller"}


@pytest.mark.parametrize(
    ("limits", "limit"), [(Limits(tool_calls=20), "tool_calls"), (Limits(tool_bytes=2000), "tool_bytes")]
)
async def test_limits_on_calls_hold(limits: Limits, limit: str, patient: None) -> None:
    made = 0

    def count() -> int:
        nonlocal made
        made += 1
        return made

    async with actbox.open_sandbox("process", policy=Policy(limits=limits), allow_unisolated=True) as box:
        result = await box.run("for n in range(1000): count()", tools=[count])
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, limit)
    assert made == result.usage.tool_calls <= 40


async def test_another_thread_of_the_program_calls_while_a_tool_runs(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_calls, "_WAIT_SECONDS", 60)
    both = threading.Barrier(2, timeout=60)

    def meet() -> int:
        both.wait()
        return 1

    code = (
        "import threading\nfor n in range(5): add(n)\nother = threading.Thread(target=meet)\nother.start()\n"
        "met = meet()\nother.join()\n[met, add(1)]"
    )
    assert (await box.run(code, tools=[add, meet])).value == [1, 2]


async def test_programs_that_mix_in_async_tools_keep_the_event_loop(
    box: Sandbox, runs: list[ThreadCalls], patient: None
) -> None:
    code = "sum(add(n) + add_in_the_loop(n) for n in range(100))"
    assert (await box.run(code, tools=[add, add_in_the_loop])).value == 2 * 5050
    assert runs[0].odds.hits == 0
    assert runs[0].odds.misses <= 6


async def test_programs_that_compute_between_calls_keep_the_event_loop(box: Sandbox, runs: list[ThreadCalls]) -> None:
    code = "import time\nfor n in range(30):\n    add(n)\n    time.sleep(0.01)"
    assert (await box.run(code, tools=[add])).success
    assert runs[0].odds.hits == 0
    assert runs[0].odds.misses <= 4


async def test_a_call_that_runs_when_time_is_up_is_dropped(box: Sandbox, patient: None) -> None:
    begun, free, dropped = threading.Event(), threading.Event(), []

    def block() -> None:
        begun.set()
        free.wait(60)
        dropped.append(is_dropped())
        free.clear()

    result = await box.run("for n in range(5): add(n)\nblock()", tools=[add, block], timeout=1)
    assert begun.is_set()
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT
    assert result.usage.tool_calls == 6
    free.set()
    while free.is_set():
        time.sleep(0.001)
    assert dropped == [True]


async def test_programs_of_a_session_call_one_after_the_other(box: Sandbox, patient: None) -> None:
    async with box.session() as session:
        for n in range(3):
            assert (await session.run(f"sum(add({n}) for n in range(20))", tools=[add])).value == 20 * (n + 1)
        stuck = await session.run("while True: add(1)", tools=[add], timeout=0.5)
        assert stuck.error is not None and stuck.error.kind is ErrorKind.TIMEOUT
        assert (await session.run("sum(add(1) for n in range(20))", tools=[add])).value == 40


# The socket


@pytest.fixture
def lent() -> Any:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield LentSocket(ours, ours.recv, Spin(0)), theirs
    ours.close()
    theirs.close()


def yes(_: object) -> bool:
    return True


def test_an_answer_is_not_sent_before_a_message_that_has_come_meanwhile(lent: tuple[LentSocket, socket.socket]) -> None:
    socket_, theirs = lent
    assert socket_.send(b"answer", yes)
    assert theirs.recv(100) == b"answer"
    theirs.send(b"call")
    assert not socket_.send(b"answer", yes)
    assert socket_.take_back() == (b"", b"")


def test_what_is_not_taken_is_left_to_the_link(lent: tuple[LentSocket, socket.socket]) -> None:
    socket_, theirs = lent
    theirs.send(b"call")
    assert socket_.receive(60, yes)
    theirs.send(b"other")
    assert not socket_.receive(60, lambda data: False)
    assert not socket_.send(b"answer", yes)
    assert socket_.take_back() == (b"", b"other")


def test_the_rest_of_an_answer_without_room_is_left_to_the_link(lent: tuple[LentSocket, socket.socket]) -> None:
    socket_, _ = lent
    answer = bytes(10_000_000)
    assert socket_.send(answer, yes)
    left = socket_.take_back()
    assert left is not None
    assert 0 < len(left[0]) < len(answer)


@pytest.mark.parametrize("use", [lambda lent: lent.receive(0, yes), lambda lent: lent.send(b"answer", yes)])
def test_a_socket_that_was_taken_back_is_not_used(
    use: Callable[[LentSocket], bool], lent: tuple[LentSocket, socket.socket]
) -> None:
    socket_, theirs = lent
    theirs.setblocking(False)
    theirs.send(b"call")
    socket_.take_back()
    assert not use(socket_)
    with pytest.raises(BlockingIOError):
        theirs.recv(100)
