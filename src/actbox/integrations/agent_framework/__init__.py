"""CodeAct for Microsoft Agent Framework (extra `actbox[agent-framework]`).

    from agent_framework import Agent
    from actbox.integrations.agent_framework import LinuxCodeActProvider

    codeact = LinuxCodeActProvider(tools=[find_orders, convert])
    agent = Agent(client=client, context_providers=[codeact])

Each run of the agent then has the tool `execute_code`, whose programs call the provider's tools as functions. Names and
behavior are those of `agent_framework_hyperlight` and `agent_framework_monty`; docs/agent-framework.md lists the
intended differences. `approvals.py` describes how an approval request from a program reaches a person and comes back.
"""

from __future__ import annotations

from actbox.integrations.versions import importing

with importing("agent-framework-core", extra="agent-framework"):
    from .forms import AllowedDomain, AllowedDomainInput, FileMount, FileMountInput, MontyFileMount
    from .model_tools import model_tools
    from .providers import (
        ContainerCodeActProvider,
        HyperlightCodeActProvider,
        LinuxCodeActProvider,
        MontyCodeActProvider,
        NodeCodeActProvider,
        WasmCodeActProvider,
    )
    from .results import ResultFormat
    from .standalone import (
        ContainerExecuteCodeTool,
        HyperlightExecuteCodeTool,
        LinuxExecuteCodeTool,
        MontyExecuteCodeTool,
        NodeExecuteCodeTool,
        WasmExecuteCodeTool,
    )
    from .surface import ProviderOptions

__all__ = [
    "AllowedDomain",
    "AllowedDomainInput",
    "ContainerCodeActProvider",
    "ContainerExecuteCodeTool",
    "FileMount",
    "FileMountInput",
    "HyperlightCodeActProvider",
    "HyperlightExecuteCodeTool",
    "LinuxCodeActProvider",
    "LinuxExecuteCodeTool",
    "MontyCodeActProvider",
    "MontyExecuteCodeTool",
    "MontyFileMount",
    "NodeCodeActProvider",
    "NodeExecuteCodeTool",
    "ProviderOptions",
    "ResultFormat",
    "WasmCodeActProvider",
    "WasmExecuteCodeTool",
    "model_tools",
]
