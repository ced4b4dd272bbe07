"""The act–observe loop as a state machine: replies and observations go in, the next action comes out. No I/O, no
awaits.

action = loop.begin()                      # Ask
action = loop.on_reply(reply)              # Run, Ask or End
action = loop.on_observation(text, …)      # Run, Ask or End
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from .arguments import NoProgram, Sent, sent_program
from .blocks import program_in
from .instructions import EXECUTE_CODE
from .model import AssistantMessage, Message, ModelReply, SystemMessage, ToolCall, ToolResultMessage, UserMessage

Stopped = Literal["answer", "final_answer", "max_turns"]


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
    """The end of the loop. `answer` is the value given to `final_answer`, or the model's text, or `None`."""

    answer: Any
    stopped: Stopped


Action = Ask | Run | End


class Loop:
    """The state machine for one question. Calls out of order raise `RuntimeError`.

    Programs are in `language`. They come in fenced blocks, and with `by_call` also in calls of `execute_code`, which
    takes `dependencies` with `packages`.
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
    ) -> None:
        self._messages: list[Message] = [SystemMessage(instructions), UserMessage(question)]
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

    def on_reply(self, reply: ModelReply) -> Action:
        """Add the model's reply, and return the next action."""
        self._expect("reply")
        self._messages.append(AssistantMessage(reply.text, reply.tool_calls))
        for call in reply.tool_calls:
            try:
                sent = self._program_of(call)
                self._programs.append(Run(sent.code, call.id, sent.dependencies))
            except NoProgram as error:
                self._messages.append(ToolResultMessage(call.id, call.name, str(error)))
        if reply.tool_calls:
            return self._next()
        program = program_in(reply.text, self._language)
        if program is None:
            return self._end(reply.text.strip(), "answer")
        self._programs.append(Run(program))
        return self._next()

    def on_observation(self, text: str, *, answered: bool = False, answer: Any = None) -> Action:
        """Add the observation of the program that was to be run, and return the next action; `answered` if it called
        `final_answer` and succeeded.
        """
        self._expect("observation")
        program = self._programs.popleft()
        if program.call_id:
            self._messages.append(ToolResultMessage(program.call_id, EXECUTE_CODE, text))
        else:
            self._messages.append(UserMessage(f"What came of the program:\n\n{text}"))
        if answered:
            return self._end(answer, "final_answer")
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

    def _end(self, answer: Any, stopped: Stopped) -> End:
        self._expects = "nothing"
        return End(answer, stopped)

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
