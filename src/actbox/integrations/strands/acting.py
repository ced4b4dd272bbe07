"""One agent in CodeAct: what is hung into it, and the invocations that are under way.

The loop is Strands' own. When a pass of the agent ends with a program, `AfterInvocationEvent.resume` begins another, in
which the program runs and streams what happens: there, and not after the model's answer, it may be interrupted for
people. What came of it is the input of a third, which hooks see before the model reads it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from strands import Agent
from strands.hooks import AfterInvocationEvent, AfterToolsEvent, BeforeInvocationEvent, BeforeToolsEvent, HookOrder
from strands.middleware import InvokeModelContext, InvokeModelStage
from strands.types.agent import AgentInput
from strands.types.content import ContentBlock, Message, SystemPrompt
from strands.types.event_loop import StopReason

from actbox.codeact.block_instructions import block_instructions
from actbox.codeact.final_answer import FinalAnswer
from actbox.core.errors import InvalidValue
from actbox.tools.toolset import alias_of

from .act import STANDING, Act, ActSettings, Standing, answer_text, tools_of_programs
from .act_run import KEY
from .calls_in_words import in_words
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
    told,
    tools_of,
    wants_stop,
    wants_structured_output,
    why_cancelled,
    with_reason,
    with_state,
)
from .per_agent import note_where_programs_run
from .place import KEPT, Place

RUNS: Final = "The program runs."
"""The input of a pass in which a program runs; no model reads it."""

_NO_CALLS: Final = "There is no tool to call directly. Call functions inside a program."


class Acting:
    """CodeAct for one agent. Invocations are told apart by their `invocation_state`, which Strands keeps for each."""

    def __init__(self, settings: ActSettings, place: Place) -> None:
        self._settings = settings
        self._place = place
        self._acts: dict[int, tuple[dict[str, Any], Act]] = {}  # with what the key is made of, so that it stays unique
        self._ordinals = itertools.count(1)
        self._waiting: Act | None = None
        """The invocation that people were asked in; the next one has their answers."""

    def attach(self, agent: Agent) -> None:
        """Hang itself into the agent."""
        around_passes(agent, self._pass)
        agent.add_middleware(InvokeModelStage.Input, self._instruct)
        agent.add_hook(self._begin, BeforeInvocationEvent, order=HookOrder.SDK_FIRST)  # others may change the input
        agent.add_hook(self._refuse_calls, BeforeToolsEvent)
        agent.add_hook(self._end_of_calls, AfterToolsEvent)
        agent.add_hook(self._go_on, AfterInvocationEvent, order=HookOrder.SDK_LAST)  # others may resume as well

    # A pass

    def _begin(self, event: BeforeInvocationEvent) -> None:
        """Forget an invocation of which a hook has broken off a resumed pass: what it has left is not this one's."""
        key = id(event.invocation_state)
        _, known = self._acts.get(key, (None, None))
        if known is not None and not known.has_resumed(event.messages or ()):
            del self._acts[key]

    async def _pass(self, context: Pass, happen: Callable[[Pass], Events]) -> Events:
        agent, state = _agent(context), context.invocation_state
        act = self._act_of(context)
        if act.program is not None:
            state.setdefault("request_state", {})  # nested calls have copies of the state, which share it
            async for data in act.run(agent, state):
                yield told({KEY: data})
            if act.asked:
                yield _with_state(interrupt_stop(agent, act.asked, state), act)
                return
            error = act.raised or act.unopened
            if error is not None:
                stop_waiting(agent)
                yield force_stop_event(error)
                raise raised_by_hook(error, state) if error is act.raised else error
            act.observe(_others(context.messages))
            yield _with_state(stop_event(agent, "end_turn", agent.messages[-1], state), act)
            return
        ending = _ending(agent, act, state) if act.has_told else None
        if ending is not None:
            await append_messages(agent, *context.messages)
            last = agent.messages[-1]
            if ending.text is not None:
                last = {"role": "assistant", "content": [{"text": ending.text}]}
                await append_messages(agent, last)
                yield told({"data": ending.text, "delta": {"text": ending.text}})
                yield told({"message": last})
            yield _with_state(stop_event(agent, ending.reason, last, state), act)
            return
        async for event in happen(context):
            if isinstance(event, Stop):
                reason, message = event["stop"][:2]
                if reason == "interrupt":
                    note(agent, STANDING, act.on_asked(message))
                elif act.end is not None:  # the model has called tools to the last of its turns
                    event = with_reason(event, "limit_turns")
                elif reason == "end_turn":
                    act.on_answer(_text_of(message), lambda: self._names(agent))
                event = _with_state(event, act)
            yield event

    def _act_of(self, context: Pass) -> Act:
        key = id(context.invocation_state)
        _, known = self._acts.get(key, (None, None))
        if known is not None:
            return known
        act = self._awaited(_agent(context)) if is_answered(context) else self._new()
        self._acts[key] = (context.invocation_state, act)
        return act

    def _awaited(self, agent: Agent) -> Act:
        """Return the invocation whose answers have come."""
        act, self._waiting = self._waiting, None
        if act is not None:
            return act
        # A session manager has brought the agent here, and where it stood.
        act = self._new(cast("Standing | None", noted(agent, STANDING)))
        if noted(agent, KEY) is not None:
            act.on_answer(_text_of(agent.messages[-1]), lambda: self._names(agent))
        return act

    def _new(self, before: Standing | None = None) -> Act:
        return Act(self._number(), next(self._ordinals), self._settings, self._place, before)

    def _number(self) -> int:
        return KEPT if self._settings.keep_session else self._place.new_number()

    def _home_of(self, state: dict[str, Any]) -> tuple[Place, int]:
        """Return where the programs of the invocation run that has this state, and its number."""
        _, act = self._acts.get(id(state), (None, None))
        return (self._place, self._number()) if act is None else (act.place, act.number)

    def _names(self, agent: Agent) -> set[str]:
        """Return the names by which the model may call what are functions in programs."""
        nested = tools_of_programs(agent, self._place.sandbox, self._settings, _nowhere, FinalAnswer())
        return {*tools_of(agent), *nested.toolset.names, *map(alias_of, nested.toolset.names)}

    # What the model is sent, and what it may not do

    def _instruct(self, context: InvokeModelContext) -> InvokeModelContext:
        agent = _agent(context)
        if wants_structured_output(agent):
            raise InvalidValue(
                "structured_output_model and CodeActPlugin do not go together: Strands asks for the structure before a"
                " program has run. Have the program call final_answer(value) with data of that structure"
            )
        place, number = self._home_of(context.invocation_state)
        root, working_dir = place.folders()
        nested = tools_of_programs(agent, place.sandbox, self._settings, _nowhere, FinalAnswer())
        text = block_instructions(
            nested.toolset,
            place.sandbox.traits,
            language=self._settings.language,
            keeps_state=place.keeps_state(number, self._settings.language),
            keeps_on=number == KEPT,
            root=root,
            working_dir=working_dir,
            guidance=self._settings.guidance,
        )
        given = context.system_prompt
        prompt: SystemPrompt = f"{given}\n\n{text}" if given else text
        if isinstance(given, list):
            prompt = [*given, {"text": text}]
        return context.replace(messages=in_words(context.messages), tool_specs=[], system_prompt=prompt)

    def _refuse_calls(self, event: BeforeToolsEvent) -> None:
        calls = [block["toolUse"] for block in event.message["content"] if "toolUse" in block]
        _, act = self._acts.get(id(event.invocation_state), (None, None))
        event.cancel = _NO_CALLS if act is None else act.on_calls(_text_of(event.message), calls)

    def _end_of_calls(self, event: AfterToolsEvent) -> None:
        _, act = self._acts.get(id(event.invocation_state), (None, None))
        if act is not None and act.end is not None:
            event.end_turn = f"No answer was found in {self._settings.max_turns} turns."

    # After a pass

    async def _go_on(self, event: AfterInvocationEvent) -> None:
        state, result = event.invocation_state, event.result
        _, act = self._acts.get(id(state), (None, None))
        if act is None:
            return
        if self._goes_along(act.place):
            self._place = act.place
            note_where_programs_run(event.agent, act.place.sandbox)
        blocks = act.hand_over(RUNS) if result is not None and result.stop_reason == "end_turn" else None
        if blocks is not None:
            blocks += _blocks_of(event.resume)
            event.resume = blocks
            return
        del self._acts[id(state)]
        if result is not None and result.stop_reason == "interrupt":
            self._waiting = act
            return
        await act.place.over(act.number)

    def _goes_along(self, place: Place) -> bool:
        """Return whether later invocations run where this one has: another agent, in whose place this is, began it."""
        return place.sandbox is self._place.sandbox or (place.is_own and self._place.is_own)


def _agent(context: Pass | InvokeModelContext) -> Agent:
    assert isinstance(context.agent, Agent)
    return context.agent


@dataclass(frozen=True, slots=True)
class _Ending:
    """How an invocation ends without asking the model again, and what is said in its place, if anything is."""

    reason: StopReason
    text: str | None


def _ending(agent: Agent, act: Act, invocation_state: Mapping[str, Any]) -> _Ending | None:
    if act.end is not None and act.end.stopped == "final_answer":
        return _Ending("end_turn", answer_text(act.end.answer))
    cancelled = why_cancelled(agent)
    if cancelled is not None:
        return _Ending("cancelled", cancelled)
    if wants_stop(invocation_state):
        return _Ending("tool_use", None)
    return None if act.end is None else _Ending("limit_turns", None)


def _with_state(stop: Stop, act: Act) -> Stop:
    """Have `AgentResult.state` say where the invocation stands."""
    return with_state(stop, KEY, act.state(stop["stop"][0]))


def _blocks_of(resume: AgentInput) -> list[Any]:
    """Return what another plugin has to say in the pass that follows."""
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
    """Return what else than the stand-in the input of a pass has: other plugins may have more to say."""
    return [block for message in messages for block in message["content"] if block.get("text") != RUNS]


async def _nowhere(name: str, arguments: dict[str, Any]) -> Any:
    raise AssertionError("these tools are only described")
