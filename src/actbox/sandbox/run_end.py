"""How a run ended: by itself, by an enforcer of its limits, or by the host; and its exit code and error.

The messages are written for a model.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from actbox.core.counted import counted
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import NetworkRequest
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits

from .channel.messages import Done

EXIT_TIMEOUT = 124
EXIT_SANDBOX_FAILED = 125
OPEN_ANOTHER: Final = "; open a new one"
"""The last words of the hint for a run that lost its session: what its caller can do."""
STATE_LOST: Final = f"the state of the session is lost{OPEN_ANOTHER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a guest's first process ended. `limit` names the field of `Limits` whose enforcer ended or hindered it."""

    exit_code: int | None = None
    signal: int | None = None
    limit: str = ""
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    failure: str = ""
    """The reason, if the sandbox itself failed before the program could start."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The host's reason for ending a run."""

    kind: ErrorKind
    message: str
    limit: str = ""
    hint: str = ""


class End:
    """The end of a process, and the functions to call with it. Methods may be called from any thread."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []

    def when(self, call: Callable[[Ending], None], loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Call a function with the ending, in an event loop if one is given.

        Else it is called now if the ending is known, or later in the thread that reports it.
        """
        with self._lock:
            if self.ending is None:
                self._waiting.append((call, loop))
                return
        _tell((call, loop), self.ending)

    def forget(self) -> list[_Waiting]:
        """Drop the waiting functions, and return them: nobody needs the ending of a process whose run is over."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def tell(self, ending: Ending) -> None:
        """Set the ending and call the waiting functions; only the first call counts."""
        with self._lock:
            if self.ending is not None:
                return
            self.ending = ending
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            _tell(each, ending)


_Waiting = tuple[Callable[[Ending], None], asyncio.AbstractEventLoop | None]


def _tell(waiting: _Waiting, ending: Ending) -> None:
    call, loop = waiting
    if loop is None:
        call(ending)
        return
    with contextlib.suppress(RuntimeError):  # the event loop is closed: nothing waits any more
        loop.call_soon_threadsafe(call, ending)


def out_of_time(seconds: float) -> Stop:
    """Return the reason for a run that used up its wall time."""
    return Stop(
        ErrorKind.TIMEOUT,
        f"the program was stopped after {counted(float(seconds), 'second')}",
        "wall_seconds",
        "do less in one run, such as fewer items; where files are kept, save progress to one and go on there",
    )


def too_much_output(limits: Limits) -> Stop:
    """Return the reason for a program that printed more than `Limits.output_bytes`."""
    most = limits.output_bytes
    return Stop(
        ErrorKind.OUTPUT_LIMIT,
        f"the program printed more than {most:,} bytes; the first {most:,} are kept",
        "output_bytes",
        "print a summary, or write what is long to a file below output/",
    )


def out_of_budget(limit: str, limits: Limits) -> Stop:
    """Return the reason for a run that used up its tool calls, or the bytes of their arguments and results."""
    if limit == "tool_calls":
        message = f"the run is out of tool calls: it made {limits.tool_calls:,}"
        hint = "call tools less often"
    else:
        message = f"the arguments and results of the run's tool calls came to more than {limits.tool_bytes:,} bytes"
        hint = "ask tools for less, and give them less"
    return Stop(ErrorKind.BUDGET, message, limit, hint)


def host_failed(error: OSError) -> Stop:
    """Return the reason for a run that the host could not go on with, such as for lack of memory or open files."""
    return Stop(
        ErrorKind.SANDBOX,
        f"the host could not serve the run: {error.strerror or error}",
        hint="what ran out may be free again by now; run it again",
    )


def call_failed(error: BaseException) -> Stop:
    """Return the reason for a run whose tool call could not be answered, by a fault of ours."""
    return Stop(ErrorKind.SANDBOX, f"a tool call could not be answered: {type(error).__name__}: {error}")


def lost_value(why: str) -> tuple[str, ...]:
    """Return warnings about a result value that could not be sent, or nothing if `why` is empty."""
    return (f"the value is there as text only: {why}",) if why else ()


def verdict(stop: Stop | None, ending: Ending, done: Done | None, limits: Limits) -> tuple[int, ErrorInfo | None]:
    """Return the exit code and the error. The host's own reason counts first, then the enforcer's, then the guest's."""
    if stop is not None and stop.kind is ErrorKind.TIMEOUT and ending.limit in ("processes", "memory_mib"):
        # A program that could not start a process, or lost one, often waits for it until its time is up.
        return _limited(ending.limit, limits)
    if stop is not None:
        return _code_of(stop.kind), ErrorInfo(kind=stop.kind, message=stop.message, limit=stop.limit, hint=stop.hint)
    if ending.failure:
        return EXIT_SANDBOX_FAILED, ErrorInfo(kind=ErrorKind.SANDBOX, message=ending.failure)
    if done is not None:
        return done.exit_code, _with_cause(done.error, ending, limits) if done.error is not None else None
    if ending.limit:
        return _limited(ending.limit, limits)
    if ending.signal is not None:
        return _by_signal(ending.signal, limits)
    code = ending.exit_code or 0
    if code == 0:
        return 0, None
    return code, ErrorInfo(kind=ErrorKind.EXIT, message=f"the program ended itself with exit code {code}")


def about_full_disk(error: ErrorInfo, limits: Limits) -> ErrorInfo:
    """Return the error with the limit that is reached, if there was no room left for a program's files."""
    return replace(error, limit=limits.full_disk) if error.limit == "workspace_mib" else error


def blame_refusal(error: ErrorInfo, refused: NetworkRequest) -> ErrorInfo:
    """Return the error with the refused network request as its hint, if the error seems to come from it."""
    if error.kind is ErrorKind.EXIT and not error.hint:  # many commands report only an exit code
        return replace(error, hint=refused.reason)
    if error.kind not in (ErrorKind.RUNTIME, ErrorKind.NETWORK):
        return error
    words = (refused.host, str(refused.status) if refused.status else "")
    if error.kind is ErrorKind.RUNTIME and not any(word and word in error.message for word in words):
        return error
    return replace(error, kind=ErrorKind.NETWORK, hint=refused.reason or error.hint)


def _with_cause(error: ErrorInfo, ending: Ending, limits: Limits) -> ErrorInfo:
    """Return the error with the limit that is its cause, which the program's own process does not know.

    It is a memory error if the kernel killed one of the program's processes for lack of memory.
    """
    error = about_full_disk(error, limits)
    if ending.limit != "memory_mib" or error.kind not in (ErrorKind.RUNTIME, ErrorKind.EXIT):
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
    if limit == "epoll_watches":
        message = "the program's processes watched more than 32,768 descriptors by epoll, or hid how many"
        hint = "unregister what is no longer waited for; run no program whose file cannot be read (mode 0111)"
        return 128 + signal.SIGKILL, ErrorInfo(kind=ErrorKind.BUDGET, message=message, limit=limit, hint=hint)
    if limit == "file_locks":
        message = "the program's processes held more than 32,768 locks of files"
        hint = "lock whole files, or fewer ranges at once"
        return 128 + signal.SIGKILL, ErrorInfo(kind=ErrorKind.BUDGET, message=message, limit=limit, hint=hint)
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


def with_hint(error: ErrorInfo, sentence: str) -> ErrorInfo:
    """Return an error with one more sentence in its hint."""
    return replace(error, hint=f"{error.hint}; {sentence}" if error.hint else sentence)
