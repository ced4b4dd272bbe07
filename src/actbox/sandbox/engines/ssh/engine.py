"""`SshSandbox`: an agent behind an ssh connection, which forks a guest for each run, in a directory of an account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from actbox.core.errors import SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments
from actbox.sandbox.remote.sandbox import AgentPlace, AgentSandbox
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.traits import BY_AGENT, BY_HOST, Traits, check_policy

from .folder import Folder, make_folder, remove_folder
from .target import SshTarget

# The most seconds for the modules of the preload list, besides the time to connect.
_BEGIN_SECONDS = 60
_VARIABLES = {"LANG": "C.UTF-8", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}

TRAITS = Traits(
    engine="ssh",
    isolation="another machine; on it none: programs run as the account that was named",
    isolated=False,
    least_memory_mib=16,
    enforced={**BY_AGENT, **BY_HOST},
    packages="those of that machine's Python",
    platforms=("linux", "darwin"),
    cwd=True,
    sessions=True,
    network="everything that the other machine reaches",
    notes=(
        "no isolation of that account: a program can read, change and end whatever the account can, also what runs "
        "there for this sandbox; name one that has nothing to lose",
        "the workspace is a new directory there, so /workspace, /input and /output do not exist: use relative paths",
        "the agent, which counts memory and processor time, looks now and then: a program may have more for a moment",
        "the number of processes, the size of the workspace and the share of the processors are not limited",
        "a lost connection ends what runs, and the next run makes another; what lies in the workspace stays",
    ),
)


class SshSandbox(AgentSandbox):
    """A sandbox whose programs are forks of an agent on another machine."""

    traits = TRAITS
    _agent_place: Account | None = None

    def __init__(self, policy: Policy, target: SshTarget, *, beside: Folder | None = None) -> None:
        """Raise `Unsupported` for restrictions of a policy that cannot be imposed on an account.

        A sandbox for one program alone lies `beside` the directory of another sandbox; its own directory need not
        outlive its connection.
        """
        super().__init__(policy)
        check_policy(policy, "ssh", "mounts", "domains", "secrets")
        self._target = target
        self._beside = beside

    async def _open_workspace(self) -> RemoteWorkspace:
        account = self._agent_place = Account(self._target, self.policy.preload, self._beside)
        try:
            agent = await run_blocking(account.open)
        except BaseException:
            await self._close_workspace()
            raise
        return self._workspace_of(agent, agent.workspace_path)

    async def _close_workspace(self) -> None:
        account, self._agent_place = self._agent_place, None
        if account is not None:
            await run_blocking(account.remove)

    def _sibling(self) -> Self:
        return type(self)(self.policy, self._target, beside=self._folder)

    @property
    def _folder(self) -> Folder | None:
        return self._agent_place.folder if self._agent_place is not None else None

    def _base_variables(self) -> Mapping[str, str]:
        if self._folder is None:
            return _VARIABLES
        temporary = f"{self._folder.path}/tmp"
        return {**_VARIABLES, "PATH": self._folder.search, "HOME": temporary, "TMPDIR": temporary}

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts processes by user, and this user has others.
        return {name: value for name, value in super()._guest_limits().items() if name != "processes"}


class Account(AgentPlace):
    """An account with a directory for one sandbox. A connection that was lost is made again."""

    def __init__(self, target: SshTarget, preload: tuple[str, ...], beside: Folder | None) -> None:
        """Make nothing yet. With `beside`, another sandbox's directory, files do not outlive the connection."""
        super().__init__()
        self._target = target
        self._preload = preload
        self._beside = beside
        self.folder = beside
        """The sandbox's directory, or the one that it lies beside; `None` if there is none."""

    def open(self) -> Agent:
        """Make the directory, and return an agent. Raises `SandboxUnavailable`."""
        if self._beside is None:
            self.folder = make_folder(self._target)
        return self.agent()

    def remove(self) -> None:
        """End the agent, and remove the directory; a second call does nothing."""
        self.close_agent()
        folder, self.folder = self.folder, None
        if folder is not None and self._beside is None:
            remove_folder(self._target, folder)

    def _start_agent(self, lost: Agent | None) -> Agent:
        assert self.folder is not None
        if lost is not None and self._beside is not None:
            raise SandboxUnavailable(f"the connection to {self._target.host} was lost: {lost.said}")
        workspace = f"{self.folder.path}/workspace" if self._beside is None else ""
        config = AgentConfig(workspace=workspace, preload=self._preload)
        command = self._target.command(agent_arguments(self._target.python))
        try:
            return Agent.start(command, config, seconds=self._target.connect_seconds + _BEGIN_SECONDS)
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"{self._target.host}: {error}") from None
