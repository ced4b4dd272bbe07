"""Programs that wait in their sandboxes until people have answered an interrupt.

Strands calls a tool again after its interrupt was answered. The first call leaves notes with the interrupts, which a
session manager saves beyond this process: which run waits, for which program, and its output and calls so far. If the
run no longer exists, the result says so with these notes; the program is never run again.

A run ends if nobody can resume it: because its call was cancelled, or its agent is gone.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from strands import Agent
from strands.hooks import AfterToolsEvent
from strands.types.tools import ToolResultContent

from actbox.background_loop import background_loop
from actbox.codeact.approvals import Approvals, Waits
from actbox.codeact.outcome import run_gone
from actbox.content.render import cut
from actbox.content.safe_text import encodable
from actbox.core.after_fork import in_a_forked_child
from actbox.core.call_log import CallLog
from actbox.core.events import ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult

from .executor import is_persisted, note, noted
from .program_run import ProgramRun, digest_of
from .result_blocks import blocks_of

PAUSED_SECONDS: Final = 3600.0
"""The seconds for which a program waits for an answer."""
MOST_PAUSED: Final = 20
"""The most waiting programs of one agent; beyond it the one that has waited longest is ended."""
MOST_OF_ALL: Final = 100
"""The most waiting programs in this process; beyond it one of the agent with the most is ended."""
MOST_PRINTED: Final = 8_000
"""The most characters of each stream in the notes on a waiting run."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A resumed call whose run no longer exists: a result with its output so far, and the `calls` that it made."""

    result: ExecutionResult
    calls: CallLog


@dataclass(frozen=True, eq=False)
class _Pause(Waits):
    """One pause of a run. `dropped` ends the run when its agent has been freed."""

    paused: ProgramRun
    owner: int
    """The agent's `id()`: a reference would keep the agent alive."""
    dropped: weakref.finalize[Any, Agent] | None = None

    @property
    def shown(self) -> str:  # type: ignore[override]
        """The digest of the program."""
        return self.paused.digest

    def over(self) -> ProgramRun:
        """Return the run, and stop watching its agent."""
        if self.dropped is not None:
            self.dropped.detach()
        return self.paused


class PausedRuns:
    """The waiting runs of all agents in this process, by token."""

    def __init__(self) -> None:
        self._approvals: Approvals[str, _Pause] = Approvals(most=MOST_OF_ALL, most_of_owner=MOST_PAUSED)
        self._watched: weakref.WeakSet[Agent] = weakref.WeakSet()

    def pause(self, agent: Agent, tool_use_id: str, run: ProgramRun, *, seconds: float = PAUSED_SECONDS) -> None:
        """Keep a waiting run until it is resumed, or end it after `seconds`.

        The run also ends if its call is cancelled, by `agent.cancel()` or a hook, and the model then reads what it had
        done. It ends with the agent too, unless a session manager may restore the agent for the answer.
        """
        note(agent, tool_use_id, _notes_of(run))
        if agent not in self._watched:
            agent.add_hook(self._end_cancelled, AfterToolsEvent)
            self._watched.add(agent)
        loop = background_loop()
        dropped = None
        if not is_persisted(agent):
            # Any thread may run the garbage collector, also one that holds the lock.
            dropped = weakref.finalize(agent, lambda token: loop.call_soon_threadsafe(self._expire, token), run.token)
            dropped.atexit = False  # at the process's end the sandbox ends by itself
        pause = _Pause(run, id(agent), dropped)
        for other in self._approvals.ask(run.token, pause).given_up:
            other.over().end()
        # The timer may outlive the run, and must not keep its output alive.
        loop.call_soon_threadsafe(loop.call_later, seconds, self._expire, run.token, weakref.ref(pause))

    def resume(self, agent: Agent, tool_use_id: str, program: str) -> ProgramRun | Gone | None:
        """Return the run of a call that Strands makes again, or a `Gone` if it no longer exists; `None` for a new
        call.
        """
        notes = noted(agent, tool_use_id)
        if notes is None:
            return None
        note(agent, tool_use_id, None)
        step, pause = self._approvals.answer(notes["run"], digest_of(program), approved=True)
        if pause is None:
            return _gone(_GONE, _calls_of(notes), _printed_of(notes))
        run = pause.over()
        if step == "resume":
            return run
        run.end()
        return _gone(_ANOTHER, run.calls, run.printed())

    def _end_cancelled(self, event: AfterToolsEvent) -> None:
        """End the runs of calls that got a result without being resumed, and add to that result what they had done."""
        for result in [block["toolResult"] for block in event.message["content"] if "toolResult" in block]:
            notes = noted(event.agent, result["toolUseId"])
            if notes is None:
                continue
            # The notes stay: if Strands takes the answers again, this is not a new call.
            pause = self._approvals.take(notes["run"])
            run = None if pause is None else pause.over()
            if run is not None:
                run.end()
            gone = _gone(_CALLED_OFF, _calls_of(notes), _printed_of(notes) if run is None else run.printed())
            result["content"] = _joined(result["content"], blocks_of(gone.result, "", gone.calls))

    def _expire(self, token: str, timed: weakref.ref[_Pause] | None = None) -> None:
        pause = None if timed is None else timed()
        if timed is not None and pause is None:  # the run was resumed, and may wait in another pause
            return
        last = self._approvals.take(token, pause)
        if last is not None:
            last.over().end()

    def _forget(self) -> None:
        for pause in self._approvals.forget():
            pause.over()


paused_runs = PausedRuns()
in_a_forked_child(paused_runs._forget)  # the runs belong to the parent

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


def _gone(why: str, calls: CallLog, printed: tuple[str, str]) -> Gone:
    return Gone(replace(run_gone(why), stdout=printed[0], stderr=printed[1]), calls)


def _joined(first: list[ToolResultContent], second: list[ToolResultContent]) -> list[ToolResultContent]:
    """Return the blocks of both, without joining them; models read adjacent text blocks as one text."""
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
        return {"…": text}  # the JSON was cut
    return arguments
