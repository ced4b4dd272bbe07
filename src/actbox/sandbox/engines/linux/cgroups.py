"""A run's control group, where this process may make one: it limits the tree's memory, processes and processors.

`hierarchies.py` finds out where groups can be made. Elsewhere rlimits and pid 1 keep the limits.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Final

from actbox.core.limits import Limits

from .hierarchies import CPUACCT, Support

_PROCESSORS: Final = os.cpu_count() or 1
_numbers = itertools.count(1)
# A group cannot be removed while the kernel still cleans up its last process.
_REMOVE_TRIES, _REMOVE_WAIT_SECONDS = 50, 0.002
# The kernel's default. A shorter period interrupts programs more often, a longer one pauses them for longer.
_PERIOD_MICROSECONDS = 100_000
# Version 1 counts the buffers of TCP and UDP sockets apart from other memory, and only if a limit was set before the
# sockets were made. The kernel lets each socket exceed it by a little, so many sockets exceed it by much: pid 1 checks
# the sum. Version 2 counts them with the other memory (`memory.current`), to which `memory.max` applies.
_SOCKETS_LIMIT, _SOCKETS_USAGE = "memory.kmem.tcp.limit_in_bytes", "memory.kmem.tcp.usage_in_bytes"


class RunGroup:
    """The control group of one run (in version 1 one group a controller). Made before its processes, removed after."""

    def __init__(self, support: Support, limits: Limits) -> None:
        name = f"actbox-{os.getpid()}-{next(_numbers)}"
        # Strings, not paths: a path interns its parts, and these names, used once, would stay in memory for ever.
        self._folders = {controller: f"{place.folder}/{name}" for controller, place in support.places.items()}
        self._versions = {controller: place.version for controller, place in support.places.items()}
        self._memory_mib = self._processes = 0
        self._cpus = float(_PROCESSORS)
        made: list[str] = []
        try:
            for folder in self.folders:
                os.mkdir(folder)
                made.append(folder)
            self.set_limits(limits)
        except BaseException:
            for folder in made:
                os.rmdir(folder)
            raise

    def set_limits(self, limits: Limits) -> None:
        """Set the group's limits; unchanged ones cost nothing. No program may run in the group yet."""
        if "memory" in self._folders and limits.memory_mib != self._memory_mib:
            self._limit_memory(limits.memory_mib * 2**20)
            self._memory_mib = limits.memory_mib
        if "pids" in self._folders and limits.processes != self._processes:
            self._write("pids", "pids.max", str(limits.processes))
            self._processes = limits.processes
        cpus = min(limits.cpus, _PROCESSORS)  # all processors means no limit
        if "cpu" in self._folders and cpus != self._cpus:
            self._limit_cpus(cpus)
            self._cpus = cpus

    def _limit_memory(self, most: int) -> None:
        if self._versions["memory"] == 2:
            self._write("memory", "memory.max", str(most))
            if os.path.exists(self._path("memory", "memory.swap.max")):
                self._write("memory", "memory.swap.max", "0")
            return
        # Memory with swap must never be less than memory alone, so the one that grows is written first.
        keys = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if most > self._memory_mib * 2**20 > 0:
            keys.reverse()
        for key in keys:
            if os.path.exists(self._path("memory", key)):
                self._write("memory", key, str(most))
        if self._counts_sockets_apart:
            self._write("memory", _SOCKETS_LIMIT, str(most))

    def _limit_cpus(self, cpus: float) -> None:
        quota = None if cpus >= _PROCESSORS else round(cpus * _PERIOD_MICROSECONDS)
        if self._versions["cpu"] == 2:
            self._write("cpu", "cpu.max", f"{'max' if quota is None else quota} {_PERIOD_MICROSECONDS}")
        else:
            self._write("cpu", "cpu.cfs_period_us", str(_PERIOD_MICROSECONDS))
            self._write("cpu", "cpu.cfs_quota_us", str(-1 if quota is None else quota))

    @property
    def _memory_events(self) -> str:
        return "memory.events" if self._versions["memory"] == 2 else "memory.oom_control"

    @property
    def _counts_sockets_apart(self) -> bool:
        return self._versions["memory"] == 1 and os.path.exists(self._path("memory", _SOCKETS_LIMIT))

    @property
    def folders(self) -> set[str]:
        """The group's directories: one in version 2, one for each controller in version 1."""
        return set(self._folders.values())

    def open_files(self) -> dict[str, int]:
        """Return descriptors of the group's files, by name.

        The guest joins by writing 0 to each `joinN`. Pid 1 does not join: it reads `memory_events`, `memory_usage`,
        `memory_stat`, `pids_events`, and, where sockets are counted apart, `memory_sockets`. In version 1 it reads
        processor time from `cpuacct_usage` and pauses from `cpu_stat`, in version 2 both from `cpu_usage`. It writes
        the run's weight against other processes to `cpu_shares` (version 1, default 1024) or `cpu_weight` (version 2,
        default 100).
        """
        files: dict[str, int] = {}
        try:
            for number, folder in enumerate(sorted(self.folders)):
                files[f"join{number}"] = os.open(f"{folder}/{self._join_key(folder)}", os.O_WRONLY | os.O_CLOEXEC)
            for name, (controller, key) in self._counters().items():
                files[name] = os.open(self._path(controller, key), os.O_RDONLY | os.O_CLOEXEC)
            if "cpu" in self._folders:
                key = "cpu.weight" if self._versions["cpu"] == 2 else "cpu.shares"
                files[key.replace(".", "_")] = os.open(self._path("cpu", key), os.O_WRONLY | os.O_CLOEXEC)
        except BaseException:
            for descriptor in files.values():
                os.close(descriptor)
            raise
        return files

    def _counters(self) -> dict[str, tuple[str, str]]:
        """Return the files that pid 1 reads, by name: their controller and their name in its directory."""
        files: dict[str, tuple[str, str]] = {}
        if "memory" in self._folders:
            usage = "memory.current" if self._versions["memory"] == 2 else "memory.usage_in_bytes"
            files |= {"memory_events": ("memory", self._memory_events), "memory_usage": ("memory", usage)}
            files["memory_stat"] = ("memory", "memory.stat")
            if self._counts_sockets_apart:
                files["memory_sockets"] = ("memory", _SOCKETS_USAGE)
        if "pids" in self._folders:
            files["pids_events"] = ("pids", "pids.events")
        if self._versions.get("cpu") == 1:
            files["cpu_stat"] = ("cpu", "cpu.stat")
        if CPUACCT in self._folders:
            files["cpuacct_usage"] = (CPUACCT, "cpuacct.usage")
        for controller, version in self._versions.items():
            if version == 2:  # whichever it is: all have the same directory
                files["cpu_usage"] = (controller, "cpu.stat")
        return files

    def _join_key(self, folder: str) -> str:
        # In version 1 a single thread moves without the lock that a whole process waits for, for milliseconds. The
        # guest has one thread when it joins. In version 2 it waits (`traits._slow_moves`), although `clone3` could make
        # it in the group where that is our user's: `clone3` is no fork of the C library, whose handlers
        # (`pthread_atfork`) preloaded libraries rely on, such as to seed their random numbers anew.
        controller = next(controller for controller, known in self._folders.items() if known == folder)
        return "cgroup.procs" if self._versions[controller] == 2 else "tasks"

    def used_ms(self) -> float:
        """Return the milliseconds of processor time that the group has used; 0 if nothing counts them here."""
        if CPUACCT in self._folders:
            with open(self._path(CPUACCT, "cpuacct.usage")) as file:
                return int(file.read()) / 1e6
        for controller, version in self._versions.items():
            if version == 2:
                return self._counter(controller, "cpu.stat", "usage_usec") / 1e3
        return 0.0

    def limit_reached(self) -> str:
        """Return the limit for which the kernel killed or refused a process, or ""."""
        if "memory" in self._folders and self._counter("memory", self._memory_events, "oom_kill"):
            return "memory_mib"
        if "pids" in self._folders and self._counter("pids", "pids.events", "max"):
            return "processes"
        return ""

    def remove(self) -> None:
        """Remove the group once it has no processes left. Blocks for some milliseconds at most; raises `OSError`."""
        for folder in self.folders:
            for attempt in range(_REMOVE_TRIES):
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    if attempt == _REMOVE_TRIES - 1:
                        raise
                    time.sleep(_REMOVE_WAIT_SECONDS)

    def _path(self, controller: str, key: str) -> str:
        return f"{self._folders[controller]}/{key}"

    def _write(self, controller: str, key: str, value: str) -> None:
        with open(self._path(controller, key), "w") as file:
            file.write(value)

    def _counter(self, controller: str, key: str, name: str) -> int:
        with open(self._path(controller, key)) as file:
            lines = file.readlines()
        for line in lines:
            words = line.split()
            if len(words) == 2 and words[0] == name:
                return int(words[1])
        return 0
