"""Waits in an event loop until a descriptor is ready, even if the kernel grants this user no more epoll watches.

The kernel counts epoll watches by user, including those of guests (`fs.epoll.max_user_watches`). Once they are used up,
`add_reader` of any event loop raises ENOSPC; then a timer polls the descriptor with `poll`, which needs no watch, until
the caller stops listening.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import select
import socket
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 0.005
"""The polling interval, in seconds, of a descriptor without a watch."""

NOT_LISTENING = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})
"""Errors of a socket that no longer listens.

After any other (no descriptor or memory is left, a client's network is gone) it is worth trying again, `RETRY_SECONDS`
later.
"""
RETRY_SECONDS = 0.1

Removal = Callable[[], object]
"""Stops the callbacks; must be called once, before the descriptor is closed."""


def when_readable(loop: asyncio.AbstractEventLoop, descriptor: int, call: Callable[[], object]) -> Removal:
    """Call a function whenever there is data to read, or the other end is closed."""
    try:
        loop.add_reader(descriptor, call)
    except OSError:
        return _Looks(loop, descriptor, select.POLLIN, call).stop
    return functools.partial(loop.remove_reader, descriptor)


def when_writable(loop: asyncio.AbstractEventLoop, descriptor: int, call: Callable[[], object]) -> Removal:
    """Call a function whenever there is room to write, or the other end is closed."""
    try:
        loop.add_writer(descriptor, call)
    except OSError:
        return _Looks(loop, descriptor, select.POLLOUT, call).stop
    return functools.partial(loop.remove_writer, descriptor)


async def readable(sock: socket.socket) -> None:
    """Wait until there is a connection to accept or a datagram to receive.

    `sock_accept` is not used, because it accepts in a callback of the loop, which may run after the task was cancelled:
    the connection would be lost, and an unrelated error reported to the loop's exception handler.
    """
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    stop_listening = when_readable(loop, sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        stop_listening()


class _Looks:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, events: int, call: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._poll = select.poll()
        self._poll.register(descriptor, events)
        self._call = call
        self._timer: asyncio.TimerHandle | None = loop.call_later(0, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        if self._poll.poll(0):
            self._call()
