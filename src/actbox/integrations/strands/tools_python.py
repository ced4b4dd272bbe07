"""The tools `python`, each call of which starts fresh, and `python_session`, whose variables last."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from strands import tool
from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxTimeoutError
from strands.tools.decorator import DecoratedFunctionTool
from strands.types.tools import ToolContext

import actbox
from actbox.background_loop import background_loop
from actbox.content.render import MAX_CHARS
from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, Unsupported

from .agent_sandbox import AgentSandbox
from .background import BackgroundSession
from .result_blocks import blocks_of
from .tool_calls import OutputPiece, advertised_seconds, checked_timeout, heeding
from .tool_state import ToolState, check_tool, sandbox_of
from .translation import language_of

PYTHON_DESCRIPTION: Final = (
    "Runs a Python program in the sandbox and returns what it prints and the value of its last expression. Each call"
    " starts fresh: nothing of it lasts but the files in the working directory. Files written to output/ are returned."
)
SESSION_DESCRIPTION: Final = (
    "Runs Python code in the sandbox and returns what it prints and the value of its last expression. Variables,"
    " imports and functions last until the next call, also after an error. With `reset` all of them are dropped first."
)


def make_python(
    *,
    sandbox: Sandbox | None = None,
    name: str = "python",
    description: str = PYTHON_DESCRIPTION,
    max_chars: int = MAX_CHARS,
) -> DecoratedFunctionTool[..., Any]:
    """Return a tool that runs each program in a fresh interpreter in `sandbox`, by default that of the calling agent.

    Output arrives as stream events (`{"stream": "stdout", "text": "…"}`), and in the result with the value, the error
    and pictures; its text has at most `max_chars` characters. A failed program is a result with status `error`.
    """
    check_tool(sandbox, name)
    seconds = advertised_seconds(sandbox)

    @tool(name=name, description=description, context="tool_context")
    async def run_python(
        code: str, tool_context: ToolContext, timeout: float | None = seconds
    ) -> AsyncGenerator[OutputPiece | dict[str, Any]]:
        """Run a Python program.

        Args:
            code: The source of the program.
            tool_context: Given by the framework.
            timeout: The time limit in seconds. Default: the limit of the sandbox.
        """
        active = sandbox_of(sandbox, tool_context)
        timeout = checked_timeout(timeout, active)
        if isinstance(active, AgentSandbox):
            events = active.events_of_code(code, timeout=timeout)
        else:
            events = _events_elsewhere(active, code, timeout)
        async with aclosing(_pieces_and_result(heeding(tool_context, events), code, max_chars)) as items:
            async for item in items:
                yield item

    return run_python


def make_python_session(
    *,
    sandbox: AgentSandbox | None = None,
    name: str = "python_session",
    description: str = SESSION_DESCRIPTION,
    max_chars: int = MAX_CHARS,
) -> DecoratedFunctionTool[..., Any]:
    """Return a tool that runs code in a session of `sandbox`, by default that of the calling agent.

    Each agent, conversation and sandbox has one session, which ends with the sandbox or the agent. Calls of one agent
    run one after the other. The results are those of `python`. If a run ends its session, as by using up the memory,
    the result says so, and the next call begins another.
    """
    check_tool(sandbox, name, kind=AgentSandbox)
    seconds = advertised_seconds(sandbox)
    sessions: ToolState[_Kept] = ToolState(_Kept)

    @tool(name=name, description=description, context="tool_context")
    async def run_in_session(
        code: str, tool_context: ToolContext, reset: bool = False, timeout: float | None = seconds
    ) -> AsyncGenerator[OutputPiece | dict[str, Any]]:
        """Run Python code in the session.

        Args:
            code: The code; it may be empty to do nothing but reset.
            tool_context: Given by the framework.
            reset: Whether to drop all variables before.
            timeout: The time limit in seconds. Default: the limit of the sandbox.
        """
        active = sandbox_of(sandbox, tool_context)
        timeout = checked_timeout(timeout, active)
        if not isinstance(active, AgentSandbox):
            raise Unsupported(
                f"{name} needs a sandbox that keeps sessions, such as Agent(sandbox=StrandsSandbox()); the agent's is"
                f" a {type(active).__name__}"
            )
        kept = sessions.of(tool_context, active)
        if reset or not kept.session.alive:
            sessions.forget(tool_context, active)
            await active.close_session(kept.session)
            kept = sessions.of(tool_context, active)
            if not code.strip():
                yield {"status": "success", "content": [{"text": "The session begins anew."}]}
                return
        kept.end_with(tool_context.agent)
        program = actbox.Program(code, language_of("python", active.traits))
        events = kept.session.stream(program, tools=active.code_tools, timeout=timeout)
        async with aclosing(_pieces_and_result(heeding(tool_context, events), code, max_chars)) as items:
            async for item in items:
                yield item

    return run_in_session


class _Kept:
    """The session of one caller."""

    def __init__(self, sandbox: Sandbox) -> None:
        assert isinstance(sandbox, AgentSandbox)
        self.session = sandbox.session()
        self._sandbox = sandbox
        self._ends: weakref.finalize[..., Any] | None = None

    def end_with(self, agent: Any) -> None:
        """End the session when the agent is freed."""
        if self._ends is None:
            self._ends = weakref.finalize(agent, _close_later, weakref.ref(self._sandbox), self.session)
            self._ends.atexit = False


def _close_later(found: weakref.ref[AgentSandbox], session: BackgroundSession) -> None:
    async def close(sandbox: AgentSandbox) -> None:
        with contextlib.suppress(ActboxError):  # the sandbox was stopped meanwhile
            await sandbox.close_session(session)

    sandbox = found()
    if sandbox is not None:
        asyncio.run_coroutine_threadsafe(close(sandbox), background_loop())


# Events to a tool's result


async def _pieces_and_result(
    events: AsyncGenerator[actbox.Event, Any], code: str, max_chars: int
) -> AsyncGenerator[OutputPiece | dict[str, Any]]:
    async with aclosing(events):
        async for event in events:
            if isinstance(event, actbox.Output):
                yield OutputPiece(stream=event.stream, text=event.text)
            elif isinstance(event, actbox.Completed):
                yield result_of(event.result, code, max_chars)


def result_of(result: actbox.ExecutionResult, code: str, max_chars: int = MAX_CHARS) -> dict[str, Any]:
    """Return a result in the form of a Strands tool: text, and pictures as image blocks."""
    text, *pictures = blocks_of(result, code, max_chars=max_chars)
    if result.state_kept is False:
        text["text"] += "\n\nThe variables are lost; the next call begins anew."
    return {"status": "success" if result.success else "error", "content": [text, *pictures]}


async def _events_elsewhere(sandbox: Sandbox, code: str, timeout: float | None) -> AsyncGenerator[actbox.Event]:
    """Run a program in a sandbox of another kind, and yield events like ours."""
    try:
        async with aclosing(sandbox.execute_code_streaming(code, "python3", timeout=timeout)) as items:
            async for item in items:
                if isinstance(item, StreamChunk):
                    yield actbox.Output(item.stream_type, item.data)
                elif isinstance(item, ExecutionResult):
                    yield actbox.Completed(_ours(item))
    except SandboxTimeoutError as error:
        why = ErrorInfo(kind=ErrorKind.TIMEOUT, message=str(error))
        yield actbox.Completed(
            actbox.ExecutionResult(stdout=error.stdout, stderr=error.stderr, exit_code=124, error=why)
        )


def _ours(result: ExecutionResult) -> actbox.ExecutionResult:
    error = None
    if result.exit_code:
        error = ErrorInfo(kind=ErrorKind.EXIT, message=f"the program ended with exit code {result.exit_code}")
    files = tuple(actbox.Artifact(file.name, file.content, file.mime_type) for file in result.output_files)
    return actbox.ExecutionResult(
        stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code, error=error, artifacts=files
    )


python = make_python()
"""The tool with its defaults, in the calling agent's sandbox."""
python_session = make_python_session()
"""The tool with its defaults, in the calling agent's sandbox."""
