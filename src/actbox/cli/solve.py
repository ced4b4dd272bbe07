"""`actbox solve`: a task in words, solved by programs that a model writes, live on the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from actbox.codegen.coding_agent import CodingAgent, last_outcome
from actbox.codegen.endings import finishing
from actbox.codegen.notebook import Cell, Notebook
from actbox.codegen.outcome import CodingEvent, Outcome
from actbox.codegen.page import attempts_page
from actbox.codegen.task import Task
from actbox.content.safe_text import spelt_out
from actbox.core.errors import SandboxUnavailable

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
_LAST_WORDS: Final = 2.0
"""The seconds for which an interrupted command waits for the reader of its output."""


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
    cells: list[Cell] = []
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
        if not cells:
            cells.append(Cell(request.tasks[0].goal, Outcome(solved=False, stopped=end.stopped, reason=end.reason)))
        elif cells[-1].outcome.stopped == end.stopped:
            cells[-1] = replace(cells[-1], outcome=replace(cells[-1].outcome, reason=end.reason))
        outcome = cells[-1].outcome
        saved, problems = _save(request, outcome, say)
        view.conclude(outcome, saved)
    if output.broken.is_set():
        return BROKEN_PIPE
    if request.page is not None:
        write_page(attempts_page(cells), request.page)
    if as_json and not print_document(_document(cells, saved, problems)):
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
    request: SolveRequest, opening: Opening, cells: list[Cell], view: AttemptsView, say: Callable[[str], None]
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
        solver: CodingAgent | Notebook = agent
        if len(request.tasks) > 1:
            if box.traits.fork:
                session = await stack.enter_async_context(box.session(forkable=True))
                solver = await stack.enter_async_context(Notebook(agent, session))
            else:
                say(f"warning: the {box.traits.engine} engine copies no sessions, so no goal sees what another left")
        for number, task in enumerate(request.tasks, 1):
            view.begin(task, number, len(request.tasks))
            cancel = asyncio.Event()
            await finishing(_show(task, solver.stream(task, cancel=cancel), view, cells), cancel)
            if not cells[-1].outcome.solved:
                return


async def _show(task: Task, events: AsyncGenerator[CodingEvent], view: AttemptsView, cells: list[Cell]) -> None:
    """Show the events of a task, and add its cell."""
    cells.append(Cell(task.goal, await last_outcome(events, view.feed)))


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


def _document(cells: Sequence[Cell], saved: Sequence[Path], problems: Sequence[str]) -> dict[str, Any]:
    attempts = [
        {"goal": number, **attempt.to_dict()}
        for number, cell in enumerate(cells, 1)
        for attempt in cell.outcome.attempts
    ]
    return {
        **cells[-1].outcome.to_dict(),
        "goals": [cell.goal for cell in cells],
        "attempts": attempts,
        "saved": [str(path) for path in saved],
        "warnings": list(problems),
    }
