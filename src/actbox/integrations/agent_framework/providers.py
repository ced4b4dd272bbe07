"""The providers, one class for each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from actbox.codeact.instructions import EXECUTE_CODE
from actbox.tools import Approval

from .engine_options import HyperlightGuest, MontyGuest, hyperlight_options, monty_options, node_options
from .provider import EngineProvider
from .surface import DomainInputs, MountInputs, ProviderOptions, Tools


class LinuxCodeActProvider(EngineProvider):
    """`execute_code` in the `linux` engine: full CPython with the packages of this environment, in a sandbox."""

    ENGINE = "linux"
    DEFAULT_SOURCE_ID = "linux_codeact"


class ContainerCodeActProvider(EngineProvider):
    """`execute_code` in the `container` engine: full CPython in a container."""

    ENGINE = "container"
    DEFAULT_SOURCE_ID = "container_codeact"


class WasmCodeActProvider(EngineProvider):
    """`execute_code` in the `wasm` engine: CPython as WebAssembly."""

    ENGINE = "wasm"
    DEFAULT_SOURCE_ID = "wasm_codeact"


class MontyCodeActProvider(EngineProvider):
    """`execute_code` in the `monty` engine: an interpreter of a subset of Python, in worker processes."""

    ENGINE = "monty"
    DEFAULT_SOURCE_ID = "monty_codeact"

    def __init__(
        self,
        source_id: str = DEFAULT_SOURCE_ID,
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
        """`resource_limits` are limits by Monty's own names.

        They are `max_duration_secs`, `max_feed_duration_secs`, `max_memory` (in bytes) and `max_suspensions` (calls).
        With `type_check` programs are checked before they run, against their tools and `type_check_stubs`.
        """
        self._guest = MontyGuest(type_check=type_check, type_check_stubs=type_check_stubs)
        super().__init__(
            source_id,
            tools=tools,
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=file_mounts,
            allowed_domains=allowed_domains,
            tool_name=tool_name,
            **monty_options(resource_limits, options),
        )


class NodeCodeActProvider(EngineProvider):
    """`execute_code` in the `node` engine: JavaScript, with the tools as async functions declared in TypeScript."""

    ENGINE = "node"
    DEFAULT_SOURCE_ID = "node_codeact"

    _with_description = staticmethod(node_options)


class HyperlightCodeActProvider(EngineProvider):
    """`execute_code` in the `hyperlight` engine: CPython as WebAssembly in a small virtual machine."""

    ENGINE = "hyperlight"
    DEFAULT_SOURCE_ID = "hyperlight_codeact"

    def __init__(
        self,
        source_id: str = DEFAULT_SOURCE_ID,
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
        """`backend`, `module`, `module_path`, `heap_size` and `stack_size` choose the guest of the virtual machine."""
        self._guest = HyperlightGuest(
            backend=backend, module=module, module_path=module_path, heap_size=heap_size, stack_size=stack_size
        )
        super().__init__(
            source_id,
            tools=tools,
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=file_mounts,
            allowed_domains=allowed_domains,
            tool_name=tool_name,
            **hyperlight_options(backend, options),
        )
