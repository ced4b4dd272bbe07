"""Strands agents whose tools share one sandbox, and that call their tools from code (extra `actbox[strands]`).

    from strands import Agent
    from actbox.integrations.strands import StrandsSandbox

    agent = Agent(model, sandbox=StrandsSandbox("linux"))

The agent then has a shell, Python and a file editor that share files. With `programmatic_tool_caller` among its tools,
it can send programs that call the other tools from inside the sandbox. With `plugins=[CodeActPlugin()]` it acts only by
programs.
"""

from __future__ import annotations

from actbox.integrations.versions import importing

with importing("strands-agents", extra="strands"):
    from .caller import make_programmatic_tool_caller, programmatic_tool_caller
    from .codeact_invocation import CodeActState
    from .environments import AgentCoreSandbox, DockerSandbox, LocalEnvironment, LocalSandbox
    from .plugin import CodeActPlugin
    from .sandbox import StrandsSandbox
    from .tool_conversion import model_tools
    from .tools_files import file_editor, file_read, file_write, make_file_editor, make_file_read, make_file_write
    from .tools_python import make_python, make_python_session, python, python_session
    from .tools_shell import make_shell, shell

__all__ = [
    "AgentCoreSandbox",
    "CodeActPlugin",
    "CodeActState",
    "DockerSandbox",
    "LocalEnvironment",
    "LocalSandbox",
    "StrandsSandbox",
    "file_editor",
    "file_read",
    "file_write",
    "make_file_editor",
    "make_file_read",
    "make_file_write",
    "make_programmatic_tool_caller",
    "make_python",
    "make_python_session",
    "make_shell",
    "model_tools",
    "programmatic_tool_caller",
    "python",
    "python_session",
    "shell",
]
