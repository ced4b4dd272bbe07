"""Approval that is asked for from inside `execute_code`: in the styles `inspected` and `nested`.

The framework decides by a tool's name, before the tool is called, whether somebody is asked. In these styles that hangs
on the program, so `execute_code` itself asks, by the framework's `UserInputRequiredException`. What holds then, by
trial with agent-framework-core 1.22 and 1.23, with and without streaming:

* The response has the question in `user_input_requests`, as a `function_approval_request`; what it is about is in its
  `additional_properties["actbox"]`. The caller sends `request.to_function_approval_response(True)`, with the same
  `AgentSession`. Without a session the framework takes no answer, and says so in its log; the question then times out.
* The framework keeps the question in the session. An answer that matches none there is dropped, and one that does is
  used up. Then `execute_code` is called once more, with the call's own arguments, call id, and *occurrence id*; the
  answer is in the metadata that function middleware sees, and nowhere else. A model that sends the same call again has
  the same call id, perhaps, but another occurrence id, and no answer: its program is asked about anew.
* If refused, `execute_code` is not called: the framework tells the model that it was rejected. `Questions.refuse`
  tells the program that waits, so that it can end; `notes.py` tells the model what came of it.
* Two calls in one turn are asked about apart; one that asks nothing has run by then. Their answers belong together, in
  one message with nothing else. If the conversation goes on without an answer, the call is left out of what the model
  sees. An answer that comes by itself, or later, still counts, but the framework then sends calls and results in an
  order that some services refuse, OpenAI's chat API for one.
* A program may ask several times. The framework knows a question by the occurrence id alone, so that an answer to the
  first would answer the second as well. Later questions therefore have ids of their own, in the form that the framework
  uses where it asks again, and an answer that says that it is to an earlier question is not taken for one to this.

What is asked is kept in the session's state too: an answer that comes after the process has ended is known to be one,
and is never taken for the framework's own approval of a whole call, by which a program would begin once more.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Container, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from agent_framework import Content, FunctionInvocationContext, FunctionMiddleware, FunctionTool
from agent_framework.exceptions import UserInputRequiredException

from actbox.codeact.frozen import FrozenRun
from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.runner import ApprovalNeeded, CodeActRunner
from actbox.tools import ApprovalDecision

from .asked_runs import AskedRuns, Mark, made_in
from .invocation import Invocation
from .question_forms import Occurrence, about_of, occurrence_of, question_of, request_of
from .scope import Scope

MOST_REMEMBERED: Final = 1000
MOST_IN_STATE: Final = 100
"""Questions without an answer that are kept in this process, and in the state of one session: the latest."""

ASKED: Final = "asked"
"""Where the state has the questions that wait."""
CHANGED: Final = "changed"
"""Where it has the runs that questions are about which are asked anew."""
BEGUN: Final = "begun"
"""Where it has programs that had begun and whose questions are over, by occurrence."""
MOST_BEGUN: Final = 1000
_IN_STATE: Final = ("question", "what", "reason", "code_hash")
"""What it has of each; all of it is in the framework's own request."""
_TOLD: Final = "told"
"""What it has besides where the model was told that the run is gone."""

_RUN: Final = "run"
"""What a question about a program that was approved already says of the run that it would have."""


occurrence: ContextVar[Occurrence | None] = ContextVar("actbox_agent_framework_occurrence", default=None)


class ApprovalGate(FunctionMiddleware):
    """Tells one `execute_code` which call it is in, and hands its question to the framework."""

    def __init__(self, tool: FunctionTool) -> None:
        self._tool = tool

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Run the call. Raises `UserInputRequiredException` where it has to wait for an answer."""
        if context.function is not self._tool:
            await call_next()
            return
        call_id = str(context.metadata.get("call_id", ""))
        this = Occurrence(
            tool=self._tool,
            id=str(context.metadata.get("function_call_occurrence_id", call_id)),
            call_id=call_id,
            answer=context.metadata.get("approval_response"),
        )
        token = occurrence.set(this)
        try:
            await call_next()
        finally:
            occurrence.reset(token)
        # Not raised by the tool: its span would say that it has failed.
        if this.question is not None:
            raise UserInputRequiredException([this.question], "The program waits for approval.")


class Questions:
    """The questions of one provider that wait for the framework's answers, by session and the occurrence that asks.

    Ids of occurrences are the chat client's to give, and say nothing of whose they are. Only where a session is new,
    and the framework lets an answer through all the same, since it was told not to check them, it counts for the
    question that it names.
    """

    def __init__(self, runner: CodeActRunner) -> None:
        self.runs = AskedRuns()
        self._runner = runner
        self._lock = threading.Lock()
        self._asked: OrderedDict[tuple[str, str], _Asked] = OrderedDict()
        self._running: set[tuple[str, str]] = set()  # programs that go on, since an answer has come

    async def go_on(
        self,
        run: FrozenRun,
        arguments: Any,
        this: Occurrence,
        invocation: Invocation,
        *,
        scope: Scope,
        state: MutableMapping[str, Any],
    ) -> CodeActOutcome | None:
        """Run a program, or go on with one that has asked; `None` where it asks now, and `this.question` is set.

        Raises what one of the program's tools raised to end the agent's run.
        """
        answered = None if this.answer is None else question_of(this.answer)
        known = self._find(scope, this.id, answered, state)
        ran_in = scope
        came: CodeActOutcome | ApprovalNeeded
        mark = _take_mark(answered, state)
        if known is None and this.answer is not None and (answered is None or mark is not None):
            # The program as a whole was approved, unless it has begun, or nobody was asked about it as a whole.
            mark = mark or made_in(this.call_id, state)
            approved = self.runs.approved(mark, run)
            if approved is None and scope.fresh:  # nothing is kept for such a caller, whose word the framework takes
                approved = run
            if this.id in state.get(BEGUN, ()) or (approved or run).approval == "never_require":
                return await self._run_that_is_gone(run, arguments, this, scope)
            if approved is None:
                about = self._about_changed(run)
                _keep_mark(about["question"], about.pop(_RUN), state)
                this.question = request_of(about, arguments, this, run.tool_name)
                return None
            came = await self._runner.execute(
                approved, arguments, scope=scope.name, call_id=this.id, lasting=scope.lasting
            )
        elif known is None and answered is None:
            came = await self._runner.execute(run, arguments, scope=scope.name, call_id=this.id, lasting=scope.lasting)
        elif known is not None and (this.answer is None or answered not in (None, known.about["question"])):
            this.question = request_of(known.about, arguments, this, run.tool_name)
            return None
        else:
            assert this.answer is not None
            ran_in = scope if known is None else known.scope
            decision = ApprovalDecision(this.answer.approved is True)
            begun = None if known is None else known.about["what"] == "call"
            key = (ran_in.name, this.id)
            self._running.add(key)
            try:
                came = await self._runner.answer(
                    run,
                    arguments,
                    scope=ran_in.name,
                    call_id=this.id,
                    decision=decision,
                    begun=begun,
                    lasting=ran_in.lasting,
                )
            finally:
                self._running.discard(key)
        # The tool calls of a program belong to the invocation that began it.
        began = invocation if known is None or known.began is None else known.began
        if isinstance(came, CodeActOutcome):
            self._forget(ran_in, this.id, state)
            began.check()
            return came
        about = about_of(came)
        self._remember(this.id, _Asked(about, ran_in, arguments, began), state)
        this.question = request_of(about, arguments, this, run.tool_name)
        return None

    async def _run_that_is_gone(
        self, run: FrozenRun, arguments: Any, this: Occurrence, scope: Scope
    ) -> CodeActOutcome | None:
        """Return what an answer comes to whose question is not known any more: the program is not run again."""
        came = await self._runner.answer(
            run,
            arguments,
            scope=scope.name,
            call_id=this.id,
            decision=ApprovalDecision(True),
            begun=True,
            lasting=scope.lasting,
        )
        return came if isinstance(came, CodeActOutcome) else None

    def _about_changed(self, run: FrozenRun) -> dict[str, Any]:
        """Return what is asked where an approved program would get something else than it was approved for."""
        return {
            "question": uuid.uuid4().hex[:16],
            "what": "run",
            "reason": "what programs can call and use is not known to be as it was when this one was approved",
            "tools": list(run.toolset.requiring),
            "named": [],
            _RUN: dict(self.runs.mark_of(run)),
        }

    async def refuse(
        self, answer: Content, run: FrozenRun, scope: Scope, state: MutableMapping[str, Any]
    ) -> CodeActOutcome | None:
        """Tell the program that was asked about that it was refused; return what came of it, if it had begun.

        Further questions of it are refused too. Where its run is gone, what came of it says so. `None` for an answer to
        no question of these.
        """
        name = occurrence_of(answer)
        answered = question_of(answer)
        known = self._find(scope, name, None, state)
        if known is None or answered not in (None, known.about["question"]):
            return None
        self._forget(known.scope, name, state)
        ran_in = known.scope.name
        if known.about["what"] == "run":
            self._runner.withdraw(scope=ran_in, call_id=name)
            return None
        if known.arguments is None or not self._runner.is_waiting(scope=ran_in, call_id=name):
            if (ran_in, name) in self._running:
                return None
            has_ended = self._runner.ended(scope=ran_in, call_id=name)
            self._runner.withdraw(scope=ran_in, call_id=name)
            return has_ended or self._runner.gone(run, scope=ran_in, call_id=name)
        decision = ApprovalDecision(False, "the user refused it")
        came: CodeActOutcome | ApprovalNeeded | None = None
        while not isinstance(came, CodeActOutcome):
            came = await self._runner.answer(run, known.arguments, scope=ran_in, call_id=name, decision=decision)
        return came

    def ended(
        self, run: FrozenRun, scope: Scope, state: MutableMapping[str, Any], *, but: Container[str]
    ) -> dict[str, CodeActOutcome]:
        """Return, once, what came of programs that have ended since nobody answered them in time, by occurrence.

        So it does of those whose runs are gone; their questions stay in the state, for an answer that comes yet. `but`
        are the occurrences to which an answer has just come.
        """
        found: dict[str, CodeActOutcome] = {}
        for name in [name for name in state.get(ASKED, {}) if name not in but]:
            came = self._runner.ended(scope=scope.name, call_id=name)
            if came is not None:
                found[name] = came
                self._forget(scope, name, state)
                continue
            asked = state[ASKED][name]
            if asked["what"] != "call" or _TOLD in asked or (scope.name, name) in self._running:
                continue
            came = self._runner.gone(run, scope=scope.name, call_id=name)
            if came is not None:
                found[name] = came
                state[ASKED] = {**state[ASKED], name: {**asked, _TOLD: True}}
        return found

    def clear(self) -> None:
        """Forget all, for the runner was closed."""
        with self._lock:
            self._asked.clear()
        self.runs.clear()

    def _find(self, scope: Scope, name: str, answered: str | None, state: Mapping[str, Any]) -> _Asked | None:
        with self._lock:
            there = self._asked.get((scope.name, name))
            if there is None and scope.fresh and answered is not None:
                there = next((asked for asked in self._asked.values() if asked.about["question"] == answered), None)
        if there is None and name in (kept := state.get(ASKED, {})):
            return _Asked(kept[name], scope)  # of a process that has ended
        return there

    def _remember(self, name: str, asked: _Asked, state: MutableMapping[str, Any]) -> None:
        key = (asked.scope.name, name)
        with self._lock:
            self._asked[key] = asked
            self._asked.move_to_end(key)
            while len(self._asked) > MOST_REMEMBERED:
                self._asked.popitem(last=False)
        kept = {**state.get(ASKED, {})}
        kept.pop(name, None)
        kept[name] = {part: asked.about[part] for part in _IN_STATE}
        state[ASKED] = dict(list(kept.items())[-MOST_IN_STATE:])
        _keep_begun([other for other in kept if other not in state[ASKED] and kept[other]["what"] == "call"], state)

    def _forget(self, scope: Scope, name: str, state: MutableMapping[str, Any]) -> None:
        with self._lock:
            self._asked.pop((scope.name, name), None)
        there = state.get(ASKED, {})
        if name in there and there[name]["what"] == "call":
            _keep_begun([name], state)
        kept = {other: asked for other, asked in there.items() if other != name}
        if kept:
            state[ASKED] = kept
        else:
            state.pop(ASKED, None)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that was handed to the framework. `arguments` and `began` are known to the process that asked only."""

    about: Mapping[str, Any]
    scope: Scope
    arguments: Any = None
    began: Invocation | None = None


def _keep_mark(question: str, mark: Mapping[str, str], state: MutableMapping[str, Any]) -> None:
    """Remember which run a question of ours is about. The answer could say it too, but is whoever's who sends it."""
    state[CHANGED] = dict(list({**state.get(CHANGED, {}), question: dict(mark)}.items())[-MOST_IN_STATE:])


def _take_mark(question: str | None, state: MutableMapping[str, Any]) -> Mark | None:
    """Return the run that a question of ours was about, once; `None` for any other question."""
    kept = dict(state.get(CHANGED, {}))
    mark: Mark | None = kept.pop(question, None) if question is not None else None
    if mark is not None:
        state[CHANGED] = kept
    return mark


def _keep_begun(names: list[str], state: MutableMapping[str, Any]) -> None:
    """Remember programs that had begun when their questions were forgotten: no answer makes them begin again."""
    if names:
        state[BEGUN] = [*(name for name in state.get(BEGUN, ()) if name not in names), *names][-MOST_BEGUN:]
