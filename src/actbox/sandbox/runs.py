"""One run as the host sees it, for every engine: from a started guest to the `Completed` event.

An engine supplies a `GuestProcess`. This module reads its output and its channel, answers its tool calls, enforces the
host's own limits (wall time, output, tool calls) and builds the result at the end.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from encodings.utf_8 import IncrementalDecoder
from typing import Any, Self

from actbox.core import after_fork
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import ArtifactCreated, Completed, Event, NetworkRequest, Output
from actbox.core.labels import PUBLIC, Label
from actbox.core.result import Artifact, ExecutionResult, Usage

from . import reading
from .channel.calls import ToolCalls
from .channel.link import Link
from .channel.messages import Call, Done
from .guest import wire
from .guest_process import GuestProcess
from .nursery.passing import send_with
from .output_stream import MOST_PARTS, MOST_READ_BYTES, Stream
from .requests import Request
from .run_end import (
    Ending,
    Stop,
    blame_refusal,
    call_failed,
    host_failed,
    lost_value,
    out_of_budget,
    out_of_time,
    too_much_output,
    verdict,
)
from .run_slots import slots
from .taint import LabelRefused
from .wall_clock import WallClock

_USUAL_PIPE_BYTES = 64 * 1024
_MOST_UNREAD_BYTES = 4 * MOST_READ_BYTES
"""The most bytes of output that are not counted yet: those that both pipes hold, enlarged, and as many being read."""
SHORT_SECONDS = 0.003
"""Most programs this short print a line or two; waking the host for each line would take processor time from them.

A run has no timer for its end before that.
"""
# The next run's guest is prepared when a run ends, or after this many seconds, whichever is first.
_PREPARE_SECONDS = 0.01
# How long a guest may live on after its channel is closed, before it is killed.
_GRACE_SECONDS = 0.5
# HTTP statuses from this one on mean that a proxy, ours or another, could not reach the server.
_BAD_GATEWAY = 502
# How long the guest's pid 1 may take to report how it ended, on a busy machine.
_LONG_GRACE_SECONDS = 5.0
_MOST_GUESTS = 3
"""The most guests that one run gets, each after one that was killed before it knew of the run."""
_WITHOUT_LABEL = "do without that data here, or without the mount that is written to"
_HANDS_OFF = "do not touch descriptors other than those that the program opened itself"

Collector = Callable[[], Awaitable[tuple[list[Artifact], list[str]]]]


class Run:
    """One run of a guest. Call `finish` or `events` once to run it. `session_runs.py` has a subclass for sessions.

    `opening` is the sandbox's context manager: inside it the run has a guest (`over`) and it yields `None`, or it
    yields a failed result instead. However the block is left, the guest's process tree has ended or is about to.
    """

    def __init__(self, opening: Callable[[Any], AbstractAsyncContextManager[ExecutionResult | None]]) -> None:
        self._opening = opening
        self._asked_at = 0.0
        self._queue: asyncio.Queue[Event | None] | None = None
        self._guests = 0
        """How many guests the run has had."""
        self.requests = 0
        """How many requests the program has made to the network, and been allowed."""
        self._sent_bytes = self._received_bytes = 0

    async def finish(self) -> ExecutionResult:
        """Run the request and return its result."""
        self._asked_at = time.perf_counter()
        async with self._opening(self) as failed:
            result = await self.came_to() if failed is None else failed
        return self._with_traffic(result)

    async def events(self) -> AsyncGenerator[Event]:
        """Run the request; yield its events and, once none of its processes is left, `Completed` with the result."""
        self._asked_at = time.perf_counter()
        queue = self._queue = asyncio.Queue()
        async with self._opening(self) as failed:
            if failed is None:
                while (event := await queue.get()) is not None or await self._begins_again():
                    if event is not None:
                        yield event
                result = await self.came_to()
            else:
                result = failed
        while not queue.empty():  # events of connections that were closed last
            if (event := queue.get_nowait()) is not None:
                yield event
        for artifact in result.artifacts:
            yield ArtifactCreated(artifact)
        yield Completed(self._with_traffic(result))

    def queues_from_now(self) -> None:
        """Restart the measurement of the queue time, so that earlier work, such as placing files, does not count."""
        self._asked_at = time.perf_counter()

    def over(
        self,
        guest: GuestProcess,
        request: Request,
        collect: Collector,
        prepare_next: Callable[[], object] | None = None,
        another: Callable[[], Awaitable[GuestProcess | Stop]] | None = None,
    ) -> Self:
        """Return this run, which runs the request on a guest for a block: `async with run.over(…)`.

        At the block's end the guest has ended, or is about to, and its descriptors are closed.

        `collect` is called after the end; it returns the artifacts and warnings about those that were left out.
        `prepare_next` is called if the run takes long, so that the next one need not wait.
        `another` returns a guest in place of one that was killed before it knew of the run, or why there is none.
        """
        limits = request.limits
        self._guest = guest
        self._guests += 1
        self._another = another
        self._has_not_begun = False
        """True if somebody else killed the guest before it had read the whole message that says what to run."""
        self._process = after_fork.process
        self._number = 0
        self._request = request
        self._limits = limits
        self._queue_ms = (time.perf_counter() - self._asked_at) * 1000
        self._collect = collect
        self._prepare_next = prepare_next
        self._loop = asyncio.get_running_loop()
        self._streams = Stream(guest.stdout, "stdout"), Stream(guest.stderr, "stderr")
        self._output_left = limits.output_bytes
        self._link: Link | None = None
        self._done: Done | None = None
        self._stop: Stop | None = None
        self._ending: Ending | None = None
        self._was_deaf = False
        """True if the guest was still alive some time after its channel was closed."""
        self._timers: list[asyncio.TimerHandle] = []
        self._refused: NetworkRequest | None = None
        """The last request that the policy refused or the proxy could not complete."""
        self._clock = WallClock(
            request.wall.seconds,  # starting a session may take longer than a program
            self._on_timeout,
            on_pause=lambda: slots().lend(),
            on_resume=lambda: slots().take_back(),
            on_overdue=self._on_overdue,
        )
        self._calls: ToolCalls | None = None
        self._context = contextvars.copy_context()
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        return self

    async def __aenter__(self) -> None:
        try:
            self._begin()
        except BaseException:
            await self._close()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        if after_fork.process is self._process:
            await self._close()
        else:
            self._leave_to_parent()

    async def came_to(self) -> ExecutionResult:
        """Wait for the end of the run and return its result."""
        await self._until_over()
        while self._has_not_begun and await self._begins_again():
            await self._until_over()
        try:
            artifacts, warnings = await self._collect()
        except (OSError, RuntimeError) as error:  # the latter where no thread can be started
            artifacts, warnings = [], [f"output/ was not collected: {reason_of(error)}"]
        result = self._result(artifacts, warnings)
        label = PUBLIC if self._request.taint is None else self._request.taint.label
        if label is not PUBLIC and label != PUBLIC:
            result = self._labelled(result, label)
        if self._guest.overlays is None:
            return result
        try:
            changes, left_out = await self._guest.overlays.collect_if_any()
        except (OSError, RuntimeError) as error:
            changes, left_out = (), [f"changes of overlay mounts were not collected: {reason_of(error)}"]
        return replace(result, changes=changes, warnings=(*result.warnings, *left_out))

    async def _begins_again(self) -> bool:
        """Begin again, with another guest, if nothing of the run can have begun; return whether that is so."""
        if self._another is None or not self._has_not_begun or self._guests >= _MOST_GUESTS:
            return False
        await self._close()
        another = await self._another()
        if isinstance(another, Stop):
            self._stop = another
            return False
        self.over(another, self._request, self._collect, self._prepare_next, self._another)
        self._begin()
        return True

    def _until_over(self) -> asyncio.Future[None]:
        """Return a future to await the end of the run, which ends all the same if the future is cancelled."""
        self._waiter = self._loop.create_future()
        if self._is_over:
            self._waiter.set_result(None)
        return self._waiter

    def _begin(self) -> None:
        """Send the frame that says what to run, and start listening. A failure here becomes the run's result."""
        guest, frame = self._guest, self._request.frame
        guest.when_ended(self.on_ended)  # first, so that the end is noticed whatever fails here
        self._clock.start()
        try:
            for stream in self._streams:
                os.set_blocking(stream.descriptor, False)
            if guest.sock is not None:
                self._link = Link(guest.sock, self._limits.message_bytes, self.on_message, self.on_lost)
                self._link.send(frame if guest.stdin < 0 else self._send_with_stdin(frame))
        except OSError as error:
            self._stop_for(host_failed(error))
        self._listen_later()  # the guest wakes up meanwhile
        guest.hear_network(self._on_network)

    def _send_with_stdin(self, frame: bytes) -> bytes:
        """Send the start of a message together with the descriptor of standard input; return the rest of the message.

        Raises `OSError` where the descriptor cannot be sent.
        """
        stdin, self._guest.stdin = self._guest.stdin, -1
        assert self._guest.sock is not None
        try:
            return frame[send_with(self._guest.sock, frame, [stdin]) :]
        except ConnectionError:  # the guest has ended, which `on_ended` reports
            return frame
        finally:
            os.close(stdin)

    def _leave_to_parent(self) -> None:
        """In a forked child, cancel the timers and tool calls; the guest belongs to the parent.

        The child neither kills the guest nor waits for its end, of which only the parent is told. The descriptors stay
        open, because the child's event loop shares its listening mechanism with the parent.
        """
        self._cancel_timers()
        if self._calls is not None:
            self._calls.cancel()

    async def _close(self) -> None:
        """Kill the guest if it still runs, wait for its end, and close all descriptors and timers."""
        try:
            if self._ending is None:
                self._cancel_timers()
                self._tool_calls().cancel()
                self._guest.kill()
                await self._until_over()
        finally:
            for stream in self._streams:
                if stream.open:  # the caller was cancelled again
                    self._close_stream(stream)
            if self._link is not None and not self._is_over:
                self._link.close()
            if self._link is None and self._guest.sock is not None:
                self._guest.sock.close()
            if self._guest.stdin >= 0:  # the descriptor was never sent
                os.close(self._guest.stdin)
                self._guest.stdin = -1
            for timer in self._timers:  # such as one that was set when the channel was closed
                timer.cancel()
            if self._guest.overlays is not None:
                self._guest.overlays.close()
            try:
                await self._guest.close_network()
            finally:
                self._guest.on_network = None
                self._guest.released()

    # While the run is under way

    def _listen_later(self) -> None:
        """Call `_listen` if the run takes longer than most; or once its time is over, if that is earlier."""
        seconds = min(SHORT_SECONDS, self._request.wall.seconds)
        self._timers.append(self._loop.call_later(seconds, self._listen))

    def _listen(self) -> None:
        """Set the timers of a longer run, and read its output as it arrives: a shorter run's is read at its end."""
        self._clock.set_timer()
        if self._prepare_next is not None:
            self._timers.append(self._loop.call_later(_PREPARE_SECONDS - SHORT_SECONDS, self._prepare_next))
        for stream in self._streams:
            if stream.open:
                stream.listen(self._loop, self._read)

    def on_ended(self, ending: Ending) -> None:
        """Finish the run after its guest's process tree has ended, once the rest of the channel is read."""
        if self._ending is not None:  # the run was over before its guest ended
            return
        self._tool_calls().withdraw()  # answers that arrive while the rest is read must start nothing new
        if self._link is not None and self._stop is None:  # after a stop the guest's result would not count
            try:
                self._link.drain(lambda: self._finish(ending))
            except OSError as error:
                self._stop = host_failed(error)
                self._finish(ending)
        else:
            self._finish(ending)

    def _finish(self, ending: Ending, *, has_read: bool = False) -> None:
        """Record the guest's end, read the rest of its output unless that was just done, and mark the run as over."""
        if self._ending is not None:
            return
        self._ending = ending
        if ending.signal == signal.SIGKILL and self._stop is None and self._guest.stopped is None:
            self._has_not_begun = self._link is not None and self._link.is_unread
        try:
            if not has_read:
                self._read_output()
        finally:
            for stream in self._streams:
                if stream.open:
                    self._close_stream(stream)
            if self._link is not None:
                self._link.close()  # nothing that the guest may still send counts
            self._conclude()
        if self._guest.explain is not None:
            self._ending = self._guest.explain(ending, self._streams[1].text)

    def _conclude(self) -> None:
        self._cancel_timers()  # a consumer that reads the end slowly must not change the result
        if self._calls is not None:
            self._calls.cancel()
        self._is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._queue is not None:
            self._queue.put_nowait(None)

    def _with_traffic(self, result: ExecutionResult) -> ExecutionResult:
        """Return the result with the bytes of its requests, once all connections are closed."""
        if not (self._sent_bytes or self._received_bytes):
            return result
        usage = replace(result.usage, sent_bytes=self._sent_bytes, received_bytes=self._received_bytes)
        return replace(result, usage=usage)

    def _on_network(self, request: NetworkRequest) -> None:
        self._sent_bytes += request.sent_bytes
        self._received_bytes += request.received_bytes
        self.requests += request.decision == "allowed"
        if request.decision == "refused" or request.status >= _BAD_GATEWAY:
            self._refused = request
        self.tell(request)

    def _tool_calls(self) -> ToolCalls:
        """Return the answering of the program's tool calls, which most programs need not have."""
        if self._calls is None:
            request = self._request
            code = request.program.code if request.program else ""
            self._calls = ToolCalls(
                request.toolset, code, self._clock, self._limits, self, self._link, self._context, request.taint
            )
        return self._calls

    @property
    def is_heard(self) -> bool:
        """True if somebody receives the run's events."""
        return self._queue is not None

    @property
    def is_output_first(self) -> bool:
        """True unless it makes no difference to a call whether the output printed before it was read: nobody receives
        events, and the pipes cannot hold more than what the program may still print.
        """
        return self._queue is not None or self._output_left < _MOST_UNREAD_BYTES

    def tell(self, event: Event) -> None:
        """Queue an event for the caller of `events`, if there is one."""
        if self._queue is not None:
            self._queue.put_nowait(event)

    def _cancel_timers(self) -> None:
        self._clock.end()
        for timer in self._timers:
            timer.cancel()

    def _end(self, stop: Stop) -> None:
        """Read the program's output so far, then stop it for a reason; only the first reason counts."""
        self._read_output()
        self._stop_for(stop)

    def _stop_for(self, stop: Stop) -> None:
        # Too much or unreadable output still counts after the program has sent its result.
        if self._stop is None and (self._done is None or stop.kind in (ErrorKind.OUTPUT_LIMIT, ErrorKind.SANDBOX)):
            self._stop = stop
            self._clock.stop()
            self._tool_calls().withdraw()
        self._stop_program(stop.kind)

    def _stop_program(self, why: ErrorKind) -> None:
        self._tool_calls().cancel()  # its last request may still lie in the channel, and is dropped
        self._guest.kill()

    def _read(self, stream: Stream) -> int:
        """Read once from a stream; return the number of bytes that count."""
        try:
            data = reading.read(stream.descriptor)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._stop_for(host_failed(error))
            data = b""
        if not data:
            self._close_stream(stream)
            return 0
        if len(data) >= _USUAL_PIPE_BYTES:
            stream.widen()
        if len(data) > self._output_left:
            data = data[: self._output_left]
            self._stop_for(too_much_output(self._limits))
        self._output_left -= len(data)
        self._say(stream, data)
        return len(data)

    def _read_output(self) -> None:
        """Read all output that the pipes hold now, unless it is too much; a guest that prints meanwhile waits."""
        for stream in self._streams:
            parts, left = MOST_PARTS, MOST_READ_BYTES
            while parts and left > 0 and stream.open and self._stop is None and (count := self._read(stream)):
                parts, left = parts - 1, left - count

    def _say(self, stream: Stream, data: bytes, *, is_last: bool = False) -> None:
        stream.decoder = stream.decoder or IncrementalDecoder("replace")
        if text := stream.decoder.decode(data, is_last):
            stream.parts.append(text)
            if self._queue is not None:
                self._queue.put_nowait(Output(stream.name, text))

    def _close_stream(self, stream: Stream) -> None:
        stream.open = False
        if stream.stop_listening is not None:
            stream.leave()
        os.close(stream.descriptor)
        if stream.decoder is not None and stream.decoder.buffer:  # the last character is not whole
            self._say(stream, b"", is_last=True)

    def on_message(self, message: Call | Done, size: int, weight: int) -> None:
        """Handle a message from the guest of `size` bytes, which may take `weight` bytes of memory once decoded."""
        if self._stop is not None and self._stop.kind is ErrorKind.PROTOCOL:
            return  # it arrived together with an invalid message
        if not isinstance(message, Call) or self.is_output_first:
            self._read_output()  # output printed before the message comes before it
        try:
            if self._done is not None:
                raise wire.ProtocolError("a message after the result")
            if isinstance(message, Call):
                (self._calls or self._tool_calls()).start(message, size, weight)
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
        """Handle the guest's result, which counts unless the host stopped the program before it arrived."""
        alone = self._stop is None and done.alone
        reached = self._guest.limit_reached() if alone and done.error is not None else ""
        if alone and self._guest.dismiss(done.cpu_ms):
            self._finish(Ending(limit=reached), has_read=True)
        else:
            self._timers.append(self._loop.call_later(self._guest.grace_seconds, self._guest.kill))

    def on_lost(self, error: wire.ProtocolError | OSError | None) -> None:
        """Handle the end of the channel: closed, abused, or no longer served for an error of the host's."""
        if isinstance(error, OSError):
            self._end(host_failed(error))
        elif error is not None:
            self._end(Stop(ErrorKind.PROTOCOL, f"the guest broke the rules of the channel: {error}", hint=_HANDS_OFF))
        elif self._done is None and self._request.program is not None:
            self._guest.lost_channel()
            # The process may just be ending, in which case its descriptors close first.
            self._timers.append(self._loop.call_later(_GRACE_SECONDS, self._end_deaf_guest))

    def _end_deaf_guest(self) -> None:
        self._was_deaf = True
        self._guest.end_first()
        self._timers.append(self._loop.call_later(_LONG_GRACE_SECONDS, self._guest.kill))

    def _on_timeout(self) -> None:
        self._end(out_of_time(self._request.wall.seconds))

    def _on_overdue(self) -> None:
        """In the watchdog's thread, kill a guest whose time is up; the event loop seems blocked and did not do so."""
        if self._guest.stopped is None:
            self._guest.stopped = out_of_time(self._request.wall.seconds)
        self._guest.kill_from_thread()

    def over_budget(self, limit: str) -> None:
        """End the run because it used up its tool calls, or the bytes of their arguments and results."""
        self._end(out_of_budget(limit, self._limits))

    def failed(self, error: BaseException) -> None:
        """End the run because a tool call could not be answered, by a fault of ours or for a label."""
        if isinstance(error, LabelRefused):
            self._end(Stop(ErrorKind.POLICY, str(error), hint=_WITHOUT_LABEL))
        else:
            self._end(call_failed(error))

    # The result

    def _result(self, artifacts: list[Artifact], warnings: list[str]) -> ExecutionResult:
        ending, done, request = self._ending or Ending(), self._done, self._request
        if self._stop is None and done is None:
            self._stop = self._guest.stopped
        # A guest that the kernel kills for lack of memory may take long to free it.
        was_ended_by_us = ending.signal == signal.SIGKILL and not ending.limit
        if self._stop is None and done is None and self._was_deaf and was_ended_by_us:
            why = "the guest closed its channel to the host and went on"
            self._stop = Stop(ErrorKind.PROTOCOL, why, hint=_HANDS_OFF)
        if (
            done is None
            and request.program is not None
            and ending.exit_code == wire.EXIT_CHANNEL_LOST
            and self._stop is None
        ):
            self._stop = Stop(ErrorKind.PROTOCOL, "the guest lost its channel to the host, and with it the result")
        exit_code, error = verdict(self._stop, ending, done, self._limits)
        if error is not None and self._refused is not None:
            error = blame_refusal(error, self._refused)
        stdout, stderr = self._streams
        succeeded = done is not None and error is None
        lost = lost_value(done.lost) if done and succeeded and done.lost else ()
        return ExecutionResult(
            stdout="".join(stdout.parts),
            stderr="".join(stderr.parts),
            exit_code=exit_code,
            value=done.value if done and succeeded else None,
            value_text=done.value_text if done and succeeded else None,
            value_forms=done.forms if done and succeeded else {},
            error=error,
            artifacts=tuple(artifacts),
            warnings=(*request.warnings, *request.wall.warnings, *lost, *warnings),
            usage=Usage(
                wall_ms=round(self._clock.ran_ms, 3),
                cpu_ms=round(ending.cpu_ms or (done.cpu_ms if done else 0.0), 3),
                max_rss_bytes=ending.max_rss_bytes or (done.max_rss_bytes if done else 0),
                tool_calls=0 if self._calls is None else self._calls.count,
                queue_ms=round(self._queue_ms, 3),
                approval_ms=round(self._clock.stood_still_ms, 3),
                install_ms=round(request.packages.install_ms, 3),
            ),
            sandbox=request.engine,
            code=request.program.code if request.program else None,
            language=request.program.language if request.program else None,
            environment=request.packages.environment,
            distributions=request.packages.distributions,
        )

    def _labelled(self, result: ExecutionResult, label: Label) -> ExecutionResult:
        """Return a result with a label above `public`, and its files with what the program claims of them."""
        claims = {} if self._calls is None else self._calls.claims
        files = tuple(replace(file, label=label, claimed=claims.get(file.name)) for file in result.artifacts)
        return replace(result, label=label, artifacts=files)


def reason_of(error: Exception) -> str:
    """Return an error's message; for an `OSError` only the text of its errno, without a path of the host."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def failed_result(engine: str, message: str, hint: str = "") -> ExecutionResult:
    """Return the result of a run that the sandbox could not begin."""
    error = ErrorInfo(kind=ErrorKind.SANDBOX, message=message, hint=hint)
    return ExecutionResult(exit_code=125, error=error, sandbox=engine)
