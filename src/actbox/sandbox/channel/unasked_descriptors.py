"""Descriptors that a guest sends by its channel: the event loop must not close them, as some take long to close.

A newer kernel refuses them at the guest's `sendmsg` (`refuse_descriptors`). An older one drops them in the thread that
reads without room for them, or that closes the socket before they are read. There the host receives them, closes them
in a thread of their own, and ends the guest.
"""

from __future__ import annotations

import array
import contextlib
import functools
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from actbox.sandbox import reading
from actbox.sandbox.guest.wire import ProtocolError
from actbox.sandbox.nursery.passing import refuse_descriptors

_Close = Callable[[], None]

# The kernel passes at most 253 descriptors in one message (`SCM_MAX_FD`).
_ROOM: Final = socket.CMSG_SPACE(253 * array.array("i").itemsize)
_to_close: Final[deque[_Close]] = deque()


@functools.cache
def kernel_refuses() -> bool:
    """Return True if the kernel refuses descriptors that are sent to a socket which `refuse_descriptors` was given.

    The answer comes from an attempt, since a kernel may accept an option that it does not know.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        refuse_descriptors(ours)
        try:
            socket.send_fds(theirs, [b"x"], [theirs.fileno()])
        except PermissionError:
            return True
        except OSError:  # too many descriptors are in transit, so they are not refused for being descriptors
            return False
        return False


def reader_of(sock: socket.socket) -> Callable[[int], bytes]:
    """Return the function that reads at most so many bytes from the host's end of a channel.

    `refuse_descriptors` was given the socket. The function raises `OSError`, and `ProtocolError` for descriptors.
    """
    if kernel_refuses():
        return functools.partial(reading.receive, sock)
    _read_all_inline(sock)
    return functools.partial(_read, sock)


def close_channel(sock: socket.socket) -> None:
    """Close the host's end of a channel; in another thread if unread descriptors may be in it, or may still come.

    In a forked child this leaves the socket as it is for the parent.
    """
    if kernel_refuses() or sock.fileno() < 0 or _is_at_end(sock):
        sock.close()
    else:
        _close_apart(sock.close)


def _is_at_end(sock: socket.socket) -> bool:
    """Return True if the guest's end is closed, and everything read that was sent."""
    _read_all_inline(sock)
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _read_all_inline(sock: socket.socket) -> None:
    """Read also bytes sent out of band: the kernel skips them otherwise, and drops their descriptors in this thread."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)


def _read(sock: socket.socket, count: int) -> bytes:
    room = reading.room()
    size, ancillary, flags, _ = sock.recvmsg_into((memoryview(room)[:count],), _ROOM, socket.MSG_CMSG_CLOEXEC)
    if not ancillary and not flags & socket.MSG_CTRUNC:
        return room[:size]
    descriptors = array.array("i")
    for _, _, content in ancillary:
        descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    _close_apart(functools.partial(_close_all, descriptors))
    raise ProtocolError("descriptors, which no message may carry")


def _close_all(descriptors: array.array[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # such as of a file system; the descriptor is closed nevertheless
            os.close(descriptor)


def _close_apart(close: _Close) -> None:
    """Call a function in a thread of its own."""
    _to_close.append(close)
    with contextlib.suppress(RuntimeError):  # no thread can be started now: the next one calls this function too
        threading.Thread(target=_close_waiting, name="actbox-close", daemon=True).start()


def _close_waiting() -> None:
    with contextlib.suppress(IndexError):  # another thread took it
        while _to_close:
            _to_close.popleft()()
