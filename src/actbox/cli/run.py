"""`actbox run`: one program in its own sandbox, with live output, and its result as exit code or JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actbox.core.errors import ErrorInfo, ErrorKind, SandboxUnavailable
from actbox.core.events import Completed, Event, Output
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import closing
from actbox.sandbox.dependencies import BUILD_LOG
from actbox.sandbox.traits import Traits

from .arguments import RunRequest
from .engine import Opening
from .errors import BROKEN_PIPE, SANDBOX_FAILED, exit_status, in_flags
from .interrupt import Interrupted, run_interruptibly
from .output import LiveOutput, describe_failure, print_document


def no_isolation(traits: Traits) -> str:
    """Return the warning for an engine without isolation, with its own description of what that means."""
    return f"no isolation: a program can read and change whatever its account can ({traits.isolation})"


def run_request(request: RunRequest, opening: Opening, *, as_json: bool) -> int:
    """Run the program and return the exit code for this process.

    A signal that ends this command (Ctrl-C, a reader of the output that goes away) ends the program and removes its
    sandbox first; nothing more is printed then.
    """
    try:
        if as_json:
            return _run_for_json(request, opening)
        with opening.explained():
            return _run_live(request, opening)
    except Interrupted as error:
        return error.exit_code


def _run_live(request: RunRequest, opening: Opening) -> int:
    with LiveOutput() as output:

        def show(event: Event) -> None:
            if isinstance(event, Output):
                output.write(event.stream, event.text)

        def warn(text: str) -> None:
            output.write("stderr", f"warning: {text}\n")

        try:
            with _building_shown(lambda step: output.write("stderr", f"{step}\n")):
                result = run_interruptibly(lambda: _run(request, opening, show, warn), give_up_when=output.broken)
        except Interrupted:
            output.abandon()
            raise
        if result.success and request.program.language == "rtfs":  # an RTFS program has no other output than its value
            output.write("stdout", f"{result.value_text}\n")
        output.end_streams()
        for warning in result.warnings:
            warn(warning)
        if result.error is not None:
            output.write("stderr", describe_failure(result.error))
        unsaved = _save(request, result, lambda line: output.write("stderr", line + "\n"))
    if output.broken.is_set():
        return BROKEN_PIPE
    return exit_status(result.exit_code) or (SANDBOX_FAILED if unsaved else 0)


class _Steps(logging.Handler):
    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


@contextmanager
def _building_shown(show: Callable[[str], None]) -> Iterator[None]:
    """Show each step if a named environment has to be built before the program can run."""
    log, steps = logging.getLogger(BUILD_LOG), _Steps(show)
    level = log.level
    log.addHandler(steps)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(steps)


def _run_for_json(request: RunRequest, opening: Opening) -> int:
    try:
        result = run_interruptibly(lambda: _run(request, opening, lambda _: None, lambda _: None))
    except SandboxUnavailable as error:
        failure = ErrorInfo(kind=ErrorKind.SANDBOX, message=in_flags(str(error)), hint=opening.advice(str(error)))
        result = ExecutionResult(exit_code=SANDBOX_FAILED, error=failure, sandbox=opening.engine)
    unsaved = _save(request, result, lambda line: None)
    document = result.to_dict()
    document["warnings"] += unsaved
    if not print_document(document):
        return BROKEN_PIPE
    return exit_status(result.exit_code) or (SANDBOX_FAILED if unsaved else 0)


async def _run(
    request: RunRequest,
    opening: Opening,
    show: Callable[[Event], None],
    warn: Callable[[str], None],
) -> ExecutionResult:
    if request.rules is None:
        return await _run_unread(request, opening, show, warn)
    from .run_review import advice_on, result_without_running  # imported only for a review, since the import takes long

    advice = await advice_on(request.program, request.rules)
    result = await result_without_running(request.program, advice, opening.engine)
    return advice.warn(result or await _run_unread(request, opening, show, warn))


async def _run_unread(
    request: RunRequest,
    opening: Opening,
    show: Callable[[Event], None],
    warn: Callable[[str], None],
) -> ExecutionResult:
    async with opening.open(await run_blocking(request.policy_for, opening)) as box:
        if not box.traits.isolated:
            warn(no_isolation(box.traits))
        events = box.stream(request.program)
        async with closing(events):
            async for event in events:
                show(event)
                if isinstance(event, Completed):
                    return event.result
    raise AssertionError("a stream ended without Completed")


def _save(request: RunRequest, result: ExecutionResult, say: Callable[[str], None]) -> list[str]:
    """Save the artifacts to the `--output` directory, if given; return a sentence for each that could not be saved."""
    if request.output is None:
        if result.artifacts:
            names = ", ".join(artifact.name for artifact in result.artifacts)
            say(f"hint: not saved: {names}; --output DIR saves such files")
        return []
    problems = []
    for artifact in result.artifacts:
        try:
            say(f"saved {artifact.save(request.output)}")
        except (OSError, ValueError) as error:
            problems.append(f"{artifact.name} could not be saved in {request.output}: {error}")
            say(f"warning: {problems[-1]}")
    return problems
