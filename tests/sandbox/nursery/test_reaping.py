"""Reaping by pid 1 and by the keeper of an agent: processes that end all the time keep them from nothing else."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import traceback
from collections.abc import Callable
from typing import NoReturn
from unittest import mock

from actbox.sandbox.guest import keeper
from actbox.sandbox.nursery import watch
from actbox.sandbox.nursery.control import Control


def test_pid_1_looks_and_listens_between_the_ends_of_very_many_processes() -> None:
    _assert_ends_well(_be_pid_1)


def test_a_keeper_looks_and_listens_between_the_ends_of_very_many_processes() -> None:
    _assert_ends_well(_be_keeper)


def _assert_ends_well(act: Callable[[], NoReturn]) -> None:
    pid = os.fork()
    if pid == 0:
        act()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _be_keeper() -> NoReturn:
    try:
        keeper.MOST_REAPED = 3
        agent, control = socket.socketpair()
        woken, wake = os.pipe()
        agent.sendall(b'{"watch": {"cpu_seconds": 100}}\n')
        first = os.fork()
        if first == 0:
            while True:
                signal.pause()
        for _ in range(10):
            _ended_child()
        looks: list[int] = []
        reaped: list[int] = []
        wait4 = os.wait4

        def counted(pid: int, options: int) -> tuple[int, int, resource.struct_rusage]:
            one = wait4(pid, options)
            if one[0]:
                reaped.append(one[0])
            return one

        def look(self: object) -> None:
            looks.append(len(reaped))
            if len(reaped) == 10:
                os.kill(first, signal.SIGKILL)
                os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
                os.write(wake, b"x")

        with mock.patch.object(os, "wait4", counted), mock.patch.object(keeper._Keeper, "_look", look):
            assert keeper._Keeper(first, control, woken).live() == 0
        assert looks[:4] == [3, 6, 9, 10]
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _be_pid_1() -> NoReturn:
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        watch.MOST_REAPED = 3
        children = {_ended_child() for _ in range(10)}
        host, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        host.send(json.dumps({"op": "take"}).encode())
        watcher = mock.Mock(passed="", **{"pause.return_value": 0.0, "hold_back.return_value": 0.0})
        seen: list[tuple[int, int]] = []

        def reaped(pid: int, *_: object) -> None:
            seen.append((pid, watcher.look.call_count))
            if len(seen) == len(children):
                assert {pid for pid, _ in seen} == children
                assert [looks for _, looks in seen] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
                os._exit(0)

        watch.watch(mock.Mock(reaped=reaped), Control(control.detach()), watcher, lambda *request: None)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _ended_child() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child
