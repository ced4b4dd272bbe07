"""The watchdog process of a run: starts a program and kills all processes left of it, however the request ends.

   request ── watchdog ── program ── the program's processes

The watchdog holds a pipe that closes when the request's process ends, for any reason: its work is done, the shell
killed it, or the connection broke. Then, or when the program has ended, the watchdog kills the remaining processes. If
the run is canceled while the request goes on, as behind a shell that cannot end a command, it kills the request too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

from .. import descendants
from ..prctl import become_subreaper, set_dumpable

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Dict, NoReturn, Optional, Tuple, Union

    How = Dict[str, Union[int, float, None]]

# The most seconds for killed processes to end; a process inside the kernel can take any time.
_MOST_SECONDS = 10.0
# How often, in milliseconds, it is checked whether the run was called off.
_LOOK_MS = 50


def inherit_orphans() -> None:
    """Become the parent of orphaned descendants, and keep other processes from tracing this one (Linux)."""
    become_subreaper()
    set_dumpable(False)


class Requester:
    """The process of a program's request, with a descriptor that becomes readable when that process has ended.

    `is_canceled` returns whether the program must end although that process goes on.
    """

    def __init__(self, process: int, gone: int, is_canceled: Callable[[], bool]) -> None:
        self.gone = gone
        self.is_canceled = is_canceled
        self._process = process

    def end(self) -> None:
        """Kill the request's process, unless it has ended: then the watchdog has another parent."""
        if os.getppid() == self._process:
            os.kill(self._process, signal.SIGKILL)


def watch(requester: Requester, report: int, program: Callable[[], NoReturn]) -> NoReturn:
    """Run a program in a child process, report its end as JSON, and kill everything that is left of it."""
    inherit_orphans()
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    first = os.fork()
    if first == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        set_dumpable(True)  # so that it can read its own /proc/self, as every process can
        os.setsid()
        program()
    poll = select.poll()
    poll.register(requester.gone, select.POLLIN)
    poll.register(woken, select.POLLIN)
    how, _ = _reap(first)
    while how is None and requester.gone not in [ready for ready, _ in poll.poll(_LOOK_MS)]:
        if requester.is_canceled():
            requester.end()
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        how, _ = _reap(first)
    how = end_all(first, how)
    with contextlib.suppress(OSError):  # the request's process has ended
        os.write(report, json.dumps(how).encode("ascii"))
    os._exit(0)


def _reap(first: int) -> Tuple[Optional[How], bool]:
    """Reap ended processes; return how `first` ended, if it did, and whether children are left."""
    how = None
    while True:
        try:
            process, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return how, False
        if process == 0:
            return how, True
        if process == first:
            code = status >> 8 if os.WIFEXITED(status) else None
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            kib = usage.ru_maxrss // 1024 if sys.platform == "darwin" else usage.ru_maxrss
            how = {"code": code, "signal": number, "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000, "rss_kib": kib}


def end_all(first: int, how: Optional[How] = None) -> Optional[How]:
    """Kill this process's descendants until none is left; return how `first` ended, or `how` if it had already."""
    deadline = time.monotonic() + _MOST_SECONDS
    if how is not None and not descendants.HAS_PROC:
        # Its orphans are not children of this process. While one is left, no other group can get this number.
        _kill_group(first)
    while True:
        ended, are_left = _reap(first)
        how = ended or how
        if not are_left or time.monotonic() > deadline:
            return how
        if how is None:  # so its number has not been reused
            _kill_group(first)
        descendants.end_below(os.getpid())
        time.sleep(0.001)


def _kill_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
