"""Worker processes that wait for programs, shared by all sandboxes of this process.

A worker whose program has ended gets an instance for the next one, made for the same directories and limits while
nobody waits for it. If programs come faster, there are more workers, up to the number of processors. All workers end
when no sandbox has been open for a while.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Final

from actbox.core.after_fork import in_a_forked_child
from actbox.core.errors import SandboxUnavailable

from .runtime import Runtime, runtime
from .worker import Design, Worker

_log = logging.getLogger("actbox")

LINGER_SECONDS: Final = 5.0
"""The seconds that workers stay without an open sandbox: starting one takes as long as some hundred programs."""


class WorkerPool:
    """The waiting workers. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._sandboxes = 0
        self._starting = 0
        self._timer: threading.Timer | None = None
        self._runtime: Runtime | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None]] | None = None

    def enter(self) -> None:
        """Count an open sandbox, and start a worker for it. Blocks. Raises `SandboxUnavailable`."""
        ready = runtime()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            first = self._runtime is None
            self._runtime = ready
            if first:
                self._idle.append(ready.first_worker)
                # Registered later than the removal of the directory, and so called before it: living workers would add
                # files meanwhile, and could not remove them themselves once they are killed.
                atexit.register(self._end_at_exit, os.getpid())
            wants_one = not self._idle
            self._sandboxes += 1
        if wants_one:
            try:
                worker = Worker(ready.folder)
            except SandboxUnavailable:
                self.leave()
                raise
            with self._lock:
                self._idle.append(worker)

    def leave(self) -> None:
        """Count a stopped sandbox."""
        with self._lock:
            self._sandboxes -= 1
            if not self._sandboxes and self._timer is None:
                self._timer = threading.Timer(LINGER_SECONDS, self._end_unused)
                self._timer.daemon = True
                self._timer.start()

    def prepare(self, design: Design) -> None:
        """Have an instance of this design made, if a worker has none yet."""
        with self._lock:
            worker = next((worker for worker in self._idle if worker.key is None), None)
        if worker is not None:
            self._do(lambda: self._prepare(worker, design))

    def at_hand(self, design: Design) -> Worker | None:
        """Return a worker whose instance of this design is ready, or `None`; does not block."""
        key = design.key()
        with self._lock:
            for place, worker in enumerate(self._idle):
                if worker.key == key and worker.ready and worker.alive:
                    return self._idle.pop(place)
        return None

    def take(self, design: Design) -> Worker:
        """Return a worker with an instance of this design. Blocks. Raises `SandboxUnavailable`, `OSError`."""
        ready, key = runtime(), design.key()
        with self._lock:
            for dead in [worker for worker in self._idle if not worker.alive]:
                self._idle.remove(dead)
                self._do(dead.end)
            place = next((n for n, worker in enumerate(self._idle) if worker.key == key), None)
            if place is not None and len(self._idle) + self._starting < (os.cpu_count() or 1):
                self._starting += 1
                self._do(lambda: self._add(design))
            if place is None:
                place = next((n for n, worker in enumerate(self._idle) if worker.key is None), 0)
            worker = self._idle.pop(place) if self._idle else None
        if worker is None:
            worker = Worker(ready.folder)
        with worker.preparing:
            if worker.key != key:
                worker.open(design)
        return worker

    def give(self, worker: Worker, design: Design) -> None:
        """Take back a worker whose program has ended, and prepare it for another one of this design."""
        with self._lock:
            self._idle.append(worker)
        self._do(lambda: self._prepare(worker, design))

    def replace(self, design: Design) -> None:
        """Start a worker in place of a killed one, unless there are others."""
        with self._lock:
            if self._idle or self._starting:
                return
            self._starting += 1
        self._do(lambda: self._add(design))

    def forget(self, folder: str) -> None:
        """End the instances that see this directory. Blocks."""
        with self._lock:
            concerned = [worker for worker in self._idle if worker.sees(folder)]
        for worker in concerned:
            with worker.preparing:
                with self._lock:
                    is_idle = worker in self._idle
                if is_idle and worker.sees(folder):
                    worker.drop()

    def end(self) -> None:
        """Kill all waiting workers. Blocks."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            with worker.preparing:
                worker.end()

    def _end_at_exit(self, process: int) -> None:
        if os.getpid() == process:  # in a forked child the workers are its parent's
            self.end()

    # Done in a thread, while nobody waits

    def _do(self, job: Callable[[], None]) -> None:
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(self._jobs,), name="wasm-pool", daemon=True).start()
        self._jobs.put(job)

    def _work(self, jobs: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            job = jobs.get()
            try:
                job()
            except Exception:  # the next caller then starts a worker
                _log.exception("a worker could not be made ready")

    def _prepare(self, worker: Worker, design: Design) -> None:
        with worker.preparing:
            with self._lock:
                if worker not in self._idle:  # another caller has taken it already
                    return
                if len(self._idle) > (os.cpu_count() or 1) or not worker.alive:
                    self._idle.remove(worker)
            try:
                if worker in self._idle:
                    worker.open(design)
                else:
                    worker.end()
            except OSError:  # such as a directory that was removed with its sandbox
                worker.drop()

    def _add(self, design: Design) -> None:
        try:
            worker = Worker(runtime().folder)
        except SandboxUnavailable:  # the next caller gets the error
            return
        finally:
            with self._lock:
                self._starting -= 1
        with self._lock:
            self._idle.append(worker)
        self._prepare(worker, design)

    def _end_unused(self) -> None:
        with self._lock:
            self._timer = None
            if self._sandboxes:
                return
        self.end()


_pool = WorkerPool()


def worker_pool() -> WorkerPool:
    """Return this process's worker pool."""
    return _pool


def _forget() -> None:
    global _pool
    _pool = WorkerPool()


in_a_forked_child(_forget)
