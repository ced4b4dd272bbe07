"""`CodeActRunner`: runs the program that a model sent and returns its outcome, or a question that a framework must
answer first.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from actbox.core.call_log import CallLog
from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, FileError, InvalidValue
from actbox.core.events import Completed, Event
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult
from actbox.sandbox.contract import Sandbox, closing
from actbox.sandbox.paths import NO_FOLDER
from actbox.tools import ApprovalDecision, ApprovalRequest, Toolset
from actbox.tools.threads import ThreadPool

from .approvals import Approvals, RunApproval, refused
from .approvers import checked_timeout
from .arguments import NoProgram, Sent, sent_program
from .environments import MOST_ENVIRONMENTS, Environment, Environments
from .frozen import FrozenRun
from .outcome import CodeActOutcome, could_not_run, not_run, run_gone
from .paused_run import PausableRun, PausingApprover, Waiting
from .pending_questions import TIMEOUT_SECONDS
from .program_events import OnEvent, ProgramEvent, checked_on_event, notify
from .review_decision import advice_on, blocked
from .turns import Paused

MOST_WAITING: Final = 100
"""The most requests that wait for a framework's answer; beyond it the oldest is dropped."""

CHECKS_AT_ONCE: Final = 2
"""The most type checkers that run at once, for one runner in one event loop: each takes a processor and much memory."""
MOST_PRINTED: Final = 4
"""The number of files per conversation that keep the whole of cut texts: the latest."""
READ_AT_ONCE: Final = 2
"""The most programs that are searched for tool names at once, over all agents; further ones wait."""

# Reading a large program takes seconds, which the event loop must not spend.
_readers = ThreadPool(limit=READ_AT_ONCE)

_PRINTED = re.compile(r"printed-[0-9a-f]{8}\.txt")

Key = tuple[str, str]
"""A scope and a call id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeded:
    """The result of `execute` when somebody must decide before the call can go on; pass the decision to
    `CodeActRunner.answer`.

    `request` is about the whole program, before it has begun, or about one call of it, which waits. `named` are the
    tools that the program calls by names found in its source. The decision counts only for the program that was shown.
    """

    request: ApprovalRequest
    scope: str
    call_id: str
    code_hash: str
    named: tuple[str, ...] = ()


class CodeActRunner:
    """Runs the programs of one provider, several at once.

    `open_sandbox` makes a sandbox for a policy. `scope` names the owner of the files: calls of one scope share their
    sandbox's files, and no other scope sees them. A run without a file surface has a temporary directory of its own.

    If a framework must decide a request and call again with the answer, `execute` returns `ApprovalNeeded`, and the
    request waits under its scope and call id for `approval_timeout` seconds. After that a call of a program is refused,
    and a program that has not begun never does. So calls that may ask need unique call ids: while one waits, another
    with the same scope and call id that would ask does not run, and its outcome says so. The bundled style asks nobody
    here, except about packages: `FrozenRun.approval` says that a run requires approval, and the caller of `execute`
    must have obtained it.

    `on_event` is called with the events of each program while it runs (`program_events.py`).

    Methods raise only cancellation: failures are outcomes. Cancelling `execute` ends the program.
    """

    def __init__(
        self,
        open_sandbox: Callable[[Policy], Sandbox],
        *,
        most_environments: int = MOST_ENVIRONMENTS,
        most_waiting: int = MOST_WAITING,
        approval_timeout: float | None = TIMEOUT_SECONDS,
        on_event: OnEvent | None = None,
    ) -> None:
        self._environments = Environments(open_sandbox, most=most_environments)
        self._on_event = checked_on_event(on_event)
        self._approval_timeout = checked_timeout(approval_timeout)
        self._approvals: Approvals[Key, Waiting] = Approvals(most=most_waiting, timeout=self._approval_timeout)
        self._checks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def execute(
        self, run: FrozenRun, arguments: Any, *, scope: str = "", call_id: str = "", lasting: bool = True
    ) -> CodeActOutcome | ApprovalNeeded:
        """Run the program that a model sent, or return the request that has to be approved first.

        `arguments` are as the model sent them: an object with `code`, JSON text, or something else, for which the
        outcome says how to send a program. A scope that is not `lasting` will soon be unused without notice: its files
        never displace those of lasting scopes, see `leave`.
        """
        return await self._execute(run, arguments, scope, call_id, lasting)

    async def _execute(
        self, run: FrozenRun, arguments: Any, scope: str, call_id: str, lasting: bool, *, approved: bool = False
    ) -> CodeActOutcome | ApprovalNeeded:
        """Run the program or ask, as `execute` does; `approved` is True if somebody has already approved this very
        program.
        """
        try:
            sent = _sent(run, arguments)
        except NoProgram as error:
            return _outcome(run, not_run(ErrorKind.SYNTAX, str(error), type="InvalidArguments"), "")
        program = sent.code
        if self._approvals.is_stopped:
            return _outcome(run, not_run(ErrorKind.CANCELLED, _CLOSED), program)
        wrong = None if run.settings.static_check is None else await self._check(run, program)
        if wrong is not None:
            return _outcome(run, ExecutionResult(exit_code=EXIT_NOT_RUN, error=wrong), program)
        plan = await _plan(run, program)
        if plan.too_long:
            return _outcome(run, not_run(ErrorKind.POLICY, plan.too_long, hint=_LONG_HINT, type="TooLong"), program)
        if plan.blocked is not None:
            return _outcome(run, replace(blocked(plan.blocked, ""), warnings=plan.warnings), program)
        waiting = Waiting(run=run, sent=sent, shown=_hash(sent), named=plan.named, paused=None, lasting=lasting)
        if plan.required and not approved:
            if self._ask((scope, call_id), waiting):
                return _needed(_with_packages(plan.request(program), sent), waiting, scope, call_id)
        elif not (self._approvals.is_taken((scope, call_id), time.monotonic()) and plan.will_ask):
            return await self._begin(waiting, plan, scope, call_id)
        return _outcome(run, not_run(ErrorKind.CANCELLED, _TAKEN, hint=_TAKEN_HINT, type="Busy"), program)

    async def answer(
        self,
        run: FrozenRun,
        arguments: Any,
        *,
        scope: str = "",
        call_id: str = "",
        decision: ApprovalDecision,
        begun: bool | None = None,
        lasting: bool = True,
        edited: bool = False,
    ) -> CodeActOutcome | ApprovalNeeded:
        """Continue a call that waits for a decision; the program runs with the configuration that it had when the
        question was asked.

        If the program differs from the one that was shown, the decision does not count, and a new approval is
        requested; unless it was `edited`: the approver changed the program before it began, and approved that.

        If nothing waits any more, a program that had begun is never run again: the outcome says so, with the calls that
        it had made, as far as they are known. `begun` is the caller's knowledge of that, from the request: one about a
        call (`request.what`) belongs to a program that had begun. The runner's own knowledge takes precedence. If
        neither knows, a program that may have asked about a call counts as begun. For one that had not, a new approval
        is requested.
        """
        try:
            sent = _sent(run, arguments)
        except NoProgram:
            return await self.execute(run, arguments, scope=scope, call_id=call_id, lasting=lasting)
        program, key = sent.code, (scope, call_id)
        step, waiting = self._approvals.answer(
            key, _hash(sent), approved=decision.approved, edited=edited, now=time.monotonic()
        )
        if waiting is not None and waiting.paused is not None and not _is_here(waiting.paused):
            waiting.give_up()
            waiting = None
        if waiting is None:
            known = self._approvals.has_begun(key)
            plan = await _plan(run, program)
            if known is None:
                known = (plan.may_ask or run.asks_about_packages) if begun is None else begun
            if known or begun or not plan.required:
                return self._gone(run, program, key)
        elif step == "ask" and waiting.paused is not None:
            await waiting.paused.end()
        elif waiting.paused is not None:
            waiting.paused.answer(decision)
            return await self._go_on(waiting, waiting.paused, scope, call_id)
        elif step == "reject":
            return _outcome(run, refused(decision, ""), program)
        elif step == "begin" and waiting.sent != sent:
            return await self._execute(waiting.run, arguments, scope, call_id, lasting, approved=True)
        elif step == "begin":
            return await self._begin(waiting, await _plan(waiting.run, program), scope, call_id)
        return await self.execute(run, arguments, scope=scope, call_id=call_id, lasting=lasting)

    def ended(self, *, scope: str = "", call_id: str = "") -> CodeActOutcome | None:
        """Return, once, the outcome of a program whose question was not answered in time and that has ended since.

        Its text lists its tool calls also after a success, since nobody has read about them. Returns `None` if there is
        no such program, or it has not ended. The latest hundred are kept.
        """
        outcome: CodeActOutcome | None = self._approvals.ended((scope, call_id))
        return None if outcome is None else outcome.with_calls_listed()

    def gone(self, run: FrozenRun, *, scope: str = "", call_id: str = "") -> CodeActOutcome | None:
        """Return what is known of a program that had begun and whose run is gone.

        The outcome has its tool calls as far as they are known. Returns `None` if it still waits for the answer.
        """
        key = (scope, call_id)
        return None if self._approvals.is_taken(key, time.monotonic()) else self._gone(run, "", key)

    def withdraw(self, *, scope: str = "", call_id: str = "") -> None:
        """Drop a request that nobody will answer, and end a program that waits for it."""
        waiting = self._approvals.take((scope, call_id))
        if waiting is not None:
            waiting.give_up()

    def is_waiting(self, *, scope: str = "", call_id: str = "") -> bool:
        """Return whether a request waits under this scope and call id."""
        return (scope, call_id) in self._approvals

    async def leave(self, *, scope: str) -> None:
        """Close the sandbox of a scope, with its files, as soon as no program runs there; the scope must not be used
        again.
        """
        await self._environments.leave(scope)

    async def close(self) -> None:
        """End all runs with the error `CANCELLED`, and close all sandboxes with their files."""
        for waiting in self._approvals.stop():
            waiting.give_up()
        await self._environments.close()

    def _ask(self, key: Key, waiting: Waiting) -> bool:
        """Add a request; return false if another waits under its key."""
        asked = self._approvals.ask(key, waiting, time.monotonic())
        for other in asked.given_up:
            other.give_up()
        return asked.state == "waits"

    def _gone(self, run: FrozenRun, program: str, key: Key) -> CodeActOutcome:
        return _outcome(run, run_gone(_GONE), program, self._approvals.calls(key))

    async def _check(self, run: FrozenRun, program: str) -> ErrorInfo | None:
        """Return the error that a type checker finds in a program, `None` if it finds none."""
        from .static_check import check_types

        loop = asyncio.get_running_loop()
        turns = self._checks.setdefault(loop, asyncio.Semaphore(CHECKS_AT_ONCE))
        async with turns:
            try:
                return await check_types(program, run.toolset)
            except ActboxError as error:  # ty was uninstalled since
                return ErrorInfo(
                    kind=ErrorKind.SANDBOX, message=f"the program was not checked, and did not run: {error}"
                )

    async def _begin(
        self, waiting: Waiting, plan: RunApproval, scope: str, call_id: str
    ) -> CodeActOutcome | ApprovalNeeded:
        run, sent, toolset, calls = waiting.run, waiting.sent, plan.toolset, CallLog()
        place = (scope, call_id, waiting.lasting)
        if run.settings.approval_style != "bundled" or run.asks_about_packages or plan.findings:
            self._approvals.begin((scope, call_id), calls)
        if not plan.may_ask and not run.asks_about_packages:
            return await self._perform(run, sent, toolset, calls, place, plan.warnings)
        paused = PausableRun(
            lambda approver: self._perform(run, sent, toolset.asking(approver), calls, place, plan.warnings),
            timeout=self._approval_timeout,
        )
        return await self._go_on(replace(waiting, paused=paused), paused, scope, call_id)

    async def _go_on(
        self, waiting: Waiting, paused: PausableRun, scope: str, call_id: str
    ) -> CodeActOutcome | ApprovalNeeded:
        while True:
            reached = await paused.next()
            if isinstance(reached, CodeActOutcome):
                return reached
            if self._ask((scope, call_id), waiting):
                return _needed(reached, waiting, scope, call_id)
            paused.answer(ApprovalDecision(False, _UNASKED, cause="unavailable"))

    async def _perform(
        self,
        run: FrozenRun,
        sent: Sent,
        toolset: Toolset,
        calls: CallLog,
        place_of: tuple[str, str, bool],
        warnings: tuple[str, ...] = (),
    ) -> CodeActOutcome:
        program = sent.code
        try:
            scope, call_id, lasting = place_of
            to_run = sent.to_run(run.settings.language)
            take = partial(self._take, calls, partial(ProgramEvent, scope=scope, call_id=call_id, program=program))
            owner = scope if run.file_surface else None
            async with self._environments.use(run.environment, owner, run.policy, lasting=lasting) as place:
                warnings, place.warnings = (*warnings, *place.warnings), ()
                if run.file_surface and run.settings.clear_output:
                    result = await _run_in_turn(place, to_run, toolset, take)
                else:
                    result = await _run(place.sandbox, to_run, toolset, take, alone=not run.file_surface)
                result = _with_named_hint(replace(result, warnings=(*warnings, *result.warnings)), run, toolset)
                return await _with_stored_output(_outcome(run, result, program, calls), run, place.sandbox)
        except Exception as error:  # a fault of ours or of the machine must not end the agent
            result = could_not_run(error)
        return _outcome(run, replace(result, warnings=(*warnings, *result.warnings)), program, calls)

    async def _take(self, calls: CallLog, event_with: Callable[..., ProgramEvent], event: Event) -> None:
        calls.feed(event)
        if self._on_event is not None:
            await notify(self._on_event, event_with(event=event))


Take = Callable[[Event], Awaitable[None]]
"""A function that receives each event of a run before the next one is awaited."""

_GONE = (
    "the run that waited for approval is gone, since it waited too long, or its process or its event loop has ended;"
    " what it had done before stays done, and nothing was run again"
)
_LONG_HINT = "write a shorter program: read long data from a file, or send it in several programs"
_NAMED_HINT = "a program has only the tools that it names, and this one names none: write their names out"
_TAKEN = (
    "another program waits for approval under the same call id, and nobody could tell whose answer it is: this one did"
    " not run"
)
_TAKEN_HINT = "send it again when the other one has ended"
_UNASKED = "another program waits for approval under the same call id, so that nobody can be asked about this call"
_BUSY = (
    "another program waits for approval and uses /output, which is emptied before each program: this one did not run"
)
_BUSY_HINT = "send it again when the other one has ended"
_CLOSED = "the program did not run: its runner was closed; make a new provider or tool"


def _needed(request: ApprovalRequest, waiting: Waiting, scope: str, call_id: str) -> ApprovalNeeded:
    return ApprovalNeeded(request=request, scope=scope, call_id=call_id, code_hash=waiting.shown, named=waiting.named)


async def _plan(run: FrozenRun, program: str) -> RunApproval:
    settings = run.settings
    if settings.approval_style == "bundled":
        plan = run.plan(program)
    else:
        plan = await _readers.run(run.plan, program)
    if settings.review is None:
        return plan
    with suppress(InvalidValue):  # the program exceeds a bound, for which its run is refused
        advice = await advice_on(Program(program, settings.language), settings.review, run.toolset)
        return replace(plan, findings=advice.question, blocked=advice.error, warnings=advice.warnings)
    return plan


async def _run(
    sandbox: Sandbox, program: Program | str, toolset: Toolset, take: Take, *, alone: bool
) -> ExecutionResult:
    stream = (sandbox.stream_alone if alone else sandbox.stream)(program, tools=toolset)
    async with closing(stream):
        async for event in stream:
            await take(event)
            if isinstance(event, Completed):
                return event.result
    raise AssertionError("a stream ended without Completed")


async def _run_in_turn(place: Environment, program: Program | str, toolset: Toolset, take: Take) -> ExecutionResult:
    """Run a program after emptying `/output`, while no other program of its conversation uses that directory."""
    try:
        async with place.turns.one():
            if toolset.approver is not None:
                toolset = toolset.asking(PausingApprover(toolset.approver, place.turns))
            await _empty_output(place.sandbox)
            return await _run(place.sandbox, program, toolset, take, alone=False)
    except Paused:
        # The question may be answered only after all calls of the model's turn, this one included, have returned.
        return not_run(ErrorKind.CANCELLED, _BUSY, hint=_BUSY_HINT, type="Busy")


def _with_named_hint(result: ExecutionResult, run: FrozenRun, toolset: Toolset) -> ExecutionResult:
    """Add a hint to a `NameError` for `call_tool` in a program that names no tool, under `only_named_tools`."""
    error = result.error
    if not run.settings.only_named_tools or len(toolset) or not len(run.toolset):
        return result
    if error is None or error.type != "NameError" or "'call_tool'" not in error.message:
        return result
    return replace(result, error=replace(error, hint=_NAMED_HINT))


async def _with_stored_output(outcome: CodeActOutcome, run: FrozenRun, sandbox: Sandbox) -> CodeActOutcome:
    """Store the whole output of a cut outcome where a later program can read it, and say in its text where that is.

    The file lies outside `/output`, where it would be returned, or removed before a program has read it.
    """
    if not outcome.is_cut:
        return outcome
    if run.file_surface:
        data = outcome.printed().encode()
        path = f"/workspace/printed-{hashlib.sha256(data).hexdigest()[:8]}.txt"
        try:
            await sandbox.write_file(path, data)
            await _remove_older(sandbox)
        except ActboxError as error:  # the program itself has ended, so its outcome stands
            why = error.strerror if isinstance(error, FileError) else str(error)
            return outcome.with_whole(f"not kept, since it could not be written ({why}); print less"[:150])
        return outcome.with_whole(f"the file {path}")
    return outcome.with_whole("not kept; print less")


async def _remove_older(sandbox: Sandbox) -> None:
    """Remove all but the latest stored outputs, which would otherwise fill the workspace."""
    kept = [entry for entry in await sandbox.list_files() if _PRINTED.fullmatch(entry.path)]
    for entry in sorted(kept, key=lambda entry: entry.modified)[:-MOST_PRINTED]:
        await sandbox.remove_file(entry.path)


async def _empty_output(sandbox: Sandbox) -> None:
    try:
        entries = await sandbox.list_files("output")
    except FileError as error:
        if error.errno in NO_FOLDER:  # a program removed or replaced it: the sandbox creates it again for the next one
            return
        raise
    for entry in entries:
        await sandbox.remove_file(entry.path, recursive=True)


def _outcome(run: FrozenRun, result: ExecutionResult, program: str, calls: CallLog | None = None) -> CodeActOutcome:
    return CodeActOutcome.of(
        result, run.settings, program=program, calls=calls or CallLog(), file_surface=run.file_surface
    )


def _sent(run: FrozenRun, arguments: Any) -> Sent:
    return sent_program(arguments, tool_name=run.tool_name, packages=run.policy.packages is not None)


def _with_packages(request: ApprovalRequest, sent: Sent) -> ApprovalRequest:
    """Return the request for a program's approval with the packages that it asks for in its reason."""
    if not sent.dependencies:
        return request
    return replace(request, reason=f"{request.reason}; it asks for the packages {', '.join(sent.dependencies)}")


def _hash(sent: Sent) -> str:
    text = "\0".join((sent.code, *sent.dependencies))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_here(paused: PausableRun) -> bool:
    return paused.loop is asyncio.get_running_loop()
