"""Daemon threads for calls that block.

The standard library's executor waits for its threads when the interpreter ends. A tool that never returns must not
keep a program from ending, so these threads are our own.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS = 64
IDLE_SECONDS = 10.0

_Job = Callable[[], None]


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, with this task's context variables; return what it returns, raise what it raises.

    Beyond `MAX_THREADS` calls at once, further ones wait their turn. When the awaiting task is cancelled the call goes
    on, as a thread cannot be stopped, and what it returns is dropped; one that had not begun does not begin.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def job() -> None:
        if future.cancelled():
            return
        try:
            value = context.run(function, *args, **kwargs)
        except BaseException as error:
            _tell(loop, future, None, error)
        else:
            _tell(loop, future, value, None)

    _pool.start(job)
    return await future


def _tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: Any, error: BaseException | None
) -> None:
    def finish() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):  # a future cannot carry one
            future.set_exception(RuntimeError(f"StopIteration: {error}"))
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(finish)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


class _Pool:
    """Threads that take jobs in the order in which they came; one is started only when none is idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._threads = 0
        self._free = 0  # idle threads less the jobs that wait for one; below zero when jobs must wait

    def start(self, job: _Job) -> None:
        with self._lock:
            self._free -= 1
            needed = self._free < 0 and self._threads < MAX_THREADS
            if needed:
                self._threads += 1
                self._free += 1
        self._jobs.put(job)
        if needed:
            threading.Thread(target=self._work, name="actbox-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._free <= 0:  # a job has been promised to this thread just now
                        continue
                    self._free -= 1
                    self._threads -= 1
                return
            job()
            del job
            with self._lock:
                self._free += 1


_pool = _Pool()
