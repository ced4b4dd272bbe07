"""The listening sockets of a lane's network, as the host keeps them: each run of the lane has a gate of its own there.

Pid 1 listens once, when the lane begins. A lane goes on only after a run that sent no packet, so the sockets hold
nothing when the next run begins: no connection waits to be accepted, and no datagram to be read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from .descriptors import close_all, each_or_none

if TYPE_CHECKING:
    from actbox.sandbox.egress.gate import Gate


class LaneSockets:
    """Listening sockets, and the gate of the run under way. Methods may be called from any thread."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        """`fail` ends the lane, with the reason for the run under way."""
        self._fail = fail
        self._lock = threading.Lock()
        self._sockets: list[int] = []
        self._gate: Gate | None = None
        self._closed = False

    def open_soon(self, descriptors: list[int]) -> None:
        """Take over the sockets, which pid 1 has made, and have the gate of the run under way serve them."""
        with self._lock:
            if self._closed:
                close_all(descriptors)
                return
            self._sockets = descriptors
            self._open()

    def serve(self, gate: Gate) -> None:
        """Have a gate serve copies of the sockets, as soon as there are any. The gate of the last run is closed."""
        with self._lock:
            self._gate = gate
            self._open()

    def close(self) -> None:
        """Close the sockets; gates close their own copies."""
        with self._lock:
            self._closed = True
            self._gate = None
            sockets, self._sockets = self._sockets, []
        close_all(sockets)

    def leave_to_parent(self) -> None:
        """In a forked process, close the sockets, which belong to the parent."""
        self._lock = threading.Lock()
        self.close()

    def _open(self) -> None:
        if self._gate is None or not self._sockets:
            return
        try:
            copies = each_or_none(os.dup, self._sockets)
        except OSError as error:
            self._fail(f"the program's network could not be opened: {error.strerror}")
        else:
            self._gate.open_soon(copies)
