"""JSON with descriptors beside it, over a `SOCK_SEQPACKET` socket: one message a datagram."""

from __future__ import annotations

import array
import errno
import json
import os
import socket

from .passing import send_with

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

MAX_BYTES = 256 * 1024
# The kernel passes at most 253 in one message.
MAX_DESCRIPTORS = 250


class DescriptorsLost(OSError):
    """A datagram came without all of its descriptors, as this process may have no more open; it has none of them."""

    def __init__(self) -> None:
        super().__init__(errno.EMFILE, os.strerror(errno.EMFILE))


def receive(sock: socket.socket) -> Tuple[bytes, List[int]]:
    """Receive one datagram and the descriptors beside it, which are not inherited by programs; empty at the end.

    Raises `DescriptorsLost` for one that has thereby been taken, and `OSError`.
    """
    descriptors = array.array("i")
    data, ancillary, flags, _ = sock.recvmsg(
        MAX_BYTES, socket.CMSG_SPACE(MAX_DESCRIPTORS * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise DescriptorsLost()
    return data, list(descriptors)


def send(sock: socket.socket, message: Dict[str, Any], descriptors: List[int]) -> None:
    """Send one datagram with descriptors beside it. Raises `OSError`, as `send_with` does."""
    send_with(sock, json.dumps(message).encode(), descriptors)
