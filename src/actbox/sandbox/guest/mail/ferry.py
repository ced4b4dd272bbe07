"""Moves a channel's bytes between a socket and a post, in two threads, whatever the other end of the socket does."""

from __future__ import annotations

import select
import socket
import threading
from collections import deque

from .posts import Post, PostFailed

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Deque, Tuple

# So much waits to be sent, above which nothing more should be read from the guest.
_MOST_WAITING = 4 * 2**20


class Ferry:
    """Sends to a post what it is given, and writes to a socket what comes from there.

    With `sends` false something else takes what goes out. `on_failure` is called once, by one of the threads, when
    nothing is moved any more.
    """

    def __init__(self, post: Post, sock: socket.socket, sends: bool, on_failure: Callable[[PostFailed], None]) -> None:
        self._post = post
        self._sock = sock
        self._on_failure = on_failure
        self._waiting: Deque[bytes] = deque()
        self._waiting_bytes = 0
        self._taken = 0
        """How many bytes the host has had."""
        self._under_way = b""
        self._change = threading.Condition()
        self._failed = False
        for work in (self._send_all, self._receive_all) if sends else (self._receive_all,):
            threading.Thread(target=self._until_it_fails, args=(work,), daemon=True).start()

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be sent that the guest should wait too."""
        return self._waiting_bytes >= _MOST_WAITING

    def send(self, data: bytes) -> None:
        """Have bytes sent, some time."""
        with self._change:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self._change.notify()

    def rest(self) -> Tuple[int, bytes]:
        """Return what the host may not have had, and how many bytes went before that."""
        with self._change:
            return self._taken, self._under_way + b"".join(self._waiting)

    def _send_all(self) -> None:
        number = 0
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting)
                self._under_way = self._next_piece()
            number += 1
            self._post.send(number, self._under_way)
            with self._change:
                self._taken += len(self._under_way)
                self._under_way = b""

    def _next_piece(self) -> bytes:
        parts = []
        room = self._post.piece_bytes
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
        piece = self._post.receive(number)
        while piece is not None:
            write_all(self._sock, piece)
            number += 1
            piece = self._post.receive(number)

    def _until_it_fails(self, work: Callable[[], None]) -> None:
        try:
            work()
        except PostFailed as error:
            with self._change:
                is_first, self._failed = not self._failed, True
            if is_first:
                self._on_failure(error)


def write_all(sock: socket.socket, data: bytes) -> None:
    """Write to a socket that need not block, and wait for whoever reads; if nobody does any more, let it go."""
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
