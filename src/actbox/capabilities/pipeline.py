"""The steps of an invocation: validated, labelled, budgeted, approved, run, validated again, metered, journalled.

Each step can refuse, and whatever refuses says so in the outcome with the name of the step. Nothing runs before its
budget is set aside, its approval is given and its beginning is in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.tools import ApprovalRequest
from actbox.tools.approval import decision_of
from actbox.tools.large_values import aside, is_large

from .approvals import Question
from .budgets import Budget, BudgetExceeded, exact_sum
from .capability import Capability
from .database import StoreError
from .invocation import Governance, Invocation, canonical
from .metering import Metered
from .outcome import InvocationError, Outcome, Step, StepFailed
from .prices import Prices

MOST_OUTPUT_BYTES: Final = 64 * 2**20
"""The most bytes of JSON that an output may have."""
MOST_OUTPUT_VALUES: Final = 2_000_000
"""The most values that an output may have, as a message of a sandbox."""
_LOOK_EVERY: Final = 1.0
_STOPS_WITHIN: Final = 10.0
"""Seconds for a handler that is cancelled to end; one that goes on is left behind."""
_LEAST_SECONDS: Final = 0.001
"""The wall time that a run without a declared one sets aside: where nothing is left, it does not begin."""
_MIB: Final = 2**20
_log = logging.getLogger("actbox")


def worst_case(capability: Capability, given: Mapping[str, Any]) -> Budget:
    """Return what one invocation may use at most, as far as the capability declares it."""
    if capability.worst_case is not None:
        return capability.worst_case(capability, given)
    found = {"steps": 1, **capability.estimates.amounts()}
    if capability.resources.timeout_ms is not None:
        found.setdefault("wall_seconds", capability.resources.timeout_ms / 1000)
    if capability.resources.memory_mb is not None:
        found.setdefault("memory_mib", capability.resources.memory_mb)
    return Budget(**found)  # type: ignore[arg-type]  # numbers by their dimension


def priced(worst: Budget, prices: Prices | None) -> Budget:
    """Return a worst case with the money that it costs, as far as that can be told: the price of tokens depends on the
    model.
    """
    if prices is None:
        return worst
    usd = min(float(prices.cost(worst.amounts(), {}).usd), sys.float_info.max)
    return worst if worst.usd is None and not usd else replace(worst, usd=usd)


async def invoke(call: Invocation, governance: Governance, key: str = "", *, is_again: bool = False) -> Outcome:
    """Take an invocation through all steps, and return its outcome. Cancelling it is an outcome in the journal too.

    With `key` the journal remembers the outcome for later invocations with the same key, once the run has begun.
    `is_again`: an invocation with the key was cut off, and may run again.
    """
    pipeline = _Pipeline(call, governance, key, is_again)
    try:
        return await pipeline.outcome()
    except asyncio.CancelledError:
        await asyncio.shield(pipeline.cancelled())
        raise


class _Pipeline:
    """The steps of one invocation, in the order of `outcome`."""

    def __init__(self, call: Invocation, governance: Governance, key: str, is_again: bool) -> None:
        self._call = call
        self._is_again = is_again
        self._governance = governance
        call.egress_max = governance.egress_max
        self._key = key
        self._step: Step = "validate_input"
        self._approval = ""
        self._answers: list[str] = []
        self._shown: Mapping[str, Any] = {}
        self._worst = Budget()
        self._ending: asyncio.Future[Outcome] | None = None
        self._has_begun = False
        self._start = time.perf_counter()
        self._worst = Budget()
        self._wall_left: float | None = None
        """The seconds that the budget has for a run that declares none."""

    async def outcome(self) -> Outcome:
        try:
            await self._do("validate_input", self._validate_input)
            await self._do("label", self._label)
            await self._do("budget", self._reserve)
            await self._do("approval", self._approve)
            await self._do("journal", self._begin)
            output = await self._do("run", self._run)
            data = await self._do("validate_output", partial(self._validate_output, output))
        except StepFailed as failure:
            return await self._ended(None, b"", failure.error)
        return await self._ended(output, data, None)

    async def cancelled(self) -> None:
        """Write down that the invocation was cancelled, unless its end is being written already."""
        error = InvocationError("cancelled", self._step, "the invocation was cancelled")
        await (self._ending or self._ended(None, b"", error))

    async def _ended(self, output: Any, data: bytes, error: InvocationError | None) -> Outcome:
        """Return the outcome once its end is written; whoever cancels does not cut that off."""
        self._ending = asyncio.ensure_future(self._end(output, data, error))
        return await asyncio.shield(self._ending)

    async def _do(self, step: Step, work: Callable[[], Any]) -> Any:
        self._step = step
        self._call.event(step, "begun")
        try:
            done = await work()
        except StepFailed as failure:
            self._call.event(step, "failed", failure.error.message)
            raise
        except Exception as error:  # of a function that the capability, the budget or the approver brings
            _log.exception("the step %s of %s failed", step, self._call.capability.id)
            why = f"{self._call.capability.id} failed: {_text_of(error)}"
            self._call.event(step, "failed", why)
            raise StepFailed("failed", step, why) from error
        self._call.event(step, "done")
        return done

    async def _validate_input(self) -> None:
        call, capability = self._call, self._call.capability
        try:
            data = canonical(call.input)
            call.input = json.loads(data)  # a copy, so that nobody changes what was shown and approved
            call.meter.input_bytes = len(data)
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_input", f"the input of {capability.id}: {error}") from None
        if problems := await aside(capability.input_schema.problems, call.input):
            why = "; ".join(problems)
            hint = f"registry.describe({capability.id!r}) has the schema"
            raise StepFailed("invalid", "validate_input", f"the input does not fit {capability.id}: {why}", hint)
        if capability.handler is None:
            hint = "give the capability a handler, or standard_registry the setting for it"
            raise StepFailed("unavailable", "validate_input", f"nothing here carries out {capability.id}", hint)
        if call.retries and not capability.retry_safe:
            raise StepFailed("refused", "validate_input", f"{capability.id} does not say that a second run is safe")
        if capability.prepare is not None:
            self._shown = await self._handled("validate_input", capability.prepare)

    async def _label(self) -> None:
        call, capability = self._call, self._call.capability
        most = call.egress_max if call.cleared is None else call.cleared
        if most is not None and {"network", "llm"} & {*capability.effects} and not call.labels <= most:
            raise StepFailed(
                "refused",
                "label",
                f"{capability.id} may be given data up to {most}, and this has the label {call.labels}",
                "send data of a lower label, or have the label lowered by somebody who may",
            )

    async def _reserve(self) -> None:
        call = self._call
        try:
            worst = priced(worst_case(call.capability, call.input), self._governance.prices)
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_input", str(error)) from None
        more: dict[str, float] = {"tool_calls": (worst.tool_calls or 0) + 1}
        bounds_wall = worst.wall_seconds is None and call.account.left_of("wall_seconds") is not None
        if bounds_wall:
            more["wall_seconds"] = _LEAST_SECONDS
        self._worst = worst = replace(worst, **more)  # type: ignore[arg-type]  # numbers by their dimension
        while True:
            try:
                call.reservation = call.account.reserve(worst)
                if bounds_wall:
                    self._wall_left = (call.account.left_of("wall_seconds") or 0) + _LEAST_SECONDS
                return
            except BudgetExceeded as error:
                bounds_wall = False  # once somebody has agreed to more, the time is not bounded by what is left
                if not error.may_ask:
                    raise StepFailed("exceeded", "budget", str(error), "ask for less, or for a larger budget") from None
                lacking = {one.dimension: one.lacking for one in error.lacks}
                await self._ask("budget", f"{error}: may it have more?", {"more": lacking})
                call.account.extend(self._worst, lacking)

    async def _approve(self) -> None:
        kinds = dict.fromkeys([*self._call.capability.approvals, *self._call.asks])
        asked = [kind for kind in kinds if kind not in self._governance.granted]
        if asked:
            await self._ask("approval", f"it needs the approval {', '.join(asked)}", {"kinds": asked})

    async def _ask(self, step: Step, reason: str, more: Mapping[str, Any]) -> None:
        """Ask whoever approves. Raises `StepFailed` if there is no yes."""
        call, capability = self._call, self._call.capability
        shown = {
            **self._shown,
            "risk": capability.risk,
            "effects": list(capability.effects),
            "labels": str(call.labels),
        }
        if self._governance.approvals is not None:
            question = Question(
                capability=capability.id if step == "approval" else f"{capability.id}:{step}",
                version=capability.version,
                arguments=call.input,
                labels=call.labels,
                caller=call.caller,
                run=call.run,
                reason=reason,
                bound=more,
                shown=shown,
            )
            try:
                answer = await self._governance.approvals.require(question)
            except (StoreError, InvalidValue) as error:
                raise StepFailed("unavailable", step, f"nobody can be asked: {error}") from None
            self._approval = answer.id
            self._answers.append(answer.id)
            approved, why, by = answer.approved, answer.reason, answer.by
        elif self._governance.approver is not None:
            request = ApprovalRequest(
                id=call.id,
                what="call",
                program=str(self._shown.get("program", call.input.get("code", ""))),
                reason=reason if call.labels == PUBLIC else f"{reason}; its data has the label {call.labels}",
                tool=capability.id if step == "approval" else f"{capability.id}:{step}",
                arguments=call.input,
            )
            decision = await decision_of(self._governance.approver, request)
            approved, why, by = decision.approved, decision.reason, decision.by
            if approved and decision.edited is not None and dict(decision.edited) != call.input:
                approved, why = False, "the approver agreed to other arguments, with which it was not invoked"
        else:
            approved, why, by = False, f"nobody can be asked, since this registry has no approvals ({reason})", ""
        if not approved:
            who = f" by {by}" if by else ""
            raise StepFailed("refused", step, f"{capability.id} was refused{who}: {why or 'no reason was given'}")

    async def _begin(self) -> None:
        """Write down that the run begins; it does not if that fails."""
        journal, call = self._governance.journal, self._call
        if journal is not None:
            body = {
                **self._about(),
                "approval": self._approval,
                "effects": list(call.capability.effects),
                "worst": self._worst.amounts(),
            }
            blobs = {"input": canonical(call.input)}
            writing = asyncio.ensure_future(
                journal.append(
                    "begun", body, invocation=call.id, blobs=blobs, opens=self._key, opens_again=self._is_again
                )
            )
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                while not writing.done():  # whoever cancels twice must not cut it off either
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait({writing})
                self._has_begun = writing.exception() is None  # so that its end is written too
                raise
            except (StoreError, InvalidValue) as error:
                raise StepFailed("unavailable", "journal", f"{error}; nothing was run") from None
        self._has_begun = True
        call.count(tool_calls=1)

    async def _run(self) -> Any:
        """Run the handler, again after a failure if the caller wants that, and the budget has room for it."""
        call, self._start = self._call, time.perf_counter()
        worst = self._worst.amounts()
        for attempt in range(call.retries + 1):
            try:
                return await self._run_once()
            except StepFailed as failure:
                if attempt == call.retries or failure.error.kind not in ("failed", "timeout", "unavailable"):
                    raise
                call.event("run", "note", f"attempt {attempt + 1} failed: {failure.error.message}")
                used = {"wall_seconds": time.perf_counter() - self._start, **call.used}
                used["tool_calls"] -= 1  # the invocation itself, which is still the same
                used["memory_mib"] = 0  # a peak
                try:
                    assert call.reservation is not None
                    more = {name: exact_sum(used.get(name, 0), amount) for name, amount in worst.items()}
                    call.reservation.grow(more)
                except BudgetExceeded:
                    raise failure from None
        raise AssertionError("unreachable")

    async def _run_once(self) -> Any:
        call = self._call
        handler, milliseconds = call.capability.handler, call.capability.resources.timeout_ms
        seconds, bound = None if milliseconds is None else milliseconds / 1000, f"{milliseconds} ms"
        if call.capability.runtime.engines:
            seconds = None  # an engine counts the program's own time
        if self._wall_left is not None:
            left = max(self._wall_left - (time.perf_counter() - self._start), 0)
            if seconds is None or left < seconds:
                seconds, bound = left, f"the {self._wall_left:g} s that its budget had left"
        assert handler is not None
        if await self._is_revoked():  # while it waited for another answer, or for the journal
            raise StepFailed("revoked", "run", "its approval was revoked before it ran")
        running = asyncio.ensure_future(self._handled("run", handler))
        watching = asyncio.ensure_future(self._revoked()) if self._answers else None
        try:
            await asyncio.wait(
                {running, *([watching] if watching else [])},
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if running.done():
                return running.result()
        finally:
            await self._stop(running, watching)
        if watching is not None and watching.done():
            watching.result()  # raises if nobody can tell any more whether it was revoked
            raise StepFailed("revoked", "run", "its approval was revoked while it ran")
        raise StepFailed("timeout", "run", f"{call.capability.id} took longer than {bound}")

    async def _stop(self, *tasks: asyncio.Future[Any] | None) -> None:
        """Cancel tasks, and wait until they have ended; a handler that does not end is left behind after a while."""
        under_way = {task for task in tasks if task is not None and not task.done()}
        for task in under_way:
            task.cancel()
        if not under_way:
            return
        done, left = await asyncio.wait(under_way, timeout=_STOPS_WITHIN)
        for task in done:
            if not task.cancelled():
                task.exception()  # or asyncio reports that nobody has asked for it
        for task in left:
            self._call.warnings.append(f"{self._call.capability.id} does not stop, and goes on")
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _handled(self, step: Step, function: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return what a function of the capability returns. Raises `StepFailed` for whatever it raises."""
        id = self._call.capability.id
        try:
            return await function(self._call)
        except (KeyboardInterrupt, StepFailed):
            raise
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise StepFailed("failed", step, f"{id} cancelled itself") from None
        except BudgetExceeded as error:
            raise StepFailed("exceeded", "budget", str(error), "ask for less, or for a larger budget") from None
        except BaseException as error:
            raise StepFailed("failed", step, f"{id} failed: {_text_of(error)}") from error

    async def _revoked(self) -> None:
        """Return once an approval is taken back."""
        while not await self._is_revoked():  # noqa: ASYNC110 - another process may revoke it
            await asyncio.sleep(_LOOK_EVERY)

    async def _is_revoked(self) -> bool:
        """Return whether one of the approvals that the invocation has was taken back."""
        approvals = self._governance.approvals
        try:
            return approvals is not None and any([await approvals.is_revoked(one) for one in self._answers])
        except StoreError as error:
            why = f"nobody can tell any more whether its approval was revoked: {error}"
            raise StepFailed("unavailable", "run", why) from None

    async def _validate_output(self, output: Any) -> bytes:
        return await aside(self._checked, output)

    def _checked(self, output: Any) -> bytes:
        """Return an output as bytes. Raises `StepFailed` for one that is none of this capability."""
        id = self._call.capability.id
        if is_large(output, MOST_OUTPUT_VALUES, MOST_OUTPUT_BYTES):
            most = f"{MOST_OUTPUT_BYTES // _MIB} MiB are the most, and {MOST_OUTPUT_VALUES:,} values"
            raise StepFailed("invalid", "validate_output", f"the output of {id} is too large: {most}")
        try:
            data = canonical(output)
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_output", f"the output of {id}: {error}") from None
        if problems := self._call.capability.output_schema.problems(output):
            raise StepFailed("invalid", "validate_output", f"the output does not fit {id}: {'; '.join(problems)}")
        return data

    async def _end(self, output: Any, data: bytes, error: InvocationError | None) -> Outcome:
        """Settle what was used, write down the end, and return the outcome."""
        call, journal = self._call, self._governance.journal
        if self._has_begun:
            call.used.setdefault("wall_seconds", time.perf_counter() - self._start)
            call.used.setdefault("steps", 1)
            call.warnings += call.meter.charge_money(call.used, self._governance.prices)
            call.meter.output_bytes = len(data)
        if call.reservation is not None:
            for warned in call.reservation.settle(call.owed()):
                call.warnings.append(str(warned))
                call.event("budget", "note", str(warned))
        lowered = call.output_label if error is None else None
        labels = (call.labels if lowered is None else lowered) | call.capability.data
        outcome = self._outcome(output, error, labels)
        said = {**self._about(), "labels": str(labels), "usage": dict(call.used), "ok": error is None}
        said |= {"engine": call.engine, "environment": call.environment}
        if error is not None:
            said["error"] = error.to_dict()
        if self._has_begun:
            said |= call.meter.to_dict()
            if self._governance.metrics is not None:
                try:
                    self._governance.metrics.record(Metered.of(said))
                except Exception:
                    _log.exception("the metrics of the invocation %s could not be recorded", call.id)
        if journal is None:
            return outcome
        kind = "ended" if self._has_begun else "refused"
        closes = self._key if self._has_begun else ""
        try:
            entry = await journal.append(
                kind,
                said,
                invocation=call.id,
                blobs={**call.kept, **({"output": data} if error is None else {})},
                closes=closes,
                outcome=outcome.to_dict() if closes else None,
            )
        except (StoreError, InvalidValue) as failure:
            why = f"{failure}; {'it was run' if self._has_begun else 'it was not run'}"
            if self._governance.on_journal_failure == "warn" or error is not None:
                call.warnings.append(f"the journal lacks the end of this invocation: {why}")
                return self._outcome(output, error, labels)
            return self._outcome(None, InvocationError("unavailable", "journal", why), labels)
        return self._outcome(output, error, labels, entry.seq)

    def _about(self) -> dict[str, Any]:
        call = self._call
        return {
            "capability": call.capability.id,
            "version": call.capability.version,
            "caller": call.caller,
            "user": call.user,
            "run": call.run,
            "labels": str(call.labels),
        }

    def _outcome(self, output: Any, error: InvocationError | None, labels: Label, entry: int = 0) -> Outcome:
        call = self._call
        return Outcome(
            id=call.id,
            capability=call.capability.id,
            version=call.capability.version,
            output=output,
            error=error,
            labels=labels,
            usage=dict(call.used),
            entry=entry,
            engine=call.engine,
            environment=call.environment,
            approval=self._approval,
            warnings=tuple(call.warnings),
        )


def _text_of(error: BaseException) -> str:
    """Return the sentence of an exception, of some length at most, also of one that has none."""
    try:
        told = str(error)
    except Exception:
        told = "an exception without a message"
    return (told if isinstance(error, ActboxError) else f"{type(error).__name__}: {told}")[:10_000]


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
