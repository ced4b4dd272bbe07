"""`AgentSandbox`: the whole contract for programs that are forks of an agent elsewhere.

An engine adds a place (`AgentPlace`): how an agent is started there, and what is to be removed at the end.
"""

from __future__ import annotations

import errno
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from actbox.core.after_fork import Owner
from actbox.core.errors import FileError, SandboxUnavailable
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.workspace import Workspace

from .agent import Agent
from .agent_guest import AgentGuest
from .connection import Connection
from .workspace import RemoteWorkspace


class AgentPlace(ABC):
    """A place with an agent, which is replaced by another one if it ends. All methods block."""

    def __init__(self) -> None:
        self._owner = Owner()
        self._lock = threading.Lock()
        self._agent: Agent | None = None
        self._is_closed = False

    @abstractmethod
    def _start_agent(self, lost: Agent | None) -> Agent:
        """Return a new agent; `lost` is the closed one that it replaces, if any. Raises `SandboxUnavailable`."""

    @abstractmethod
    def remove(self) -> None:
        """End the agent, and remove what was made here; does nothing in a forked child."""

    def memory_ends(self) -> int:
        """Return how many processes here were killed for lack of memory, as far as this machine can tell."""
        return 0

    def agent(self) -> Agent:
        """Return a live agent; start another one if the last has ended. Raises `SandboxUnavailable`."""
        self._owner.check()
        with self._lock:
            if self._is_closed:
                raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
            if self._agent is None or not self._agent.alive:
                lost, self._agent = self._agent, None
                if lost is not None:
                    lost.close()
                self._agent = self._start_agent(lost)
            return self._agent

    @property
    def live_agent(self) -> Agent | None:
        """The agent if it is alive, else `None`; does not block."""
        agent = self._agent
        return agent if agent is not None and agent.alive else None

    def close_agent(self) -> None:
        """End the agent with everything that it started; there will be no other one."""
        with self._lock:
            self._is_closed = True
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()


class AgentSandbox(LocalSandbox):
    """A sandbox whose programs are forks of an agent. Its `_open_workspace` sets `_agent_place`, the agent's place."""

    watched: ClassVar[tuple[str, ...]] = ("memory_mib", "cpu_seconds")
    """The limits of a program's whole process tree that the agent enforces."""
    _counts_processor_time = True
    _agent_place: AgentPlace | None = None

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self._agent_place = None

    def _workspace_of(
        self,
        agent: Agent,
        root: str,
        *,
        input_folder: Workspace | None = None,
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> RemoteWorkspace:
        """Return the files of the sandbox, whose programs see them at `root`; see `RemoteWorkspace`."""
        self._warnings = agent.warnings
        self.guest_root = root
        most = self.policy.limits.workspace_mib
        return RemoteWorkspace(self._connection, root, most_mib=most, input_folder=input_folder, is_quiet=is_quiet)

    def _connection(self) -> Connection:
        place = self._agent_place
        if place is None:
            raise FileError(errno.EIO, "the sandbox was stopped meanwhile")
        try:
            return place.agent().connection
        except SandboxUnavailable as error:
            raise FileError(errno.EIO, str(error)) from error

    @property
    def _agent_at_hand(self) -> Agent | None:
        return self._agent_place.live_agent if self._agent_place is not None else None

    def _guest_at_hand(self, start: GuestStart) -> AgentGuest | None:
        agent = self._agent_at_hand
        return self._guest_of(agent, start) if agent is not None else None

    def _prepare_next(self) -> None:
        agent = self._agent_at_hand
        if agent is not None:
            agent.prepare()

    async def _start_guest(self, start: GuestStart) -> AgentGuest:
        place = self._agent_place
        if place is None:
            raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
        return self._guest_of(await run_blocking(place.agent), start)

    def _guest_of(self, agent: Agent, start: GuestStart) -> AgentGuest:
        watch = {name: getattr(self.policy.limits, name) for name in self.watched}
        memory_ends = self._agent_place.memory_ends if self._agent_place is not None else lambda: 0
        return agent.start_guest(start.stdin, watch, memory_ends)
