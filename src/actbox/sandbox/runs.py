"""One run, seen from the host: from a guest that has started to `Completed`, for every engine alike.

An engine gives a `GuestProcess`; this module reads its output and its channel, answers its tool calls, watches the
host's own limits (wall time, output, tool calls) and says at the end what the run came to.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Literal, Self

from actbox.core.after_fork import Owner
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import ArtifactCreated, Completed, Event, NetworkRequest, Output
from actbox.core.limits import Limits
from actbox.core.result import Artifact, ExecutionResult, Usage
from actbox.tools import Toolset

from .channel.calls import ToolCalls
from .channel.link import Link
from .channel.messages import Call, Done
from .clock import WallClock
from .ending import Ending, Stop
from .guest import wire
from .guest.finish import EXIT_CHANNEL_LOST
from .guest_process import GuestProcess
from .nursery.passing import send_with
from .slots import Slots
from .stops import call_failed, out_of_budget, out_of_time, too_much_output
from .verdict import blame_refusal, verdict

_READ_BYTES = 1024 * 1024
_USUAL_PIPE_BYTES = 64 * 1024
_SET_PIPE_SIZE: int | None = getattr(fcntl, "F_SETPIPE_SZ", 1031 if sys.platform == "linux" else None)
SHORT_SECONDS = 0.003
"""Most programs that run for so short print a line or two; to be woken for each would take the processor from them."""
# How long a guest may live on after its channel is closed, before it is ended.
_GRACE_SECONDS = 0.5
# How long its pid 1 may take to say how it ended, on a machine that has much else to do.
_LONG_GRACE_SECONDS = 5.0
_HANDS_OFF = "do not touch descriptors other than those that the program opened itself"


Collector = Callable[[], Awaitable[tuple[list[Artifact], list[str]]]]


class Stream:
    """One of the guest's output pipes: decoded as it comes, and kept for the result."""

    def __init__(self, descriptor: int, name: Literal["stdout", "stderr"]) -> None:
        self.descriptor = descriptor
        self.name = name
        self.open = True
        self.listening = False
        self._wide = False
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.parts: list[str] = []

    def widen(self) -> None:
        """Let the guest write more at once: a pipe that was full is one through which much is to go."""
        if not self._wide and _SET_PIPE_SIZE is not None:
            self._wide = True
            with contextlib.suppress(OSError):  # this user has many pipes, and may have no more of that size
                fcntl.fcntl(self.descriptor, _SET_PIPE_SIZE, _READ_BYTES)

    @property
    def text(self) -> str:
        """What was read in this run."""
        return "".join(self.parts)


class Run:
    """One run of a guest. Use it as `async with`: however the block is left, the guest's process tree has ended or is
    about to, and its descriptors are closed. A session's run is a variant of it (`sessions.py`).

    A `command` takes the guest's place and so says nothing more on the channel. `program` is the source, of which an
    approver is shown a part. `collect` is called after the end, and returns the artifacts and warnings about those that
    were left out; `warnings` are what the result says ahead of these. Events are put into `queue` where one is given.
    The run has one of `slots`, which it lends to others while somebody is asked about a call.
    """

    def __init__(
        self,
        guest: GuestProcess,
        *,
        command: bool,
        engine: str,
        toolset: Toolset,
        program: str,
        limits: Limits,
        timeout: float,
        queue_ms: float,
        collect: Collector,
        queue: asyncio.Queue[Event | None] | None,
        warnings: Sequence[str] = (),
        slots: Slots | None = None,
    ) -> None:
        self._guest = guest
        self._owner = Owner()
        self._command = command
        self._number = 0
        self._engine = engine
        self._limits = limits
        self._timeout = min(timeout, limits.wall_seconds)
        self._queue_ms = queue_ms
        self._collect = collect
        self._queue = queue
        self._warnings = warnings
        self._loop = asyncio.get_running_loop()
        self._streams = streams_of(guest)
        self._output_left = limits.output_bytes
        self._link: Link | None = None
        self._done: Done | None = None
        self._stop: Stop | None = None
        self._ending: Ending | None = None
        self._was_deaf = False
        """Whether the guest was still there a while after its channel was closed."""
        self._timers: list[asyncio.TimerHandle] = []
        self._refused: NetworkRequest | None = None
        """What the policy refused last, or the proxy could not reach."""
        self._clock = WallClock(
            self._timeout,
            self._on_timeout,
            on_pause=None if slots is None else slots.lend,
            on_resume=None if slots is None else slots.take_back,
        )
        self._calls = ToolCalls(
            toolset,
            program,
            self._clock,
            limits.tool_calls,
            limits.tool_bytes,
            limits.message_bytes,
            self._emit,
            self._over_budget,
            self._failed,
        )
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._owner.is_here:
            await self._close()
        else:
            self._leave_to_parent()

    async def finish(self) -> ExecutionResult:
        """Wait for the end, and return what the run came to."""
        await asyncio.shield(self._over)  # which the end of the run sets, also when the caller has gone
        artifacts, warnings = await self._collect()
        result = self._result(artifacts, warnings)
        if self._guest.overlays is None:
            return result
        changes, left_out = await self._guest.overlays.collect_if_any()
        return replace(result, changes=changes, warnings=(*result.warnings, *left_out))

    def start(self, first_message: bytes) -> None:
        """Send the frame that says what to run, and begin to listen."""
        self._clock.start()
        for stream in self._streams:
            os.set_blocking(stream.descriptor, False)
        self._timers.append(self._loop.call_later(SHORT_SECONDS, self._listen))
        if self._guest.sock is not None:
            self._link = Link(self._guest.sock, self._limits.message_bytes, self.on_message, self.on_lost)
            self._calls.attach(self._link)
            self._link.send(self._send_with_stdin(first_message))
        self._guest.when_ended(self.on_ended)
        self._guest.hear_network(self._on_network)

    def _send_with_stdin(self, frame: bytes) -> bytes:
        """Send the beginning of a message with the descriptor that goes along, if any; return the rest of it."""
        stdin, self._guest.stdin = self._guest.stdin, -1
        if stdin < 0 or self._guest.sock is None:
            return frame
        try:
            return frame[send_with(self._guest.sock, frame, [stdin]) :]
        except OSError:  # the guest is gone, which is noticed elsewhere
            return frame
        finally:
            os.close(stdin)

    def _leave_to_parent(self) -> None:
        """In a forked child: neither end the guest, which is the parent's, nor wait for an end that only that hears of.

        Its descriptors stay as they are, since the event loop of the child listens to them with the parent's means.
        """
        self._cancel_timers()
        self._calls.cancel()

    async def _close(self) -> None:
        """Leave nothing behind; also when the run was abandoned halfway."""
        self._cancel_timers()
        self._calls.cancel()
        if self._ending is None:
            self._guest.kill()
        try:
            if self._ending is None:
                # Shielded: a caller that is cancelled twice must not leave the guest's last moments unwatched.
                await asyncio.shield(self._over)
        finally:
            for stream in self._streams:
                self._close_stream(stream)
            if self._link is not None:
                self._link.close()
            elif self._guest.sock is not None:
                self._guest.sock.close()
            self._guest.let_go_of_overlays()
            await self._guest.close_network()
            self._guest.hear_network(None)

    # What happens while it runs

    def _listen(self) -> None:
        """Read output as it comes, from now on: a run that is over sooner has it read at its end."""
        for stream in self._streams:
            if stream.open:
                stream.listening = True
                self._loop.add_reader(stream.descriptor, self._read, stream)

    def on_ended(self, ending: Ending) -> None:
        """Take in the last that the guest, of which nothing is left, has said."""
        if self._ending is not None:  # the run was over before its guest was
            return
        if self._link is not None and self._stop is None:  # else nothing of it would count
            self._link.drain(lambda: self._finish(ending))
        else:
            self._finish(ending)

    def _finish(self, ending: Ending) -> None:
        """The run is over, with what is known now of its guest."""
        if self._ending is not None:
            return
        self._ending = ending
        for stream in self._streams:
            self._read_all(stream)
        if self._guest.explain is not None:
            self._ending = self._guest.explain(ending, self._streams[1].text)
        self._conclude()

    def _conclude(self) -> None:
        self._cancel_timers()  # a consumer that is slow to read the end must not change it
        self._calls.cancel()
        if not self._over.done():
            self._over.set_result(None)
        if self._queue is not None:
            self._queue.put_nowait(None)

    def _on_network(self, request: NetworkRequest) -> None:
        if request.decision == "refused" or request.status >= HTTPStatus.BAD_GATEWAY:
            self._refused = request
        self._emit(request)

    def _emit(self, event: Event) -> None:
        if self._queue is not None:
            self._queue.put_nowait(event)

    def _cancel_timers(self) -> None:
        self._clock.stop()
        for timer in self._timers:
            timer.cancel()

    def _end(self, stop: Stop) -> None:
        """End the program for a reason, once what it has printed is read; the first reason is the one that counts."""
        for stream in self._streams:
            self._read_now(stream)
        self._stop_for(stop)

    def _stop_for(self, stop: Stop) -> None:
        # Too much output is found out when it is read, which may be after the program has said that it is done.
        if self._stop is None and (self._done is None or stop.kind is ErrorKind.OUTPUT_LIMIT):
            self._stop = stop
            self._clock.stop()
            self._calls.withdraw()
        self._stop_program(stop.kind)

    def _stop_program(self, why: ErrorKind) -> None:
        self._calls.cancel()  # the last that it has asked for may lie in the channel still, and is not done any more
        self._guest.kill()

    def _read(self, stream: Stream) -> bool:
        """Read once; return whether there was anything."""
        try:
            data = os.read(stream.descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close_stream(stream)
            return False
        if len(data) >= _USUAL_PIPE_BYTES:
            stream.widen()
        if len(data) > self._output_left:
            data = data[: self._output_left]
            self._stop_for(too_much_output(self._limits))
        self._output_left -= len(data)
        if data:
            self._say(stream, stream.decoder.decode(data))
        return True

    def _read_now(self, stream: Stream) -> None:
        """Read all that is there already, but no more once there is too much."""
        while stream.open and self._stop is None and self._read(stream):
            pass

    def _read_all(self, stream: Stream) -> None:
        self._read_now(stream)
        if stream.open:
            self._close_stream(stream)

    def _say(self, stream: Stream, text: str) -> None:
        if text:
            stream.parts.append(text)
            if self._queue is not None:
                self._queue.put_nowait(Output(stream.name, text))

    def _close_stream(self, stream: Stream) -> None:
        if stream.open:
            stream.open = False
            if stream.listening:
                self._loop.remove_reader(stream.descriptor)
            os.close(stream.descriptor)
            self._say(stream, stream.decoder.decode(b"", final=True))

    def on_message(self, message: Call | Done, size: int, weight: int) -> None:
        """Take in a message of the guest's, which had `size` bytes, and may take `weight` bytes of memory."""
        if self._stop is not None and self._stop.kind is ErrorKind.PROTOCOL:
            return  # it came together with nonsense
        for stream in self._streams:  # what was printed before the message comes before it
            self._read_now(stream)
        try:
            if self._done is not None:
                raise wire.ProtocolError("a message after the result")
            if isinstance(message, Call):
                self._calls.start(message, size, weight)
                return
            if message.run != self._number:
                raise wire.ProtocolError("the result of another run")
        except wire.ProtocolError as error:
            self.on_lost(error)
            return
        if self._stop is None:
            self._done = message
            self._clock.stop()
        self._on_done(message)

    def _on_done(self, done: Done) -> None:
        """The guest has sent its result, which counts unless the host had stopped the program before."""
        alone = self._stop is None and done.alone
        reached = self._guest.limit_reached() if alone and done.error is not None else ""
        if alone and self._guest.dismiss(done.cpu_ms):
            self._finish(Ending(limit=reached))
        else:
            self._timers.append(self._loop.call_later(self._guest.grace_seconds, self._guest.kill))

    def on_lost(self, error: wire.ProtocolError | None) -> None:
        """Take in that the channel is closed, or was abused."""
        if error is not None:
            self._end(Stop(ErrorKind.PROTOCOL, f"the guest broke the rules of the channel: {error}", hint=_HANDS_OFF))
        elif self._done is None and not self._command:
            # The process may just be ending, which closes its descriptors first.
            self._timers.append(self._loop.call_later(_GRACE_SECONDS, self._end_deaf_guest))

    def _end_deaf_guest(self) -> None:
        self._was_deaf = True
        self._guest.end_first()
        self._timers.append(self._loop.call_later(_LONG_GRACE_SECONDS, self._guest.kill))

    def _on_timeout(self) -> None:
        self._end(out_of_time(self._timeout))

    def _over_budget(self, limit: str) -> None:
        self._end(out_of_budget(limit, self._limits))

    def _failed(self, error: BaseException) -> None:
        self._end(call_failed(error))

    # What it came to

    def _result(self, artifacts: list[Artifact], warnings: list[str]) -> ExecutionResult:
        ending, done = self._ending or Ending(), self._done
        if self._stop is None and done is None:
            self._stop = self._guest.stopped
        # One that the kernel ends for want of memory may take long to give back what it had.
        was_ended_by_us = ending.signal == signal.SIGKILL and not ending.limit
        if self._stop is None and done is None and self._was_deaf and was_ended_by_us:
            why = "the guest closed its channel to the host and went on"
            self._stop = Stop(ErrorKind.PROTOCOL, why, hint=_HANDS_OFF)
        if done is None and not self._command and ending.exit_code == EXIT_CHANNEL_LOST and self._stop is None:
            self._stop = Stop(ErrorKind.PROTOCOL, "the guest lost its channel to the host, and with it the result")
        exit_code, error = verdict(self._stop, ending, done, self._limits)
        if error is not None and self._refused is not None:
            error = blame_refusal(error, self._refused)
        stdout, stderr = self._streams
        succeeded = done is not None and error is None
        return ExecutionResult(
            stdout=stdout.text,
            stderr=stderr.text,
            exit_code=exit_code,
            value=done.value if done and succeeded else None,
            value_text=done.value_text if done and succeeded else None,
            value_forms=done.forms if done and succeeded else {},
            error=error,
            artifacts=tuple(artifacts),
            warnings=(*self._warnings, *warnings),
            usage=Usage(
                wall_ms=round(self._clock.ran_ms, 3),
                cpu_ms=round(ending.cpu_ms or (done.cpu_ms if done else 0.0), 3),
                max_rss_bytes=ending.max_rss_bytes or (done.max_rss_bytes if done else 0),
                tool_calls=self._calls.count,
                queue_ms=round(self._queue_ms, 3),
                approval_ms=round(self._clock.stood_still_ms, 3),
            ),
            sandbox=self._engine,
        )


def streams_of(guest: GuestProcess) -> tuple[Stream, Stream]:
    """Return the guest's standard output and its standard error."""
    return Stream(guest.stdout, "stdout"), Stream(guest.stderr, "stderr")


async def ending_of(guest: GuestProcess) -> Ending:
    """Return how a guest ended; that this cannot be found out is such an ending too."""
    try:
        return await guest.wait()
    except Exception as error:
        return Ending(failure=f"{type(error).__name__}: {error}")


async def events_of(
    begin: Callable[[asyncio.Queue[Event | None]], contextlib.AbstractAsyncContextManager[Run | ExecutionResult]],
) -> AsyncGenerator[Event]:
    """Yield what happens in the run that is begun with a queue, and, once nothing of it is left, what it came to."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    async with begin(queue) as run:
        if isinstance(run, ExecutionResult):
            result = run
        else:
            while (event := await queue.get()) is not None:
                yield event
            result = await run.finish()
    while not queue.empty():  # what was told while the last connections were closed
        if (event := queue.get_nowait()) is not None:
            yield event
    for artifact in result.artifacts:
        yield ArtifactCreated(artifact)
    yield Completed(result)


def failed_result(engine: str, message: str, hint: str = "") -> ExecutionResult:
    """Return the result of a run that the sandbox itself could not begin."""
    error = ErrorInfo(kind=ErrorKind.SANDBOX, message=message, hint=hint)
    return ExecutionResult(exit_code=125, error=error, sandbox=engine)
