"""Cleanup that waits only a few seconds, because the service may never answer.

A caller that was cancelled, or that ran out of time, waits for `LET_GO_SECONDS`. A cleanup step that takes longer goes
on as a task of the event loop, as long as the loop lives.
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
"""The most seconds that a cancelled caller waits for a cleanup step."""
_going_on: set[asyncio.Task[Any]] = set()


async def soon(ending: Coroutine[Any, Any, T], seconds: float | None = None) -> asyncio.Task[T]:
    """Wait for a cleanup step, however often the caller is cancelled; return its task, which is done or goes on.

    `seconds` is the longest wait; default: `LET_GO_SECONDS`.
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
    """Await `making` and return its result; if cancelled meanwhile, undo it as soon as it is done.

    `sandbox/cancellation.py` waits until it is undone; this function waits only a few seconds, because `making` may
    never end.
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
    except Exception:  # a step that failed need not be undone, and its caller has gone
        return
    await undo(made)


def _forget(task: asyncio.Task[Any]) -> None:
    _going_on.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        # The caller may have stopped waiting, and then the log is the only report.
        _log.warning("something of the agentcore engine was not ended as it should be: %s", error)
