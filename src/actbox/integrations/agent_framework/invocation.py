"""The `execute_code` call that a tool call belongs to, and the scope that determines its programs' files.

The call is a context variable, which the task of each tool call inherits.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agent_framework import AgentSession, FunctionInvocationContext, FunctionTool, MiddlewareFailure


@dataclass(slots=True)
class Invocation:
    """One call of `execute_code`, with the framework's data that its tool calls inherit.

    `abort` is the error of a tool that ends the whole run of the agent.
    """

    call_id: str = ""
    session: AgentSession | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    parent_keys: frozenset[str] | None = None
    abort: MiddlewareFailure | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def of(cls, context: FunctionInvocationContext | None, call_id: str) -> Invocation:
        """Return the invocation for a call's context."""
        if context is None:
            return cls(call_id)
        return cls(call_id, context.session, dict(context.kwargs), context.parent_service_session_state_keys)

    def context_for(self, function: FunctionTool, arguments: Mapping[str, Any]) -> FunctionInvocationContext:
        """Return the context for one tool call."""
        return FunctionInvocationContext(
            function=function,
            arguments=arguments,
            session=self.session,
            kwargs=self.kwargs,
            parent_service_session_state_keys=self.parent_keys,
        )

    def check(self) -> None:
        """Raise the error of a tool that ends the agent's run, if there is one."""
        if self.abort is not None:
            raise self.abort

    def next_call_id(self) -> str:
        """Return a new id for one tool call, for traces."""
        return f"{self.call_id or 'execute_code'}.{next(self._numbers)}"


current: ContextVar[Invocation | None] = ContextVar("actbox_agent_framework_invocation", default=None)


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of the files that programs see: a conversation, or without one a single use, whose files do not last.

    `fresh` is true if the provider sees the session for the first time. The framework gives each run without a session
    a session of its own, so the first run of a conversation and a run without a session look the same.
    """

    name: str
    lasting: bool = True
    fresh: bool = False

    @classmethod
    def of(cls, session: AgentSession | None, *, fresh: bool = False) -> Scope:
        """Return the scope of a session, or a new one without a session."""
        name = uuid.uuid4().hex if session is None else session.session_id
        return cls(name, session is not None, fresh)
