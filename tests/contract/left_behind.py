"""A count of the processes, files and other resources that a run could leave behind on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import fnmatch
import gc
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from actbox.sandbox.siblings import UNTOUCHED_SECONDS


def processes() -> set[int]:
    """Every process below this one, zombies and grandchildren included."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                parents[int(name)] = int(fields[1])
    found: set[int] = set()
    layer = {os.getpid()}
    while layer:
        layer = {child for child, parent in parents.items() if parent in layer} - found
        found |= layer
    return found


def processes_named(name: str) -> list[int]:
    """The processes below this one that the kernel knows by this name, and that have not ended."""
    found = []
    for process in processes():
        with contextlib.suppress(OSError):
            known, state = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rsplit(")", 1)
            if known == name and not state.startswith(" Z"):
                found.append(process)
    return found


def parent(process: int) -> int:
    """Return the parent's id, or 0 if there is no such process any more."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# What a container has mounted belongs to whoever runs containers here, and may be another test's. Of our own each has
# a folder, which `folders` finds.
_OF_CONTAINERS = ("/containers/storage/", "/actbox-container-", " /run/netns", "cgroup")


def mounts() -> list[str]:
    """The mounts of this process and of every process below it."""
    lines = []
    for process in {os.getpid(), *processes()}:
        with contextlib.suppress(OSError):
            lines += Path(f"/proc/{process}/mounts").read_text().splitlines()
    return sorted(line for line in lines if not any(place in line for place in _OF_CONTAINERS))


def held_mounts() -> list[str]:
    """The mounts of namespaces that this process holds by a descriptor: workspaces lie in one, and nobody is in it."""
    lines = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed already
            if os.readlink(f"/proc/self/fd/{name}").startswith("mnt:["):
                lines += _mounts_of(int(name))
    return lines


def _mounts_of(namespace: int) -> list[str]:
    """Read the mounts of a namespace, in a process that enters it; what is mounted there may be an ordinary user's."""
    owner = fcntl.ioctl(namespace, _GET_OWNER)
    try:
        is_ours = os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user"))
        path = [namespace] if is_ours else [owner, namespace]  # one cannot enter where one is
        command = [sys.executable, "-I", "-c", _READ_MOUNTS, *map(str, path)]
        return subprocess.run(command, pass_fds=path, capture_output=True, text=True, check=True).stdout.splitlines()
    finally:
        os.close(owner)


_GET_OWNER = 0xB701  # NS_GET_USERNS, in <linux/nsfs.h>
_READ_MOUNTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
proc = os.open("/proc", os.O_RDONLY)  # there may be none where we go
for namespace in sys.argv[1:]:
    if libc.setns(int(namespace), 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
with open(os.open("self/mounts", os.O_RDONLY, dir_fd=proc)) as file:
    print(file.read(), end="")
"""


def network_namespaces() -> set[str]:
    """The network namespaces that this process and those below it are in."""
    found = set()
    for process in {os.getpid(), *processes()}:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{process}/ns/net"))
    return found


def descriptors_below() -> int:
    """Return the number of open descriptors in all descendants of this process, since a nursery could leave some open
    too.
    """
    total = 0
    for process in processes():
        with contextlib.suppress(OSError):
            total += len(os.listdir(f"/proc/{process}/fd"))
    return total


def folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("actbox")}


def groups(process: int | None = None) -> set[str]:
    """The control groups that a process made, this one unless said."""
    name = f"actbox-{process or os.getpid()}-*"
    # Not rglob(), which fails where a group is removed meanwhile.
    walk = os.walk("/sys/fs/cgroup")
    return {f"{folder}/{child}" for folder, children, _ in walk for child in fnmatch.filter(children, name)}


def counts() -> dict[str, int]:
    """Return the number of each kind of resource; identities do not count, since a nursery may have been replaced."""
    return {
        "processes": len(processes()),
        "descriptors": descriptors(),
        "descriptors of processes below": descriptors_below(),
        "mounts": len(mounts()),
        "mounts of workspaces": len(held_mounts()),
        "folders": len(folders()),
        "control groups": len(groups()),
        "network namespaces": len(network_namespaces()),
    }


def seen() -> set[object]:
    """Everything that a run could leave behind; what there is several times of is numbered."""
    several = Counter([*mounts(), *["a descriptor"] * descriptors()])
    numbered = {(thing, number) for thing, count in several.items() for number in range(count)}
    return {*processes(), *folders(), *groups(), *network_namespaces(), *numbered}


async def settle() -> None:
    """Release resources that an engine has prepared ahead: their number follows demand and is no leftover."""
    if linux := sys.modules.get("actbox.sandbox.engines.linux.stock"):
        await asyncio.sleep(0.05)  # what is being made now is let go too
        linux.drain_all()
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def nothing_left_behind() -> AsyncIterator[None]:
    await settle()
    before = seen()
    yield
    deadline = time.monotonic() + 60  # a busy machine may take seconds to end what was ended
    while True:
        await settle()  # again each time: what was being made during the last is there only now
        left = seen() - before
        if not left:
            return
        assert time.monotonic() < deadline, left


async def settled_counts(expected: dict[str, int] | None = None) -> dict[str, int]:
    """Return the counts once no sandbox is starting or ending; wait a minute at most for the expected ones."""
    deadline = time.monotonic() + 60
    last = None
    while True:
        await settle()  # again each time: what was being made during the last is there only now
        counted = counts()
        is_quiet = counted == last and not processes_named("actbox-init")
        if (is_quiet and expected in (None, counted)) or time.monotonic() > deadline:
            return counted
        last = counted  # what has ended may still be being cleared away


@contextlib.asynccontextmanager
async def as_many_as_before() -> AsyncIterator[None]:
    """Like `nothing_left_behind`, for where another nursery may take the place of one that is killed."""
    await asyncio.sleep(UNTOUCHED_SECONDS)  # a sandbox that waits for its next program is nobody's leftover either
    if linux := sys.modules.get("actbox.sandbox.engines.linux.stock"):
        for stock in list(linux._stocks.values()):  # one that an earlier test has left would end at any moment
            await asyncio.to_thread(linux._close_if_idle, stock)
    before = await settled_counts()
    yield
    after = await settled_counts(before)
    assert after == before, {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def alive_with(marker: str) -> list[int]:
    """Processes, wherever they hang, whose command line has this in it; a number in it is not part of a longer one."""
    marked = re.compile(rb"(?<![0-9.])%s(?![0-9.])" % re.escape(marker.encode()))
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if marked.search(Path(f"/proc/{name}/cmdline").read_bytes()):
                    found.append(int(name))
    return found


# A program with a child, and a grandchild that has left its session and group.
FAMILY = (
    "import subprocess, time\n"
    "subprocess.Popen(['sleep', {seconds!r}])\n"
    "subprocess.Popen(['setsid', 'sh', '-c', 'sleep ' + {seconds!r} + ' & sleep ' + {seconds!r}])\n"
    "time.sleep(0.1)\nprint('ready', flush=True)\ntime.sleep(60)\n"
)
