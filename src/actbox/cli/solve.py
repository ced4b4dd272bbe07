"""`actbox solve`: a task in words, solved by programs that a model writes, live on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from actbox.codeact.blocks import fenced
from actbox.codeact.model import TokenUsage
from actbox.codegen.coding_agent import CodingAgent
from actbox.codegen.notebook import Cell
from actbox.codegen.outcome import Asked, Attempt, AttemptFinished, CodingUsage, Finished, Outcome
from actbox.codegen.page import attempts_page
from actbox.codegen.task import Task
from actbox.content.safe_text import spelt_out
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.contract import Session

from .attempts_view import AttemptsView
from .engine import Opening
from .errors import BROKEN_PIPE, SANDBOX_FAILED, in_flags
from .interrupt import Interrupted, run_interruptibly
from .output import LiveOutput, print_document
from .run import no_isolation
from .show import write_page
from .solve_request import SolveRequest

NOT_SOLVED: Final = 1
"""The exit code if the task was not solved."""
_BEFORE: Final = (
    "The program goes on where these have ended, in the same interpreter: their variables, functions and files are"
    " still there. Do not compute again what is there."
)
_LAST_WORDS: Final = 2.0
"""The seconds for which an interrupted command waits for the reader of its output."""


@dataclass(slots=True)
class _Cell:
    """A goal, with what there is of it so far."""

    task: Task
    attempts: list[Attempt] = field(default_factory=list)
    calls: int = 0
    usd: float | None = None
    finished: Outcome | None = None

    def outcome(self, end: _End) -> Outcome:
        """Return the outcome; of a goal that did not come to its end, with the attempts that had ended."""
        if self.finished is not None:
            return self.finished
        by_model: dict[str, TokenUsage] = {}
        for one in self.attempts:
            by_model[one.model] = by_model.get(one.model, TokenUsage()) + one.tokens
        runs = sum(one.result is not None for one in self.attempts)
        usage = CodingUsage(by_model=by_model, model_calls=self.calls, runs=runs, usd=self.usd)
        attempts = tuple(self.attempts)
        return Outcome(solved=False, stopped=end.stopped, reason=end.reason, attempts=attempts, usage=usage)


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a command: with an exit code if it did not come to its own, and then the reason."""

    code: int | None = None
    stopped: str = ""
    reason: str = ""


def solve_request(request: SolveRequest, opening: Opening, *, as_json: bool) -> int:
    """Solve the tasks and return the exit code for this process.

    After a signal the attempts so far are shown, and written if a page is asked for.
    """
    cells: list[_Cell] = []
    with LiveOutput() as output:
        console = Console(file=output.text_file("stdout"), quiet=as_json or request.page == "-", highlight=False)
        view = AttemptsView(console)

        def say(text: str) -> None:
            if not as_json:
                output.write("stderr", f"{spelt_out(text)}\n")

        def run() -> None:
            with view:
                run_interruptibly(lambda: _solve(request, opening, cells, view, say), give_up_when=output.broken)

        end = _end_of(run, opening, output, as_json=as_json)
        cells = cells or [_Cell(request.tasks[0])]
        outcome = cells[-1].outcome(end)
        saved, problems = _save(request, outcome, say)
        view.conclude(outcome, saved)
    if output.broken.is_set():
        return BROKEN_PIPE
    if request.page is not None:
        write_page(attempts_page([Cell(cell.task.goal, cell.outcome(end)) for cell in cells]), request.page)
    if as_json and not print_document(_document(cells, end, saved, problems)):
        return BROKEN_PIPE
    if end.code is not None:
        return end.code
    if not outcome.solved:
        return SANDBOX_FAILED if outcome.stopped == "sandbox" else NOT_SOLVED
    return SANDBOX_FAILED if problems else 0


def _end_of(run: Callable[[], None], opening: Opening, output: LiveOutput, *, as_json: bool) -> _End:
    """Run the work. For a JSON document a sandbox that is unavailable is an end like others."""
    try:
        if as_json:
            run()
        else:
            with opening.explained():
                run()
    except Interrupted as error:
        output.abandon(_LAST_WORDS)
        return _End(error.exit_code, "cancelled", "it was interrupted")
    except SandboxUnavailable as error:
        return _End(SANDBOX_FAILED, "sandbox", in_flags(str(error)))
    return _End()


async def _solve(
    request: SolveRequest, opening: Opening, cells: list[_Cell], view: AttemptsView, say: Callable[[str], None]
) -> None:
    """Solve the tasks one after the other, each in a copy of the session that the one before left."""
    async with AsyncExitStack() as stack:
        if isinstance(request.model, AbstractAsyncContextManager):
            await stack.enter_async_context(request.model)
        box = await stack.enter_async_context(opening.open())
        if not box.traits.isolated:
            say(f"warning: {no_isolation(box.traits)}")
        agent = CodingAgent(
            request.model,
            box,
            profiles=request.profiles,
            retry=request.retry,
            budget=request.budget,
            prices=request.prices,
            write_tests=request.write_tests,
        )
        session: Session | None = None
        if len(request.tasks) > 1:
            if box.traits.fork:
                session = await stack.enter_async_context(box.session(forkable=True))
            else:
                say(f"warning: the {box.traits.engine} engine copies no sessions, so no goal sees what another left")
        for number, task in enumerate(request.tasks, 1):
            cells.append(_Cell(replace(task, context=_context(cells)) if session is not None else task))
            view.begin(task, number, len(request.tasks))
            outcome = await _outcome_of(agent, cells[-1], session, view)
            if outcome.session is not None:
                session = outcome.session
                stack.push_async_callback(session.close)
            if not outcome.solved:
                return


async def _outcome_of(agent: CodingAgent, cell: _Cell, session: Session | None, view: AttemptsView) -> Outcome:
    async with aclosing(agent.stream(cell.task, session=session)) as events:
        async for event in events:
            match event:
                case Asked(usd=usd):
                    cell.calls += 1
                    cell.usd = usd
                case AttemptFinished(attempt=attempt, usd=usd):
                    cell.attempts.append(attempt)
                    cell.usd = usd
                case Finished(outcome=outcome):
                    cell.finished = outcome
                    return outcome
            view.feed(event)
    raise AssertionError("a coding agent's stream ended without Finished")


def _context(cells: Sequence[_Cell]) -> str:
    """Return what the model reads about the goals before: their programs, whose variables are there."""
    programs = [(cell.task.goal, cell.finished.code.strip()) for cell in cells if cell.finished is not None]
    if not programs:
        return ""
    return "\n\n".join([_BEFORE, *(f"{goal}\n{fenced(program, 'python')}" for goal, program in programs)])


def _save(
    request: SolveRequest, outcome: Outcome, say: Callable[[str], None]
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Save the files of an outcome; return their paths, and a sentence on each that could not be saved.

    Without a directory only files that the task names are saved: a program chooses the names of others itself.
    """
    files = outcome.files if request.save is not None else outcome.artifacts
    if request.save is None:
        if others := [one.name for one in files if one.name not in request.outputs]:
            say(f"hint: not saved: {', '.join(others)}; --save DIR saves such files")
        files = tuple(one for one in files if one.name in request.outputs)
    saved: dict[Path, None] = {}
    problems = []
    for file in files:
        try:
            saved[file.save(request.save or Path())] = None
        except (OSError, ValueError) as error:
            problems.append(f"{file.name} could not be saved: {error}")
            say(f"warning: {problems[-1]}")
    return tuple(saved), tuple(problems)


def _document(cells: Sequence[_Cell], end: _End, saved: Sequence[Path], problems: Sequence[str]) -> dict[str, Any]:
    outcomes = [cell.outcome(end) for cell in cells]
    attempts = [
        {"goal": number, **attempt.to_dict()} for number, one in enumerate(outcomes, 1) for attempt in one.attempts
    ]
    return {
        **outcomes[-1].to_dict(),
        "goals": [cell.task.goal for cell in cells],
        "attempts": attempts,
        "saved": [str(path) for path in saved],
        "warnings": list(problems),
    }
