"""Redirects answers about tool calls of programs to the `execute_code` call that waits for them.

A request about a nested call has that call as its function call: the framework's rules match it, and user interfaces
show it. The framework keeps the request in the session, and runs the function call of an approved one, found by name
among the model's tools. So during a run, an answered request has the call of `execute_code` in the session and in the
answer. The approved arguments are those in the session until then: AG-UI stores a person's edits there.

The request's own call is kept beside it meanwhile. The framework does not tell providers about a failed run; then the
call is restored once the run's context is freed, and by the next run at the latest.

The framework pairs one answer with each call and result of the history. Further answers to one call would stay open
forever, with a warning in each run. So an answer that has reached its program is stored without its call, which the
framework treats as settled.
"""

from __future__ import annotations

import copy
import operator
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from agent_framework import AgentSession, Content, Message, SessionContext

from .question_forms import Answers, asked_by, call_of, question_of

_FRAMEWORK: Final = "tool_approval"
_PENDING: Final = "pending_approval_requests"
"""The framework's key for requests in a session's state: `tests/integrations/test_agent_framework_canary.py`."""

_NOT_KNOWN: Final = {"code": "# The program is gone, and its text with it."}

Asked = Callable[[Content], tuple[Mapping[str, Any], Any] | None]
"""Returns the request that an answer is to, and the arguments of its `execute_code`; `None` if it is unknown."""


class Redirection:
    """The answers of one run, and the session's requests as they were before it."""

    def __init__(self, tool_name: str, session: AgentSession | None) -> None:
        self.answers = Answers()
        self._tool_name = tool_name
        self._own_call = f"actbox:{tool_name}:call"
        """The additional property of a redirected request that holds its own call, and which run redirected it."""
        self._own_name = uuid.uuid4().hex
        self._session = session
        self._context: Callable[[], SessionContext | None] = lambda: None

    def begin(self, context: SessionContext, answers: Sequence[Content], asked: Asked) -> None:
        """Redirect the answers of a run."""
        self._restore(every=True)  # the context of a failed run may still exist
        if not answers:
            return
        weakref.finalize(context, self.end)
        self._context = weakref.ref(context)
        pending = {request["id"]: request for request in self._pending()}
        self.answers.others_wait = not {answer.id for answer in answers}.issuperset(pending)
        context.input_messages = [
            _with_contents(message, [self._redirected(content, pending, asked) for content in message.contents])
            for message in context.input_messages
        ]

    def settle(self, name: str | None) -> None:
        """Store the answer with this id in the history as settled."""
        context = self._context()
        # Not the list of `begin`: later providers may have replaced it.
        messages: list[Message] = [] if context is None else context.input_messages
        for at, message in enumerate(messages):
            contents = [
                _without_call(content)
                if content.type == "function_approval_response" and content.id == name
                else content
                for content in message.contents
            ]
            messages[at] = _with_contents(message, contents)

    def end(self) -> None:
        """Restore the calls of requests that are still open."""
        self._restore(every=False)

    def _restore(self, *, every: bool) -> None:
        for request in self._pending():
            properties = request.get("additional_properties")
            if not isinstance(properties, Mapping) or self._own_call not in properties:
                continue
            kept = properties[self._own_call]
            if every or kept["by"] == self._own_name:
                request["function_call"] = kept["call"]
                request["additional_properties"] = {key: properties[key] for key in properties if key != self._own_call}

    def _redirected(self, answer: Content, pending: Mapping[str, Any], asked: Asked) -> Content:
        if answer.type != "function_approval_response" or answer.function_call is None:
            return answer
        if answer.id is None or answer.id != answer.function_call.id:  # the framework drops such an answer
            return answer
        if asked_by(answer) != self._tool_name or (question := question_of(answer)) is None:
            return answer
        kept = pending.get(answer.id)
        approved = answer.function_call
        if kept is not None:
            self.answers.kept.add(question)
            approved = Content.from_dict(kept["function_call"])
        known = asked(answer)
        about_run = approved.name == self._tool_name if known is None else known[0]["what"] == "run"
        if about_run or (known is not None and known[0].get("tool", approved.name) != approved.name):
            return answer
        arguments = None if known is None else known[1]
        self.answers.calls.add(question)
        self.answers.approved[question] = approved.parse_arguments() or {}
        call = call_of(arguments or _NOT_KNOWN, approved.call_id or "", self._tool_name, answer.id)
        if kept is not None:
            kept["additional_properties"] = {
                **(kept.get("additional_properties") or {}),
                self._own_call: {"by": self._own_name, "call": kept["function_call"]},
            }
            kept["function_call"] = call.to_dict()
        redirected = copy.copy(answer)
        redirected.function_call = call
        return redirected

    def _pending(self) -> Iterator[dict[str, Any]]:
        state = {} if self._session is None else self._session.state.get(_FRAMEWORK, {})
        for request in state.get(_PENDING, []) if isinstance(state, Mapping) else []:
            if isinstance(request, dict) and "id" in request and isinstance(request.get("function_call"), Mapping):
                yield request


def _without_call(answer: Content) -> Content:
    settled = copy.copy(answer)
    settled.function_call = None
    return settled


def _with_contents(message: Any, contents: list[Content]) -> Any:
    if all(map(operator.is_, contents, message.contents)):
        return message
    changed = copy.copy(message)
    changed.contents = contents
    return changed
