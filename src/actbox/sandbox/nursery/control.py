"""Pid 1's end of its socket to the host: requests with descriptors come in, facts about the sandbox go out.

Datagrams of JSON over `SOCK_SEQPACKET`. Nothing in the sandbox but pid 1 has it.
"""

from __future__ import annotations

import errno
import json
import os
import socket

from .datagrams import receive, send

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple


class Control:
    """Takes requests from the host and tells it facts."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._socket = socket.socket(fileno=descriptor)

    def receive(self) -> Optional[Tuple[Dict[str, Any], List[int]]]:
        """Return the next request and the descriptors beside it; `None` when the host has let go of this sandbox."""
        data, descriptors = receive(self._socket)
        return (json.loads(data), descriptors) if data else None

    def say(self, fact: Dict[str, Any], descriptors: Optional[List[int]] = None) -> None:
        """Tell the host a fact. It reads them when it wants to, at the latest at the end; later ones win.

        Raises `OSError` where the descriptors beside it cannot be sent now; see `send`.
        """
        try:
            send(self._socket, fact, descriptors or [])
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise
            os._exit(1)  # nobody is left to be told
