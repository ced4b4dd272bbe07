"""A thread that waits for sandboxes to end, so that no run has to.

Each sandbox is held by a pidfd of its pid 1, which becomes readable when pid 1, and so everything in its pid namespace,
has ended. The work after that (reading how it ended, removing its control group) may block for some milliseconds and
is done in this thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import threading
from collections.abc import Callable

_log = logging.getLogger("actbox")


class Reaper:
    """Calls a function, in its own thread, when a process has ended."""

    def __init__(self) -> None:
        """Start the thread. Raises `OSError`, and `RuntimeError` if the process may have no more threads."""
        self._polled: list[int] = []
        """Descriptors that `poll` watches, because this user may have no more epoll watches."""
        self._calls: dict[int, Callable[[], None]] = {}
        self._listeners: dict[int, Callable[[], bool]] = {}
        self._forgotten: set[int] = set()
        with contextlib.ExitStack() as undo:
            self._epoll = select.epoll()
            undo.callback(self._epoll.close)
            self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            undo.callback(os.close, self._woken)
            self._register(self._woken)
            threading.Thread(target=self._serve, name="actbox-reaper", daemon=True).start()
            undo.pop_all()

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call `ready` once, as soon as the descriptor has something to read: a pidfd has when its process has ended.

        A call for a descriptor that is watched already takes the place of the earlier one.
        """
        self._calls[descriptor] = ready
        self._register(descriptor)

    def listen(self, descriptor: int, ready: Callable[[], bool]) -> None:
        """Call `ready` whenever the descriptor has data to read, until it returns false."""
        self._listeners[descriptor] = ready
        self._register(descriptor)

    def forget(self, descriptor: int) -> None:
        """Call no function for a descriptor, which the caller then closes. Call it in the reaper's thread only."""
        if self._listeners.pop(descriptor, None) is not None or self._calls.pop(descriptor, None) is not None:
            self._unregister(descriptor)
            self._forgotten.add(descriptor)

    def _register(self, descriptor: int) -> None:
        if descriptor in self._polled:
            return
        try:
            self._epoll.register(descriptor, select.EPOLLIN)
        except FileExistsError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM):
                self._calls.pop(descriptor, None)
                self._listeners.pop(descriptor, None)
                raise
            self._polled.append(descriptor)
            os.eventfd_write(self._woken, 1)

    def _unregister(self, descriptor: int) -> None:
        if descriptor in self._polled:
            self._polled.remove(descriptor)
        else:
            self._epoll.unregister(descriptor)

    def _wait(self) -> list[int]:
        """Wait for events; return the descriptors that are ready."""
        if not self._polled:
            ready = self._epoll.poll()
        else:
            poll = select.poll()
            for descriptor in (self._epoll.fileno(), self._woken, *self._polled):
                poll.register(descriptor, select.POLLIN)
            ready = [*poll.poll(), *self._epoll.poll(0)]
        descriptors = [descriptor for descriptor, _ in ready]
        if self._woken in descriptors:
            os.eventfd_read(self._woken)
        return descriptors

    def _serve(self) -> None:
        while True:
            self._forgotten.clear()
            for descriptor in self._wait():
                if descriptor in self._forgotten:  # closed a moment ago: its number may be another's by now
                    continue
                try:
                    self._deal_with(descriptor)
                except Exception:  # other processes must be reaped all the same
                    _log.exception("the end of a sandbox could not be dealt with")
                    self.forget(descriptor)

    def _deal_with(self, descriptor: int) -> None:
        listener = self._listeners.get(descriptor)
        if listener is not None:
            if not listener():
                self.forget(descriptor)
        elif descriptor in self._calls:
            self._unregister(descriptor)
            self._calls.pop(descriptor)()


_reaper: Reaper | None = None
_making = threading.Lock()


def reaper() -> Reaper:
    """Return this process's reaper."""
    global _reaper
    if _reaper is None:
        with _making:
            _reaper = _reaper or Reaper()
    return _reaper


def _forget() -> None:
    global _reaper, _making
    _making = threading.Lock()
    if _reaper is not None:
        os.close(_reaper._epoll.fileno())  # the parent's epoll; its thread does not exist in this process
        os.close(_reaper._woken)
        _reaper = None


os.register_at_fork(after_in_child=_forget)
