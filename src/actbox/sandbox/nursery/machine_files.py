"""The `/proc` files on a machine's size and load, rewritten in a sandbox to show the run's own limits and use.

Programs and libraries read them (psutil, `free`, joblib). The host's files are none of a program's business, and a
sandbox's `/proc` shows only processes; pid 1 writes these few from the run's limits and from its own counts.
"""

from __future__ import annotations

import math
import os
import time

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict

NAMES = ("meminfo", "stat", "cpuinfo", "loadavg", "uptime", "vmstat")
# Links into a process's own directory.
_LINKS = ("net", "mounts")
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV | linux.MOUNT_ATTR_NOEXEC
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
_USUAL_MEMORY_MIB = 1024
_TICKS = os.sysconf("SC_CLK_TCK")


class MachineFiles:
    """The files of one sandbox, behind descriptors that only pid 1 has."""

    def __init__(self) -> None:
        """Mount `proc` below the working directory, showing only processes, these files and two links."""
        linux.mount("tmpfs", "proc", "tmpfs", _FLAGS, "mode=0555,size=256k")
        self._files = {name: os.open("proc/" + name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o444) for name in NAMES}
        linux.mount("proc", "proc", "proc", _FLAGS)
        for name, file in self._files.items():
            linux.mount("proc/self/fd/%d" % file, "proc/" + name, None, linux.MS_BIND)
            linux.mount_setattr("proc/" + name, 0, _READ_ONLY)
        # A name in use, by a mount or a descriptor, stays visible after the remount, which hides all others.
        pinned = [os.open("proc/" + name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for name in _LINKS]
        linux.mount(None, "proc", None, _FLAGS | linux.MS_REMOUNT, "subset=pid,hidepid=invisible")
        self.descriptors = [*self._files.values(), *pinned]
        self._said: Dict[str, bytes] = {}
        self.begin(_USUAL_MEMORY_MIB, math.inf)  # so that little is left to write when a run begins

    def begin(self, memory_mib: int, cpus: float) -> None:
        """Write the files for a run with these limits."""
        self._begun = time.time()
        self._memory_mib = memory_mib
        self._processors = processors(cpus, len(os.sched_getaffinity(0)))
        self.update(0, 0.0)

    def update(self, used_pages: int, used_seconds: float) -> None:
        """Write the files that have changed, given the run's memory in pages and processor time in seconds."""
        up_seconds = time.time() - self._begun
        now = texts(self._memory_mib, self._processors, self._begun, up_seconds, used_pages, used_seconds)
        for name, text in now.items():
            before = self._said.get(name, b"")
            if text != before:
                os.pwrite(self._files[name], text, 0)
                if len(text) < len(before):
                    os.ftruncate(self._files[name], len(text))
        self._said = now


def processors(cpus: float, there: int) -> int:
    """Return the number of processors shown to a run with a share of `cpus` on a machine with `there`."""
    return max(1, math.ceil(min(cpus, there)))


def texts(
    memory_mib: int, count: int, begun: float, up_seconds: float = 0.0, used_pages: int = 0, used_seconds: float = 0.0
) -> Dict[str, bytes]:
    """Return the content of each file for a machine with this memory and `count` processors, used by the run alone."""
    total = memory_mib * 1024
    free = max(total - used_pages * _PAGE_KIB, 0)
    memory = {"MemTotal": total, "MemFree": free, "MemAvailable": free}
    memory.update(dict.fromkeys(("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree"), 0))
    memory.update(dict.fromkeys(("Dirty", "Writeback", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"), 0))
    busy = int(used_seconds * _TICKS)
    idle = max(int(up_seconds * count * _TICKS) - busy, 0)
    times = "%d 0 0 %d 0 0 0 0 0 0\n"
    stat = ["cpu  " + times % (busy, idle)]
    stat += ["cpu%d " % number + times % (busy // count, idle // count) for number in range(count)]
    stat += ["intr 0\nctxt 0\nbtime %d\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n" % begun]
    core = "processor\t: %d\nphysical id\t: 0\nsiblings\t: %d\ncore id\t\t: %d\ncpu cores\t: %d\n\n"
    load = used_seconds / up_seconds if used_seconds else 0.0
    said = {
        "meminfo": "".join("%-16s%12d kB\n" % (name + ":", kib) for name, kib in memory.items()),
        "stat": "".join(stat),
        "cpuinfo": "".join(core % (number, count, number, count) for number in range(count)),
        "loadavg": "%.2f %.2f %.2f 1/1 1\n" % (load, load, load),
        "uptime": "%.2f %.2f\n" % (up_seconds, idle / _TICKS),
        "vmstat": "pswpin 0\npswpout 0\n",
    }
    return {name: text.encode("ascii") for name, text in said.items()}
