"""The smallest sandbox over an agent: a plain process of this machine, with no isolation, as `ssh` would start it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping

from actbox import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.remote import Agent, AgentConfig
from actbox.sandbox.remote.agent import agent_arguments
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.traits import Traits


class RemoteBox(LocalSandbox):
    """Programs by an agent that is a child of this process. A dead agent is replaced by the next run."""

    traits = Traits(engine="process", isolation="none", isolated=False, sessions=True)

    def __init__(self, policy: Policy | None = None, start: Callable[[AgentConfig], Agent] | None = None) -> None:
        super().__init__(policy or Policy())
        self._start = start or (lambda config: Agent.start(agent_arguments(sys.executable), config))
        self.config = AgentConfig(preload=self.policy.preload, variables={"PATH": "/usr/bin:/bin"})
        self.agent: Agent | None = None

    async def _open_workspace(self) -> RemoteWorkspace:
        agent = self.agent = await run_blocking(self._start, self.config)
        self.guest_root = agent.workspace_path
        self._warnings = agent.warnings
        most = self.policy.limits.workspace_mib
        return RemoteWorkspace(lambda: self._live().connection, self.guest_root, most_mib=most)

    def _live(self) -> Agent:
        """Return a live agent: where the last has ended, and its folder with it, another one in the same place."""
        assert self.agent is not None
        if not self.agent.alive:
            os.makedirs(self.guest_root, exist_ok=True)
            self.agent.close()
            self.agent = self._start(dataclasses.replace(self.config, workspace=self.guest_root))
        return self.agent

    async def _close_workspace(self) -> None:
        agent, self.agent = self.agent, None
        if agent is not None:
            await run_blocking(agent.close)

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        limits = self.policy.limits
        watched = {"memory_mib": limits.memory_mib, "cpu_seconds": limits.cpu_seconds, "processes": limits.processes}
        return (await run_blocking(self._live)).start_guest(start.stdin, watched)

    def _base_variables(self) -> Mapping[str, str]:
        return {}

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts processes by user, and this user has others.
        return {name: value for name, value in super()._guest_limits().items() if name != "processes"}
