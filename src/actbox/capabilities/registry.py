"""The registry: capabilities by their names, found, described and invoked."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from actbox.background_loop import call
from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.tools import Approver

from .approvals import Approvals
from .budgets import Account, Budget
from .capability import FUNCTIONS, Capability
from .database import StoreError
from .invocation import Governance, Invocation, digest_of, labels_of, new_id
from .journal import Journal
from .metering import Metrics
from .outcome import InvocationError, Outcome, StepEvent
from .pipeline import invoke
from .prices import Prices

_PREFIX = "ccos."


class Registry:
    """Named operations that agents share, and what governs their use. The specification calls it a marketplace.

    A capability is found under its `id`, and with `ccos.` before it.
    """

    def __init__(
        self,
        capabilities: Iterable[Capability] = (),
        *,
        approvals: Approvals | None = None,
        approver: Approver | None = None,
        journal: Journal | None = None,
        budget: Budget | None = None,
        granted: Iterable[str] = (),
        egress_max: Label | str | None = None,
        on_journal_failure: Literal["stop", "warn"] = "stop",
        on_limit: Literal["stop", "ask"] = "stop",
        sandboxes: Any = None,
        prices: Prices | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`budget` is what all invocations together may use; where it is used up, they are refused, or somebody is
        asked whether it may be more (`on_limit`). `granted` are kinds of approval that need no question.

        `approvals` asks, remembers and shares answers; `approver` is asked where there are none. `metrics` records each
        invocation for OpenTelemetry. See `Governance` for the rest.
        """
        if isinstance(granted, str):
            raise InvalidValue(f"granted is a list of kinds such as ['compute'], not {granted!r}")
        self._capabilities: dict[str, Capability] = {}
        self.account = Account(budget or Budget(), on_limit=on_limit)
        """The account of all invocations, above the account of each."""
        self._sandboxes = sandboxes
        self._sandboxes_of: dict[str, Any] = {}
        """The sandboxes of other registries whose capabilities are registered here, by the capabilities' names."""
        self._running: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[Outcome]] = {}
        """The invocations with idempotency keys that run here now, by their event loops."""
        self._governance = Governance(
            approvals=approvals,
            approver=approver,
            journal=journal,
            granted=frozenset(granted),
            egress_max=None if egress_max is None else Label(egress_max),
            on_journal_failure=on_journal_failure,
            prices=prices,
            metrics=metrics,
        )
        for one in capabilities:
            self.register(one)

    @property
    def journal(self) -> Journal | None:
        """The journal of all invocations."""
        return self._governance.journal

    def register(self, *capabilities: Capability | Registry) -> None:
        """Add capabilities, or all of another registry, which then are governed by this one.

        Raises `InvalidValue` for an id that is registered already.
        """
        for given in capabilities:
            if not isinstance(given, Capability | Registry):
                raise InvalidValue(f"a registry takes capabilities, such as Capability.from_function(…), not {given!r}")
            for one in given.list() if isinstance(given, Registry) else (given,):
                if (name := _plain(one.id)) in self._capabilities:
                    raise InvalidValue(f"there is a capability {one.id!r} already")
                self._capabilities[name] = one
                if isinstance(given, Registry):
                    self._sandboxes_of[name] = given._sandboxes_of.get(name, given._sandboxes)

    def declare(self, declared: Capability) -> None:
        """Let a registered capability have another declaration, as of a `(capability …)` form, and keep its handler.

        Raises `InvalidValue` if there is none of this id.
        """
        known = self.find(declared.id)
        functions = {name: getattr(known, name) for name in FUNCTIONS}
        self._capabilities[_plain(declared.id)] = replace(declared, **functions)

    def list(self) -> tuple[Capability, ...]:
        """Return all capabilities, sorted by their ids."""
        return tuple(self._capabilities[name] for name in sorted(self._capabilities))

    def search(self, text: str, *, most: int = 20) -> tuple[Capability, ...]:
        """Return the capabilities whose id or description has words of a text, those with the most first."""
        words = _words(text)
        found = []
        for one in self.list():
            if hits := len(words & _words(f"{one.id} {one.description}")):
                found.append((-hits, one.id, one))
        return tuple(one for *_, one in sorted(found, key=lambda each: each[:2])[:most])

    def find(self, id: str) -> Capability:
        """Return a capability. Raises `InvalidValue`, which names the nearest, if there is none of this id."""
        found = self._capabilities.get(_plain(id)) if isinstance(id, str) else None
        if found is None:
            near = difflib.get_close_matches(_plain(str(id))[:200], list(self._capabilities), n=1, cutoff=0.5)
            raise InvalidValue(
                f"there is no capability {str(id)[:200]!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
        return found

    def describe(self, id: str) -> dict[str, Any]:
        """Return what is declared of a capability as JSON data, with its schemas as JSON Schema.

        Raises `InvalidValue` if there is none of this id.
        """
        one = self.find(id)
        return {
            "id": one.id,
            "version": one.version,
            "description": one.description,
            "input_schema": one.input_schema.to_json(),
            "output_schema": one.output_schema.to_json(),
            "effects": list(one.effects),
            "risk": one.risk,
            "approvals": list(one.approvals),
            "data": str(one.data),
            "runtime": {"type": one.runtime.type, "image": one.runtime.image},
            "resources": {"memory_mb": one.resources.memory_mb, "timeout_ms": one.resources.timeout_ms},
            "estimates": one.estimates.amounts(),
            "network": list(one.network),
            "filesystem": list(one.filesystem),
            "secrets": list(one.secrets),
            "retry_safe": one.retry_safe,
        }

    async def invoke(
        self,
        id: str,
        input: Mapping[str, Any],
        *,
        caller: str = "",
        run: str = "",
        user: str = "",
        budget: Budget | Account | None = None,
        labels: Label | str | Mapping[str, Label | str] | None = None,
        idempotency_key: str | None = None,
        retries: int = 0,
        on_event: Callable[[StepEvent], object] | None = None,
    ) -> Outcome:
        """Use a capability, and return the outcome; failures are outcomes, too.

        `caller` names the agent, `user` the person for whom it acts, `run` the conversation. `budget` bounds this
        invocation, or is the account of several, below that of the registry. `labels` are those of the input: one, or
        some by field. Two invocations of one caller with the same `idempotency_key` are one: the second has the first's
        outcome. A run that fails is tried again up to `retries` times, which a capability must declare to be safe.
        Raises `InvalidValue` for a budget of more than the registry has left, or that is not below it, and for a key
        without a journal.
        """
        if type(retries) is not int or retries < 0:
            raise InvalidValue(f"retries is a whole number from 0, not {retries!r}")
        if idempotency_key is not None and self.journal is None:
            raise InvalidValue("an idempotency key needs a journal, which remembers the outcomes")
        account = self._account(budget)
        number = new_id()
        try:
            capability = self.find(id)
        except InvalidValue as error:
            unknown = InvocationError("invalid", "validate_input", str(error))
            outcome = Outcome(id=number, capability=str(id)[:200], version="", error=unknown, labels=labels_of(labels))
            return await self._written(outcome, caller=caller, user=user, run=run)
        made = Invocation(
            number,
            capability,
            input,
            caller,
            run,
            labels_of(labels),
            account,
            on_event or (lambda event: None),
            retries=retries,
            sandboxes=self._sandboxes_of.get(_plain(capability.id)) or self._sandboxes,
            user=user,
        )
        if idempotency_key is None:
            return await invoke(made, self._governance)
        return await self._once(made, idempotency_key)

    async def stream(self, id: str, input: Mapping[str, Any], **more: Any) -> AsyncIterator[StepEvent | Outcome]:
        """Use a capability, and yield an event for each step, then the outcome. Parameters are those of `invoke`."""
        events: asyncio.Queue[StepEvent] = asyncio.Queue()
        running = asyncio.ensure_future(self.invoke(id, input, **more, on_event=events.put_nowait))
        try:
            while not running.done() or not events.empty():
                waiting = asyncio.ensure_future(events.get())
                try:
                    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()  # nothing happens to one that is done
                if waiting.done():
                    yield waiting.result()
            yield running.result()
        finally:
            if not running.done():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    def invoke_sync(self, id: str, input: Mapping[str, Any], **more: Any) -> Outcome:
        """Use a capability as `invoke` does, without an event loop. Blocks. Use a registry in one of both ways only."""
        return call(self.invoke(id, input, **more))

    def _account(self, budget: Budget | Account | None) -> Account:
        if isinstance(budget, Account):
            if not budget.draws_on(self.account) and self.account.left != Budget():
                raise InvalidValue("the registry has a budget of its own: take Account(budget, registry.account)")
            return budget
        if not isinstance(budget, Budget | None):
            raise InvalidValue(f"budget is a Budget(…) or an Account, not {budget!r}")
        return Account(budget or Budget(), self.account, on_limit=self.account.on_limit)

    async def _once(self, call: Invocation, given: str) -> Outcome:
        """Return the outcome of an earlier invocation with a key, else invoke and remember it."""
        journal = self.journal
        assert journal is not None
        try:
            # The outcome has the label of its input, so another label is another input.
            request = digest_of(call.input if call.labels == PUBLIC else [call.input, str(call.labels)])
        except InvalidValue:
            return await invoke(call, self._governance)  # which says what is wrong with it
        key = f"{digest_of([call.caller, call.capability.id, given])}:{request}"
        here = (asyncio.get_running_loop(), key)  # another loop is like another process
        while (running := self._running.get(here)) is not None:
            await asyncio.wait({running})
            if not running.cancelled() and running.exception() is None:
                return _repeated(running.result(), call)
        self._running[here] = own = here[0].create_future()
        try:
            outcome = await self._first(call, journal, key)
            own.set_result(outcome)
            return outcome
        finally:
            own.cancel()
            del self._running[here]

    async def _first(self, call: Invocation, journal: Journal, key: str) -> Outcome:
        known = await journal.remembered(key)
        if known.is_other:
            return await self._refused(call, "the idempotency key belongs to an invocation with another input or label")
        if known.outcome is not None:
            return _repeated(Outcome.from_dict({**known.outcome, "entry": known.seq}), call)
        if known.is_open and not call.capability.retry_safe:
            why = "an earlier invocation with this key has begun, and nobody knows whether it has ended"
            return await self._refused(call, why, "look into the journal, and use another key")
        return await invoke(call, self._governance, key, is_again=known.is_open)

    async def _refused(self, call: Invocation, why: str, hint: str = "") -> Outcome:
        error, capability = InvocationError("refused", "validate_input", why, hint), call.capability
        outcome = Outcome(
            id=call.id, capability=capability.id, version=capability.version, error=error, labels=call.labels
        )
        return await self._written(outcome, caller=call.caller, user=call.user, run=call.run)

    async def _written(self, outcome: Outcome, **who: str) -> Outcome:
        """Write down that something was refused before its first step, and return the outcome."""
        if self.journal is None or outcome.error is None:
            return outcome
        about = {"capability": outcome.capability, "version": outcome.version, "labels": str(outcome.labels)}
        try:
            entry = await self.journal.append(
                "refused", {**about, **who, "ok": False, "error": outcome.error.to_dict()}, invocation=outcome.id
            )
        except (StoreError, InvalidValue) as failure:
            return replace(outcome, warnings=(f"the journal lacks this invocation: {failure}; it was not run",))
        return replace(outcome, entry=entry.seq)


def _repeated(outcome: Outcome, call: Invocation) -> Outcome:
    """Return an earlier outcome for an invocation, whose input may have a higher label than that of the first had."""
    return replace(outcome, repeated=True, labels=outcome.labels | call.labels)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _plain(id: str) -> str:
    return id.removeprefix(_PREFIX)
