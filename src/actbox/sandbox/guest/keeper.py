"""The keeper of one run: the parent of its guest, and of all processes that the guest leaves behind.

It reports over its control socket how the guest ended, once no descendant is left. Commands are lines of JSON: `{"do":
"interrupt"}`, `{"do": "kill"}`, and `{"watch": {...}}` with the limits that no kernel mechanism here enforces for a
whole tree. When the control socket is closed, the keeper ends the run and itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys

from . import descendants
from .limits import FIRST_TO_GO, set_oom_score
from .main import main as be_guest_main
from .prctl import become_subreaper, end_with_parent, install_filter, set_dumpable, set_name

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, NoReturn, Optional, Tuple

# The intervals, in milliseconds, at which the tree is checked: first and last.
_FIRST_LOOK_MS, _LAST_LOOK_MS = 50, 100
_REAP_MS = 5
# Many processes may fork orphans as fast as they are reaped; the keeper looks and listens between so many.
MOST_REAPED = 256
_CHANNEL = 3
_MIB = 2**20
_NO_LIMIT = float("inf")
# The files with a memory control group's count of killed processes: version 2, then version 1.
_GROUPS = (("/sys/fs/cgroup/memory.events", "oom_kill"), ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"))


def keep(control: int, channel: int, stdout: int, stderr: int, go: int, filter_program: bytes) -> NoReturn:
    """Fork the guest and keep it until it has ended; never returns. The system call filter applies to the guest only.

    `go` is a pipe that tells the guest that its program may begin; -1 if the guest's first message tells it.
    """
    set_name("actbox-keeper")
    become_subreaper()
    os.setsid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    first = os.fork()
    if first == 0:
        _be_guest(channel, stdout, stderr, go, filter_program)
    signal.set_wakeup_fd(wake)
    for descriptor in (channel, stdout, stderr, go):
        if descriptor >= 0:
            os.close(descriptor)
    os._exit(_Keeper(first, socket.socket(fileno=control), woken).live())


def _be_guest(channel: int, stdout: int, stderr: int, go: int, filter_program: bytes) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        end_with_parent(signal.SIGKILL)
        os.setsid()
        set_name("actbox-guest")
        null = os.open("/dev/null", os.O_RDONLY)
        own = [_above(descriptor) for descriptor in (null, stdout, stderr, channel, go) if descriptor >= 0]
        for number, descriptor in enumerate(own):
            os.dup2(descriptor, number, inheritable=number < _CHANNEL)
        close_from(len(own))
        set_oom_score(FIRST_TO_GO)
        set_dumpable(True)  # so that it can read its own /proc/self, as every process can
        if filter_program:
            install_filter(filter_program)
    except BaseException as error:
        sys.stderr.write("a guest could not begin: %s\n" % error)
        os._exit(125)
    be_guest_main(_CHANNEL, _CHANNEL + 1 if go >= 0 else -1)


def _above(descriptor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)


def close_from(lowest: int) -> None:
    """Close every descriptor from `lowest` up."""
    try:
        highest = max(map(int, os.listdir("/proc/self/fd")))
    except (OSError, ValueError):
        highest = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 65536)
    os.closerange(lowest, highest + 1)


class _Keeper:
    def __init__(self, first: int, control: socket.socket, woken: int) -> None:
        self._first = first
        self._control = control
        self._woken = woken
        self._words = b""
        self._ended: Optional[Tuple[int, float, int]] = None
        self._limit = ""
        self._watched: Dict[str, float] = {}
        self._known_times: Dict[Tuple[int, int], float] = {}
        self._is_full = False
        self._is_behind = False
        """True if there may be more processes to reap."""
        self._look_ms = _FIRST_LOOK_MS
        self._ends_before = _ends_for_memory()

    def live(self) -> int:
        self._control.sendall(b'{"up": true}\n')
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while self._ended is None:
            for descriptor, _ in poll.poll(0 if self._is_behind else self._look_ms if self._watched else None):
                if descriptor != self._woken:
                    self._hear()
                else:
                    os.read(self._woken, 4096)
            self._reap()
            if self._watched and self._ended is None:
                self._look()
        self._end_all()
        self._tell()
        return 0

    def _hear(self) -> None:
        data = self._control.recv(65536)
        if not data:
            self._end_all()
            os._exit(1)
        *lines, self._words = (self._words + data).split(b"\n")
        for line in lines:
            message: Dict[str, Any] = json.loads(line)
            if message.get("do") == "interrupt":
                if self._ended is None:
                    os.kill(self._first, signal.SIGINT)
            elif message.get("do") == "kill":
                self._reap()
                if self._watched and self._ended is None:
                    self._look()  # if processes fill the machine, this may be the first check at all
                self._end_all()
            else:
                self._watched = message["watch"]

    def _reap(self) -> bool:
        """Reap processes that have ended, at most `MOST_REAPED`; return whether any child is left."""
        self._is_behind = False
        for _ in range(MOST_REAPED):
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not process:
                return True
            if process == self._first:
                self._ended = status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss
        self._is_behind = True
        return True

    def _look(self) -> None:
        self._look_ms = min(self._look_ms + 10, _LAST_LOOK_MS)
        used = descendants.used_below(os.getpid(), self._known_times)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        if used.memory > self._watched.get("memory_mib", _NO_LIMIT) * _MIB:
            self._stop("memory_mib")
        # The kernel's sums leave out children that nobody waits for, and short-lived ones may end between two checks.
        seconds = max(used.seconds + ended.ru_utime + ended.ru_stime, sum(self._known_times.values()))
        if seconds > self._watched.get("cpu_seconds", _NO_LIMIT):
            self._stop("cpu_seconds")
        if used.threads >= self._watched.get("processes", _NO_LIMIT):
            self._is_full = True  # the kernel refuses the next process, and reports it to nobody

    def _stop(self, limit: str) -> None:
        self._limit = self._limit or limit
        self._end_all()

    def _end_all(self) -> None:
        """Kill the whole tree, and return when nothing of it is left."""
        descendants.end_below(os.getpid())
        if not descendants.HAS_PROC and self._ended is None:
            os.killpg(self._first, signal.SIGKILL)
        while self._reap():
            select.select([], [], [], _REAP_MS / 1000)
            descendants.end_below(os.getpid())

    def _tell(self) -> None:
        assert self._ended is not None
        status, seconds, rss = self._ended
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        if number == signal.SIGKILL and not self._limit and _ends_for_memory() > self._ends_before:
            self._limit = "memory_mib"
        told = {
            "exit_code": None if number is not None else os.WEXITSTATUS(status),
            "signal": number,
            "limit": self._limit or ("processes" if self._is_full else ""),
            "cpu_ms": seconds * 1000,
            "max_rss_bytes": rss * (1 if sys.platform == "darwin" else 1024),
            "failure": "",
        }
        with contextlib.suppress(OSError):  # the agent has ended
            self._control.sendall(json.dumps(told).encode() + b"\n")


def _ends_for_memory() -> int:
    for path, word in _GROUPS:
        try:
            with open(path) as file:
                for line in file:
                    if line.split()[0] == word:
                        return int(line.split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return 0
