"""How a run ended: by itself, by an enforcer of its limits, or by a decision of the host."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from actbox.core.errors import ErrorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a guest's first process ended. `limit` names the field of `Limits` whose enforcer ended or hindered it."""

    exit_code: int | None = None
    signal: int | None = None
    limit: str = ""
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    failure: str = ""
    """Set where the sandbox itself failed before the program could start."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the host ended a run that had not ended by itself."""

    kind: ErrorKind
    message: str
    limit: str = ""
    hint: str = ""


class End:
    """How something ended, and who waits for that; for any number of threads."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self._lock = threading.Lock()
        self._waiting: list[Callable[[Ending], None]] = []

    def when(self, call: Callable[[Ending], None]) -> None:
        """Call a function once it has ended: in the thread that tells of the end, or here and now."""
        with self._lock:
            if self.ending is None:
                self._waiting.append(call)
                return
        call(self.ending)

    def when_in_loop(self, call: Callable[[Ending], None]) -> None:
        """Call a function in this event loop once it has ended."""
        loop = asyncio.get_running_loop()

        def tell(ending: Ending) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits any more
                loop.call_soon_threadsafe(call, ending)

        self.when(tell)

    def tell(self, ending: Ending) -> None:
        """Say how it ended; the first word counts."""
        with self._lock:
            if self.ending is not None:
                return
            self.ending = ending
            waiting, self._waiting = self._waiting, []
        for call in waiting:
            call(ending)
