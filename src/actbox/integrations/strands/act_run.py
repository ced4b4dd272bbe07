"""One program of an agent in CodeAct: its id, what it was given, and how it runs in its sandbox."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from typing import Final
from weakref import WeakValueDictionary

from strands import Agent

from actbox.codeact.final_answer import FINAL_ANSWER, FinalAnswer
from actbox.core.errors import SandboxStopped, SandboxUnavailable
from actbox.core.events import Event, ToolFinished, ToolStarted
from actbox.core.program import Program
from actbox.sandbox.contract import closing

from .nested import NestedTools
from .own_session import OwnSession
from .place import Place
from .program_run import ProgramRun, digest_of
from .sandbox import StrandsSandbox

KEY: Final = "codeact"
"""Of what is streamed, of `AgentResult.state`, and of what is noted with an interrupt of a program."""


class ActRun(ProgramRun):
    """A program with what it was given: its tools, and the one by which it answers."""

    nested: NestedTools

    def __init__(self, outer_id: str, program: str, *, most_calls: int | None) -> None:
        super().__init__(outer_id, program, most_calls=most_calls)
        self._code = program
        self.final = FinalAnswer()
        self.home: tuple[Place, int] | None = None
        """Where it runs and the number of its invocation, while it waits for people: it keeps them meanwhile."""
        self.unopened: Exception | None = None
        """Why it never ran: the sandbox could not be opened, or is not open any more."""

    def begin_in(
        self, sandbox: StrandsSandbox, session: OwnSession | None, language: str, timeout: float | None
    ) -> None:
        """Run the program with its tools: in a session, or fresh without one. `timeout` is in seconds."""
        self.begin(lambda: self._events(sandbox, session, Program(self._code, language), timeout))

    def end(self) -> None:
        """End the program; `Ended` follows."""
        super().end()
        self.home = None

    async def _events(
        self, sandbox: StrandsSandbox, session: OwnSession | None, program: Program, timeout: float | None
    ) -> AsyncGenerator[Event]:
        """Yield what happens but for `final_answer`: that of a program that fails later is to be given again.

        It goes on as long as the program waits for people, and so has no agent.
        """
        try:
            await sandbox.ready()
        except Exception as error:
            self.unopened = error
            raise
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
    """Return a run of this id, made another where a run that is not over has it.

    Agents that are alike may act alike at once, and a graph of them gives an answer to all who have asked by an id.
    """
    with _runs_lock:
        free, further = outer_id, 1
        while (other := _runs.get(free)) is not None and not other.is_over:
            further += 1
            free = f"{outer_id}-{further}"
        run = _runs[free] = ActRun(free, program, most_calls=most_calls)
    return run


def id_of(agent: Agent, invocation: int, number: int, program: str) -> str:
    """Return what stands for the tool-use id of a program, and its calls' ids begin with.

    It is the same where the run is: for the same program at the same place of the same agent's history. A conversation
    only grows, messages counted that were removed from it, also where a session manager moves it to another process;
    where somebody shortens it, ordinals tell programs apart.
    """
    place = agent.conversation_manager.removed_message_count + len(agent.messages)
    digest = digest_of("\0".join((agent.agent_id, agent.name, program)))
    return f"{KEY}-{place}-{invocation}-{number}-{digest[:12]}"
