"""`CodingAgent`: an agent that has a model write a program for a task, and correct it until it passes its checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from actbox.capabilities.budgets import Account, Budget
from actbox.capabilities.prices import Prices, TokenPrice
from actbox.codeact.approvals import ApprovalStyle
from actbox.codeact.approvers import Callback
from actbox.codeact.model import ChatModel, SystemMessage, UserMessage
from actbox.codeact.named_model import ConnectedModel, named_model
from actbox.codeact.supervision import Supervision
from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.core.packages import PackagePolicy
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox, Session
from actbox.tools import Approval, Approver, Tool, Toolset

from .acceptance import MUTANTS
from .candidate import CandidateLoop, checks_of
from .candidates import best_of
from .decision import AskedIntent, Decision, DecisionTable, Intent, Way, ask_intent, decide
from .input_schemas import SECONDS, FileSchema, describe_inputs
from .outcome import CodingEvent, Finished, Outcome, Planned
from .places import Places
from .profiles import Profiles
from .programs import with_input_of_example
from .prompts import Prompt, refinement_prompt
from .protocol import response_of
from .request_prompts import request_for_tests
from .retry import RetryPolicy
from .task import ANY_LANGUAGE, Task
from .work import PricedModel, Settings, Stopped, Work

if TYPE_CHECKING:
    from actbox.review import Rules

_LEAST_SECONDS: Final = 0.01

MODEL_SECONDS: Final = 300.0
"""The seconds that one answer of a model may take."""


class CodingAgent:
    """Solves tasks by having a model write programs, which run in a sandbox until one passes its checks.

    `model` is a `ChatModel`, the name of one as `CodeAgent` takes it, or `Profiles`, of which the one for the task's
    `profile` or language writes. With a model and `profiles` the model plans: it fills in the intent of each task
    first, and by `table` (a `DecisionTable`) writes short programs itself, and delegates others to the profile. The
    intent is also asked for if a task leaves its language open (`auto`); then a pure computation is written as RTFS.

    `box` is running, and still belongs to the caller. Programs in other languages run in `sandboxes`, by language, else
    for JavaScript, TypeScript and RTFS in an engine that is opened when it is needed. For C, C++, Rust, Go and Java
    name a sandbox that runs Python and has the compiler. Programs in a language without a sandbox are returned unrun.
    Tests run in `checks_in`, by default in `box`, or in one like it without its domains.

    `retry` says how many programs are tried. `tools` are the functions that programs may call: a call with effects is
    made once, whatever number of programs repeat it, unless the tool is `retry_safe`. `packages` are rules of the
    agent's own, whose blocked packages no program may need; those of the sandbox's policy say what is installed.

    `budget` is for all tasks together, unless it is an `Account`, which others may share. It holds back the next call
    of a model and the next run, and each call of a tool; one that is under way is not cut off, except by its wall time.
    A limit of `usd` needs the price of the model: in its profile, or in `prices` by the model's name. Models that cost
    nothing have the price 0.

    `write_tests` has the model write tests before any program, without seeing one; they count for less than the
    caller's checks. With a session none are written, since tests do not have its variables. `prompt` makes the prompts
    about failed attempts (`plain_prompt` is the specification's own). `guidance`, `approval`, `approval_style`,
    `approver` and `review` are as in `CodeAgent`. `timeout` is in seconds for each run, and `model_seconds` for each
    answer of a model. `mutations` is how many small faults are tried on a program to see if tests of it can fail.

    Of results above the label that the sandbox's policy clears for models the model reads a sentence. Answers, files
    and attempts of the outcome are whole.
    """

    def __init__(
        self,
        model: ChatModel | Profiles | str,
        box: Sandbox,
        *,
        profiles: Profiles | None = None,
        base_url: str | None = None,
        retry: RetryPolicy | None = None,
        tools: Toolset | Iterable[Tool | Callable[..., Any]] | None = None,
        packages: PackagePolicy | None = None,
        budget: Budget | Account | None = None,
        prices: Prices | None = None,
        table: DecisionTable | None = None,
        sandboxes: Mapping[str, Sandbox] | None = None,
        checks_in: Sandbox | None = None,
        write_tests: bool = False,
        mutations: int = MUTANTS,
        prompt: Prompt = refinement_prompt,
        guidance: str = "",
        timeout: float | None = None,
        model_seconds: float = MODEL_SECONDS,
        approval: Approval = "never_require",
        approval_style: ApprovalStyle = "bundled",
        approver: Approver | Callback | None = None,
        review: Rules | None = None,
    ) -> None:
        """Raises `InvalidValue`, also if approval could be required and there is no approver, and `ActboxError` if a
        model given by name lacks a package or a key.
        """
        given: object = box
        if not isinstance(given, Sandbox):
            kind = type(given).__name__
            raise InvalidValue(f"an agent's programs run in a sandbox, such as open_sandbox() makes, not in a {kind}")
        for name, value, kinds in (
            ("retry", retry, (RetryPolicy,)),
            ("packages", packages, (PackagePolicy,)),
            ("budget", budget, (Budget, Account)),
            ("profiles", profiles, (Profiles,)),
        ):
            if value is not None and not isinstance(value, kinds):
                raise InvalidValue(f"{name} is of the type {kinds[0].__name__}, not {type(value).__name__}")
        if not isinstance(model, Profiles | str) and not callable(getattr(model, "complete", None)):
            raise InvalidValue(f"a model is a name such as 'openai:gpt-5', Profiles or a chat model, not {model!r:.80}")
        self._profiles = profiles
        self._model: ChatModel | None = None
        self._connected: ConnectedModel | None = None
        if isinstance(model, Profiles):
            if profiles is not None:
                raise InvalidValue("give Profiles as the model, or as profiles=… beside a model that plans, not twice")
            self._profiles = model
        elif isinstance(model, str):
            self._model = self._connected = named_model(model, base_url=base_url)
        else:
            self._model = model
        if base_url is not None and self._connected is None:
            raise InvalidValue("base_url is for a model given by name; others have an address of their own")
        self._box = box
        self._sandboxes = dict(sandboxes or {})
        self._checks_in = checks_in
        self._table = table
        self._prices = prices or Prices()
        for name, seconds in (("timeout", timeout), ("model_seconds", model_seconds)):
            if seconds is not None and not seconds > 0:
                raise InvalidValue(f"{name} is a number of seconds above zero, not {seconds!r}")
        self._account = budget if isinstance(budget, Account) else Account(budget or Budget())
        self._settings = Settings(
            retry=retry or RetryPolicy(),
            supervision=Supervision.of(
                tools, review=review, approval=approval, style=approval_style, approver=approver
            ),
            packages=packages,
            prompt=prompt,
            guidance=guidance,
            timeout=timeout,
            model_seconds=model_seconds,
            write_tests=write_tests,
            mutations=mutations,
        )

    @property
    def account(self) -> Account:
        """The account of the budget: what all tasks have used, and what is left."""
        return self._account

    @property
    def _clearance(self) -> Label | None:
        policy = getattr(self._box, "policy", None)
        return policy.model_clearance if isinstance(policy, Policy) else None

    async def solve(
        self,
        task: Task | str,
        *,
        session: Session | None = None,
        budget: Budget | Account | None = None,
        cancel: asyncio.Event | None = None,
    ) -> Outcome:
        """Return the outcome of a task. A program that fails, and a model that fails, raise nothing.

        With `session`, which has to be forkable, each attempt starts from a copy of it, and the outcome of a solved
        task has the copy that its program ran in. `cancel` ends the task from outside when it is set; the outcome has
        what there is then. If the task that awaits this is cancelled, everything ends, and nothing is returned. A
        `Budget` bounds this task besides the agent's own budget; an `Account` is charged instead of the agent's.

        Raises `InvalidValue`, and `ActboxError` for a profile that lacks a package or a key.
        """
        return await last_outcome(self.stream(task, session=session, budget=budget, cancel=cancel))

    async def write(
        self, task: Task | str, *, budget: Budget | Account | None = None, cancel: asyncio.Event | None = None
    ) -> Outcome:
        """Return the outcome of writing a program that is not run: it is that of the last attempt.

        Only the task's language and constraints are checked. `stopped` is `returned` if there is such a program.
        """
        return await last_outcome(self.stream(task, budget=budget, cancel=cancel, runs=False))

    async def stream(
        self,
        task: Task | str,
        *,
        session: Session | None = None,
        budget: Budget | Account | None = None,
        cancel: asyncio.Event | None = None,
        runs: bool = True,
        max_attempts: int | None = None,
        cleared: Label | None = None,
    ) -> AsyncGenerator[CodingEvent]:
        """Yield events as they happen; the last one is `Finished`. Closing the generator ends the running programs.

        Without `runs` no program is run, as in `write`. `max_attempts` may only lower that of the agent's `retry`, and
        `cleared`, the highest label that a model may read, only that of the sandbox's policy.
        """
        events: asyncio.Queue[CodingEvent | None] = asyncio.Queue()
        asked = Task(task) if isinstance(task, str) else task
        account = budget if isinstance(budget, Account) else Account(budget or Budget(), self._account)
        retry = self._settings.retry
        if max_attempts is not None:
            retry = replace(retry, max_attempts=min(max_attempts, retry.max_attempts))
        settings = replace(self._settings, retry=retry)
        solving = self._solve(asked, settings, events.put_nowait, session, account, cancel, runs, cleared)
        work = asyncio.create_task(solving)
        work.add_done_callback(lambda _: events.put_nowait(None))
        is_given = False
        try:
            while (event := await events.get()) is not None:
                yield event
            finished = Finished(outcome=await work)
            is_given = True
            yield finished
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait([work])
            if not is_given and not work.cancelled() and work.exception() is None:
                await _close(work.result().session)

    async def _solve(
        self,
        task: Task,
        settings: Settings,
        tell: Callable[[CodingEvent], None],
        session: Session | None,
        account: Account,
        cancel: asyncio.Event | None,
        runs: bool,
        cleared: Label | None,
    ) -> Outcome:
        cleared = _lower(self._clearance, cleared)
        task.check_cleared(cleared)
        task = with_input_of_example(task) if runs else task
        async with AsyncExitStack() as stack:
            places = Places(self._box, self._sandboxes, self._checks_in, stack)
            work = Work(task, settings, places, account, tell, session, cleared)
            solving = await stack.enter_async_context(_Solving(work, self._table, runs))
            if self._connected is not None:
                await stack.enter_async_context(self._connected)
            planner = None if self._model is None else self._priced(self._model, account)
            if cancel is not None and cancel.is_set():
                return solving.outcome("cancelled", "it was cancelled")
            doing = asyncio.create_task(self._work_on(solving, planner, stack))
            stopping = [] if cancel is None else [asyncio.create_task(cancel.wait())]
            try:
                await asyncio.wait([doing, *stopping], return_when=asyncio.FIRST_COMPLETED)
                if not doing.done():
                    doing.cancel()
                    await asyncio.wait([doing])
                    if doing.cancelled():
                        return solving.outcome("cancelled", "it was cancelled")
                return await doing
            finally:
                for one in (doing, *stopping):
                    one.cancel()
                await asyncio.wait([doing, *stopping])

    async def _work_on(self, solving: _Solving, planner: PricedModel | None, stack: AsyncExitStack) -> Outcome:
        try:
            decision = await solving.decision(planner, self._profiles is not None)
            delegates = self._profiles is not None and (planner is None or decision.way in ("delegated", "returned"))
            if delegates or solving.work.task.profile or planner is None:
                planner = await self._delegate(solving.work, decision.language, stack)
            return await solving.solve(planner, decision)
        except Stopped as stop:
            return solving.outcome(stop.stopped, stop.reason, stop.failure)

    async def _delegate(self, work: Work, language: str, stack: AsyncExitStack) -> PricedModel:
        named = work.task.profile
        if self._profiles is None:
            raise InvalidValue(f"the task names the profile {named!r}, and the agent has no profiles")
        profile = self._profiles.select(named or None, language)
        return self._priced(await stack.enter_async_context(profile.connect()), work.account, profile.price)

    def _priced(self, model: ChatModel, account: Account, price: TokenPrice | None = None) -> PricedModel:
        """Return a model with its price. Raises `InvalidValue` if nobody knows it, and the budget is in US dollars."""
        name = model.name
        price = price or self._prices.models.get(name)
        if price is None and account.left_of("usd") is not None:
            raise InvalidValue(
                f"the budget is in US dollars, and nobody knows the price of {name!r}: give"
                f" prices=Prices(models={{{name!r}: TokenPrice(input=…, output=…)}}), or a profile with its prices"
            )
        return PricedModel(model, price)


async def _close(session: Session | None) -> None:
    if session is not None:
        await session.close()


def _lower(one: Label | None, other: Label | None) -> Label | None:
    """Return the lower of two clearances; `public` if neither is below the other."""
    if one is None or other is None:
        return other if one is None else one
    return one if one <= other else other if other <= one else PUBLIC


async def last_outcome(
    events: AsyncGenerator[CodingEvent], see: Callable[[CodingEvent], object] = lambda event: None
) -> Outcome:
    """Return the outcome at the end of a coding agent's events, each of which `see` is given."""
    async with aclosing(events):
        async for event in events:
            see(event)
            if isinstance(event, Finished):
                return event.outcome
    raise AssertionError("a coding agent's stream ended without Finished")


class _Solving:
    """The steps of one task."""

    def __init__(self, work: Work, table: DecisionTable | None, runs: bool) -> None:
        self.work = work
        self._table = table
        self._runs = runs
        self._decision: Decision | None = None
        self._intent: Intent | None = None
        self._loops: list[CandidateLoop] = []
        self._given: CandidateLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *about: object) -> None:
        """Close the candidates' sessions, except that of the outcome if there is nothing raised in its place.

        All runs have ended then.
        """
        for loop in self._loops:
            if kind is not None or loop is not self._given:
                await loop.close()
        await self.work.endings.wait()

    async def decision(self, planner: PricedModel | None, has_profiles: bool) -> Decision:
        """Return who writes the program and in which language, after the intent was asked for if that is open."""
        work = self.work
        task, is_open = work.task, work.task.language == ANY_LANGUAGE
        runs = await work.places.languages("" if is_open else task.language)
        said: Intent | None = None
        if planner is not None and work.may_plan and (is_open or (has_profiles and not task.profile)):
            said = self._intent = (await self._ask_intent(planner)).intent
        intent = said or Intent(goal=task.goal, language="" if is_open else task.language)
        decision = decide(intent, table=self._table, runs=runs, has_coding_agent=has_profiles)
        if said is None and decision.way in ("direct", "delegated"):
            way: Way = "delegated" if planner is None else "direct"
            decision = replace(decision, way=way, reasons=("the model was not asked for an intent",))
        self._decision = decision
        if is_open or decision.language != task.language:
            work.task = replace(task, language=decision.language)
        work.tell(Planned(decision=decision, intent=said))
        return decision

    async def _ask_intent(self, planner: PricedModel) -> AskedIntent:
        task = self.work.task

        async def ask(model: ChatModel) -> AskedIntent:
            return await ask_intent(
                model,
                task.goal,
                language=task.language,
                inputs=tuple(task.inputs),
                outputs=tuple(task.outputs),
                context=task.context,
            )

        found, _, _ = await self.work.call_model(planner, ask, lambda asked: asked.reply)
        if found.noted:
            self.work.notes[found.noted] = None
        return found

    async def solve(self, writer: PricedModel, decision: Decision) -> Outcome:
        """Return the outcome of the attempts of all candidates."""
        work, runs = self.work, self._runs and decision.way != "returned"
        task = work.task
        schemas = await self._look_at_inputs() if runs else ()
        tests = await self._write_tests(writer, schemas) if work.settings.write_tests and runs else ""
        checks, notes = checks_of(task, tests)
        work.notes.update(dict.fromkeys(notes))
        self._loops = [
            CandidateLoop(work, writer, number, schemas=schemas, checks=checks, runs=runs)
            for number in range(1, (task.best_of if runs else 1) + 1)
        ]
        if len(self._loops) == 1:
            chosen = self._loops[0]
            await chosen.go()
        else:
            if beyond := work.places.cannot_hold_back(in_session=work.session is not None):
                work.notes[f"candidates that were not chosen may have changed something by {beyond}"] = None
            chosen = await best_of(self._loops, work)
        assert chosen.end is not None
        reason = chosen.end.reason or ("" if runs else decision.reason)
        return self.outcome(chosen.end.stopped, reason, chosen.failure, chosen, chosen.end.answer)

    async def _look_at_inputs(self) -> tuple[FileSchema, ...]:
        work = self.work
        if not work.task.files:
            return await describe_inputs(work.places.own, work.task)
        begun, left = time.perf_counter(), work.account.left_of("wall_seconds")
        seconds = SECONDS if left is None else min(SECONDS, max(left, _LEAST_SECONDS))
        try:
            box = await work.places.of("python") or work.places.own
            return await describe_inputs(box, work.task, timeout=seconds)
        except ActboxError as error:
            raise Stopped("sandbox", f"the inputs could not be looked at: {error}", error) from None
        finally:
            work.charge_wall(time.perf_counter() - begun)

    async def _write_tests(self, writer: PricedModel, schemas: tuple[FileSchema, ...]) -> str:
        """Return tests that the model writes without seeing a program, "" if it writes none or may not be asked."""
        work = self.work
        if not work.may_plan or work.session is not None:
            why = "the model may be asked no more" if not work.may_plan else "tests do not have the session's variables"
            work.notes[f"no tests were written, since {why}"] = None
            return ""
        text = request_for_tests(work.task, schemas, cleared=work.cleared)
        answer = await work.ask(writer, [SystemMessage(text), UserMessage(work.task.goal)])
        found = response_of(answer.reply, "python")
        if not found.has_program:
            work.notes["the model wrote no tests"] = None
        tests = found.tests or found.code
        if tests.strip() and not await work.settings.supervision.allows_tests(tests):
            work.notes["the tests that the model wrote are not run, since nobody has approved them"] = None
            return ""
        return tests

    def outcome(
        self,
        stopped: str,
        reason: str = "",
        failure: BaseException | None = None,
        chosen: CandidateLoop | None = None,
        answer: Any = None,
    ) -> Outcome:
        """Return the outcome with all that there is so far."""
        work, solved = self.work, stopped == "solved"
        found = None if chosen is None else chosen.found
        self._given = chosen if solved else None
        return Outcome(
            solved=solved,
            stopped=stopped,
            reason=reason,
            answer=answer,
            artifacts=found.result.artifacts if solved and found is not None else (),
            attempts=tuple(work.attempts),
            candidate=1 if chosen is None else chosen.number,
            usage=work.usage(),
            decision=self._decision,
            intent=self._intent,
            notes=tuple(work.notes),
            label=work.label,
            happened=work.effects.happened,
            failure=failure,
            session=None if self._given is None else self._given.session,
        )
