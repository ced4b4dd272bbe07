"""What pid 1 of a sandbox sees of its guests: it waits for the first of them, and looks now and then at all.

The kernel enforces what it can for one process (rlimits) or, where there is a cgroup, for all. What is left is counted
here: memory and processor time of the whole tree.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

# Often enough that a tree cannot take much more than its share between two looks; rare enough to cost nothing.
LOOK_EVERY_SECONDS = 0.05

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class Watcher:
    """Counts what the tree below uses, through a `/proc` that hides nothing and that guests cannot reach."""

    def __init__(self, proc: int, limits: dict[str, float]) -> None:
        """`limits` are those that nobody else enforces, by their field names."""
        self._proc = proc
        self._limits = limits

    def look(self) -> str | None:
        """Return the limit that is passed now, if any."""
        processes = self._processes()
        memory = sum(pages for _, pages, _, _ in processes) * _PAGE
        if memory > self._limits.get("memory_mib", float("inf")) * 2**20:
            shared_once = sum(self._proportional(pid, pages) for pid, pages, _, _ in processes)
            if shared_once > self._limits["memory_mib"] * 2**20:
                return "memory_mib"
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = reaped.ru_utime + reaped.ru_stime + sum(seconds for _, _, seconds, _ in processes)
        if spent > self._limits.get("cpu_seconds", float("inf")):
            return "cpu_seconds"
        return None

    def crowded(self) -> bool:
        """Return whether there are as many processes and threads as may be."""
        most = self._limits.get("processes", float("inf"))
        return sum(threads for _, _, _, threads in self._processes()) >= most

    def _processes(self) -> list[tuple[int, int, float, int]]:
        """Return (pid, resident pages, CPU seconds with reaped children, threads) of every process but pid 1."""
        found = []
        for name in os.listdir(self._proc):
            if not name.isdigit() or name == "1":
                continue
            text = self._read(name + "/stat")
            if text is None:
                continue
            fields = text.rpartition(b")")[2].split()
            user, system, children_user, children_system = (int(field) for field in fields[11:15])
            seconds = (user + system + children_user + children_system) / _TICK
            found.append((int(name), int(fields[21]), seconds, int(fields[17])))
        return found

    def _proportional(self, pid: int, pages: int) -> int:
        text = self._read("%d/smaps_rollup" % pid)
        if text is not None:
            for line in text.splitlines():
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
        return pages * _PAGE

    def _read(self, path: str) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:  # it has ended, or does not show this much of itself
            return None
        try:
            return os.read(descriptor, 65536)
        except OSError:
            return None
        finally:
            os.close(descriptor)


def wait_for(first: int, watcher: Watcher, on_crowded: Callable[[], None]) -> tuple[int, resource.struct_rusage, str]:
    """Wait until the first guest has ended, reaping all others; return its status, usage and the limit it passed.

    `SIGCHLD` must be blocked. When a limit is passed, all guests are ended. `on_crowded` is called once when there
    are as many processes and threads as may be.
    """
    limit, told = "", False
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == first:
            return status, usage, limit
        if pid or signal.sigtimedwait({signal.SIGCHLD}, LOOK_EVERY_SECONDS) is not None:
            continue
        if not limit:
            limit = watcher.look() or ""
            if limit:
                os.kill(-1, signal.SIGKILL)
        if not told and watcher.crowded():
            told = True
            on_crowded()
