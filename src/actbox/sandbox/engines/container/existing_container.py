"""An existing container: an agent runs in it, and nothing else in it is made, changed or removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments
from actbox.sandbox.remote.sandbox import AgentPlace

from .client import Client, CommandFailed, process_of
from .control_groups import MemoryGroup

_PYTHONS = ("python3", "python", "/usr/local/bin/python3", "/usr/bin/python3")


def _lowered(host: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which isolation a container was made without, according to the client's inspection."""
    found = ["it is privileged"] if host.get("Privileged") else []
    shared = (("PidMode", "processes"), ("NetworkMode", "network"), ("IpcMode", "shared memory"), ("UTSMode", "name"))
    found += [f"it has the host's {what}" for key, what in shared if host.get(key) == "host"]
    if added := host.get("CapAdd"):
        found.append(f"capabilities were added: {', '.join(map(str, added))}")
    found += [f"{option} was asked for" for option in host.get("SecurityOpt") or () if "unconfined" in str(option)]
    if host.get("Devices"):
        found.append("it has devices of the host")
    return tuple(found)


class ExistingContainer(AgentPlace):
    """An existing container, with our agent in it. All methods block."""

    def __init__(self, client: Client, name: str, config: AgentConfig) -> None:
        """Raise `SandboxUnavailable` if it is not running, or has no Python of version 3.9 or later."""
        super().__init__()
        self._client = client
        self._name = name
        self._config = config
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

    def _start_agent(self, lost: Agent | None) -> Agent:
        command = self._client.command("exec", "--interactive", self._name, *agent_arguments(self._python))
        return Agent.start(command, self._config)

    def memory_ends(self) -> int:
        """Return how many processes of the container were killed for lack of memory."""
        return self.memory_group.ends()

    def remove(self) -> None:
        """End the agent with everything it started, which is all that was made here; not in a forked child."""
        if self._owner.is_here:
            self.close_agent()

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
