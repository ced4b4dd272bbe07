"""This machine's resolver, called in its own threads, so that a silent name server blocks nothing else."""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from actbox.sandbox.run_slots import Slots

_MOST_THREADS = 32
_AT_ONCE = 4  # for one sandbox, so that its slow names leave threads for other sandboxes

_Lookup = tuple["Future[Sequence[str]]", Callable[[], Sequence[str]]]


class SystemResolver:
    """Resolves a name with this machine's resolver; for one sandbox, whose runs may be in several event loops.

    Raises `OSError` if the name has no addresses. A look-up continues after its caller was cancelled, because the
    system cannot cancel it, and counts against the limit until it is over.
    """

    def __init__(self) -> None:
        self._turns = Slots(_AT_ONCE, tools_wait=True)

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """Return the addresses of a name."""
        await self._turns.acquire()
        try:
            found = _THREADS.run(lambda: _look_up(name, port))
        except BaseException:  # no thread can be started now
            self._turns.release()
            raise
        found.add_done_callback(lambda _: self._turns.release())  # whatever has become of the event loop
        return await asyncio.wrap_future(found)


def _look_up(name: str, port: int) -> Sequence[str]:
    return [str(address[0]) for *_, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


class _Threads:
    """Daemon threads, started when needed: the process can end without waiting for a stuck look-up."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without threads; called again in a fork of the process, which lacks its parent's threads."""
        self._lookups: queue.SimpleQueue[_Lookup] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._under_way = 0

    def run(self, look_up: Callable[[], Sequence[str]]) -> Future[Sequence[str]]:
        future: Future[Sequence[str]] = Future()
        with self._lock:
            self._under_way += 1
            if self._under_way > self._count < _MOST_THREADS:
                threading.Thread(target=self._work, name="actbox-resolver", daemon=True).start()
                self._count += 1
        self._lookups.put((future, look_up))
        return future

    def _work(self) -> None:
        while True:
            future, look_up = self._lookups.get()
            if future.set_running_or_notify_cancel():
                try:
                    found = look_up()
                except Exception as error:  # the caller handles it
                    future.set_exception(error)
                else:
                    future.set_result(found)
            del future
            with self._lock:
                self._under_way -= 1


_THREADS = _Threads()
os.register_at_fork(after_in_child=_THREADS.begin)
