"""The agent's connection to a keeper: sends it commands, and receives how its guest ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Protocol

    class AgentLoop(Protocol):
        """The agent's loop as its runs use it; see `agent.Agent`."""

        @property
        def is_full(self) -> bool:
            """True if nothing more should be read for the host now."""

        def watch(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
            """Call a function when a descriptor is ready; no events end that."""

        def soon(self, call: Callable[[], None]) -> None:
            """Call a function in the next turn of the loop."""

        def later(self, call: Callable[[], None]) -> None:
            """Call a function in some milliseconds."""

        def send(self, frame: bytes) -> None:
            """Send a frame to the host."""

        def release(self) -> None:
            """Let held runs begin, if nothing holds them any longer."""

        def over(self, run: Any) -> None:
            """Forget a run that has ended."""


_ENDED = {"exit_code": None, "signal": None, "limit": "", "cpu_ms": 0.0, "max_rss_bytes": 0, "failure": ""}
# Used when a program has killed its keeper, and with it its guest.
_KILLED = {**_ENDED, "signal": int(signal.SIGKILL)}
_NOT_MADE = {**_ENDED, "failure": "no process could be made for the run: the sandbox has as many as it may have"}


class KeeperLine:
    """The control socket of a keeper. `on_end` is called once, when `ended` says how the guest ended."""

    def __init__(self, agent: AgentLoop, control: socket.socket, on_end: Callable[[], None]) -> None:
        self._agent = agent
        self._control = control
        self._on_end = on_end
        self._words = b""
        self.is_up = False
        """True once its guest exists."""
        self.ended: Optional[Dict[str, Any]] = None
        os.set_blocking(control.fileno(), False)
        agent.watch(control.fileno(), select.POLLIN, lambda events: self._hear())

    def tell(self, message: Dict[str, Any]) -> None:
        """Send the keeper a command, unless it has ended."""
        with contextlib.suppress(OSError):  # the keeper has ended; the reading side notices
            self._control.send(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the socket; the keeper then ends its guest, and itself."""
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
                self.is_up = True
                self._agent.release()
            else:
                self.ended = message
        if data and self.ended is None:
            return
        self._agent.watch(self._control.fileno(), 0, lambda events: None)
        self._control.close()
        if self.ended is None:
            self.ended = _KILLED if self.is_up else _NOT_MADE
        self._on_end()
