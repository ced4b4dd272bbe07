"""The runs of a session, and what of its guest lasts between them: the process, its pipes, its channel.

A run ends with its program's result while the guest lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

from actbox.core.errors import ErrorKind
from actbox.core.limits import Limits
from actbox.core.result import Artifact, ExecutionResult

from .channel.link import Link
from .channel.messages import Call, Done
from .guest import wire
from .guest_process import GuestProcess
from .output_stream import Stream
from .requests import COLD_SECONDS, SOON, Request, encode_program
from .run_end import STATE_LOST, Ending, Stop, host_failed, verdict, with_hint
from .runs import Collector, Run
from .session_packages import InstallRequests, RunPackages, is_install_request

# How long an interrupted program may take to end, and a closed session to end by itself, before it is killed. A kernel
# that groups tasks by session may let a guest wait longer than a second for a processor where all are busy.
GRACE_SECONDS = 2.0
# How often the host checks whether the program to be interrupted has reached its guest.
_LOOK_AGAIN_SECONDS = 0.005
# Reasons to interrupt a program after which its guest can still be trusted.
_INTERRUPTING = frozenset({ErrorKind.TIMEOUT, ErrorKind.OUTPUT_LIMIT, ErrorKind.BUDGET, ErrorKind.CANCELLED})
_RELEASE = encode_program({"t": "release"})
_KEPT = "the variables of the session are still there"


class LiveGuest:
    """A session's guest, during and between runs. Between runs the host reads nothing from it; its output waits."""

    def __init__(self, process: GuestProcess, limits: Limits, left: Callable[[], None]) -> None:
        assert process.sock is not None
        self.process = process
        self.limits = limits
        self.streams = Stream(process.stdout, "stdout"), Stream(process.stderr, "stderr")
        self.link = Link(process.sock, limits.message_bytes, self._on_message, self._on_lost, paused=True)
        self.loop = asyncio.get_running_loop()
        self.run: SessionRun | None = None
        self.why_ended = ""
        self.ending: Ending | None = None
        self.number = 0
        """The number of the next run. Run 0 only prepares the guest."""
        self.interrupts = 0
        self.waits_since = time.monotonic()
        """The time at which the latest program has ended; infinite once the guest was told of the next."""
        self._left = left
        for stream in self.streams:
            os.set_blocking(stream.descriptor, False)
        self.waiter = asyncio.create_task(self._wait())

    def frame_of(self, message: dict[str, Any]) -> bytes:
        """Return the frame that has the guest run a program as its next run."""
        return encode_program({**message, "run": self.number, "interrupts": self.interrupts})

    def announce(self) -> None:
        """Tell a guest that has waited for some time that a program comes soon, once until the next has ended."""
        if time.monotonic() - self.waits_since >= COLD_SECONDS:
            self.waits_since = math.inf
            self.link.send(SOON)

    def release(self) -> None:
        """Let the guest go on after a fork."""
        self.link.send(_RELEASE)

    async def close(self) -> None:
        """End the guest: by force if a program runs, else as a script ends.

        Returns when its whole process tree has ended.
        """
        if self.run is not None:
            self.process.stopped = Stop(ErrorKind.CANCELLED, "the session was closed")
            self.process.kill()
        else:
            self.link.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.waiter), GRACE_SECONDS)
        finally:
            self.process.kill()
            self.process.let_go_of_overlays()
        await asyncio.shield(self.waiter)

    async def _wait(self) -> None:
        ending = self.ending = await _ending_of(self.process)
        await self.process.close_network()
        run, self.run = self.run, None
        if run is not None:
            run.on_ended(ending)
        stop = run.stop if run is not None else self.process.stopped
        _, error = verdict(stop, ending, None, self.limits)
        self.why_ended = error.message if error is not None else "a program ended it with exit code 0"
        for stream in self.streams:
            if stream.open:
                stream.open = False
                os.close(stream.descriptor)
        self.link.close()
        self._left()

    def _on_message(self, message: Call | Done, size: int, weight: int) -> None:
        if self.run is not None:
            self.run.on_message(message, size, weight)

    def _on_lost(self, error: wire.ProtocolError | OSError | None) -> None:
        if self.run is not None:
            self.run.on_lost(error)
        elif isinstance(error, OSError):  # it was not told to go on after a fork
            self.process.stopped = host_failed(error)
            self.process.kill()


async def _ending_of(guest: GuestProcess) -> Ending:
    """Return how a guest ended. If that cannot be found out, return an `Ending` whose `failure` gives the error."""
    try:
        return await guest.wait()
    except Exception as error:
        return Ending(failure=f"{type(error).__name__}: {error}")


class SessionRun(Run):
    """A run that ends when the guest reports its result. To end it early, the host interrupts the program first."""

    def over_live(
        self, guest: LiveGuest, request: Request, collect: Collector, descriptors: Sequence[int] = ()
    ) -> Self:
        """Return this run, which runs a request on a live guest for a block.

        It sends the guest copies of the descriptors and closes them here.
        """
        self.over(guest.process, request, collect)
        self._live = guest
        self._descriptors = descriptors
        self._number = guest.number
        self._streams = guest.streams
        self._interrupted = False
        self._interrupted_at: int | None = None
        self._packages = request.packages if isinstance(request.packages, RunPackages) else None
        self._installs: InstallRequests | None = None
        if self._packages is not None:
            most = request.limits.message_bytes
            self._installs = InstallRequests(self._packages, self._clock, most, self, request.taint)
        return self

    def _begin(self) -> None:
        frame, descriptors = self._request.frame, self._descriptors
        self._clock.start()
        self._live.run = self
        self._live.number += 1
        self._guest.hear_network(self._on_network)
        for stream in self._streams:
            stream.parts = []
        self._listen_later()
        self._link = self._live.link
        if descriptors:
            try:
                self._link.send_with(frame, descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        elif frame:
            self._link.send(frame)
        if self._live.ending is not None:  # the guest ended before this run began, so `_wait` will not report it
            self._live.run = None
            self.on_ended(self._live.ending)
        else:
            self._link.resume()

    def on_message(self, message: Call | Done, size: int, weight: int) -> None:
        """Handle a message from the guest; a request for packages is no tool call."""
        is_request = isinstance(message, Call) and is_install_request(message)
        if is_request and self._installs is not None and self._stop is None and self._done is None:
            assert isinstance(message, Call) and self._link is not None
            self._installs.start(message, self._link.answer)
        else:
            super().on_message(message, size, weight)

    def _conclude(self) -> None:
        if self._installs is not None:
            self._installs.cancel()
        super()._conclude()

    async def _close(self) -> None:
        """Interrupt an abandoned program and wait until the guest is ready for the next run, or has ended."""
        if not self._is_over:
            self._end(Stop(ErrorKind.CANCELLED, "the caller went away"))
        cancelled = False
        while not self._is_over:  # even if the caller is cancelled again: the wait takes at most the grace
            try:
                await self._until_over()
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    @property
    def stop(self) -> Stop | None:
        """The host's reason for ending the program, or `None`."""
        return self._stop or self._guest.stopped

    def _stop_program(self, why: ErrorKind) -> None:
        if why not in _INTERRUPTING:
            super()._stop_program(why)
        elif not self._interrupted and not self._is_over:
            self._interrupted = True
            self._timers.append(self._loop.call_later(GRACE_SECONDS, self._kill_stubborn))
            self._interrupt()

    def _kill_stubborn(self) -> None:
        self._guest.stopped = self._guest.stopped or self._stop
        self._guest.kill()

    def _interrupt(self) -> None:
        # Between two programs an interrupt does nothing. A guest that has called a tool must have read its program;
        # after that, unread data may be an answer, and a slow guest might have some at every check.
        if not self._tool_calls().count and self._link is not None and self._link.unheard:
            self._timers.append(self._loop.call_later(_LOOK_AGAIN_SECONDS, self._interrupt))
            return
        self._live.interrupts += 1
        self._guest.interrupt()

    def _on_done(self, done: Done) -> None:
        """Record the program's end; the guest then waits for the next program."""
        if self._stop is not None and done.error is not None:
            self._interrupted_at = done.error.line
        if self._stop is not None:
            for stream in self._streams:
                if stream.open:
                    self._read(stream)  # the last output of a stopped program; one read takes all that a pipe holds
        if self._guest.stopped is not None or (self._stop is not None and self._stop.kind is ErrorKind.SANDBOX):
            return  # the guest is being killed: it may have reported just before that, and its state is lost
        self._live.run = None
        self._live.waits_since = time.monotonic()
        self._guest.hear_network(None)
        self._live.link.pause()
        for stream in self._streams:
            stream.leave()
        self._conclude()

    def _result(self, artifacts: list[Artifact], warnings: list[str]) -> ExecutionResult:
        """Return the result, with `state_kept` and a hint on whether the session's variables still exist."""
        result = super()._result(artifacts, warnings)
        kept = self._ending is None
        error = result.error
        if (packages := self._packages) is not None:
            approval_ms = max(result.usage.approval_ms - packages.paused_ms, 0.0)
            usage = replace(result.usage, approval_ms=approval_ms)
            result = replace(result, usage=usage, warnings=(*result.warnings, *packages.warnings))
        if error is not None and (self._interrupted or not kept):
            error = with_hint(error, _KEPT if kept else STATE_LOST)
            error = replace(error, line=error.line or self._interrupted_at)
        return replace(result, error=error, state_kept=kept)
