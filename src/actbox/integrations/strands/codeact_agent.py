"""CodeAct for one agent: the hooks and middleware added to it, and its current invocations.

The loop is Strands' own; a pass is one user message and the model's response to it. When a pass ends with a program,
`AfterInvocationEvent.resume` starts another pass that runs the program and streams its events. There, unlike after the
model's answer, an interrupt for people is possible. The program's outcome is the input of a third pass, which hooks see
before the model reads it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from strands import Agent
from strands.hooks import AfterInvocationEvent, AfterToolsEvent, BeforeInvocationEvent, BeforeToolsEvent, HookOrder
from strands.middleware import InvokeModelContext, InvokeModelStage
from strands.types.agent import AgentInput
from strands.types.content import ContentBlock, Message, Messages, SystemPrompt
from strands.types.event_loop import StopReason

from actbox.codeact.block_instructions import block_instructions
from actbox.codeact.final_answer import FinalAnswer
from actbox.codeact.package_instructions import packages_of
from actbox.core.errors import InvalidValue
from actbox.tools.toolset import alias_of

from .codeact_invocation import PROGRESS, CodeActInvocation, CodeActSettings, Progress, tools_of_programs
from .codeact_program import KEY
from .codeact_sessions import SHARED_SESSION, CodeActSessions
from .executor import (
    Events,
    Pass,
    Stop,
    append_messages,
    around_passes,
    force_stop_event,
    interrupt_stop,
    is_answered,
    note,
    noted,
    raised_by_hook,
    stop_event,
    stop_waiting,
    stream_event,
    tools_of,
    wants_stop,
    wants_structured_output,
    why_cancelled,
    with_reason,
    with_state,
)
from .tool_state import note_where_programs_run

RUNS: Final = "The program runs."
"""The input of a pass that runs a program; no model reads it."""

_NO_CALLS: Final = "There is no tool to call directly. Call functions inside a program."


class CodeActAgent:
    """CodeAct for one agent. Each invocation is identified by its `invocation_state` object, which Strands keeps."""

    def __init__(self, settings: CodeActSettings, sessions: CodeActSessions) -> None:
        self._settings = settings
        self._sessions = sessions
        # By the id of their state, which is kept so that its id stays unique.
        self._invocations: dict[int, tuple[dict[str, Any], CodeActInvocation]] = {}
        self._ordinals = itertools.count(1)
        self._waiting: CodeActInvocation | None = None
        """The invocation that was interrupted for people; the next one has their answers."""

    def attach(self, agent: Agent) -> None:
        """Add the hooks and middleware to the agent."""
        around_passes(agent, self._pass)
        agent.add_middleware(InvokeModelStage.Input, self._instruct)
        agent.add_hook(self._begin, BeforeInvocationEvent, order=HookOrder.SDK_FIRST)  # others may change the input
        agent.add_hook(self._refuse_calls, BeforeToolsEvent)
        agent.add_hook(self._end_of_calls, AfterToolsEvent)
        agent.add_hook(self._go_on, AfterInvocationEvent, order=HookOrder.SDK_LAST)  # others may resume as well

    # A pass

    def _begin(self, event: BeforeInvocationEvent) -> None:
        """Forget an earlier invocation with this state whose resumed pass was stopped by a hook."""
        key = id(event.invocation_state)
        _, known = self._invocations.get(key, (None, None))
        if known is not None and not known.has_resumed(event.messages or ()):
            del self._invocations[key]

    async def _pass(self, context: Pass, happen: Callable[[Pass], Events]) -> Events:
        agent, state = _agent(context), context.invocation_state
        invocation = self._invocation_of(context)
        if invocation.program is not None:
            state.setdefault("request_state", {})  # copies of the state for nested calls share this dict
            async for data in invocation.run(agent, state):
                yield stream_event({KEY: data})
            if invocation.asked:
                yield _with_state(interrupt_stop(agent, invocation.asked, state), invocation)
                return
            error = invocation.raised or invocation.unopened
            if error is not None:
                stop_waiting(agent)
                yield force_stop_event(error)
                raise raised_by_hook(error, state) if error is invocation.raised else error
            invocation.observe(_others(context.messages))
            yield _with_state(stop_event(agent, "end_turn", agent.messages[-1], state), invocation)
            return
        ending = _ending(agent, invocation, state) if invocation.has_replied else None
        if ending is not None:
            await append_messages(agent, *context.messages)
            last = agent.messages[-1]
            if ending.text is not None:
                last = {"role": "assistant", "content": [{"text": ending.text}]}
                await append_messages(agent, last)
                yield stream_event({"data": ending.text, "delta": {"text": ending.text}})
                yield stream_event({"message": last})
            yield _with_state(stop_event(agent, ending.reason, last, state), invocation)
            return
        async for event in happen(context):
            if isinstance(event, Stop):
                reason, message = event["stop"][:2]
                if reason == "interrupt":
                    note(agent, PROGRESS, invocation.on_asked(message))
                elif invocation.end is not None:  # the model called tools until its last turn
                    event = with_reason(event, "limit_turns")
                elif reason == "end_turn":
                    invocation.on_answer(_text_of(message), lambda: self._names(agent))
                event = _with_state(event, invocation)
            yield event

    def _invocation_of(self, context: Pass) -> CodeActInvocation:
        key = id(context.invocation_state)
        _, known = self._invocations.get(key, (None, None))
        if known is not None:
            return known
        invocation = self._awaited(_agent(context)) if is_answered(context) else self._new()
        self._invocations[key] = (context.invocation_state, invocation)
        return invocation

    def _awaited(self, agent: Agent) -> CodeActInvocation:
        """Return the invocation that is resumed with people's answers."""
        invocation, self._waiting = self._waiting, None
        if invocation is not None:
            return invocation
        # A session manager has restored the agent, with the notes on its interrupted invocation.
        invocation = self._new(cast("Progress | None", noted(agent, PROGRESS)))
        if noted(agent, KEY) is not None:
            invocation.on_answer(_text_of(agent.messages[-1]), lambda: self._names(agent))
        return invocation

    def _new(self, before: Progress | None = None) -> CodeActInvocation:
        return CodeActInvocation(self._number(), next(self._ordinals), self._settings, self._sessions, before)

    def _number(self) -> int:
        return SHARED_SESSION if self._settings.keep_session else self._sessions.new_number()

    def _home_of(self, state: dict[str, Any]) -> tuple[CodeActSessions, int]:
        """Return the sessions and the session number for the programs of the invocation with this state."""
        _, invocation = self._invocations.get(id(state), (None, None))
        return (self._sessions, self._number()) if invocation is None else (invocation.sessions, invocation.number)

    def _names(self, agent: Agent) -> set[str]:
        """Return the names by which a model may try to call tools or functions of programs."""
        nested = tools_of_programs(agent, self._sessions.sandbox, self._settings, _nowhere, FinalAnswer())
        return {*tools_of(agent), *nested.toolset.names, *map(alias_of, nested.toolset.names)}

    # The model's input and forbidden calls

    def _instruct(self, context: InvokeModelContext) -> InvokeModelContext:
        agent = _agent(context)
        if wants_structured_output(agent):
            raise InvalidValue(
                "structured_output_model and CodeActPlugin do not go together: Strands asks for the structure before a"
                " program has run. Have the program call final_answer(value) with data of that structure"
            )
        sessions, number = self._home_of(context.invocation_state)
        root, working_dir = sessions.folders()
        nested = tools_of_programs(agent, sessions.sandbox, self._settings, _nowhere, FinalAnswer())
        text = block_instructions(
            nested.toolset,
            sessions.sandbox.traits,
            language=self._settings.language,
            keeps_state=sessions.keeps_state(number, self._settings.language),
            keeps_on=number == SHARED_SESSION,
            root=root,
            working_dir=working_dir,
            guidance=self._settings.guidance,
            packages=packages_of(sessions.sandbox.box),
        )
        given = context.system_prompt
        prompt: SystemPrompt = f"{given}\n\n{text}" if given else text
        if isinstance(given, list):
            prompt = [*given, {"text": text}]
        return context.replace(messages=in_words(context.messages), tool_specs=[], system_prompt=prompt)

    def _refuse_calls(self, event: BeforeToolsEvent) -> None:
        calls = [block["toolUse"] for block in event.message["content"] if "toolUse" in block]
        _, invocation = self._invocations.get(id(event.invocation_state), (None, None))
        event.cancel = _NO_CALLS if invocation is None else invocation.on_calls(_text_of(event.message), calls)

    def _end_of_calls(self, event: AfterToolsEvent) -> None:
        _, invocation = self._invocations.get(id(event.invocation_state), (None, None))
        if invocation is not None and invocation.end is not None:
            event.end_turn = f"No answer was found in {self._settings.max_turns} turns."

    # After a pass

    async def _go_on(self, event: AfterInvocationEvent) -> None:
        state, result = event.invocation_state, event.result
        _, invocation = self._invocations.get(id(state), (None, None))
        if invocation is None:
            return
        if self._goes_along(invocation.sessions):
            self._sessions = invocation.sessions
            note_where_programs_run(event.agent, invocation.sessions.sandbox)
        blocks = invocation.hand_over(RUNS) if result is not None and result.stop_reason == "end_turn" else None
        if blocks is not None:
            blocks += _blocks_of(event.resume)
            event.resume = blocks
            return
        del self._invocations[id(state)]
        if result is not None and result.stop_reason == "interrupt":
            self._waiting = invocation
            return
        await invocation.sessions.over(invocation.number)

    def _goes_along(self, sessions: CodeActSessions) -> bool:
        """Return whether later invocations run where this one has, even if another agent object began it."""
        return sessions.sandbox is self._sessions.sandbox or (sessions.is_own and self._sessions.is_own)


def _agent(context: Pass | InvokeModelContext) -> Agent:
    assert isinstance(context.agent, Agent)
    return context.agent


@dataclass(frozen=True, slots=True)
class _Ending:
    """An invocation's end without a further model call; `text` is the last message, if there is one."""

    reason: StopReason
    text: str | None


def _ending(agent: Agent, invocation: CodeActInvocation, invocation_state: Mapping[str, Any]) -> _Ending | None:
    if invocation.end is not None and invocation.end.stopped == "final_answer":
        return _Ending("end_turn", invocation.answer_text)
    cancelled = why_cancelled(agent)
    if cancelled is not None:
        return _Ending("cancelled", cancelled)
    if wants_stop(invocation_state):
        return _Ending("tool_use", None)
    return None if invocation.end is None else _Ending("limit_turns", None)


def _with_state(stop: Stop, invocation: CodeActInvocation) -> Stop:
    """Return the event with the invocation's state in `AgentResult.state`."""
    return with_state(stop, KEY, invocation.state(stop["stop"][0]))


def _blocks_of(resume: AgentInput) -> list[Any]:
    """Return the content that another plugin adds to the next pass."""
    if resume is None or isinstance(resume, str):
        return [] if resume is None else [{"text": resume}]
    items: list[Any] = list(resume)
    return [block for item in items for block in (item["content"] if "role" in item else [item])]


def _text_of(message: Message) -> str:
    texts = []
    for block in message["content"]:
        texts += [block, *block.get("citationsContent", {}).get("content", ())]
    return "\n".join(text["text"] for text in texts if "text" in text)


def _others(messages: Iterable[Message]) -> list[ContentBlock]:
    """Return the content blocks of messages without the placeholder text; other plugins may have added some."""
    return [block for message in messages for block in message["content"] if block.get("text") != RUNS]


async def _nowhere(name: str, arguments: dict[str, Any]) -> Any:
    raise AssertionError("these tools are only described")


def in_words(messages: Messages) -> Messages:
    """Return a conversation with tool calls and results replaced by text; pictures of results stay."""
    return [{**message, "content": [*_blocks(message["content"])]} for message in messages]


def _blocks(content: list[ContentBlock]) -> Iterator[ContentBlock]:
    for block in content:
        if "toolUse" in block:
            call = block["toolUse"]
            yield {"text": f"[call of the tool {call['name']} with {json.dumps(call['input'], default=repr)}]"}
        elif "toolResult" in block:
            result = block["toolResult"]
            yield {"text": f"[result of a tool call, {result['status']}]"}
            for item in result["content"]:
                yield _result_text(item)
        else:
            yield block


def _result_text(item: Mapping[str, Any]) -> Any:
    return {"text": json.dumps(item["json"], ensure_ascii=False, default=repr)} if "json" in item else item
