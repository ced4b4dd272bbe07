"""Approvers that are functions, and the queue from which a service decides."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

import actbox
from actbox import ApprovalDecision, ApprovalRequest, InvalidValue, Sandbox, Toolset
from actbox.codeact import CallbackApprover, PendingApprovals
from actbox.tools.approval import decision_of
from tests.waiting import until


def request(name: str = "q1") -> ApprovalRequest:
    return ApprovalRequest(id=name, what="call", program="pay(1)", reason="it requires approval", tool="pay", line=1)


@actbox.tool(approval="always_require")
def pay(amount: int) -> str:
    return f"paid {amount}"


# Functions


async def async_yes(request: ApprovalRequest) -> bool:
    return True


class Yes:
    async def __call__(self, request: ApprovalRequest) -> bool:
        return True


@pytest.mark.parametrize(
    ("function", "decision"),
    [
        (lambda request: True, ApprovalDecision(True)),
        (lambda request: False, ApprovalDecision(False)),
        (lambda request: ApprovalDecision(False, "no", "Ada"), ApprovalDecision(False, "no", "Ada")),
        (async_yes, ApprovalDecision(True)),
        (Yes(), ApprovalDecision(True)),
        (functools.partial(async_yes), ApprovalDecision(True)),
        (lambda request: async_yes(request), ApprovalDecision(True)),
    ],
)
async def test_a_function_sync_or_async_answers(function: Any, decision: ApprovalDecision) -> None:
    assert await CallbackApprover(function).decide(request()) == decision


@pytest.mark.parametrize("answer", ["yes", 1, None])
async def test_only_true_and_a_decision_approve(answer: Any) -> None:
    decision = await decision_of(CallbackApprover(lambda request: answer), request())
    assert decision == ApprovalDecision(False, "the approver failed (TypeError)", cause="failed")


@pytest.mark.slow
async def test_how_an_approver_failed_is_logged_for_the_host_without_the_programs_text(
    box: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: ApprovalRequest) -> bool:
        raise ConnectionError("the desk cannot be reached")

    async def cancelled(request: ApprovalRequest) -> bool:
        raise asyncio.CancelledError

    for function, words in (
        (broken, "ConnectionError: the desk cannot be reached"),
        (cancelled, "in cancelled"),
        (lambda request: "yes", "not str"),
    ):
        caplog.clear()
        result = await box.run("guests_own = 1\npay(12345)", tools=Toolset.of([pay]).asking(CallbackApprover(function)))
        assert result.error is not None
        assert "desk" not in result.error.message
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert (record.name, "a call of 'pay'" in record.getMessage()) == ("actbox", True)
        assert words in caplog.text
        assert "Traceback" in caplog.text
        assert "guests_own" not in caplog.text
        assert "12345" not in caplog.text


async def test_a_function_that_takes_too_long_refuses_and_its_own_timeout_is_a_failure() -> None:
    async def slow(request: ApprovalRequest) -> bool:
        await asyncio.Event().wait()
        return True

    def times_out_itself(request: ApprovalRequest) -> bool:
        raise TimeoutError("the other side is slow")

    decision = await CallbackApprover(slow, timeout=0.05).decide(request())
    assert (decision.approved, decision.cause) == (False, "timeout")
    failed = await decision_of(CallbackApprover(times_out_itself, timeout=60), request())
    assert (failed.approved, failed.cause) == (False, "failed")


async def test_a_function_that_answers_after_its_time_although_it_was_cancelled_has_not_approved() -> None:
    async def stubborn(request: ApprovalRequest) -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return True
        return False

    decision = await CallbackApprover(stubborn, timeout=0.05).decide(request())
    assert (decision.approved, decision.cause) == (False, "timeout")


async def test_an_approver_that_answers_although_its_question_was_cancelled_has_not_decided() -> None:
    asked = asyncio.Event()

    async def stubborn(request: ApprovalRequest) -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return True
        return False

    asking = asyncio.create_task(decision_of(CallbackApprover(stubborn), request()))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.slow
async def test_a_sync_function_that_blocks_holds_up_neither_the_event_loop_nor_other_tools(box: Sandbox) -> None:
    released = threading.Event()

    def blocks(request: ApprovalRequest) -> bool:
        return released.wait(60)

    def release() -> None:
        released.set()

    tools = Toolset.of([pay, release]).asking(CallbackApprover(blocks))
    code = "import asyncio\nawait asyncio.gather(pay(1), release())"
    assert (await box.run(code, tools=tools)).value == ["paid 1", None]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), True, "1"])
def test_a_timeout_that_makes_no_sense_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidValue, match="timeout must be"):
        CallbackApprover(lambda request: True, timeout=timeout)
    with pytest.raises(InvalidValue, match="timeout must be"):
        PendingApprovals(timeout=timeout)


# The queue


@pytest.mark.slow
async def test_what_is_pending_is_listed_and_decided_by_id(box: Sandbox) -> None:
    queue = PendingApprovals()
    code = (
        "import asyncio\nfound = await asyncio.gather(pay(1), pay(2), return_exceptions=True)\n[str(f) for f in found]"
    )
    run = asyncio.create_task(box.run(code, tools=Toolset.of([pay]).asking(queue)))
    await until(lambda: len(queue.pending()) == 2)
    listed = {pending.request.arguments["amount"]: pending for pending in queue.pending()}
    assert 0 < (listed[1].seconds_left or 0) <= 600
    queue.refuse(listed[1].id, reason="not today", by="Ada")
    assert [pending.id for pending in queue.pending()] == [listed[2].id]
    queue.approve(listed[2].id)
    assert (await run).value == ["the call of 'pay' was refused: not today", "paid 2"]
    assert queue.pending() == ()


async def test_the_first_decision_counts_and_there_is_no_second() -> None:
    queue = PendingApprovals()
    waiting = asyncio.create_task(queue.decide(request()))
    await until(queue.pending)
    queue.refuse("q1", by="Ada")
    with pytest.raises(InvalidValue, match="no question 'q1' is pending"):
        queue.approve("q1", by="Bob")
    assert await waiting == ApprovalDecision(False, by="Ada")


async def test_a_question_that_is_asked_again_once_it_was_decided_stays_listed() -> None:
    queue = PendingApprovals()
    first = asyncio.create_task(queue.decide(request()))
    await until(queue.pending)
    queue.approve("q1", by="Ada")
    second = asyncio.create_task(queue.decide(request()))
    assert (await first).by == "Ada"
    await until(queue.pending)
    queue.refuse("q1", by="Bob")
    assert await second == ApprovalDecision(False, by="Bob")


async def test_a_decision_that_is_no_text_is_told_to_whoever_decides_and_decides_nothing() -> None:
    queue = PendingApprovals()
    waiting = asyncio.create_task(queue.decide(request()))
    await until(queue.pending)
    given: Any
    for given in ({"reason": None}, {"by": 7}):
        with pytest.raises(InvalidValue, match="texts for reason and by"):
            queue.approve("q1", **given)
    with pytest.raises(InvalidValue, match="no question 'q9' is pending"):
        queue.refuse("q9")
    unknown: Any = ["q1"]
    with pytest.raises(InvalidValue, match="by its id"):
        queue.refuse(unknown)
    queue.approve("q1")
    assert (await waiting).approved


async def test_many_threads_that_decide_at_once_decide_each_question_once() -> None:
    queue = PendingApprovals()
    names = [f"q{number}" for number in range(50)]
    waiting = [asyncio.create_task(queue.decide(request(name))) for name in names]
    await until(lambda: len(queue.pending()) == len(names))
    won: list[tuple[str, str]] = []

    def decide(by: str) -> None:
        for name in names:
            try:
                queue.approve(name, by=by)
            except InvalidValue:
                continue
            won.append((name, by))

    await asyncio.gather(*(asyncio.to_thread(decide, by) for by in "abcd"))
    decisions = await asyncio.gather(*waiting)
    assert sorted(won) == sorted((name, decision.by) for name, decision in zip(names, decisions, strict=True))


def test_one_queue_serves_several_event_loops() -> None:
    queue = PendingApprovals()
    found: list[ApprovalDecision] = []

    def ask(name: str) -> None:
        found.append(asyncio.run(queue.decide(request(name))))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    asyncio.run(until(lambda: len(queue.pending()) == 2))
    for name in ("a", "b"):
        queue.approve(name, by=name)
    for thread in threads:
        thread.join(60)
    assert sorted(decision.by for decision in found) == ["a", "b"]


async def test_nobody_decides_in_time_and_the_program_is_told(box: Sandbox) -> None:
    queue = PendingApprovals(timeout=0.2)
    code = "try:\n    pay(1)\nexcept ToolError as error:\n    said = str(error)\nsaid"
    result = await box.run(code, tools=Toolset.of([pay]).asking(queue))
    assert result.value == "the call of 'pay' was not approved in time: nobody decided within 0.2 seconds"
    assert queue.pending() == ()


async def test_a_question_whose_run_was_cancelled_is_listed_no_more(box: Sandbox) -> None:
    queue = PendingApprovals(timeout=None)
    run = asyncio.create_task(box.run("pay(1)", tools=Toolset.of([pay]).asking(queue)))
    await until(queue.pending)
    (pending,) = queue.pending()
    assert pending.seconds_left is None
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert queue.pending() == ()
    with pytest.raises(InvalidValue, match="withdrawn"):
        queue.approve(pending.id)


async def test_a_full_queue_refuses_at_once() -> None:
    queue = PendingApprovals(most=1)
    waiting = asyncio.create_task(queue.decide(request("q1")))
    await until(queue.pending)
    decision = await queue.decide(request("q2"))
    assert (decision.approved, decision.cause) == (False, "unavailable")
    queue.approve("q1")
    assert (await waiting).approved
    with pytest.raises(InvalidValue, match="most must be"):
        PendingApprovals(most=0)


def test_a_question_whose_event_loop_is_gone_cannot_be_decided() -> None:
    queue = PendingApprovals()
    waiting = queue.decide(request())

    async def ask() -> None:
        waiting.send(None)  # until it waits, and no further

    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask())
    loop.close()
    with pytest.raises(InvalidValue, match="no question 'q1' is pending"):
        queue.approve("q1")
    waiting.close()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (ApprovalDecision(True, edited=5), "edited (None, or all arguments by name) must not be 5"),  # type: ignore[arg-type]
        (ApprovalDecision("no"), "approved (True or False) must not be 'no'"),  # type: ignore[arg-type]
        (5, "an ApprovalDecision, not int"),
    ],
    ids=["edited", "approved", "int"],
)
async def test_the_log_names_the_field_that_makes_an_answer_no_decision(
    answer: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            return answer  # type: ignore[no-any-return]

    assert not (await decision_of(Odd(), request())).approved
    assert fault in caplog.text
