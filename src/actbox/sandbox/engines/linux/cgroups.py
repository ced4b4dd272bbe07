"""A control group for one run, where this process may make one: memory and processes of the whole tree together.

Version 2 is used where its controllers are delegated to us, version 1 where that is what there is. Elsewhere the
limits are kept by rlimits and by pid 1 of the sandbox.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from actbox.core.limits import Limits

_CONTROLLERS: tuple[str, ...] = ("memory", "pids")
_MOUNT = Path("/sys/fs/cgroup")
_numbers = itertools.count(1)
# A group cannot be removed while the kernel still buries its last process.
_REMOVE_TRIES, _REMOVE_WAIT_SECONDS = 50, 0.002


@dataclass(frozen=True, slots=True)
class Support:
    """Where groups can be made on this machine: for each controller the folder, and the version."""

    version: int
    folders: dict[str, Path]

    def enforcer(self, controller: str) -> str:
        """Return what to say in traits, empty where this controller is not to be had."""
        return f"cgroup v{self.version}" if controller in self.folders else ""


class RunGroup:
    """The group (in version 1 the groups) of one run. Made before its processes, removed after them."""

    def __init__(self, support: Support, limits: Limits) -> None:
        name = f"actbox-{os.getpid()}-{next(_numbers)}"
        self._support = support
        # Texts: a path interns its parts, and names that come but once would stay in memory for ever.
        self._folders = {controller: f"{folder}/{name}" for controller, folder in support.folders.items()}
        self._memory_mib = self._processes = 0
        for folder in self.folders:
            os.mkdir(folder)
        self.set_limits(limits)

    def set_limits(self, limits: Limits) -> None:
        """Set the limits of the group; what they are already costs nothing. No program may run in it yet."""
        if "memory" in self._folders and limits.memory_mib != self._memory_mib:
            self._limit_memory(limits.memory_mib * 2**20)
            self._memory_mib = limits.memory_mib
        if "pids" in self._folders and limits.processes != self._processes:
            self._write("pids", "pids.max", str(limits.processes + 1))  # pid 1 is ours and does not count
            self._processes = limits.processes

    def _limit_memory(self, most: int) -> None:
        if self._support.version == 2:
            self._write("memory", "memory.max", str(most))
            if os.path.exists(self._path("memory", "memory.swap.max")):
                self._write("memory", "memory.swap.max", "0")
            return
        # Memory with swap may never be less than memory alone: what grows with both goes first.
        keys = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if most > self._memory_mib * 2**20 > 0:
            keys.reverse()
        for key in keys:
            if os.path.exists(self._path("memory", key)):
                self._write("memory", key, str(most))

    @property
    def _memory_events(self) -> str:
        return "memory.events" if self._support.version == 2 else "memory.oom_control"

    @property
    def folders(self) -> set[str]:
        """The group's folders: one in version 2, one a controller in version 1."""
        return set(self._folders.values())

    def open_files(self) -> dict[str, int]:
        """Return descriptors for pid 1: it joins by writing 0 to each `joinN`, and reads `memory_events`."""
        # In version 1 a thread moves alone without the lock that a whole process has to wait for, for milliseconds.
        # Pid 1 has one thread when it joins.
        name = "cgroup.procs" if self._support.version == 2 else "tasks"
        files = {
            f"join{number}": os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            for number, folder in enumerate(sorted(self.folders))
        }
        if "memory" in self._folders:
            events = self._path("memory", self._memory_events)
            files["memory_events"] = os.open(events, os.O_RDONLY | os.O_CLOEXEC)
        return files

    def limit_reached(self) -> str:
        """Return the limit that the kernel had to enforce by ending or refusing a process, if any."""
        if "memory" in self._folders and self._counter("memory", self._memory_events, "oom_kill"):
            return "memory_mib"
        if "pids" in self._folders and self._counter("pids", "pids.events", "max"):
            return "processes"
        return ""

    def remove(self) -> None:
        """Remove the group, once nothing is left in it. Blocks for some milliseconds at most; raises `OSError`."""
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


@functools.cache
def support() -> Support | None:
    """Return where groups can be made, found by making one; `None` where nowhere."""
    own = _own_groups()
    for found in (_version_2(own), _version_1(own)):
        if found is not None and found.folders:
            for folder in set(found.folders.values()):
                _remove_orphans(folder)
            return found
    return None


def _remove_orphans(folder: Path) -> None:
    """Remove the groups of processes like this one that were killed before they could."""
    for group in folder.glob("actbox-*-*"):
        process = group.name.split("-")[1]
        if process.isdigit() and not Path("/proc", process).exists():
            with contextlib.suppress(OSError):  # somebody else may be at it too
                group.rmdir()


def _own_groups() -> dict[str, str]:
    """Return this process's group for each version 1 controller, and for version 2 under the empty name."""
    groups = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                groups[controller] = path
    return groups


def _version_2(own: dict[str, str]) -> Support | None:
    if "" not in own or not (_MOUNT / "cgroup.controllers").exists():
        return None
    here = _MOUNT / own[""].lstrip("/")
    # A group with processes of its own cannot have groups with limits below it: then beside it.
    for folder in (here, here.parent):
        with contextlib.suppress(OSError):
            enabled = (folder / "cgroup.subtree_control").read_text().split()
            folders = {name: folder for name in _CONTROLLERS if name in enabled}
            if folders and folder.is_relative_to(_MOUNT) and _can_make(folder):
                return Support(2, folders)
    return None


def _version_1(own: dict[str, str]) -> Support | None:
    folders = {}
    for controller in _CONTROLLERS:
        if controller in own:
            folder = _MOUNT / controller / own[controller].lstrip("/")
            if _can_make(folder):
                folders[controller] = folder
    return Support(1, folders)


def _can_make(folder: Path) -> bool:
    trial = folder / f"actbox-{os.getpid()}-{next(_numbers)}"
    try:
        trial.mkdir()
        os.close(os.open(trial / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()
    return True
