"""One guest whose channel and output the host has itself: the agent begins it, interrupts it, ends it, and no more."""

from __future__ import annotations

import contextlib
import os
import socket

from . import frames
from .agent_keeper import KeeperLine

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Tuple

    from .agent import Agent


class LentRun:
    """A guest that holds the host's descriptors, waiting for its program or running it.

    The host writes a program into the guest's channel itself, so the guest waits for a word from here before it begins:
    what the program may see has to be in order by then.
    """

    @classmethod
    def make(cls, agent: Agent, stream: int, descriptors: Sequence[int]) -> Tuple[LentRun, List[int]]:
        """Return a run, and the descriptors for its keeper, to which those that were lent belong."""
        control, their_control = socket.socketpair()
        go, tell_go = os.pipe()
        return cls(agent, stream, control, tell_go), [their_control.detach(), *descriptors, go]

    def __init__(self, agent: Agent, stream: int, control: socket.socket, go: int) -> None:
        self._agent = agent
        self._go = go
        self.stream = stream
        self.is_open = False
        """Whether it is the host's for a program."""
        self.killed = False
        self.held = False
        self.keeper = KeeperLine(agent, control, self._end)

    def begin(self, request: Dict[str, Any], held: bool) -> None:
        """Be the run that the host asks for; one that is `held` begins when it is released."""
        self.is_open = True
        self.held = held
        if request["watch"]:
            self.keeper.tell({"watch": request["watch"]})
        if not held:
            self._begin()

    def release(self) -> None:
        """Let its program begin."""
        self.held = False
        self._begin()

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        """Take in a frame of the host's."""
        if kind == frames.KILL:
            self.killed = True
            self.keeper.tell({"do": "kill"})
        elif kind == frames.INTERRUPT:  # the host has looked that the guest has read what came before
            self.keeper.tell({"do": "interrupt"})

    def go_on(self) -> None:
        """There is nothing that had to wait."""

    def listen(self) -> None:
        """There is nothing to read."""

    def _begin(self) -> None:
        if self._go >= 0:
            with contextlib.suppress(BrokenPipeError):  # the guest has ended, which its keeper says
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
