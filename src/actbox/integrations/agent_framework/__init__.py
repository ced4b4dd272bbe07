"""CodeAct for Microsoft Agent Framework (extra `actbox[agent-framework]`).

    from agent_framework import Agent
    from actbox.integrations.agent_framework import LinuxCodeActProvider

    codeact = LinuxCodeActProvider(tools=[find_orders, convert])
    agent = Agent(client=client, context_providers=[codeact])

Each run of the agent then has the tool `execute_code`, whose programs call the provider's tools as functions. Names and
behaviour are those of `agent_framework_hyperlight` and `agent_framework_monty`; docs/agent-framework.md has a table of
what is otherwise on purpose. `approvals.py` says how a question from inside a program gets to a person and back.
"""

from __future__ import annotations

try:
    import agent_framework as _framework
except ImportError as error:
    from actbox.core.errors import ActboxError

    raise ActboxError("Agent Framework needs the extra: pip install 'actbox[agent-framework]'") from error

from .forms import AllowedDomain, AllowedDomainInput, FileMount, FileMountInput, MontyFileMount
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

del _framework

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
]
