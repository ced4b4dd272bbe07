"""Moves a channel's bytes between a socket and a `Transport`, in two threads."""

from __future__ import annotations

import select
import socket
import threading
from collections import deque

from .transport import Transport, TransportFailed

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Deque, Tuple

# While more than this waits to be sent, nothing more should be read from the guest.
_MOST_WAITING = 4 * 2**20


class Relay:
    """Sends data to a transport, and writes data from the transport to a socket.

    With `sends` false, outgoing data is sent by other means. `on_failure` is called once, by one of the threads, when
    nothing can be moved any more.
    """

    def __init__(
        self, transport: Transport, sock: socket.socket, sends: bool, on_failure: Callable[[TransportFailed], None]
    ) -> None:
        self._transport = transport
        self._sock = sock
        self._on_failure = on_failure
        self._waiting: Deque[bytes] = deque()
        self._waiting_bytes = 0
        self._received = 0
        """The number of bytes that the host has received."""
        self._under_way = b""
        self._change = threading.Condition()
        self._failed = False
        for work in (self._send_all, self._receive_all) if sends else (self._receive_all,):
            threading.Thread(target=self._until_it_fails, args=(work,), daemon=True).start()

    @property
    def is_full(self) -> bool:
        """True if so much waits to be sent that the guest should wait too."""
        return self._waiting_bytes >= _MOST_WAITING

    def send(self, data: bytes) -> None:
        """Queue bytes to be sent."""
        with self._change:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self._change.notify()

    def rest(self) -> Tuple[int, bytes]:
        """Return the position of the first byte that the host may not have, and the data from there."""
        with self._change:
            return self._received, self._under_way + b"".join(self._waiting)

    def _send_all(self) -> None:
        number = 0
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting)
                self._under_way = self._next_piece()
            number += 1
            self._transport.send(number, self._under_way)
            with self._change:
                self._received += len(self._under_way)
                self._under_way = b""

    def _next_piece(self) -> bytes:
        parts = []
        room = self._transport.piece_bytes
        while self._waiting and room:
            part = self._waiting.popleft()
            parts.append(part[:room])
            if len(part) > room:
                self._waiting.appendleft(part[room:])
            room -= len(parts[-1])
            self._waiting_bytes -= len(parts[-1])
        return b"".join(parts)

    def _receive_all(self) -> None:
        number = 1
        piece = self._transport.receive(number)
        while piece is not None:
            write_all(self._sock, piece)
            number += 1
            piece = self._transport.receive(number)

    def _until_it_fails(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TransportFailed as error:
            with self._change:
                is_first, self._failed = not self._failed, True
            if is_first:
                self._on_failure(error)


def write_all(sock: socket.socket, data: bytes) -> None:
    """Write to a socket that may be non-blocking, waiting for the reader; if the reader is gone, drop the data."""
    view = memoryview(data)
    writable = select.poll()
    writable.register(sock, select.POLLOUT)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            writable.poll()
        except OSError:
            return
