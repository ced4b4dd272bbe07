"""What a run came to, from what is known at its end: why the host stopped it, how it ended, what the guest said."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Final

from actbox.core.counted import counted
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import NetworkRequest
from actbox.core.limits import Limits

from .channel.messages import Done
from .ending import Ending, Stop

EXIT_TIMEOUT = 124
EXIT_SANDBOX_FAILED = 125
OPEN_ANOTHER: Final = "; open a new one"
"""How the hint ends of a run that lost its session: what whoever has that can do."""
STATE_LOST: Final = f"the state of the session is lost{OPEN_ANOTHER}"


def verdict(stop: Stop | None, ending: Ending, done: Done | None, limits: Limits) -> tuple[int, ErrorInfo | None]:
    """Return the exit code and the error. The host's own reason comes first, then the enforcer's, then the guest's."""
    if stop is not None and stop.kind is ErrorKind.TIMEOUT and ending.limit in ("processes", "memory_mib"):
        # A program that was refused a process, or lost one, often waits for it until its time is up.
        return _limited(ending.limit, limits)
    if stop is not None:
        return _code_of(stop.kind), ErrorInfo(kind=stop.kind, message=stop.message, limit=stop.limit, hint=stop.hint)
    if ending.failure:
        return EXIT_SANDBOX_FAILED, ErrorInfo(kind=ErrorKind.SANDBOX, message=ending.failure)
    if done is not None:
        return done.exit_code, _blame_memory(done.error, ending, limits)
    if ending.limit:
        return _limited(ending.limit, limits)
    if ending.signal is not None:
        return _by_signal(ending.signal, limits)
    code = ending.exit_code or 0
    if code == 0:
        return 0, None
    return code, ErrorInfo(kind=ErrorKind.EXIT, message=f"the program ended itself with exit code {code}")


def blame_refusal(error: ErrorInfo, refused: NetworkRequest) -> ErrorInfo:
    """Return the error with the network request that the policy refused, where it seems to come from that."""
    if error.kind is ErrorKind.EXIT and not error.hint:  # many commands say no more than a number
        return replace(error, hint=refused.reason)
    if error.kind not in (ErrorKind.RUNTIME, ErrorKind.NETWORK):
        return error
    words = (refused.host, str(refused.status) if refused.status else "")
    if error.kind is ErrorKind.RUNTIME and not any(word and word in error.message for word in words):
        return error
    return replace(error, kind=ErrorKind.NETWORK, hint=refused.reason or error.hint)


def _blame_memory(error: ErrorInfo | None, ending: Ending, limits: Limits) -> ErrorInfo | None:
    """Return the error of a program of whose processes the kernel took one for memory, which it seldom knows itself."""
    if error is None or ending.limit != "memory_mib" or error.kind not in (ErrorKind.RUNTIME, ErrorKind.EXIT):
        return error
    _, cause = _limited(ending.limit, limits)
    message = f"{cause.message}: {error.message}" if error.message else cause.message
    return replace(error, kind=cause.kind, message=message, limit=cause.limit, hint=error.hint or cause.hint)


def _code_of(kind: ErrorKind) -> int:
    if kind is ErrorKind.TIMEOUT:
        return EXIT_TIMEOUT
    if kind in (ErrorKind.SANDBOX, ErrorKind.PROTOCOL):
        return EXIT_SANDBOX_FAILED
    return 128 + signal.SIGKILL


def _limited(limit: str, limits: Limits) -> tuple[int, ErrorInfo]:
    if limit == "cpu_seconds":
        message = f"the program used more than {counted(float(limits.cpu_seconds), 'second')} of processor time"
        hint = "use a faster algorithm, or vectorised operations"
        return EXIT_TIMEOUT, ErrorInfo(kind=ErrorKind.TIMEOUT, message=message, limit=limit, hint=hint)
    if limit == "processes":
        message = "the program wanted more than "
        message += counted(limits.processes, "process or thread", "processes and threads") + " at once"
        hint = "start fewer processes and threads at once, and wait for them"
        return 128 + signal.SIGKILL, ErrorInfo(kind=ErrorKind.PROCESSES, message=message, limit=limit, hint=hint)
    if limit == "memory_mib":
        message = f"the program used more than {limits.memory_mib} MiB of memory"
        hint = "work on less at a time: read in chunks, keep fewer columns, use generators"
        return 128 + signal.SIGKILL, ErrorInfo(kind=ErrorKind.MEMORY, message=message, limit=limit, hint=hint)
    return 128 + signal.SIGKILL, ErrorInfo(kind=ErrorKind.BUDGET, message=f"the limit {limit} was reached", limit=limit)


def _by_signal(number: int, limits: Limits) -> tuple[int, ErrorInfo]:
    if number == signal.SIGXCPU:
        return _limited("cpu_seconds", limits)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    code = 128 + number
    if number == signal.SIGSYS:
        message = "the program made a system call that only an attack makes, and was ended"
        return code, ErrorInfo(kind=ErrorKind.POLICY, type=name, message=message)
    if number == signal.SIGXFSZ:
        message = f"the program wrote a file of more than {limits.file_mib} MiB"
        return code, ErrorInfo(kind=ErrorKind.DISK, type=name, message=message, limit="file_mib")
    return code, ErrorInfo(kind=ErrorKind.CRASH, type=name, message=f"the program was ended by {name}")
