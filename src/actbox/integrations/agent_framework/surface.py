"""What a provider and a tool that stands alone have in common: what programs may use, and where they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias, Unpack, cast, get_args

from agent_framework import FunctionTool

from actbox.codeact.config import CodeActConfig
from actbox.codeact.environments import MOST_ENVIRONMENTS
from actbox.codeact.frozen import FrozenRun
from actbox.codeact.pending import TIMEOUT_SECONDS
from actbox.codeact.runner import ApprovalNeeded, CodeActRunner
from actbox.codeact.settings import CodeActOptions
from actbox.core.errors import InvalidValue
from actbox.tools import Approval, Tool
from actbox.tools.problems import suggestion

from .engines import opener
from .forms import (
    AllowedDomain,
    AllowedDomainInput,
    FileMount,
    FileMountInput,
    domains_of,
    mounts_of,
    shown_domain,
    shown_mount,
)
from .invocation import Invocation
from .mcp_servers import McpServer, learn_types
from .results import Answer, ResultFormat, answer_of, not_asked
from .scope import Scope
from .tools import entry_of, tools_in

Tools: TypeAlias = FunctionTool | Tool | McpServer | Callable[..., Any]
"""What programs can call: tools of the framework and of ours, functions, and all tools of an MCP server."""

MountInputs: TypeAlias = FileMountInput | Sequence[FileMountInput]
DomainInputs: TypeAlias = AllowedDomainInput | Sequence[AllowedDomainInput]


class ProviderOptions(CodeActOptions, total=False):
    """Further keyword arguments of providers and tools; the others are those of `actbox.codeact.settings`.

    `result_format` is `content` or `json`; see `results.py`. A question that nobody answers within `approval_timeout`
    seconds is refused. `most_environments` is how many conversations keep their sandbox, with its files, at a time.
    """

    result_format: ResultFormat
    approval_timeout: float | None
    most_environments: int


class Surface:
    """The tools, mounts and domains of programs. They may change at any time, which counts from the next run on.

    All is kept by name, by mount path, and by normalised target: adding a key again replaces what has it, in its place.
    Removing raises `KeyError` where there is nothing of that key, and then removes nothing.
    """

    _guest: Mapping[str, Any] = MappingProxyType({})
    """What the engine is given beside a policy, of a class that takes something for its engine alone."""
    _told_of: Callable[[ProviderOptions], ProviderOptions] | None = None
    """Adds to the options what a model is told of the engine's language, where that is not full Python."""

    def _set_up(
        self,
        engine: str,
        *,
        tools: Tools | Sequence[Tools] | None,
        approval_mode: Approval | None,
        workspace_root: str | Path | None,
        file_mounts: MountInputs | None,
        allowed_domains: DomainInputs | None,
        tool_name: str,
        **options: Unpack[ProviderOptions],
    ) -> None:
        _check_names(options)
        if self._told_of is not None:
            options = self._told_of(options)
        self._result_format: ResultFormat = options.get("result_format", "content")
        if self._result_format not in get_args(ResultFormat):
            known = ", ".join(get_args(ResultFormat))
            raise InvalidValue(f"result_format is one of {known}, not {self._result_format!r}")
        timeout = options.get("approval_timeout", TIMEOUT_SECONDS)
        most = options.get("most_environments", MOST_ENVIRONMENTS)
        opens = opener(engine, self._guest)
        self._runner = CodeActRunner(opens, approval_timeout=timeout, most_environments=most)
        self._config = CodeActConfig(
            tools=None if tools is None else tools_in(tools),
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=None if file_mounts is None else mounts_of(file_mounts),
            allowed_domains=None if allowed_domains is None else domains_of(allowed_domains),
            tool_name=tool_name,
            adapt=entry_of,
            **_of_the_core(options),
        )
        self._connected: list[McpServer] = []
        self._closed = False

    # Tools

    def add_tools(self, tools: Tools | Sequence[Tools], *, group: str = "") -> None:
        """Add one tool or several, all or none. `group` is what a listing of very many puts them under.

        Raises `InvalidValue` for what a program cannot call: what only a model's provider runs, what is only declared,
        and a tool that is called what the model calls to run programs.
        """
        self._config.add_tools(tools_in(tools), group=group)

    def get_tools(self) -> list[Any]:
        """Return the tools, in order: functions as `FunctionTool`, servers as they were given."""
        return self._config.get_tools()

    def remove_tool(self, name: str) -> None:
        """Remove the tool, or the MCP server, of that name."""
        self._config.remove_tool(name)

    def remove_tools(self, *names: str) -> None:
        """Remove these, all or none."""
        self._config.remove_tools(*names)

    def clear_tools(self) -> None:
        """Remove all tools."""
        self._config.clear_tools()

    # File mounts

    def add_file_mounts(self, file_mounts: MountInputs) -> None:
        """Add one mount or several, all or none. Raises `InvalidValue` for what cannot be mounted."""
        self._config.add_file_mounts(mounts_of(file_mounts))

    def get_file_mounts(self) -> list[FileMount]:
        """Return the mounts, in order, without the workspace root. Each can be given again as it is."""
        return [shown_mount(mount) for mount in self._config.get_file_mounts()]

    def remove_file_mount(self, mount_path: str) -> None:
        """Remove the mount at that path inside."""
        self._config.remove_file_mount(mount_path)

    def remove_file_mounts(self, *mount_paths: str) -> None:
        """Remove these, all or none."""
        self._config.remove_file_mounts(*mount_paths)

    def clear_file_mounts(self) -> None:
        """Remove all mounts; the workspace root stays."""
        self._config.clear_file_mounts()

    # Allowed domains

    def add_allowed_domains(self, domains: DomainInputs) -> None:
        """Add one target or several, all or none. Raises `InvalidValue` for what is none."""
        self._config.add_allowed_domains(domains_of(domains))

    def get_allowed_domains(self) -> list[AllowedDomain]:
        """Return the targets that programs may reach, in order. Each can be given again as it is."""
        return [shown_domain(domain) for domain in self._config.get_allowed_domains()]

    def remove_allowed_domain(self, domain: str) -> None:
        """Remove that target."""
        self._config.remove_allowed_domain(domain)

    def remove_allowed_domains(self, *domains: str) -> None:
        """Remove these, all or none."""
        self._config.remove_allowed_domains(*domains)

    def clear_allowed_domains(self) -> None:
        """Remove all targets: programs then have no network."""
        self._config.clear_allowed_domains()

    @property
    def workspace_root(self) -> Path | None:
        """The folder of the host that programs see at `/input`."""
        mount = self._config.workspace_root
        return None if mount is None else mount.host_path

    # Calls

    async def _execute(self, run: FrozenRun, arguments: Any, invocation: Invocation, scope: Scope) -> Answer:
        """Run a program where nobody can be asked. Raises what one of its tools raised to end the agent's run."""
        came = await self._runner.execute(
            run, arguments, scope=scope.name, call_id=invocation.call_id, lasting=scope.lasting
        )
        invocation.check()
        if isinstance(came, ApprovalNeeded):
            self._runner.withdraw(scope=scope.name, call_id=invocation.call_id)
            return not_asked(came)
        return answer_of(came, self._result_format)

    async def _leave(self, scope: Scope) -> None:
        """Close what a scope has that is not used again."""
        if not scope.lasting:
            await self._runner.leave(scope=scope.name)

    # Life

    async def close(self) -> None:
        """End what runs, as `CANCELLED`, and close the sandboxes and the MCP servers that were connected here."""
        self._closed = True
        connected, self._connected = self._connected, []
        async with AsyncExitStack() as all_of_it:  # whatever fails, the others are closed
            for server in connected:
                all_of_it.push_async_callback(server.close)
            all_of_it.push_async_callback(self._runner.close)

    async def __aenter__(self) -> Self:
        if self._closed:
            raise InvalidValue(f"this {type(self).__name__} was closed, and cannot be opened again: make a new one")
        await self._connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _connect(self) -> None:
        """Connect the MCP servers among the tools, and ask what they return. Raises what they raise."""
        for given in self._config.get_tools():
            if isinstance(given, (FunctionTool, Tool)):  # all others are servers
                continue
            if not given.is_connected:
                if given not in self._connected:
                    self._connected.append(given)
                await given.connect()
            await learn_types(given)


_BY_NAME = ("tools", "approval_mode", "workspace_root", "file_mounts", "allowed_domains", "tool_name")


def _check_names(options: ProviderOptions) -> None:
    known = (*_BY_NAME, *sorted(ProviderOptions.__optional_keys__))
    for name in options:
        if name not in known:
            meant = suggestion(name, known)
            question = f"; did you mean {meant!r}?" if meant else "."
            raise TypeError(f"there is no argument {name!r}{question} There are: {', '.join(known)}")


def _of_the_core(options: ProviderOptions) -> CodeActOptions:
    own = {"result_format", "approval_timeout", "most_environments"}
    return cast(CodeActOptions, {name: value for name, value in options.items() if name not in own})
