"""The traits of the `linux` engine on this machine."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from actbox.core.packages import CLEAN, HOST
from actbox.sandbox.nursery import landlock
from actbox.sandbox.nursery.held_by_sockets import HeldBySockets
from actbox.sandbox.traits import Traits

from .hierarchies import Support

_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
_MOUNTS = Path("/proc/self/mountinfo")
# Until then, moving a process into a group of version 2 did not wait for the lock.
_LINUX_OF_SLOW_MOVES = 6

_PACKAGES = {HOST: "those of the host's environment", CLEAN: "none: the interpreter's standard library alone"}


def linux_traits(groups: Support | None, environment: str = HOST) -> Traits:
    """Return the traits of a sandbox in an environment; `groups` says where control groups can be made."""
    return Traits(
        engine="linux",
        isolation=_isolation(landlock.version()),
        isolated=True,
        walls="run",
        least_memory_mib=16,
        enforced=_enforced(groups),
        packages=_PACKAGES.get(environment, f"those of the environment {environment}"),
        dependencies=True,
        session_packages=True,
        platforms=("linux",),
        network="loopback of its own only",
        domains=True,
        labels="egress",
        mounts=("ro", "rw", "overlay"),
        cwd=True,
        sessions=True,
        fork=True,
        lanes=True,
        notes=_notes(groups),
    )


def _isolation(landlock_version: int) -> str:
    second_wall = f"Landlock (version {landlock_version}); " if landlock_version else ""
    return (
        "user, pid, mount, net, ipc, uts and cgroup namespaces; seccomp allow-list; " + second_wall + "no capabilities"
    )


def _enforced(groups: Support | None) -> dict[str, str]:
    def group_or(controller: str, other: str) -> str:
        return (groups.enforcer(controller) if groups else "") or other

    counter = groups.time_counter if groups else ""
    return {
        "wall_seconds": "host timer",
        "cpu_seconds": "pid 1" + (f", {counter}" if counter else "") + " and rlimit",
        "cpus": group_or("cpu", "pid 1"),
        "memory_mib": f"{group_or('memory', 'pid 1')} and rlimit",
        "processes": f"{group} and rlimit" if (group := group_or("pids", "")) else "rlimit",
        "open_files": "rlimit",
        "file_mib": "rlimit",
        "workspace_mib": "tmpfs",
        "disk_mib": "tmpfs",
        "output_bytes": "host",
        "tool_calls": "host",
        "tool_bytes": "host",
        "message_bytes": "host",
        "artifacts": "host",
        "artifact_mib": "host",
    }


def _notes(groups: Support | None) -> tuple[str, ...]:
    notes = []
    if groups is None or not groups.enforcer("memory"):
        uncounted = "" if _kernel_tells_of_sockets() else "; this kernel does not tell what local sockets hold"
        notes.append(
            "without a memory cgroup, pid 1 counts memory now and then, so a program may have more for a moment; "
            "what closed local sockets have sent and nobody has read it estimates" + uncounted
        )
    if groups is None or not groups.time_counter:
        notes.append(
            "without a cgroup that counts processor time, Limits.cpu_seconds misses short processes whose parent "
            "ignores their ends (SIGCHLD)"
        )
    if groups is None or not groups.enforcer("cpu"):
        notes.append("without a cpu cgroup, Limits.cpus holds on average: pid 1 stops a program that is ahead of it")
    if groups is not None and (slow := _slow_moves(groups)):
        notes.append(slow)
    if not landlock.version():
        notes.append("this kernel has no Landlock (version 2 or later), so mounts alone decide which files are seen")
    if dumps := _core_dumps():
        notes.append(dumps)
    return tuple(notes)


def _slow_moves(groups: Support) -> str:
    """Return a note if each guest waits for its move into its control group, as the kernel does by default; else ""."""
    if all(place.version == 1 for place in groups.places.values()):
        return ""
    mounts = [line.split() for line in _MOUNTS.read_text().splitlines() if " - cgroup2 " in line]
    if int(os.uname().release.split(".")[0]) < _LINUX_OF_SLOW_MOVES or "favordynmods" in mounts[0][-1].split(","):
        return ""
    return (
        "each guest waits, for some ten milliseconds, until it is moved into its cgroup; root can change that: "
        f"`mount -o remount,favordynmods {mounts[0][4]}`"
    )


def _core_dumps() -> str:
    """Return a note on which service gets programs' core dumps, "" if none does, while `RLIMIT_CORE` is 1."""
    try:
        pattern = _CORE_PATTERN.read_text().strip()
    except OSError:  # nothing says where dumps go; the limit holds for files and pipes all the same
        return ""
    if pattern.startswith("@"):
        return f"the service at {pattern} gets core dumps of programs: for a socket in core_pattern there is no limit"
    if pattern.startswith("|") and os.geteuid() != 0 and resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        return (
            "the kernel starts the handler in core_pattern for a program that dumps core, since this process's hard "
            "limit (RLIMIT_CORE) is 0: only at 1 it does not"
        )
    return ""


def _kernel_tells_of_sockets() -> bool:
    asking = HeldBySockets(lambda path: None)
    try:
        return asking.tells_of_local()
    finally:
        asking.close()
