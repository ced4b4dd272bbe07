"""`CodeActRunner`: from what a model sent to what it reads, with approvals that a framework can come back with."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from actbox.core.call_log import CallLog
from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, FileError, InvalidValue, SandboxStopped, Unsupported
from actbox.core.events import Completed
from actbox.core.policy import Policy
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult
from actbox.sandbox.contract import Sandbox, closing
from actbox.sandbox.paths import NO_FOLDER
from actbox.tools import ApprovalDecision, ApprovalRequest, Toolset
from actbox.tools.threads import ThreadPool

from .approval import refused
from .approvers import checked_timeout
from .arguments import NoProgram, program_of
from .environments import MOST_ENVIRONMENTS, Environment, Environments
from .frozen import FrozenRun
from .outcome import CodeActOutcome, not_run
from .pending import TIMEOUT_SECONDS
from .planning import Plan, plan_of
from .questions import Questions
from .turns import Paused
from .waiting import PausableRun, PausingApprover, Waiting

MOST_WAITING: Final = 100
"""Questions that wait for a framework's answer; beyond it the oldest is given up."""

RUN_GONE: Final = "RunGone"
"""The type of the error where a program had begun and its run is gone."""

CHECKS_AT_ONCE: Final = 2
"""Type checkers that run at once, for one runner in one event loop: each takes a processor and much memory."""
MOST_PRINTED: Final = 4
"""Files of one conversation that have the whole of what texts left out: the latest."""
READ_AT_ONCE: Final = 2
"""Programs that are read for the tools that they name, at once and for all agents; further ones wait."""

# A large program takes seconds to read, in which the event loop has other things to do.
_readers = ThreadPool(limit=READ_AT_ONCE)

_PRINTED = re.compile(r"printed-[0-9a-f]{8}\.txt")

_log = logging.getLogger("actbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeded:
    """Somebody has to decide before the call of `execute_code` can go on; `CodeActRunner.answer` takes the decision.

    `request` is the question: about the whole program, before it has begun, or about one call of it, which waits.
    `named` are the tools that the program calls by names that can be read out of it. The decision counts for the
    program that is shown and no other.
    """

    request: ApprovalRequest
    scope: str
    call_id: str
    code_hash: str
    named: tuple[str, ...] = ()


class CodeActRunner:
    """Runs the programs of one provider, several at once.

    `open_sandbox` makes a sandbox for a policy. `scope` says whose the files are: calls of one scope share their
    sandbox's files, and no other sees them. A run without a file surface has a folder of its own that is thrown away.

    Where a question has to be decided by a framework that calls again with the answer, `execute` returns
    `ApprovalNeeded`, and the question waits under its scope and call id, for `approval_timeout` seconds: a call of a
    program is then refused, and a program that has not begun never does. So calls that may ask need call ids of their
    own: while one waits, another under the same scope and call id that would ask does not run, and its outcome says so.
    The bundled style asks nobody here: that a run requires approval is said by `FrozenRun.approval`, and who calls
    `execute` has had it given.

    Methods raise nothing but what they are cancelled with: whatever goes wrong is an outcome. Cancelling `execute` ends
    the program.
    """

    def __init__(
        self,
        open_sandbox: Callable[[Policy], Sandbox],
        *,
        most_environments: int = MOST_ENVIRONMENTS,
        most_waiting: int = MOST_WAITING,
        approval_timeout: float | None = TIMEOUT_SECONDS,
    ) -> None:
        self._environments = Environments(open_sandbox, most=most_environments)
        self._approval_timeout = checked_timeout(approval_timeout)
        self._questions = Questions(most=most_waiting, timeout=self._approval_timeout)
        self._checks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def execute(
        self, run: FrozenRun, arguments: Any, *, scope: str = "", call_id: str = "", lasting: bool = True
    ) -> CodeActOutcome | ApprovalNeeded:
        """Run the program that a model sent, or say what has to be approved first.

        `arguments` are as the model sent them: an object with `code`, JSON text, or something else that is answered
        with how to send it. A scope that is not `lasting` is one of which nobody knows when it is not used any more,
        but soon: its files never push those of lasting ones out, see `leave`.
        """
        try:
            program = program_of(arguments, tool_name=run.tool_name)
        except NoProgram as error:
            return _outcome(run, not_run(ErrorKind.SYNTAX, str(error), type="InvalidArguments"), "")
        if self._questions.closed:
            return _outcome(run, not_run(ErrorKind.CANCELLED, _CLOSED), program)
        wrong = await self._check(run, program)
        if wrong is not None:
            return _outcome(run, ExecutionResult(exit_code=EXIT_NOT_RUN, error=wrong), program)
        plan = await _plan(run, program)
        if plan.refused:
            return _outcome(run, not_run(ErrorKind.POLICY, plan.refused, hint=_LONG_HINT, type="TooLong"), program)
        waiting = Waiting(
            run=run, program=program, code_hash=_hash(program), named=plan.named, paused=None, lasting=lasting
        )
        if plan.approval.required:
            if self._questions.put((scope, call_id), waiting):
                return _needed(plan.approval.request(program), waiting, scope, call_id)
        elif not (plan.will_ask and self._questions.is_taken((scope, call_id))):
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
    ) -> CodeActOutcome | ApprovalNeeded:
        """Go on with what waits for a decision; the program runs with what it had when it was asked about.

        If the program is another one than was shown, the decision does not count for it, and it is asked about anew.

        Where nothing waits any more, a program that had begun is never run again: the outcome says so, with the calls
        that it had made, as far as they are known. `begun` is what the caller knows of that, from the question: one
        about a call (`request.what`) is of a program that had. What this runner knows counts more; and where neither
        knows, a program that may have asked about a call is taken for one that had begun. One that had not is asked
        about anew.
        """
        try:
            program = program_of(arguments, tool_name=run.tool_name)
        except NoProgram:
            return await self.execute(run, arguments, scope=scope, call_id=call_id, lasting=lasting)
        key = (scope, call_id)
        waiting = self._questions.take(key)
        if waiting is not None and waiting.paused is not None and not _is_here(waiting.paused):
            waiting.give_up()
            waiting = None
        if waiting is None or (waiting.paused is None and self._questions.is_over(waiting)):
            known = self._questions.begun(key)
            plan = await _plan(run, program)
            if known is None:
                known = plan.may_ask if begun is None else begun
            if known or begun or not plan.approval.required:
                return self._gone(run, program, key)
            return await self.execute(run, arguments, scope=scope, call_id=call_id, lasting=lasting)
        if waiting.code_hash != _hash(program):
            if waiting.paused is not None:
                await waiting.paused.end()
            return await self.execute(run, arguments, scope=scope, call_id=call_id, lasting=lasting)
        if waiting.paused is not None:
            waiting.paused.answer(decision)
            return await self._go_on(waiting, waiting.paused, scope, call_id)
        if not decision.approved:
            return _outcome(run, refused(decision, ""), program)
        return await self._begin(waiting, await _plan(waiting.run, program), scope, call_id)

    def ended(self, *, scope: str = "", call_id: str = "") -> CodeActOutcome | None:
        """Return, once, what came of a program whose question nobody answered in time, and that has ended since.

        Its text has the calls of tools that it made also where it ended well, since nobody has read of them. `None`
        where there is no such program, or it has not ended. The latest hundred of them are kept.
        """
        outcome = self._questions.ended((scope, call_id))
        return None if outcome is None else outcome.with_calls_told()

    def gone(self, run: FrozenRun, *, scope: str = "", call_id: str = "") -> CodeActOutcome | None:
        """Return what is known of a program that had begun, as a question about a call says, and whose run is gone.

        It has the calls of tools that it made, as far as they are known. `None` where it still waits for the answer.
        """
        key = (scope, call_id)
        return None if self._questions.is_taken(key) else self._gone(run, "", key)

    def withdraw(self, *, scope: str = "", call_id: str = "") -> None:
        """Give up a question that nobody will answer: a program that waits is ended."""
        waiting = self._questions.take((scope, call_id))
        if waiting is not None:
            waiting.give_up()

    def is_waiting(self, *, scope: str = "", call_id: str = "") -> bool:
        """Return whether a question waits under this scope and call id."""
        return self._questions.is_waiting((scope, call_id))

    async def leave(self, *, scope: str) -> None:
        """Close the sandbox of a scope, with its files, as soon as no program runs there: it is not used again."""
        await self._environments.leave(scope)

    async def close(self) -> None:
        """End all runs, as `CANCELLED`, and close all sandboxes, with the files in them."""
        self._questions.close()
        await self._environments.close()

    def _gone(self, run: FrozenRun, program: str, key: tuple[str, str]) -> CodeActOutcome:
        gone = not_run(ErrorKind.CANCELLED, _GONE, hint=_GONE_HINT, type=RUN_GONE)
        return _outcome(run, gone, program, self._questions.calls(key))

    async def _check(self, run: FrozenRun, program: str) -> ErrorInfo | None:
        """Return what a type checker finds wrong with a program, if that is wanted."""
        checker = run.settings.static_check
        if checker is None:
            return None
        from .static_check import check_types

        loop = asyncio.get_running_loop()
        turns = self._checks.setdefault(loop, asyncio.Semaphore(CHECKS_AT_ONCE))
        async with turns:
            try:
                return await check_types(program, run.toolset, checker=checker)
            except ActboxError as error:  # it has been removed since
                return ErrorInfo(
                    kind=ErrorKind.SANDBOX, message=f"the program was not checked, and did not run: {error}"
                )

    async def _begin(self, waiting: Waiting, plan: Plan, scope: str, call_id: str) -> CodeActOutcome | ApprovalNeeded:
        run, program, toolset, calls = waiting.run, waiting.program, plan.approval.toolset, CallLog()
        place = (scope, waiting.lasting)
        if run.settings.approval_style != "bundled":
            self._questions.begin((scope, call_id), calls)
        if not plan.may_ask:
            return await self._perform(run, program, toolset, calls, place)
        paused = PausableRun(
            lambda approver: self._perform(run, program, toolset.asking(approver), calls, place),
            timeout=self._approval_timeout,
        )
        return await self._go_on(replace(waiting, paused=paused), paused, scope, call_id)

    async def _go_on(
        self, waiting: Waiting, paused: PausableRun, scope: str, call_id: str
    ) -> CodeActOutcome | ApprovalNeeded:
        while True:
            came = await paused.next()
            if isinstance(came, CodeActOutcome):
                return came
            if self._questions.put((scope, call_id), waiting):
                return _needed(came, waiting, scope, call_id)
            paused.answer(ApprovalDecision(False, _UNASKED, cause="unavailable"))

    async def _perform(
        self, run: FrozenRun, program: str, toolset: Toolset, calls: CallLog, place_of: tuple[str, bool]
    ) -> CodeActOutcome:
        warnings: tuple[str, ...] = ()
        try:
            scope, lasting = place_of
            owner = scope if run.file_surface else None
            async with self._environments.use(run.environment, owner, run.policy, lasting=lasting) as place:
                warnings, place.warnings = place.warnings, ()
                if run.file_surface and run.settings.clear_output:
                    result = await _run_in_turn(place, program, toolset, calls)
                else:
                    result = await _run(place.sandbox, program, toolset, calls, alone=not run.file_surface)
                result = _with_named_hint(replace(result, warnings=(*warnings, *result.warnings)), run, toolset)
                return await _whole_kept(_outcome(run, result, program, calls), run, place.sandbox)
        except SandboxStopped as error:
            result = not_run(ErrorKind.CANCELLED, str(error))
        except (Unsupported, InvalidValue) as error:
            result = not_run(ErrorKind.UNSUPPORTED, str(error))
        except ActboxError as error:
            result = not_run(ErrorKind.SANDBOX, str(error), hint="`actbox doctor` says what works here")
        except Exception as error:  # a fault of ours or of the machine, which must not end the agent
            _log.exception("a program could not be run")
            result = not_run(ErrorKind.SANDBOX, f"the program could not be run: {type(error).__name__}: {error}")
        return _outcome(run, replace(result, warnings=(*warnings, *result.warnings)), program, calls)


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
_GONE_HINT = "find out what was done already before you send a program that does the rest"


def _needed(request: ApprovalRequest, waiting: Waiting, scope: str, call_id: str) -> ApprovalNeeded:
    return ApprovalNeeded(
        request=request, scope=scope, call_id=call_id, code_hash=waiting.code_hash, named=waiting.named
    )


async def _plan(run: FrozenRun, program: str) -> Plan:
    if run.settings.approval_style == "bundled":
        return plan_of(run, program)
    return await _readers.run(plan_of, run, program)


async def _run(sandbox: Sandbox, program: str, toolset: Toolset, calls: CallLog, *, alone: bool) -> ExecutionResult:
    stream = (sandbox.stream_alone if alone else sandbox.stream)(program, tools=toolset)
    async with closing(stream):
        async for event in stream:
            if isinstance(event, Completed):
                return event.result
            calls.feed(event)
    raise AssertionError("a stream ended without Completed")


async def _run_in_turn(place: Environment, program: str, toolset: Toolset, calls: CallLog) -> ExecutionResult:
    """Run a program after `/output` was emptied, when no other program of its conversation uses that."""
    try:
        async with place.turns.one():
            if toolset.approver is not None:
                toolset = toolset.asking(PausingApprover(toolset.approver, place.turns))
            await _empty_output(place.sandbox)
            return await _run(place.sandbox, program, toolset, calls, alone=False)
    except Paused:
        # Whoever answers the question may do so only when all calls of the model's turn have returned, this one too.
        return not_run(ErrorKind.CANCELLED, _BUSY, hint=_BUSY_HINT, type="Busy")


def _with_named_hint(result: ExecutionResult, run: FrozenRun, toolset: Toolset) -> ExecutionResult:
    """Say why there is no `call_tool` in a program that names no tool, where it has only those that it names."""
    error = result.error
    if not run.settings.only_named_tools or len(toolset) or not len(run.toolset):
        return result
    if error is None or error.type != "NameError" or "'call_tool'" not in error.message:
        return result
    return replace(result, error=replace(error, hint=_NAMED_HINT))


async def _whole_kept(outcome: CodeActOutcome, run: FrozenRun, sandbox: Sandbox) -> CodeActOutcome:
    """Keep what the model's text leaves out of the output where a later program can read it, and say where that is.

    It is no file of `/output`, from which it would come back, or be emptied, before anybody has read it.
    """
    if not outcome.is_cut:
        return outcome
    if run.file_surface:
        data = outcome.printed().encode()
        path = f"/workspace/printed-{hashlib.sha256(data).hexdigest()[:8]}.txt"
        try:
            await sandbox.write_file(path, data)
            await _remove_older(sandbox)
        except ActboxError as error:  # the program has ended, whatever comes after it
            why = error.strerror if isinstance(error, FileError) else str(error)
            return outcome.with_whole(f"not kept, since it could not be written ({why}); print less"[:150])
        return outcome.with_whole(f"the file {path}")
    return outcome.with_whole("not kept; print less")


async def _remove_older(sandbox: Sandbox) -> None:
    """Keep the latest of what was printed and left out: all of it would fill the workspace."""
    kept = [entry for entry in await sandbox.list_files() if _PRINTED.fullmatch(entry.path)]
    for entry in sorted(kept, key=lambda entry: entry.modified)[:-MOST_PRINTED]:
        await sandbox.remove_file(entry.path)


async def _empty_output(sandbox: Sandbox) -> None:
    try:
        entries = await sandbox.list_files("output")
    except FileError as error:
        if error.errno in NO_FOLDER:  # a program has removed or replaced it: the sandbox makes it anew for the next one
            return
        raise
    for entry in entries:
        await sandbox.remove_file(entry.path, recursive=True)


def _outcome(run: FrozenRun, result: ExecutionResult, program: str, calls: CallLog | None = None) -> CodeActOutcome:
    return CodeActOutcome.of(
        result, run.settings, program=program, calls=calls or CallLog(), file_surface=run.file_surface
    )


def _hash(program: str) -> str:
    return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()


def _is_here(paused: PausableRun) -> bool:
    return paused.loop is asyncio.get_running_loop()
