"""The act–observe loop as a state machine: replies and observations go in, the next action comes out. No I/O, no
awaits.

action = loop.begin()                      # Ask
action = loop.on_reply(reply)              # Run, Ask or End
action = loop.on_observation(text, …)      # Run, Ask or End

A policy (`after`) decides after each step if the loop goes on: `until_answered` for agents that answer questions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .arguments import NoProgram, Sent, sent_program
from .blocks import program_in
from .instructions import EXECUTE_CODE
from .model import AssistantMessage, Message, ModelReply, SystemMessage, ToolCall, ToolResultMessage, UserMessage

Stopped = Literal["answer", "final_answer", "max_turns"]
"""Why a loop with the policy `until_answered` stopped."""

_NOT_TAKEN: Final = "This call was not taken for a program: send one program in each reply."


@dataclass(frozen=True, slots=True)
class Ask:
    """The action to ask the model with these messages. `turn` counts from 1."""

    messages: tuple[Message, ...]
    turn: int


@dataclass(frozen=True, slots=True)
class Run:
    """The action to run this program. `call_id` is that of the model's tool call, empty for a fenced block.

    `dependencies` are the packages that the call asks for.
    """

    code: str
    call_id: str = ""
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The end of the loop, which is also a policy's decision to end it.

    `answer` is the value given to `final_answer`, or the model's text, or `None`. `stopped` names why the loop stopped,
    and `reason` says more about it, or is empty.
    """

    answer: Any
    stopped: str
    reason: str = ""


Action = Ask | Run | End


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the loop: a program with its observation, or a reply without a program.

    `program` is `None` for a reply without one; its tool calls, if any, have been refused. `text` is the observation,
    or what the driver says about a reply without a program. `answered` is true if the program called `final_answer` and
    succeeded, with `answer`. `outcome` is the driver's own data for its policy.
    """

    reply: ModelReply
    program: Run | None = None
    text: str = ""
    answered: bool = False
    answer: Any = None
    outcome: Any = None


@dataclass(frozen=True, slots=True)
class Continue:
    """A policy's decision to go on. The model reads `text` as the next message, unless it is empty."""

    text: str = ""


After = Callable[[Step], Continue | End]
"""A policy: it decides after each step. An `End` ends the loop, without the programs of the reply that have not run."""


def until_answered(step: Step) -> Continue | End:
    """End the loop when the model answers in words, or a program has called `final_answer`."""
    if step.program is None:
        return Continue() if step.reply.tool_calls else End(step.reply.text.strip(), "answer")
    if step.answered:
        return End(step.answer, "final_answer")
    return Continue(_observation(step))


def _observation(step: Step) -> str:
    """Return what the model reads about a step if the policy says nothing else."""
    if step.program is None or step.program.call_id or not step.text:
        return step.text
    return f"What came of the program:\n\n{step.text}"


class Loop:
    """The state machine for one question. Calls out of order raise `RuntimeError`.

    Programs are in `language`. They come in fenced blocks, and with `by_call` also in calls of `execute_code`, which
    takes `dependencies` with `packages`. `after` decides after each step; the model is asked at most `max_turns` times,
    whatever it decides.
    """

    def __init__(
        self,
        question: str,
        instructions: str,
        max_turns: int,
        *,
        language: str = "python",
        by_call: bool = True,
        packages: bool = False,
        after: After = until_answered,
    ) -> None:
        self._messages: list[Message] = [SystemMessage(instructions), UserMessage(question)]
        self._after = after
        self._reply = ModelReply()
        self._max_turns = max_turns
        self._language = language
        self._by_call = by_call
        self._packages = packages
        self._programs: deque[Run] = deque()
        self._turn = 0
        self._expects: Literal["begin", "reply", "observation", "nothing"] = "begin"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return tuple(self._messages)

    def begin(self) -> Action:
        """Begin: return the first action."""
        self._expect("begin")
        return self._ask()

    def on_reply(self, reply: ModelReply, programs: Sequence[Run] | None = None, *, text: str = "") -> Action:
        """Add the model's reply, and return the next action.

        `programs` are those of the reply if the driver has read it in a way of its own. One that came in a tool call
        has the call's id; the other calls are refused. `text` is for the policy if there are none.
        """
        self._expect("reply")
        self._reply = reply
        self._messages.append(AssistantMessage(reply.text, reply.tool_calls))
        taken = {} if programs is None else {program.call_id: program for program in programs}
        for call in reply.tool_calls:
            try:
                if programs is None:
                    sent = self._program_of(call)
                    self._programs.append(Run(sent.code, call.id, sent.dependencies))
                elif call.id not in taken:
                    raise NoProgram(_NOT_TAKEN)
            except NoProgram as error:
                self._messages.append(ToolResultMessage(call.id, call.name, str(error)))
        if programs is not None:
            self._programs.extend(programs)
        elif not reply.tool_calls and (program := program_in(reply.text, self._language)) is not None:
            self._programs.append(Run(program))
        return self._next() if self._programs else self._decide(Step(reply, text=text))

    def on_observation(self, text: str, *, answered: bool = False, answer: Any = None, outcome: Any = None) -> Action:
        """Add the observation of the program that was to be run, and return the next action; `answered` if it called
        `final_answer` and succeeded. `outcome` is for the policy.
        """
        self._expect("observation")
        return self._decide(Step(self._reply, self._programs.popleft(), text, answered, answer, outcome))

    def stop(self, stopped: str, reason: str = "") -> End:
        """End the loop from outside, such as for a budget that is used up or a cancelled task, and return its end."""
        if self._expects == "nothing":
            raise RuntimeError("the loop has ended already")
        return self._end(None, stopped, reason)

    def _decide(self, step: Step) -> Action:
        decision = self._after(step)
        text = _observation(step) if isinstance(decision, End) else decision.text
        call_id = "" if step.program is None else step.program.call_id
        if call_id:
            name = next((call.name for call in step.reply.tool_calls if call.id == call_id), EXECUTE_CODE)
            self._messages.append(ToolResultMessage(call_id, name, text))
        elif text:
            self._messages.append(UserMessage(text))
        if isinstance(decision, End):
            self._expects = "nothing"
            return decision
        return self._next()

    def _next(self) -> Action:
        if self._programs:
            self._expects = "observation"
            return self._programs[0]
        return self._ask()

    def _ask(self) -> Action:
        if self._turn >= self._max_turns:
            return self._end(None, "max_turns")
        self._turn += 1
        self._expects = "reply"
        return Ask(self.messages, self._turn)

    def _end(self, answer: Any, stopped: str, reason: str = "") -> End:
        self._expects = "nothing"
        return End(answer, stopped, reason)

    def _expect(self, what: str) -> None:
        if self._expects != what:
            raise RuntimeError(f"the loop expects {self._expects}, not {what}")

    def _program_of(self, call: ToolCall) -> Sent:
        """Return the program of a tool call. Raises `NoProgram`, whose message is for the model."""
        if self._by_call and call.name == EXECUTE_CODE:
            return sent_program(call.arguments, tool_name=EXECUTE_CODE, packages=self._packages, only_known=True)
        how = f"with {EXECUTE_CODE}(code=…)" if self._by_call else f"in a fenced ```{self._language} block"
        raise NoProgram(
            f"There is no tool {call.name!r} to call directly. Call functions inside a program, which you send {how}."
        )
