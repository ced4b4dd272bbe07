"""A host directory at `/input`, as seen by a guest that runs several programs.

The kernel caches each name that was looked up there, also names that did not exist. So before each program of a session
begins, the kernel drops that cache; otherwise the guest would not see files that were added since.
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
    """A guest's view of `/input`, held by a descriptor as long as the guest lives."""

    def __init__(self, forget_names: Callable[[int], None]) -> None:
        """`forget_names(descriptor)` has the kernel drop its cached names; it blocks, raises `SandboxUnavailable`."""
        self.forget_names = forget_names
        self._lock = threading.Lock()
        self._descriptor = _NONE
        self._closed = False
        self._known: concurrent.futures.Future[None] = concurrent.futures.Future()

    def hold(self, descriptor: int) -> None:
        """Take over the descriptor, in place of an earlier one, from any thread."""
        with self._lock:
            if not self._closed:
                descriptor, self._descriptor = self._descriptor, descriptor
            if not self._known.done():
                self._known.set_result(None)
        if descriptor >= 0:
            os.close(descriptor)

    async def look_anew(self) -> None:
        """Make the guest see the directory's present content; does nothing for a guest that has ended.

        Files that the guest has open stay the same. Raises `SandboxUnavailable`.
        """
        await asyncio.shield(asyncio.wrap_future(self._known))
        await run_blocking(self._forget)

    def close(self) -> None:
        """Close the descriptor, from any thread; a second call does nothing."""
        with self._lock:
            self._closed = True
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
