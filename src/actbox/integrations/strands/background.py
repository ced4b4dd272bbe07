"""Runs coroutines and sessions in a background event loop, so that they can be used from any other.

`agent(…)` makes an event loop for each invocation, and an asynchronous host has its own. A session belongs to the loop
in which it began, and outlives an invocation.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from actbox.background_loop import background_loop
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox, Session, Tools, closing
from actbox.tools import ApprovalDecision, ApprovalRequest, Approver, Tool, Toolset

T = TypeVar("T")
NOT_THERE: Final = 126
"""The exit code of a program whose directory is missing."""


async def in_background(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background event loop, and return its result.

    If the caller is cancelled, the coroutine is cancelled too, and has ended when this raises.
    """
    home, background = asyncio.get_running_loop(), background_loop()
    over: asyncio.Future[None] = home.create_future()
    tasks: list[asyncio.Task[T]] = []

    def begin() -> None:
        tasks.append(background.create_task(coroutine))
        tasks[0].add_done_callback(finish)

    def finish(task: asyncio.Task[T]) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's event loop is closed: nobody waits any more
            home.call_soon_threadsafe(settle)

    def settle() -> None:
        if not over.done():
            over.set_result(None)

    background.call_soon_threadsafe(begin)
    try:
        await asyncio.shield(over)
    except asyncio.CancelledError:
        background.call_soon_threadsafe(lambda: tasks[0].cancel())
        await asyncio.shield(over)
        raise
    return tasks[0].result()


async def stream_in_background(begin: Callable[[], AsyncIterator[Event]]) -> AsyncGenerator[Event]:
    """Yield events that are produced in the background loop; closing this early waits until the producer has closed."""
    home = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | None] = asyncio.Queue()

    async def pump() -> None:
        events = begin()
        async with closing(events):
            async for event in events:
                home.call_soon_threadsafe(queue.put_nowait, event)

    pumping = asyncio.ensure_future(in_background(pump()))
    pumping.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:
        pumping.cancel()
        await asyncio.wait([pumping])
    pumping.result()


class BackgroundSession:
    """A sandbox's session that may be used from any event loop. It begins with its first program."""

    def __init__(self, box: Callable[[], Awaitable[Sandbox]], *, cwd: str = "") -> None:
        """`box` returns the started sandbox; the programs start in `cwd`."""
        self._box = box
        self._cwd = cwd
        self._session: Session | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def alive(self) -> bool:
        """True if the session can run a program now."""
        return self._session is None or self._session.alive

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """Run a program as `Session.stream` does. Tools are called in the caller's event loop."""
        toolset = tools_at_home(Toolset.for_run(tools))
        box = await self._box()

        if not isinstance(program, Program):
            program = Program(program, box.traits.languages[0])
        if self._cwd and not program.cwd:
            program = dataclasses.replace(program, cwd=self._cwd)

        def begin() -> AsyncIterator[Event]:
            if self._session is None:
                self._session = box.session()
            return self._session.stream(program, tools=toolset, timeout=timeout)

        async with contextlib.aclosing(stream_in_background(begin)) as events:
            async for event in events:
                if isinstance(event, Completed) and event.result.exit_code != NOT_THERE:
                    self._cwd = ""
                yield event

    async def close(self) -> None:
        """Close the session as `Session.close` does. It has ended on return, also if another caller began
        to close it.
        """
        if self._session is not None:
            await in_background(self._close(self._session))

    async def _close(self, session: Session) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(session.close())
        await asyncio.shield(self._closing)


def tools_at_home(toolset: Toolset) -> Toolset:
    """Return tools whose asynchronous functions run in this event loop, wherever they are called.

    Synchronous ones run in threads, and may be called from anywhere.
    """
    home = asyncio.get_running_loop()
    moved = Toolset(_at_home(tool, home) if tool.is_async else tool for tool in toolset)
    moved = moved.approved(set(moved.requiring).difference(toolset.requiring))
    return moved if toolset.approver is None else moved.asking(approver_at_home(toolset.approver))


def approver_at_home(approver: Approver) -> Approver:
    """Return an approver that is asked in this event loop, if there is one, whichever loop the request comes from."""
    return _ApproverAtHome(approver, asyncio.get_running_loop())


@dataclasses.dataclass(frozen=True)
class _ApproverAtHome:
    approver: Approver
    home: asyncio.AbstractEventLoop

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        if self.home.is_closed() or self.home is asyncio.get_running_loop():
            return await self.approver.decide(request)
        asked = asyncio.run_coroutine_threadsafe(_decision_of(self.approver, request), self.home)
        return await asyncio.wrap_future(asked)


async def _decision_of(approver: Approver, request: ApprovalRequest) -> ApprovalDecision:
    return await approver.decide(request)


def _at_home(tool: Tool, home: asyncio.AbstractEventLoop) -> Tool:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(tool.function(*args, **kwargs), home))

    return dataclasses.replace(tool, function=call)
