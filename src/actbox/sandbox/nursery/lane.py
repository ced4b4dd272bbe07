"""The lane of an open sandbox: what its pid 1 keeps from run to run, so that a run needs only a fresh guest.

Kept are the namespaces, the control group, the root and, unless the host gives others, the attached workspace and
mounts; new for each run are the guest's process, its channel and pipes, and `/tmp` and `/dev/shm` if an earlier program
has touched them. If it could have given descriptors of directories away, the mount namespace is new too, with what is
there at `/tmp`. Pid 1 goes on only while everything that it keeps is as it was at its birth; otherwise it ends, and
everything with it. All walls are built again around each guest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time

from ..guest.wire import EXIT_TOLD
from . import landlock, linux, wiped_text
from .attach import attach_run, mount_own, open_inputs
from .passing import refuse_descriptors

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, FrozenSet, List, NoReturn, Optional, Tuple

    from .control import Control
    from .watch import Watcher

_OWN = ("/tmp", "/dev/shm")
# The part of the memory limit that may stay charged to the control group after a run: files of the workspace, names.
_MOST_LEFT = 64
_LONGEST_TEXT = 4096
# Of this network: the packets, and the labels of flows, which outlive their sockets.
_COUNTS = ("dev", "ip6_flowlabel")
_LONGEST_BIRTH_MS = 2000
_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM)
# In the number of a process's clock, as `clock_getcpuclockid` makes it: the time that the scheduler has counted.
_SCHEDULED = 2
_LAST_PID = "sys/kernel/ns_last_pid"
# Counters that only grow, by the name of the group's file: a limit was met, or the group was made to wait.
_MET = {
    "memory_events": b"oom_kill ",
    "pids_events": b"max ",
    "cpu_stat": b"nr_throttled ",
    "cpu_usage": b"nr_throttled ",
}


def can_begin(proc: int, late: List[str]) -> bool:
    """Return whether a sandbox can become a lane: the kernel can reset process ids, and nothing lies below `/tmp`.

    `late` are the paths of the environment's directories that were attached after the root was built; below the
    workspace a program could move them. A policy has no mounts below `/tmp` and `/dev/shm`.
    """
    has_place = any(path.startswith((*_OWN, "/workspace/")) for path in late)
    return not has_place and os.access(_LAST_PID, os.F_OK, dir_fd=proc)


def capabilities_for(request: Dict[str, Any]) -> FrozenSet[int]:
    """Return the capabilities that pid 1 keeps between the runs of a lane whose first run has this request.

    The kernel acts in an overlay in the name of who mounted it: it needs rights to a directory that it makes there
    without any mode, and to the capabilities of a file that it copies. Pid 1 has them over the guest's own files only.
    """
    needed = {linux.CAP_SYS_ADMIN}
    if any(mount["mode"] == "overlay" for mount in request["mounts"]):
        needed |= {linux.CAP_DAC_OVERRIDE, linux.CAP_SETFCAP}
    return frozenset(needed)


class Lane:
    """The things that stay, the checks that they are as at birth, and the birth of the next guest."""

    def __init__(
        self,
        proc: int,
        groups: Dict[str, int],
        control: Control,
        readable: List[str],
        watcher: Watcher,
        request: Dict[str, Any],
        rules: int,
        mounted: List[int],
        overlays: List[int],
        be_guest: Callable[[List[int], int, int, Dict[str, Any]], NoReturn],
    ) -> None:
        """Note how things are now, before any program has run.

        `proc` is a full `/proc`, `readable` are the host directories that the root shows, `request` is the first run's,
        `rules` its Landlock ruleset, `mounted` are the descriptors of its workspace, inputs and mounts, and `overlays`
        those of what is mounted as an overlay. `be_guest` goes on as a guest, behind all walls, with the descriptors of
        its standard output and error and its channel, the ruleset, a pipe to write into when all walls stand, and what
        the host has told of all runs.
        """
        self._control = control
        self._readable = readable
        self._watcher = watcher
        self._request = request
        self._rules = rules
        self._mounted = mounted
        self._overlays = overlays
        paths = ["/workspace/input", *(mount["path"] for mount in request["mounts"])]
        self._points = [path for path in paths if path.startswith("/workspace/")]
        """The places of mounts that programs could move."""
        self._elsewhere = [path for path in paths if not path.startswith("/workspace/")]
        self._table: List[bytes] = []
        """The mount table, as it was before the mounts were first changed."""
        self._be_guest = be_guest
        self._last_pid = os.open(_LAST_PID, os.O_RDWR | os.O_CLOEXEC, dir_fd=proc)
        self._sockets = os.open("self/net/sockstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self._counts = [
            os.open("self/net/" + name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
            for name in _COUNTS
            if os.access("self/net/" + name, os.R_OK, dir_fd=proc)
        ]
        self._proc = proc
        self._groups = groups
        self._network = self._look_at_network()
        self._most_left = request["machine"]["memory_mib"] * 2**20 // _MOST_LEFT
        self._watch_mounts()
        self._seen = self._look_at_points()
        self._own = _Own()
        self._own.watch()
        self._was_alone = False
        """True once all processes of the last run were ended, and there were none but its guest."""
        self._alone_at = 0.0
        """The time at which that was seen; the clock is the host's too."""
        self._birth_seconds = 0.0
        """Processor time of the guest's birth, which is no part of its run; of the first guest it is not known."""
        self._is_command = "command" in request
        """True if a command replaces the guest, as the host has said: its end is told by this process."""
        self._is_last = False
        """True if the sandbox ends with this guest, which is a session's."""

    def goes_on_after(self, ended: Dict[str, Any]) -> bool:
        """Return whether the sandbox may go on after a guest that ended so; of a command tell the host then.

        A program's guest says by its exit code that it has told the host itself. No process of a command may be left.
        """
        if not self._is_command:
            return ended.get("exit_code") == EXIT_TOLD and not self._is_last
        if "exit_code" not in ended or not _is_alone() or self._has_met_limit():
            return False
        used_ms = self._used_ms()
        ended["cpu_ms"] = max(ended["cpu_ms"], used_ms)
        self._control.say({"ended": ended, "used_ms": used_ms})
        return True

    def made_processes(self, guest: int) -> bool:
        """Return whether a guest has made processes or threads, whose ids follow its own."""
        return int(os.pread(self._last_pid, 32, 0)) != guest

    def clear(self, has_left: bool) -> None:
        """End everything but this process. The guest itself has been reaped, and had company if it `has_left` any."""
        self._was_alone = _is_alone() and not has_left
        self._alone_at = time.monotonic()

    def begin(self, request: Dict[str, Any], _: List[int]) -> None:
        """Start watching the next run, whose limits are those of the first."""
        self._is_command = "command" in request
        if "session" in request:
            self._make_last()
        self._watcher.machine.begin(**self._request["machine"])
        self._watcher.begin(self._request["watched"], request["owed"])

    def _make_last(self) -> None:
        """Give up what only another guest would need: this one is a session's."""
        self._is_last = True
        linux.keep_capabilities(frozenset())
        joins = [file for name, file in self._groups.items() if name.startswith("join")]
        for descriptor in (self._rules, *joins):
            if descriptor >= 0:
                os.close(descriptor)

    def next_guest(self, anew: bool, mounts: List[int]) -> int:
        """Make a guest for the next run, and give it to the host; return its process id.

        With `anew` the run may have given away descriptors of directories, which then lead to nothing of the next one.
        `mounts` are the descriptors of another workspace, inputs and mounts, if the next run is to have those.
        The sandbox ends, with the reason for the host, if anything is not as it was at birth, and if the guest cannot
        be walled in. The host also hears the processor time of the last run, because the guest could lie about it.
        """
        used_ms = self._used_ms() if self._was_alone else None
        reason = self._difference()
        if reason:
            self._control.say({"left": reason, "used_ms": used_ms})
            os._exit(0)
        if anew:
            self._leave_mounts()
        if mounts:
            self._change_mounts(mounts)
        if anew or self._own.is_touched():
            self._mount_anew()
        self._watcher.begin_anew()
        self._watcher.memory.file_systems += self._overlays
        self._watcher.machine.begin(**self._request["machine"])
        channel, their_channel = socket.socketpair()
        refuse_descriptors(channel)
        stdout, their_stdout = os.pipe()
        stderr, their_stderr = os.pipe()
        ready, their_ready = os.pipe()
        os.pwrite(self._last_pid, b"1", 0)
        guest = os.fork()
        if guest == 0:
            ends = [their_stdout, their_stderr, their_channel.fileno()]
            self._be_guest(ends, self._rules, their_ready, self._request["lane"])
        for descriptor in (their_channel.detach(), their_stdout, their_stderr, their_ready):
            os.close(descriptor)
        is_ready = select.poll()
        is_ready.register(ready, select.POLLIN)
        if not is_ready.poll(_LONGEST_BIRTH_MS) or not os.read(ready, 1):
            raise OSError(errno.ECHILD, "the next guest could not be walled in")
        self._birth_seconds = time.clock_gettime(~guest << 3 | _SCHEDULED)
        ours = [channel.detach(), stdout, stderr]
        self._control.say({"guest": guest, "used_ms": used_ms, "alone_at": self._alone_at}, ours)
        for descriptor in (*ours, ready):
            os.close(descriptor)
        return guest

    def _difference(self) -> str:
        """Return what is not as it was at birth; "" if nothing is."""
        if not (self._was_alone and _is_alone()):
            return "processes"
        self._was_alone = False
        if self._look_at_network() != self._network:
            return "network"
        # A program that renames a directory above a mount moves that with it, which is no event.
        if self._mount_events.poll(0) or self._look_at_points() != self._seen:
            return "mounts"
        if self._has_met_limit():
            return "limits"
        if self._watcher.has_read_names:
            return "names"
        usage = self._groups.get("memory_usage", -1)
        if usage >= 0 and int(os.pread(usage, 32, 0)) > self._most_left:
            return "memory"
        return ""

    def _used_ms(self) -> float:
        """Return the processor time, in milliseconds, of a run of which no process is left."""
        return self._watcher.seconds_of_ended(self._birth_seconds) * 1000

    def _has_met_limit(self) -> bool:
        return self._watcher.has_met_limit or any(self._counter(name) for name in _MET)

    def _look_at_network(self) -> List[bytes]:
        """Return what the kernel has of this network: its sockets, those of TCP that linger, packets, flow labels."""
        words = os.pread(self._sockets, _LONGEST_TEXT, 0).split()
        held = [words[words.index(name) + 1] for name in (b"used", b"tw")]
        return held + [os.pread(file, _LONGEST_TEXT, 0) for file in self._counts]

    def _look_at_points(self) -> List[Optional[Tuple[int, int]]]:
        """Return the device and inode of what lies where something was mounted; `None` for nothing."""
        return [_identity(path) for path in self._points]

    def _counter(self, name: str) -> int:
        file = self._groups.get(name, -1)
        if file < 0:
            return 0
        for line in os.pread(file, _LONGEST_TEXT, 0).splitlines():
            if line.startswith(_MET[name]):
                return int(line.split()[1])
        return 0

    def _watch_mounts(self) -> None:
        """Watch the mount table of this namespace from now on."""
        self._mounts = os.open("self/mounts", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        self._mount_events = select.poll()
        self._mount_events.register(self._mounts, select.POLLPRI)
        self._mount_events.poll(0)  # those until now

    def _leave_mounts(self) -> None:
        """Go on in a copy of the mount namespace; the kernel takes the one that nobody is in apart."""
        linux.unshare(linux.CLONE_NEWNS)
        os.close(self._mounts)
        self._watch_mounts()

    def _mount_anew(self) -> None:
        """Replace `/tmp` and `/dev/shm` by empty ones, and the Landlock rules by rules about these."""
        self._own.unmount()
        os.chdir("/")
        mount_own(self._request["tmp_mib"], self._request["inodes"])
        self._mount_events.poll(0)  # our own
        self._own.watch()
        self._rule_anew()

    def _change_mounts(self, mounts: List[int]) -> None:
        """Replace the workspace and all mounts of the policy by others, and the Landlock rules likewise.

        Nothing but this process is in the sandbox now, and it has nothing of the old ones open but the mounts. The new
        mount table has to say what the old one did: where an overlay cannot be written, the kernel mounts it all the
        same, and a program beside this one may have put a link in the way to a mount. Raises `OSError` if it does not.
        """
        self._table = self._table or self._look_at_table()
        for path in ("/workspace", *self._elsewhere):
            linux.umount(path, linux.MNT_DETACH)
        for descriptor in (*self._mounted, *self._overlays):
            os.close(descriptor)
        self._overlays = attach_run(self._request, mounts)
        self._mounted, uppers = mounts[: len(self._mounted)], mounts[len(self._mounted) :]
        for descriptor in uppers:
            os.close(descriptor)
        self._mount_events.poll(0)  # our own
        self._seen = self._look_at_points()
        if self._look_at_table() != self._table:
            raise OSError(errno.ESTALE, "the mounts of the next run are not like those of the last one")
        if "hold_input" in self._request:
            shown = open_inputs()
            self._control.say({"input": True}, [shown])
            os.close(shown)
        self._rule_anew()

    def _look_at_table(self) -> List[bytes]:
        """Return a line for each mount (its source, place, type and options), and one for the room in each overlay."""
        os.lseek(self._mounts, 0, os.SEEK_SET)
        with open(self._mounts, "rb", closefd=False) as file:
            lines = sorted(file.read().splitlines())
        for overlay in self._overlays:
            room = os.statvfs(overlay)
            lines.append(b"%d %d %d" % (room.f_bsize, room.f_blocks, room.f_files))
        return lines

    def _rule_anew(self) -> None:
        """Replace the Landlock rules by rules about what is mounted now."""
        if self._rules >= 0:
            os.close(self._rules)
            self._rules = landlock.standing_rules(self._readable, -1)
            landlock.allow_run(self._rules, self._request, self._mounted)


class _Own:
    """A watch over `/tmp` and `/dev/shm`, which are mounted anew after a program has touched them."""

    def __init__(self) -> None:
        self._watching = -1  # kept, as to close it takes longer than a run
        self._watches: List[int] = []

    def watch(self) -> None:
        """Watch both from now on. Where this user may have no more watches, they count as touched."""
        while self._has_read():  # of earlier ones, and of their unmounting
            pass
        try:
            if self._watching < 0:
                self._watching = linux.watching()
            for place in _OWN:
                self._watches.append(linux.watch_folder(self._watching, place))
        except OSError as error:
            if error.errno not in _USED_UP:
                raise

    def is_touched(self) -> bool:
        """Return whether anything was done in one of them, or may have been."""
        return len(self._watches) < len(_OWN) or self._has_read()

    def unmount(self) -> None:
        """Unmount both; who has been given a descriptor of one causes no more events."""
        for number in self._watches:
            linux.unwatch(self._watching, number)
        self._watches = []
        for place in _OWN:
            linux.umount(place, linux.MNT_DETACH)

    def _has_read(self) -> bool:
        """Return whether something was done, and read what the kernel says of it: names of files, among others."""
        if self._watching < 0:
            return False
        try:
            wiped_text.wipe(0, wiped_text.read(self._watching))
        except BlockingIOError:
            return False
        return True


def _identity(path: str) -> Optional[Tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:  # it was removed, moved or closed off
        return None
    return status.st_dev, status.st_ino


def _is_alone() -> bool:
    """Return whether this process is the only one in the sandbox; end all others."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
        return False
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False
