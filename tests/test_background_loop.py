"""The event loop that lives in the background of a process."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from actbox import background_loop, sync
from actbox.sandbox.blocking import run_blocking, run_given


def test_a_finalizer_that_wants_the_loop_while_it_is_made_gets_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[asyncio.AbstractEventLoop] = []
    make = background_loop._Portal

    def make_amid_garbage() -> background_loop._Portal:
        monkeypatch.setattr(background_loop, "_Portal", make)
        found.append(background_loop.background_loop())
        return make()

    monkeypatch.setattr(background_loop, "_portal", None)
    monkeypatch.setattr(background_loop, "_Portal", make_amid_garbage)
    with ThreadPoolExecutor(1) as threads:
        loop = threads.submit(background_loop.background_loop).result(30)
    assert found == [loop]
    assert background_loop.background_loop() is loop
    loop.call_soon_threadsafe(loop.stop)


@contextmanager
def blocked_loop() -> Iterator[None]:
    """Keep the background loop from all work in a block, as where it waits for the thread that runs the block."""
    begun, over = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        over.wait(60)

    background_loop.background_loop().call_soon_threadsafe(block)
    assert begun.wait(60)
    try:
        yield
    finally:
        over.set()


def test_a_dropped_iterator_is_closed_without_a_wait() -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.set()

    class Holder:
        def __init__(self) -> None:
            self.itself = self
            self.numbers = sync._Iterated(numbers())

    holder = Holder()
    assert next(holder.numbers) == 1
    with blocked_loop():
        del holder
        gc.collect()
        assert not closed.is_set()
    assert closed.wait(60)


def test_an_iterator_that_a_thread_reads_is_neither_closed_nor_read_by_another_one() -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            begun.set()
            await asyncio.to_thread(go_on.wait, 60)
            yield 1
            yield 2
        finally:
            closed.set()

    iterator = sync._Iterated(numbers())
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(next, iterator)
        assert begun.wait(60)
        try:
            with pytest.raises(RuntimeError):
                iterator.close()
            with pytest.raises(RuntimeError):
                next(iterator)
        finally:
            go_on.set()
        assert first.result(60) == 1
    assert next(iterator) == 2
    iterator.close()
    assert closed.is_set()
    assert list(iterator) == []


async def in_a_thread_of_a_run(function: Callable[[], None]) -> None:
    threading.Thread(target=function, name="actbox-reaper").start()


@pytest.mark.parametrize("in_a_thread", [in_a_thread_of_a_run, run_blocking])
def test_the_threads_by_which_runs_end_do_not_wait_for_what_a_finalizer_closes(
    in_a_thread: Callable[[Callable[[], None]], Awaitable[None]],
) -> None:
    closed, returned = threading.Event(), threading.Event()

    async def close() -> None:
        closed.set()

    def finalize() -> None:
        background_loop.close(close())
        returned.set()

    async def run() -> None:
        await in_a_thread(finalize)

    with blocked_loop():
        asyncio.run(run())
        assert returned.wait(60)
        assert not closed.is_set()
    assert closed.wait(60)


async def test_what_a_caller_gave_waits_for_what_it_closes() -> None:
    closed = threading.Event()

    async def close() -> None:
        closed.set()

    await run_given(lambda: background_loop.close(close()))
    assert closed.is_set()


def test_a_finalizer_may_wait_for_the_loop_at_any_moment_of_a_call() -> None:
    moment = 1
    while waits_at(moment):
        moment += 1
    assert moment > 9


def waits_at(moment: int) -> bool:
    """Call a coroutine that ends while a finalizer waits in the midst of the call; return whether there is a moment."""
    may_end = asyncio.Event()
    moments = itertools.count(1)
    has_waited = False

    async def end() -> None:
        with suppress(TimeoutError):  # if the moment never comes
            await asyncio.wait_for(may_end.wait(), 1)

    async def see_it_end() -> None:
        may_end.set()
        for _ in range(9):
            await asyncio.sleep(0)

    def finalize(*_: object) -> None:
        nonlocal has_waited
        if next(moments) == moment and not may_end.is_set():
            background_loop.call(see_it_end())
            has_waited = True

    def call() -> None:
        sys.setprofile(finalize)
        try:
            background_loop.call(end())
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), moment
    return has_waited


def test_a_finalizer_may_wait_for_the_loop_where_one_is_being_made() -> None:
    found: list[asyncio.AbstractEventLoop] = []

    async def answer() -> asyncio.AbstractEventLoop:
        return background_loop.background_loop()

    loop = background_loop.background_loop()
    with background_loop._making:
        thread = threading.Thread(target=lambda: found.append(background_loop.call(answer())), daemon=True)
        thread.start()
        thread.join(60)
    assert found == [loop]
