"""Letting go of what the service may never answer: whoever has been cancelled, or is out of time, waits a few seconds.

What takes longer goes on by itself, as a task of the event loop, for as long as that lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_log = logging.getLogger("actbox")

LET_GO_SECONDS = 2.0
"""How long the end of something is waited for where the service does not answer."""
_going_on: set[asyncio.Task[Any]] = set()


async def soon(ending: Coroutine[Any, Any, T], seconds: float | None = None) -> asyncio.Task[T]:
    """Wait for an end, `LET_GO_SECONDS` at most unless told, however often the caller is cancelled.

    Return its task, which is over or goes on.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(ending)
    _going_on.add(task)
    task.add_done_callback(_forget)
    until = loop.time() + (LET_GO_SECONDS if seconds is None else seconds)
    while not task.done() and (left := until - loop.time()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
    return task


async def whole(making: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]) -> T:
    """Await the making of something; when cancelled meanwhile, have it undone as soon as it is made.

    As in `sandbox/whole.py`, for what may never be made: it is waited for only a few seconds.
    """
    task = asyncio.create_task(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await soon(_undone(task, undo))
        raise


async def _undone(task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
    try:
        made = await task
    except Exception:  # what could not be made need not be undone, and whoever wanted it has gone
        return
    await undo(made)


def _forget(task: asyncio.Task[Any]) -> None:
    _going_on.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        # Whoever has waited for it reads this too; where nobody does any more, nobody else would be told.
        _log.warning("something of the agentcore engine was not ended as it should be: %s", error)
