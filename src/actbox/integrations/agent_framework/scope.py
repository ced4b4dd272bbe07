"""Whose files the programs of a call see."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from agent_framework import AgentSession


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose files programs see: those of their conversation, and without one nobody else's, which do not last.

    `fresh` says that a provider has not seen the session before. The framework gives a session of its own to each run
    that has none, so that the first run of a conversation and one without a session look the same.
    """

    name: str
    lasting: bool = True
    fresh: bool = False

    @classmethod
    def of(cls, session: AgentSession | None, *, fresh: bool = False) -> Scope:
        """Return the scope of a session, or one of its own."""
        name = uuid.uuid4().hex if session is None else session.session_id
        return cls(name, session is not None, fresh)
