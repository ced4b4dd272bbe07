"""What tools keep for each caller: an agent, its conversation, and the sandbox that it uses."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from strands.sandbox import Sandbox
from strands.types.tools import ToolContext

T = TypeVar("T")


def sandbox_of(bound: Sandbox | None, context: ToolContext) -> Sandbox:
    """Return the sandbox of a call: the one that the tool was made with, else that of the agent that makes it."""
    return context.agent.sandbox if bound is None else bound


class PerAgent(Generic[T]):
    """One thing for each agent, conversation and sandbox, for as long as the first and the last of them live."""

    def __init__(self, make: Callable[[Sandbox], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Sandbox, dict[str, T]]] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, context: ToolContext, sandbox: Sandbox) -> T:
        """Return what is kept for a call, made now if there is nothing yet."""
        with self._lock:
            kept = self._of(context, sandbox)
            conversation = context.agent.session_id
            if conversation not in kept:
                kept[conversation] = self._make(sandbox)
            return kept[conversation]

    def forget(self, context: ToolContext, sandbox: Sandbox) -> T | None:
        """Keep it no more; return what was kept."""
        with self._lock:
            return self._of(context, sandbox).pop(context.agent.session_id, None)

    def _of(self, context: ToolContext, sandbox: Sandbox) -> dict[str, T]:
        of_agent = self._kept.setdefault(context.agent, weakref.WeakKeyDictionary())
        return of_agent.setdefault(sandbox, {})
