"""Worker threads for sync tools.

`concurrent.futures` is not used: the interpreter waits for its threads at exit, so a tool that never returns would keep
the host from ending. These are daemon threads, and a call whose caller is gone is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from actbox.core.after_fork import in_a_forked_child

P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS = 64
"""The number of calls that run at once; further calls wait their turn."""
MAX_DROPPED_THREADS = 4 * MAX_THREADS
"""The number of dropped calls that may still run beside those. Beyond it, a dropped call keeps its place until it
ends.
"""
IDLE_SECONDS = 10.0


def run_in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
    """Call a function in a worker thread, with this task's context variables, and return what it returns.

    Calls start in the order in which they were made. If the waiting task is cancelled, a call that has not started
    never does; one that runs goes on, as no thread can be stopped, and its result is dropped.
    """
    return _pool.run(function, *args, **kwargs)


def is_wanted() -> bool:
    """Return True if a call waits for one of the threads that `run_in_thread` uses, so that none should idle."""
    return _pool.is_wanted


def is_dropped() -> bool:
    """Return True if this thread runs a call whose caller was cancelled, so that long work may end early."""
    job = getattr(_current, "job", None)
    return job is not None and job.dropped


_current = threading.local()
_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


class ThreadPool:
    """A pool of daemon threads that are reused while there is work and end when there is none."""

    def __init__(
        self,
        limit: int = MAX_THREADS,
        idle_seconds: float = IDLE_SECONDS,
        dropped_limit: int = MAX_DROPPED_THREADS,
        *,
        name: str = "actbox-tool",
    ) -> None:
        """`name` is the name of each thread."""
        self._name = name
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._dropped_limit = dropped_limit
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._threads = 0
        self._dropped = 0
        # Idle threads minus queued jobs: negative while calls wait for a thread.
        self._free = 0

    @property
    def threads(self) -> int:
        """The number of threads in the pool, idle or busy, without those that still run a dropped call."""
        return self._threads

    @property
    def is_wanted(self) -> bool:
        """True if a call waits for a thread of the pool."""
        return self._free < 0

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread of this pool; see `run_in_thread`."""
        loop = asyncio.get_running_loop()
        job = _Job(loop, loop.create_future(), contextvars.copy_context(), function, args, kwargs)
        self._submit(job)
        try:
            value, error = await job.future
        except asyncio.CancelledError:
            self._drop(job)
            raise
        if error is None:
            return value  # type: ignore[no-any-return]
        try:
            if isinstance(error, StopIteration):
                # A coroutine cannot raise StopIteration: Python would read it as the coroutine's own end.
                raise RuntimeError("the function raised StopIteration") from error
            raise error
        finally:
            del error  # the traceback holds this frame: break the cycle

    def _submit(self, job: _Job) -> None:
        with self._lock:
            self._free -= 1
            try:
                self._start_if_needed()
            except RuntimeError:  # the machine has no more threads: wait for one of the pool's, if there is one
                if not self._threads:
                    self._free += 1
                    raise
            self._jobs.put(job)

    def _start_if_needed(self) -> None:
        if self._free < 0 and self._threads < self._limit:
            threading.Thread(target=self._work, args=(self._jobs,), name=self._name, daemon=True).start()
            self._threads += 1
            self._free += 1

    def _drop(self, job: _Job) -> None:
        with self._lock:
            job.dropped = True
            if job.running and self._dropped < self._dropped_limit:
                # The dropped call's thread may never return: start another thread in its place.
                job.left_pool = True
                self._dropped += 1
                self._threads -= 1
                try:
                    self._start_if_needed()
                except RuntimeError:
                    return  # no more threads on this machine now; the next call tries again

    def _work(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = jobs.get(timeout=self._idle_seconds)
            except queue.Empty:
                with self._lock:
                    if self._free > 0:
                        self._free -= 1
                        self._threads -= 1
                        return
                continue  # a job was queued for this thread in the meantime
            with self._lock:
                job.running = not job.dropped
            if job.running:
                job.execute()
            with self._lock:
                job.running = False
                if job.left_pool:
                    self._dropped -= 1
                    return
                self._free += 1
            del job  # else an idle thread would keep the arguments and the result alive


class _Job:
    __slots__ = ("args", "context", "dropped", "function", "future", "kwargs", "left_pool", "loop", "running")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[tuple[Any, BaseException | None]],
        context: contextvars.Context,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.loop = loop
        self.future = future
        self.context = context
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.running = False
        self.dropped = False
        self.left_pool = False

    def execute(self) -> None:
        value: Any = None
        error: BaseException | None = None
        _current.job = self
        try:
            value = self.context.run(self.function, *self.args, **self.kwargs)
        except BaseException as raised:
            # Any exception belongs to the waiting task, not to this thread.
            error = raised
        finally:
            _current.job = None
        try:
            self.loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:  # the loop is closed, so nobody waits any more
            return

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if not self.future.done():
            self.future.set_result((value, error))


def _reset_all() -> None:
    for pool in _pools:
        pool._reset()


# A forked child has none of its parent's threads.
in_a_forked_child(_reset_all)
_pool = ThreadPool()
