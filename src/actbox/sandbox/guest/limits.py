"""Limits that a process can set for itself and all that it starts, and that none of them can raise again."""

from __future__ import annotations

import resource

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict, Union

_MIB = 2**20


def apply_limits(limits: Dict[str, Union[int, float]], used_bytes: int) -> None:
    """Set this process's resource limits. What memory it had before the program came, `used_bytes`, does not count."""
    _lower(resource.RLIMIT_CORE, 0, 0)
    if "memory_mib" in limits:
        most = int(limits["memory_mib"]) * _MIB + used_bytes
        _lower(resource.RLIMIT_DATA, most, most)
    if "cpu_seconds" in limits:
        seconds = max(1, -int(-limits["cpu_seconds"] // 1))  # whole seconds, rounded up
        # The first asks with SIGXCPU, the second ends whoever ignored that.
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


def data_bytes() -> int:
    """Return the memory that this process has of the kind which the limit counts; 0 where that cannot be read."""
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not a Linux; the limit then counts the interpreter too
    return 0


def _lower(which: int, soft: int, hard: int) -> None:
    # Nobody may raise a hard limit, not even root everywhere: what is lower already stays.
    current = resource.getrlimit(which)
    if current[1] != resource.RLIM_INFINITY:
        hard = min(hard, current[1])
    wanted = min(soft, hard), hard
    if wanted != current:  # gVisor lets nobody set some, which are zero there
        resource.setrlimit(which, wanted)
