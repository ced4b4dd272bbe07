"""What guests of an agent have in common: how they end, by the agent's word or together with it."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable

from actbox.core.after_fork import Owner
from actbox.core.errors import ErrorKind
from actbox.sandbox.ending import End, Ending, Stop
from actbox.sandbox.guest import frames
from actbox.sandbox.guest_process import GuestProcess

_ENDING = {
    "exit_code": (int, type(None)),
    "signal": (int, type(None)),
    "limit": (str,),
    "cpu_ms": (int, float),
    "max_rss_bytes": (int,),
    "failure": (str,),
}
_LIMITS = ("", "memory_mib", "cpu_seconds", "processes")
_MOST_FAILURE = 1000


class AgentGuest(GuestProcess):
    """A guest that an agent has opened."""

    def __init__(self, memory_ends: Callable[[], int]) -> None:
        self._memory_ends = memory_ends
        self._memory_ends_before = memory_ends()
        self._owner = Owner()
        self._end = End()
        self.is_dismissed = False
        """Whether its run is over, although it may not have ended quite."""

    @property
    def ended(self) -> bool:
        return self._end.ending is not None or not self._owner.is_here  # a forked child never hears of it

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self._end.when_in_loop(call)

    def dismiss(self, used_ms: float) -> bool:
        self.is_dismissed = True
        self.kill()
        return True

    def end_soon(self, ending: Ending, stop: Stop | None) -> None:
        """Tell how it ended, each in their event loop; in any thread."""
        was_killed = ending.signal == signal.SIGKILL and not ending.limit and not ending.failure
        if was_killed and self._memory_ends() > self._memory_ends_before:
            ending = dataclasses.replace(ending, limit="memory_mib")
        if self.stopped is None:
            self.stopped = stop
        self._end.tell(ending)


def two_pipes() -> tuple[int, int, int, int]:
    """Return two pipes, each by the end to read from and the end to write to. Raises `OSError`."""
    first = os.pipe()
    try:
        return (*first, *os.pipe())
    except BaseException:
        for descriptor in first:
            os.close(descriptor)
        raise


def ending_with_agent(why: str, broke_rules: bool) -> tuple[Ending, Stop | None]:
    """Return how guests end whose agent does, and the reason, where that is what the agent did."""
    stop = Stop(ErrorKind.PROTOCOL, why) if broke_rules else None
    return Ending(failure="" if broke_rules else why, signal=signal.SIGKILL), stop


def ending_of(payload: bytes) -> Ending:
    """Return how a guest ended, by the word of its agent. Raises `FrameError`."""
    told = frames.json_of(payload)
    if set(told) != set(_ENDING):
        raise frames.FrameError("an ending with other fields than those that it has")
    for name, kinds in _ENDING.items():
        if type(told[name]) not in kinds:
            raise frames.FrameError(f"an ending whose {name} makes no sense")
    if told["limit"] not in _LIMITS or len(told["failure"]) > _MOST_FAILURE:
        raise frames.FrameError("an ending that makes no sense")
    if told["signal"] is not None and not 0 < told["signal"] < 128:
        raise frames.FrameError("an ending by a signal that there is not")
    if told["exit_code"] is not None and not 0 <= told["exit_code"] < 256:
        raise frames.FrameError("an ending with an exit code that there is not")
    if not 0 <= told["cpu_ms"] < 2**50 or not 0 <= told["max_rss_bytes"] < 2**60:
        raise frames.FrameError("an ending that used more than there is")
    return Ending(**told)
