"""One invocation of a capability: validated, labelled, budgeted, approved, run, validated again, metered, journalled.

Each step can refuse, and whatever refuses says so in the outcome with the name of the step. Nothing runs before its
budget is set aside, its approval is given and its beginning is in the journal.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.tools import ApprovalRequest, Approver
from actbox.tools.approval import decision_of

from .approvals import Approvals, Question
from .budgets import Account, Budget, BudgetExceeded, Reservation
from .capability import Capability
from .database import StoreError
from .journal import Journal
from .outcome import InvocationError, Outcome, Step, StepEvent, StepFailed

MOST_OUTPUT_BYTES: Final = 64 * 2**20
"""The most bytes of JSON that an output may have."""
_LOOK_EVERY: Final = 1.0
_MIB: Final = 2**20


@dataclass(slots=True)
class Invocation:
    """One invocation, as its handler sees it; see `Call`."""

    id: str
    capability: Capability
    input: Mapping[str, Any]
    caller: str
    run: str
    labels: Label
    account: Account
    tell: Callable[[StepEvent], object] = lambda event: None
    used: dict[str, float] = field(default_factory=dict)
    engine: str = ""
    environment: str = ""
    warnings: list[str] = field(default_factory=list)

    def raise_label(self, label: Label | str) -> None:
        """Raise the label of what the invocation has read; no call lowers it."""
        self.labels |= Label(label)

    def charge(self, **amounts: float) -> None:
        """Count what the invocation has used, by the dimensions of `Budget`; of `memory_mib` the peak counts.

        Raises `InvalidValue` for another dimension, or an amount that is no number from zero.
        """
        Budget(**amounts)  # type: ignore[arg-type]  # a check of the names and amounts
        for name, amount in amounts.items():
            before = self.used.get(name, 0)
            self.used[name] = max(before, amount) if name == "memory_mib" else before + amount

    def event(self, step: str, what: Literal["begun", "done", "failed", "note"], message: str = "") -> None:
        """Tell whoever follows the invocation."""
        self.tell(StepEvent(self.id, self.capability.id, step, what, message))


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """What decides about the invocations of one registry.

    `granted` are the kinds of approval that need no question. `egress_max` is the highest label that a capability with
    the effects `network` or `llm` may be given, `None` for any. If the journal cannot be written after the run, the
    output is withheld (`stop`) or given with a warning (`warn`).
    """

    approvals: Approvals | None = None
    approver: Approver | None = None
    journal: Journal | None = None
    granted: frozenset[str] = frozenset()
    egress_max: Label | None = None
    on_journal_failure: Literal["stop", "warn"] = "stop"


def new_id() -> str:
    """Return the identity of an invocation."""
    return secrets.token_hex(12)


def digest_of(data: object) -> str:
    """Return the SHA-256 of JSON data. Raises `InvalidValue` for anything else."""
    return hashlib.sha256(canonical(data)).hexdigest()


def canonical(data: object) -> bytes:
    """Return JSON data as bytes, the same for equal data. Raises `InvalidValue` for anything else."""
    try:
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"this is no JSON data: {error}") from None


def worst_case(capability: Capability) -> Budget:
    """Return what one invocation may use at most, as far as the capability declares it."""
    found = {"steps": 1, **capability.estimates.amounts()}
    if capability.resources.timeout_ms is not None:
        found.setdefault("wall_seconds", capability.resources.timeout_ms / 1000)
    if capability.resources.memory_mb is not None:
        found.setdefault("memory_mib", capability.resources.memory_mb)
    return Budget(**found)  # type: ignore[arg-type]  # numbers by their dimension


async def invoke(call: Invocation, governance: Governance, key: str = "") -> Outcome:
    """Take an invocation through all steps, and return its outcome. Cancelling it is an outcome in the journal too.

    With `key` the journal remembers the outcome for later invocations with the same key, once the run has begun.
    """
    pipeline = _Pipeline(call, governance, key)
    try:
        return await pipeline.outcome()
    except asyncio.CancelledError:
        await asyncio.shield(pipeline.cancelled())
        raise


class _Pipeline:
    def __init__(self, call: Invocation, governance: Governance, key: str) -> None:
        self._call = call
        self._governance = governance
        self._key = key
        self._step: Step = "validate_input"
        self._reservation: Reservation | None = None
        self._approval = ""
        self._has_begun = False
        self._start = time.perf_counter()

    async def outcome(self) -> Outcome:
        try:
            await self._do("validate_input", self._validate_input)
            await self._do("label", self._label)
            await self._do("budget", self._reserve)
            await self._do("approval", self._approve)
            await self._do("journal", self._begin)
            output = await self._do("run", self._run)
            data = await self._do("validate_output", partial(self._validate_output, output))
            return await self._end(output, data, None)
        except StepFailed as failure:
            return await self._end(None, b"", failure.error)

    async def cancelled(self) -> None:
        """Write down that the invocation was cancelled."""
        await self._end(None, b"", InvocationError("cancelled", self._step, "the invocation was cancelled"))

    async def _do(self, step: Step, work: Callable[[], Any]) -> Any:
        self._step = step
        self._call.event(step, "begun")
        try:
            done = await work()
        except StepFailed as failure:
            self._call.event(step, "failed", failure.error.message)
            raise
        self._call.event(step, "done")
        return done

    async def _validate_input(self) -> None:
        capability, given = self._call.capability, self._call.input
        try:
            canonical(given)
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_input", f"the input of {capability.id}: {error}") from None
        if problems := capability.input_schema.problems(given):
            why = "; ".join(problems)
            hint = f"registry.describe({capability.id!r}) has the schema"
            raise StepFailed("invalid", "validate_input", f"the input does not fit {capability.id}: {why}", hint)
        if capability.handler is None:
            raise StepFailed("unavailable", "validate_input", f"nothing here carries out {capability.id}")

    async def _label(self) -> None:
        most, capability = self._governance.egress_max, self._call.capability
        if most is not None and {"network", "llm"} & {*capability.effects} and not self._call.labels <= most:
            raise StepFailed(
                "refused",
                "label",
                f"{capability.id} may be given data up to {most}, and this has the label {self._call.labels}",
                "send data of a lower label, or have the label lowered by somebody who may",
            )

    async def _reserve(self) -> None:
        worst = worst_case(self._call.capability)
        while True:
            try:
                self._reservation = self._call.account.reserve(worst)
                return
            except BudgetExceeded as error:
                if self._call.account.on_limit != "ask":
                    raise StepFailed("exceeded", "budget", str(error), "ask for less, or for a larger budget") from None
                lacking = {one.dimension: one.asked - one.left for one in error.lacks}
                await self._ask("budget", f"{error}: may it have more?", {"more": lacking})
                self._call.account.extend(Budget(**lacking))  # type: ignore[arg-type]

    async def _approve(self) -> None:
        asked = [kind for kind in self._call.capability.approvals if kind not in self._governance.granted]
        if asked:
            await self._ask("approval", f"it needs the approval {', '.join(asked)}", {"kinds": asked})

    async def _ask(self, step: Step, reason: str, more: Mapping[str, Any]) -> None:
        """Ask whoever approves. Raises `StepFailed` if there is no yes."""
        call, capability = self._call, self._call.capability
        shown = {"risk": capability.risk, "effects": list(capability.effects), "labels": str(call.labels)}
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
            approved, why, by = answer.approved, answer.reason, answer.by
        elif self._governance.approver is not None:
            request = ApprovalRequest(
                id=call.id,
                what="call",
                program=str(call.input.get("code", "")),
                reason=reason,
                tool=capability.id,
                arguments=call.input,
            )
            decision = await decision_of(self._governance.approver, request)
            approved, why, by = decision.approved, decision.reason, decision.by
        else:
            approved, why, by = False, "nobody can be asked", ""
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
                "worst": worst_case(call.capability).amounts(),
            }
            blobs = {"input": canonical(call.input)}
            try:
                await journal.append("begun", body, invocation=call.id, blobs=blobs, opens=self._key)
            except (StoreError, InvalidValue) as error:
                raise StepFailed("unavailable", "journal", f"{error}; nothing was run") from None
        self._has_begun = True

    async def _run(self) -> Any:
        call = self._call
        handler, milliseconds = call.capability.handler, call.capability.resources.timeout_ms
        assert handler is not None
        running = asyncio.ensure_future(handler(call))
        watching = asyncio.ensure_future(self._revoked()) if self._approval else None
        try:
            await asyncio.wait(
                {running, *([watching] if watching else [])},
                timeout=None if milliseconds is None else milliseconds / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if running.done():
                return running.result()
        except asyncio.CancelledError:
            if running.cancelled() and not _is_cancelled():
                raise StepFailed("failed", "run", f"{call.capability.id} cancelled itself") from None
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except StepFailed:
            raise
        except BaseException as error:
            told = str(error) if isinstance(error, ActboxError) else f"{type(error).__name__}: {error}"
            raise StepFailed("failed", "run", f"{call.capability.id} failed: {told}"[:10_000]) from error
        finally:
            for task in (running, watching):
                if task is not None and not task.done():
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
        if watching is not None and watching.done():
            raise StepFailed("revoked", "run", "its approval was revoked while it ran")
        raise StepFailed("timeout", "run", f"{call.capability.id} took longer than {milliseconds} ms")

    async def _revoked(self) -> None:
        """Return once the approval is taken back."""
        approvals = self._governance.approvals
        assert approvals is not None
        while not await approvals.is_revoked(self._approval):
            await asyncio.sleep(_LOOK_EVERY)

    async def _validate_output(self, output: Any) -> bytes:
        capability = self._call.capability
        try:
            data = canonical(output)
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_output", f"the output of {capability.id}: {error}") from None
        if len(data) > MOST_OUTPUT_BYTES:
            size = f"{len(data) / _MIB:,.1f} MiB, and {MOST_OUTPUT_BYTES // _MIB} MiB are the most"
            raise StepFailed("invalid", "validate_output", f"the output of {capability.id} has {size}")
        if problems := capability.output_schema.problems(output):
            why = "; ".join(problems)
            raise StepFailed("invalid", "validate_output", f"the output does not fit {capability.id}: {why}")
        return data

    async def _end(self, output: Any, data: bytes, error: InvocationError | None) -> Outcome:
        """Settle what was used, write down the end, and return the outcome."""
        call, journal = self._call, self._governance.journal
        if self._has_begun:
            call.used.setdefault("wall_seconds", time.perf_counter() - self._start)
            call.used.setdefault("steps", 1)
        if self._reservation is not None:
            self._reservation.settle(call.used)
        labels = call.labels | call.capability.data
        outcome = self._outcome(output, error, labels)
        if journal is None:
            return outcome
        said = {**self._about(), "labels": str(labels), "usage": dict(call.used), "ok": error is None}
        said |= {"engine": call.engine, "environment": call.environment}
        if error is not None:
            said["error"] = error.to_dict()
        kind = "ended" if self._has_begun else "refused"
        closes = self._key if self._has_begun else ""
        try:
            entry = await journal.append(
                kind,
                said,
                invocation=call.id,
                blobs={"output": data} if error is None else {},
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


def labels_of(given: Label | str | Mapping[str, Label | str] | None) -> Label:
    """Return the join of the labels of an input: one for all of it, or some by the names of its fields."""
    if given is None:
        return PUBLIC
    return Label(*given.values()) if isinstance(given, Mapping) else Label(given)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
