"""Resource limits that a process sets for itself and all its children, and that none of them can raise again."""

from __future__ import annotations

import resource

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict, Union

_MIB = 2**20
_OOM_SCORE = "/proc/self/oom_score_adj"
FIRST_TO_GO = 1000
"""The OOM score of guests: without memory left, the kernel should kill a program before the processes around it."""


def apply_limits(limits: Dict[str, Union[int, float]], used_bytes: int) -> None:
    """Set this process's resource limits. Its memory before the program, `used_bytes`, does not count."""
    # Only at 1 does the kernel start no core dump handler of the host (`core_pattern` with a pipe).
    _lower(resource.RLIMIT_CORE, 1, 1)
    if "memory_mib" in limits:
        most = int(limits["memory_mib"]) * _MIB + used_bytes
        _lower(resource.RLIMIT_DATA, most, most)
    if "cpu_seconds" in limits:
        seconds = max(1, -int(-limits["cpu_seconds"] // 1))  # whole seconds, rounded up
        # The soft limit sends SIGXCPU, the hard limit kills a process that ignored it.
        _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
    if "file_mib" in limits:
        most = int(limits["file_mib"]) * _MIB
        _lower(resource.RLIMIT_FSIZE, most, most)
    if "open_files" in limits:
        _lower(resource.RLIMIT_NOFILE, int(limits["open_files"]), int(limits["open_files"]))
    if "processes" in limits:
        _lower(resource.RLIMIT_NPROC, int(limits["processes"]), int(limits["processes"]))
    if "pending_signals" in limits:
        _lower(resource.RLIMIT_SIGPENDING, int(limits["pending_signals"]), int(limits["pending_signals"]))


def set_oom_score(score: int) -> None:
    """Set how soon the kernel kills this process for lack of memory: 1000 is first of all, 0 is by its size."""
    try:
        with open(_OOM_SCORE, "wb", buffering=0) as file:
            file.write(b"%d" % score)
    except OSError:
        pass  # not Linux, or not permitted


def read_oom_score() -> int:
    """Return this process's OOM score adjustment; 0 if the system has none."""
    try:
        with open(_OOM_SCORE) as file:
            return int(file.read())
    except OSError:
        return 0


def data_bytes() -> int:
    """Return this process's memory of the kind that `RLIMIT_DATA` counts, in bytes; 0 if it cannot be read."""
    try:
        with open("/proc/self/status", "rb", buffering=0) as file:
            for line in file.read().splitlines():
                if line.startswith(b"VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux; the limit then counts the interpreter too
    return 0


def _lower(which: int, soft: int, hard: int) -> None:
    # Nobody may raise a hard limit, in some places not even root: a lower existing one stays.
    current = resource.getrlimit(which)
    if current[1] != resource.RLIM_INFINITY:
        hard = min(hard, current[1])
    wanted = min(soft, hard), hard
    if wanted != current:  # gVisor lets nobody set some, which are zero there
        resource.setrlimit(which, wanted)
