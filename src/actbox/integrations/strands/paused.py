"""Programs that wait in their sandboxes until people have answered an interrupt.

Strands calls a tool again when its interrupt was answered. What it knows of the first call is what was noted with the
interrupts, and a session manager keeps that beyond this process: which run waits, of which program, and what it has
called by then. A run that is not here any more is told, with those calls, and never begun again.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from strands import Agent

from actbox.codeact.outcome import not_run
from actbox.core.after_fork import in_a_forked_child
from actbox.core.call_log import CallLog
from actbox.core.errors import ErrorKind
from actbox.core.events import ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sync import background_loop

from .executor import note, noted
from .program_run import ProgramRun, digest_of

PAUSED_SECONDS: Final = 3600.0
"""How long a program waits for an answer."""
MOST_PAUSED: Final = 100
"""Programs that wait at once in this process; beyond it the one that has waited longest is ended."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A call whose run had begun and is not here any more. `calls` are those that it had made when it paused."""

    result: ExecutionResult
    calls: CallLog


class PausedRuns:
    """The runs that wait, for all agents of this process."""

    def __init__(self, *, most: int = MOST_PAUSED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, tuple[ProgramRun, object]] = OrderedDict()

    def pause(self, agent: Agent, tool_use_id: str, run: ProgramRun, *, seconds: float = PAUSED_SECONDS) -> None:
        """Keep a run that waits for people, until it is resumed or `seconds` are over, which ends it."""
        note(agent, tool_use_id, _notes_of(run))
        pause = object()
        with self._lock:
            self._runs[run.token] = (run, pause)
            too_many = [self._runs.popitem(last=False)[1][0] for _ in range(len(self._runs) - self._most)]
        for oldest in too_many:
            oldest.end()
        loop = background_loop()
        loop.call_soon_threadsafe(loop.call_later, seconds, self._expire, run.token, pause)

    def resume(self, agent: Agent, tool_use_id: str, program: str) -> ProgramRun | Gone | None:
        """Return the run of a call that Strands makes again, or what is known of one that is gone; `None` for a new
        call.
        """
        notes = noted(agent, tool_use_id)
        if notes is None:
            return None
        note(agent, tool_use_id, None)
        with self._lock:
            run, _ = self._runs.pop(notes["run"], (None, None))
        if run is not None and run.digest == digest_of(program):
            return run
        if run is not None:
            run.end()
            return Gone(not_run(ErrorKind.CANCELLED, _ANOTHER, hint=_HINT, type="RunGone"), run.calls)
        return Gone(not_run(ErrorKind.CANCELLED, _GONE, hint=_HINT, type="RunGone"), _calls_of(notes))

    def _expire(self, token: str, pause: object) -> None:
        with self._lock:
            run, last = self._runs.get(token, (None, None))
            if run is None or last is not pause:  # it has been resumed since, and may be paused anew
                return
            del self._runs[token]
        run.end()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._runs.clear()


paused_runs = PausedRuns()
in_a_forked_child(paused_runs._forget)  # what the parent runs is the parent's

_GONE = (
    "the run that waited for an answer is gone, since it waited too long, its sandbox was stopped, or its process has"
    " ended; what it had done before stays done, and nothing was run again"
)
_ANOTHER = (
    "the call came back with another program than the one that waited for an answer, which was ended; what that had"
    " done before stays done, and nothing was run again"
)
_HINT = "find out what was done already before you send a program that does the rest"


def _notes_of(run: ProgramRun) -> dict[str, Any]:
    return {
        "run": run.token,
        "program": run.digest,
        "calls": [
            {"tool": call.tool, "arguments": call.arguments, "status": call.status, "error": call.error}
            for call in run.calls.records
        ],
    }


def _calls_of(notes: Mapping[str, Any]) -> CallLog:
    log = CallLog()
    for number, call in enumerate(notes["calls"], 1):
        log.feed(ToolStarted(number, call["tool"], _arguments(call["arguments"])))
        if call["status"] != "unfinished":
            log.feed(ToolFinished(number, call["tool"], error=call["error"] or None))
    return log


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"…": text}  # it was cut
    return arguments
