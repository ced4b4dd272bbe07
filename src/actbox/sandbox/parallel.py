"""Calls a function for each item of a stream, many at once: bounded, lazy, and cancelled as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# The most items taken but not yet given out, as a multiple of the concurrency. It is larger in order, so that other
# calls go on while the first one takes long.
_WINDOW: Final = 2
_ORDERED_WINDOW: Final = 8


async def in_parallel(
    items: Iterable[T] | AsyncIterable[T], call: Callable[[T], Awaitable[R]], *, concurrency: int, ordered: bool
) -> AsyncGenerator[tuple[int, R]]:
    """Await `call(item)` for each item, at most `concurrency` at once, and yield `(index, returned value)`.

    The index counts the items from 0. With `ordered` the pairs come in the order of the items, else as they are ready.
    Items are taken only when needed, never two at the same time, and at most 8 × `concurrency` (2 × without `ordered`)
    ahead of the pairs given out. Calls go on while the caller is busy with a pair.

    If `items` or a call raises, no more items are taken; calls under way are finished and given out (with `ordered` up
    to the item whose call raised), and then the exception is raised. Closing the iterator early, or cancelling the task
    that waits for it, cancels the calls under way and waits for them to end.
    """
    flow = _Flow(items, call, concurrency, ordered)
    flow.add_worker()
    try:
        while flow.has_value() or await flow.next_is_ready():
            yield flow.give_out()
        if flow.failure is not None:
            raise flow.failure
    finally:
        await flow.end()


class _Plain(AsyncIterator[T]):
    """A plain iterable as an asynchronous one; it never waits."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)

    async def __anext__(self) -> T:
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None


class _Flow(Generic[T, R]):
    """Workers, each of which takes an item, awaits its call and stores the value, until there are no more items."""

    def __init__(
        self,
        items: Iterable[T] | AsyncIterable[T],
        call: Callable[[T], Awaitable[R]],
        concurrency: int,
        ordered: bool,
    ) -> None:
        self.failure: BaseException | None = None
        self._items = aiter(items) if isinstance(items, AsyncIterable) else _Plain(items)
        self._call = call
        self._concurrency = concurrency
        self._ordered = ordered
        self._window = concurrency * (_ORDERED_WINDOW if ordered else _WINDOW)
        self._workers: set[asyncio.Task[None]] = set()
        self._taking = asyncio.Lock()
        self._exhausted = False
        self._taken = 0
        self._given = 0
        self._values: dict[int, R] = {}  # by index, in the order in which they became ready
        self._news = asyncio.Event()  # a value is ready, or a worker has ended
        self._room = asyncio.Event()  # a value was given out, or no more items are to be taken
        self._ending = False

    # The caller's side

    def has_value(self) -> bool:
        """Return whether the next pair can be given out."""
        return self._given in self._values if self._ordered else bool(self._values)

    async def next_is_ready(self) -> bool:
        """Wait until the next pair can be given out; return false if there will be none."""
        while not self.has_value():
            if not self._workers:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def give_out(self) -> tuple[int, R]:
        """Remove and return the next pair, which makes room for another."""
        index = self._given if self._ordered else next(iter(self._values))
        self._given += 1
        self._room.set()
        return index, self._values.pop(index)

    async def end(self) -> None:
        """Cancel all workers and wait for their end, even if this task is itself cancelled meanwhile."""
        self._ending = True
        for worker in self._workers:
            worker.cancel()
        cancelled: asyncio.CancelledError | None = None
        while self._workers:
            try:
                await asyncio.wait(tuple(self._workers))
            except asyncio.CancelledError as error:
                cancelled = error
            else:
                break
        if cancelled is not None:
            raise cancelled

    # The workers' side

    def add_worker(self) -> None:
        """Start a worker. Each worker that gets an item starts the next, up to the concurrency."""
        worker = asyncio.create_task(self._work())
        self._workers.add(worker)
        worker.add_done_callback(self._on_end)

    def _on_end(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._news.set()

    async def _work(self) -> None:
        try:
            while True:
                async with self._taking:
                    while self._taken - self._given >= self._window and self.failure is None:
                        self._room.clear()
                        await self._room.wait()
                    if self._exhausted or self.failure is not None:
                        return
                    try:
                        item = await anext(self._items)
                    except StopAsyncIteration:
                        self._exhausted = True
                        return
                    index = self._taken
                    self._taken += 1
                if len(self._workers) < self._concurrency:
                    self.add_worker()
                self._values[index] = await self._call(item)
                self._news.set()
        except BaseException as error:
            if self._ending:
                raise
            # Also a cancellation that we did not cause, such as one from a caller's own iterator.
            self.failure = self.failure or error
            self._room.set()
