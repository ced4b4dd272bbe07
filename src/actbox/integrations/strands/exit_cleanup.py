"""A registry of open sandboxes, which are stopped when the process ends."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Protocol

from actbox.core.after_fork import in_a_forked_child

_log = logging.getLogger("actbox")


class Stoppable(Protocol):
    """An object that must be stopped when the process ends."""

    async def stop(self) -> None:
        """Stop it, from any event loop."""


class _Open:
    """The open objects, and a thread that waits for the end of the main thread.

    The thread is no daemon, so that the interpreter waits for it while new threads can still start; in `atexit` they
    cannot. (On CPython 3.12.0 and 3.12.1 they cannot here either: an object that needs a thread is then left, and
    logged.)
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all objects in a forked child; its parent stops them."""
        self._lock = threading.Lock()
        self._open: dict[int, Stoppable] = {}
        self._is_waiting = False

    def add(self, sandbox: Stoppable) -> None:
        """Keep an object until it is removed, and stop it when the process ends."""
        with self._lock:
            self._open[id(sandbox)] = sandbox
            if not self._is_waiting:
                threading.Thread(target=self._wait, name="actbox-stop-at-exit", daemon=False).start()
                self._is_waiting = True

    def remove(self, sandbox: Stoppable) -> None:
        """Forget an object that was stopped."""
        with self._lock:
            self._open.pop(id(sandbox), None)

    def _wait(self) -> None:
        threading.main_thread().join()
        asyncio.run(self._stop_all())

    async def _stop_all(self) -> None:
        with self._lock:
            left = list(self._open.values())
        for outcome in await asyncio.gather(*(sandbox.stop() for sandbox in left), return_exceptions=True):
            if isinstance(outcome, BaseException):
                _log.error("a sandbox could not be stopped at exit: %s", outcome)


_open = _Open()
in_a_forked_child(_open.forget)

stop_at_exit = _open.add
"""Registers an object to be stopped when the process ends; it is kept until then, or until `stopped`."""
stopped = _open.remove
"""Cancels `stop_at_exit` for an object."""
