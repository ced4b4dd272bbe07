"""The event loop that lives in the background of a process."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from actbox import sync


def test_a_finalizer_that_wants_the_loop_while_it_is_made_gets_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[asyncio.AbstractEventLoop] = []
    make = sync._Portal

    def make_amid_garbage() -> sync._Portal:
        monkeypatch.setattr(sync, "_Portal", make)
        found.append(sync.background_loop())
        return make()

    monkeypatch.setattr(sync, "_portal", None)
    monkeypatch.setattr(sync, "_Portal", make_amid_garbage)
    with ThreadPoolExecutor(1) as threads:
        loop = threads.submit(sync.background_loop).result(30)
    assert found == [loop]
    assert sync.background_loop() is loop
    loop.call_soon_threadsafe(loop.stop)


@contextmanager
def blocked_loop() -> Iterator[None]:
    """Keep the background loop from all work in a block, as where it waits for the thread that runs the block."""
    begun, over = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        over.wait(60)

    sync.background_loop().call_soon_threadsafe(block)
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


def test_the_threads_by_which_runs_end_do_not_wait_for_what_a_finalizer_closes() -> None:
    closed = threading.Event()

    async def close() -> None:
        closed.set()

    with blocked_loop():
        reaping = threading.Thread(target=lambda: sync._close(close()), name="actbox-reaper")
        reaping.start()
        reaping.join(60)
        assert not reaping.is_alive()
        assert not closed.is_set()
    assert closed.wait(60)
