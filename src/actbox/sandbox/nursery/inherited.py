"""Resets the properties that the nursery inherits from the process that started it to those of a fresh login.

The host's thread that first needs a sandbox starts the nursery, which forks all sandboxes, so without this a program
would run with that thread's signal mask, niceness or limits. Only root can undo a niceness above 0 or raise a hard
limit; elsewhere these stay. `docs/security.md` lists each property.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys

from ..guest.limits import read_oom_score, set_oom_score
from ..guest.signals import reset_signals
from . import linux
from .seccomp import native_architecture
from .syscall_numbers import NUMBERS

_MIB = 2**20
_PERSONALITY_QUERY = 0xFFFFFFFF
_JOIN_SESSION_KEYRING = 1
# Both the soft and the hard limit. With RLIMIT_RTPRIO or RLIMIT_NICE a program could monopolize a processor.
_LIMITS = {
    resource.RLIMIT_CORE: 1,  # only at 1 does the kernel start no core dump handler of the host
    resource.RLIMIT_RTPRIO: 0,
    resource.RLIMIT_NICE: 0,
    resource.RLIMIT_MSGQUEUE: 0,
    resource.RLIMIT_MEMLOCK: 8 * _MIB,
}
_STACK_BYTES = 8 * _MIB


def reset_inherited() -> None:
    """Reset what this process inherited. It may re-execute itself, with the same arguments and descriptors."""
    os.umask(0o022)  # guests with another id must be able to enter directories made here, whatever the host's mask
    _reset_personality()
    reset_signals()
    _reset_scheduling()
    _reset_limits()
    set_oom_score(max(0, read_oom_score()))
    with contextlib.suppress(OSError):  # no kernel keys here, or a quota; guests have no system call to use them
        linux.syscall("keyctl", _number("keyctl"), _JOIN_SESSION_KEYRING, None)


def _reset_personality() -> None:
    """Set the plain personality if it is another, and re-execute: the memory layout is decided at a program's start."""
    number = _number("personality")
    if linux.syscall("personality", number, _PERSONALITY_QUERY) != 0:
        linux.syscall("personality", number, 0)
        os.execv(sys.orig_argv[0], sys.orig_argv)


def _reset_scheduling() -> None:
    """Set ordinary scheduling, on the processors that the host's main thread may use."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))


def _reset_limits() -> None:
    """Raise soft limits to the hard ones, which `Limits` then lowers, and set the limits that it does not name."""
    for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (hard, hard))
    for which, most in _LIMITS.items():
        with contextlib.suppress(ValueError):  # the hard limit is lower, and only root may raise it
            resource.setrlimit(which, (most, most))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def _number(call: str) -> int:
    return NUMBERS[native_architecture()][call]
