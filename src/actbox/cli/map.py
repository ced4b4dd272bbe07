"""`actbox map`: runs the programs of a JSONL file, many at once, each in its own workspace, and writes a line for each
result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.core.result import ExecutionResult
from actbox.sandbox.languages import ENGINES_OF, language_of
from actbox.sandbox.mapping import RunAlone, default_concurrency, result_of
from actbox.sandbox.parallel import in_parallel

from .arguments import limits_from
from .engine import Opening
from .errors import SANDBOX_FAILED, UsageError
from .interrupt import Interrupted, run_interruptibly
from .jobs import Job, count_jobs, jobs_to_do, opened, read_jobs
from .progress import ProgressBar, Tally, programs
from .results_file import CannotWrite, ResultsFile
from .run import no_isolation

NOT_ALL_COULD_RUN: Final = 1
"""The exit code when some line was not a runnable program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRequest:
    """The parsed command line of `actbox map`. `file` may be `-`; `concurrency` is a number of programs."""

    file: str
    out: Path
    policy: Policy
    concurrency: int
    resume: bool
    ordered: bool
    opening: Opening
    language: str
    """The default language of lines."""


def parse_map_request(
    *,
    file: str,
    out: Path,
    resume: bool,
    concurrency: int | None,
    timeout: float | None,
    memory: int | None,
    preload: Sequence[str],
    opening: Opening,
    ordered: bool,
    language: str | None,
) -> MapRequest:
    """Return the request that the options describe. Raises `UsageError`, which names the wrong option."""
    if language is not None and language not in ENGINES_OF:
        raise UsageError(f"--language {language}: there is no such language", f"there are: {', '.join(ENGINES_OF)}")
    if language is not None and opening.engine == "auto" and len(ENGINES_OF[language]) == 1:
        opening = replace(opening, engine=ENGINES_OF[language][0])
    at_once = default_concurrency() if concurrency is None else concurrency
    if at_once < 1:
        raise UsageError(
            f"--concurrency takes a number of programs above zero, not {at_once}", "such as --concurrency 8"
        )
    try:
        policy = Policy(limits=limits_from(timeout, memory), preload=tuple(preload))
    except InvalidValue as error:
        raise UsageError(str(error), "such as --preload pandas") from None
    return MapRequest(
        file=file,
        out=out,
        policy=policy,
        concurrency=at_once,
        resume=resume,
        ordered=ordered,
        language=language or language_of(opening.engine),
        opening=opening,
    )


def map_request(request: MapRequest) -> int:
    """Run the programs and return the exit code for this process.

    However it ends, also by a signal, every program that finished has its line in the file of results.
    """
    with opened(request.file) as source, ResultsFile(request.out, resume=request.resume) as results:
        if results.repaired:
            _say(f"warning: {results.repaired}")
        tally = Tally()
        total = count_jobs(request.file) if os.isatty(2) else None
        try:
            with request.opening.explained(), ProgressBar(tally, total) as bar:
                run_interruptibly(lambda: _map(request, source, results, tally, bar.update))
        except Interrupted as error:
            kept = f"{programs(len(results.done) + tally.done)} done and in {request.out}"
            _say(f"interrupted: {kept}; --resume goes on with the rest")
            return error.exit_code
        except CannotWrite as error:
            _say(f"actbox: {error}; it holds the results of {programs(len(results.done) + tally.done)}")
            _say("hint: make room, then go on with --resume")
            return SANDBOX_FAILED
    _say(f"{tally.summary()}; results in {request.out}")
    if tally.unrun:
        return SANDBOX_FAILED
    return NOT_ALL_COULD_RUN if tally.refused else 0


async def _map(request: MapRequest, source: int, results: ResultsFile, tally: Tally, show: Callable[[], None]) -> None:
    def skip() -> None:
        tally.skipped += 1
        show()

    def write(job: Job, result: ExecutionResult) -> None:
        results.write(job.id, result.to_dict())
        tally.add(result)
        show()

    finished: dict[int, tuple[Job, ExecutionResult]] = {}  # by line number, until it is written

    async def call(job: Job) -> int:
        finished[job.line] = job, await result_of(_run(run_alone, job), box.traits.engine)
        return job.line

    async with request.opening.open(request.policy) as box:
        run_alone = box.run_alone_of_one_call()
        if not box.traits.isolated:
            _say(f"warning: {no_isolation(box.traits)}")
        jobs = jobs_to_do(read_jobs(source, request.language), results.done, skip)
        try:
            async with aclosing(
                in_parallel(jobs, call, concurrency=request.concurrency, ordered=request.ordered)
            ) as lines:
                async for _, line in lines:
                    write(*finished[line])
                    del finished[line]
        finally:
            # Results that were finished at the end, including those that waited for their turn to be written.
            for line in sorted(finished):
                write(*finished[line])


async def _run(run_alone: RunAlone, job: Job) -> ExecutionResult:
    if job.program is None:
        raise InvalidValue(job.problem)
    return await run_alone(job.program, timeout=job.timeout)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
