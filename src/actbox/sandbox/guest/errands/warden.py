"""The process that starts a program and leaves nothing of it behind, however the errand that asked for it ends.

    errand ── warden ── program ── whatever it starts

The warden holds a pipe that closes when the errand ends, for whatever reason: by the end of its work, killed by the
shell, or because the connection broke. Then, or when the program has ended, the warden kills what is left. Where the
run is called off while the errand goes on, as behind a shell that cannot end a command, it kills the errand too.
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

# How long what was killed may take to be gone; a process in the kernel's hands can take any time.
_MOST_SECONDS = 10.0
# How often it is looked whether the run was called off.
_LOOK_MS = 50


def inherit_orphans() -> None:
    """Have processes whose parent is gone become this one's children, and keep others from looking into it (Linux)."""
    become_subreaper()
    set_dumpable(False)


class Asker:
    """The errand that asked for a program: its process, and a descriptor that becomes readable when that is gone.

    `has_called_off` says whether the program is to end although that process goes on.
    """

    def __init__(self, process: int, gone: int, has_called_off: Callable[[], bool]) -> None:
        self.gone = gone
        self.has_called_off = has_called_off
        self._process = process

    def end(self) -> None:
        """Kill the process, unless it has ended: this one would have another parent then."""
        if os.getppid() == self._process:
            os.kill(self._process, signal.SIGKILL)


def watch(errand: Asker, report: int, program: Callable[[], NoReturn]) -> NoReturn:
    """Run a program in a process of its own, report its end as JSON, and end all that is left of it."""
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
    poll.register(errand.gone, select.POLLIN)
    poll.register(woken, select.POLLIN)
    how, _ = _reap(first)
    while how is None and errand.gone not in [ready for ready, _ in poll.poll(_LOOK_MS)]:
        if errand.has_called_off():
            errand.end()
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        how, _ = _reap(first)
    how = end_all(first, how)
    with contextlib.suppress(OSError):  # nobody wants to know any more
        os.write(report, json.dumps(how).encode("ascii"))
    os._exit(0)


def _reap(first: int) -> Tuple[Optional[How], bool]:
    """Wait for whatever has ended; return how `first` did, if it is among that, and whether children are left."""
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
    """Kill this process's children and theirs until none is left; return how `first` ended, or `how` if it had."""
    deadline = time.monotonic() + _MOST_SECONDS
    if how is not None and not descendants.HAS_PROC:
        # Its orphans are nobody's children here. As long as one is left, no other group can have this number.
        _kill_group(first)
    while True:
        ended, are_left = _reap(first)
        how = ended or how
        if not are_left or time.monotonic() > deadline:
            return how
        if how is None:  # so its number is still its own
            _kill_group(first)
        descendants.end_below(os.getpid())
        time.sleep(0.001)


def _kill_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
