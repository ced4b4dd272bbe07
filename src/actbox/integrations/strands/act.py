"""One invocation of an agent in CodeAct: the turns of its loop, its session, and the program that is to run next."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Container, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from strands import Agent
from strands.interrupt import Interrupt
from strands.types.content import ContentBlock, Message
from strands.types.tools import ToolUse

from actbox.codeact.blocks import program_in
from actbox.codeact.calls_as_text import call_as_text
from actbox.codeact.final_answer import FINAL_ANSWER, FinalAnswer
from actbox.codeact.loop import Ask, End, Loop, Run
from actbox.codeact.model import ModelReply, ToolCall, ToolResultMessage, UserMessage
from actbox.codeact.outcome import not_run
from actbox.content.render import MAX_CHARS, cut
from actbox.content.safe_text import encodable
from actbox.core.call_log import CallLog
from actbox.core.errors import ErrorKind, InvalidValue
from actbox.core.result import ExecutionResult
from actbox.tools import Toolset

from .act_run import KEY, ActRun, id_of, run_of
from .attending import Attendant, Broken, Paused, Told, in_a_program
from .attending import Run as RunTool
from .executor import Answered, Interrupted, note, run_tool
from .nested import NestedCall, NestedTools, in_place_of_python, nested_tools
from .observation import blocks_of
from .paused import Gone, paused_runs
from .per_agent import note_where_programs_run
from .place import Place
from .sandbox import StrandsSandbox

STANDING: Final = f"{KEY}.standing"
"""Of what is noted with any interrupt."""


class CodeActState(TypedDict):
    """What `AgentResult.state["codeact"]` has.

    `stopped` is `final_answer` where a program gave one, `answer` where the model answered in words, `max_turns`, or
    the `stop_reason` of Strands; `answer` is JSON data, the words, or `None`. `turns` are answers of the model.
    """

    stopped: str
    answer: Any
    turns: int
    programs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActSettings:
    """What is the same for all invocations of an agent. `timeout` is in seconds for each program."""

    language: str
    max_turns: int
    timeout: float | None
    allowed_tools: frozenset[str] | None
    max_tool_calls: int | None
    keep_session: bool
    paused_timeout: float
    guidance: str


class Standing(TypedDict):
    """Where an invocation stands in which people are asked, as is noted for an agent that is brought back.

    `turns` are those before the one that people are asked in; `in_session` is whether its programs have defined
    anything that its next ones could find.
    """

    turns: int
    programs: int
    in_session: bool


class Act:
    """The turns of one invocation, the agent's `ordinal`th, which it knows by its `number`.

    `place` is where its programs run, in the session of that number. `before` is where it stood in the agent that was
    here before, if it began in that.
    """

    def __init__(
        self, number: int, ordinal: int, settings: ActSettings, place: Place, before: Standing | None = None
    ) -> None:
        self.number = number
        self._ordinal = ordinal
        self.place = place
        self._settings = settings
        # Strands has the conversation; of the loop only its steps are wanted.
        self._turns = 0 if before is None else before["turns"]
        most_turns = max(1, settings.max_turns - self._turns)
        self._loop = Loop("", "", most_turns, language=settings.language, by_call=False)
        self._next: Ask | Run | End = self._loop.begin()
        self._programs = 0 if before is None else before["programs"]
        self._is_lost = before is not None and before["in_session"]
        """Whether programs have defined what is not here."""
        self._calls_come_again = False
        self._observed: _Observed | None = None
        self._said: list[Any] | None = None
        """What the model is to read of its last answer: what came of a program, or how to write one."""
        self._resumed_with: list[Any] = []
        self.has_told = False
        """Whether the pass that goes on now was resumed with what the model is to read."""
        self.asked: tuple[Interrupt, ...] = ()
        """What people have to answer before the program can go on."""
        self.raised: Exception | None = None
        """What a hook of a nested call has raised: it ends the invocation."""
        self.unopened: Exception | None = None
        """What kept the sandbox from running a program at all: the developer's to mend, so it ends the invocation."""

    # Where it stands

    @property
    def program(self) -> str | None:
        """The program that is to run, if one is."""
        return self._next.code if isinstance(self._next, Run) else None

    @property
    def end(self) -> End | None:
        """What it came to, once it did."""
        return self._next if isinstance(self._next, End) else None

    def on_answer(self, text: str, tools: Callable[[], Container[str]]) -> None:
        """Take what the model answered in words and blocks. `tools` has the names that it may take for tools.

        A call of one of them that is written as text is neither answer nor program: the model is told how to send one.
        """
        self._turns += 1
        program = program_in(text, self._settings.language)
        if program is None:
            call = call_as_text(text)
        else:  # such as a call in a block without a language
            call = call_as_text(program) if program.lstrip().startswith(("{", "[")) else None
        if call is None or call.name not in tools():
            self._next = self._loop.on_reply(ModelReply(text))
            return
        self._next = self._loop.on_reply(ModelReply(text, (call,)))
        self._said = [{"text": self._refused()}]

    def on_calls(self, text: str, calls: Collection[ToolUse]) -> str:
        """Take an answer that calls tools without a program, and return what the model is told."""
        again, self._calls_come_again = self._calls_come_again, False
        if self.end is not None:
            return _LAST
        if again:
            return self._refused()
        self._turns += 1
        reply = ModelReply(text, tuple(ToolCall(call["toolUseId"], call["name"], call["input"]) for call in calls))
        self._next = self._loop.on_reply(reply)
        return self._refused()

    def on_asked(self, message: Message) -> Standing:
        """Take that people are asked about the model's answer, or where it has no calls before the model is."""
        self._calls_come_again = any("toolUse" in block for block in message["content"])
        return self._standing(self._turns - 1 if self._calls_come_again else self._turns)

    def _standing(self, turns: int) -> Standing:
        is_there = self.place.has_state(self.number, self._settings.language)
        return {"turns": turns, "programs": self._programs, "in_session": self._is_lost or is_there}

    def _refused(self) -> str:
        said = [message for message in self._loop.messages if isinstance(message, ToolResultMessage)]
        return said[-1].text

    def hand_over(self, stand_in: str) -> list[Any] | None:
        """Return the blocks that the pass after this one is resumed with; `stand_in` is for one in which a program is
        to run. `None` if there is nothing more to do.
        """
        said, self._said = self._said, None
        self.has_told = said is not None
        if said is None and self.program is not None:
            said = [{"text": stand_in}]
        if said is not None:
            self._resumed_with = said
        return said

    def has_resumed(self, messages: Iterable[Message]) -> bool:
        """Return whether a pass with these messages is the one that it was to be resumed with."""
        first = self._resumed_with[:1]
        return any(block is own for own in first for message in messages for block in message["content"])

    def state(self, stop_reason: str) -> CodeActState:
        """Return what is told of it to whoever has invoked the agent."""
        end = self.end
        return {
            "stopped": stop_reason if end is None else end.stopped,
            "answer": None if end is None else end.answer,
            "turns": self._turns,
            "programs": self._programs,
        }

    # The program

    async def run(self, agent: Agent, invocation_state: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Run the program, or go on with it where it waited for people, and yield what is streamed of it.

        Where people have to be `asked`, it is left waiting in its sandbox.
        """
        self.asked = ()
        program = self.program
        assert program is not None
        found = paused_runs.resume(agent, KEY, program)
        if isinstance(found, Gone):
            lost = (_LOST_BEFORE,) if self._is_lost else ()
            self._is_lost = False
            self._observed = _Observed(found.result, found.calls, lost)
            return
        if in_a_program():
            self._observed = _Observed(not_run(ErrorKind.POLICY, _NESTED), CallLog())
            return
        if isinstance(found, ActRun) and found.home is not None:
            # The agent that began it may be no more; what its programs have defined is there.
            (self.place, self.number), found.home = found.home, None
            self._is_lost = False
        if found is None:
            self._programs += 1
            yield {"program": {"code": program, "language": self._settings.language, "number": self._programs}}
        run = found if isinstance(found, ActRun) else await self._begin(agent, program)
        through = _through(agent, invocation_state, run.nested)
        attendant = Attendant(run, agent, through, cancel_signal=agent.cancel_signal, can_pause=True)
        async with aclosing(attendant.events()) as events:
            async for event in events:
                if isinstance(event, Told):
                    yield event.data
                elif isinstance(event, Paused):
                    run.home = self.place, self.number
                    paused_runs.pause(agent, KEY, run, seconds=self._settings.paused_timeout)
                    note(agent, STANDING, self._standing(self._turns - 1))
                    self.asked = event.interrupts
                elif isinstance(event, Broken):
                    self.raised = event.error
                elif run.unopened is not None:
                    self.unopened = run.unopened
                else:
                    self._observed = _Observed(event.result, run.calls, run.warnings, run.final)

    def observe(self, more: Iterable[ContentBlock] = ()) -> None:
        """Take what came of the program that ran, to be handed over to the model with what others have to say."""
        program, observed = self.program, self._observed
        assert program is not None and observed is not None
        warnings = observed.warnings
        if self._settings.language == "python" and observed.result.success:
            warnings = (*warnings, *filter(None, [observed.final.missed_by(program)]))
        text, *pictures = blocks_of(observed.result, program, observed.calls, warnings)
        answered = observed.final.given and observed.result.success
        seen = _ANSWERED if answered and _says_nothing(observed) else text["text"]
        self._next = self._loop.on_observation(seen, answered=answered, answer=observed.final.value)
        said = [message for message in self._loop.messages if isinstance(message, UserMessage)]
        self._said = [{"text": said[-1].text}, *pictures, *more]

    async def _begin(self, agent: Agent, program: str) -> ActRun:
        settings = self._settings
        run = run_of(id_of(agent, self._ordinal, self._programs, program), program, settings.max_tool_calls)
        sandbox = self.place.sandbox
        note_where_programs_run(agent, sandbox)
        run.nested = tools_of_programs(agent, sandbox, settings, run.call, run.final)
        is_moved = settings.keep_session and not self.place.has_begun(self.number) and _has_programs(agent.messages)
        session, is_lost = await self.place.session_of(self.number, settings.language)
        is_lost = is_lost or ((self._is_lost or is_moved) and session is not None)
        self._is_lost = False
        hidden = in_place_of_python(run.nested.toolset, program) if settings.language == "python" else ()
        run.warnings = (*run.nested.left_out, *hidden, *((_LOST,) if is_lost else ()))
        run.begin_in(sandbox, session, settings.language, settings.timeout)
        return run


@dataclass(frozen=True, slots=True)
class _Observed:
    """What a program came to."""

    result: ExecutionResult
    calls: CallLog
    warnings: tuple[str, ...] = ()
    final: FinalAnswer = field(default_factory=FinalAnswer)


def _has_programs(messages: Iterable[Message]) -> bool:
    """Return whether programs have run in a conversation, as where a session manager has brought it here."""
    return any(block.get("text", "").startswith(_HEADING) for message in messages for block in message["content"])


def _says_nothing(observed: _Observed) -> bool:
    result = observed.result
    return not (result.stdout or result.stderr or result.artifacts or result.warnings or observed.warnings)


def tools_of_programs(
    agent: Agent, sandbox: StrandsSandbox, settings: ActSettings, call: NestedCall, final: FinalAnswer
) -> NestedTools:
    """Return what programs can call: the agent's tools, those of their sandbox, and `final_answer`.

    Raises `InvalidValue` where a tool of another has that name, and where one requires approval and nobody is there to
    be asked.
    """
    if not sandbox.traits.tools:
        return NestedTools(Toolset(), {})
    nested = nested_tools(agent, call, allowed_tools=settings.allowed_tools, code_tools=sandbox.code_tools)
    if taken := nested.toolset.get(FINAL_ANSWER):
        raise InvalidValue(f"a tool of the agent's is called {taken.name!r}, by which programs answer: rename it")
    Toolset.for_run(nested.toolset)
    return NestedTools(nested.toolset.with_tools(final.tool), nested.unregistered, nested.left_out)


def answer_text(answer: Any) -> str:
    """Return a final answer as text: text as it is, any other data as JSON, in a form that can be stored.

    Lone surrogates are spelt out. It has at most `MAX_CHARS` characters, as what a model reads of a program has.
    """
    text = answer if isinstance(answer, str) and answer.strip() else json.dumps(answer, ensure_ascii=False)
    return cut(encodable(text), MAX_CHARS, whole=f'AgentResult.state["{KEY}"]["answer"]')


def _through(agent: Agent, invocation_state: dict[str, Any], nested: NestedTools) -> RunTool:
    async def run(tool_use: ToolUse, tell: Callable[[dict[str, Any]], Awaitable[None]]) -> Answered | Interrupted:
        tool = nested.unregistered.get(tool_use["name"])
        return await run_tool(agent, tool_use, invocation_state, tell=tell, tool=tool)

    return run


_HEADING = "What came of the program:"  # as the loop begins an observation
_LOST = "the session of the programs before has ended, and what they had defined is lost; this one began in a new one"
_LOST_BEFORE = (
    "the session of this program and those before has ended, and what they had defined is lost; the next one begins in"
    " a new one"
)
_LAST = "There are no turns left."
_ANSWERED = "It gave the final answer."
_NESTED = "a tool that a program has called cannot run programs, neither by itself nor by an agent that it asks"
