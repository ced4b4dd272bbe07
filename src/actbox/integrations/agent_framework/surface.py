"""The common base of providers and standalone tools: what programs may use, and where they run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias, Unpack, cast, get_args

from agent_framework import FunctionTool, normalize_tools

from actbox.codeact.config import CodeActConfig, ToolEntry
from actbox.codeact.environments import MOST_ENVIRONMENTS
from actbox.codeact.frozen import FrozenRun
from actbox.codeact.pending_questions import TIMEOUT_SECONDS
from actbox.codeact.program_events import OnEvent
from actbox.codeact.runner import ApprovalNeeded, CodeActRunner
from actbox.codeact.settings import CodeActOptions
from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.limits import Limits
from actbox.core.packages import HOST
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox
from actbox.sandbox.registry import TABLE
from actbox.tools import Approval, ApprovalDecision, Tool
from actbox.tools.problems import suggestion

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
from .invocation import Invocation, Scope
from .mcp_servers import McpServer, ServerTools, learn_types
from .results import Answer, ResultFormat, answer_of, not_asked
from .telemetry import traced
from .tool_adapter import AdaptedTool

Tools: TypeAlias = FunctionTool | Tool | McpServer | Callable[..., Any]
"""Values that may be given as tools: the framework's tools, ours, functions, and MCP servers with all their tools."""

MountInputs: TypeAlias = FileMountInput | Sequence[FileMountInput]
DomainInputs: TypeAlias = AllowedDomainInput | Sequence[AllowedDomainInput]
_ISOLATING = tuple(engine for engine in ENGINES if engine != "process")

# A policy with memory for any option of an engine: the limits of later programs are not known yet.
_ROOMY = Policy(limits=Limits(memory_mib=2**30))


class ProviderOptions(CodeActOptions, total=False):
    """Further keyword arguments of providers and tools; the others are those of `actbox.codeact.settings`.

    `result_format` is `content` or `json`; see `results.py`. A request that nobody answers within `approval_timeout`
    seconds is refused. At most `most_environments` conversations keep their sandbox, with its files, at a time.
    `on_event` is called with the `ProgramEvent`s of each running program; it may be sync or async.
    """

    result_format: ResultFormat
    approval_timeout: float | None
    most_environments: int
    on_event: OnEvent | None


class Surface:
    """The tools, mounts and domains of programs. They may change at any time; changes count from the next run.

    All are keyed: by name, by mount path, and by normalized target. Adding a key again replaces its value in place.
    Removing raises `KeyError` for an unknown key, and then removes nothing.
    """

    _guest: Mapping[str, Any] = MappingProxyType({})
    """The engine's own options, set by a class that takes arguments for its engine alone."""
    _with_description: Callable[[ProviderOptions], ProviderOptions] | None = None
    """Adds the engine's description for the model to the options, if its language is not full Python."""

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
        if self._with_description is not None:
            options = self._with_description(options)
        self._result_format: ResultFormat = options.get("result_format", "content")
        if self._result_format not in get_args(ResultFormat):
            known = ", ".join(get_args(ResultFormat))
            raise InvalidValue(f"result_format is one of {known}, not {self._result_format!r}")
        timeout = options.get("approval_timeout", TIMEOUT_SECONDS)
        most = options.get("most_environments", MOST_ENVIRONMENTS)
        policy = replace(_ROOMY, environment=options.get("environment", HOST), packages=options.get("packages"))
        opens = opener(engine, self._guest, policy)
        self._runner = CodeActRunner(
            opens, approval_timeout=timeout, most_environments=most, on_event=options.get("on_event")
        )
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
        """Add one tool or several, all or none. `group` is their heading in a listing of very many tools.

        Raises `InvalidValue` for a tool that programs cannot call: one that runs at the model's provider, one that is
        only declared, and one with the name of the tool for running programs.
        """
        self._config.add_tools(tools_in(tools), group=group)

    def get_tools(self) -> list[Any]:
        """Return the tools, in order: functions as `FunctionTool`, servers as they were given."""
        return self._config.get_tools()

    def remove_tool(self, name: str) -> None:
        """Remove the tool or MCP server of that name."""
        self._config.remove_tool(name)

    def remove_tools(self, *names: str) -> None:
        """Remove tools or MCP servers by name, all or none."""
        self._config.remove_tools(*names)

    def clear_tools(self) -> None:
        """Remove all tools."""
        self._config.clear_tools()

    # File mounts

    def add_file_mounts(self, file_mounts: MountInputs) -> None:
        """Add one mount or several, all or none. Raises `InvalidValue` for an invalid one."""
        self._config.add_file_mounts(mounts_of(file_mounts))

    def get_file_mounts(self) -> list[FileMount]:
        """Return the mounts, in order, without the workspace root, in a form that can be added again."""
        return [shown_mount(mount) for mount in self._config.get_file_mounts()]

    def remove_file_mount(self, mount_path: str) -> None:
        """Remove the mount at that mount path."""
        self._config.remove_file_mount(mount_path)

    def remove_file_mounts(self, *mount_paths: str) -> None:
        """Remove the mounts at these mount paths, all or none."""
        self._config.remove_file_mounts(*mount_paths)

    def clear_file_mounts(self) -> None:
        """Remove all mounts; the workspace root stays."""
        self._config.clear_file_mounts()

    # Allowed domains

    def add_allowed_domains(self, domains: DomainInputs) -> None:
        """Add one target or several, all or none. Raises `InvalidValue` for an invalid one."""
        self._config.add_allowed_domains(domains_of(domains))

    def get_allowed_domains(self) -> list[AllowedDomain]:
        """Return the targets that programs may reach, in order, in a form that can be added again."""
        return [shown_domain(domain) for domain in self._config.get_allowed_domains()]

    def remove_allowed_domain(self, domain: str) -> None:
        """Remove that target."""
        self._config.remove_allowed_domain(domain)

    def remove_allowed_domains(self, *domains: str) -> None:
        """Remove these targets, all or none."""
        self._config.remove_allowed_domains(*domains)

    def clear_allowed_domains(self) -> None:
        """Remove all targets; programs then have no network."""
        self._config.clear_allowed_domains()

    @property
    def workspace_root(self) -> Path | None:
        """The host directory that programs see at `/input`."""
        mount = self._config.workspace_root
        return None if mount is None else mount.host_path

    # Calls

    async def _execute(self, run: FrozenRun, arguments: Any, invocation: Invocation, scope: Scope) -> Answer:
        """Run a program when nobody can be asked. Raises the error of a tool that ends the agent's run."""
        outcome = await self._runner.execute(
            run, arguments, scope=scope.name, call_id=invocation.call_id, lasting=scope.lasting
        )
        while isinstance(outcome, ApprovalNeeded) and outcome.request.what == "install":
            decision = ApprovalDecision(False, "nobody can be asked here", cause="unavailable")
            outcome = await self._runner.answer(
                run, arguments, scope=scope.name, call_id=invocation.call_id, decision=decision, lasting=scope.lasting
            )
        invocation.check()
        if isinstance(outcome, ApprovalNeeded):
            self._runner.withdraw(scope=scope.name, call_id=invocation.call_id)
            return not_asked(outcome)
        return answer_of(outcome, self._result_format)

    async def _leave(self, scope: Scope) -> None:
        """Close what belongs to a scope that will not be used again."""
        if not scope.lasting:
            await self._runner.leave(scope=scope.name)

    # Lifetime

    async def close(self) -> None:
        """End running programs as `CANCELLED`, and close the sandboxes and the MCP servers that were connected here."""
        self._closed = True
        connected, self._connected = self._connected, []
        async with AsyncExitStack() as all_of_it:  # if one fails to close, the others are still closed
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
        """Connect the MCP servers among the tools, and request their return types. Raises their errors."""
        for given in self._config.get_tools():
            if isinstance(given, (FunctionTool, Tool)):  # any other entry is a server
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
    own = {"result_format", "approval_timeout", "most_environments", "on_event"}
    return cast(CodeActOptions, {name: value for name, value in options.items() if name not in own})


def opener(engine: str, guest: Mapping[str, Any], policy: Policy = _ROOMY) -> Callable[[Policy], Sandbox]:
    """Return a function that opens sandboxes of an engine. `guest` has the engine's own options. The engine must accept
    `policy`.

    Raises `SandboxUnavailable` for an unknown engine or a missing library, `Unsupported` for options that the engine
    does not take, and `InvalidValue` for invalid ones.
    """
    if engine not in _ISOLATING:
        raise SandboxUnavailable(
            f"this version of actbox has no engine {engine!r}; it has: {', '.join(_ISOLATING)}. Use"
            " LinuxCodeActProvider or LinuxExecuteCodeTool"
        )
    if unknown := [name for name in guest if name not in TABLE[engine].options()]:
        raise Unsupported(f"the engine {engine!r} takes no {', '.join(unknown)}: leave it out")
    # Open one now, so that errors come here and not with the agent's first program.
    open_sandbox(engine, policy=policy, **guest)
    return lambda policy: open_sandbox(engine, policy=policy, **guest)


_log = logging.getLogger("actbox")

_SECURITY: Final = frozenset(
    {"accepts_untrusted", "confidentiality", "max_allowed_confidentiality", "source_integrity"}
)
"""The additional properties of tools that `agent_framework.security` evaluates."""


def tools_in(given: Any) -> list[Any]:
    """Return the given tools as a list: the framework's, functions converted to such, and ours."""
    if isinstance(given, Tool):
        return [given]
    if not isinstance(given, Sequence) or isinstance(given, str):
        return list(normalize_tools(given))
    found: list[Any] = []
    for one in given:
        found.extend([one] if isinstance(one, Tool) else normalize_tools(one) if one else [one])
    return found


def entry_of(given: Any) -> ToolEntry:
    """Return the entry for one tool. Raises `InvalidValue`, with the reason, for one that programs cannot call."""
    if isinstance(given, Tool):
        entry, with_spans = ToolEntry.of(given), traced(given)
        return replace(entry, tools=lambda: (with_spans,))
    if isinstance(given, FunctionTool):
        if given.declaration_only:
            raise InvalidValue(
                f"the tool {given.name!r} is only declared, and has no function that a program could call: give it to"
                " the agent itself (tools=…)"
            )
        if _SECURITY.intersection(given.additional_properties or ()):
            _log.warning(
                "the tool %r has labels for the framework's security middleware, which does not see calls of programs:"
                " give such a tool to the agent itself (tools=…)",
                given.name,
            )
        adapted = AdaptedTool(given)
        adapted()  # raises now for an invalid tool
        return ToolEntry(name=given.name, given=given, tools=adapted)
    if isinstance(given, McpServer):
        return ToolEntry(name=given.name, given=given, tools=ServerTools(given), group=given.name)
    if isinstance(given, Mapping):
        named = given.get("name") or given.get("type") or "without a name"
        raise InvalidValue(
            f"the tool {named!r} is a specification for a model's provider, which runs it, and a program cannot call"
            " it: give it to the agent itself (tools=…), or write a function"
        )
    raise InvalidValue(
        f"a program cannot call {given!r}: give functions, FunctionTools, or MCP servers such as MCPStdioTool(…)"
    )
