"""Pid 1 stops the processes of its sandbox and lets them go on, whatever they are doing meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import select
import signal
import time
import traceback
from typing import NoReturn
from unittest import mock

import pytest

from actbox.sandbox.nursery import linux
from actbox.sandbox.nursery.machine_files import MachineFiles
from actbox.sandbox.nursery.watch import OneGuest, Watcher

_MAPPINGS = 20_000  # with so many a fork takes longer than a stop


@pytest.mark.parametrize("keeps_one_stopped", [False, True], ids=["none is stopped", "the program stopped one"])
@pytest.mark.own_process(linux.CLONE_NEWPID | linux.CLONE_NEWNS)
def test_what_is_forked_while_the_processes_are_stopped_goes_on_with_them(keeps_one_stopped: bool) -> None:
    pid = os.fork()
    if pid == 0:
        _be_pid_1(keeps_one_stopped)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_a_program_left_is_ended_before_the_end_of_its_process_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a process that has much memory takes long, and what it left would go on beside the next run."""
    done: list[object] = []

    def wait4(pid: int, options: int) -> tuple[int, int, resource.struct_rusage]:
        done.append(("wait", pid))
        return pid, signal.SIGKILL, resource.getrusage(resource.RUSAGE_SELF)

    monkeypatch.setattr(os, "kill", lambda pid, number: done.append(("kill", pid)))
    monkeypatch.setattr(os, "wait4", wait4)
    lane, watcher = mock.Mock(), mock.Mock()
    lane.clear = lambda has_left: done.append(("clear", has_left))
    for left in ([], [3]):
        watcher.pids.return_value = [2, *left]
        guest = OneGuest(2, mock.Mock(), watcher)
        guest.lane = lane
        guest.answer("clear", {}, [])
        assert done == [("kill", -1), ("wait", 2), ("clear", bool(left))]
        done.clear()


class _NoMachineFiles(MachineFiles):
    def __init__(self) -> None:
        """Mount nothing."""

    def update(self, used_pages: int, used_seconds: float) -> None:
        """Tell nobody."""


def _be_pid_1(keeps_one_stopped: bool) -> NoReturn:
    try:
        proc = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=linux.detached_mount("proc", {}))
        said, says = os.pipe2(os.O_NONBLOCK)
        if os.fork() == 0:
            _fork_again_and_again(says)
        stopped = _stopped_child() if keeps_one_stopped else 0
        watcher = Watcher(proc, {}, _NoMachineFiles())
        assert _hears(said, watcher)
        for _ in range(200):
            with watcher.stopped():
                pass
            time.sleep(0.001)
            watcher.look(lambda: None)
        with contextlib.suppress(BlockingIOError):
            while os.read(said, 4096):
                pass
        for _ in range(3):  # the first may have ended before the processes were let go on
            assert _hears(said, watcher), "no fork has ended since the processes were let go on"
        assert not keeps_one_stopped or os.waitpid(stopped, os.WNOHANG | os.WCONTINUED) == (0, 0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _stopped_child() -> int:
    child = os.fork()
    while child == 0:
        time.sleep(0.01)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    return child


def _hears(said: int, watcher: Watcher) -> bool:
    """Look again and again, as pid 1 does, until a fork and its child have ended; return False after a minute."""
    poll = select.poll()
    poll.register(said, select.POLLIN)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if poll.poll(10):
            return bool(os.read(said, 1))
        watcher.look(lambda: None)
    return False


def _fork_again_and_again(says: int) -> NoReturn:
    libc = ctypes.CDLL(None)
    memory = mmap.mmap(-1, _MAPPINGS * 2 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number in range(_MAPPINGS):
        libc.mprotect(ctypes.c_void_p(start + number * 2 * mmap.PAGESIZE), mmap.PAGESIZE, mmap.PROT_READ)
    while True:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        os.write(says, b"x")
