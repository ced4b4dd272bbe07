"""Pid 1's watch over its guests: it waits for them to end, and regularly checks limits on their whole tree.

The kernel enforces what it can for one process (rlimits) or, with a cgroup, for all. The rest is counted here: memory
and processor time of the tree, its share of the processors, epoll watches and locks. Counting happens only now and
then, so a tree can exceed a limit by what it takes between two checks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import time

from . import linux
from .charged_memory import ChargedMemory
from .control import Control
from .counted_memory import CountedMemory
from .counted_objects import CountedObjects
from .counted_time import CountedTime
from .open_descriptors import threads_of
from .share_of_time import Share, Weight
from .wiped_text import without_name

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, NoReturn, Protocol

    from .machine_files import MachineFiles

    Ended = list[tuple[int, int, resource.struct_rusage]]

    class Guests(Protocol):
        """The guests under watch: `OneGuest`, or the `Family` of a forkable session."""

        def answer(self, op: str, request: dict[str, Any], descriptors: list[int]) -> None:
            """Fulfil a request of the host."""

        def reaped(self, pid: int, status: int, usage: resource.struct_rusage, limit: str) -> None:
            """Handle the end of a process."""

    class Lane(Protocol):
        """The means to go on after a run: `nursery.lane.Lane`."""

        def goes_on_after(self, ended: dict[str, Any]) -> bool:
            """Return whether the host knows, or is told now, of a guest's end, and may have the sandbox go on."""

        def made_processes(self, guest: int) -> bool:
            """Return whether a guest has made processes or threads."""

        def clear(self, has_left: bool) -> None:
            """End everything but this process."""

        def begin(self, request: dict[str, Any], _: list[int]) -> None:
            """Start watching the next run."""

        def next_guest(self, anew: bool, mounts: list[int]) -> int:
            """Make a guest for the next run, give it to the host, and return its process id; never returns if not."""


# Often enough that a tree cannot exceed its share by much between two checks; rare enough to cost nothing.
LOOK_EVERY_SECONDS = 0.05
# The first checks come sooner: most runs end before, and a tree that computes must soon lose its high weight.
_FIRST_LOOK_SECONDS = 0.01
# An idle tree is checked less and less often, down to this, because hundreds may wait at once. More often if nothing
# else would stop it from taking memory all of a sudden.
_IDLE_SECONDS, _IDLE_SECONDS_WITH_MEMORY = 0.4, 0.1

# It runs or is ready to run; or it waits in the kernel for something short, such as memory.
_WANTS_PROCESSOR = (b"R", b"D")
# Stopped by a signal; or a thread that has ended and waits to be reaped.
_STOPPED_OR_ENDED = (b"T", b"Z", b"X")
# A process that has computed for so long since it was continued has left the fork in which it was stopped. The kernel
# scales its counts, so a single tick proves nothing.
_TICKS_BEYOND_A_FORK = 2
# The kernel writes a child's id into its memory.
_FAULTS_OF_A_FORK = 1
_TICK = os.sysconf("SC_CLK_TCK")
# A tree that has used no more since the last check counts as idle. What `/proc` tells grows by whole ticks, what a
# control group tells by every wake-up.
_IDLE_SECONDS_USED = 0.5 / _TICK
_SIGNALS_BYTES = 128 * 64  # of 64 signals
# Many processes may fork orphans as fast as pid 1 reaps them; it looks and listens between so many.
MOST_REAPED = 256


class _Process:
    """The resource use of one process."""

    def __init__(
        self,
        key: tuple[int, int],
        thread: int,
        virtual_bytes: int,
        pages: int,
        user_ticks: int,
        own_seconds: float,
        children_seconds: float,
        threads: int,
        state: bytes,
        page_faults: int,
    ) -> None:
        self.key = key
        """The process's id and start time; the id alone may be reused."""
        self.thread = thread
        """The id of a thread that shows the process's memory."""
        self.virtual_bytes = virtual_bytes
        self.pages = pages
        self.user_ticks = user_ticks
        """Processor time outside the kernel, in ticks of the clock."""
        self.own_seconds = own_seconds
        self.children_seconds = children_seconds
        """Processor time of the children that it has waited for, in seconds."""
        self.threads = threads
        self.state = state
        """The state letter of its first thread."""
        self.page_faults = page_faults
        """The number of pages that the kernel had to bring in at its first access to them."""

    @property
    def is_zombie(self) -> bool:
        """True if all its threads have ended, so that it holds no resources."""
        return self.state == b"Z" and self.threads <= 1

    @property
    def stopped(self) -> bool:
        """True if a signal has stopped it."""
        return self.state == b"T"

    @property
    def wants_processor(self) -> bool:
        """True if its first thread runs or is ready to run."""
        return self.state in _WANTS_PROCESSOR


class Watcher:
    """Counts the resources of the process tree, through a full `/proc` that guests cannot reach."""

    def __init__(self, proc: int, groups: dict[str, int], machine: MachineFiles) -> None:
        """`groups` are files of the sandbox's control groups; one counts processes killed for lack of memory.

        `machine` are the `/proc` files that tell the run its limits and its use.
        """
        self._proc = proc
        self.machine = machine
        self._killed = groups.get("memory_events")
        self._charged = ChargedMemory(groups, self._read) if "memory_stat" in groups else None
        self._groups = groups
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget an earlier run, of which no process is left."""
        self.weight = Weight(self._groups)
        self._share: Share | None = None
        self._stopped_before: set[int] = set()
        self._known: set[int] = set()
        self._forking: dict[tuple[int, int], int] = {}
        """Processes that may still be in the fork during which the tree was stopped, with their user ticks then."""
        self._forked_lately = False
        self._limits: dict[str, float] = {}
        self._listed: set[int] = set()
        """The ids in the latest list of processes."""
        self._time = CountedTime(self._groups)
        self._told_crowded = False
        self._used_seconds = 0.0
        self._looks = self._idle_looks = 0
        self._look_again = 0.0
        self.passed = ""
        """The limit for which the tree was killed, or ""."""
        self.memory = CountedMemory(self._proc, self._read)
        self._objects = CountedObjects(self._proc, self._read, self)

    def begin(self, limits: dict[str, float], owed: float) -> None:
        """Start watching a run; `limits` are those that pid 1 enforces, `owed` is the debt for `Weight.begin`."""
        self._limits = limits
        self._told_crowded = False
        self.weight.begin(time.monotonic(), owed)
        self._time.begin()
        if "cpus" in limits:
            self._share = Share(limits["cpus"], self._seconds(self._processes()), time.monotonic())

    @property
    def has_read_names(self) -> bool:
        """True if it may have read the names of files that the tree uses, to count their memory."""
        return "memory_mib" in self._limits and self._looks > 0

    @property
    def has_met_limit(self) -> bool:
        """True if the tree was killed for a limit, or had all the processes that it may have."""
        return bool(self.passed) or self._told_crowded

    def count_ended(self, ended: Ended) -> None:
        """Count the processor time of processes that pid 1 has reaped, and of the children that they had reaped."""
        self._time.count_ended(usage for _, _, usage in ended)

    def seconds_of_ended(self, birth_seconds: float) -> float:
        """Return the processor time of a run of which no process is left, in seconds, without its guest's birth."""
        return self._time.seconds_of_ended(birth_seconds)

    def look(self, tell_crowded: Callable[[], None]) -> None:
        """Kill the tree if it has passed a limit; call `tell_crowded` once when it has all the processes allowed."""
        if not self.passed:
            self.passed = self._passed(tell_crowded)
            if self.passed:
                self.weight.let_end()
                _signal_all(signal.SIGKILL)

    def begin_long_work(self) -> None:
        """Have `look_meanwhile` look when work that begins now has become long."""
        self._look_again = time.monotonic() + LOOK_EVERY_SECONDS

    def look_meanwhile(self, tell_crowded: Callable[[], None]) -> None:
        """Do as `look` if it is due, during long work. Raises `OSError` once the tree has passed a limit."""
        if time.monotonic() >= self._look_again:
            self.look(tell_crowded)
            self._look_again = time.monotonic() + LOOK_EVERY_SECONDS
        if self.passed:
            raise OSError(errno.ECANCELED, "the limit %s was passed meanwhile" % self.passed)

    def _passed(self, tell_crowded: Callable[[], None]) -> str:
        """Return the limit that is passed now; "" for none."""
        self._looks += 1
        processes = self._processes()
        self._let_newborns_go_on(processes)
        if not self._told_crowded:
            threads = sum(process.threads for process in processes)
            self._told_crowded = threads >= self._limits.get("processes", float("inf"))
            if self._told_crowded:
                tell_crowded()
        if self._was_killed_for_memory() or self._sockets_hold_too_much() or self._uses_too_much_memory(processes):
            return "memory_mib"
        used = self._seconds(processes)
        self._idle_looks = self._idle_looks + 1 if used - self._used_seconds < _IDLE_SECONDS_USED else 0
        self.weight.note(used, any(self._wants_processor(process) for process in processes), time.monotonic())
        self._used_seconds = used
        self.machine.update(sum(process.pages for process in processes), used)
        if used > self._limits.get("cpu_seconds", float("inf")):
            return "cpu_seconds"
        # Last, because a program can raise the cost of counting descriptors at will.
        return self._objects.passed([process.key for process in processes if not process.is_zombie])

    def hold_back(self) -> float:
        """Stop the tree if it has used more than its share of the processors; return for how many seconds, else 0."""
        if self._share is None:
            return 0.0
        still = self._share.still_seconds(self._used_seconds, time.monotonic())
        if still:
            self._stop()
        return still

    def _stop(self) -> None:
        self._stopped_before = {
            process.key[0] for process in self._processes() if process.stopped and not self._was_born_stopped(process)
        }
        _signal_all(signal.SIGSTOP)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[list[tuple[int, int]]]:
        """Stop the tree for a block and yield its processes; also children of forks under way are stopped.

        A tree that is held back already stays stopped afterwards.
        """
        stopped_before = self._stopped_before
        self._stop()
        try:
            yield self.living()
        finally:
            self.let_go_on()
            self._stopped_before = stopped_before

    def let_go_on(self) -> None:
        """Continue a stopped tree, except the processes that the program itself had stopped.

        A process that has not stopped by now may be inside a fork, whose child is stopped when the fork ends: `look`
        continues that child. Children continue before their parents, who would otherwise see them as stopped
        (`WUNTRACED`). Each process gets one `SIGCONT`, because programs may handle it.
        """
        unstopped = [process for process in self._processes() if not self._has_stopped(process)]
        self._forking = {process.key: process.user_ticks for process in unstopped}
        # Listed after that: a fork that had ended by then has its child in this list.
        self._known = set(self.pids())
        for pid in sorted(self._known - self._stopped_before, reverse=True):
            _signal(pid, signal.SIGCONT)

    def _was_born_stopped(self, process: _Process) -> bool:
        """Return whether a stopped process is the child of a fork that was under way when the tree was last stopped.

        The kernel passes the signal on to such a child when the fork ends, which may be after the tree was continued.
        The child has not run since: a process that has run has more page faults.
        """
        may_be_new = process.key[0] not in self._known and (bool(self._forking) or self._forked_lately)
        return may_be_new and process.page_faults <= _FAULTS_OF_A_FORK

    def _let_newborns_go_on(self, processes: list[_Process]) -> None:
        for process in processes:
            if process.stopped and self._was_born_stopped(process):
                _signal(process.key[0], signal.SIGCONT)
        if self._forking or self._forked_lately:
            found = {process.key: process for process in processes}
            still = {key: ticks for key, ticks in self._forking.items() if self._may_fork_on(found.get(key), ticks)}
            # The child of a fork that ended during this look may be missing in `processes`; the next look has it.
            self._forked_lately = len(still) < len(self._forking)
            self._forking = still

    def _may_fork_on(self, process: _Process | None, ticks: int) -> bool:
        """Return whether a process may still be in the fork in which it was, at `ticks`, when the tree continued."""
        if process is None or process.user_ticks >= ticks + _TICKS_BEYOND_A_FORK:
            return False
        return any(state in _WANTS_PROCESSOR for state in self._thread_states(process))

    def _has_stopped(self, process: _Process) -> bool:
        """Return whether no thread of a process is in the kernel or runs any more, as it is stopped or has ended."""
        return all(state in _STOPPED_OR_ENDED for state in self._thread_states(process))

    def pause(self) -> float:
        """Return the seconds until the next check is due."""
        if self._looks < 3:
            return min(_FIRST_LOOK_SECONDS * (1 << self._looks), LOOK_EVERY_SECONDS)
        longest = _IDLE_SECONDS_WITH_MEMORY if "memory_mib" in self._limits else _IDLE_SECONDS
        # An idle program may already exceed a limit, so a count that was only partly done is finished soon.
        is_halfway = self._objects.under_way or self.memory.under_way
        doubled = 1 if is_halfway else 1 << min(self._idle_looks, 10)
        return min(LOOK_EVERY_SECONDS * doubled, longest)

    def living(self) -> list[tuple[int, int]]:
        """Return the id and start time of every process except pid 1 and those that have ended."""
        return [process.key for process in self._processes() if not process.is_zombie]

    def pids(self) -> list[int]:
        """Return the id of every process except pid 1."""
        return [int(name) for name in os.listdir(self._proc) if name.isdigit() and name != "1"]

    def parent(self, pid: int) -> int | None:
        """Return the id of a process's parent; `None` if there is no such process."""
        text = self._read("%d/stat" % pid)
        return None if text is None else int(text.rpartition(b")")[2].split()[1])

    def root_of(self, pid: int) -> str | None:
        """Return the path of a process's root, "" for our own; `None` if it has ended or is about to."""
        try:
            return os.readlink("%d/root" % pid, dir_fd=self._proc).rstrip("/")
        except OSError:
            return None

    def _was_killed_for_memory(self) -> bool:
        # The kernel may have killed one process of many; the others would wait for it until their time is up.
        if self._killed is None:
            return False
        counted = [line.split() for line in os.pread(self._killed, 4096, 0).splitlines()]
        return any(words[0] == b"oom_kill" and int(words[1]) > 0 for words in counted)

    def _sockets_hold_too_much(self) -> bool:
        if self._charged is None or "memory_with_sockets_mib" not in self._limits:
            return False
        return self._charged.passes(int(self._limits["memory_with_sockets_mib"] * 2**20))

    def _uses_too_much_memory(self, processes: list[_Process]) -> bool:
        if "memory_mib" not in self._limits:  # a cgroup limits it
            return False
        return self.memory.passes(int(self._limits["memory_mib"] * 2**20), processes)

    def _seconds(self, processes: list[_Process]) -> float:
        """Return the processor time, in seconds, that the tree has certainly used."""
        return self._time.seconds(processes, self._listed)

    def _processes(self) -> list[_Process]:
        """Return every process except pid 1."""
        found = []
        pids = self.pids()
        self._listed = set(pids)
        for pid in pids:
            text = self._read("%d/stat" % pid)
            if text is None:
                continue
            fields = text.rpartition(b")")[2].split()
            user, system, children_user, children_system = (int(field) / _TICK for field in fields[11:15])
            key = (pid, int(fields[19]))
            thread = pid
            if fields[0] == b"Z" and int(fields[17]) > 1:  # its first thread has ended, and shows no memory
                thread, fields[20:22] = self._memory_of_others(pid)
            found.append(
                _Process(
                    key,
                    thread,
                    int(fields[20]),
                    int(fields[21]),
                    int(fields[11]),
                    user + system,
                    children_user + children_system,
                    int(fields[17]),
                    fields[0],
                    int(fields[7]),
                )
            )
        return found

    def _memory_of_others(self, pid: int) -> tuple[int, list[bytes]]:
        """Return a thread that shows the memory of its process, and the bytes and pages, as in its `stat`."""
        for thread in threads_of(self._proc, pid):
            shown = (self._read("%d/stat" % thread) or b"").rpartition(b")")[2].split()[20:22]
            if shown and shown[0] != b"0":
                return thread, shown
        return pid, [b"0", b"0"]

    def _wants_processor(self, process: _Process) -> bool:
        """Return whether any thread of a process runs or is ready to run."""
        return process.wants_processor or any(state in _WANTS_PROCESSOR for state in self._thread_states(process))

    def _thread_states(self, process: _Process) -> list[bytes]:
        """Return the state letters of a process's threads; none once it has ended."""
        if process.threads == 1:
            return [process.state]
        pid = process.key[0]
        texts = [self._read("%d/task/%d/stat" % (pid, thread)) for thread in threads_of(self._proc, pid)]
        return [_state(text) for text in texts if text is not None]

    def _read(self, path: str) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:  # the process has ended, or hides this file
            return None
        try:
            if path.endswith(("/stat", "/status")):
                return without_name(descriptor)
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError:
            return None
        finally:
            os.close(descriptor)


def _state(stat: bytes) -> bytes:
    """Return a thread's state letter from the text of its `stat` file."""
    return stat.rpartition(b")")[2].split(None, 1)[0]


class OneGuest:
    """The single guest of an ordinary sandbox; with a lane, one after the other."""

    def __init__(self, pid: int, control: Control, watcher: Watcher) -> None:
        self._pid = pid
        self._control = control
        self._watcher = watcher
        self.lane: Lane | None = None
        """Set with the first run if the sandbox may go on after it."""
        self._ended: dict[str, Any] = {}
        """The end of the guest, if the host has been told of it, or the guest said so."""
        self._lost_channel = False
        """True once the host has said that the channel ended without a result, whatever the guest's exit code says."""

    def answer(self, op: str, request: dict[str, Any], descriptors: list[int]) -> None:
        """Interrupt or kill the guest, or end all that is left of it, or make the next one, as the host asks.

        With `lost_channel` the host asks for nothing but the guest's end, now or as soon as it is known.
        """
        if op == "clear":
            self._make_way()
        elif op == "next":
            if self.lane is None:
                os._exit(0)
            self._pid = self.lane.next_guest(request["anew"], descriptors)
        elif op == "lost_channel" and self._pid:
            self._lost_channel = True
        elif self._pid:
            os.kill(self._pid, {"interrupt": signal.SIGINT, "end": signal.SIGKILL}[op])
        elif op != "interrupt":  # the host heard nothing of what the guest said to have told it
            self._say_end(self._ended)

    def reaped(self, pid: int, status: int, usage: resource.struct_rusage, limit: str) -> None:
        """If the guest has ended, tell the host and end the sandbox; but not if the host knows, and may go on."""
        if pid != self._pid:
            return
        ended = describe_end(status, usage, limit)
        if self.lane is None or limit or self._lost_channel or not self.lane.goes_on_after(ended):
            self._say_end(ended)
        self._pid, self._ended = 0, ended

    def _say_end(self, ended: dict[str, Any]) -> NoReturn:
        # The time of processes that the guest has left is in this process's count only.
        ended["cpu_ms"] = max(ended.get("cpu_ms", 0.0), self._watcher.seconds_of_ended(0.0) * 1000)
        self._control.say(ended)
        os._exit(0)

    def _make_way(self) -> None:
        has_left = False
        if self._pid:  # it is just ending, or has lied
            if self.lane is not None and self.lane.made_processes(self._pid):
                has_left = len(self._watcher.pids()) > 1
            # Also what it has left, since its own end may take long: the kernel writes its files and frees its memory.
            # That needs no bound: nothing of the program runs meanwhile, and another run does not wait for it.
            _signal_all(signal.SIGKILL)
            self._watcher.count_ended([os.wait4(self._pid, 0)])
        self._pid = 0
        if self.lane is None:
            os._exit(0)
        self.lane.clear(has_left)


def watch(
    guests: Guests, control: Control, watcher: Watcher, take: Callable[[dict[str, Any], list[int]], None]
) -> NoReturn:
    """Reap, check limits and serve the host until the guests have ended. Checks begin when a run is taken.

    `take` is called when a run begins: in a lane again for each.
    """
    signals = linux.receive_signals()
    poll = select.poll()
    poll.register(control.descriptor, select.POLLIN)
    poll.register(signals, select.POLLIN)
    taken, next_look, is_held, has_more = False, 0.0, False, False
    while True:
        events = poll.poll(0 if has_more else max(next_look - time.monotonic(), 0) * 1000 if taken else None)
        ready = [descriptor for descriptor, _ in events]
        ended: Ended = []
        if signals in ready:
            os.read(signals, _SIGNALS_BYTES)
        if signals in ready or has_more:
            ended = _reap()
            has_more = len(ended) == MOST_REAPED
            watcher.count_ended(ended)
        is_asked = control.descriptor in ready
        # Also when a process has ended: a guest that was given a program got it after pid 1 was told of it.
        while (is_asked or ended) and (request := control.receive_now()) is not None:
            is_asked = False
            op = request[0].pop("op")
            if op == "take":
                take(*request)
                taken = True
                next_look = time.monotonic() + watcher.pause()
                continue
            _tell_ends(ended, guests, watcher, control, taken)
            guests.answer(op, *request)
            if op == "clear":
                taken = is_held = False
        _tell_ends(ended, guests, watcher, control, taken)
        if taken and time.monotonic() >= next_look:
            if is_held:
                watcher.let_go_on()
                is_held = False
            watcher.look(lambda: control.say({"limit": "processes"}))
            still = 0.0 if watcher.passed else watcher.hold_back()
            is_held = still > 0
            next_look = time.monotonic() + (still or watcher.pause())


def _tell_ends(ended: Ended, guests: Guests, watcher: Watcher, control: Control, taken: bool) -> None:
    """Handle the ends of processes; without a run the sandbox has failed."""
    for pid, status, usage in ended:
        if not taken:
            why = "its process ended before a program was begun in it"
            control.say({**describe_end(status, usage, ""), "failure": why})
            os._exit(0)
        guests.reaped(pid, status, usage, watcher.passed)
    ended.clear()


def _signal_all(number: int) -> None:
    """Signal every process in the sandbox except this one."""
    _signal(-1, number)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # the process, or the last of all, has just ended
        os.kill(pid, number)


def _reap() -> Ended:
    """Reap the processes that have ended, at most `MOST_REAPED`; return the id, status and use of each."""
    ended: Ended = []
    with contextlib.suppress(ChildProcessError):  # no process is left: the guest of a lane has told the host
        while len(ended) < MOST_REAPED and (one := os.wait4(-1, os.WNOHANG))[0]:
            ended.append(one)
    return ended


def describe_end(status: int, usage: resource.struct_rusage, limit: str) -> dict[str, Any]:
    """Return the message that tells the host how a guest ended."""
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
