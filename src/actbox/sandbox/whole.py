"""Making something that cannot be left half made, whoever waits for it is cancelled meanwhile or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from actbox.core.after_fork import Owner

T = TypeVar("T")


async def whole(making: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]) -> T:
    """Await the making of something; when cancelled meanwhile, wait until it is made and undo it.

    In a forked child neither is waited for: what its parent makes is the parent's, and the child never hears of it.
    """
    owner = Owner()
    task = asyncio.create_task(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not owner.is_here:
            raise
        undone = asyncio.ensure_future(_undo(task, undo))
        while not undone.done() and owner.is_here:  # however often the caller is cancelled
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(undone)
        raise


async def _undo(task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
    with contextlib.suppress(Exception):  # what could not be made need not be undone
        await undo(await task)
