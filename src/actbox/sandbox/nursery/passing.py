"""Pass descriptors to other processes (`SCM_RIGHTS`), also while guests leave many underway.

The kernel counts the descriptors that are underway by user, for all processes together, and refuses a process that
sends more while there are more of them than it may itself have open (`RLIMIT_NOFILE`). Guests share a user, with each
other and maybe with the host, so any of them can use that up. But none may have more than half as many open as a host
could; so whoever of ours is refused sends again as what it could be.
"""

from __future__ import annotations

import array
import contextlib
import errno
import resource
import socket
import threading

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Iterator, Sequence

_raising = threading.Lock()


def send_with(sock: socket.socket, data: bytes, descriptors: Sequence[int]) -> int:
    """Send bytes with descriptors beside the first of them; return how many bytes were sent.

    Raises `OSError`; ETOOMANYREFS where more descriptors are underway than this process could ever have open.
    """
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        return sock.sendmsg([data], rights)
    except OSError as error:
        if error.errno != errno.ETOOMANYREFS:
            raise
        with _raised_limit():
            return sock.sendmsg([data], rights)


def most_open_in_guest() -> int:
    """Return how many descriptors a guest may have open at most: half of what this process could raise its limit to."""
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
