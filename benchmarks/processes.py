"""What the processes below this one use, as `/proc` says it. Others on the machine are not counted."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

GUEST = "actbox-guest"
PID_1 = "actbox-init"
NURSERY = "actbox-nursery"

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def descendants() -> dict[int, str]:
    """Return the names of all processes that come from this one, by process id."""
    found = {process: (name, parent) for process, name, parent in _processes()}

    def is_ours(process: int) -> bool:
        while process in found:
            process = found[process][1]
            if process == os.getpid():
                return True
        return False

    return {process: name for process, (name, _) in found.items() if is_ours(process)}


def named(name: str) -> list[int]:
    """Return the descendants of that name."""
    return [process for process, own in descendants().items() if own == name]


def parent_of(process: int) -> int:
    """Return a process's parent."""
    return _name_and_parent(Path(f"/proc/{process}/stat").read_text())[1]


def private_mib(process: int) -> float:
    """Return the memory that no other process shares, and that would so be free without this one."""
    return _sum_mib(process, "Private_")


def proportional_mib(process: int) -> float:
    """Return a process's memory, of what it shares with others its part."""
    return _sum_mib(process, "Pss:")


def processor_ms() -> float:
    """Return the processor time of this process, its living descendants, and all that these have waited for.

    Each living descendant's part is counted in ticks of 10 ms. Threads of the kernel are not counted.
    """
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ticks = 0
    for process in descendants():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return own * 1000 + ticks * _TICK_MS


def available_mib() -> float:
    """Return how much memory of the machine could be had."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 1024


def _sum_mib(process: int, prefix: str) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(prefix)) / 1024


def _processes() -> Iterator[tuple[int, str, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                yield int(entry.name), *_name_and_parent((entry / "stat").read_text())


def _name_and_parent(stat: str) -> tuple[str, int]:
    # The name stands in parentheses and may hold some itself.
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name, int(rest.split()[1])
