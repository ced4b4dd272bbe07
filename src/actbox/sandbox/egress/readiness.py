"""When a socket on which others call has something for us."""

from __future__ import annotations

import asyncio
import errno
import socket

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of sockets after which it is worth trying again, `RETRY_SECONDS` later."""
RETRY_SECONDS = 0.1


async def readable(sock: socket.socket) -> None:
    """Wait until there is something to accept or to receive.

    Nothing is accepted by a callback of the loop, as `sock_accept` does, which can come after the task was cancelled:
    the connection would be lost, and the loop's handler of exceptions told of a state that is not ours.
    """
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)
