"""Pid 1's end of its socket to the host: receives requests with descriptors, sends facts about the sandbox.

The socket is `SOCK_SEQPACKET` with datagrams of JSON. In the sandbox only pid 1 has it.
"""

from __future__ import annotations

import errno
import json
import os
import socket

from .passing import receive, send

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple


class Control:
    """Receives requests from the host and sends it facts."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._socket = socket.socket(fileno=descriptor)

    def receive_now(self) -> Optional[Tuple[Dict[str, Any], List[int]]]:
        """Return the next request and its descriptors, `None` if there is none now. Ends this process with the host."""
        try:
            data, descriptors = receive(self._socket, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        if not data:  # the host has closed the socket; the kernel ends the guest with us
            os._exit(0)
        return json.loads(data), descriptors

    def say(self, fact: Dict[str, Any], descriptors: Optional[List[int]] = None) -> None:
        """Send the host a fact. The host may read it as late as the sandbox's end; later facts override earlier ones.

        Raises `OSError` if the descriptors sent with it cannot be sent now; see `send`.
        """
        try:
            send(self._socket, fact, descriptors or [])
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise
            os._exit(1)  # the host has closed the socket
