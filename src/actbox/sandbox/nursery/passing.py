"""Passes descriptors to other processes (`SCM_RIGHTS`), also beside JSON, and while guests keep many in transit.

A JSON message is one datagram of a `SOCK_SEQPACKET` socket.

The kernel counts descriptors in transit by user, over all processes, and refuses a sender while there are more of them
than the sender may itself have open (`RLIMIT_NOFILE`). Guests share a user with each other and perhaps with the host,
so any guest can use that up. But a guest may have at most half as many open as a host process could; so our sender,
when refused, raises its limit for the moment and sends again.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import resource
import socket
import threading

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    import mmap
    from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

MAX_BYTES = 256 * 1024
# The kernel passes at most 253 descriptors in one message.
MAX_DESCRIPTORS = 250
_SO_PASSRIGHTS = 83  # since Linux 6.16
# As plain numbers: the operators of `enum` are several calls each.
_CLOSE_ON_EXEC, _LOST = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_CTRUNC)
_raising = threading.Lock()


def send_with(sock: socket.socket, data: bytes, descriptors: Sequence[int]) -> int:
    """Send bytes with descriptors attached to the first of them; return the number of bytes sent.

    Raises `OSError`; ETOOMANYREFS if more descriptors are in transit than this process could ever have open.
    """
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        return sock.sendmsg([data], rights)
    except OSError as error:
        if error.errno != errno.ETOOMANYREFS:
            raise
        with _raised_limit():
            return sock.sendmsg([data], rights)


def refuse_descriptors(sock: socket.socket) -> None:
    """Have the kernel refuse descriptors that are sent to a socket, which an older kernel (before 6.16) cannot.

    Descriptors that come unasked are closed by whoever reads, and some take long to close. For older kernels see
    `channel/unasked_descriptors.py`.
    """
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise


def most_open_in_guest() -> int:
    """Return the most descriptors that a guest may have open: half of this process's hard limit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2


@contextlib.contextmanager
def _raised_limit() -> Iterator[None]:
    with _raising:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class DescriptorsLost(OSError):
    """Raised for a datagram whose descriptors could not all be received, because too many are open; none is kept."""

    def __init__(self) -> None:
        super().__init__(errno.EMFILE, os.strerror(errno.EMFILE))


def receive(sock: socket.socket, flags: int = 0, room: Optional[mmap.mmap] = None) -> Tuple[bytes, List[int]]:
    """Receive one datagram and its descriptors, which are close-on-exec; the data is empty at the end of the stream.

    `flags` are those of recvmsg(2), such as `MSG_DONTWAIT`. The datagram is read into `room`, if given, which holds at
    least `MAX_BYTES`, and copied from there; a larger room takes a longer datagram. Raises `OSError`, and
    `DescriptorsLost` for a datagram that was consumed but lost its descriptors.
    """
    descriptors = array.array("i")
    space, flags = socket.CMSG_SPACE(MAX_DESCRIPTORS * descriptors.itemsize), _CLOSE_ON_EXEC | int(flags)
    try:
        if room is None:
            data, ancillary, flags, _ = sock.recvmsg(MAX_BYTES, space, flags)
        else:
            size, ancillary, flags, _ = sock.recvmsg_into((room,), space, flags)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        if room is not None:
            data = room[:size]
    except BaseException:  # such as for lack of memory, or of a signal's handler
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    if flags & _LOST:
        for descriptor in descriptors:
            os.close(descriptor)
        raise DescriptorsLost()
    return data, list(descriptors)


def send(sock: socket.socket, message: Dict[str, Any], descriptors: List[int]) -> None:
    """Send one datagram with descriptors. Raises `OSError`, as `send_with` does."""
    data = json.dumps(message).encode()
    if descriptors:
        send_with(sock, data, descriptors)
    else:
        sock.send(data)
