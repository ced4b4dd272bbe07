"""A pool of things made before runs need them; each is used once.

The number kept ready follows demand. A pool starts empty and costs nothing; each time a run finds it empty the number
doubles, up to a bound; in quiet times it falls again, one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

MOST_READY = 8
"""The most that are kept ready. More would not help: all processors are busy using them and making others."""

# Two, so that one is ready while the one taken is being replaced.
_LEAST_READY = 2
_QUIET_SECONDS = 5.0


class Disposable(Protocol):
    """An item of a pool."""

    @property
    def stale(self) -> bool:
        """True if the item can no longer be used."""

    def discard(self) -> None:
        """Dispose of an unused item, also if it has ended."""

    def leave_to_parent(self) -> None:
        """In a forked process, close the item's descriptors; the item itself stays with the parent."""


T = TypeVar("T", bound=Disposable)


class _Waiter(Generic[T]):
    """A caller of `Pool.take` that found no item ready."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()

    def give(self, item: T) -> None:
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, item, None)
            return
        item.discard()  # the event loop is closed, so nothing waits for it

    def fail(self, error: Exception) -> None:
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, None, error)

    def _settle(self, item: T | None, error: Exception | None) -> None:
        if self.future.done():
            if item is not None:
                item.discard()
        elif item is not None:
            self.future.set_result(item)
        elif error is not None:
            self.future.set_exception(error)


class Pool(Generic[T]):
    """Items of one kind. `make` makes one and blocks; `wake` has `fill` called soon, in another thread."""

    def __init__(self, make: Callable[[], T], wake: Callable[[], None]) -> None:
        self._make = make
        self._wake = wake
        self._lock = threading.Lock()
        self._ready: deque[T] = deque()
        self._waiting: deque[_Waiter[T]] = deque()
        self._target = 0
        self._last_want = 0.0
        self._closed = False

    @property
    def ready(self) -> int:
        """The number of items that are ready now."""
        return len(self._ready)

    def expect(self, number: int) -> None:
        """Have at least `number` items ready soon."""
        with self._lock:
            if self._target < number:
                self._target, self._last_want = number, time.monotonic()
        self._wake()

    def take_ready(self) -> T | None:
        """Return a ready item, or `None` if there is none or another caller waits for it.

        If the pool `wants` another one now, have `fill` called when there is time: the caller needs the processor.
        """
        with self._lock:
            taken = None if self._waiting else self._next_ready()
            if taken is not None and not self._ready:  # a caller who gets none goes on to `take`
                self._target = max(self._target, _LEAST_READY)
                self._last_want = time.monotonic()
            return taken

    async def take(self) -> T:
        """Return an item, which the caller now owns; callers are served in order. Raises what `make` raises."""
        with self._lock:
            item = None if self._waiting else self._next_ready()
            if item is None:
                waiter: _Waiter[T] = _Waiter()
                self._waiting.append(waiter)
                self._target = min(max(2 * self._target, 1), MOST_READY)
                self._last_want = time.monotonic()
            elif not self._ready:
                self._last_want = time.monotonic()
        self._wake()
        if item is not None:
            return item
        try:
            return await waiter.future
        except asyncio.CancelledError:
            with self._lock, contextlib.suppress(ValueError):
                self._waiting.remove(waiter)
            if waiter.future.done() and not waiter.future.cancelled() and waiter.future.exception() is None:
                waiter.future.result().discard()
            raise

    def _next_ready(self) -> T | None:
        while self._ready:
            item = self._ready.popleft()
            if not item.stale:
                return item
            item.discard()
        return None

    def fill(self) -> bool:
        """Make one item if one is wanted; return whether more are wanted. Call it from one thread at a time."""
        with self._lock:
            if len(self._ready) >= self._target and not self._waiting:
                return False
        try:
            item = self._make()
        except Exception as error:
            self._fail(error)
            return False
        with self._lock:
            closed = self._closed
            if self._waiting:
                self._waiting.popleft().give(item)
            elif not closed:
                self._ready.append(item)
            wants = len(self._ready) < self._target or bool(self._waiting)
        if closed:
            item.discard()
        return wants

    @property
    def is_awaited(self) -> bool:
        """True if a caller of `take` waits for an item."""
        return bool(self._waiting)

    def wants(self) -> bool:
        """Return whether `fill` would make an item."""
        return bool(self._waiting) or len(self._ready) < self._target

    def leave_to_parent(self) -> None:
        """In a forked process, drop the items, which belong to the parent."""
        self._lock = threading.Lock()
        for item in self._ready:
            item.leave_to_parent()
        self._ready.clear()
        self._waiting.clear()

    def relax(self, least: int) -> None:
        """After some time without demand, dispose of one item, down to `least`."""
        with self._lock:
            if self._target <= least or time.monotonic() - self._last_want < _QUIET_SECONDS:
                return
            self._target -= 1
            surplus = self._ready.pop() if len(self._ready) > self._target else None
        if surplus is not None:
            surplus.discard()

    def _fail(self, error: Exception) -> None:
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._target = 0
        for waiter in waiting:
            waiter.fail(error)

    def close(self, error: Exception) -> None:
        """Dispose of all items for good; waiting callers get an error."""
        self._closed = True
        self._fail(error)
        self.drain()

    def drain(self) -> None:
        """Dispose of all items, and make no more until one is asked for."""
        with self._lock:
            self._target = 0
            ready = list(self._ready)
            self._ready.clear()
        for item in ready:
            item.discard()
