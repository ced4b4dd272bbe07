"""Work that is done once for all who ask for it at the same time, in any event loop and thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class _GivenUp(Exception):
    """Raised for those who waited for the work of another caller, which was cancelled."""


class SingleFlight:
    """The work that is under way now, by its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Future[Any]] = {}

    async def do(self, key: Hashable, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do some work and return its result. A caller with the key of work under way waits for that instead.

        Callers that wait get the exceptions of the work too. If its caller is cancelled, one of them does it anew.
        """
        while True:
            with self._lock:
                known: Future[_T] | None = self._under_way.get(key)
                if known is None:
                    mine: Future[_T] = Future()
                    self._under_way[key] = mine
                    break
            try:
                return await asyncio.shield(asyncio.wrap_future(known))
            except _GivenUp:
                continue
        try:
            found = await work()
        except BaseException as error:
            mine.set_exception(error if isinstance(error, Exception) else _GivenUp())
            mine.exception()  # so that nobody is told that it was never retrieved
            raise
        else:
            mine.set_result(found)
            return found
        finally:
            with self._lock:
                del self._under_way[key]
