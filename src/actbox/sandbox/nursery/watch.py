"""What pid 1 of a sandbox sees of its guests: it waits for the first of them, and looks now and then at all.

The kernel enforces what it can for one process (rlimits) or, where there is a cgroup, for all. What is left is counted
here: memory and processor time of the whole tree, and its share of the processors. Counting happens now and then, so
that a tree can pass a limit by what it takes between two looks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import time

from .charged_memory import ChargedMemory
from .control import Control
from .counted_memory import CountedMemory
from .share_of_time import Share, Weight

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

    from .family import Family

# Often enough that a tree cannot take much more than its share between two looks; rare enough to cost nothing.
LOOK_EVERY_SECONDS = 0.05
# Sooner at first: most runs end before, and one that computes shall not weigh as one that answers for long.
_FIRST_LOOK_SECONDS = 0.01
# A tree that does nothing is looked at less and less often, down to this: hundreds may wait at once. More often where
# nobody else would stop it from taking memory all of a sudden.
_IDLE_SECONDS, _IDLE_SECONDS_WITH_MEMORY = 0.4, 0.1

# Runs or could; or waits in the kernel, as for memory, for what will not take long.
_WANTS_PROCESSOR = (b"R", b"D")
_TICK = os.sysconf("SC_CLK_TCK")


class _Process:
    """What one process uses."""

    def __init__(
        self,
        key: tuple[int, int],
        virtual_bytes: int,
        pages: int,
        own_seconds: float,
        children_seconds: float,
        threads: int,
        stopped: bool,
        wants_processor: bool,
    ) -> None:
        self.key = key
        """Its id and when it started: an id alone may come to mean another process."""
        self.virtual_bytes = virtual_bytes
        self.pages = pages
        self.own_seconds = own_seconds
        self.children_seconds = children_seconds
        """Of children that it has waited for."""
        self.threads = threads
        self.stopped = stopped
        """Whether somebody has stopped it with a signal."""
        self.wants_processor = wants_processor
        """Whether its first thread runs, or would if it had a processor."""


class Watcher:
    """Counts what the tree below uses, through a `/proc` that hides nothing and that guests cannot reach."""

    def __init__(self, proc: int, groups: dict[str, int]) -> None:
        """`groups` are files of the sandbox's control groups; one counts processes ended for want of memory."""
        self._proc = proc
        self._killed = groups.get("memory_events")
        self._charged = ChargedMemory(groups) if "memory_sockets" in groups else None
        self.weight = Weight(groups)
        self._share: Share | None = None
        self._stopped_before: set[int] = set()
        self._limits: dict[str, float] = {}
        self._own_seconds: dict[tuple[int, int], float] = {}
        self._told_crowded = False
        self._used_seconds = 0.0
        self._looks = self._idle_looks = 0
        self._look_again = 0.0
        self.passed = ""
        """The limit, if any, that the tree has passed, for which it has been ended."""
        self.memory = CountedMemory(proc, self._read)

    def begin(self, limits: dict[str, float], owed: float) -> None:
        """Watch a run from now on; `limits` are those that are left to us, `owed` is what `Weight` begins with."""
        self._limits = limits
        self._told_crowded = False
        self.weight.begin(time.monotonic(), owed)
        if "cpus" in limits:
            self._share = Share(limits["cpus"], self._seconds(self._processes()), time.monotonic())

    def look(self, tell_crowded: Callable[[], None]) -> None:
        """End the tree if it has passed a limit; say, once in a run, if there are as many processes as may be."""
        if not self.passed:
            self.passed = self._passed(tell_crowded) or ""
            if self.passed:
                self.weight.let_end()
                _signal_all(signal.SIGKILL)

    def look_meanwhile(self, tell_crowded: Callable[[], None]) -> None:
        """Do as `look`, if it is time to: for what lasts. Raises `OSError` once the tree has passed a limit."""
        if time.monotonic() >= self._look_again:
            self.look(tell_crowded)
            self._look_again = time.monotonic() + LOOK_EVERY_SECONDS
        if self.passed:
            raise OSError(errno.ECANCELED, "the limit %s was passed meanwhile" % self.passed)

    def _passed(self, tell_crowded: Callable[[], None]) -> str | None:
        """Return the limit that is passed now, if any."""
        self._looks += 1
        processes = self._processes()
        if not self._told_crowded:
            threads = sum(process.threads for process in processes)
            self._told_crowded = threads >= self._limits.get("processes", float("inf"))
            if self._told_crowded:
                tell_crowded()
        if self._was_killed_for_memory() or self._sockets_hold_too_much() or self._uses_too_much_memory(processes):
            return "memory_mib"
        used = self._seconds(processes)
        self._idle_looks = self._idle_looks + 1 if used == self._used_seconds else 0
        self.weight.note(used, any(self._wants_processor(process) for process in processes), time.monotonic())
        self._used_seconds = used
        if used > self._limits.get("cpu_seconds", float("inf")):
            return "cpu_seconds"
        return None

    def hold_back(self) -> float:
        """Stop the tree if it is ahead of its share of the processors; return for how many seconds, else 0."""
        if self._share is None:
            return 0.0
        still = self._share.still_seconds(self._used_seconds, time.monotonic())
        if still:
            self._stopped_before = {process.key[0] for process in self._processes() if process.stopped}
            _signal_all(signal.SIGSTOP)
        return still

    def let_go_on(self) -> None:
        """Let a tree that was stopped go on, but for what the program itself had stopped."""
        for pid in self.pids():
            if pid not in self._stopped_before:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def pause(self) -> float:
        """Return how many seconds there may be until the next look."""
        if self._looks < 3:
            return min(_FIRST_LOOK_SECONDS * (1 << self._looks), LOOK_EVERY_SECONDS)
        longest = _IDLE_SECONDS_WITH_MEMORY if "memory_mib" in self._limits else _IDLE_SECONDS
        doubled = 1 << min(self._idle_looks, 10)
        return min(LOOK_EVERY_SECONDS * doubled, longest)

    def pids(self) -> list[int]:
        """Return the id of every process but pid 1."""
        return [int(name) for name in os.listdir(self._proc) if name.isdigit() and name != "1"]

    def parent(self, pid: int) -> int | None:
        """Return the id of a process's parent; `None` if there is no such process."""
        text = self._read("%d/stat" % pid)
        return None if text is None else int(text.rpartition(b")")[2].split()[1])

    def root_of(self, pid: int) -> str | None:
        """Return where a process's root lies, "" for our own; `None` if it has ended or is about to."""
        try:
            return os.readlink("%d/root" % pid, dir_fd=self._proc).rstrip("/")
        except OSError:
            return None

    def _was_killed_for_memory(self) -> bool:
        # The kernel may have taken one process of many; the others would wait for it until their time is up.
        if self._killed is None:
            return False
        counted = [line.split() for line in os.pread(self._killed, 4096, 0).splitlines()]
        return any(words[0] == b"oom_kill" and int(words[1]) > 0 for words in counted)

    def _sockets_hold_too_much(self) -> bool:
        if self._charged is None or "memory_with_sockets_mib" not in self._limits:
            return False
        return self._charged.passes(int(self._limits["memory_with_sockets_mib"] * 2**20))

    def _uses_too_much_memory(self, processes: list[_Process]) -> bool:
        if "memory_mib" not in self._limits:  # a cgroup sees to it
            return False
        return self.memory.passes(int(self._limits["memory_mib"] * 2**20), processes)

    def _seconds(self, processes: list[_Process]) -> float:
        """Return processor time that the tree has used for certain.

        There are two ways to count, and each misses something: a process that ignores its children's ends is not
        charged for them, and a process that begins and ends between two looks is never seen.
        """
        self._own_seconds.update((process.key, process.own_seconds) for process in processes)
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        charged = reaped.ru_utime + reaped.ru_stime
        charged += sum(process.own_seconds + process.children_seconds for process in processes)
        return max(charged, sum(self._own_seconds.values()))

    def _processes(self) -> list[_Process]:
        """Return every process but pid 1."""
        found = []
        for pid in self.pids():
            text = self._read("%d/stat" % pid)
            if text is None:
                continue
            fields = text.rpartition(b")")[2].split()
            user, system, children_user, children_system = (int(field) / _TICK for field in fields[11:15])
            key = (pid, int(fields[19]))
            found.append(
                _Process(
                    key,
                    int(fields[20]),
                    int(fields[21]),
                    user + system,
                    children_user + children_system,
                    int(fields[17]),
                    _state(text) == b"T",
                    _state(text) in _WANTS_PROCESSOR,
                )
            )
        return found

    def _wants_processor(self, process: _Process) -> bool:
        """Whether any thread of a process runs, or would if it had a processor."""
        if process.wants_processor or process.threads == 1:
            return process.wants_processor
        tasks = "%d/task" % process.key[0]
        try:
            folder = os.open(tasks, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:  # it has ended
            return False
        try:
            texts = [self._read("%s/%s/stat" % (tasks, name)) for name in os.listdir(folder)]
        except OSError:
            return False
        finally:
            os.close(folder)
        return any(_state(text) in _WANTS_PROCESSOR for text in texts if text is not None)

    def _read(self, path: str) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:  # it has ended, or does not show this much of itself
            return None
        try:
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError:
            return None
        finally:
            os.close(descriptor)


def _state(stat: bytes) -> bytes:
    """Return the letter for what a thread does, from the text that says what it uses."""
    return stat.rpartition(b")")[2].split(None, 1)[0]


class OneGuest:
    """The guests of an ordinary sandbox: there is one."""

    def __init__(self, pid: int, control: Control) -> None:
        self._pid = pid
        self._control = control

    def answer(self, op: str, request: dict[str, Any], descriptors: list[int]) -> None:
        """Do what the host asks."""
        os.kill(self._pid, {"interrupt": signal.SIGINT, "end": signal.SIGKILL}[op])

    def reaped(self, pid: int, status: int, usage: resource.struct_rusage, limit: str) -> None:
        """Tell the host if it was the guest that has ended, and end the sandbox."""
        if pid == self._pid:
            self._control.say(describe_end(status, usage, limit))
            os._exit(0)


def watch(
    guests: OneGuest | Family, control: Control, watcher: Watcher, take: Callable[[dict[str, Any], list[int]], None]
) -> NoReturn:
    """Live until the guests have ended, and say how. Until a run is taken there is nothing to look at."""
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(control.descriptor, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    taken, next_look, is_held = False, 0.0, False
    while True:
        _reap(guests, watcher.passed, control if not taken else None)
        for ready, _ in poll.poll(max(next_look - time.monotonic(), 0) * 1000 if taken else None):
            if ready == wake_read:
                os.read(wake_read, 4096)
                continue
            request = control.receive()
            if request is None:
                os._exit(0)  # the host has let go of us, and the kernel ends the guest
            op = request[0].pop("op")
            if op == "take":
                take(*request)
                taken = True
                next_look = time.monotonic() + watcher.pause()
            else:
                guests.answer(op, *request)
        if taken and time.monotonic() >= next_look:
            if is_held:
                watcher.let_go_on()
                is_held = False
            watcher.look(lambda: control.say({"limit": "processes"}))
            still = 0.0 if watcher.passed else watcher.hold_back()
            is_held = still > 0
            next_look = time.monotonic() + (still or watcher.pause())


def _signal_all(number: int) -> None:
    """Signal every process in the sandbox but this one."""
    with contextlib.suppress(ProcessLookupError):  # the last has just ended
        os.kill(-1, number)


def _reap(guests: OneGuest | Family, limit: str, waiting: Control | None) -> None:
    """Reap whoever has ended. While the sandbox is `waiting` for a run, that is the guest, and there is no run."""
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        if waiting is not None:
            waiting.say({"failure": "its process ended before a program was begun in it"})
            os._exit(0)
        guests.reaped(pid, status, usage, limit)


def describe_end(status: int, usage: resource.struct_rusage, limit: str) -> dict[str, Any]:
    """Return what the host is told of a guest's end."""
    ended: dict[str, Any] = {
        "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000,
        "max_rss_bytes": usage.ru_maxrss * 1024,
    }
    if limit:
        ended["limit"] = limit
    if os.WIFSIGNALED(status):
        ended["signal"] = os.WTERMSIG(status)
    else:
        ended["exit_code"] = os.WEXITSTATUS(status)
    return ended
