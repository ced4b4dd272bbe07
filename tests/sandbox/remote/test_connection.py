"""The connection to an agent ends for everything that is on it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actbox.sandbox.guest import frames
from actbox.sandbox.remote.connection import Connection

_MOST_CALLS = 10_000


class _Noted:
    def __init__(self) -> None:
        self.losses: list[str] = []

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        raise AssertionError((kind, part, payload))

    def go_on(self) -> None:
        raise AssertionError

    def lost(self, why: str, broke_rules: bool) -> None:
        assert not broke_rules
        self.losses.append(why)


class _Failing(_Noted):
    def lost(self, why: str, broke_rules: bool) -> None:
        super().lost(why, broke_rules)
        raise ValueError("a stream that cannot be ended")


@contextlib.contextmanager
def _connected(
    on_hello: Callable[[dict[str, Any]], None] = lambda hello: None,
    on_over: Callable[[str], None] = lambda why: None,
) -> Iterator[tuple[Connection, int]]:
    """Yield a connection, and the descriptor that writes what it hears; its thread ends in the block."""
    pipes = [os.pipe() for _ in range(3)]
    connection = Connection(pipes[0][0], pipes[1][1], pipes[2][0], b"", on_hello, on_over)
    yield connection, pipes[0][1]
    connection.thread.join(60)
    assert not connection.thread.is_alive()
    for descriptor in (pipes[0][1], pipes[1][0], pipes[2][1]):
        os.close(descriptor)


def test_what_is_added_just_after_the_end_was_asked_for_is_told_of_it() -> None:
    """Both wait for the connection's thread at once, as when a sandbox stops while runs begin."""
    before, after = _Noted(), _Noted()
    with _connected() as (connection, _):

        def close_and_add() -> None:  # in the connection's thread, which takes neither before this is over
            connection.add(before)
            connection.close()
            connection.add(after)

        connection.soon(close_and_add)
    assert (before.losses, after.losses) == (["the sandbox was stopped"], ["the sandbox was stopped"])
    late = _Noted()
    connection.add(late)
    assert late.losses == ["the agent has ended"]


def test_all_streams_are_told_of_the_end_although_one_and_a_queued_call_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: raised.append(str(hook.exc_value)))
    over: list[str] = []
    streams = [_Noted(), _Failing(), _Noted(), _Noted()]

    def fail() -> None:
        raise ValueError("a call that cannot be made")

    with _connected(on_over=over.append) as (connection, _):

        def end() -> None:  # in the connection's thread, which takes none of these before this is over
            for stream in streams[:-1]:
                connection.add(stream)
            connection.close()
            connection.soon(fail)
            connection.add(streams[-1])

        connection.soon(end)
    assert [stream.losses for stream in streams] == [["the sandbox was stopped"]] * 4
    assert over == ["the sandbox was stopped"]
    assert raised == ["a stream that cannot be ended"]


def test_a_call_that_queues_another_one_without_end_does_not_keep_the_agent_from_being_heard() -> None:
    heard = threading.Event()
    calls: list[bool] = []
    with _connected(on_hello=lambda hello: heard.set()) as (connection, agent):

        def again() -> None:
            if not calls:
                os.write(agent, frames.pack_json(frames.HELLO, 0, {}))
            calls.append(True)
            if heard.is_set() or len(calls) == _MOST_CALLS:
                connection.close()
            else:
                connection.soon(again)

        connection.soon(again)
    assert heard.is_set()
    assert len(calls) < _MOST_CALLS
