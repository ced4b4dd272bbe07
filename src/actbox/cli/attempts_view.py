"""`AttemptsView`: a coding agent's attempts on the terminal, as they happen, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from actbox.codegen.outcome import (
    Asked,
    Attempt,
    AttemptEvent,
    AttemptFinished,
    AttemptStarted,
    Chosen,
    CodingEvent,
    Outcome,
    Planned,
)
from actbox.codegen.page import changes
from actbox.codegen.task import Task
from actbox.content.items import DataContent
from actbox.content.render import cut
from actbox.content.safe_text import spelt_out
from actbox.content.terminal_pictures import Picture, pictures_here
from actbox.core.counted import counted
from actbox.core.events import Output

from .program_view import in_one_line, show_answer, show_run, show_source, shown

_MOST_MESSAGE: Final = 2_000


class AttemptsView:
    """The attempts at a task on a `rich` console. A context manager, which ends the status line.

    One candidate's program and output are shown live. Several candidates run at once, so each of their attempts is
    shown when it has ended.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._task: Task | None = None
        self._programs: dict[int, str] = {}  # the last program by candidate
        self._announced: set[tuple[int, int]] = set()
        self._doing: dict[int, str] = {}
        self._usd: float | None = 0.0
        self._is_in_line = False  # a program's output ended within a line
        self._status = Status("", console=console)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._status.stop()

    def begin(self, task: Task, number: int = 1, of: int = 1) -> None:
        """Show the next goal; the parameters are its place among all goals."""
        self._task = task
        self._programs.clear()
        self._announced.clear()
        self._doing.clear()
        if of > 1:
            self._console.rule(f"goal {number} of {of}", style="blue")
            self._console.print(shown(task.goal, "bold"))

    def feed(self, event: CodingEvent) -> None:
        """Show an event."""
        match event:
            case Planned(decision=decision, intent=intent):
                if intent is not None or decision.way == "returned":
                    said = f"{decision.way}, in {decision.language}: {decision.reason}"
                    self._console.print(shown(said, "dim"))
            case Asked(candidate=candidate, turn=turn, usd=usd):
                self._usd = usd
                self._now(candidate, f"the model writes program {turn}")
            case AttemptStarted(candidate=candidate, number=number):
                self._now(candidate, f"program {number} runs")
                if not self._several:
                    self._status.stop()  # it would overwrite a line of output that is not at its end
                    self._announce(candidate, number, event.code, event.language, event.explanation)
            case AttemptEvent():
                if not self._several:
                    show_run(self._console, event.event)
                    if isinstance(event.event, Output):
                        self._is_in_line = not event.event.text.endswith("\n")
            case AttemptFinished(attempt=attempt, usd=usd):
                self._usd = usd
                self._finished(attempt)
            case Chosen(candidate=candidate, reason=reason):
                self._console.print(shown(f"candidate {candidate} is chosen: {reason}", "bold cyan"))

    def conclude(self, outcome: Outcome, saved: Sequence[Path] = ()) -> None:
        """Show what came of the task, and the files that were saved; a chart itself if the terminal can show it."""
        console = self._console
        console.rule("solved" if outcome.solved else "not solved", style="green" if outcome.solved else "red")
        if outcome.solved:
            self._answer(outcome)
        else:
            why = f": {outcome.reason}" if outcome.reason else ""
            console.print(shown(f"It stopped by {outcome.stopped.replace('_', ' ')}{why}", "red"))
        for note in outcome.notes:
            console.print(shown(f"note: {note}", "dim"))
        for happened in outcome.happened:
            console.print(shown(f"happened: {happened}", "yellow"))
        for path in saved:
            console.print("file     ", Text(spelt_out(str(path)), style="bold"), soft_wrap=True)
        self._pictures(outcome)
        usage = outcome.usage
        parts = [
            counted(len(outcome.attempts), "attempt"),
            counted(usage.model_calls, "model call"),
            counted(usage.tokens.total, "token"),
            dollars(usage.usd),
            f"{usage.wall_ms / 1000:.1f} s",
        ]
        console.print(", ".join(parts))

    @property
    def _several(self) -> bool:
        return self._task is not None and self._task.best_of > 1

    def _name(self, candidate: int, number: int) -> str:
        return f"candidate {candidate}, attempt {number}" if self._several else f"attempt {number}"

    def _now(self, candidate: int, doing: str) -> None:
        self._doing[candidate] = f"candidate {candidate}: {doing}" if self._several else doing
        self._show_status()

    def _show_status(self) -> None:
        doings = "; ".join(self._doing[one] for one in sorted(self._doing))
        self._status.update(f"{doings} ({dollars(self._usd)} so far)")
        if not doings:
            self._status.stop()
        elif self._console.is_terminal and not self._console.quiet:
            self._status.start()

    def _announce(self, candidate: int, number: int, code: str, language: str, words: str) -> None:
        """Show a program, or how it differs from the one before."""
        self._announced.add((candidate, number))
        self._console.rule(self._name(candidate, number), style="cyan")
        if words.strip():
            self._console.print(shown(cut(words.strip(), _MOST_MESSAGE), "italic"))
        before = self._programs.get(candidate)
        if code and before is None:
            show_source(self._console, code, language)
        elif code and before is not None:
            lines = list(changes(before, code))
            if lines:
                show_source(self._console, "\n".join(lines), "diff")
            else:
                self._console.print("[dim]the same program once more[/dim]")
        self._programs[candidate] = code or before or ""

    def _finished(self, attempt: Attempt) -> None:
        key = attempt.candidate, attempt.number
        if key not in self._announced:
            self._announce(*key, attempt.code, attempt.language, attempt.explanation)
        console, result = self._console, attempt.result
        if self._is_in_line:
            console.print()
            self._is_in_line = False
        for call in attempt.held_back:
            console.print(shown(f"held back until a candidate is chosen: {call}", "magenta"))
        if attempt.error_class is not None:
            self._failure(attempt)
        elif attempt.checks is None and result is not None and not attempt.held_back:
            console.print("✓ it ran to its end", style="green")
        for check in () if attempt.checks is None else attempt.checks.outcomes:
            mark, style = ("✓", "green") if check.passed else ("✗", "red" if check.objects else "yellow")
            console.print(shown(f"{mark} {cut(str(check), _MOST_MESSAGE)}", style))
        self._doing.pop(attempt.candidate, None)
        self._show_status()
        ran = "it did not run" if result is None else f"it ran for {result.usage.wall_ms / 1000:.2f} s"
        tokens = attempt.tokens.total
        took = f"{attempt.model} took {attempt.model_ms / 1000:.1f} s" + (f" and {tokens:,} tokens" if tokens else "")
        console.print(shown(f"{self._name(*key)}: {took}, {ran}; {dollars(self._usd)} so far", "dim"))

    def _failure(self, attempt: Attempt) -> None:
        assert attempt.error_class is not None
        kind = attempt.error_class.value.replace("_", " ")
        error = None if attempt.result is None else attempt.result.error
        said = kind if error is None else in_one_line(error, kind)
        self._console.print(shown(cut(said, _MOST_MESSAGE), "bold red"))
        if error is not None and error.hint:
            self._console.print(shown(f"hint: {error.hint}", "yellow"))

    def _answer(self, outcome: Outcome) -> None:
        result = None if outcome.last is None else outcome.last.result
        if outcome.answer is not None:
            show_answer(self._console, outcome.answer)
        elif result is not None and result.value_text not in (None, "None"):
            show_answer(self._console, result.value_text)

    def _pictures(self, outcome: Outcome) -> None:
        protocol = pictures_here() if self._console.is_terminal else None
        for artifact in outcome.artifacts if protocol else ():
            item = DataContent(media_type=artifact.media_type, data=artifact.data, name=artifact.name)
            if (picture := Picture.of(item, protocol)) is not None:
                self._console.print(picture)


def dollars(usd: float | None) -> str:
    """Return a cost in words."""
    if usd is None:
        return "cost unknown"
    return f"${usd:.4f}" if usd else "$0"
