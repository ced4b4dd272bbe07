"""A guest at the other end of a shell, as runs know one: its output, its channel and its end, fed from an errand.

The errand is told everything at its beginning, since a shell takes no more later. What the guest hears after that, the
answers to tool calls, reaches it by mail (`channel/mailbox.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from actbox.core.errors import ErrorKind
from actbox.core.limits import Limits
from actbox.core.result import Artifact
from actbox.sandbox.channel.mailbox import Carrier, Mailbox
from actbox.sandbox.ending import Ending, Stop
from actbox.sandbox.guest.wire import ProtocolError
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.left_out import printable

from .answers import ShellError
from .errands import as_object
from .gathering import Gathered

Said = AsyncGenerator[tuple[str, bytes]]

_MOST_OF_A_REASON = 1000
_MOST_DIGITS = 15
# How long the output of a program may take to come after its result, which came by mail.
_OUTPUT_SECONDS = 60.0
BYTES_A_SECOND = 64 * 1024
"""How slow a shell may be: what has much to bring may take longer."""


class ShellGuest(GuestProcess):
    """What runs at the other end. `begin` sends the errand; `aftermath` another one, if that was ended early.

    A run without tools needs no `mailbox`. An aftermath may take `aftermath_seconds`, and longer only for the bytes of
    artifacts that it brings.
    """

    # Its result may come by mail, long before the shell says that it has ended.
    grace_seconds = 5.0

    def __init__(
        self,
        begin: Callable[[], Said],
        aftermath: Callable[[], Said],
        limits: Limits,
        mailbox: Mailbox | None = None,
        *,
        aftermath_seconds: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._limits = limits
        self._aftermath_seconds = aftermath_seconds
        self._gathered = Gathered(limits)
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
        """Where in what the program sends on its channel the errand is."""
        self._mail_failed = ""
        if mailbox is not None and mailbox.brings_calls:
            self.grace_seconds = _OUTPUT_SECONDS
        self._carrier = None if mailbox is None else Carrier(mailbox, self._channel)
        self._carrying = None if self._carrier is None else loop.create_task(self._carrier.run())
        if self._carrying is not None:
            self._carrying.add_done_callback(self._on_carried)
        self._errand = loop.create_task(self._hear(begin))
        self._life = loop.create_task(self._live(aftermath))

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
            _cancel_once(self._errand)

    async def begun(self, seconds: float) -> Ending | None:
        """Wait until the program has started; return how it ended instead, if it never did, or not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._begun)
        if self._begun.done():
            return self._ending
        self.kill()
        await self.wait()
        return Ending(failure=f"the shell has not begun to run the program after {seconds:.0f} seconds")

    async def collected(self) -> tuple[list[Artifact], list[str]]:
        """Return the artifacts, and a sentence for each that was left out, once the errand is over."""
        await asyncio.shield(self._life)
        return self._gathered.result()

    async def over(self) -> None:
        """End the errand, also where it only has artifacts left to tell; return when nothing of it is left."""
        _cancel_once(self._errand)
        await asyncio.shield(self._life)

    async def _live(self, aftermath: Callable[[], Said]) -> None:
        await asyncio.wait([self._errand])
        if self._carrying is not None:
            _cancel_once(self._carrying)
            await asyncio.wait([self._carrying])
        if self._errand.cancelled():
            failure = await self._gather(aftermath) or self._mail_failed
        else:
            error = self._errand.exception()
            failure = "" if error is None else str(error) or type(error).__name__
        self._gathered.failed(failure)
        self._tell(Ending(signal=9) if self._errand.cancelled() and not failure else Ending(failure=failure))

    async def _gather(self, aftermath: Callable[[], Said]) -> str:
        """Wait until nothing is left of a run that was ended, and gather what it made; return why that failed."""
        self._gathered = Gathered(self._limits)
        until = asyncio.get_running_loop().time() + self._aftermath_seconds
        try:
            async with asyncio.timeout_at(until) as deadline, aclosing(aftermath()) as said:
                async for kind, data in said:
                    self._gathered.take(kind, data)
                    until += len(data) / BYTES_A_SECOND
                    deadline.reschedule(until)
        except TimeoutError:
            return (
                f"the shell has not said within {self._aftermath_seconds:.0f} seconds that nothing is left of the run"
            )
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def _hear(self, begin: Callable[[], Said]) -> None:
        async with aclosing(begin()) as said:
            async for kind, data in said:
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
                    self._give_up_mail(data)
                elif kind == "x":
                    self._tell(_ending_of(data))
                else:
                    self._gathered.take(kind, data)
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
        """End the run where its mail cannot be carried any more."""
        if carrying.cancelled() or (error := carrying.exception()) is None:
            return
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ProtocolError):
            self._stop_for_nonsense(str(error))
        else:
            self._mail_failed = f"the tool calls could not be carried: {error}"
            self.kill()

    def _give_up_mail(self, data: bytes) -> None:
        told = as_object(data)
        why = printable(str(told.get("why")))[:_MOST_OF_A_REASON]
        if not told.get("nonsense"):
            raise ShellError(why)
        self._stop_for_nonsense(why)

    def _stop_for_nonsense(self, why: str) -> None:
        if self.stopped is None:
            hint = "leave the folder alone that lies beside TMPDIR"
            self.stopped = Stop(ErrorKind.PROTOCOL, f"the program broke the rules of its mail: {why}", hint=hint)
        self.kill()

    def _set_begun(self) -> None:
        if not self._begun.done():
            self._begun.set_result(None)

    def _tell(self, ending: Ending) -> None:
        if self._ending is not None:
            return
        self._ending = ending
        if self._carrying is not None:
            _cancel_once(self._carrying)
            # Not before it has let go of the socket.
            self._carrying.add_done_callback(lambda _: self._channel.close())
        else:
            self._channel.close()
        os.close(self._stdout)
        os.close(self._stderr)
        self._set_begun()
        for call in self._when_ended:
            call(ending)


def _cancel_once(task: asyncio.Task[None]) -> None:
    """Cancel a task that was not cancelled yet: a second time would break off how it ends what it has begun."""
    if not task.cancelling():
        task.cancel()


async def _write(descriptor: int, data: bytes) -> None:
    """Write all of it, waiting for whoever reads; if nobody does any more, let it go."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            writable = loop.create_future()
            loop.add_writer(descriptor, _set, writable)
            try:
                await writable
            finally:
                loop.remove_writer(descriptor)
        except OSError:
            return


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _position_in(data: bytes) -> int:
    """Return a position as the errand tells it."""
    if not data.isdigit() or len(data) > _MOST_DIGITS:
        raise ShellError("the shell has not said where in what the program sent it is")
    return int(data)


def _ending_of(data: bytes) -> Ending:
    """Return how a program ended, as the errand tells it."""
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
