"""The scope of the framework's own approvals: the tools, files and hosts at the time of the model's call.

If `execute_code` as a whole requires approval, the framework asks by itself, and reports it only with the answer: in a
later run of the agent, before which tools may have changed. So each call is recorded when a model makes it, with its
run. An approved call runs with what that run had. If that run is gone, because the process has ended, the call uses the
current run if it has the same; otherwise a new approval is requested.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from agent_framework import ChatResponse

from actbox.codeact.approvals import keep_latest
from actbox.codeact.frozen import FrozenRun

CALLS: Final = "calls"
"""The key in the state for the runs of calls, by call id."""

MOST_CALLS: Final = 100
MOST_RUNS: Final = 100
"""The most calls recorded in one session, and the most runs that one provider keeps; older ones are dropped."""

_PROCESS: Final = uuid.uuid4().hex  # fingerprints are only comparable within one process

_UNKNOWN: Final = {"run": "", "same": ""}

Mark = Mapping[str, str]
"""A reference to a run: `run` is its name in this process; `same` is a digest of its content, valid in any process."""


class AskedRuns:
    """The runs of one provider that may still be approved."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, FrozenRun] = {}

    def mark_of(self, run: FrozenRun) -> Mark:
        """Keep a run and return a reference to it."""
        name = f"{_PROCESS}:{run.fingerprint}"
        with self._lock:
            keep_latest(self._runs, name, run, MOST_RUNS)
        return {"run": name, "same": _digest(run)}

    def clear(self) -> None:
        """Forget all runs."""
        with self._lock:
            self._runs.clear()

    def approved(self, mark: Mark, now: FrozenRun) -> FrozenRun | None:
        """Return the run of an approved call, or the current one if it is the same; `None` otherwise."""
        with self._lock:
            there = self._runs.get(mark.get("run", ""))
        if there is not None:
            return there
        return now if mark.get("same") == _digest(now) else None


def remember_calls(response: ChatResponse[Any], tool_name: str, mark: Mark, state: MutableMapping[str, Any]) -> None:
    """Record in the state the run in which a model made its calls of `execute_code`."""
    calls = dict(state.get(CALLS, {}))
    for message in response.messages:
        for content in message.contents:
            if content.type == "function_call" and content.name == tool_name and content.call_id:
                # Two unanswered calls share an id: their answers could not be told apart, so the run is unknown.
                known = calls.pop(content.call_id, mark)
                calls[content.call_id] = dict(mark if known == mark else _UNKNOWN)
    put(state, CALLS, dict(list(calls.items())[-MOST_CALLS:]))


def put(state: MutableMapping[str, Any], name: str, items: Any) -> None:
    """Store items in the state; remove their name if there are none."""
    state[name] = items
    if not items:
        del state[name]


def made_in(call_id: str, state: MutableMapping[str, Any]) -> Mark:
    """Remove and return the reference that was recorded for a call."""
    calls = dict(state.get(CALLS, {}))
    mark: Mark = calls.pop(call_id, _UNKNOWN)
    put(state, CALLS, calls)
    return mark


def _digest(run: FrozenRun) -> str:
    """Return a digest of a run, equal in any process: tools with signatures, approval, files, hosts."""
    has = [
        run.state(),
        run.toolset.requiring,
        [[tool.name, tool.signature, tool.description] for tool in run.own_tools],
    ]
    return hashlib.sha256(json.dumps(has, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
