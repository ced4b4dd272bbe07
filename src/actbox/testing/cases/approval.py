"""Cases of tools that require approval: the call waits until the approver has decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actbox.core.errors import ErrorKind, InvalidValue
from actbox.core.events import ApprovalDecided, ApprovalRequested, ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox
from actbox.tools import ApprovalDecision, ApprovalRequest, Tool, Toolset

from .ground import NO_ERROR, Cases, failed, ran_out_of_time
from .needs import LINES, TOOLS, case


class Till:
    """A tool that requires approval and records the payments that were really made."""

    def __init__(self) -> None:
        """Create it with an empty list of payments."""
        self.paid: list[int] = []
        self.tool = Tool.from_function(self.pay, approval="always_require")

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"paid {amount}"


class Clerk:
    """An approver that gives a fixed answer and records the requests."""

    def __init__(self, answer: Callable[[ApprovalRequest], Any] = lambda request: ApprovalDecision(True)) -> None:
        """Create it with the answer to give."""
        self.answer = answer
        self.asked: list[ApprovalRequest] = []
        self.called = asyncio.Event()
        self.withdrawn = asyncio.Event()

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer one request."""
        self.asked.append(request)
        self.called.set()
        try:
            answer = self.answer(request)
            decision: ApprovalDecision = await answer if asyncio.iscoroutine(answer) else answer
        except asyncio.CancelledError:
            self.withdrawn.set()
            raise
        return decision


async def _never(request: ApprovalRequest) -> ApprovalDecision:
    await asyncio.Event().wait()
    raise AssertionError("nobody decides")


class ApprovalCases(Cases):
    """The approver is asked before a call of a tool that requires approval."""

    def _paying(self) -> tuple[str, str]:
        return self.words.let("said", self.words.call("pay", 12)), self.words.answer("said")

    @case(TOOLS)
    async def test_a_call_that_is_approved_is_made(self, box: Sandbox) -> None:
        """The approver sees tool, arguments and program."""
        till, clerk = Till(), Clerk()
        program = self.program(*self._paying())
        result = await box.run(program, tools=Toolset.of([till.tool]).asking(clerk))
        assert self.words.answered(result) == "paid 12", result
        assert till.paid == [12]
        (request,) = clerk.asked
        assert (request.what, request.tool, dict(request.arguments)) == ("call", "pay", {"amount": 12})
        assert request.program == program.code

    @case(TOOLS)
    async def test_a_call_is_made_with_the_arguments_that_were_approved(self, box: Sandbox) -> None:
        """`ApprovalDecision.edited` replaces the arguments, and the events have the edited ones."""
        till, clerk = Till(), Clerk(lambda request: ApprovalDecision(True, edited={"amount": 3}))
        events = [
            event
            async for event in box.stream(self.program(*self._paying()), tools=Toolset.of([till.tool]).asking(clerk))
        ]
        assert till.paid == [3]
        (asked,) = [event for event in events if isinstance(event, ApprovalRequested)]
        (began,) = [event for event in events if isinstance(event, ToolStarted)]
        assert (asked.arguments, began.arguments) == ({"amount": 12}, {"amount": 3})

    @case(TOOLS)
    async def test_approved_arguments_that_the_tool_does_not_take_fail_the_call(self, box: Sandbox) -> None:
        """The program gets a `ToolError`, which says that the approver's arguments are at fault, not its own."""
        till, clerk = Till(), Clerk(lambda request: ApprovalDecision(True, edited={"amount": "a lot"}))
        program = (self.words.caught("said", self.words.call("pay", 12)), self.words.answer("said"))
        said = await self.answer(box, *program, tools=Toolset.of([till.tool]).asking(clerk))
        assert "whoever approved it edited its arguments" in said
        assert "argument 'amount' should be" in said
        assert till.paid == []

    @case(TOOLS, LINES)
    async def test_the_question_has_the_line_of_the_call(self, box: Sandbox) -> None:
        """`line` is the line of the program that makes the call, or `None` if unknown."""
        till, clerk = Till(), Clerk()
        program = self.program(self.words.let("x", "1"), *self._paying())
        await box.run(program, tools=Toolset.of([till.tool]).asking(clerk))
        assert clerk.asked[0].line in (2, None)

    @case(TOOLS)
    async def test_a_call_that_is_refused_is_never_made(self, box: Sandbox) -> None:
        """The program gets a `ToolError` with the reason for the refusal, and can catch it."""
        till, clerk = Till(), Clerk(lambda request: ApprovalDecision(False, "too much"))
        program = (self.words.caught("said", self.words.call("pay", 12)), self.words.answer("said"))
        said = await self.answer(box, *program, tools=Toolset.of([till.tool]).asking(clerk))
        assert "too much" in said
        assert till.paid == []

    @case(TOOLS)
    async def test_a_refusal_that_is_not_caught_ends_the_program(self, box: Sandbox) -> None:
        """A refusal that is not caught is an error `TOOL`, or `POLICY` in a language that distinguishes the two."""
        till, clerk = Till(), Clerk(lambda request: ApprovalDecision(False, "too much"))
        result = await box.run(self.program(*self._paying()), tools=Toolset.of([till.tool]).asking(clerk))
        failed(result)
        assert result.error is not None, NO_ERROR
        assert result.error.kind in (ErrorKind.TOOL, ErrorKind.POLICY)

    @case(TOOLS)
    async def test_without_an_approver_such_a_run_is_refused(self, box: Sandbox) -> None:
        """A run without an approver is refused with `InvalidValue` before anything runs."""
        till = Till()
        with pytest.raises(InvalidValue, match="pay"):
            await box.run(self.program(*self._paying()), tools=[till.tool])
        assert till.paid == []

    @case(TOOLS)
    async def test_where_approval_was_given_nobody_is_asked(self, box: Sandbox) -> None:
        """`Toolset.approved` is approval for the whole run."""
        till = Till()
        assert await self.answer(box, *self._paying(), tools=Toolset.of([till.tool]).approved()) == "paid 12"

    @pytest.mark.parametrize("answer", [True, None, "yes", ApprovalDecision(True, edited=[1])], ids=repr)  # type: ignore[arg-type]
    @case(TOOLS)
    async def test_any_answer_that_is_no_decision_is_a_refusal(self, box: Sandbox, answer: object) -> None:
        """An approver's answer that is no `ApprovalDecision` is a refusal."""
        till, clerk = Till(), Clerk(lambda request: answer)
        failed(await box.run(self.program(*self._paying()), tools=Toolset.of([till.tool]).asking(clerk)))
        assert till.paid == []

    @case(TOOLS)
    async def test_an_approver_that_raises_is_a_refusal(self, box: Sandbox) -> None:
        """The message of an approver's exception is not shown to the program."""

        def raises(request: ApprovalRequest) -> ApprovalDecision:
            raise RuntimeError("canary")

        till, clerk = Till(), Clerk(raises)
        result = await box.run(self.program(*self._paying()), tools=Toolset.of([till.tool]).asking(clerk))
        failed(result)
        assert till.paid == []
        assert "canary" not in str(result.to_dict())

    @case(TOOLS)
    async def test_questions_and_decisions_are_events_around_the_call(self, box: Sandbox) -> None:
        """A call that needs approval is started when it is approved."""
        till, clerk = Till(), Clerk()
        events = [
            event
            async for event in box.stream(self.program(*self._paying()), tools=Toolset.of([till.tool]).asking(clerk))
            if isinstance(event, (ApprovalRequested, ApprovalDecided, ToolStarted, ToolFinished))
        ]
        assert [type(event) for event in events] == [ApprovalRequested, ApprovalDecided, ToolStarted, ToolFinished]
        requested, decided = events[0], events[1]
        assert isinstance(requested, ApprovalRequested) and isinstance(decided, ApprovalDecided)
        assert (requested.tool, decided.decision) == ("pay", "approved")
        assert requested.request_id == decided.request_id == clerk.asked[0].id

    @case(TOOLS)
    async def test_the_clock_stands_still_while_somebody_decides(self, box: Sandbox) -> None:
        """Deciding takes longer than the run may."""

        async def attempt(seconds: float) -> tuple[ExecutionResult, float]:
            async def slowly(request: ApprovalRequest) -> ApprovalDecision:
                await asyncio.sleep(seconds + 0.2)
                return ApprovalDecision(True)

            tools = Toolset.of([Till().tool]).asking(Clerk(slowly))
            return await box.run(self.program(*self._paying()), tools=tools, timeout=seconds), seconds

        result, seconds = await self.with_enough_time(attempt, lambda outcome: not ran_out_of_time(outcome[0]))
        assert result.success, result
        assert result.usage.approval_ms >= seconds * 1000

    @case(TOOLS)
    async def test_a_cancelled_run_withdraws_its_question(self, box: Sandbox) -> None:
        """`decide` is cancelled when the run that asked has ended."""
        till, clerk = Till(), Clerk(_never)
        tools = Toolset.of([till.tool]).asking(clerk)
        task = asyncio.create_task(box.run(self.program(*self._paying()), tools=tools))
        async with asyncio.timeout(self.patience):
            await clerk.called.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await clerk.withdrawn.wait()
        assert till.paid == []
        await self.still_works(box)

    @case(TOOLS)
    async def test_nobody_is_asked_about_a_call_that_cannot_be_made(self, box: Sandbox) -> None:
        """The approver is not asked about a call whose arguments do not fit."""
        till, clerk = Till(), Clerk()
        program = self.program(self.words.let("x", self.words.call("pay", "much")))
        failed(await box.run(program, tools=Toolset.of([till.tool]).asking(clerk)))
        assert (clerk.asked, till.paid) == ([], [])
