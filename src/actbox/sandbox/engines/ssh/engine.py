"""`SshSandbox`: an agent behind an ssh connection, which forks a guest for each run, in a directory of an account."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import Provided, layer_of, new_session_folder
from actbox.sandbox.local import GuestStart
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments
from actbox.sandbox.remote.agent_guest import AgentGuest
from actbox.sandbox.remote.interpreter import on_top
from actbox.sandbox.remote.sandbox import AgentPlace, AgentSandbox
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.session_packages import LayersPlace
from actbox.sandbox.traits import BY_AGENT, BY_HOST, COUNTED_BY_AGENT, Traits, check_lacking

from .folder import Folder, make_folder, remove_folder
from .packages import SentPackages, ask_interpreter
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
        *COUNTED_BY_AGENT,
        "the number of processes, the size of the workspace and the share of the processors are not limited",
        "rules for packages decide what is installed there, not what the account has already, or fetches itself",
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
        check_lacking(policy, "ssh", "mounts", "domains", "secrets")
        if policy.environment == CLEAN:
            raise Unsupported(
                "the ssh engine cannot hide an account's packages: it has no environment 'clean'; the linux, container"
                " and wasm engines do"
            )
        if policy.packages is not None or policy.environment != HOST:
            self.traits = dataclasses.replace(TRAITS, dependencies=True, session_packages=True)
        self._target = target
        self._beside = beside
        self._sent = SentPackages(target)

    async def _open_workspace(self) -> RemoteWorkspace:
        account = self._agent_place = Account(self._target, self.policy.preload, self._beside)
        try:
            agent = await run_blocking(account.open)
            if self.traits.dependencies and self._layer is None:
                await self._find_packages()
        except BaseException:
            await self._close_workspace()
            raise
        return self._workspace_of(agent, agent.workspace_path)

    async def _close_workspace(self) -> None:
        account, self._agent_place = self._agent_place, None
        if self._beside is None:
            self._layer = None
            self._sent = SentPackages(self._target)
        if account is not None:
            await run_blocking(account.remove)

    def _sibling(self) -> Self:
        sibling = type(self)(self.policy, self._target, beside=self._folder)
        sibling._layer, sibling._sent = self._layer, self._sent
        return sibling

    # Packages

    async def _find_packages(self) -> None:
        """Ask what the account has, and send it the packages of a named environment. Raises `SandboxUnavailable`."""
        found = await run_blocking(ask_interpreter, self._target)
        there = found.layer(self.policy, self._target.host)
        own = await layer_of(self.policy, target=found.target)
        if own is not None:
            packages = Path(own.folder)
            await run_blocking(self._sent.send, packages, self._place_of(packages))
            there = on_top(there, own._replace(folder=self._place_of(packages)), self.policy.environment_name)
        self._layer = there

    def _place_of(self, packages: Path) -> str:
        return f"{self._packages_below()}/{packages.name}"

    def _packages_below(self) -> str:
        assert self._folder is not None
        return f"{self._folder.path}/packages"

    def _new_session_folder(self) -> LayersPlace:
        if self._folder is None:
            raise SandboxUnavailable("the sandbox was stopped while a session was about to begin")
        held = new_session_folder(self.policy)
        return LayersPlace(held, f"{self._place_of(held.path)}/layers", self._sent.send)

    def _guest_at_hand(self, start: GuestStart) -> AgentGuest | None:
        return super()._guest_at_hand(start) if start.session or start.packages is None else None

    async def _start_guest(self, start: GuestStart) -> AgentGuest:
        if start.packages is not None and not start.session:
            await run_blocking(self._sent.send, start.packages, self._place_of(start.packages))
        return await super()._start_guest(start)

    def _show_packages(self, message: dict[str, Any], packages: Provided, place: str) -> None:
        if packages.folder is not None:
            place = self._place_of(packages.folder)
            variables = message["variables"]
            message["variables"] = {**variables, "PATH": f"{variables['PATH']}:{place}/bin"}
        super()._show_packages(message, packages, place)

    @property
    def _folder(self) -> Folder | None:
        return self._agent_place.folder if self._agent_place is not None else None

    def _base_variables(self) -> Mapping[str, str]:
        if self._folder is None:
            return _VARIABLES
        temporary = f"{self._folder.path}/tmp"
        variables = {**_VARIABLES, "PATH": self._folder.search, "HOME": temporary, "TMPDIR": temporary}
        if self._layer is not None and self._layer.folder:
            variables["PATH"] += f":{self._layer.folder}/bin"
            variables["PYTHONPATH"] = f"{self._layer.folder}/site"
        return variables

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
