"""State that tools keep for each caller: an agent, its conversation, and the sandbox that it uses."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from strands.sandbox import Sandbox
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment
from strands.types.tools import ToolContext

from actbox.core.errors import InvalidValue, SandboxUnavailable

from .option_checks import check_tool_name

T = TypeVar("T")

_for_programs: weakref.WeakKeyDictionary[Any, Sandbox] = weakref.WeakKeyDictionary()
"""The sandboxes in which programs of agents in CodeAct run."""


def sandbox_of(bound: Sandbox | None, context: ToolContext) -> Sandbox:
    """Return the sandbox of a call: the one that the tool was made with, else that of the calling agent.

    An agent without its own sandbox uses the one in which its programs run. Raises `SandboxUnavailable` if there is
    none: Strands' default, this machine, is no sandbox.
    """
    if bound is not None:
        return bound
    agent: Any = context.agent
    if was_given_a_sandbox(agent):
        given: Sandbox = agent.sandbox
        return given
    found = _for_programs.get(agent)
    if found is None:
        raise SandboxUnavailable(
            "the agent was given no sandbox, and nothing runs on its own machine unasked: make it with"
            " Agent(sandbox=StrandsSandbox()) of actbox.integrations.strands, or with LocalEnvironment() where this"
            " machine is meant"
        )
    return found


def check_tool(sandbox: Any, name: Any, *, kind: type[Sandbox] = Sandbox) -> None:
    """Raise `InvalidValue` for an invalid sandbox or name of a tool."""
    if sandbox is not None and not isinstance(sandbox, kind):
        raise InvalidValue(f"sandbox is one for Strands agents, such as StrandsSandbox('linux'), not {sandbox!r}")
    check_tool_name(name)


def was_given_a_sandbox(agent: Any) -> bool:
    """Return whether an agent has a sandbox other than Strands' default, which is this machine.

    An object of exactly the default's class cannot be told from the default.
    """
    return type(agent.sandbox) is not NotASandboxLocalEnvironment


def note_where_programs_run(agent: Any, sandbox: Sandbox) -> None:
    """Record the sandbox in which the programs of an agent in CodeAct run."""
    _for_programs[agent] = sandbox


class ToolState(Generic[T]):
    """One object for each agent, conversation and sandbox, kept while the agent and the sandbox live."""

    def __init__(self, make: Callable[[Sandbox], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Sandbox, dict[str, T]]] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, context: ToolContext, sandbox: Sandbox) -> T:
        """Return the object for a call, making it if needed."""
        with self._lock:
            kept = self._of(context, sandbox)
            conversation = context.agent.session_id
            if conversation not in kept:
                kept[conversation] = self._make(sandbox)
            return kept[conversation]

    def forget(self, context: ToolContext, sandbox: Sandbox) -> T | None:
        """Remove and return the object for a call."""
        with self._lock:
            return self._of(context, sandbox).pop(context.agent.session_id, None)

    def _of(self, context: ToolContext, sandbox: Sandbox) -> dict[str, T]:
        of_agent = self._kept.setdefault(context.agent, weakref.WeakKeyDictionary())
        return of_agent.setdefault(sandbox, {})
