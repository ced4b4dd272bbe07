"""The tool `shell`: runs commands in the agent's sandbox, with a directory and variables for each agent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from strands import tool
from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxTimeoutError
from strands.tools.decorator import DecoratedFunctionTool
from strands.types.tools import ToolContext

from actbox.content.render import MAX_CHARS, cut

from .shell_state import ShellState
from .tool_calls import LASTING, OutputPiece, advertised_seconds, checked_timeout, heeding
from .tool_state import ToolState, check_tool, sandbox_of

SHELL_DESCRIPTION: Final = (
    "Runs a shell command (sh) in the sandbox and returns its output, its error output, its exit code (0 is success)"
    " and the directory that it left the shell in. `cd` and `export` last until your next command; other variables,"
    f" functions and processes in the background end with the command. Commands have no standard input. {LASTING}"
)


def make_shell(
    *,
    sandbox: Sandbox | None = None,
    name: str = "shell",
    description: str = SHELL_DESCRIPTION,
    max_chars: int = MAX_CHARS,
) -> DecoratedFunctionTool[..., Any]:
    """Return a tool that runs shell commands in `sandbox`, by default that of the calling agent.

    Effects of `cd` and `export` last for the agent that ran them, in its conversation; the sandbox keeps none of them,
    so other agents are not affected. (A sandbox of Strands' own gives commands no standard input: there each command
    lies in a file until it begins, and agents that share the sandbox must trust each other.) Commands of one agent run
    one after the other. Output arrives as stream events (`{"stream": "stdout", "text": "…"}`), and in the result, with
    at most `max_chars` characters of each stream.
    """
    check_tool(sandbox, name)
    seconds = advertised_seconds(sandbox)
    shells = ToolState(lambda _: ShellState())

    @tool(name=name, description=description, context="tool_context")
    async def run_shell(
        command: str, tool_context: ToolContext, timeout: float | None = seconds
    ) -> AsyncGenerator[OutputPiece | dict[str, Any]]:
        """Run a shell command.

        Args:
            command: The command, which may have several lines.
            tool_context: Given by the framework.
            timeout: The time limit in seconds. Default: the limit of the sandbox.
        """
        active = sandbox_of(sandbox, tool_context)
        timeout = checked_timeout(timeout, active)
        shell = shells.of(tool_context, active)
        outcome: dict[str, Any] = {}
        try:
            async with aclosing(heeding(tool_context, shell.run(active, command, timeout))) as items:
                async for item in items:
                    if isinstance(item, StreamChunk):
                        yield OutputPiece(stream=item.stream_type, text=item.data)
                    elif isinstance(item, ExecutionResult):
                        outcome |= _output_of(item.stdout, item.stderr, item.exit_code, max_chars)
                    else:
                        outcome["note"] = item
        except SandboxTimeoutError as error:
            # A model reads only the error's message.
            partial = json.dumps(_output_of(error.stdout, error.stderr, 124, max_chars), ensure_ascii=False)
            error.args = (f"{error}\n{partial}",)
            raise
        yield outcome | {"folder": shell.folder}

    return run_shell


def _output_of(stdout: str, stderr: str, exit_code: int, max_chars: int) -> dict[str, Any]:
    return {"output": cut(stdout, max_chars), "error": cut(stderr, max_chars), "exit_code": exit_code}


shell = make_shell()
"""The tool with its defaults, in the calling agent's sandbox."""
