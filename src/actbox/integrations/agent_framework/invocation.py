"""Which call of `execute_code` a tool call belongs to: a context variable, which the tool call's task inherits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agent_framework import AgentSession, FunctionInvocationContext, FunctionTool, MiddlewareFailure


@dataclass(slots=True)
class Invocation:
    """One call of `execute_code`: what the framework gave it, which its tool calls get in turn.

    `abort` is what a tool raised to end the whole run of the agent.
    """

    call_id: str = ""
    session: AgentSession | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    parent_keys: frozenset[str] | None = None
    abort: MiddlewareFailure | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def of(cls, context: FunctionInvocationContext | None, call_id: str) -> Invocation:
        """Return what a call has."""
        if context is None:
            return cls(call_id)
        return cls(call_id, context.session, dict(context.kwargs), context.parent_service_session_state_keys)

    def context_for(self, function: FunctionTool, arguments: Mapping[str, Any]) -> FunctionInvocationContext:
        """Return the context of one tool call."""
        return FunctionInvocationContext(
            function=function,
            arguments=arguments,
            session=self.session,
            kwargs=self.kwargs,
            parent_service_session_state_keys=self.parent_keys,
        )

    def check(self) -> None:
        """Raise what a tool raised to end the agent's run, if one did."""
        if self.abort is not None:
            raise self.abort

    def next_call_id(self) -> str:
        """Return an id for one tool call, by which traces tell it from others."""
        return f"{self.call_id or 'execute_code'}.{next(self._numbers)}"


current: ContextVar[Invocation | None] = ContextVar("actbox_agent_framework_invocation", default=None)
