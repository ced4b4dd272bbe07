"""`execute_code` as a separate tool, for agents assembled by hand: one class for each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Unpack

from actbox.codeact.frozen import FrozenRun, description_of, input_schema_of, whole_instructions
from actbox.codeact.instructions import EXECUTE_CODE
from actbox.codeact.serial_numbers import new_serial
from actbox.core.errors import InvalidValue
from actbox.tools import Approval

from .engine_options import HyperlightGuest, MontyGuest, hyperlight_options, monty_options, node_options
from .execute_code import ExecuteCode
from .invocation import Invocation, Scope
from .results import Answer
from .surface import DomainInputs, MountInputs, ProviderOptions, Surface, Tools

_NOTHING: Final[Mapping[int, FrozenRun]] = MappingProxyType({})

_decided: ContextVar[Mapping[int, FrozenRun]] = ContextVar("actbox_agent_framework_decided", default=_NOTHING)
"""The run whose approval mode the framework has read in this context, for each tool."""


class EngineTool(Surface, ExecuteCode):
    """The base of the tools, which differ only in their engine.

    Tools, mounts and domains can change at any time, and the description and approval mode change with them; a call has
    what there is when it is made. Files belong to the conversation: without an `AgentSession` each call has its own.
    """

    ENGINE: ClassVar[str]

    def __init__(
        self,
        *,
        tools: Tools | Sequence[Tools] | None = None,
        approval_mode: Approval | None = "never_require",
        workspace_root: str | Path | None = None,
        file_mounts: MountInputs | None = (),
        allowed_domains: DomainInputs | None = (),
        tool_name: str = EXECUTE_CODE,
        **options: Unpack[ProviderOptions],
    ) -> None:
        """`options` are those of `ProviderOptions`.

        Raises `InvalidValue`, and `SandboxUnavailable` if the engine is not installed. The approval styles in which
        `execute_code` itself asks need a provider, which takes part in the framework's run.
        """
        if options.get("approval_style", "bundled") != "bundled":
            raise InvalidValue(
                f"approval_style={options['approval_style']!r} goes with a provider: a tool that stands alone is not"
                " told the answers to what it asks"
            )
        self._serial = new_serial()
        self._set_up(
            self.ENGINE,
            tools=tools,
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=file_mounts,
            allowed_domains=allowed_domains,
            tool_name=tool_name,
            **options,
        )
        ExecuteCode.__init__(
            self,
            self._call,
            name=tool_name,
            description="",
            approval_mode=approval_mode,
            schema=input_schema_of(self._config.settings),
        )

    @property
    def description(self) -> str:
        """The tool's present description for models; it is complete without instructions."""
        return _description(self._config.freeze())

    @description.setter
    def description(self, value: str) -> None:
        if value:
            raise AttributeError("the description is made of what programs may use, and cannot be set")

    @property
    def approval_mode(self) -> Approval:
        """The approval mode: whether a person is asked before a program runs, as given or required by any tool.

        It can be set to ask always; a requirement of the constructor or a tool cannot be removed.
        """
        # The framework reads the mode to decide about approval, and does not report the decision with the call. So
        # remember here what it has read; it counts for the calls in this context.
        run = self._config.freeze()
        _decided.set({**_decided.get(), self._serial: run})
        return "always_require" if self._asks_always else run.approval

    @approval_mode.setter
    def approval_mode(self, value: Approval | None) -> None:
        self._asks_always = value == "always_require"

    def build_instructions(self, *, tools_visible_to_model: bool) -> str:
        """Return instructions for the agent, with the present tools, mounts and domains.

        If the model can also call the tools directly, they are only listed with their parameters; otherwise they are
        described in full.
        """
        run = self._config.freeze()
        return whole_instructions(run, tools_visible_to_model=tools_visible_to_model, with_session=False)

    def build_serializable_state(self) -> dict[str, Any]:
        """Return as JSON data what programs may use at present."""
        return self._config.freeze().state()

    def create_run_tool(self) -> ExecuteCode:
        """Return a tool with the present tools, mounts and domains, unaffected by later changes; it ends with this."""
        run = self._config.freeze()

        async def call(arguments: Any, invocation: Invocation) -> Answer:
            return await self._once(run, arguments, invocation)

        return ExecuteCode(
            call,
            name=run.tool_name,
            description=_description(run),
            approval_mode=run.approval,
            schema=run.input_schema,
        )

    def to_dict(self, *, exclude: set[str] | None = None, exclude_none: bool = True) -> dict[str, Any]:
        """Return the tool in its present state as JSON data; see `FunctionTool.to_dict`."""
        now = {"description": self.description, "approval_mode": self.approval_mode}
        document = super().to_dict(exclude=exclude, exclude_none=exclude_none)
        return document | {name: value for name, value in now.items() if name not in (exclude or ())}

    async def _call(self, arguments: Any, invocation: Invocation) -> Answer:
        run = self._config.freeze()
        decided = _decided.get().get(self._serial)
        if decided is not None and decided.approval == "never_require" and run.approval == "always_require":
            run = decided  # a tool that requires approval was added after the decision: it counts from the next call
        return await self._once(run, arguments, invocation)

    async def _once(self, run: FrozenRun, arguments: Any, invocation: Invocation) -> Answer:
        scope = Scope.of(invocation.session)
        try:
            return await self._execute(run, arguments, invocation, scope)
        finally:
            await self._leave(scope)


def _description(run: FrozenRun) -> str:
    return description_of(run, with_session=False)  # whether there is a session is known only at the call


class LinuxExecuteCodeTool(EngineTool):
    """`execute_code` in the `linux` engine, as a tool of its own."""

    ENGINE = "linux"


class ContainerExecuteCodeTool(EngineTool):
    """`execute_code` in the `container` engine, as a tool of its own."""

    ENGINE = "container"


class WasmExecuteCodeTool(EngineTool):
    """`execute_code` in the `wasm` engine, as a tool of its own."""

    ENGINE = "wasm"


class MontyExecuteCodeTool(EngineTool):
    """`execute_code` in the `monty` engine, as a tool of its own."""

    ENGINE = "monty"

    def __init__(
        self,
        *,
        resource_limits: Mapping[str, Any] | None = None,
        type_check: bool = False,
        type_check_stubs: str = "",
        tools: Tools | Sequence[Tools] | None = None,
        approval_mode: Approval | None = "never_require",
        workspace_root: str | Path | None = None,
        file_mounts: MountInputs | None = (),
        allowed_domains: DomainInputs | None = (),
        tool_name: str = EXECUTE_CODE,
        **options: Unpack[ProviderOptions],
    ) -> None:
        """Take the arguments of `MontyCodeActProvider`."""
        self._guest = MontyGuest(type_check=type_check, type_check_stubs=type_check_stubs)
        super().__init__(
            tools=tools,
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=file_mounts,
            allowed_domains=allowed_domains,
            tool_name=tool_name,
            **monty_options(resource_limits, options),
        )


class NodeExecuteCodeTool(EngineTool):
    """`execute_code` in the `node` engine, as a tool of its own."""

    ENGINE = "node"

    _with_description = staticmethod(node_options)


class HyperlightExecuteCodeTool(EngineTool):
    """`execute_code` in the `hyperlight` engine, as a tool of its own."""

    ENGINE = "hyperlight"

    def __init__(
        self,
        *,
        backend: str = "wasm",
        module: str | None = "python_guest.path",
        module_path: str | None = None,
        heap_size: str | None = None,
        stack_size: str | None = None,
        tools: Tools | Sequence[Tools] | None = None,
        approval_mode: Approval | None = "never_require",
        workspace_root: str | Path | None = None,
        file_mounts: MountInputs | None = (),
        allowed_domains: DomainInputs | None = (),
        tool_name: str = EXECUTE_CODE,
        **options: Unpack[ProviderOptions],
    ) -> None:
        """Take the arguments of `HyperlightCodeActProvider`."""
        self._guest = HyperlightGuest(
            backend=backend, module=module, module_path=module_path, heap_size=heap_size, stack_size=stack_size
        )
        super().__init__(
            tools=tools,
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=file_mounts,
            allowed_domains=allowed_domains,
            tool_name=tool_name,
            **hyperlight_options(backend, options),
        )
