"""Acceptance: the checks that an outcome must pass before it counts, and the choice among several candidates.

Functions of the host get the result itself. Schemas and files are checked on what came out. Tests run in a sandbox that
the program never sees (`text_checks.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import inspect
import itertools
import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from actbox.core.labels import PUBLIC, Label
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.core.values import pack
from actbox.rtfs.conversion import from_json
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.schemas import SchemaError, explain, from_json_schema
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.mapping import result_of
from actbox.tools.threads import run_in_thread

from .file_checks import file_problems
from .mutation import Mutant, hollow, mutants
from .task import Check, FileCheck, SchemaCheck, TextCheck, Writer
from .text_checks import TEST_SECONDS, OneTest, TextReport, run_text_check

WEIGHTS: Final[Mapping[Writer, float]] = {"caller": 1.0, "model": 0.5, "author": 0.25}
"""The weight of a check by its writer. A test that a model wrote without seeing the program counts more than one by the
program's own author, who may have tested what the program does rather than what it should do.
"""
DECISIVE: Final = 0.5
"""The weight from which a check that fails is an objection. Lighter ones only lower the score."""
MUTANTS: Final = 3
"""The number of small faults that are tried on a program to see whether a test can fail."""

_MOST_PROBLEMS: Final = 5
_MOST_CHARS: Final = 2_000
_DIGITS: Final = 9


class NotTried(Exception):
    """Raised by a check that could not be made: it counts neither for a candidate nor against it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that has run, with its outcome.

    `answer` is what it answered: the last expression's value, or what `final_answer` was given. `source` is the source
    that tests import, if that is not the program that ran, such as one without the call of its entry point. `cost` is
    in any one unit. `acceptance` is the verdict of `accept`, once there is one.
    """

    program: Program
    result: ExecutionResult
    answer: Any = None
    source: str | None = None
    cost: float = 0.0
    acceptance: Acceptance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """The outcome of one check.

    `message` says why it failed, for the program's author; it may show values of the run, so it has the run's label,
    joined with `label`, that of what the check itself has run.
    `share` is the share of its tests that passed, 0 or 1 for any other check. `tests` are those of a text check.

    `can_fail` is false for a text check that also passes with functions that do nothing and without the program's
    output. Such a check has no weight. It is `None` if nobody knows. `mutant` is the fault by which that was seen.
    """

    check: Check = field(repr=False)
    name: str
    passed: bool
    weight: float = 1.0
    message: str = ""
    label: Label = field(default=PUBLIC, repr=False)
    share: float = 0.0
    written_by: Writer = "caller"
    tests: tuple[OneTest, ...] = ()
    can_fail: bool | None = None
    mutant: str = ""
    wall_ms: float = 0.0

    @property
    def objects(self) -> bool:
        """True if the check failed and is weighty enough to reject the candidate."""
        return not self.passed and self.weight >= DECISIVE

    def __str__(self) -> str:
        """Return the outcome as a sentence."""
        if not self.passed:
            return f"{self.name}: {self.message}"
        return (
            f"{self.name}: passed" if self.can_fail is not False else f"{self.name}: passes whatever the program does"
        )


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The verdict of all checks on a candidate. `label` is that of the run and of all that the checks have run."""

    outcomes: tuple[CheckOutcome, ...] = ()
    label: Label = dataclasses.field(default_factory=Label)

    @property
    def accepted(self) -> bool:
        """True if no weighty check failed. Without any check, whatever ran is accepted."""
        return not any(outcome.objects for outcome in self.outcomes)

    @property
    def passed(self) -> tuple[CheckOutcome, ...]:
        """The checks that passed."""
        return tuple(outcome for outcome in self.outcomes if outcome.passed)

    @property
    def failed(self) -> tuple[CheckOutcome, ...]:
        """The checks that failed, light ones included."""
        return tuple(outcome for outcome in self.outcomes if not outcome.passed)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The objections in words, for the program's author; empty if the candidate is accepted."""
        return tuple(str(outcome) for outcome in self.outcomes if outcome.objects)

    @property
    def score(self) -> float:
        """The weighted share of the checks and tests that passed: 0 to 1, and 1 without any."""
        weight = sum(outcome.weight for outcome in self.outcomes)
        return sum(outcome.weight * outcome.share for outcome in self.outcomes) / weight if weight else 1.0


async def accept(
    candidate: Candidate,
    checks: Sequence[Check],
    *,
    box: Sandbox,
    seconds: float = TEST_SECONDS,
    mutations: int = MUTANTS,
    seed: int = 0,
) -> Acceptance:
    """Return the verdict of checks on a candidate that ran to its end.

    A function gets the result, whose `value` is the candidate's answer. It returns true, or false or the problem in
    words; it may be async, and an exception is a failed check with its message. Tests run in throwaway workspaces of
    `box`, which runs Python and need not be the candidate's own sandbox, for at most `seconds` each check. Of each text
    check that passes it is tried, with `mutations` small faults, whether it can fail; 0 tries nothing.
    """
    files = [check for check in checks if isinstance(check, FileCheck)]
    problems = iter(await file_problems(files, candidate.result, box) if files else ())
    outcomes = []
    for number, check in enumerate(checks, 1):
        begun = time.perf_counter()
        if isinstance(check, TextCheck):
            outcome = await _text_outcome(check, number, candidate, box, seconds, mutations, seed)
        elif isinstance(check, FileCheck):
            outcome = _outcome(check, f"the file {check.name}", next(problems))
        elif isinstance(check, SchemaCheck):
            outcome = _outcome(check, "the schema of the answer", _schema_problem(check.schema, candidate.answer))
        else:
            outcome = await _function_outcome(check, candidate)
        outcomes.append(dataclasses.replace(outcome, wall_ms=(time.perf_counter() - begun) * 1000))
    return Acceptance(tuple(outcomes), Label(candidate.result.label, *(one.label for one in outcomes)))


def _outcome(check: Check, name: str, problem: str) -> CheckOutcome:
    return CheckOutcome(
        check=check, name=name, passed=not problem, share=float(not problem), message=problem[:_MOST_CHARS]
    )


# Functions of the host, and schemas


def _name_of(check: Callable[..., Any]) -> str:
    name: object = getattr(check, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else "a check of the caller"


async def _function_outcome(check: Callable[..., Any], candidate: Candidate) -> CheckOutcome:
    try:
        return _outcome(check, _name_of(check), await _said_by(check, candidate))
    except NotTried as error:
        return CheckOutcome(check=check, name=_name_of(check), passed=False, weight=0.0, message=str(error))


async def _said_by(check: Callable[..., Any], candidate: Candidate) -> str:
    """Return the problem that a function of the host sees, "" for none."""
    result = dataclasses.replace(candidate.result, value=candidate.answer)
    try:
        said = check(result) if inspect.iscoroutinefunction(check) else await run_in_thread(check, result)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, str):
            return said
        if said is None:
            return "the check returned None; it has to return true, or false or the problem in words"
        return "" if said else "the check returned a value that is not true"
    except (KeyboardInterrupt, NotTried):
        raise
    except BaseException as error:  # also SystemExit, and what pytest.fail raises
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
            raise
        return f"{type(error).__name__}: {error}".rstrip(": ")


def _schema_problem(schema: Mapping[str, Any] | bool, answer: Any) -> str:
    try:
        found = explain(from_json(answer, loose=True), from_json_schema(schema), max_problems=_MOST_PROBLEMS)
    except (SchemaError, RtfsError) as error:
        return f"the answer cannot be checked: {error}"
    return "; ".join(map(str, found))


# Tests


async def _text_outcome(
    check: TextCheck, number: int, candidate: Candidate, box: Sandbox, seconds: float, mutations: int, seed: int
) -> CheckOutcome:
    report = await _report_on(check, candidate, box, seconds)
    whose = {"caller": "tests of the caller", "model": "generated tests", "author": "the program's own tests"}
    outcome = CheckOutcome(
        check=check,
        name=f"{whose[check.written_by]} ({check.kind}, check {number})",
        passed=report.passed,
        weight=WEIGHTS[check.written_by],
        message=report.message[:_MOST_CHARS],
        label=report.label,
        share=report.share,
        written_by=check.written_by,
        tests=report.tests,
    )
    if not report.passed:
        # Generated tests that cannot even be run say nothing of the program.
        is_void = bool(report.problem) and check.written_by != "caller"
        return dataclasses.replace(outcome, weight=0.0) if is_void else outcome
    if not mutations or candidate.program.language != "python":
        return outcome
    can_fail, mutant = await _can_fail(check, candidate, report, box, seconds, mutations, seed)
    weight = 0.0 if can_fail is False else outcome.weight
    return dataclasses.replace(outcome, weight=weight, can_fail=can_fail, mutant=mutant)


def _report_on(check: TextCheck, candidate: Candidate, box: Sandbox, seconds: float) -> Awaitable[TextReport]:
    return run_text_check(
        check,
        candidate.program,
        candidate.result,
        box,
        source=candidate.source,
        answer=candidate.answer,
        seconds=seconds,
    )


async def _can_fail(
    check: TextCheck,
    candidate: Candidate,
    report: TextReport,
    box: Sandbox,
    seconds: float,
    mutations: int,
    seed: int,
) -> tuple[bool | None, str]:
    """Return whether tests that passed can fail, and the fault by which they did.

    Small faults come first. A fault may change nothing that the tests should see; so if they pass with all of these,
    the last one is a program that does nothing. Tests that do not use the program see its output: then the faulty
    program is run, unless it uses tools, whose effects would happen again.
    """
    runs = not report.used_program
    if runs and candidate.result.usage.tool_calls:
        return None, ""
    source = candidate.program.code if runs or candidate.source is None else candidate.source
    named = set(re.findall(r"[A-Za-z_]\w*", check.source))
    faults = list(itertools.islice(mutants(source, seed=seed, first=named), mutations))
    for mutant in faults:
        after = await _report_on(check, await _with_fault(candidate, mutant, runs, box, seconds), box, seconds)
        if not after.passed:
            return True, str(mutant)
    whole = candidate.program.code if candidate.source is None else candidate.source
    idle = hollow(whole)
    if report.used_program and idle == whole:
        return None, ""
    nothing = ExecutionResult(code="", language="python", label=candidate.result.label)
    lazy = dataclasses.replace(candidate, source=idle, result=nothing, answer=None)
    after = await _report_on(check, lazy, box, seconds)
    return not after.passed, "" if after.passed else "a program that does nothing"


async def _with_fault(candidate: Candidate, mutant: Mutant, runs: bool, box: Sandbox, seconds: float) -> Candidate:
    """Return a candidate with a faulty program, which has run if `runs`."""
    if not runs:
        return dataclasses.replace(candidate, source=mutant.source)
    program = dataclasses.replace(candidate.program, code=mutant.source)
    result = await result_of(box.run_alone(program, timeout=seconds), box.traits.engine)
    return dataclasses.replace(candidate, program=program, result=result, answer=result.value)


# The choice among candidates


def choose(candidates: Sequence[Candidate]) -> tuple[int, str]:
    """Return the index of the best candidate, and the reason.

    First come candidates that succeeded and were accepted, then those with the higher score of their tests, then those
    with whose outcome more others agree, then the cheaper ones, then the earlier ones. Two candidates agree if their
    answers and their files are equal, or what they printed if they have neither; numbers need the same nine digits.

    Raises `ValueError` without any candidate.
    """
    if not candidates:
        raise ValueError("choose() takes at least one candidate")
    if len(candidates) == 1:
        return 0, "the only candidate that succeeded"
    outcomes = [_fingerprint(candidate) if candidate.result.success else None for candidate in candidates]
    agreeing = [0 if outcome is None else outcomes.count(outcome) for outcome in outcomes]
    steps: tuple[tuple[str, list[float]], ...] = (
        ("it ran and passed its checks", [float(_is_accepted(each)) for each in candidates]),
        ("it passed more of its tests", [_score(each) for each in candidates]),
        ("{} of {} candidates agree", [float(each) for each in agreeing]),
        ("it cost least", [-each.cost for each in candidates]),
    )
    left, reasons = list(range(len(candidates))), []
    for reason, values in steps:
        best = max(values[index] for index in left)
        better = [index for index in left if values[index] == best]
        if len(better) < len(left):
            reasons.append(reason.format(agreeing[better[0]], len(candidates)))
        left = better
    if len(left) > 1:
        reasons.append("the first of equals")
    return left[0], ", and ".join(reasons)


def _is_accepted(candidate: Candidate) -> bool:
    return candidate.result.success and (candidate.acceptance is None or candidate.acceptance.accepted)


def _score(candidate: Candidate) -> float:
    if not candidate.result.success:
        return 0.0
    return 1.0 if candidate.acceptance is None else round(candidate.acceptance.score, _DIGITS)


def _fingerprint(candidate: Candidate) -> str:
    """Return a digest of an outcome, equal for candidates that agree."""
    files = sorted((each.name, hashlib.sha256(each.data).hexdigest()) for each in candidate.result.artifacts)
    printed = candidate.result.stdout.split() if candidate.answer is None and not files else []
    try:
        answer: Any = _rounded(pack(candidate.answer))
    except (ValueError, TypeError, RecursionError):  # an answer of the host's own, which cannot cross
        answer = repr(candidate.answer)
    document = json.dumps([answer, files, printed], sort_keys=True, default=repr)
    return hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()


def _rounded(form: Any) -> Any:
    if isinstance(form, float) and math.isfinite(form):
        rounded = float(f"{form:.{_DIGITS}g}")
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(form, dict):
        return {key: _rounded(value) for key, value in form.items()}
    return [_rounded(each) for each in form] if isinstance(form, list) else form
