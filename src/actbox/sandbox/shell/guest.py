"""A guest behind a shell, as runs know one: its output, its channel and its end come from the responses to a request.

The request gets all its input at the start, because a shell accepts none later. Later messages for the guest, the
answers to tool calls, reach it through a mailbox (`channel/mailbox.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from actbox.core.errors import ErrorKind
from actbox.core.limits import Limits
from actbox.core.result import Artifact
from actbox.sandbox.artifacts import printable, shown
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.channel.mailbox import Carrier, Mailbox
from actbox.sandbox.guest.wire import ProtocolError
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.readiness import when_writable
from actbox.sandbox.run_end import Ending, Stop

from .requests import as_object
from .responses import ShellError

Responses = AsyncGenerator[tuple[str, bytes]]

_MOST_OF_A_REASON = 1000
_MOST_DIGITS = 15
# The most seconds that a program's output may arrive after its result, which came through the mailbox.
_OUTPUT_SECONDS = 60.0
BYTES_A_SECOND = 64 * 1024
"""The slowest shell that is accepted, in bytes a second: transfers of much data get more time."""
_MOST_WARNINGS = 110
_MOST_OF_A_WARNING = 1000
_MOST_OF_A_REPLY = 2**20


class ShellGuest(GuestProcess):
    """A guest that a request to the shell runs.

    `begin` sends the request; `clean_up` sends another one if the first was ended early.

    A run without tools needs no `mailbox`. A cleanup may take `cleanup_seconds`, plus the time to transfer
    artifacts.
    """

    # The result may come through the mailbox, long before the shell reports the end.
    grace_seconds = 5.0

    def __init__(
        self,
        begin: Callable[[], Responses],
        clean_up: Callable[[], Responses],
        limits: Limits,
        mailbox: Mailbox | None = None,
        *,
        cleanup_seconds: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._limits = limits
        self._cleanup_seconds = cleanup_seconds
        self._collector = ArtifactCollector(limits)
        self._ending: Ending | None = None
        self._when_ended: list[Callable[[Ending], None]] = []
        self._begun: asyncio.Future[None] = loop.create_future()
        with contextlib.ExitStack() as opened:
            self.sock, self._channel = socket.socketpair()
            opened.callback(self._channel.close)
            opened.callback(self.sock.close)
            self._channel.setblocking(False)
            self.stdout, self._stdout = os.pipe()
            self.stderr, self._stderr = os.pipe()
            opened.pop_all()
        for descriptor in (self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._position = 0
        """The position in the program's channel data that the responses have reached."""
        self._mailbox_failed = ""
        if mailbox is not None and mailbox.brings_calls:
            self.grace_seconds = _OUTPUT_SECONDS
        self._carrier = None if mailbox is None else Carrier(mailbox, self._channel)
        self._carrying = None if self._carrier is None else loop.create_task(self._carrier.run())
        if self._carrying is not None:
            self._carrying.add_done_callback(self._on_carried)
        self._request = loop.create_task(self._receive(begin))
        self._life = loop.create_task(self._live(clean_up))

    @property
    def ended(self) -> bool:
        return self._ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        if self._ending is None:
            self._when_ended.append(call)
        else:
            asyncio.get_running_loop().call_soon(call, self._ending)

    def interrupt(self) -> None:
        self.kill()

    def kill(self) -> None:
        if self._ending is None:
            _cancel_once(self._request)

    def kill_from_thread(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and the request over
            self._request.get_loop().call_soon_threadsafe(self.kill)

    async def begun(self, seconds: float) -> Ending | None:
        """Wait until the program has started; return its ending if it never did, or not in time, else `None`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._begun)
        if self._begun.done():
            return self._ending
        self.kill()
        await self.wait()
        return Ending(failure=f"the shell has not begun to run the program after {seconds:.0f} seconds")

    async def collected(self) -> tuple[list[Artifact], list[str]]:
        """Return the artifacts, and one sentence for each omission, once the request is over."""
        await asyncio.shield(self._life)
        return await run_blocking(self._collector.result)

    async def over(self) -> None:
        """End the request, even while it returns artifacts, and wait until nothing of it is left."""
        _cancel_once(self._request)
        await asyncio.shield(self._life)

    async def _live(self, clean_up: Callable[[], Responses]) -> None:
        await asyncio.wait([self._request])
        if self._carrying is not None:
            _cancel_once(self._carrying)
            await asyncio.wait([self._carrying])
        if self._request.cancelled():
            failure = await self._collect(clean_up) or self._mailbox_failed
        else:
            error = self._request.exception()
            failure = "" if error is None else str(error) or type(error).__name__
        self._collector.failed(failure)
        self._report_end(Ending(signal=9) if self._request.cancelled() and not failure else Ending(failure=failure))

    async def _collect(self, clean_up: Callable[[], Responses]) -> str:
        """Wait until nothing of an ended run is left, and collect its artifacts; return why that failed, or ""."""
        self._collector = ArtifactCollector(self._limits)
        until = asyncio.get_running_loop().time() + self._cleanup_seconds
        try:
            async with asyncio.timeout_at(until) as deadline, aclosing(clean_up()) as responses:
                async for kind, data in responses:
                    self._collector.take(kind, data)
                    until += len(data) / BYTES_A_SECOND
                    deadline.reschedule(until)
        except TimeoutError:
            return f"the shell has not said within {self._cleanup_seconds:.0f} seconds that nothing is left of the run"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def _receive(self, begin: Callable[[], Responses]) -> None:
        async with aclosing(begin()) as responses:
            async for kind, data in responses:
                if kind == "s":
                    self._set_begun()
                elif kind == "o":
                    await _write(self._stdout, data)
                elif kind == "e":
                    await _write(self._stderr, data)
                elif kind == "c":
                    await self._pass_on(data)
                elif kind == "m":
                    self._position = _position_in(data)
                elif kind == "p":
                    self._give_up_mailbox(data)
                elif kind == "x":
                    self._report_end(_ending_of(data))
                else:
                    self._collector.take(kind, data)
        if self._ending is None:
            raise ShellError("the shell has not said how the program ended")

    async def _pass_on(self, data: bytes) -> None:
        if data and self._carrier is not None:
            try:
                await self._carrier.pass_on(self._position, data)
            except OverflowError as error:
                raise ShellError(f"the shell lost something on the way: {error}") from None
            self._position += len(data)
            return
        # A run that is over has closed its end.
        with contextlib.suppress(OSError):
            if data:
                await asyncio.get_running_loop().sock_sendall(self._channel, data)
            else:
                self._channel.shutdown(socket.SHUT_WR)

    def _on_carried(self, carrying: asyncio.Task[None]) -> None:
        """End the run if its channel data can no longer be carried."""
        if carrying.cancelled() or (error := carrying.exception()) is None:
            return
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ProtocolError):
            self._stop_for_nonsense(str(error))
        else:
            self._mailbox_failed = f"the tool calls could not be carried: {error}"
            self.kill()

    def _give_up_mailbox(self, data: bytes) -> None:
        failure = as_object(data)
        why = printable(str(failure.get("why")))[:_MOST_OF_A_REASON]
        if not failure.get("nonsense"):
            raise ShellError(why)
        self._stop_for_nonsense(why)

    def _stop_for_nonsense(self, why: str) -> None:
        if self.stopped is None:
            hint = "leave the directory alone that lies beside TMPDIR"
            self.stopped = Stop(ErrorKind.PROTOCOL, f"the program broke the rules of its mail: {why}", hint=hint)
        self.kill()

    def _set_begun(self) -> None:
        if not self._begun.done():
            self._begun.set_result(None)

    def _report_end(self, ending: Ending) -> None:
        if self._ending is not None:
            return
        self._ending = ending
        if self._carrying is not None:
            _cancel_once(self._carrying)
            # Only after the task has released the socket.
            self._carrying.add_done_callback(lambda _: self._channel.close())
        else:
            self._channel.close()
        os.close(self._stdout)
        os.close(self._stderr)
        self._set_begun()
        for call in self._when_ended:
            call(ending)


def _cancel_once(task: asyncio.Task[None]) -> None:
    """Cancel a task unless it was cancelled already: a second time would interrupt its cleanup."""
    if not task.cancelling():
        task.cancel()


async def _write(descriptor: int, data: bytes) -> None:
    """Write all the data, waiting for the reader; if the reader is gone, drop it."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            writable = loop.create_future()
            stop_listening = when_writable(loop, descriptor, functools.partial(_set, writable))
            try:
                await writable
            finally:
                stop_listening()
        except OSError:
            return


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _position_in(data: bytes) -> int:
    """Return the position in a response."""
    if not data.isdigit() or len(data) > _MOST_DIGITS:
        raise ShellError("the shell has not said where in what the program sent it is")
    return int(data)


def _ending_of(data: bytes) -> Ending:
    """Return a program's ending from a response."""
    if data == b"null":
        return Ending(failure="something ended the process that watches over the program")
    try:
        how = as_object(data)
        code, number = how["code"], how["signal"]
        if not ((isinstance(code, int) and number is None) or (isinstance(number, int) and code is None)):
            raise ValueError
        return Ending(
            exit_code=None if code is None else min(max(code, 0), 255),
            signal=None if number is None else min(max(number, 1), 64),
            cpu_ms=min(max(float(how["cpu_ms"]), 0.0), 1e12),
            max_rss_bytes=min(max(int(how["rss_kib"]), 0), 2**40) * 1024,
        )
    except (KeyError, TypeError, ValueError):
        raise ShellError("the shell has not said how the program ended") from None


class ArtifactCollector:
    """The artifacts and the reply collected from the responses to a request."""

    def __init__(self, limits: Limits) -> None:
        self._files_left = limits.artifacts
        self._bytes_left = limits.artifact_mib * 2**20
        self._names: list[str] = []
        self._contents: list[bytearray] = []
        self._reply = bytearray()
        self._failure = ""

    def take(self, kind: str, data: bytes) -> None:
        """Add one response. Raises `ShellError` for one that no request of ours gets."""
        if kind == "r":
            self._reply += data
            if len(self._reply) > _MOST_OF_A_REPLY:
                raise ShellError("the shell told too much of what was left out")
        elif kind == "f":
            self._files_left -= 1
            self._names.append(_name(data))
            self._contents.append(bytearray())
        elif kind == "b":
            self._bytes_left -= len(data)
            if not self._contents:
                raise ShellError("the shell sent bytes of no file")
            self._contents[-1] += data
        if self._files_left < 0 or self._bytes_left < 0:
            raise ShellError("the shell sent more artifacts than it was asked for")

    def failed(self, why: str) -> None:
        """Record that the rest will not come."""
        self._failure = why

    def result(self) -> tuple[list[Artifact], list[str]]:
        """Return the artifacts sorted by name, and one sentence for each omission."""
        if self._failure:  # the last file may be incomplete
            return [], [f"output/ could not be collected: {self._failure}"]
        found = zip(self._names, self._contents, strict=True)
        artifacts = [Artifact(name, bytes(content)) for name, content in found]
        return sorted(artifacts, key=lambda artifact: artifact.name), self._warnings()

    def _warnings(self) -> list[str]:
        try:
            given = json.loads(self._reply or b"{}").get("warnings", [])
        except (ValueError, AttributeError, RecursionError):
            given = None
        if not isinstance(given, list) or not all(isinstance(warning, str) for warning in given):
            return ["what was left out of output/ could not be understood"]
        return [printable(warning)[:_MOST_OF_A_WARNING] for warning in given[:_MOST_WARNINGS]]


def _name(data: bytes) -> str:
    try:
        name = json.loads(data)
    except ValueError:
        name = None
    if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise ShellError(f"the shell named a file {shown(repr(name))} below output/")
    return printable(name)
