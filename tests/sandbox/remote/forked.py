"""What a forked child of this process sees of a sandbox that is its parent's."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from actbox import ActboxError, Sandbox

_SECONDS = 60


async def _tried(what: Callable[[], Awaitable[object]]) -> str:
    try:
        done = await what()
    except (ActboxError, OSError) as error:
        return str(error)
    return str(getattr(done, "error", None) or "done")


def seen_in_a_child(box: Sandbox) -> dict[str, str]:
    """Use a sandbox in a forked child; return what came of a run, of files and of `stop`."""

    async def use() -> dict[str, str]:
        return {
            "run": await _tried(lambda: box.run("print('child')")),
            "write": await _tried(lambda: box.write_file("x", b"child")),
            "read": await _tried(lambda: box.read_file("x")),
            "stop": await _tried(box.stop),
        }

    return in_a_child(use)


def in_a_child(use: Callable[[], Coroutine[Any, Any, dict[str, str]]]) -> dict[str, str]:
    """Run a coroutine in a forked child, in an event loop of its own; return what it returns. In no event loop."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # that there are threads, which is the matter
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(asyncio.new_event_loop().run_until_complete(use())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], _SECONDS)
        assert ready, "the child hangs"
        seen: dict[str, str] = json.loads(os.read(reading, 65536))
        return seen
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
