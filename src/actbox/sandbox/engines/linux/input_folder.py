"""A folder of the host at `/input`, as a guest sees it that runs several programs.

The kernel remembers each name that was looked up there, also that there was none. So before a program of a session
begins it is told to forget them, or files that were put there meanwhile would not be seen.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable

from actbox.sandbox.blocking import run_blocking

_NONE = -1


class InputFolder:
    """What one guest sees at `/input`, held by a descriptor for as long as the guest lives."""

    def __init__(self, forget_names: Callable[[int], None]) -> None:
        """`forget_names` has the kernel forget, given a descriptor; it blocks, and raises `SandboxUnavailable`."""
        self.forget_names = forget_names
        self._lock = threading.Lock()
        self._descriptor = _NONE
        self._known: concurrent.futures.Future[None] = concurrent.futures.Future()

    def hold(self, descriptor: int) -> None:
        """Take over the descriptor. In any thread."""
        with self._lock:
            if not self._known.done():
                self._descriptor = descriptor
                self._known.set_result(None)
                return
        os.close(descriptor)  # the guest has ended before this was heard

    async def look_anew(self) -> None:
        """Have the guest see what is there by now; of one that has ended there is nothing to see.

        Names that it has open stay what they are. Raises `SandboxUnavailable`.
        """
        await asyncio.shield(asyncio.wrap_future(self._known))
        await run_blocking(self._forget)

    def close(self) -> None:
        """Let go of it. In any thread; a second call does nothing."""
        with self._lock:
            if not self._known.done():
                self._known.set_result(None)
            held, self._descriptor = self._descriptor, _NONE
        if held >= 0:
            os.close(held)

    def _forget(self) -> None:
        with self._lock:
            if self._descriptor < 0:
                return
            descriptor = os.dup(self._descriptor)
        try:
            self.forget_names(descriptor)
        finally:
            os.close(descriptor)
