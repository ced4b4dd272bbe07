"""The ends of work: `Endings` has runs whose result is there already, and `finishing` lets cancelled work finish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from actbox.core.events import Completed, Event
from actbox.core.result import ExecutionResult

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def finishing(work: Coroutine[Any, Any, T], cancel: asyncio.Event) -> T:
    """Return what work returns. If this is cancelled, the work has ended first, which `cancel` makes it do.

    Whoever cancels again ends it at once.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    finally:
        cancel.set()
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
    return task.result()


class Endings:
    """Runs that end beside the next call of the model, which would else wait several milliseconds for each of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def result(
        self, events: AsyncGenerator[Event], see: Callable[[Event], None], *, waits: bool
    ) -> ExecutionResult:
        """Return the result of a run as soon as it is there, or with `waits` once the run has ended; raise its errors.

        `see` is given each event. If this is cancelled, the run has ended before `CancelledError` is raised.
        """
        found: asyncio.Future[ExecutionResult] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_follow(events, see, found))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            result = await found
            if waits:
                await asyncio.wait([task])
            return result
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise

    async def wait(self) -> None:
        """Wait until all runs have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _follow(
    events: AsyncGenerator[Event], see: Callable[[Event], None], found: asyncio.Future[ExecutionResult]
) -> None:
    try:
        async with aclosing(events):
            async for event in events:
                see(event)
                if isinstance(event, Completed):
                    found.set_result(event.result)
                    return
        raise AssertionError("a stream ended without Completed")
    except asyncio.CancelledError:
        found.cancel()
        raise
    except BaseException as error:
        if found.done():
            _log.error("a run did not end as it should", exc_info=error)
        else:
            found.set_exception(error)
