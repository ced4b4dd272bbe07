"""Tools that require approval: the call waits, somebody decides, and the run's clock stands still meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, SecretStr

import actbox
from actbox import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequested,
    Completed,
    ErrorKind,
    Event,
    InvalidValue,
    Sandbox,
    ToolFinished,
    Toolset,
    ToolStarted,
)
from actbox.sandbox.channel.questions import MAX_EDITS, MAX_QUESTIONS
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.waiting import until

pytestmark = pytest.mark.one_engine_first

TIMEOUT = 30.0
LONGER = 35.0


class Till:
    """A tool that requires approval, which notes what was really paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.tool = actbox.Tool.from_function(self.pay, approval="always_require")

    async def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"paid {amount}"


class Clerk:
    """An approver that answers as it is told, and notes what it was asked and what was withdrawn."""

    def __init__(self, answer: Callable[[ApprovalRequest], Any] = lambda request: ApprovalDecision(True)) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []
        self.withdrawn = 0
        self.called = asyncio.Event()

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        self.called.set()
        try:
            answer = self.answer(request)
            return await answer if asyncio.iscoroutine(answer) else answer
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise


# Prints too much while it waits for the answer.
PAYS_AND_SHOUTS = """
import threading, time

def shout():
    until_asked()
    while True:
        print('x' * 1000, flush=True)
        time.sleep(0.01)

threading.Thread(target=shout, daemon=True).start()
pay(1)
"""


async def never(request: ApprovalRequest) -> ApprovalDecision:
    await asyncio.Event().wait()
    raise AssertionError("nobody decides")


@pytest.fixture
def till() -> Till:
    return Till()


def asking(clerk: Clerk, *tools: Any) -> Toolset:
    return Toolset.of(tools).asking(clerk)


def telling_when_asked(clerk: Clerk) -> actbox.Tool:
    """Return the tool `until_asked`, by which a program waits for its question."""

    async def until_asked() -> None:
        await clerk.called.wait()

    return actbox.Tool.from_function(until_asked, description="Wait until somebody is asked.")


async def events_and_result(box: Any, code: str, tools: Toolset) -> tuple[list[Event], actbox.ExecutionResult]:
    events = [event async for event in box.stream(code, tools=tools)]
    assert isinstance(events[-1], Completed)
    return events[:-1], events[-1].result


# What is asked, and what becomes of the answer


async def test_the_approver_sees_the_tool_the_arguments_and_the_code_around_the_call(box: Sandbox, till: Till) -> None:
    clerk = Clerk()
    code = "a = 1\n\n\ndef spend(n):\n    b = 2\n    return pay(amount=n)\n\n\nc = 3\nspend(7)"
    result = await box.run(code, tools=asking(clerk, till.tool))
    assert (result.value, till.paid) == ("paid 7", [7])
    (request,) = clerk.asked
    assert (request.what, request.tool, request.arguments, request.line) == ("call", "pay", {"amount": 7}, 6)
    assert (request.program, request.reason) == (code, "the tool 'pay' requires approval")
    assert request.excerpt == tuple(enumerate(code.split("\n"), 1))[2:9]
    assert request.excerpt[3] == (6, "    return pay(amount=n)")


async def test_a_refusal_is_a_tool_error_with_its_reason_and_the_run_goes_on(box: Sandbox, till: Till) -> None:
    clerk = Clerk(lambda request: ApprovalDecision(request.arguments["amount"] < 10, "too much"))
    code = "try:\n    pay(100)\nexcept ToolError as error:\n    said = [str(error), error.tool]\nsaid + [pay(1)]"
    result = await box.run(code, tools=asking(clerk, till.tool))
    assert result.value == ["the call of 'pay' was refused: too much", "pay", "paid 1"]
    assert till.paid == [1]
    assert result.usage.tool_calls == 2


async def test_a_refusal_that_is_not_caught_fails_the_run_as_a_tools_failure_does(box: Sandbox, till: Till) -> None:
    clerk = Clerk(lambda request: ApprovalDecision(False))
    result = await box.run("\npay(1)", tools=asking(clerk, till.tool))
    assert result.error is not None
    assert (result.error.kind, result.error.line) == (ErrorKind.TOOL, 2)
    assert result.error.message == "the call of 'pay' was refused"
    assert "do not try it again unless asked" in result.error.hint
    assert "change the call" not in result.error.hint
    assert till.paid == []


async def test_events_tell_the_question_and_the_decision_and_only_then_the_call(box: Sandbox, till: Till) -> None:
    clerk = Clerk(lambda request: ApprovalDecision(request.arguments["amount"] < 10, "as agreed", by="Ada"))
    code = "pay(1)\ntry:\n    pay(10)\nexcept ToolError:\n    pass"
    events, _ = await events_and_result(box, code, asking(clerk, till.tool))
    kinds = [ApprovalRequested, ApprovalDecided, ToolStarted, ToolFinished, ApprovalRequested, ApprovalDecided]
    assert [type(event) for event in events] == kinds
    requested, decided, started, _, _, refused = events
    assert isinstance(requested, ApprovalRequested)
    assert isinstance(decided, ApprovalDecided)
    assert isinstance(started, ToolStarted)
    assert isinstance(refused, ApprovalDecided)
    assert (requested.tool, requested.arguments, requested.line) == ("pay", {"amount": 1}, 1)
    assert requested.request_id == decided.request_id == clerk.asked[0].id != refused.request_id
    assert requested.call_id == decided.call_id == started.call_id
    assert (decided.decision, decided.reason, decided.by, decided.cause) == ("approved", "as agreed", "Ada", "decided")
    assert refused.decision == "refused"


async def test_nobody_is_asked_about_tools_that_require_nothing_or_do_not_exist(box: Sandbox, till: Till) -> None:
    def look(n: int) -> int:
        return n

    clerk = Clerk()
    code = (
        "found = [look(1), call_tool('look', n=2)]\ntry:\n    call_tool('payy', amount=1)\nexcept ToolError:\n    found"
    )
    result = await box.run(f"{code}\nfound", tools=asking(clerk, till.tool, look))
    assert (result.value, clerk.asked) == ([1, 2], [])


async def test_a_tool_that_is_called_by_name_or_by_its_alias_is_asked_about_all_the_same(box: Sandbox) -> None:
    def pay_out(amount: int) -> int:
        return amount

    clerk = Clerk()
    tool = actbox.Tool.from_function(pay_out, name="pay-out", approval="always_require")
    code = "pay_out(1)\ncall_tool('pay-out', amount=2)\ncall_tool('pay_out', amount=3)"
    assert (await box.run(code, tools=asking(clerk, tool))).value == 3
    assert [(r.tool, r.arguments["amount"], r.line) for r in clerk.asked] == [
        ("pay-out", 1, 1),
        ("pay-out", 2, 2),
        ("pay-out", 3, 3),
    ]


async def test_gathered_calls_are_asked_about_at_once_each_with_its_own_line(box: Sandbox, till: Till) -> None:
    async def when_three_are_asked(request: ApprovalRequest) -> ApprovalDecision:
        while len(clerk.asked) < 3:
            await asyncio.sleep(0.01)
        return ApprovalDecision(True)

    clerk = Clerk(when_three_are_asked)
    code = "import asyncio\nawait asyncio.gather(\n    pay(1),\n    pay(2),\n    call_tool('pay', amount=3),\n)"
    result = await box.run(code, tools=asking(clerk, till.tool))
    assert result.value == ["paid 1", "paid 2", "paid 3"]
    assert sorted((r.arguments["amount"], r.line) for r in clerk.asked) == [(1, 3), (2, 4), (3, 5)]


async def test_a_call_that_comes_from_no_line_of_the_program_has_none(box: Sandbox, till: Till) -> None:
    clerk = Clerk()
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as threads:\n    threads.submit(pay, 1).result()\n"
        "exec(compile('\\n' * 500 + 'pay(2)', 'program.py', 'exec'))"  # it lies: there is no line 501
    )
    assert (await box.run(code, tools=asking(clerk, till.tool))).success
    assert [(request.line, request.excerpt) for request in clerk.asked] == [(None, ()), (None, ())]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has no mark for such functions before 3.12")
async def test_in_a_program_that_awaits_they_are_coroutine_functions_like_all_tools(box: Sandbox, till: Till) -> None:
    code = "import inspect\nawait pay(1)\n[inspect.iscoroutinefunction(f) for f in (pay, call_tool)]"
    assert (await box.run(code, tools=asking(Clerk(), till.tool))).value == [True, True]


# What is shown is what is called


@pytest.mark.parametrize("spelling", ["1000", "'1000'", "' 1000 '", "1000.0", "'+1_000'"])
async def test_however_the_program_writes_an_argument_the_rule_sees_what_would_be_passed(
    box: Sandbox, spelling: str
) -> None:
    paid: list[Any] = []

    def pay(amount: int, to: str = "me") -> None:
        paid.append((amount, to))

    clerk = Clerk(lambda request: ApprovalDecision(request.arguments["amount"] != 1000))
    tool = actbox.Tool.from_function(pay, approval="always_require")
    result = await box.run(f"pay({spelling})", tools=asking(clerk, tool))
    assert result.error is not None
    assert [request.arguments for request in clerk.asked] == [{"amount": 1000, "to": "me"}]
    assert type(clerk.asked[0].arguments["amount"]) is int
    assert paid == []


@pytest.mark.parametrize("call", ["pay('x')", "pay([1])", "pay(5, extra=3)", "pay()", "call_tool('pay', amount=None)"])
async def test_nobody_is_asked_about_a_call_that_cannot_be_made(box: Sandbox, till: Till, call: str) -> None:
    clerk = Clerk()
    code = f"try:\n    {call}\nexcept ToolError as error:\n    print(error)"
    events, result = await events_and_result(box, code, asking(clerk, till.tool))
    assert result.stdout.endswith("call it as pay(amount: int)\n")
    assert (clerk.asked, till.paid) == ([], [])
    assert [type(e) for e in events if not isinstance(e, actbox.Output)] == [ToolStarted, ToolFinished]


async def test_what_the_approver_or_a_listener_does_to_the_arguments_reaches_no_call(box: Sandbox) -> None:
    kept: list[Any] = []

    def keep(amount: int, deep: dict[str, Any], loose: Any = None) -> None:
        kept.append((amount, deep, loose))

    def meddle(arguments: Any) -> None:
        arguments["deep"]["a"][0]["b"] = arguments["loose"][0] = "other"
        arguments["amount"] = 999

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        assert request.arguments == {"amount": 5, "deep": {"a": [{"b": 1}]}, "loose": [1]}
        meddle(request.arguments)
        return ApprovalDecision(True)

    for tool in (
        actbox.Tool.from_function(keep, approval="always_require"),
        actbox.Tool.from_schema("keep", "", {"type": "object"}, keep, approval="always_require"),
    ):
        code = "keep(amount=5, deep={'a': [{'b': 1}]}, loose=[1])"
        async for event in box.stream(code, tools=asking(Clerk(answer), tool)):
            if isinstance(event, ApprovalRequested):
                meddle(event.arguments)
            if isinstance(event, ToolStarted):
                assert event.arguments == {"amount": 5, "deep": {"a": [{"b": 1}]}, "loose": [1]}
    assert kept == [(5, {"a": [{"b": 1}]}, [1])] * 2


async def test_events_of_a_question_have_what_is_asked_and_those_of_the_call_what_was_sent(
    box: Sandbox, till: Till
) -> None:
    events, result = await events_and_result(box, "pay('7')", asking(Clerk(), till.tool))
    assert (result.value, till.paid) == ("paid 7", [7])
    requested, _, started, _ = events
    assert isinstance(requested, ApprovalRequested)
    assert isinstance(started, ToolStarted)
    assert (requested.arguments, started.arguments) == ({"amount": 7}, {"amount": "7"})


# A run that could not be asked about is refused


async def test_an_argument_that_the_approver_has_taken_out_is_not_passed(box: Sandbox) -> None:
    done: list[tuple[int, bool]] = []

    @actbox.tool(approval="always_require")
    def pay(amount: int, force: bool = False) -> None:
        done.append((amount, force))

    clerk = Clerk(lambda request: ApprovalDecision(True, edited={"amount": 5}))
    events, result = await events_and_result(box, "pay(1, force=True)", asking(clerk, pay))
    assert result.success, result.error
    assert done == [(5, False)]
    assert [dict(event.arguments) for event in events if isinstance(event, ToolStarted)] == [{"amount": 5}]


async def test_all_arguments_taken_out_are_an_edit(box: Sandbox) -> None:
    done: list[int] = []

    @actbox.tool(approval="always_require")
    def wait(seconds: int = 1) -> None:
        done.append(seconds)

    clerk = Clerk(lambda request: ApprovalDecision(True, edited={}))
    _, result = await events_and_result(box, "wait(600)", asking(clerk, wait))
    assert result.success, result.error
    assert done == [1]


async def test_what_was_not_edited_is_passed_as_it_was_shown_and_what_a_type_hides_as_it_was(box: Sandbox) -> None:
    numbers = itertools.count()
    done: list[Any] = []

    def numbered(name: str) -> str:
        return f"{name}#{next(numbers)}"

    @actbox.tool(approval="always_require")
    def pay(name: Annotated[str, AfterValidator(numbered)], amount: int, key: SecretStr) -> None:
        done.append((name, amount, key.get_secret_value()))

    clerk = Clerk(lambda request: ApprovalDecision(True, edited={**request.arguments, "amount": 3}))
    _, result = await events_and_result(box, "pay('bob', 9, 's3cret')", asking(clerk, pay))
    assert result.success, result.error
    assert [dict(request.arguments) for request in clerk.asked] == [
        {"name": "bob#0", "amount": 9, "key": "**********"},
        {"name": "bob#1", "amount": 3, "key": "**********"},
    ]
    assert done == [("bob#1", 3, "s3cret")]


async def test_an_approver_that_edits_each_call_is_asked_a_few_times_and_no_more(box: Sandbox) -> None:
    numbers = itertools.count()
    paid: list[int] = []

    def numbered(name: str) -> str:
        return f"{name}#{next(numbers)}"

    @actbox.tool(approval="always_require")
    def pay(name: Annotated[str, AfterValidator(numbered)], amount: int) -> None:
        paid.append(amount)

    def dearer(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(True, edited={**request.arguments, "amount": request.arguments["amount"] + 1})

    clerk = Clerk(dearer)
    _, result = await events_and_result(box, "pay('bob', 1)", asking(clerk, pay))
    assert result.error is not None
    assert f"the call of 'pay' was refused: its arguments were edited {MAX_EDITS} times" in result.error.message
    assert (len(clerk.asked), paid) == (MAX_EDITS, [])


async def test_without_an_approver_or_a_given_approval_a_run_is_refused(box: Sandbox, till: Till) -> None:
    with pytest.raises(InvalidValue, match=r"'pay' requires approval.*asking\(approver\).*approved\(\)"):
        await box.run("1", tools=[till.tool])
    with pytest.raises(InvalidValue, match="'pay' requires approval"):
        box.map(["1"], tools=[till.tool])
    async with box.session() as session:
        with pytest.raises(InvalidValue, match="'pay' requires approval"):
            await session.run("1", tools=[till.tool])
        assert (await session.run("2")).value == 2


async def test_where_approval_was_given_nobody_is_asked(box: Sandbox, till: Till) -> None:
    assert (await box.run("pay(1)", tools=Toolset.of([till.tool]).approved())).value == "paid 1"
    clerk = Clerk()
    other = actbox.Tool.from_function(lambda: "told", name="tell", approval="always_require")
    tools = asking(clerk, till.tool, other).approved(["pay"])
    assert (await box.run("[pay(2), tell()]", tools=tools)).value == ["paid 2", "told"]
    assert [request.tool for request in clerk.asked] == ["tell"]


async def test_the_plain_face_and_map_ask_too(engine: str, box: Sandbox, till: Till) -> None:
    clerk = Clerk()
    results = [result async for result in box.map(["pay(1)", "pay(2)"], tools=asking(clerk, till.tool))]
    assert ([result.value for result in results], len(clerk.asked)) == (["paid 1", "paid 2"], 2)
    tools = asking(clerk, till.tool)
    result = await asyncio.to_thread(actbox.run, "pay(3)", tools=tools, engine=engine, allow_unisolated=True)
    assert (result.value, len(clerk.asked)) == ("paid 3", 3)


# An approver that fails


def broken(request: ApprovalRequest) -> ApprovalDecision:
    raise OSError("no route to 10.0.0.7")


def ends_the_host(request: ApprovalRequest) -> ApprovalDecision:
    raise SystemExit(3)


def cancelled(request: ApprovalRequest) -> ApprovalDecision:
    raise asyncio.CancelledError


class Odd(BaseException):
    """What no `except Exception` takes."""


def odd(request: ApprovalRequest) -> ApprovalDecision:
    raise Odd


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (broken, "the approver failed (OSError)"),
        (ends_the_host, "the approver failed (SystemExit)"),
        (cancelled, "the approver failed (it was cancelled)"),
        (odd, "the approver failed (Odd)"),
        (lambda request: ApprovalDecision(True, by=7), "the approver failed (it answered with ApprovalDecision)"),
        (
            lambda request: ApprovalDecision(False, OSError("x")),
            "the approver failed (it answered with ApprovalDecision)",
        ),
        (lambda request: ApprovalDecision(True, cause=[]), "the approver failed (it answered with ApprovalDecision)"),
        (lambda request: True, "the approver failed (it answered with bool)"),
        (lambda request: None, "the approver failed (it answered with NoneType)"),
        (lambda request: ApprovalDecision("no"), "the approver failed (it answered with ApprovalDecision)"),
    ],
)
async def test_an_approver_that_fails_is_a_refusal(box: Sandbox, till: Till, answer: Any, why: str) -> None:
    code = "try:\n    pay(1)\nexcept ToolError as error:\n    print(error)"
    events, result = await events_and_result(box, code, asking(Clerk(answer), till.tool))
    assert result.stdout == f"the call of 'pay' was refused: {why}\n"
    (decided,) = [event for event in events if isinstance(event, ApprovalDecided)]
    assert (decided.decision, decided.cause, decided.reason) == ("refused", "failed", why)
    assert till.paid == []


# Time


@pytest.mark.long  # it does in a session too, which is tried below
async def test_the_wall_clock_stands_still_while_a_call_waits(box: Sandbox, till: Till, clock: Clock) -> None:
    both_wait, one_is_decided = asyncio.Event(), asyncio.Event()

    async def late(request: ApprovalRequest) -> ApprovalDecision:
        if request.arguments["amount"] == 1:
            await both_wait.wait()
            clock.turn(LONGER / 2)
            one_is_decided.set()
        else:
            both_wait.set()
            await one_is_decided.wait()
            clock.turn(LONGER / 2)
        return ApprovalDecision(True)

    code = "import asyncio\nawait asyncio.gather(pay(1), pay(2))"
    result = await box.run(code, tools=asking(Clerk(late), till.tool), timeout=TIMEOUT)
    assert result.error is None
    assert result.value == ["paid 1", "paid 2"]
    assert result.usage.approval_ms > LONGER * 900  # the two waited at once
    assert result.usage.approval_ms < LONGER * 1500
    assert result.usage.wall_ms < TIMEOUT * 1000
    assert result.to_dict()["usage"]["approval_ms"] == result.usage.approval_ms


@pytest.mark.slow
async def test_the_clock_goes_on_after_the_decision(box: Sandbox, till: Till, clock: Clock) -> None:
    code = "pay(1)\nprint('paid')\nwhile True:\n    pass"
    events = box.stream(code, tools=asking(Clerk(), till.tool), timeout=30)
    result = await clock.run_out(events, 30, after="paid")
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.TIMEOUT, "wall_seconds")
    assert till.paid == [1]


@pytest.mark.slow
async def test_in_a_session_the_clock_stands_still_and_the_state_is_kept(
    box: Sandbox, till: Till, clock: Clock
) -> None:
    async def late(request: ApprovalRequest) -> ApprovalDecision:
        clock.turn(LONGER)
        return ApprovalDecision(True)

    clerk = Clerk(late)
    async with box.session() as session:
        await session.run("def spend(n):\n    return pay(n)", tools=asking(clerk, till.tool))
        result = await session.run("x = 1\nspend(5)", tools=asking(clerk, till.tool), timeout=TIMEOUT)
        assert (result.value, result.state_kept) == ("paid 5", True)
        assert result.usage.approval_ms > LONGER * 900
        # The function is an earlier program's: what is shown is where this one calls it.
        assert (clerk.asked[0].line, clerk.asked[0].program) == (2, "x = 1\nspend(5)")
        assert (await session.run("x")).usage.approval_ms == 0


@pytest.mark.slow
async def test_the_limit_on_processor_time_holds_while_a_call_waits(open_box: OpenBox, till: Till) -> None:
    box = await open_box(cpu_seconds=1)
    clerk = Clerk(never)
    code = (
        "import threading\n\ndef burn():\n    until_asked()\n    while True:\n        pass\n\n"
        "threading.Thread(target=burn, daemon=True).start()\npay(1)"
    )
    events, result = await events_and_result(box, code, asking(clerk, till.tool, telling_when_asked(clerk)))
    assert result.error is not None
    assert result.error.limit == "cpu_seconds"
    await assert_withdrawn(events, clerk, till)


# A run that ends while somebody is asked


async def assert_withdrawn(events: list[Event], clerk: Clerk, till: Till) -> None:
    (decided,) = [event for event in events if isinstance(event, ApprovalDecided)]
    assert decided.decision == "withdrawn"
    await until(lambda: clerk.withdrawn)  # the approver is told in its next turn
    assert (clerk.withdrawn, till.paid) == (1, [])


async def test_a_cancelled_run_withdraws_its_question(box: Sandbox, till: Till) -> None:
    clerk = Clerk(never)
    run = asyncio.create_task(box.run("pay(1)", tools=asking(clerk, till.tool)))
    await clerk.called.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (clerk.withdrawn, till.paid) == (1, [])


async def test_a_stream_that_is_closed_withdraws_its_question(box: Sandbox, till: Till) -> None:
    clerk = Clerk(never)
    stream = box.stream("pay(1)", tools=asking(clerk, till.tool))
    async for event in stream:
        if isinstance(event, ApprovalRequested):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    assert (clerk.withdrawn, till.paid) == (1, [])


@pytest.mark.slow
async def test_a_cancelled_run_of_a_session_withdraws_its_question_and_the_session_goes_on(
    box: Sandbox, till: Till
) -> None:
    clerk = Clerk(never)
    async with box.session() as session:
        await session.run("kept = 1")
        run = asyncio.create_task(session.run("pay(1)", tools=asking(clerk, till.tool)))
        await clerk.called.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (clerk.withdrawn, till.paid) == (1, [])
        assert (await session.run("kept")).value == 1


async def test_stopping_the_sandbox_withdraws_the_question(box: Sandbox, till: Till) -> None:
    clerk = Clerk(never)
    run = asyncio.create_task(events_and_result(box, "pay(1)", asking(clerk, till.tool)))
    await clerk.called.wait()
    await box.stop()
    events, result = await run
    assert result.error is not None
    assert result.error.kind is ErrorKind.CANCELLED
    await assert_withdrawn(events, clerk, till)


async def test_a_limit_that_is_reached_withdraws_the_question(open_box: OpenBox, till: Till) -> None:
    box = await open_box(output_bytes=10_000)
    clerk = Clerk(never)
    events, result = await events_and_result(box, PAYS_AND_SHOUTS, asking(clerk, till.tool, telling_when_asked(clerk)))
    assert result.error is not None
    assert result.error.kind is ErrorKind.OUTPUT_LIMIT
    await assert_withdrawn(events, clerk, till)


async def test_a_program_that_ends_before_the_decision_withdraws_the_question(box: Sandbox, till: Till) -> None:
    clerk = Clerk(never)
    code = "import threading\nthreading.Thread(target=pay, args=(1,), daemon=True).start()\nuntil_asked()"
    events, result = await events_and_result(box, code, asking(clerk, till.tool, telling_when_asked(clerk)))
    assert result.error is None
    await assert_withdrawn(events, clerk, till)


@pytest.mark.parametrize("ends_by", ["stop", "output_bytes"])
async def test_an_approval_that_comes_after_its_question_was_withdrawn_is_none(
    open_box: OpenBox, till: Till, ends_by: str
) -> None:
    answered = asyncio.Event()

    async def stubborn(request: ApprovalRequest) -> ApprovalDecision:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            answered.set()
            return ApprovalDecision(True)
        raise AssertionError("nobody decides")

    box = await open_box(output_bytes=10_000)
    clerk = Clerk(stubborn)
    code = PAYS_AND_SHOUTS if ends_by == "output_bytes" else "pay(1)"
    tools = asking(clerk, till.tool, telling_when_asked(clerk))
    run = asyncio.create_task(events_and_result(box, code, tools))
    await clerk.called.wait()
    if ends_by == "stop":
        await box.stop()
    events, _ = await run
    await answered.wait()
    await asyncio.sleep(0)
    assert [e.decision for e in events if isinstance(e, ApprovalDecided)] == ["withdrawn"]
    assert till.paid == []


# Calls that wait do not hold up others


@pytest.mark.slow
async def test_other_calls_are_answered_while_as_many_wait_as_may_and_more_are_refused(
    box: Sandbox, till: Till
) -> None:
    released = asyncio.Event()

    async def once_released(request: ApprovalRequest) -> ApprovalDecision:
        await released.wait()
        return ApprovalDecision(True)

    async def release() -> None:
        released.set()

    too_many = 30
    code = (
        f"import asyncio\ncalls = [pay(n) for n in range({MAX_QUESTIONS + too_many})]\n"
        "found = await asyncio.gather(*calls, release(), return_exceptions=True)\n"
        "[str(answer) for answer in found if isinstance(answer, ToolError)]"
    )
    clerk = Clerk(once_released)
    result = await box.run(code, tools=asking(clerk, till.tool, release))
    assert result.value == ["the call of 'pay' was refused: too many calls wait for approval already"] * too_many
    assert len(till.paid) == len(clerk.asked) == MAX_QUESTIONS


@pytest.mark.slow
async def test_large_calls_that_wait_do_not_hold_up_others_and_are_bounded(open_box: OpenBox, till: Till) -> None:
    box = await open_box(message_bytes=100_000)
    released = asyncio.Event()

    async def once_released(request: ApprovalRequest) -> ApprovalDecision:
        await released.wait()
        return ApprovalDecision(False)

    async def release() -> None:
        released.set()

    def keep(text: str) -> int:
        return len(text)

    async def look(text: str) -> int:
        await released.wait()
        return len(text)

    code = (
        "import asyncio\ncalls = [keep('x' * 90_000) for n in range(10)]\n"
        "found = await asyncio.gather(*calls, look('x' * 90_000), release(), return_exceptions=True)\n"
        "sum('too many' in str(answer) for answer in found)"
    )
    tool = actbox.Tool.from_function(keep, approval="always_require")
    result = await box.run(code, tools=asking(Clerk(once_released), tool, look, release))
    assert result.value == 6  # four of them are as much as may be held
