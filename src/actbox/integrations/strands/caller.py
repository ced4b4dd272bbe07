"""`programmatic_tool_caller`: the model sends a program, and the program calls the agent's tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import aclosing
from typing import Any, Final

from strands import Agent
from strands.types.tools import AgentTool, ToolResult, ToolSpec, ToolUse

from actbox.codeact.arguments import NoProgram, program_of
from actbox.core.call_log import CallLog
from actbox.core.errors import InvalidValue
from actbox.core.events import Event
from actbox.core.result import ExecutionResult
from actbox.tools import Toolset

from .executor import can_be_interrupted, interrupt_event, raise_after, result_event
from .option_checks import CALLS_AT_ONCE, check_program_options, check_tool_name
from .paused_runs import PAUSED_SECONDS, Gone, paused_runs
from .program_calls import NESTED, Broken, Paused, ProgramCalls, StreamedEvent, in_a_program, through
from .program_run import ProgramRun
from .result_blocks import blocks_of
from .sandbox import StrandsSandbox
from .tool_conversion import NotForPrograms, in_place_of_python, nested_tools, unregistered_tools

NAME: Final = "programmatic_tool_caller"
DESCRIPTION: Final = (
    "Run a Python program in the sandbox. Your other tools are functions in it, by their names; a `-` or another"
    " character that no name can have is `_`. Arguments may be given by position or by name, and results are plain"
    " data: an image is a dictionary with its `base64`. In a program that uses `await` tools are coroutines, so that"
    " after `import asyncio` `await asyncio.gather(f(1), f(2))` makes both calls at once; in one that does not, they"
    " are plain calls. `call_tool(name, **arguments)` calls one by its name. A call that fails raises ToolError, which"
    " the program may catch. You are shown only what the program prints, and the value of its last expression. Every"
    " program starts fresh; files in the working directory stay."
)


class ProgrammaticToolCaller(NotForPrograms, AgentTool):
    """A tool whose programs run in the agent's sandbox and call the agent's tools; see `make_programmatic_tool_caller`.

    One may serve any number of agents.
    """

    def __init__(
        self,
        *,
        allowed_tools: Collection[str] | None = None,
        timeout: float | None = None,
        max_tool_calls: int | None = None,
        calls_at_once: int = CALLS_AT_ONCE,
        paused_timeout: float = PAUSED_SECONDS,
        name: str = NAME,
        description: str = DESCRIPTION,
    ) -> None:
        super().__init__()
        check_tool_name(name)
        self._allowed_tools = check_program_options(
            timeout=timeout,
            paused_timeout=paused_timeout,
            max_tool_calls=max_tool_calls,
            calls_at_once=calls_at_once,
            allowed_tools=allowed_tools,
        )
        self._calls_at_once = calls_at_once
        self._timeout = timeout
        self._max_tool_calls = max_tool_calls
        self._paused_timeout = paused_timeout
        self._name = name
        self._description = description

    @property
    def tool_name(self) -> str:
        """The tool's name for models."""
        return self._name

    @property
    def tool_type(self) -> str:
        """The kind of tool, for listings."""
        return "programmatic"

    @property
    def tool_spec(self) -> ToolSpec:
        """The tool's specification for models."""
        code = {"type": "string", "description": "The whole program."}
        schema = {"type": "object", "properties": {"code": code}, "required": ["code"]}
        return {"name": self._name, "description": self._description, "inputSchema": {"json": schema}}

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> AsyncGenerator[Any]:
        """Run the program of a call, or resume one that waited; yield events, and the result last.

        Events are dictionaries with one key: `printed`, `tool_use`, `tool_result`, or an event of a nested call
        (`tool_stream_event`, `tool_cancel_event`), as `StreamedEvent` describes them.
        """
        agent: Agent = invocation_state["agent"]
        if in_a_program():
            yield result_event(_refused(tool_use, NESTED))
            return
        if _is_ambiguous(agent, tool_use["toolUseId"]):
            yield result_event(_refused(tool_use, _AMBIGUOUS))
            return
        program, new, nested, wrong = "", None, None, ""
        try:
            program = program_of(tool_use["input"], tool_name=self._name)
            new = ProgramRun(tool_use["toolUseId"], program, most_calls=self._max_tool_calls)
            nested = nested_tools(agent, new.call, allowed_tools=self._allowed_tools)
        except (NoProgram, InvalidValue) as error:
            wrong = str(error)
        run = paused_runs.resume(agent, tool_use["toolUseId"], program)
        if isinstance(run, Gone):
            yield result_event(_result(tool_use, run.result, program, run.calls))
            return
        if run is None:
            if new is None or nested is None or not isinstance(agent.sandbox, StrandsSandbox):
                yield result_event(_refused(tool_use, wrong or _sandbox_sentence(agent.sandbox)))
                return
            run = new
            run.warnings = (*nested.left_out, *in_place_of_python(nested.toolset, program))
            # When this thread is idle: two computing threads would slow each other down.
            events_of = _in_sandbox(agent.sandbox, program, nested.toolset, self._timeout)
            asyncio.get_running_loop().call_soon(run.begin, agent.sandbox, events_of)
        context = kwargs.get("_tool_context")
        program_calls = ProgramCalls(
            run,
            agent,
            through(agent, invocation_state, unregistered_tools(agent)),
            cancel_signal=agent.cancel_signal if context is None else context.cancel_signal,
            can_pause=can_be_interrupted(invocation_state, context),
            calls_at_once=self._calls_at_once,
        )
        async with aclosing(program_calls.events()) as events:
            async for event in events:
                if isinstance(event, StreamedEvent):
                    yield event.data
                elif isinstance(event, Paused):
                    paused_runs.pause(agent, tool_use["toolUseId"], run, seconds=self._paused_timeout)
                    yield interrupt_event(tool_use, event.interrupts)
                else:
                    if isinstance(event, Broken):
                        raise_after(agent, tool_use, event.error)
                    yield result_event(_result(tool_use, event.result, program, run.calls, run.warnings))


def make_programmatic_tool_caller(
    *,
    allowed_tools: Collection[str] | None = None,
    timeout: float | None = None,
    max_tool_calls: int | None = None,
    calls_at_once: int = CALLS_AT_ONCE,
    paused_timeout: float = PAUSED_SECONDS,
    name: str = NAME,
    description: str = DESCRIPTION,
) -> ProgrammaticToolCaller:
    """Return a tool whose programs run in the agent's sandbox, a `StrandsSandbox`, and call the agent's other tools.

    `allowed_tools` are the names of tools that programs may call, by default all of the agent's and its sandbox's
    `code_tools`. `timeout` is in seconds for each program, including the time in tools, but not the time that people
    take; it may only lower the policy's wall limit, which is the default. After `max_tool_calls` further calls raise
    `ToolError` in the program; the policy's own limit on tool calls ends it. Of simultaneous calls `calls_at_once` run
    at a time, and the others wait.

    Nested calls go through the agent's executor: its hooks, middleware, metrics, cancellation and a copy of the
    `invocation_state` apply, as to a call by the model. An error of a hook ends the program, which cannot catch it, and
    the invocation. If a call is interrupted for a person, the program waits in its sandbox for at most `paused_timeout`
    seconds, and resumes when the agent is invoked with the answers. After that the result says that it is gone, with
    the calls that it had made; nothing is run again.

    Raises `InvalidValue` for an invalid option.
    """
    return ProgrammaticToolCaller(
        allowed_tools=allowed_tools,
        timeout=timeout,
        max_tool_calls=max_tool_calls,
        calls_at_once=calls_at_once,
        paused_timeout=paused_timeout,
        name=name,
        description=description,
    )


programmatic_tool_caller = make_programmatic_tool_caller()
"""`make_programmatic_tool_caller()` with the defaults."""


_AMBIGUOUS = (
    "several calls of this turn have the same id, and nobody could tell whose answers they get: none of them ran"
)


def _is_ambiguous(agent: Agent, tool_use_id: str) -> bool:
    """Return whether several calls of the model's turn have this id."""
    blocks = agent.messages[-1]["content"] if agent.messages else []
    return sum(block["toolUse"]["toolUseId"] == tool_use_id for block in blocks if "toolUse" in block) > 1


def _sandbox_sentence(sandbox: object) -> str:
    return (
        f"programs run in a sandbox of actbox, and the agent's is a {type(sandbox).__name__}: make the agent with"
        " Agent(sandbox=StrandsSandbox(…)) of actbox.integrations.strands"
    )


def _refused(tool_use: ToolUse, why: str) -> ToolResult:
    return {"toolUseId": tool_use["toolUseId"], "status": "error", "content": [{"text": why}]}


def _result(
    tool_use: ToolUse, result: ExecutionResult, program: str, calls: CallLog, warnings: tuple[str, ...] = ()
) -> ToolResult:
    return {
        "toolUseId": tool_use["toolUseId"],
        "status": "success" if result.success else "error",
        "content": blocks_of(result, program, calls, warnings),
    }


def _in_sandbox(
    sandbox: StrandsSandbox, program: str, toolset: Toolset, timeout: float | None
) -> Callable[[], AsyncIterator[Event]]:
    return lambda: sandbox.events_of_code(program, timeout=timeout, tools=toolset)
