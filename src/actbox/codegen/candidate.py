"""`CandidateLoop`: one candidate's attempts at a task, one after the other, until `Refinement` ends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from actbox.codeact.final_answer import FinalAnswer
from actbox.codeact.loop import Action, Ask, End, Loop, Run
from actbox.codeact.model import ModelReply, has_structured_output
from actbox.codeact.package_instructions import packages_of
from actbox.content.render import cut
from actbox.content.safe_text import spelt_out
from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind
from actbox.core.events import Completed, Event, NetworkRequest
from actbox.core.labels import PUBLIC
from actbox.core.packages import PackagePolicy, normalized_name
from actbox.core.program import Program
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult
from actbox.sandbox.contract import Sandbox, Session
from actbox.sandbox.mapping import failed, result_of
from actbox.tools import Toolset

from .acceptance import Acceptance, Candidate, NotTried, accept
from .conformance import broken_constraints, constraint_error, example_problem, required_checks
from .dependencies import dependencies_of, requirements_txt
from .effects import SAFE_METHODS, AttemptTools
from .input_schemas import FileSchema
from .outcome import Asked, Attempt, AttemptEvent, AttemptFinished, AttemptStarted
from .places import allows
from .programs import layout_of, runnable, task_of_example
from .protocol import response_of
from .refinement import AttemptResult, Refinement
from .request_prompts import first_request, instructions, without_program
from .response import RESPONSE, CodingResponse
from .retry import ErrorClass
from .task import Check, Example, FileCheck, Task, TextCheck
from .toolchains import is_built, launched, result_of_launched
from .work import Answer, PricedModel, Stopped, Work

_MOST_LINE_CHARS: Final = 300
_MOST_KEPT: Final = 20_000
"""The most characters of a reply without a program that stay in the conversation."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A program that has run: what it came to, and the copy of the session in which it ran, if any."""

    program: Program
    result: ExecutionResult
    tools: AttemptTools
    answered: bool
    answer: Any
    session: Session | None = None


class CandidateLoop:
    """The attempts of one candidate. `end` is why they ended, and `found` the program that they came to last."""

    def __init__(
        self,
        work: Work,
        writer: PricedModel,
        number: int,
        *,
        schemas: Sequence[FileSchema],
        checks: Sequence[Check],
        runs: bool,
    ) -> None:
        """Without `runs` the first program is not run."""
        self._work, self._writer, self._number = work, writer, number
        self._checks, self._runs = checks, runs
        self._task = task = work.task
        settings, self._turns = work.settings, work.settings.retry.turns(work.model_calls)
        self._refinement = Refinement(settings.retry, task.language, cleared=work.cleared, prompt=settings.prompt)
        self._request = first_request(task, schemas, cleared=work.cleared)
        self._loop: Loop | None = None
        self._action: Action | None = None
        self._response = CodingResponse()
        self._answer = Answer()
        self.cost = 0.0
        self.found: Candidate | None = None
        self.end: End | None = None
        self.failure: BaseException | None = None
        self.needed: tuple[str, ...] = ()
        """The calls with effects that were held back: the candidate waits until it is chosen."""
        self._is_open = False
        """True from the moment when a program is tried until its attempt is recorded."""
        self._ran: ExecutionResult | None = None
        self._stop: Stopped | None = None
        self._in_examples = 0.0  # seconds of runs, which are charged as such
        self._of_examples = PUBLIC  # the label of these runs
        self.session: Session | None = None
        """The copy of the session in which the program of `found` ran."""

    @property
    def number(self) -> int:
        """The candidate's number, from 1."""
        return self._number

    async def go(self, *, holds_back: bool = False) -> None:
        """Make attempts until they end, or with `holds_back` until a program would have effects."""
        loop = self._loop or await self._begin()
        action = self._action or loop.begin()
        self.needed = ()
        try:
            while not isinstance(action, End):
                self._action = action
                if isinstance(action, Ask):
                    action = await self._ask(loop, action)
                elif (after := await self._try(loop, action, holds_back)) is None:
                    return
                else:
                    action = after
        except Stopped as stop:
            self._record_unfinished(ErrorClass.SANDBOX if stop.stopped == "sandbox" else ErrorClass.RESOURCE_EXHAUSTED)
            self.failure = stop.failure
            action = loop.stop(stop.stopped, stop.reason)
        except asyncio.CancelledError:
            self._record_unfinished(ErrorClass.CANCELLED)
            raise
        self._action = self.end = action

    async def close(self) -> None:
        """Close the copy of the session that the last program ran in."""
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    async def _begin(self) -> Loop:
        work, task = self._work, self._task
        box = await work.places.of(task.language)
        traits = (box or work.places.own).traits
        text = instructions(
            _toolset(work.settings.supervision.tools, FinalAnswer(), box, task.language),
            traits,
            language=task.language,
            guidance=work.settings.guidance,
            by_schema=has_structured_output(self._writer.model),
            packages=None if box is None or task.language not in box.traits.languages else packages_of(box),
        )
        self._loop = Loop(self._request, text, self._turns, language=task.language, after=self._refinement.after)
        return self._loop

    async def _ask(self, loop: Loop, action: Ask) -> Action:
        work, language = self._work, self._task.language
        work.tell(Asked(candidate=self._number, turn=action.turn, usd=work.spent))
        self._answer = answer = await work.ask(self._writer, action.messages, RESPONSE)
        self.cost += answer.cost
        self._response = response = response_of(answer.reply, language)
        if not response.has_program:
            text = without_program(response, language)
            self._record(None, ErrorClass.NO_CODE)
            return loop.on_reply(_bounded(answer.reply, response), [], text=text)
        run = Run(response.source, response.call_id, response.dependencies)
        return loop.on_reply(answer.reply, [run])

    async def _try(self, loop: Loop, action: Run, holds_back: bool) -> Action | None:
        """Run the program of the last reply; `None` if it waits for its effects to be allowed."""
        work, response = self._work, self._response
        self._is_open = True
        if delay := self._refinement.delay_ms:
            await asyncio.sleep(delay / 1000)
        if error := self._why_not(response):
            result = ExecutionResult(exit_code=EXIT_NOT_RUN, error=error, code=action.code, language=response.language)
            return self._observe(loop, AttemptResult(result=result, happened=work.effects.happened_for(self._number)))
        if not self._runs:
            self._record(None, None)
            return loop.stop("returned")
        number = self._refinement.attempts + 1
        work.tell(
            AttemptStarted(
                candidate=self._number,
                number=number,
                code=action.code,
                language=response.language,
                explanation=response.explanation,
            )
        )
        await self.close()
        ran = await self._run(response, holds_back=holds_back)
        self.session, self._ran = ran.session, ran.result
        if ran.tools.needed:
            self.needed = ran.tools.needed
            self._record(ran.result, None, held_back=self.needed)
            return None
        return await self._judge(loop, ran)

    async def _judge(self, loop: Loop, ran: _Run) -> Action:
        """Check the outcome of a program that has run, and return the next action."""
        work, response = self._work, self._response
        answer = ran.answer if ran.answered else ran.result.value
        source = layout_of(response).source
        self.found = Candidate(ran.program, ran.result, answer, source=source, cost=self.cost or self._tokens())
        acceptance = await self._check(self.found) if ran.result.success else None
        self.found = replace(self.found, acceptance=acceptance)
        # Messages of checks show data that the checks have read, so their label bounds who may read the result.
        label = ran.result.label if acceptance is None else acceptance.label
        work.label |= label
        attempt = AttemptResult(
            result=ran.result if label == ran.result.label else replace(ran.result, label=label),
            failed_checks=() if acceptance is None else acceptance.sentences,
            happened=work.effects.happened_for(self._number),
        )
        return self._observe(loop, attempt, acceptance, answered=ran.answered, answer=ran.answer)

    def _why_not(self, response: CodingResponse) -> ErrorInfo | None:
        """Return why a program is not run at all, `None` if it may be."""
        if refused := _refused(response, self._work.settings.packages):
            hint = "do without it, or use another package"
            return ErrorInfo(kind=ErrorKind.POLICY, type="PackageBlocked", message=" ".join(refused), hint=hint)
        problems = (*broken_constraints(response, self._task), *runnable(response, self._task).problems)
        return constraint_error(problems) if problems else None

    def _observe(
        self,
        loop: Loop,
        attempt: AttemptResult,
        checks: Acceptance | None = None,
        *,
        answered: bool = False,
        answer: Any = None,
    ) -> Action:
        self._record(attempt.result, attempt.error_class, checks)
        return loop.on_observation("", answered=answered, answer=answer, outcome=attempt)

    def _record(
        self,
        result: ExecutionResult | None,
        error_class: ErrorClass | None,
        checks: Acceptance | None = None,
        held_back: tuple[str, ...] = (),
    ) -> None:
        """Record an attempt that has ended. The cost and the tokens of a reply are those of its first attempt."""
        answer, self._answer = self._answer, Answer()
        attempt = Attempt(
            number=self._refinement.attempts + 1,
            candidate=self._number,
            model=self._writer.model.name,
            response=self._response,
            result=result,
            error_class=error_class,
            checks=checks,
            tokens=answer.reply.usage,
            cost=answer.cost,
            model_ms=answer.wall_ms,
            held_back=held_back,
        )
        self._is_open, self._ran = False, None
        self._work.notes.update(dict.fromkeys(self._response.noted))
        self._work.attempts.append(attempt)
        self._work.tell(AttemptFinished(attempt=attempt, usd=self._work.spent))

    def _record_unfinished(self, error_class: ErrorClass) -> None:
        """Record the attempt that is cut off, if there is one, with what it has come to."""
        if self._is_open:
            self._record(self._ran, error_class)

    def _tokens(self) -> float:
        """Return the tokens of this candidate, to compare candidates of a model without a price."""
        own = (one.tokens.total for one in self._work.attempts if one.candidate == self._number)
        return float(sum(own) + self._answer.reply.usage.total)

    # Runs

    async def _run(self, response: CodingResponse, *, holds_back: bool, task: Task | None = None) -> _Run:
        """Run the program of a response on the inputs of a task. A run for a check is not told of."""
        work, is_check = self._work, task is not None
        tools = work.effects.attempt(holds_back=holds_back)
        box = await work.places.of(response.language)
        final = FinalAnswer(cleared="secret" if box is not None and box.traits.labels else None)
        if box is None:
            about = ActboxError(f"no engine here runs {response.language}")
            program = Program(response.source, response.language)
            return _Run(program, failed(about, ErrorKind.UNSUPPORTED, ""), tools, False, None)
        engine = box.traits.engine
        session: Session | None = None
        made = runnable(response, task or self._task, label=bool(box.traits.labels))
        packages = _requirements(response) if packages_of(box) is not None else ()
        builds = is_built(response.language, box)
        program = launched(response, made) if builds else replace(made.program, dependencies=packages)
        try:
            if work.session is not None and box is work.places.own:
                session = await work.session.fork()
            place: Sandbox | Session = session or (await work.places.holding_back(box) if holds_back else box)
            hold = partial(_hold_back, tools, box) if holds_back and session is None else None
            toolset = _toolset(tools.tools, final, box, response.language)
            runs = partial(self._supervise, response, program, place, toolset, engine, is_check, hold)
            result = await work.charge_run(lambda seconds: result_of(runs(seconds), engine))
            result = result_of_launched(result, response) if builds else result
        except ActboxError as error:  # `SandboxStopped` too, or a session that cannot be copied
            result = failed(error, ErrorKind.SANDBOX, engine)
        except BaseException:
            if session is not None:
                await session.close()
            raise
        if session is not None and (is_check or not session.alive):
            await session.close()
            session = None
        if not box.traits.labels:  # nobody follows what the program has read
            result = replace(result, label=result.label | (task or self._task).joined_label)
        answered, result = final.given and result.success, final.warn(result, response.source)
        return _Run(made.program if builds else program, result, tools, answered, final.value, session)

    async def _supervise(
        self,
        response: CodingResponse,
        program: Program,
        place: Sandbox | Session,
        toolset: Toolset,
        engine: str,
        is_check: bool,
        hold: Callable[[Event], object] | None,
        seconds: float | None,
    ) -> ExecutionResult:
        """Return the result of a supervised run, of which `hold` sees each event if it may have no effects."""

        def begin(tools: Toolset) -> AsyncIterator[Event]:
            if isinstance(place, Session):
                return place.stream(program, tools=tools, timeout=seconds)
            return place.stream_alone(program, tools=tools, timeout=seconds)

        work, number = self._work, self._refinement.attempts + 1
        stream = work.settings.supervision.stream(
            response.source, toolset, begin, engine=engine, language=response.language, sources=response.sources
        )

        def see(event: Event) -> None:
            work.effects.feed(event, self._number)
            if hold is not None:
                hold(event)
            if not is_check and not isinstance(event, Completed):
                work.tell(AttemptEvent(candidate=self._number, number=number, event=event))

        return await work.endings.result(stream, see, waits=isinstance(place, Session))

    # Checks

    async def _check(self, candidate: Candidate) -> Acceptance | None:
        """Return the verdict of all checks on a program that ran to its end, `None` without any check."""
        work, response = self._work, self._response
        checks = list(self._checks)
        checks += [
            self._example_check(response, number, example)
            for number, example in enumerate(self._task.examples, 1)
            if not example.is_placeholder
        ]
        if response.tests.strip() and response.language == "python" and work.session is None:
            if await work.settings.supervision.allows_tests(response.tests):
                checks.append(TextCheck(response.tests, "pytest", "author"))
            else:
                work.notes["the program's own tests were not run, since nobody has approved them"] = None
        if not checks:
            return None
        needs_python = any(isinstance(check, TextCheck | FileCheck) for check in checks)
        self._in_examples, self._of_examples = 0.0, PUBLIC
        begun, left = time.perf_counter(), work.account.left_of("wall_seconds")
        limit = asyncio.timeout(left)
        try:
            box = await work.places.for_checks() if needs_python else work.places.own
            async with limit:
                acceptance = await accept(candidate, checks, box=box, mutations=work.settings.mutations)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Stopped("budget", f"the checks took all wall time that was left, {left:g} s", error) from None
        except ActboxError as error:
            raise Stopped("sandbox", f"the checks could not be made: {error}", error) from None
        finally:
            work.charge_wall(time.perf_counter() - begun - self._in_examples)
        if self._stop is not None:
            raise self._stop
        return replace(acceptance, label=acceptance.label | self._of_examples)

    def _example_check(self, response: CodingResponse, number: int, example: Example) -> Check:
        async def check(result: ExecutionResult) -> bool | str:
            begun = time.perf_counter()
            try:
                ran = await self._run(response, holds_back=True, task=task_of_example(self._task, example))
            except Stopped as stop:  # `accept` takes it for a check that fails
                self._stop = stop
                raise
            finally:
                self._in_examples += time.perf_counter() - begun
            self._of_examples |= ran.result.label
            if ran.tools.needed:
                self._work.notes[f"example {number} was not tried, since the program would have effects for it"] = None
                raise NotTried("it was not tried, since the program would have effects for it")
            return example_problem(example, ran.result, ran.answer if ran.answered else None) or True

        check.__name__ = f"example {number}"
        return check


def checks_of(task: Task, tests: str = "") -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return the checks of a task with those of its requirements, and sentences on what could not become a check.

    `tests` are those that a model wrote without seeing a program.
    """
    required, left = required_checks(task)
    written = (TextCheck(tests, "pytest", "model"),) if tests.strip() else ()
    notes = (f"nothing checks this requirement: {text}" for text in left)
    return (*task.checks, *(one for one in required if one not in task.checks), *written), tuple(notes)


def _toolset(tools: Toolset, final: FinalAnswer, box: Sandbox | None, language: str) -> Toolset:
    """Return the tools of a run, with `final_answer`; none on an engine that takes none, or for what it builds."""
    if box is None or not box.traits.tools or language not in box.traits.languages:
        return Toolset.of(None)
    return tools.with_tools(final.tool)


def _hold_back(tools: AttemptTools, box: Sandbox, event: Event) -> None:
    """Take a request for held back that was refused only because its program has not been chosen."""
    if not isinstance(event, NetworkRequest) or event.decision != "refused" or event.method in SAFE_METHODS:
        return
    if allows(box, event):
        tools.hold_back(spelt_out(f"{event.method} {event.host}:{event.port}{event.path}"[:_MOST_LINE_CHARS]))


def _requirements(response: CodingResponse) -> tuple[str, ...]:
    """Return the requirements of a program: the packages that it names, and those that it imports."""
    if response.language in ("javascript", "typescript"):
        named = {one.partition("@")[0] or one for one in response.dependencies}
        return (*response.dependencies, *(one for one in dependencies_of(response) if one not in named))
    return tuple(requirements_txt(response).splitlines())


def _refused(response: CodingResponse, packages: PackagePolicy | None) -> tuple[str, ...]:
    """Return a sentence on each package of a program that the agent's own rules block."""
    if packages is None:
        return ()
    rules = packages.nodejs if response.language in ("javascript", "typescript") else packages.python
    blocked = {normalized_name(rule.name): rule.reason for rule in rules.blocked}
    found = [name for name in dependencies_of(response) if normalized_name(name) in blocked]
    reasons = {name: blocked[normalized_name(name)] for name in found}
    return tuple(f"The package {name} is blocked{f': {why}' if why else ''}." for name, why in reasons.items())


def _bounded(reply: ModelReply, response: CodingResponse) -> ModelReply:
    """Return a reply without a program as it stays in the conversation."""
    is_long = response.form == "too_long"
    calls = tuple(
        replace(call, arguments={} if is_long or isinstance(call.arguments, str) else call.arguments)
        for call in reply.tool_calls
    )
    return replace(reply, text=cut(reply.text, _MOST_KEPT), tool_calls=calls)
