"""Runs a step that must not be left half done, even if its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from actbox.core.after_fork import Owner

T = TypeVar("T")


async def whole(making: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]] | None = None) -> T:
    """Await `making` and return its result; if cancelled meanwhile, wait until it is done, and `undo` its result.

    In a forked child neither is awaited: the result belongs to the parent, and the child never gets it.
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


async def _undo(task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]] | None) -> None:
    with contextlib.suppress(Exception):  # a step that failed need not be undone
        made = await task
        if undo is not None:
            await undo(made)
