"""A container that was there already: an agent runs in it, and nothing else of it is made, changed or removed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from actbox.core.after_fork import Owner
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments

from .client import Client, CommandFailed
from .first_process import process_of
from .memory_group import MemoryGroup

_PYTHONS = ("python3", "python", "/usr/local/bin/python3", "/usr/bin/python3")


def _lowered(host: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which walls of a container were taken down when it was made, as the client's inspection tells."""
    found = ["it is privileged"] if host.get("Privileged") else []
    shared = (("PidMode", "processes"), ("NetworkMode", "network"), ("IpcMode", "shared memory"), ("UTSMode", "name"))
    found += [f"it has the host's {what}" for key, what in shared if host.get(key) == "host"]
    if added := host.get("CapAdd"):
        found.append(f"capabilities were added: {', '.join(map(str, added))}")
    found += [f"{option} was asked for" for option in host.get("SecurityOpt") or () if "unconfined" in str(option)]
    if host.get("Devices"):
        found.append("it has devices of the host")
    return tuple(found)


class BroughtContainer:
    """Somebody's container, and our agent in it. All methods block."""

    def __init__(self, client: Client, name: str, config: AgentConfig) -> None:
        """Raise `SandboxUnavailable` where it does not run, or has no Python of version 3.9 or later."""
        self._client = client
        self._name = name
        self._config = config
        self._owner = Owner()
        self._lock = threading.Lock()
        self._agent: Agent | None = None
        try:
            found = client.json("container", "inspect", name)[0]
        except CommandFailed:
            raise SandboxUnavailable(f"there is no container {name!r} here; `{client.name} ps` lists them") from None
        if not found["State"]["Running"]:
            raise SandboxUnavailable(f"the container {name!r} does not run; start it with `{client.name} start {name}`")
        host = found.get("HostConfig") or {}
        self.lowered = _lowered(host)
        self.network = str(host.get("NetworkMode") or "")
        self.memory_group = MemoryGroup(process_of(client, found))
        self._python = self._find_python()

    def agent(self) -> Agent:
        """Return a live agent: another one where the last has ended. Raises `SandboxUnavailable`."""
        self._owner.check()
        with self._lock:
            if self._agent is None or not self._agent.alive:
                if self._agent is not None:
                    self._agent.close()
                command = self._client.command("exec", "--interactive", self._name, *agent_arguments(self._python))
                self._agent = Agent.start(command, self._config)
            return self._agent

    @property
    def live_agent(self) -> Agent | None:
        """The agent, if it lives; does not block."""
        agent = self._agent
        return agent if agent is not None and agent.alive else None

    def remove(self) -> None:
        """End the agent and what it started, which is all that was made here; not in a forked child."""
        if not self._owner.is_here:
            return
        with self._lock:
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()

    def _find_python(self) -> str:
        for candidate in _PYTHONS:
            try:
                said = self._client.run(
                    "exec", self._name, candidate, "-c", "import sys; print(sys.version_info >= (3, 9))"
                )
            except CommandFailed:
                continue
            if said.strip() == "True":
                return candidate
        raise SandboxUnavailable(f"the container {self._name!r} has no Python 3.9 or later")
