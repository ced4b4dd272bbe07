"""A pytest plugin that blames a leak on the test that left it: `-p tests.leaks`.

Python warns of a socket, transport or event loop that was never closed when the collector finds it, which without this
is in the middle of any later test. All objects that a test makes are kept in the collector's two young generations
until the test ends, and are collected there, which takes little. Where a module ends, everything is collected.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from _pytest.unraisableexception import collect_unraisable

_NEVER = 1_000_000


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Exempt the many thousand test objects from garbage collection: they live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(gc.get_threshold()[0], _NEVER, _NEVER)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Collect what a test has left, and raise what that warns of."""
    yield
    gc.collect(1 if nextitem is not None and nextitem.path == item.path else 2)
    collect_unraisable(item.config)
