"""The agent's line to a keeper: what it is told, and what it says of the end of its guest."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    from .agent import Agent

_ENDED = {"exit_code": None, "signal": None, "limit": "", "cpu_ms": 0.0, "max_rss_bytes": 0, "failure": ""}
# A program has ended its keeper, and with it its guest.
_KILLED = {**_ENDED, "signal": int(signal.SIGKILL)}
_NOT_MADE = {**_ENDED, "failure": "no process could be made for the run: the sandbox has as many as it may have"}


class KeeperLine:
    """The control socket of a keeper. `on_end` is called once, when `ended` has how the guest ended."""

    def __init__(self, agent: Agent, control: socket.socket, on_end: Callable[[], None]) -> None:
        self._agent = agent
        self._control = control
        self._on_end = on_end
        self._words = b""
        self._is_up = False
        self.ended: Optional[Dict[str, Any]] = None
        os.set_blocking(control.fileno(), False)
        agent.watch(control.fileno(), select.POLLIN, lambda events: self._hear())

    def tell(self, message: Dict[str, Any]) -> None:
        """Tell it something; one that has ended does not hear it."""
        with contextlib.suppress(OSError):  # it has ended, which is read where it says so
            self._control.send(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Let go of it: it ends its guest, and itself."""
        self._control.close()

    def _hear(self) -> None:
        try:
            data = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._words = (self._words + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "up" in message:
                self._is_up = True
            else:
                self.ended = message
        if data and self.ended is None:
            return
        self._agent.watch(self._control.fileno(), 0, lambda events: None)
        self._control.close()
        if self.ended is None:
            self.ended = _KILLED if self._is_up else _NOT_MADE
        self._on_end()
