"""What a run could leave behind on this machine, and how a test sees that it left nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path


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


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def mounts() -> list[str]:
    """The mounts of this process and of every process below it."""
    lines = []
    for process in {os.getpid(), *processes()}:
        with contextlib.suppress(OSError):
            lines += Path(f"/proc/{process}/mounts").read_text().splitlines()
    return sorted(lines)


def folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("actbox")}


def groups() -> set[str]:
    mine = f"actbox-{os.getpid()}-"
    return {str(path) for path in Path("/sys/fs/cgroup").rglob(f"{mine}*")}


def seen() -> set[object]:
    """Everything that a run could leave behind; what there is several times of is numbered."""
    several = Counter([*mounts(), *["a descriptor"] * descriptors()])
    numbered = {(thing, number) for thing, count in several.items() for number in range(count)}
    return {*processes(), *folders(), *groups(), *numbered}


async def settle() -> None:
    """Let go of what an engine has made ahead: how much that is follows demand, and is nobody's leftover."""
    if linux := sys.modules.get("actbox.sandbox.engines.linux.stock"):
        await asyncio.sleep(0.05)  # what is being made now is let go too
        linux.drain_all()
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def nothing_left_behind() -> AsyncIterator[None]:
    await settle()
    before = seen()
    yield
    await settle()
    deadline = time.monotonic() + 3
    while left := seen() - before:
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.02)


def alive_with(marker: str) -> list[str]:
    """Processes, wherever they hang, whose command line has this in it."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(name)
    return found


# A program with a child, and a grandchild that has left its session and group.
FAMILY = (
    "import subprocess, time\n"
    "subprocess.Popen(['sleep', {seconds!r}])\n"
    "subprocess.Popen(['setsid', 'sh', '-c', 'sleep ' + {seconds!r} + ' & sleep ' + {seconds!r}])\n"
    "time.sleep(0.1)\nprint('ready', flush=True)\ntime.sleep(60)\n"
)
