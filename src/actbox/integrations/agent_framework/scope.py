"""Whose files the programs of a call see."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from agent_framework import AgentSession


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose files programs see: those of their conversation, and without one nobody else's, which do not last."""

    name: str
    lasting: bool

    @classmethod
    def of(cls, session: AgentSession | None) -> Scope:
        """Return the scope of a session, or one of its own."""
        return cls(uuid.uuid4().hex, False) if session is None else cls(session.session_id, True)
