"""One invocation of an agent in CodeAct: the turns of its loop, its session, and the program to run next."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection, Container, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict

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
from actbox.codeact.review_decision import Advice, advice_on, blocked
from actbox.content.render import MAX_CHARS, cut
from actbox.content.safe_text import encodable
from actbox.core.call_log import CallLog
from actbox.core.errors import ErrorKind, InvalidValue
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.core.values import pack
from actbox.tools import Toolset
from actbox.tools.json_form import spelled_out
from actbox.tools.large_values import aside

from .codeact_program import KEY, ActRun, ProgramSpan, id_of, run_of
from .codeact_sessions import CodeActSessions
from .executor import note
from .paused_runs import Gone, paused_runs
from .program_calls import NESTED, Broken, Paused, ProgramCalls, StreamedEvent, in_a_program, through
from .result_blocks import blocks_of
from .sandbox import StrandsSandbox
from .tool_conversion import NestedCall, NestedTools, in_place_of_python, nested_tools
from .tool_state import note_where_programs_run

if TYPE_CHECKING:
    from actbox.review import Rules

PROGRESS: Final = f"{KEY}.standing"
"""The key of the notes for any interrupt."""


class CodeActState(TypedDict):
    """The value of `AgentResult.state["codeact"]`.

    `stopped` is `final_answer` if a program gave one, `answer` if the model answered in words, `max_turns`, or the
    `stop_reason` of Strands. `answer` is the value of the final answer in the tagged form, which is JSON data, or the
    model's words, or `None`. `turns` is the number of the model's answers.
    """

    stopped: str
    answer: Any
    turns: int
    programs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeActSettings:
    """The settings for all invocations of an agent. `timeout` is in seconds for each program."""

    language: str
    max_turns: int
    timeout: float | None
    allowed_tools: frozenset[str] | None
    max_tool_calls: int | None
    calls_at_once: int
    keep_session: bool
    paused_timeout: float
    guidance: str
    review: Rules | None = None


class Progress(TypedDict):
    """The progress of an interrupted invocation, stored for an agent that is restored.

    `turns` are those before the interrupted one; `in_session` is true if its programs have defined anything that later
    ones could use.
    """

    turns: int
    programs: int
    in_session: bool


class CodeActInvocation:
    """The turns of one invocation: the `ordinal`th of the agent, with the session `number`.

    Its programs run in `sessions`, in that of its number. `before` is the stored progress, if the invocation began
    in an earlier agent object.
    """

    def __init__(
        self,
        number: int,
        ordinal: int,
        settings: CodeActSettings,
        sessions: CodeActSessions,
        before: Progress | None = None,
    ) -> None:
        self.number = number
        self._ordinal = ordinal
        self.sessions = sessions
        self._settings = settings
        # Strands keeps the conversation; the loop is used only for its steps.
        self._turns = 0 if before is None else before["turns"]
        most_turns = max(1, settings.max_turns - self._turns)
        self._loop = Loop("", "", most_turns, language=settings.language, by_call=False)
        self._next: Ask | Run | End = self._loop.begin()
        self._programs = 0 if before is None else before["programs"]
        self._is_lost = before is not None and before["in_session"]
        """True if earlier programs have defined state that no longer exists."""
        self._calls_come_again = False
        self._observed: _Observed | None = None
        self.answer_text = ""
        """The final answer as text for the conversation, once a program gave one."""
        self._reply: list[Any] | None = None
        """The reply to the model's last answer: a program's outcome, or how to send a program."""
        self._resumed_with: list[Any] = []
        self.has_replied = False
        """True if the current pass was resumed with a reply for the model."""
        self.asked: tuple[Interrupt, ...] = ()
        """The interrupts that people must answer before the program can resume."""
        self.raised: Exception | None = None
        """An error of a nested call's hook; it ends the invocation."""
        self.unopened: Exception | None = None
        """The error that kept the sandbox from running a program; the developer must fix it, so it ends
        the invocation.
        """

    # Progress

    @property
    def program(self) -> str | None:
        """The program to run next, or `None`."""
        return self._next.code if isinstance(self._next, Run) else None

    @property
    def end(self) -> End | None:
        """The end of the loop, or `None` before it."""
        return self._next if isinstance(self._next, End) else None

    def on_answer(self, text: str, tools: Callable[[], Container[str]]) -> None:
        """Handle an answer of the model in text and code blocks. `tools` returns the names that count as tools.

        A tool call that is written as text is neither an answer nor a program: the reply says how to send a program.
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
        self._reply = [{"text": self._refused()}]

    def on_calls(self, text: str, calls: Collection[ToolUse]) -> str:
        """Count a turn whose answer has tool calls and no program; return the refusal that the model reads."""
        again, self._calls_come_again = self._calls_come_again, False
        if self.end is not None:
            return _LAST
        if again:
            return self._refused()
        self._turns += 1
        reply = ModelReply(text, tuple(ToolCall(call["toolUseId"], call["name"], call["input"]) for call in calls))
        self._next = self._loop.on_reply(reply)
        return self._refused()

    def on_asked(self, message: Message) -> Progress:
        """Record an interrupt, about the model's answer or, if that has no calls, before the model; return the
        progress.
        """
        self._calls_come_again = any("toolUse" in block for block in message["content"])
        return self._progress(self._turns - 1 if self._calls_come_again else self._turns)

    def _progress(self, turns: int) -> Progress:
        is_there = self.sessions.has_state(self.number, self._settings.language)
        return {"turns": turns, "programs": self._programs, "in_session": self._is_lost or is_there}

    def _refused(self) -> str:
        results = [message for message in self._loop.messages if isinstance(message, ToolResultMessage)]
        return results[-1].text

    def hand_over(self, stand_in: str) -> list[Any] | None:
        """Return the content that the next pass is resumed with: the reply for the model, or `stand_in` before a
        program; `None` if there is nothing more to do.
        """
        reply, self._reply = self._reply, None
        self.has_replied = reply is not None
        if reply is None and self.program is not None:
            reply = [{"text": stand_in}]
        if reply is not None:
            self._resumed_with = reply
        return reply

    def has_resumed(self, messages: Iterable[Message]) -> bool:
        """Return whether a pass with these messages is the resumed one."""
        first = self._resumed_with[:1]
        return any(block is own for own in first for message in messages for block in message["content"])

    def state(self, stop_reason: str) -> CodeActState:
        """Return the state for the agent's caller."""
        end = self.end
        return {
            "stopped": stop_reason if end is None else end.stopped,
            "answer": None if end is None else end.answer,
            "turns": self._turns,
            "programs": self._programs,
        }

    # The program

    async def run(self, agent: Agent, invocation_state: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Run the program, or resume one that was interrupted, and yield its events.

        If people have to be `asked`, the program is left waiting in its sandbox.
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
            self._observed = _Observed(not_run(ErrorKind.POLICY, NESTED), CallLog())
            return
        if isinstance(found, ActRun) and found.home is not None:
            # The agent that began it may be gone, but its programs' state is in the run's sessions.
            (self.sessions, self.number), found.home = found.home, None
            self._is_lost = False
        if found is None:
            self._programs += 1
            yield {"program": {"code": program, "language": self._settings.language, "number": self._programs}}
        begun = found if isinstance(found, ActRun) else await self._begin(agent, program)
        if isinstance(begun, ExecutionResult):
            self._observed = _Observed(begun, CallLog())
            return
        run = begun
        span = ProgramSpan(agent, run.outer_id, program, self._settings.language)
        program_calls = ProgramCalls(
            run,
            agent,
            through(agent, invocation_state, run.nested.unregistered, span.as_current),
            cancel_signal=agent.cancel_signal,
            can_pause=True,
            calls_at_once=self._settings.calls_at_once,
        )
        async with aclosing(span), aclosing(program_calls.events()) as events:
            async for event in events:
                if isinstance(event, StreamedEvent):
                    yield event.data
                elif isinstance(event, Paused):
                    run.home = self.sessions, self.number
                    paused_runs.pause(agent, KEY, run, seconds=self._settings.paused_timeout)
                    note(agent, PROGRESS, self._progress(self._turns - 1))
                    self.asked = event.interrupts
                elif isinstance(event, Broken):
                    self.raised = event.error
                    span.failed(event.error)
                elif run.unopened is not None:
                    self.unopened = run.unopened
                else:
                    answer = await aside(_answer, run.final.value)
                    self._observed = _Observed(event.result, run.calls, run.warnings, run.final, answer)
                    span.ended(blocks_of(event.result, program, run.calls), is_success=event.result.success)

    def observe(self, more: Iterable[ContentBlock] = ()) -> None:
        """Make the reply for the model from the finished program's outcome and other plugins' content."""
        program, observed = self.program, self._observed
        assert program is not None and observed is not None
        warnings = observed.warnings
        if self._settings.language == "python" and observed.result.success:
            warnings = (*warnings, *filter(None, [observed.final.missed_by(program)]))
        text, *pictures = blocks_of(observed.result, program, observed.calls, warnings)
        answered = observed.final.given and observed.result.success
        seen = _ANSWERED if answered and _says_nothing(observed) else text["text"]
        self._next = self._loop.on_observation(seen, answered=answered, answer=observed.answer.form)
        self.answer_text = observed.answer.text
        messages = [message for message in self._loop.messages if isinstance(message, UserMessage)]
        self._reply = [{"text": messages[-1].text}, *pictures, *more]

    async def _begin(self, agent: Agent, program: str) -> ActRun | ExecutionResult:
        """Begin the program and return its run; return the result of one that its review blocks."""
        settings = self._settings
        run = run_of(id_of(agent, self._ordinal, self._programs, program), program, settings.max_tool_calls)
        sandbox = self.sessions.sandbox
        note_where_programs_run(agent, sandbox)
        run.nested = tools_of_programs(agent, sandbox, settings, run.call, run.final)
        advice = Advice()
        if settings.review is not None:
            with suppress(InvalidValue):  # the program exceeds a bound, for which its run is refused
                advice = await advice_on(Program(program, settings.language), settings.review, run.nested.toolset)
        if advice.error is not None:
            return advice.warn(blocked(advice.error, ""))
        is_moved = settings.keep_session and not self.sessions.has_begun(self.number) and _has_programs(agent.messages)
        session, is_lost = await self.sessions.session_of(self.number, settings.language)
        is_lost = is_lost or ((self._is_lost or is_moved) and session is not None)
        self._is_lost = False
        hidden = in_place_of_python(run.nested.toolset, program) if settings.language == "python" else ()
        run.warnings = (*run.nested.left_out, *hidden, *((_LOST,) if is_lost else ()), *advice.warnings)
        run.begin_in(sandbox, session, settings.language, settings.timeout)
        return run


@dataclass(frozen=True, slots=True)
class _Answer:
    """A final answer in the tagged form, and as text of at most `MAX_CHARS` characters for models."""

    form: Any = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Observed:
    """The outcome of a program."""

    result: ExecutionResult
    calls: CallLog
    warnings: tuple[str, ...] = ()
    final: FinalAnswer = field(default_factory=FinalAnswer)
    answer: _Answer = field(default_factory=_Answer)


def _has_programs(messages: Iterable[Message]) -> bool:
    """Return whether a conversation, such as one restored by a session manager, has outcomes of programs."""
    return any(block.get("text", "").startswith(_HEADING) for message in messages for block in message["content"])


def _says_nothing(observed: _Observed) -> bool:
    result = observed.result
    return not (result.stdout or result.stderr or result.artifacts or result.warnings or observed.warnings)


def tools_of_programs(
    agent: Agent, sandbox: StrandsSandbox, settings: CodeActSettings, call: NestedCall, final: FinalAnswer
) -> NestedTools:
    """Return the functions of programs: the agent's tools, those of their sandbox, and `final_answer`.

    Raises `InvalidValue` if another tool has that name, and if a tool requires approval and there is no approver.
    """
    if not sandbox.traits.tools:
        return NestedTools(Toolset(), {})
    nested = nested_tools(agent, call, allowed_tools=settings.allowed_tools, code_tools=sandbox.code_tools)
    if existing := nested.toolset.get(FINAL_ANSWER):
        raise InvalidValue(f"a tool of the agent's is called {existing.name!r}, by which programs answer: rename it")
    Toolset.for_run(nested.toolset)
    return NestedTools(nested.toolset.with_tools(final.tool), nested.unregistered, nested.left_out)


def _answer(value: Any) -> _Answer:
    """Return both forms of a final answer. The text is the value itself if that is text, else its JSON.

    Lone surrogates are escaped in the text, so that it can be stored.
    """
    is_text = isinstance(value, str) and value.strip()
    text = value if is_text else "".join(_json_pieces(pack(spelled_out(value))))
    return _Answer(pack(value), cut(encodable(text), MAX_CHARS, whole=f'AgentResult.state["{KEY}"]["answer"]'))


# Piece by piece, because `encode` would hold the interpreter for all of a large answer.
_json_pieces = json.JSONEncoder(ensure_ascii=False).iterencode
_HEADING = "What came of the program:"  # the loop's own heading of an observation
_LOST = "the session of the programs before has ended, and what they had defined is lost; this one began in a new one"
_LOST_BEFORE = (
    "the session of this program and those before has ended, and what they had defined is lost; the next one begins in"
    " a new one"
)
_LAST = "There are no turns left."
_ANSWERED = "It gave the final answer."
