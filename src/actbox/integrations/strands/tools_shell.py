"""The tool `shell`: commands in the agent's sandbox, with a folder and variables of the agent's own."""

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

from .per_agent import PerAgent, check_tool, sandbox_of
from .shell_state import ShellState
from .tool_calls import DEFAULT_SECONDS, LASTING, OutputPiece, check_timeout, heeding

SHELL_DESCRIPTION: Final = (
    "Runs a shell command (sh) in the sandbox and returns its output, its error output, its exit code (0 is success)"
    " and the folder that it left the shell in. `cd` and `export` last until your next command; other variables,"
    f" functions and processes in the background end with the command. Commands have no standard input. {LASTING}"
)


def make_shell(
    *,
    sandbox: Sandbox | None = None,
    name: str = "shell",
    description: str = SHELL_DESCRIPTION,
    max_chars: int = MAX_CHARS,
) -> DecoratedFunctionTool[..., Any]:
    """Return a tool that runs shell commands in `sandbox`, or in that of the agent that calls it.

    What `cd` and `export` do lasts for the agent that did it, in its conversation; the sandbox itself keeps nothing of
    it, so that nobody else is led elsewhere. (A sandbox of Strands' own gives commands no standard input: there each
    lies in a file until it begins, and agents that share it must trust each other.) Commands of one agent run one after
    the other. Output comes as stream events (`{"stream": "stdout", "text": "…"}`), and whole in the result, of each
    kind at most `max_chars` characters.
    """
    check_tool(sandbox, name)
    shells = PerAgent(lambda _: ShellState())

    @tool(name=name, description=description, context="tool_context")
    async def run_shell(
        command: str, tool_context: ToolContext, timeout: float = DEFAULT_SECONDS
    ) -> AsyncGenerator[OutputPiece | dict[str, Any]]:
        """Run a shell command.

        Args:
            command: The command, which may have several lines.
            tool_context: Given by the framework.
            timeout: Seconds that it may take.
        """
        check_timeout(timeout)
        active = sandbox_of(sandbox, tool_context)
        shell = shells.of(tool_context, active)
        outcome: dict[str, Any] = {}
        try:
            async with aclosing(heeding(tool_context, shell.run(active, command, timeout))) as items:
                async for item in items:
                    if isinstance(item, StreamChunk):
                        yield OutputPiece(stream=item.stream_type, text=item.data)
                    elif isinstance(item, ExecutionResult):
                        outcome |= _told(item.stdout, item.stderr, item.exit_code, max_chars)
                    else:
                        outcome["note"] = item
        except SandboxTimeoutError as error:
            # A model reads nothing of the error but its words.
            partial = json.dumps(_told(error.stdout, error.stderr, 124, max_chars), ensure_ascii=False)
            error.args = (f"{error}\n{partial}",)
            raise
        yield outcome | {"folder": shell.folder}

    return run_shell


def _told(stdout: str, stderr: str, exit_code: int, max_chars: int) -> dict[str, Any]:
    return {"output": cut(stdout, max_chars), "error": cut(stderr, max_chars), "exit_code": exit_code}


shell = make_shell()
"""The tool with its defaults, in the sandbox of whichever agent calls it."""
