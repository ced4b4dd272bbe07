"""A pool of containers that a sandbox and its siblings reuse, emptied in between."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from actbox.core.after_fork import Owner
from actbox.core.errors import SandboxUnavailable

from .container import Container

MOST_SPARE: Final = 8
SPARE_SECONDS: Final = 1.0


class ContainerPool:
    """The unused containers. All methods block, and may be called from any thread."""

    def __init__(self, make: Callable[[], Container]) -> None:
        self._make = make
        self._begin()

    def _begin(self) -> None:
        self._owner = Owner()
        self._lock = threading.Lock()
        self._clearing = threading.Lock()
        self._spare: list[Container] = []
        self._timer: threading.Timer | None = None

    def _leave_to_parent(self) -> None:
        """In a forked child, forget the parent's containers."""
        if not self._owner.is_here:
            self._begin()

    def take(self) -> Container:
        """Return a container that is new, or emptied. Raises `SandboxUnavailable`."""
        self._leave_to_parent()
        with self._lock:
            container = self._spare.pop() if self._spare else None
        return container or self._make()

    def give_back(self, container: Container) -> None:
        """Empty a container for the next user, or remove it."""
        self._leave_to_parent()
        with contextlib.suppress(OSError, SandboxUnavailable):  # a container that cannot be emptied is unusable
            if container.live_agent is not None:
                container.empty()
                with self._lock:
                    if len(self._spare) < MOST_SPARE:
                        self._spare.append(container)
                        self._wait()
                        return
        container.remove()

    def _wait(self) -> None:
        """Remove the containers after some time in which none was given back."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(SPARE_SECONDS, self.clear)
        self._timer.daemon = True
        self._timer.start()

    def clear(self) -> None:
        """Remove all containers, and wait for those that another thread is removing."""
        self._leave_to_parent()
        with self._clearing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                spare, self._spare = self._spare, []
            for container in spare:
                container.remove()
