"""The smallest sandbox over an agent: a plain process of this machine, with no isolation, as `ssh` would start it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Mapping

from actbox import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.remote import Agent, AgentConfig, AgentPlace, AgentSandbox
from actbox.sandbox.remote.agent import agent_arguments
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.traits import Traits


class RemoteBox(AgentSandbox):
    """Programs by an agent that is a child of this process. A dead agent is replaced by the next run."""

    traits = Traits(engine="process", isolation="none", isolated=False, sessions=True)
    watched = (*AgentSandbox.watched, "processes")

    def __init__(self, policy: Policy | None = None, start: Callable[[AgentConfig], Agent] | None = None) -> None:
        super().__init__(policy or Policy())
        self._start = start or (lambda config: Agent.start(agent_arguments(sys.executable), config))
        self.config = AgentConfig(preload=self.policy.preload, variables={"PATH": "/usr/bin:/bin"})

    @property
    def agent(self) -> Agent | None:
        return self._agent_at_hand

    async def _open_workspace(self) -> RemoteWorkspace:
        there = self._agent_place = _ThisMachine(self._start, self.config)
        agent = await run_blocking(there.agent)
        return self._workspace_of(agent, agent.workspace_path)

    async def _close_workspace(self) -> None:
        there, self._agent_place = self._agent_place, None
        if there is not None:
            await run_blocking(there.remove)

    def _base_variables(self) -> Mapping[str, str]:
        return {}

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts processes by user, and this user has others.
        return {name: value for name, value in super()._guest_limits().items() if name != "processes"}


class _ThisMachine(AgentPlace):
    """Where the last agent has ended, and its folder with it, another one is made in the same place."""

    def __init__(self, start: Callable[[AgentConfig], Agent], config: AgentConfig) -> None:
        super().__init__()
        self._start = start
        self._config = config
        self._left: str | None = None

    def _start_agent(self, lost: Agent | None) -> Agent:
        if lost is None:
            return self._start(self._config)
        self._left = lost.workspace_path  # no agent takes the folder of another with it
        os.makedirs(lost.workspace_path, exist_ok=True)
        return self._start(dataclasses.replace(self._config, workspace=lost.workspace_path))

    def remove(self) -> None:
        self.close_agent()
        if self._left is not None:
            shutil.rmtree(self._left, ignore_errors=True)
