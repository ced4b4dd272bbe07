"""Invocations: each step can refuse, and says so; nothing happens before the steps before it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actbox.capabilities import Budget, Capability, Journal, Label
from actbox.capabilities.approvals import AlreadyAnswered, Approvals
from actbox.capabilities.budgets import Account
from actbox.capabilities.capability import Resources
from actbox.capabilities.invocation import Invocation, digest_of
from actbox.capabilities.outcome import Outcome, StepEvent
from actbox.capabilities.prices import Prices
from actbox.capabilities.registry import Registry
from actbox.codeact import CallbackApprover
from actbox.core.errors import InvalidValue
from actbox.tools import ApprovalDecision

TAKES = "[:map [:text :string]]"


def capability(
    handler: Callable[[Invocation], Any] | None = None, id: str = "kit.echo", output: object = ":string", **more: Any
) -> Capability:
    async def echo(call: Invocation) -> Any:
        done = handler(call) if handler is not None else call.input["text"]
        return await done if asyncio.iscoroutine(done) else done

    return Capability(id, "Return the text", TAKES, output, handler=echo, **more)  # type: ignore[arg-type]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(f"sqlite:///{tmp_path}/journal.db")
    yield opened
    opened.close()


async def kinds(journal: Journal) -> list[str]:
    return [entry.kind async for entry in journal.entries()]


async def test_a_whole_invocation_is_told_and_written_down(journal: Journal) -> None:
    told: list[StepEvent] = []
    registry = Registry([capability(data="internal")], journal=journal)
    done = await registry.invoke(
        "ccos.kit.echo", {"text": "hi"}, caller="agent-1", labels={"text": "pii.email"}, on_event=told.append
    )
    assert (done.ok, done.output, done.labels) == (True, "hi", Label("internal", "pii.email"))
    steps = ["validate_input", "label", "budget", "approval", "journal", "run", "validate_output"]
    assert [one.step for one in told if one.what == "begun"] == steps
    assert [one.step for one in told if one.what == "done"] == steps
    begun, ended = [entry async for entry in journal.entries()]
    assert (begun.kind, ended.kind, done.entry, begun.invocation) == ("begun", "ended", ended.seq, done.id)
    assert begun.body["caller"] == "agent-1" and ended.body["labels"] == "internal+pii.email"
    assert await journal.blob(ended.body["output"]) == b'"hi"'
    assert (await journal.verify()).ok


def slow(call: Invocation) -> Any:
    return asyncio.Event().wait()


def raises(call: Invocation) -> Any:
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("made", "given", "step", "kind", "message"),
    [
        (capability(), {"text": 3}, "validate_input", "invalid", "text: "),
        (capability(), {"text": "x", "more": 1}, "validate_input", "invalid", "more"),
        (capability(), {"text": float("nan")}, "validate_input", "invalid", "JSON"),
        (Capability("kit.echo", "", TAKES, True), {"text": "x"}, "validate_input", "unavailable", "nothing here"),
        (
            capability(effects=("network",)),
            {"text": "x"},
            "label",
            "refused",
            "up to public, and this has the label pii",
        ),
        (capability(estimates=Budget(usd=2)), {"text": "x"}, "budget", "exceeded", "usd: 2 asked for, 1 of 1 left"),
        (capability(approvals=("compute",)), {"text": "x"}, "approval", "refused", "nobody can be asked"),
        (capability(raises), {"text": "x"}, "run", "failed", "ValueError: no luck"),
        (capability(slow, resources=Resources(timeout_ms=1)), {"text": "x"}, "run", "timeout", "longer than 1 ms"),
        (capability(lambda call: 3), {"text": "x"}, "validate_output", "invalid", "does not fit kit.echo"),
        (capability(lambda call: object(), output=True), {"text": "x"}, "validate_output", "invalid", "no JSON"),
    ],
)
async def test_an_error_names_its_step(
    made: Capability, given: dict[str, Any], step: str, kind: str, message: str, journal: Journal
) -> None:
    registry = Registry([made], journal=journal, egress_max="public", budget=Budget(usd=1))
    done = await registry.invoke("kit.echo", given, labels="pii")
    assert done.error is not None and (done.error.step, done.error.kind) == (step, kind), done.error
    assert done.output is None and message in done.error.message, done.error
    has_begun = step in ("run", "validate_output")
    assert await kinds(journal) == (["begun", "ended"] if has_begun else ["refused"])
    assert registry.account.left == Budget(usd=1)


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def sync_handler(call: Invocation) -> Any:
    raise ValueError("at once")


def leaves(call: Invocation) -> Any:
    raise SystemExit(3)


def mute(call: Invocation) -> Any:
    raise _Mute


def broken(*given: Any) -> Any:
    raise KeyError("no such rate")


def endless(call: Invocation) -> Any:
    output: list[Any] = []
    output.append(output)
    return output


@pytest.mark.parametrize(
    ("made", "step", "message"),
    [
        (Capability("kit.echo", "", TAKES, True, handler=sync_handler), "run", "ValueError: at once"),  # type: ignore[arg-type]
        (Capability("kit.echo", "", TAKES, True, handler=lambda call: 3), "run", "can't be used in 'await'"),  # type: ignore[arg-type]
        (capability(leaves), "run", "SystemExit: 3"),
        (capability(mute), "run", "_Mute: an exception without a message"),
        (capability(worst_case=broken), "budget", "KeyError: 'no such rate'"),
        (capability(prepare=broken), "validate_input", "KeyError: 'no such rate'"),
        (capability(endless, output=True), "validate_output", "too large"),
    ],
)
async def test_a_function_that_fails_oddly_is_an_outcome_and_costs_no_more(
    made: Capability, step: str, message: str, journal: Journal
) -> None:
    registry = Registry([made], journal=journal, budget=Budget(usd=1))
    done = await registry.invoke("kit.echo", {"text": "x"})
    assert done.error is not None and done.error.step == step and message in done.error.message, done.error
    assert (await kinds(journal))[-1] == ("refused" if step in ("budget", "validate_input") else "ended")
    assert registry.account.left == Budget(usd=1)


async def test_a_follower_that_fails_changes_nothing() -> None:
    account = Account(Budget(steps=1), on_warning=broken)
    done = await Registry([capability()]).invoke("kit.echo", {"text": "x"}, budget=account, on_event=broken)
    assert done.ok and account.left == Budget(steps=0)


async def test_wall_time_that_nobody_declared_is_bounded_by_what_is_left() -> None:
    registry = Registry([capability(slow)], budget=Budget(wall_seconds=0.05))
    done = await registry.invoke("kit.echo", {"text": "x"})
    assert done.error is not None and (done.error.kind, done.error.step) == ("timeout", "run"), done.error
    assert "that its budget had left" in done.error.message
    done = await registry.invoke("kit.echo", {"text": "x"})
    assert done.error is not None and (done.error.kind, done.error.step) == ("exceeded", "budget"), done.error


async def test_each_invocation_is_a_tool_call() -> None:
    registry = Registry([capability()], budget=Budget(tool_calls=5))
    done = await asyncio.gather(*(registry.invoke("kit.echo", {"text": "x"}) for _ in range(200)))
    assert sum(one.ok for one in done) == 5 and registry.account.left == Budget(tool_calls=0)


async def test_the_money_of_the_worst_case_is_set_aside() -> None:
    def compute(call: Invocation) -> str:
        call.charge(cpu_seconds=1)
        return "done"

    made = capability(compute, estimates=Budget(cpu_seconds=10))
    registry = Registry([made], budget=Budget(usd=1), prices=Prices(cpu_second="0.05"))
    assert [(await registry.invoke("kit.echo", {"text": "x"})).ok for _ in range(12)] == [True] * 11 + [False]


async def test_an_approver_that_agrees_to_other_arguments_has_not_agreed() -> None:
    ran: list[str] = []
    made = capability(lambda call: ran.append("x") or "x", approvals=("pay",))
    approver = CallbackApprover(lambda request: ApprovalDecision(True, edited={"text": "less"}))
    done = await Registry([made], approver=approver).invoke("kit.echo", {"text": "more"})
    assert done.error is not None and "agreed to other arguments" in done.error.message and not ran


async def test_an_input_without_fields_takes_none() -> None:
    async def one(call: object) -> int:
        return 1

    for schema, ok in (("[:map]", False), ({"type": "object"}, False), ("[:map :string :any]", True)):
        registry = Registry([Capability("kit.one", "", schema, ":int", handler=one)])
        assert (await registry.invoke("kit.one", {})).ok
        assert (await registry.invoke("kit.one", {"more": 1})).ok is ok


async def test_an_unknown_capability_names_the_nearest_and_is_written_down(journal: Journal) -> None:
    done = await Registry([capability()], journal=journal).invoke("kit.ecko", {"text": "x"}, caller="ann")
    assert done.error is not None and "did you mean 'kit.echo'" in done.error.message
    [entry] = [entry async for entry in journal.entries()]
    assert (entry.kind, entry.seq, entry.body["capability"], entry.body["caller"]) == (
        "refused",
        done.entry,
        "kit.ecko",
        "ann",
    )


async def test_what_was_used_is_charged_to_all_accounts() -> None:
    def spend(call: Invocation) -> str:
        call.charge(tokens=30, usd=0.25, memory_mib=100)
        call.charge(tokens=10, memory_mib=50)
        return "done"

    registry = Registry([capability(spend)], budget=Budget(tokens=100, usd=1))
    mine = Account(Budget(tokens=50), registry.account)
    done = await registry.invoke("kit.echo", {"text": "x"}, budget=mine)
    assert {name: done.usage[name] for name in ("tokens", "usd", "memory_mib", "steps")} == {
        "tokens": 40,
        "usd": 0.25,
        "memory_mib": 100,
        "steps": 1,
    }
    assert mine.left == Budget(tokens=10, usd=0.75) and registry.account.left == Budget(tokens=60, usd=0.75)


async def test_two_hundred_at_once_stay_within_one_budget() -> None:
    goes_on, runs = asyncio.Event(), []

    async def wait(call: Invocation) -> str:
        runs.append(call.id)
        await goes_on.wait()
        return "done"

    registry = Registry([capability(wait, estimates=Budget(usd=0.1))], budget=Budget(usd=1))
    all_of_them = [asyncio.ensure_future(registry.invoke("kit.echo", {"text": str(n)})) for n in range(200)]
    while len(runs) + sum(one.done() for one in all_of_them) < 200:
        await asyncio.sleep(0)
    goes_on.set()
    done = await asyncio.gather(*all_of_them)
    assert sum(one.ok for one in done) == 10
    assert {one.error.step for one in done if one.error is not None} == {"budget"}
    assert registry.account.left == Budget(usd=1)


async def test_a_budget_warns_and_a_charge_beyond_it_ends_the_run() -> None:
    def spend(call: Invocation) -> str:
        call.charge(tokens=60)
        call.charge(tokens=50)
        return "done"

    registry = Registry([capability(spend)])
    done = await registry.invoke("kit.echo", {"text": "x"}, budget=Budget(tokens=100))
    assert done.error is not None and (done.error.kind, done.error.step) == ("exceeded", "budget")
    assert done.usage["tokens"] == 110
    assert done.warnings == (
        "50% of the budget's tokens are used: 110 of 100",
        "80% of the budget's tokens are used: 110 of 100",
    )


async def test_three_charges_of_a_tenth_are_three_tenths() -> None:
    def spend(call: Invocation) -> str:
        for _ in range(3):
            call.charge(usd=0.1)
        return "done"

    registry = Registry([capability(spend, estimates=Budget(usd=0.3))], budget=Budget(usd=0.3))
    done = await registry.invoke("kit.echo", {"text": "x"})
    assert done.ok and done.usage["usd"] == 0.3 and registry.account.left == Budget(usd=0)


async def test_somebody_is_asked_whether_a_budget_may_be_more() -> None:
    asked: list[str] = []
    approver = CallbackApprover(lambda request: asked.append(request.reason) or True)
    made = capability(estimates=Budget(usd=2))
    registry = Registry([made], approver=approver, budget=Budget(usd=1), on_limit="ask")
    assert (await registry.invoke("kit.echo", {"text": "x"})).ok
    assert len(asked) == 1 and "usd: 2 asked for, 1 of 1 left: may it have more?" in asked[0]
    assert registry.account.left == Budget(usd=2)


async def test_an_approved_extension_is_no_larger_than_what_was_shown() -> None:
    asked: list[str] = []

    async def approve(request: Any) -> bool:
        asked.append(request.reason)
        if len(asked) == 1:  # while somebody thinks about it, others use up what was left
            assert (await registry.invoke("kit.echo", {"text": "1"})).ok
        return len(asked) == 1

    def usd(capability: Capability, given: Any) -> Budget:
        return Budget(usd=float(given["text"]))

    made = capability(lambda call: call.charge(usd=float(call.input["text"])) or "x", worst_case=usd)
    registry = Registry([made], approver=CallbackApprover(approve), budget=Budget(usd=1), on_limit="ask")
    done = await registry.invoke("kit.echo", {"text": "1.5"})
    assert done.error is not None and done.error.step == "budget" and len(asked) == 2
    assert "1.5 asked for, 1 of 1 left" in asked[0] and "1.5 asked for, 0.5 of 1.5 left" in asked[1]


async def test_runs_at_once_cannot_spend_more_money_than_there_is_by_the_prices() -> None:
    goes_on = asyncio.Event()

    async def wait(call: Invocation) -> str:
        await goes_on.wait()
        call.charge(cpu_seconds=10)
        return "done"

    made = capability(wait, estimates=Budget(cpu_seconds=10))
    registry = Registry([made], budget=Budget(usd=3), prices=Prices(cpu_second="0.1"))
    all_of_them = [asyncio.ensure_future(registry.invoke("kit.echo", {"text": str(n)})) for n in range(20)]
    while sum(one.done() for one in all_of_them) < 17:
        await asyncio.sleep(0)
    goes_on.set()
    assert sum(one.ok for one in await asyncio.gather(*all_of_them)) == 3
    assert registry.account.used["usd"] == 3


async def test_an_account_that_the_registry_does_not_bound_is_refused() -> None:
    registry = Registry([capability()], budget=Budget(steps=0))
    with pytest.raises(InvalidValue, match="a budget of its own"):
        await registry.invoke("kit.echo", {"text": "x"}, budget=Account(Budget()))
    assert (await Registry([capability()]).invoke("kit.echo", {"text": "x"}, budget=Account(Budget()))).ok


async def test_functions_of_others_that_fail_leave_no_gap(journal: Journal) -> None:
    def worst(capability: Capability, given: Any) -> Budget:
        raise KeyError("code")

    made = [capability(estimates=Budget(usd=1)), capability(id="kit.wrong", worst_case=worst)]
    registry = Registry(made, journal=journal, budget=Budget(usd=1))
    assert (await registry.invoke("kit.echo", {"text": "x"}, on_event=lambda event: 1 / 0)).ok
    done = await registry.invoke("kit.wrong", {"text": "x"})
    assert done.error is not None and (done.error.step, done.error.kind) == ("budget", "failed")
    assert "KeyError: 'code'" in done.error.message
    assert await kinds(journal) == ["begun", "ended", "refused"] and registry.account.left == Budget(usd=1)


async def test_a_handler_that_does_not_stop_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.capabilities.pipeline._STOPS_WITHIN", 0.01)
    ends, late = asyncio.Event(), []

    async def stubborn(call: Invocation) -> None:
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                pass
        with pytest.raises(InvalidValue, match="has ended"):
            call.charge(usd=1)
        late.append(call)

    registry = Registry([capability(stubborn, resources=Resources(timeout_ms=1))], budget=Budget(usd=2))
    done = await registry.invoke("kit.echo", {"text": "x"})
    ends.set()
    while not late:
        await asyncio.sleep(0)
    assert done.error is not None and done.error.kind == "timeout"
    assert done.warnings == ("kit.echo does not stop, and goes on",)
    assert registry.account.left == Budget(usd=1)  # it happened


async def test_what_was_approved_is_what_runs() -> None:
    given = {"text": "harmless"}

    def approve(request: Any) -> bool:
        given["text"] = "harmful"
        return request.arguments == {"text": "harmless"}

    registry = Registry([capability(approvals=("compute",))], approver=CallbackApprover(approve))
    assert (await registry.invoke("kit.echo", given)).output == "harmless"


async def test_what_prepare_finds_counts_before_anybody_is_asked() -> None:
    asked: list[str] = []

    async def prepare(call: Invocation) -> dict[str, Any]:
        if call.input["text"] == "wrong":
            raise ValueError("no such file")
        call.raise_label("pii")
        call.prepared = call.input["text"].upper()
        return {}

    made = capability(lambda call: call.prepared, approvals=("compute",), effects=("network",), prepare=prepare)
    approver = CallbackApprover(lambda request: asked.append("x") or True)
    registry = Registry([made], approver=approver, egress_max="public")
    for text, step in (("x", "label"), ("wrong", "validate_input")):
        done = await registry.invoke("kit.echo", {"text": text})
        assert done.error is not None and done.error.step == step, done.error
    assert not asked
    assert (await Registry([made], approver=approver).invoke("kit.echo", {"text": "x"})).output == "X"


async def test_a_run_is_tried_again_only_where_that_is_safe() -> None:
    tries: list[int] = []

    def fails_twice(call: Invocation) -> str:
        tries.append(1)
        call.charge(usd=1)
        if len(tries) < 3:
            raise OSError("busy")
        return "done"

    async def invoke(made: Capability, **more: Any) -> Outcome:
        return await Registry([made]).invoke("kit.echo", {"text": "x"}, **more)

    refused = await invoke(capability(fails_twice), retries=2)
    assert refused.error is not None and "does not say that a second run is safe" in refused.error.message and not tries
    safe = capability(fails_twice, retry_safe=True, estimates=Budget(usd=1))
    assert (await invoke(safe, retries=2, budget=Budget(usd=3))).output == "done" and len(tries) == 3
    tries.clear()
    poor = await invoke(safe, retries=2, budget=Budget(usd=2))
    assert poor.error is not None and "busy" in poor.error.message and len(tries) == 2
    with pytest.raises(InvalidValue, match="whole number"):
        await invoke(safe, retries=-1)


async def test_an_output_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    done = await Registry([capability(lambda call: "x" * (65 * 2**20))]).invoke("kit.echo", {"text": "x"})
    assert done.error is not None and (done.error.step, done.error.kind) == ("validate_output", "invalid")
    assert "64 MiB are the most" in done.error.message
    monkeypatch.setattr("actbox.capabilities.pipeline.MOST_OUTPUT_VALUES", 2_000)
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    done = await Registry([capability(lambda call: itself, output=True)]).invoke("kit.echo", {"text": "x"})
    assert done.error is not None and (done.error.step, done.error.kind) == ("validate_output", "invalid")


async def test_an_approver_is_asked_once_for_each_call() -> None:
    seen: list[Any] = []
    approver = CallbackApprover(lambda request: seen.append(request.arguments) or True)
    made = capability(approvals=("compute",))
    done = await Registry([made], approver=approver).invoke("kit.echo", {"text": "x"})
    assert done.ok and seen == [{"text": "x"}]
    told: list[str] = []
    approver = CallbackApprover(lambda request: bool(told.append(request.reason)))
    await Registry([made], approver=approver).invoke("kit.echo", {"text": "x"}, labels="pii.email")
    assert told == ["it needs the approval compute; its data has the label pii.email"]
    assert (await Registry([made], granted=["compute"]).invoke("kit.echo", {"text": "x"})).ok


async def test_a_revoked_approval_stops_what_runs_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.capabilities.pipeline._LOOK_EVERY", 0.01)
    approvals = Approvals.open(f"sqlite:///{tmp_path}/approvals.db")
    runs = asyncio.Event()

    async def long(call: Invocation) -> None:
        runs.set()
        await asyncio.Event().wait()

    registry = Registry([capability(long, approvals=("compute",))], approvals=approvals)
    invoking = asyncio.ensure_future(registry.invoke("kit.echo", {"text": "x"}, run="r1"))
    while not (waiting := await approvals.list("pending")):
        await asyncio.sleep(0)
    await approvals.approve(waiting[0].id, by="ann", scope="run")
    await runs.wait()
    await approvals.revoke(waiting[0].id, by="ann")
    done = await invoking
    assert done.error is not None and done.error.kind == "revoked" and done.approval == waiting[0].id
    approvals.close()


async def test_an_approval_that_is_revoked_before_the_run_begins_is_none(tmp_path: Path) -> None:
    approvals = Approvals.open(f"sqlite:///{tmp_path}/approvals.db")
    count: list[str] = []
    made = capability(lambda call: count.append("x") or "x", approvals=("compute",), estimates=Budget(usd=2))
    registry = Registry([made], approvals=approvals, budget=Budget(usd=1), on_limit="ask")
    invoking = asyncio.ensure_future(registry.invoke("kit.echo", {"text": "x"}))
    for _ in range(2):  # for more budget, then for the call
        while not (waiting := await approvals.list("pending")):
            await asyncio.sleep(0)
        await approvals.approve(waiting[0].id, by="ann")
        if not waiting[0].capability.endswith(":budget"):
            break
        budget = waiting[0].id
        while (await approvals.find(budget)).state != "used":
            await asyncio.sleep(0)
        await approvals.revoke(budget, by="ann")
    done = await invoking
    assert done.error is not None and done.error.kind == "revoked" and not count
    approvals.close()


async def test_a_cancelled_invocation_is_in_the_journal_and_gives_its_budget_back(journal: Journal) -> None:
    registry = Registry([capability(slow, estimates=Budget(usd=1))], journal=journal, budget=Budget(usd=1))
    told: list[StepEvent] = []
    invoking = asyncio.ensure_future(registry.invoke("kit.echo", {"text": "x"}, on_event=told.append))
    while not any(one.step == "run" for one in told):
        await asyncio.sleep(0)
    invoking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await invoking
    *_, last = [entry async for entry in journal.entries()]
    assert last.body["error"]["kind"] == "cancelled" and registry.account.left == Budget(usd=1)


async def test_one_key_is_one_invocation(journal: Journal) -> None:
    count: list[str] = []
    registry = Registry([capability(lambda call: count.append("x") or str(len(count)))], journal=journal)

    async def invoke(text: str = "x", **more: Any) -> Outcome:
        return await registry.invoke("kit.echo", {"text": text}, caller="a", idempotency_key="k", **more)

    first, again = await invoke(), await invoke()
    assert (first.output, again.output, again.repeated, again.id) == ("1", "1", True, first.id)
    assert first.entry == again.entry == 2
    other = await invoke("y")
    assert other.error is not None and "another input" in other.error.message
    other = await invoke(labels="pii.email")
    assert other.error is not None and "another input or label" in other.error.message
    assert other.labels == Label("pii.email")
    assert len(count) == 1
    with pytest.raises(InvalidValue, match="needs a journal"):
        await Registry([capability()]).invoke("kit.echo", {"text": "x"}, idempotency_key="k")


async def test_two_at_once_with_one_key_are_one(journal: Journal) -> None:
    count: list[str] = []

    async def slowly(call: Invocation) -> str:
        await asyncio.sleep(0)
        count.append("x")
        return str(len(count))

    registry = Registry([capability(slowly)], journal=journal)
    done = await asyncio.gather(*(registry.invoke("kit.echo", {"text": "x"}, idempotency_key="k") for _ in range(5)))
    assert {one.output for one in done} == {"1"} and [one.repeated for one in done] == [False, *[True] * 4]


async def test_a_key_gives_no_outcome_a_lower_label(journal: Journal) -> None:
    registry = Registry([capability()], journal=journal)
    labels = ("public", "pii", "pii")
    done = [await registry.invoke("kit.echo", {"text": "x"}, idempotency_key="k", labels=one) for one in labels[:2]]
    assert done[0].labels == Label("public")
    assert done[1].error is not None and "another input or label" in done[1].error.message
    done = [await registry.invoke("kit.echo", {"text": "x"}, idempotency_key="l", labels=one) for one in labels[1:]]
    assert [(one.labels, one.repeated) for one in done] == [(Label("pii"), False), (Label("pii"), True)]


async def test_two_event_loops_with_one_key_run_it_once_and_wait_for_nothing(journal: Journal) -> None:
    begun, goes_on, count = threading.Event(), threading.Event(), []

    async def slowly(call: Invocation) -> str:
        count.append("x")
        begun.set()
        await asyncio.to_thread(goes_on.wait)
        return "done"

    registry = Registry([capability(slowly)], journal=journal)

    async def invoke() -> Outcome:
        return await registry.invoke("kit.echo", {"text": "x"}, idempotency_key="k")

    first = asyncio.ensure_future(asyncio.to_thread(asyncio.run, invoke()))
    await asyncio.to_thread(begun.wait)
    done = await invoke()
    assert done.error is not None and "has begun" in done.error.message
    goes_on.set()
    assert (await first).ok and (await invoke()).repeated and len(count) == 1


@pytest.mark.parametrize("at", range(1, 13))
async def test_cancelled_at_any_moment_an_invocation_is_written_down_once(at: int, tmp_path: Path) -> None:
    """Cancels after some milliseconds, and once more at once."""
    store = f"sqlite:///{tmp_path}/store.db"
    journal, approvals = Journal.open(store), Approvals.open(store)
    count: list[str] = []

    async def handler(call: Invocation) -> str:
        count.append("x")
        call.charge(usd=0.25)
        await asyncio.sleep(0)
        return "done"

    made = capability(handler, approvals=("compute",), estimates=Budget(usd=1))
    registry = Registry([made], journal=journal, approvals=approvals, budget=Budget(usd=10))

    async def answer() -> None:
        while True:
            for one in await approvals.list("pending"):
                with contextlib.suppress(AlreadyAnswered):
                    await approvals.approve(one.id, by="ann")
            await asyncio.sleep(0.001)

    answering = asyncio.ensure_future(answer())
    invoking = asyncio.ensure_future(registry.invoke("kit.echo", {"text": "x"}, idempotency_key="k"))
    for _ in range(at):
        await asyncio.sleep(0.001)
    invoking.cancel()
    await asyncio.sleep(0)
    invoking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await invoking
    answering.cancel()
    while len(asyncio.all_tasks()) > 1:  # what was shielded
        await asyncio.sleep(0.001)
    found = [entry async for entry in journal.entries()]
    assert [one.kind for one in found] in (["refused"], ["begun", "ended"], [])
    assert bool(count) <= (len(found) == 2)
    assert registry.account.left == Budget(usd=10 - 0.25 * len(count))
    assert not await approvals.list("pending") and not await approvals.list("approved")
    again = await Registry([made], journal=journal, granted=["compute"]).invoke(
        "kit.echo", {"text": "x"}, idempotency_key="k"
    )
    assert again.repeated is (len(found) == 2) and len(count) <= 1 + (len(found) < 2)
    journal.close()
    approvals.close()


@pytest.mark.parametrize("safe", [False, True])
async def test_a_key_that_was_cut_off_runs_again_only_where_that_is_safe(safe: bool, journal: Journal) -> None:
    registry = Registry([capability(retry_safe=safe)], journal=journal)

    async def invoke() -> Outcome:
        return await registry.invoke("kit.echo", {"text": "x"}, idempotency_key="k")

    key = f"{digest_of(['', 'kit.echo', 'k'])}:{digest_of({'text': 'x'})}"
    await journal.append("begun", {}, opens=key)  # as by a process that was killed then
    done = await invoke()
    assert done.ok is safe
    if not safe:
        assert done.error is not None and "nobody knows whether it has ended" in done.error.message


async def test_a_journal_that_cannot_be_written_stops_what_has_not_begun(journal: Journal) -> None:
    ran: list[str] = []
    registry = Registry([capability(lambda call: ran.append("x") or "x")], journal=journal)
    journal.close()
    done = await registry.invoke("kit.echo", {"text": "x"})
    assert done.error is not None and done.error.step == "journal" and not ran
    assert "nothing was run" in done.error.message


@pytest.mark.parametrize(("policy", "ok"), [("stop", False), ("warn", True)])
async def test_a_journal_that_fails_after_the_run_marks_the_outcome(policy: Any, ok: bool, journal: Journal) -> None:
    registry = Registry(
        [capability(lambda call: journal.close() or "done")], journal=journal, on_journal_failure=policy
    )
    done = await registry.invoke("kit.echo", {"text": "x"})
    assert done.ok is ok
    told = done.warnings[0] if ok else done.error.message  # type: ignore[union-attr]
    assert "closed" in told and "it was run" in told


def test_a_registry_finds_describes_and_takes_over() -> None:
    registry = Registry([capability(), capability(id="kit.shout", risk="high")])
    other = Registry()
    other.register(registry)
    assert [one.id for one in other.list()] == ["kit.echo", "kit.shout"]
    assert [one.id for one in other.search("shout the text")] == ["kit.shout", "kit.echo"]
    registry.register(capability(id="kit.redact_message"))
    assert [one.id for one in registry.search("redact")] == ["kit.redact_message"]
    assert other.describe("ccos.kit.shout")["risk"] == "high"
    with pytest.raises(InvalidValue, match="already"):
        other.register(capability())


async def test_the_steps_can_be_streamed() -> None:
    seen = [one async for one in Registry([capability()]).stream("kit.echo", {"text": "x"})]
    assert isinstance(seen[-1], Outcome) and seen[-1].output == "x"
    assert [one.step for one in seen[:-1] if isinstance(one, StepEvent)].count("run") == 2


async def test_a_stream_that_is_cancelled_leaves_nothing_behind() -> None:
    async def read() -> None:
        async for one in Registry([capability(slow)]).stream("kit.echo", {"text": "x"}):
            if isinstance(one, StepEvent) and one.step == "run":
                begun.set()

    begun = asyncio.Event()
    reading = asyncio.ensure_future(read())
    await begun.wait()
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
