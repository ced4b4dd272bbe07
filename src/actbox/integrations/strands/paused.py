"""Programs that wait in their sandboxes until people have answered an interrupt.

Strands calls a tool again when its interrupt was answered. What it knows of the first call is what was noted with the
interrupts, and a session manager keeps that beyond this process: which run waits, of which program, and what it has
printed and called by then. A run that is not here any more is told, with all that, and never begun again.

A run is ended that nobody can go on with: its call was called off, or its agent is no more.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from strands import Agent
from strands.hooks import AfterToolsEvent
from strands.types.tools import ToolResultContent

from actbox.codeact.outcome import not_run
from actbox.content.render import cut
from actbox.content.safe_text import encodable
from actbox.core.after_fork import in_a_forked_child
from actbox.core.call_log import CallLog
from actbox.core.errors import ErrorKind
from actbox.core.events import ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sync import background_loop

from .executor import is_kept, note, noted
from .observation import blocks_of
from .program_run import ProgramRun, digest_of

PAUSED_SECONDS: Final = 3600.0
"""How long a program waits for an answer."""
MOST_PAUSED: Final = 20
"""Programs of one agent that wait at once; beyond it the one that has waited longest is ended."""
MOST_OF_ALL: Final = 500
"""Programs that wait at once in this process; beyond it one ends of the agent that has the most."""
MOST_PRINTED: Final = 8_000
"""Characters of each stream that are noted of a run that waits."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A call whose run had begun and is not here any more; with what it had printed, and the `calls` that it made."""

    result: ExecutionResult
    calls: CallLog


@dataclass(frozen=True, slots=True, eq=False)
class _Pause:
    """One time that a run waits. `dropped` ends it when nobody has its agent any more."""

    run: ProgramRun
    owner: int
    """The agent, as a number: a reference would keep it."""
    dropped: weakref.finalize[Any, Agent] | None = None

    def over(self) -> ProgramRun:
        """Return the run, which waits no more."""
        if self.dropped is not None:
            self.dropped.detach()
        return self.run


class PausedRuns:
    """The runs that wait, for all agents of this process."""

    def __init__(self, *, most: int = MOST_PAUSED, most_of_all: int = MOST_OF_ALL) -> None:
        self._most = most
        self._most_of_all = most_of_all
        self._lock = threading.Lock()
        self._runs: dict[str, _Pause] = {}
        """By token, the one that has waited longest first."""
        self._watched: weakref.WeakSet[Agent] = weakref.WeakSet()

    def pause(self, agent: Agent, tool_use_id: str, run: ProgramRun, *, seconds: float = PAUSED_SECONDS) -> None:
        """Keep a run that waits for people, until it is resumed or `seconds` are over, which ends it.

        It ends as well when the call is called off, by `agent.cancel()` or a hook, and the model is told what it had
        done; and with the agent, unless a session manager may bring another here that has the answer.
        """
        note(agent, tool_use_id, _notes_of(run))
        if agent not in self._watched:
            agent.add_hook(self._tell_of_those_called_off, AfterToolsEvent)
            self._watched.add(agent)
        loop = background_loop()
        dropped = None
        if not is_kept(agent):
            # Garbage is collected in any thread, which may hold the lock.
            dropped = weakref.finalize(agent, lambda token: loop.call_soon_threadsafe(self._expire, token), run.token)
            dropped.atexit = False  # a sandbox ends with the process by itself
        pause = _Pause(run, id(agent), dropped)
        with self._lock:
            self._runs[run.token] = pause
            too_many = self._too_many(pause.owner)
            if too_many is not None:
                del self._runs[too_many.run.token]
        if too_many is not None:
            too_many.over().end()
        loop.call_soon_threadsafe(loop.call_later, seconds, self._expire, run.token, pause)

    def _too_many(self, owner: int) -> _Pause | None:
        """Return the run that has to end since `owner` has one more: of its own, unless others have as many."""
        waiting = Counter(pause.owner for pause in self._runs.values())
        if waiting[owner] <= self._most:
            if len(self._runs) <= self._most_of_all:
                return None
            owner, _ = waiting.most_common(1)[0]
        return next(pause for pause in self._runs.values() if pause.owner == owner)

    def resume(self, agent: Agent, tool_use_id: str, program: str) -> ProgramRun | Gone | None:
        """Return the run of a call that Strands makes again, or what is known of one that is gone; `None` for a new
        call.
        """
        notes = noted(agent, tool_use_id)
        if notes is None:
            return None
        note(agent, tool_use_id, None)
        run = self._taken(notes["run"])
        if run is not None and run.digest == digest_of(program):
            return run
        if run is not None:
            run.end()
            return _gone(_ANOTHER, run.calls, run.printed())
        return _gone(_GONE, _calls_of(notes), _printed_of(notes))

    def _tell_of_those_called_off(self, event: AfterToolsEvent) -> None:
        """End the runs whose calls have a result and were not made again, and say in that result what they had done."""
        for result in [block["toolResult"] for block in event.message["content"] if "toolResult" in block]:
            notes = noted(event.agent, result["toolUseId"])
            if notes is None:
                continue
            # The notes stay: where Strands takes the answers once more, the call is not a new one.
            run = self._taken(notes["run"])
            if run is not None:
                run.end()
            gone = _gone(_CALLED_OFF, _calls_of(notes), _printed_of(notes) if run is None else run.printed())
            result["content"] = _joined(result["content"], blocks_of(gone.result, "", gone.calls))

    def _taken(self, token: str) -> ProgramRun | None:
        with self._lock:
            pause = self._runs.pop(token, None)
        return None if pause is None else pause.over()

    def _expire(self, token: str, pause: _Pause | None = None) -> None:
        with self._lock:
            last = self._runs.get(token)
            if last is None or pause not in (None, last):  # it has been resumed since, and may be paused anew
                return
            del self._runs[token]
        last.over().end()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        for pause in self._runs.values():
            pause.over()
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
_CALLED_OFF = (
    "the call was called off while its program waited for an answer, and the program was ended; what it had done before"
    " stays done"
)
_HINT = "find out what was done already before you send a program that does the rest"


def _gone(why: str, calls: CallLog, printed: tuple[str, str]) -> Gone:
    result = not_run(ErrorKind.CANCELLED, why, hint=_HINT, type="RunGone")
    return Gone(replace(result, stdout=printed[0], stderr=printed[1]), calls)


def _joined(first: list[ToolResultContent], second: list[ToolResultContent]) -> list[ToolResultContent]:
    """Return the blocks of both; models read text blocks that follow each other as one text."""
    if first and "text" in first[-1] and "text" in second[0]:
        return [*first[:-1], {"text": f"{first[-1]['text']}\n\n{second[0]['text']}"}, *second[1:]]
    return [*first, *second]


def _notes_of(run: ProgramRun) -> dict[str, Any]:
    return {
        "run": run.token,
        "program": run.digest,
        "printed": [cut(encodable(text), MOST_PRINTED) for text in run.printed()],
        "calls": [
            {"tool": call.tool, "arguments": call.arguments, "status": call.status, "error": call.error}
            for call in run.calls.records
        ],
    }


def _printed_of(notes: Mapping[str, Any]) -> tuple[str, str]:
    stdout, stderr = notes.get("printed", ("", ""))
    return stdout, stderr


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
