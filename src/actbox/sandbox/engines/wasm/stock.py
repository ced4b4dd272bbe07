"""Worker processes that wait for programs, shared by all sandboxes of this process.

A worker whose program has ended gets an instance for the next one at once, made for the same folders and limits. Those
that are not taken go when the last sandbox has been stopped for a while.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Final

from .runtime import Runtime, runtime
from .worker import Design, Worker

LINGER_SECONDS: Final = 5.0
"""How long workers stay when no sandbox is open: to start one takes as long as some hundred programs."""


class Stock:
    """Its methods block, and may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._sandboxes = 0
        self._timer: threading.Timer | None = None
        self._runtime: Runtime | None = None

    def enter(self) -> None:
        """Note that a sandbox is open, and have a worker for it. Raises `SandboxUnavailable`."""
        ready = runtime()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            first = self._runtime is None
            self._runtime = ready
            if first:
                self._idle.append(ready.first_worker)
            wants_one = not self._idle and not self._sandboxes
            self._sandboxes += 1
        if wants_one:
            self.give(Worker(ready.folder))

    def leave(self) -> None:
        """Note that a sandbox was stopped."""
        with self._lock:
            self._sandboxes -= 1
            if not self._sandboxes and self._timer is None:
                self._timer = threading.Timer(LINGER_SECONDS, self._end_idle)
                self._timer.daemon = True
                self._timer.start()

    @property
    def guest(self) -> str:
        """The folder of the compiled guest."""
        return runtime().guest

    def take(self, design: Design) -> Worker:
        """Return a worker with an instance of that design. Raises `SandboxUnavailable`, `OSError`."""
        key = design.key()
        with self._lock:
            self._idle = [worker for worker in self._idle if worker.alive]
            place = next((n for n, worker in enumerate(self._idle) if worker.key == key), None)
            if place is None:
                place = next((n for n, worker in enumerate(self._idle) if worker.key is None), 0)
            worker = self._idle.pop(place) if self._idle else None
        if worker is None:
            worker = Worker(runtime().folder)
        if worker.key != key:
            worker.open(design)
        return worker

    def give(self, worker: Worker, design: Design | None = None) -> None:
        """Take back a worker whose program has ended; with an instance of that design for the next program."""
        if not worker.alive:
            worker.end()
            return
        try:
            if design is None:
                worker.drop()
            else:
                worker.open(design)
        except OSError:  # such as a folder that is gone with its sandbox
            worker.drop()
        with self._lock:
            is_kept = len(self._idle) < 2 * (os.cpu_count() or 1)
            if is_kept:
                self._idle.append(worker)
        if not is_kept:
            worker.end()

    def forget(self, folder: str) -> None:
        """Let go of instances that see this folder."""
        with self._lock:
            concerned = [worker for worker in self._idle if worker.sees(folder)]
            self._idle = [worker for worker in self._idle if worker not in concerned]
        for worker in concerned:
            self.give(worker)

    def end(self) -> None:
        """End all workers that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _end_idle(self) -> None:
        with self._lock:
            self._timer = None
            if self._sandboxes:
                return
        self.end()


_stock = Stock()


def stock() -> Stock:
    """Return this process's stock."""
    return _stock


def _forget() -> None:
    global _stock
    _stock = Stock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _stock.end())
