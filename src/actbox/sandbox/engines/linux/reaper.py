"""A thread that waits for the ends of sandboxes, so that no run has to.

Each sandbox is held by a descriptor of its pid 1, which becomes readable when that has ended, and with it everything in
its pid namespace. What is to be done then — reading how it ended, removing its control group — may block for some
milliseconds, and happens here.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

_log = logging.getLogger("actbox")


class Reaper:
    """Calls a function, in its own thread, when a process has ended."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], None]] = {}
        self._listeners: dict[int, Callable[[], bool]] = {}
        self._forgotten: set[int] = set()
        threading.Thread(target=self._serve, name="actbox-reaper", daemon=True).start()

    def watch(self, pidfd: int, ended: Callable[[], None]) -> None:
        """Call `ended` when the process of this descriptor has ended; the descriptor is the caller's to close then."""
        self._calls[pidfd] = ended
        self._epoll.register(pidfd, select.EPOLLIN)

    def listen(self, descriptor: int, ready: Callable[[], bool]) -> None:
        """Call `ready` whenever there is something to read, until it returns that there will be no more."""
        self._listeners[descriptor] = ready
        self._epoll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Listen to a descriptor no more, which is then the caller's to close. In the reaper's thread only."""
        if self._listeners.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
            self._forgotten.add(descriptor)

    def _serve(self) -> None:
        while True:
            self._forgotten.clear()
            for descriptor, _ in self._epoll.poll():
                if descriptor in self._forgotten:  # a moment ago: by now the number may mean another
                    continue
                try:
                    self._deal_with(descriptor)
                except Exception:  # whoever comes next must be reaped all the same
                    _log.exception("the end of a sandbox could not be dealt with")
                    self.forget(descriptor)

    def _deal_with(self, descriptor: int) -> None:
        listener = self._listeners.get(descriptor)
        if listener is not None:
            if not listener():
                self.forget(descriptor)
        elif descriptor in self._calls:
            self._epoll.unregister(descriptor)
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
        os.close(_reaper._epoll.fileno())  # the parent's; its thread is not in this process
        _reaper = None


os.register_at_fork(after_in_child=_forget)
