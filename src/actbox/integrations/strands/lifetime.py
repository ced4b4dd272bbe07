"""Which sandboxes are open, so that none outlives this process."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Protocol

from actbox.core.after_fork import in_a_forked_child

_log = logging.getLogger("actbox")


class Stoppable(Protocol):
    """What is to be stopped when the process ends."""

    async def stop(self) -> None:
        """Stop it, in whatever event loop this is."""


class _Open:
    """What is open, and the thread that waits for the end of the main one.

    The thread is no daemon, so that the interpreter waits for it while other threads can still be begun, which they
    cannot when `atexit` calls (nor here on CPython 3.12.0 and 3.12.1: what needs one then stays, and is logged).
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all of it, as a forked child does: what its parent has opened is its parent's to stop."""
        self._lock = threading.Lock()
        self._open: dict[int, Stoppable] = {}
        self._is_waiting = False

    def add(self, sandbox: Stoppable) -> None:
        """Have something stopped when the process ends, and keep it until then or until it is removed."""
        with self._lock:
            self._open[id(sandbox)] = sandbox
            if not self._is_waiting:
                threading.Thread(target=self._wait, name="actbox-stop-at-exit", daemon=False).start()
                self._is_waiting = True

    def remove(self, sandbox: Stoppable) -> None:
        """Keep it no more: it is stopped."""
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
"""Have something stopped when the process ends; it is kept until then, or until `stopped`."""
stopped = _open.remove
"""Take back `stop_at_exit`."""
