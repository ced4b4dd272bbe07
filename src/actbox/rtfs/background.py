"""A thread pool for evaluations that take longer than an event loop may be held.

A thread gives Python's lock to the event loop every few milliseconds, but an operation that is one call of Python's own
keeps it, so the sizes of values bound how long that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from actbox.tools.threads import ThreadPool

T = TypeVar("T")

THREADS: Final = 2
"""The number of threads. Each busy one may delay the event loop by 5 ms, Python's switch interval, and they share one
lock anyway.
"""

_pool = ThreadPool(limit=THREADS)


async def in_background(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run a function in a thread and return its result.

    When the caller is cancelled, `stop` is called, which should make the work end soon, and the cancellation is raised
    when it has ended: the work never goes on behind the caller's back.
    """
    working = asyncio.ensure_future(_pool.run(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stop()
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                continue  # once is enough: the cancellation is raised again when the work has ended
        if not working.cancelled():
            working.exception()  # marks the exception as retrieved: nobody else asks for it
        raise
