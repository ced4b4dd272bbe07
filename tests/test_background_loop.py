"""The event loop that lives in the background of a process."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

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
