"""Approval requests from inside `execute_code`, in the approval styles `inspected` and `nested`.

The framework decides by a tool's name, before the call, whether a person is asked. In these styles the answer depends
on the program, so `execute_code` itself asks, with the framework's `UserInputRequiredException`. Tested behavior of
agent-framework-core 1.22 and 1.23, with and without streaming:

* The response has the request in `user_input_requests`, as a `function_approval_request`. A request about a program's
  tool call has that call as its function call, so that the framework's standing approvals match just that call. One
  about packages has a call of `install_packages`, which is no tool. A request about a whole program has the call of
  `execute_code`. Further details are in `additional_properties["actbox"]`. The caller sends
  `request.to_function_approval_response(True)`, with the same
  `AgentSession`. Without a session the framework ignores the answer, and logs that; the request then times out.
* The framework keeps the request in the session. It drops an answer that matches none, and uses each matching answer
  once. It then calls `execute_code` again (`redirected_answers.py`) with the same arguments and call id; only function
  middleware sees the answer, in its metadata. A model that sends the same call again may reuse the call id, but has
  another *occurrence id* and no answer: its program needs a new approval.
* After a refusal `execute_code` is not called: the framework tells the model that the call was rejected.
  `Questions.refuse` tells the waiting program, so that it can end; `notes.py` tells the model the program's outcome.
* Two calls in one turn have separate requests; a call that needs no approval has run by then. Their answers belong in
  one message with nothing else. If the conversation goes on without an answer, the model no longer sees the call. A
  separate or later answer still counts, but the framework then sends calls and results in an order that some services
  refuse, such as OpenAI's chat API.
* A program may ask several times. Each request has its own occurrence id, derived from the call's, so that an answer
  never counts for another request. The request is returned as the result of the call, not raised: a service that runs
  approved calls, such as AG-UI, takes an exception as a sign that the call has not begun.

The session's state keeps the requests too. So an answer that arrives after the process has ended is recognized, and is
never taken for the framework's own approval of a whole call, which would run the program again.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Awaitable, Callable, Container, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from agent_framework import Content, FunctionInvocationContext, FunctionMiddleware, FunctionTool

from actbox.codeact.approvals import keep_latest
from actbox.codeact.frozen import FrozenRun
from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.runner import ApprovalNeeded, CodeActRunner
from actbox.tools import ApprovalDecision, ApprovalRequest
from actbox.tools.large_values import aside

from .approval_scope import AskedRuns, Mark, made_in, put
from .invocation import Invocation, Scope
from .question_forms import (
    Occurrence,
    about_of,
    edited_from,
    model_call_id,
    occurrence_of,
    question_of,
    request_of,
)
from .redirected_answers import Redirection

MOST_REMEMBERED: Final = 1000
MOST_IN_STATE: Final = 100
"""The most unanswered requests kept in this process, and in the state of one session; older ones are dropped."""

ASKED: Final = "asked"
"""The key in the state for unanswered requests."""
CHANGED: Final = "changed"
"""The key in the state for the runs of requests that are asked again because something has changed."""
BEGUN: Final = "begun"
"""The key in the state for the occurrences of programs that had begun and whose requests are over."""
MOST_BEGUN: Final = 1000
_IN_STATE: Final = ("question", "what", "reason", "code_hash")
"""The fields kept for each request; the framework's own request has all of them."""
_REPORTED: Final = "told"
"""A further field: true if the model was told that the run is gone."""

_RUN: Final = "run"
"""The field that names the new run, in a request about a program that was already approved."""


occurrence: ContextVar[Occurrence | None] = ContextVar("actbox_agent_framework_occurrence", default=None)


class ApprovalGate(FunctionMiddleware):
    """Tells one `execute_code` which call it is in, and passes its request to the framework."""

    def __init__(self, tool: FunctionTool, redirection: Redirection) -> None:
        self._tool = tool
        self._redirection = redirection

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Run the call; its result is an approval request if it has to wait for an answer."""
        if context.function is not self._tool:
            await call_next()
            return
        call_id = str(context.metadata.get("call_id", ""))
        this = Occurrence(
            tool=self._tool,
            id=model_call_id(str(context.metadata.get("function_call_occurrence_id", call_id))),
            call_id=call_id,
            answer=context.metadata.get("approval_response"),
            answers=self._redirection.answers,
        )
        if this.answer is not None:
            self._redirection.settle(this.answer.id)
        token = occurrence.set(this)
        try:
            await call_next()
        finally:
            occurrence.reset(token)
        if this.question is not None:
            context.result = this.question


class Questions:
    """The unanswered requests of one provider, by session and by the occurrence that asks.

    Occurrence ids are chosen by the chat client and do not show whose they are. An answer counts for the request that
    it names only if the session is new and the framework passed the answer on, since it was told not to check answers.
    """

    def __init__(self, runner: CodeActRunner) -> None:
        self.runs = AskedRuns()
        self._runner = runner
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._running: set[tuple[str, str]] = set()  # programs that were resumed by an answer

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
        """Run a program, or resume one that has asked; return `None` and set `this.question` if it asks now.

        Raises the error of a tool that ends the agent's run.
        """
        answered = None if this.answer is None else question_of(this.answer)
        known = self._find(scope, this.id, answered, state)
        ran_in = scope
        outcome: CodeActOutcome | ApprovalNeeded
        mark = _take_mark(answered, state)
        if known is None and this.answer is not None and (answered is None or mark is not None):
            # An approval of the whole program, unless the program has begun or needed no such approval.
            mark = mark or made_in(this.call_id, state)
            approved = self.runs.approved(mark, run)
            if approved is None and scope.fresh:  # nothing is stored for this caller, so trust the framework's answer
                approved = run
            if this.id in state.get(BEGUN, ()) or (approved or run).approval == "never_require":
                return await self._run_that_is_gone(run, arguments, this, scope)
            if approved is None:
                about = self._about_changed(run)
                _keep_mark(about["question"], about.pop(_RUN), state)
                this.question = request_of(about, arguments, this, run.tool_name)
                return None
            outcome = await self._runner.execute(
                approved, arguments, scope=scope.name, call_id=this.id, lasting=scope.lasting
            )
        elif known is None and answered is None:
            outcome = await self._runner.execute(
                run, arguments, scope=scope.name, call_id=this.id, lasting=scope.lasting
            )
        elif known is not None and answered != known.about["question"]:
            this.question = request_of(known.about, arguments, this, run.tool_name)
            return None
        else:
            assert this.answer is not None
            ran_in = scope if known is None else known.scope
            question = answered or ""
            edited = None
            if known is not None and known.shown is not None and question in this.answers.approved:
                asked, answered_with = known.shown, this.answers.approved[question]
                edited = await aside(lambda _: edited_from(asked, answered_with), asked.arguments)
            decision = ApprovalDecision(this.answer.approved is True, edited=edited)
            if edited is not None and known is not None and known.about["what"] == "install":
                decision = ApprovalDecision(False, "the answer is about other packages than the question")
            begun = question in this.answers.calls or (None if known is None else known.about["what"] != "run")
            key = (ran_in.name, this.id)
            self._running.add(key)
            try:
                outcome = await self._runner.answer(
                    run,
                    arguments,
                    scope=ran_in.name,
                    call_id=this.id,
                    decision=decision,
                    begun=begun,
                    lasting=ran_in.lasting,
                    edited=question in this.answers.kept,
                )
            finally:
                self._running.discard(key)
        # A program's tool calls belong to the invocation that started the program.
        began = invocation if known is None or known.began is None else known.began
        if isinstance(outcome, CodeActOutcome):
            self._forget(ran_in, this.id, state)
            began.check()
            return outcome
        needed = outcome
        about = await aside(lambda _: about_of(needed), outcome.request.arguments)
        self._remember(this.id, _Asked(about, ran_in, arguments, began, outcome.request), state)
        this.question = request_of(about, arguments, this, run.tool_name)
        return None

    async def _run_that_is_gone(
        self, run: FrozenRun, arguments: Any, this: Occurrence, scope: Scope
    ) -> CodeActOutcome | None:
        """Return the outcome for an answer to an unknown request: the program is not run again."""
        outcome = await self._runner.answer(
            run,
            arguments,
            scope=scope.name,
            call_id=this.id,
            decision=ApprovalDecision(True),
            begun=True,
            lasting=scope.lasting,
        )
        return outcome if isinstance(outcome, CodeActOutcome) else None

    def _about_changed(self, run: FrozenRun) -> dict[str, Any]:
        """Return a request to approve a program again, because its tools or permissions may have changed."""
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
        """Tell the waiting program that its request was refused; return the program's outcome if it had begun.

        Its further requests are refused too. If its run is gone, the outcome says so. Returns `None` for an answer to
        any other request.
        """
        name = occurrence_of(answer)
        answered = question_of(answer)
        known = self._find(scope, name, None, state)
        if known is None or answered != known.about["question"]:
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
        outcome: CodeActOutcome | ApprovalNeeded | None = None
        while not isinstance(outcome, CodeActOutcome):
            outcome = await self._runner.answer(run, known.arguments, scope=ran_in, call_id=name, decision=decision)
        return outcome

    def ended(
        self, run: FrozenRun, scope: Scope, state: MutableMapping[str, Any], *, but: Container[str]
    ) -> dict[str, CodeActOutcome]:
        """Return, once each, the outcomes of programs that ended because nobody answered in time, by occurrence.

        Runs that are gone are included; their requests stay in the state, for a late answer. `but` are the occurrences
        that have just been answered.
        """
        found: dict[str, CodeActOutcome] = {}
        for name in [name for name in state.get(ASKED, {}) if name not in but]:
            outcome = self._runner.ended(scope=scope.name, call_id=name)
            if outcome is not None:
                found[name] = outcome
                self._forget(scope, name, state)
                continue
            asked = state[ASKED][name]
            if asked["what"] == "run" or _REPORTED in asked or (scope.name, name) in self._running:
                continue
            outcome = self._runner.gone(run, scope=scope.name, call_id=name)
            if outcome is not None:
                found[name] = outcome
                state[ASKED] = {**state[ASKED], name: {**asked, _REPORTED: True}}
        return found

    def asked(self, answer: Content, scope: Scope, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any] | None:
        """Return the request that an answer is to, and the arguments of its `execute_code`; `None` if it is unknown."""
        question = question_of(answer)
        known = self._find(scope, occurrence_of(answer), question, state)
        return None if known is None or known.about["question"] != question else (known.about, known.arguments)

    def clear(self) -> None:
        """Forget all requests, after the runner was closed."""
        with self._lock:
            self._asked.clear()
        self.runs.clear()

    def _find(self, scope: Scope, name: str, answered: str | None, state: Mapping[str, Any]) -> _Asked | None:
        with self._lock:
            there = self._asked.get((scope.name, name))
            if there is None and scope.fresh and answered is not None:
                there = next((asked for asked in self._asked.values() if asked.about["question"] == answered), None)
        if there is None and name in (kept := state.get(ASKED, {})):
            return _Asked(kept[name], scope)  # from an earlier process
        return there

    def _remember(self, name: str, asked: _Asked, state: MutableMapping[str, Any]) -> None:
        with self._lock:
            keep_latest(self._asked, (asked.scope.name, name), asked, MOST_REMEMBERED)
        before = state.get(ASKED, {})
        state[ASKED] = {**before}
        keep_latest(state[ASKED], name, {part: asked.about[part] for part in _IN_STATE}, MOST_IN_STATE)
        _keep_begun([other for other in before if other not in state[ASKED] and before[other]["what"] != "run"], state)

    def _forget(self, scope: Scope, name: str, state: MutableMapping[str, Any]) -> None:
        with self._lock:
            self._asked.pop((scope.name, name), None)
        there = state.get(ASKED, {})
        if name in there and there[name]["what"] != "run":
            _keep_begun([name], state)
        put(state, ASKED, {other: asked for other, asked in there.items() if other != name})


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that was passed to the framework. Only the process that asked has `arguments`, `began` and `shown`.

    `arguments` are those of `execute_code`; `shown` is the request with the uncut arguments of the program's call.
    """

    about: Mapping[str, Any]
    scope: Scope
    arguments: Any = None
    began: Invocation | None = None
    shown: ApprovalRequest | None = None


def _keep_mark(question: str, mark: Mapping[str, str], state: MutableMapping[str, Any]) -> None:
    """Store the run that a request is about. It is not read from the answer, which anybody could forge."""
    state[CHANGED] = dict(list({**state.get(CHANGED, {}), question: dict(mark)}.items())[-MOST_IN_STATE:])


def _take_mark(question: str | None, state: MutableMapping[str, Any]) -> Mark | None:
    """Remove and return the stored run of a request; `None` for any other request."""
    kept = dict(state.get(CHANGED, {}))
    mark: Mark | None = kept.pop(question, None) if question is not None else None
    if mark is not None:
        state[CHANGED] = kept
    return mark


def _keep_begun(names: list[str], state: MutableMapping[str, Any]) -> None:
    """Record programs that had begun when their requests were dropped, so that no answer runs them again."""
    if names:
        state[BEGUN] = [*(name for name in state.get(BEGUN, ()) if name not in names), *names][-MOST_BEGUN:]
