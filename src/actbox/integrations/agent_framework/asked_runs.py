"""What an approval of the framework's own counts for: the tools, files and hosts that there were when it was asked for.

Where `execute_code` as a whole requires approval, the framework asks by itself, and says nothing of it until the answer
is there: in a later run of the agent, before which tools may have been changed. So each call is remembered when a model
makes it, with the run that it was made in. An approved call runs with what that run had. Where that is gone, since the
process has ended, it runs with what there is now if that is the same; else it is asked about anew.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from agent_framework import ChatContext, ChatMiddleware, ChatResponse

from actbox.codeact.frozen import FrozenRun

CALLS: Final = "calls"
"""Where the state has the runs that calls were made in, by call id."""

MOST_CALLS: Final = 100
MOST_RUNS: Final = 100
"""Calls that are remembered in one session, and runs that one provider keeps: the latest."""

_PROCESS: Final = uuid.uuid4().hex  # fingerprints are of one process

_UNKNOWN: Final = {"run": "", "same": ""}

Mark = Mapping[str, str]
"""A run in a few words: `run` names it in this process, `same` is the digest of what it has, in any process."""


class AskedRuns:
    """The runs of one provider that approvals may still come for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, FrozenRun] = OrderedDict()

    def mark_of(self, run: FrozenRun) -> Mark:
        """Keep a run, and return what is said of it."""
        name = f"{_PROCESS}:{run.fingerprint}"
        with self._lock:
            self._runs[name] = run
            self._runs.move_to_end(name)
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
        return {"run": name, "same": _digest(run)}

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._runs.clear()

    def approved(self, mark: Mark, now: FrozenRun) -> FrozenRun | None:
        """Return the run that an approved call was made in, or this one if it has the same; `None` for neither."""
        with self._lock:
            there = self._runs.get(mark.get("run", ""))
        if there is not None:
            return there
        return now if mark.get("same") == _digest(now) else None


class Witness(ChatMiddleware):
    """Remembers in the state which run a model made its calls of `execute_code` in."""

    def __init__(self, tool_name: str, mark: Mark, state: MutableMapping[str, Any]) -> None:
        self.was_called = False
        self._tool_name = tool_name
        self._mark = mark
        self._state = state

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Look at what the model answers."""
        self.was_called = True
        if context.stream:
            context.stream_result_hooks.append(self._look_at)
        await call_next()
        if isinstance(context.result, ChatResponse):
            self._look_at(context.result)

    def _look_at(self, response: ChatResponse[Any]) -> None:
        calls = dict(self._state.get(CALLS, {}))
        for message in response.messages:
            for content in message.contents:
                if content.type == "function_call" and content.name == self._tool_name and content.call_id:
                    # Two calls of one id that nobody has answered: which of them an answer is to could not be told.
                    known = calls.pop(content.call_id, self._mark)
                    calls[content.call_id] = dict(self._mark if known == self._mark else _UNKNOWN)
        if calls:
            self._state[CALLS] = dict(list(calls.items())[-MOST_CALLS:])


def made_in(call_id: str, state: MutableMapping[str, Any]) -> Mark:
    """Return what is remembered of a call, once."""
    calls = dict(state.get(CALLS, {}))
    mark: Mark = calls.pop(call_id, _UNKNOWN)
    if calls:
        state[CALLS] = calls
    else:
        state.pop(CALLS, None)
    return mark


def _digest(run: FrozenRun) -> str:
    """Return a digest of what can be said of a run in any process: tools with signatures, approval, files, hosts."""
    has = [
        run.state(),
        run.toolset.requiring,
        [[tool.name, tool.signature, tool.description] for tool in run.own_tools],
    ]
    return hashlib.sha256(json.dumps(has, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
