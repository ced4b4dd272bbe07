"""`LentSocket`: the socket of a link, lent to a thread that receives and sends whole messages in place of the link."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable

from actbox.sandbox.guest.spin import Spin
from actbox.sandbox.guest.wire import ProtocolError

_READ_BYTES = 64 * 1024


class LentSocket:
    """A link's socket while a thread has it: until the thread leaves something to the link, or the link takes it back.

    Each step of the thread with the socket holds the lock. So the event loop takes it back between two steps only, and
    closes no descriptor that the thread is about to use.
    """

    def __init__(self, sock: socket.socket, read: Callable[[int], bytes], spin: Spin) -> None:
        self._sock = sock
        self._read = read
        self._spin = spin
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._received = b""
        self._unsent = b""
        """The bytes that the thread left to the link: received and not handled, and the rest of an answer."""
        self.is_back = False
        """True once the thread must not use the socket any more."""
        self.broken: ProtocolError | None = None
        """The error that the thread met, for which the link ends the guest."""

    def receive(self, seconds: float, take: Callable[[bytes], bool]) -> bool:
        """Wait for data and return whether `take` took it. If not, the link has the socket, and the data.

        Called in the thread.
        """
        taken = False

        def look() -> bool:
            nonlocal taken
            with self._lock:
                if self.is_back:
                    return True
                try:
                    data = self._read(_READ_BYTES)
                except (BlockingIOError, InterruptedError):
                    return False
                except OSError:  # which the link meets too
                    data = b""
                except ProtocolError as error:
                    self.broken, data = error, b""
                taken = bool(data) and take(data)
                if not taken:
                    self._received = data
                    self.is_back = True
            return True

        if not self._spin.until(look) and self._readable.poll(seconds * 1000):
            look()
        if not taken:
            self.is_back = True
        return taken

    def send(self, frame: bytes, spend: Callable[[int], bool]) -> bool:
        """Send the answer to the only call under way, what has no room by way of the link; return whether it was sent.

        Otherwise the link has the socket: because the guest has sent another message while this one was made, or
        because `spend` refuses the answer's size. Called in the thread.
        """
        with self._lock:
            if self.is_back or self._readable.poll(0) or not spend(len(frame)):
                self.is_back = True
                return False
            try:
                self._unsent = frame[self._sock.send(frame) :]
            except OSError:  # there is no room; any other error the link meets too
                self._unsent = frame
            self.is_back = bool(self._unsent)
        return True

    def take_back(self) -> tuple[bytes, bytes] | None:
        """Take the socket from the thread, once; return the bytes that it left to be sent, and those to be handled.

        Returns `None` in a forked child of the process: the socket is the parent's, which has the thread.
        """
        if os.getpid() != self._process:
            return None
        with self._lock:
            self.is_back = True
            return self._unsent, self._received
