"""Guests whose channel and output go directly to this process: the agent gets their other ends, and carries nothing.

A tool call then goes directly from the guest to the host and back, as in the `linux` engine, and not through two
processes and a thread. The sockets are made ahead, in the connection's thread, after that has entered the sandbox's
network namespace: a socket belongs to the namespace it was made in, and shows its holder the interfaces there.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from actbox.sandbox.channel.unasked_descriptors import close_channel
from actbox.sandbox.guest import frames
from actbox.sandbox.guest_process import file_with, two_pipes
from actbox.sandbox.nursery import linux
from actbox.sandbox.nursery.passing import refuse_descriptors
from actbox.sandbox.run_end import Ending, Stop

from .agent_guest import AgentGuest, ending_of, ending_with_agent
from .connection import Connection

READY: Final = 2
"""The number of guests that wait for a program."""


@dataclass(frozen=True, slots=True)
class Lender:
    """The facts needed to lend an agent descriptors; it is possible for root, at a socket, with the same kernel."""

    process: int
    """The id, on this machine, of a process in the agent's network namespace."""
    user: int
    """The programs' user id on this machine; it owns the pipes of their output, so that they can open /dev/stdout."""


class LentStock:
    """Sets of descriptors lent to the agent ahead, each with a waiting guest."""

    def __init__(self, connection: Connection, lender: Lender) -> None:
        """Raise `OSError` if the namespace cannot be opened."""
        self._connection = connection
        self._lender = lender
        self._namespace = os.open(f"/proc/{lender.process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._waiting: deque[_LentEnds] = deque()
        self._is_inside = False

    def refill(self) -> None:
        """Make sure that guests wait; from any thread."""
        if sum(ends.is_usable for ends in list(self._waiting)) < READY:
            self._connection.soon(self._lend)

    def fill(self) -> None:
        """Do as `refill`, and wait for it; not in the connection's thread."""
        done = threading.Event()

        def lend() -> None:
            try:
                self._lend()
            finally:
                done.set()

        self._connection.soon(lend, done.set)
        done.wait()

    def take(self) -> _LentEnds | None:
        """Return one set, whose place is taken by another before its guest is told to begin; or `None`."""
        while self._waiting:
            ends = self._waiting.popleft()
            if ends.is_usable:
                self._connection.soon(self._lend)
                return ends
            ends.close()
        return None

    def close(self) -> None:
        """Close all sets, once the connection is over."""
        while self._waiting:
            self._waiting.popleft().close()
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1

    def _lend(self) -> None:
        """Do as `refill`, in the connection's thread, which stays in the sandbox's network namespace."""
        if self._connection.is_over:
            return
        if not self._is_inside:
            linux.setns(self._namespace, linux.CLONE_NEWNET)
            self._is_inside = True
        for ends in list(self._waiting):
            if not ends.is_usable:
                with contextlib.suppress(ValueError):  # it was taken just now, and found unusable
                    self._waiting.remove(ends)
                    ends.close()
        with contextlib.suppress(OSError):  # too many are open: the agent carries the next run's data, if it can
            while len(self._waiting) < READY:
                self._waiting.append(_LentEnds(self._connection, self._lender.user))


class LentGuest(AgentGuest):
    """A guest connected directly to this process."""

    def __init__(
        self, ends: _LentEnds, stdin: bytes, watch: Mapping[str, float], memory_ends: Callable[[], int]
    ) -> None:
        """Start the guest, in the event loop that will be told of its end; see `RemoteGuest`. Raises `OSError`."""
        super().__init__(memory_ends)
        self._ends = ends
        self.sock, self.stdout, self.stderr = ends.sock, ends.stdout, ends.stderr
        self.stdin = file_with(stdin) if stdin else -1
        ends.begin(watch, self.end_soon)

    def interrupt(self) -> None:
        self._ends.tell(frames.INTERRUPT)

    def kill(self) -> None:
        self._ends.tell(frames.KILL)


class _LentEnds:
    """Our ends of a guest that waits or runs, as the connection's thread uses them."""

    def __init__(self, connection: Connection, user: int) -> None:
        """Make the ends, and lend the agent the others. Raises `OSError`."""
        self._connection = connection
        self.sock, channel = socket.socketpair()
        try:
            refuse_descriptors(self.sock)
            self.stdout, stdout, self.stderr, stderr = two_pipes()
        except BaseException:
            self.sock.close()
            channel.close()
            raise
        for descriptor in (stdout, stderr):
            os.fchown(descriptor, user, user)
        self._on_end: Callable[[Ending, Stop | None], None] | None = None
        self._ending: tuple[Ending, Stop | None] | None = None
        self._number = connection.add_now(self)
        connection.send(frames.pack(frames.LEND, self._number), [channel.detach(), stdout, stderr])

    @property
    def is_usable(self) -> bool:
        """True if its guest still waits, as far as is known."""
        return self._ending is None

    def begin(self, watch: Mapping[str, float], on_end: Callable[[Ending, Stop | None], None]) -> None:
        """Let the guest start; from any thread. The caller owns the descriptors from now on."""
        request = {"lent": True, "stdin": False, "watch": dict(watch)}

        def begin() -> None:
            self._on_end = on_end
            if self._ending is not None:  # it ended just before
                on_end(*self._ending)
            else:
                self._connection.send(frames.pack_json(frames.OPEN, self._number, request))

        self._connection.soon(begin, lambda: on_end(*ending_with_agent("the agent has ended", False)))

    def tell(self, kind: int) -> None:
        """Have the agent interrupt or end the guest; from any thread."""

        def tell() -> None:
            if self._ending is None:
                self._connection.send(frames.pack(kind, self._number))
                if kind == frames.KILL:
                    self._connection.expect_end(self._number)

        self._connection.soon(tell)

    def close(self) -> None:
        """Close the descriptors, if no run has taken them."""
        close_channel(self.sock)
        os.close(self.stdout)
        os.close(self.stderr)

    # In the connection's thread

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        if kind != frames.ENDED:
            raise frames.FrameError("a frame that a guest with lent descriptors does not have")
        self._connection.forget(self._number)
        self._end(ending_of(payload), None)

    def go_on(self) -> None:
        """Do nothing: there is nothing to send."""

    def lost(self, why: str, broke_rules: bool) -> None:
        """End with the agent."""
        self._end(*ending_with_agent(why, broke_rules))

    def _end(self, ending: Ending, stop: Stop | None) -> None:
        self._ending = ending, stop
        if self._on_end is not None:
            self._on_end(ending, stop)
