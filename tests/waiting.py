"""Waiting for a state of the world: what a test does where it would otherwise sleep and hope.

The deadline is never reached when all is well, however slow the machine is; it only ends a test that would hang.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

_BETWEEN_LOOKS = 0.005


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return when the condition holds, a function or a coroutine function; fail after `seconds` of real time."""
    end = time.monotonic() + seconds
    while True:
        held = condition()
        if await held if inspect.isawaitable(held) else held:
            return
        assert time.monotonic() < end, f"still not so after {seconds} seconds: {inspect.getsource(condition).strip()}"
        await asyncio.sleep(_BETWEEN_LOOKS)


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return when the condition holds; fail after `seconds` of real time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"still not so after {seconds} seconds: {inspect.getsource(condition).strip()}"
        time.sleep(_BETWEEN_LOOKS)
