"""Pid 1's reaping: a program that has processes end all the time keeps it from nothing else."""

from __future__ import annotations

import json
import os
import signal
import socket
import traceback
from typing import NoReturn
from unittest import mock

from actbox.sandbox.nursery import watch
from actbox.sandbox.nursery.control import Control


def test_pid_1_looks_and_listens_between_the_ends_of_very_many_processes() -> None:
    pid = os.fork()
    if pid == 0:
        _be_pid_1()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


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
