"""A guest whose channel and output go directly to the host; the agent only starts, interrupts and ends it."""

from __future__ import annotations

import contextlib
import os
import socket

from . import frames
from .agent_keeper import KeeperLine

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Tuple

    from .agent_keeper import AgentLoop


class LentRun:
    """A guest that holds the host's descriptors, waiting for its program or running it.

    The host writes the program into the guest's channel itself, so the guest also waits for a byte from the agent,
    which means that everything the program may see is ready.
    """

    @classmethod
    def make(cls, agent: AgentLoop, stream: int, descriptors: Sequence[int]) -> Tuple[LentRun, List[int]]:
        """Return a run, and the descriptors for its keeper, including the lent ones."""
        control, their_control = socket.socketpair()
        go, tell_go = os.pipe()
        return cls(agent, stream, control, tell_go), [their_control.detach(), *descriptors, go]

    def __init__(self, agent: AgentLoop, stream: int, control: socket.socket, go: int) -> None:
        self._agent = agent
        self._go = go
        self.stream = stream
        self.is_open = False
        """True once the host has assigned a program to it."""
        self.killed = False
        self.held = False
        self.keeper = KeeperLine(agent, control, self._end)

    def begin(self, request: Dict[str, Any], held: bool) -> None:
        """Start the run that the host requests; a run that is `held` starts when `release` is called."""
        self.is_open = True
        self.held = held
        if request["watch"]:
            self.keeper.tell({"watch": request["watch"]})
        if not held:
            self._begin()

    def release(self) -> None:
        """Let the program of a held run start."""
        self.held = False
        self._begin()

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        """Handle a frame from the host."""
        if kind == frames.KILL:
            self.killed = True
            self.keeper.tell({"do": "kill"})
        elif kind == frames.INTERRUPT:  # the host has checked that the guest has read its program
            self.keeper.tell({"do": "interrupt"})

    def go_on(self) -> None:
        """Do nothing: no data waits here."""

    def listen(self) -> None:
        """Do nothing: there is no output to read here."""

    def _begin(self) -> None:
        if self._go >= 0:
            with contextlib.suppress(BrokenPipeError):  # the guest has ended, which its keeper reports
                os.write(self._go, b"x")
            self._close_go()

    def _close_go(self) -> None:
        if self._go >= 0:
            os.close(self._go)
            self._go = -1

    def _end(self) -> None:
        assert self.keeper.ended is not None
        self._close_go()
        self._agent.send(frames.pack_json(frames.ENDED, self.stream, self.keeper.ended))
        self._agent.over(self)
