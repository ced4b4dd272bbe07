"""The common part of an agent's guests: how they end, reported by the agent or together with it."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from collections.abc import Callable

from actbox.core.after_fork import Owner
from actbox.core.errors import ErrorKind
from actbox.sandbox.guest import frames
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.run_end import End, Ending, Stop

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
    """A guest that an agent has started."""

    def __init__(self, memory_ends: Callable[[], int]) -> None:
        self._memory_ends = memory_ends
        self._memory_ends_before = memory_ends()
        self._owner = Owner()
        self._end = End()
        self.is_dismissed = False
        """True if its run is over, although the guest may still be ending."""

    @property
    def ended(self) -> bool:
        return self._end.ending is not None or not self._owner.is_here  # a forked child is never told of the end

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self._end.when(call, asyncio.get_running_loop())

    def dismiss(self, used_ms: float) -> bool:
        self.is_dismissed = True
        self.kill()
        return True

    def end_soon(self, ending: Ending, stop: Stop | None) -> None:
        """Report the guest's end to its waiters, each in its own event loop; from any thread."""
        was_killed = ending.signal == signal.SIGKILL and not ending.limit and not ending.failure
        if was_killed and self._memory_ends() > self._memory_ends_before:
            ending = dataclasses.replace(ending, limit="memory_mib")
        if self.stopped is None:
            self.stopped = stop
        self._end.tell(ending)


def ending_with_agent(why: str, broke_rules: bool) -> tuple[Ending, Stop | None]:
    """Return the ending of guests whose agent ended, and the reason if the agent broke the rules."""
    stop = Stop(ErrorKind.PROTOCOL, why) if broke_rules else None
    return Ending(failure="" if broke_rules else why, signal=signal.SIGKILL), stop


def ending_of(payload: bytes) -> Ending:
    """Return a guest's ending as its agent reported it. Raises `FrameError`."""
    fields = frames.json_of(payload)
    if set(fields) != set(_ENDING):
        raise frames.FrameError("an ending with other fields than those that it has")
    for name, kinds in _ENDING.items():
        if type(fields[name]) not in kinds:
            raise frames.FrameError(f"an ending whose {name} makes no sense")
    if fields["limit"] not in _LIMITS or len(fields["failure"]) > _MOST_FAILURE:
        raise frames.FrameError("an ending that makes no sense")
    if fields["signal"] is not None and not 0 < fields["signal"] < 128:
        raise frames.FrameError("an ending by a signal that there is not")
    if fields["exit_code"] is not None and not 0 <= fields["exit_code"] < 256:
        raise frames.FrameError("an ending with an exit code that there is not")
    if not 0 <= fields["cpu_ms"] < 2**50 or not 0 <= fields["max_rss_bytes"] < 2**60:
        raise frames.FrameError("an ending that used more than there is")
    return Ending(**fields)
