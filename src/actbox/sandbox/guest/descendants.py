"""Finds the descendants of a process on Linux, kills them, and counts what they use."""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Sequence, Set, Tuple

# The most rounds of looking for processes that were forked while others were being stopped.
_PASSES = 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_TIMES = 100_000
HAS_PROC = os.path.exists("/proc/self/stat")
_HAS_CHILDREN = os.path.exists("/proc/self/task/%d/children" % os.getpid())


def below(process: int) -> Set[int]:
    """Return every descendant of a process. Empty if the system does not show them."""
    if not HAS_PROC:
        return set()
    children: Callable[[int], Sequence[int]] = _children if _HAS_CHILDREN else _children_of_all()
    found: Set[int] = set()
    left = [process]
    while left:
        for child in children(left.pop()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


def children(process: int) -> Sequence[int]:
    """Return the children of a process. Empty if the system does not show them."""
    if not HAS_PROC:
        return ()
    return _children(process) if _HAS_CHILDREN else _children_of_all()(process)


def end_below(process: int) -> None:
    """Kill every descendant of a process; all are stopped first, so that none forks meanwhile."""
    stopped: Set[int] = set()
    for _ in range(_PASSES):
        found = below(process) - stopped
        if not found:
            break
        _send(found, signal.SIGSTOP)
        stopped |= found
    _send(stopped, signal.SIGKILL)


class Used:
    """The resources of a process's descendants: bytes of memory, seconds of processor time, number of threads.

    Shared memory counts once. The time includes children that they have waited for.
    """

    def __init__(self) -> None:
        self.memory = 0
        self.seconds = 0.0
        self.threads = 0


def used_below(process: int, times: Dict[Tuple[int, int], float]) -> Used:
    """Return what a process's descendants use; `times` is updated with each one's own seconds at its last sight."""
    used = Used()
    for one in below(process):
        try:
            with open("/proc/%d/stat" % one, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            ticks = list(map(int, fields[11:15]))
            used.seconds += sum(ticks) / _TICKS
            used.threads += int(fields[17])
            if len(times) < _MOST_TIMES:
                times[one, int(fields[19])] = sum(ticks[:2]) / _TICKS
            used.memory += _held_by(one)
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
    return used


def _held_by(process: int) -> int:
    try:
        with open("/proc/%d/smaps_rollup" % process, "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # it hides its memory, or the system does not tell: then all of it counts
    with open("/proc/%d/statm" % process, "rb") as file:
        return int(file.read().split()[1]) * _PAGE


def _send(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _children(process: int) -> List[int]:
    found: List[int] = []
    try:
        for task in os.listdir("/proc/%d/task" % process):
            with open("/proc/%d/task/%s/children" % (process, task), "rb") as file:
                found += map(int, file.read().split())
    except (OSError, ValueError):  # it has ended
        pass
    return found


def _children_of_all() -> Callable[[int], Sequence[int]]:
    parents: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(name))
    return lambda process: parents.get(process, ())
