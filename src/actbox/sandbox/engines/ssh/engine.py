"""`SshSandbox`: an agent behind an ssh connection, which forks a guest for each run."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from typing import Self

from actbox.core.errors import FileError, SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments
from actbox.sandbox.remote.connection import Connection
from actbox.sandbox.remote.workspace import RemoteWorkspace

from .folder import Folder, make_folder, remove_folder
from .place import Place
from .traits import TRAITS

_VARIABLES = {"LANG": "C.UTF-8", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
# On top of what a connection may take, for the modules of the preload list.
_BEGIN_SECONDS = 60


class SshSandbox(LocalSandbox):
    """Programs as forks of an agent on another machine."""

    traits = TRAITS

    def __init__(self, policy: Policy, place: Place, *, beside: Folder | None = None) -> None:
        """Raise `Unsupported` for what a policy restricts and an account cannot be kept from.

        One that is for one program alone lies `beside` the folder of another sandbox; its own need not outlive its
        connection.
        """
        super().__init__(policy)
        for name in ("mounts", "domains", "secrets"):
            if getattr(policy, name):
                raise Unsupported(f"the ssh engine cannot keep Policy.{name}; the linux engine can")
        self._place = place
        self._beside = beside
        self._folder = beside
        self._agent: Agent | None = None
        self._connecting = threading.Lock()

    async def _open_workspace(self) -> RemoteWorkspace:
        try:
            agent = await run_blocking(self._open)
        except BaseException:
            await self._close_workspace()
            raise
        self._warnings = agent.warnings
        self.guest_root = agent.workspace_path
        return RemoteWorkspace(self._connection, self.guest_root, most_mib=self.policy.limits.workspace_mib)

    def _open(self) -> Agent:
        if self._beside is None:
            self._folder = make_folder(self._place)
        return self._live_agent()

    async def _close_workspace(self) -> None:
        await run_blocking(self._close)

    def _close(self) -> None:
        with self._connecting:
            agent, self._agent = self._agent, None
            folder, self._folder = self._folder, None
        if agent is not None:
            agent.close()
        if folder is not None and self._beside is None:
            remove_folder(self._place, folder)

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self._connecting = threading.Lock()
        self._agent, self._folder = None, self._beside

    def _sibling(self) -> Self:
        return type(self)(self.policy, self._place, beside=self._folder)

    def _base_variables(self) -> Mapping[str, str]:
        if self._folder is None:
            return _VARIABLES
        temporary = f"{self._folder.path}/tmp"
        return {**_VARIABLES, "PATH": self._folder.search, "HOME": temporary, "TMPDIR": temporary}

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts processes by user, and this user has others.
        return {name: value for name, value in super()._guest_limits().items() if name != "processes"}

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        return self._guest_of(await run_blocking(self._live_agent), start)

    def _guest_at_hand(self, start: GuestStart) -> GuestProcess | None:
        agent = self._agent
        return self._guest_of(agent, start) if agent is not None and agent.alive else None

    def _guest_of(self, agent: Agent, start: GuestStart) -> GuestProcess:
        limits = self.policy.limits
        return agent.start_guest(start.stdin, {"memory_mib": limits.memory_mib, "cpu_seconds": limits.cpu_seconds})

    def _connection(self) -> Connection:
        try:
            return self._live_agent().connection
        except SandboxUnavailable as error:
            raise FileError(errno.EIO, str(error)) from error

    def _live_agent(self) -> Agent:
        """Return the agent, another one where the connection was lost. Blocks. Raises `SandboxUnavailable`."""
        self._owner.check()
        with self._connecting:
            if self._agent is not None and self._agent.alive:
                return self._agent
            lost, self._agent = self._agent, None
            if lost is not None:
                lost.close()
            if self._folder is None:
                raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
            if lost is not None and self._beside is not None:
                raise SandboxUnavailable(f"the connection to {self._place.host} was lost: {lost.said}")
            workspace = f"{self._folder.path}/workspace" if self._beside is None else ""
            config = AgentConfig(workspace=workspace, preload=self.policy.preload)
            command = self._place.command(agent_arguments(self._place.python))
            try:
                self._agent = Agent.start(command, config, seconds=self._place.connect_seconds + _BEGIN_SECONDS)
            except SandboxUnavailable as error:
                raise SandboxUnavailable(f"{self._place.host}: {error}") from None
            return self._agent
