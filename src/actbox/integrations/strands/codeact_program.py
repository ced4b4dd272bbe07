"""One program of an agent in CodeAct: its id, its tools, and its run in the sandbox."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final
from weakref import WeakValueDictionary

from opentelemetry import trace
from strands import Agent
from strands.telemetry import get_tracer
from strands.types.tools import ToolResult, ToolResultContent

from actbox.codeact.final_answer import FINAL_ANSWER, FinalAnswer
from actbox.core.errors import SandboxStopped, SandboxUnavailable
from actbox.core.events import Event, ToolFinished, ToolStarted
from actbox.core.program import Program
from actbox.sandbox.contract import closing

from .codeact_sessions import CodeActSessions, InvocationSession
from .program_run import ProgramRun, digest_of
from .sandbox import StrandsSandbox
from .tool_conversion import NestedTools

KEY: Final = "codeact"
"""The key of its events, of its part in `AgentResult.state`, and of its notes with an interrupt."""
NAME: Final = "codeact"


class ActRun(ProgramRun):
    """A program's run with its tools, among them `final_answer`."""

    nested: NestedTools

    def __init__(self, outer_id: str, program: str, *, most_calls: int | None) -> None:
        super().__init__(outer_id, program, most_calls=most_calls)
        self._code = program
        self.final = FinalAnswer()
        self.home: tuple[CodeActSessions, int] | None = None
        """The sessions and the number of the invocation, kept alive while the program waits for people."""

    def begin_in(
        self, sandbox: StrandsSandbox, session: InvocationSession | None, language: str, timeout: float | None
    ) -> None:
        """Run the program with its tools: in a session, or fresh without one. `timeout` is in seconds."""
        self.begin(sandbox, lambda: self._events(sandbox, session, Program(self._code, language), timeout))

    def end(self) -> None:
        """End the program; `Ended` follows."""
        super().end()
        self.home = None

    async def _events(
        self, sandbox: StrandsSandbox, session: InvocationSession | None, program: Program, timeout: float | None
    ) -> AsyncGenerator[Event]:
        """Yield the events except those of `final_answer`: after a failure its value does not count.

        The program runs on while it waits for people, so it has no agent.
        """
        tools = self.nested.toolset
        if session is None:
            events = sandbox.events_of_code(program.code, program.language, timeout=timeout, tools=tools)
        else:
            events = session.stream(program, tools=tools, timeout=timeout)
        has_begun = False
        try:
            async with closing(events):
                async for event in events:
                    has_begun = True
                    if not (isinstance(event, ToolStarted | ToolFinished) and event.tool == FINAL_ANSWER):
                        yield event
        except (SandboxUnavailable, SandboxStopped) as error:
            self.unopened = None if has_begun else error
            raise


_runs: WeakValueDictionary[str, ActRun] = WeakValueDictionary()
_runs_lock = threading.Lock()


def run_of(outer_id: str, program: str, most_calls: int | None) -> ActRun:
    """Return a run with this id, or with a numbered one if a run with this id is still going on.

    Identical agents may act at the same time, and a graph of agents passes an answer to everyone who asked with an id.
    """
    with _runs_lock:
        free, further = outer_id, 1
        while (other := _runs.get(free)) is not None and not other.is_over:
            further += 1
            free = f"{outer_id}-{further}"
        run = _runs[free] = ActRun(free, program, most_calls=most_calls)
    return run


def id_of(agent: Agent, invocation: int, number: int, program: str) -> str:
    """Return the id that replaces a program's tool-use id, and that its calls' ids begin with.

    It is equal for the same program at the same position of the same agent's history. The position is the number of
    messages, removed ones included, so it only grows, also when a session manager moves the agent to another process.
    If somebody shortens the history, the invocation's and program's numbers tell programs apart.
    """
    place = agent.conversation_manager.removed_message_count + len(agent.messages)
    digest = digest_of("\0".join((agent.agent_id, agent.name, program)))
    return f"{KEY}-{place}-{invocation}-{number}-{digest[:12]}"


class ProgramSpan:
    """A span `execute_tool codeact` below the agent's own, with the program as its argument. Close it at the end.

    A program that waits for people has one span until it asks, and another from their answers on.
    """

    def __init__(self, agent: Agent, run_id: str, program: str, language: str) -> None:
        self._id = run_id
        self._result: ToolResult | None = None
        self._error: Exception | None = None
        call: Any = {"toolUseId": run_id, "name": NAME, "input": {"code": program, "language": language}}
        self._span = get_tracer().start_tool_call_span(call, custom_trace_attributes=agent.trace_attributes)

    def as_current(self) -> AbstractContextManager[Any]:
        """Make this span the parent of spans that begin in the `with` block."""
        return trace.use_span(self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False)

    def ended(self, content: Iterable[ToolResultContent], *, is_success: bool) -> None:
        """Record the program's outcome."""
        status: Any = "success" if is_success else "error"
        self._result = {"toolUseId": self._id, "status": status, "content": list(content)}

    def failed(self, error: Exception) -> None:
        """Record the error of a hook."""
        self._error = error

    async def aclose(self) -> None:
        """End the span."""
        get_tracer().end_tool_call_span(self._span, self._result, self._error)
