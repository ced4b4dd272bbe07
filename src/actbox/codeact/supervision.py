"""`Supervision`: the review and the approval of an agent's programs, before each of them runs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.events import ApprovalDecided, ApprovalRequested, Completed, Event
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import closing
from actbox.tools import Approval, Approver, Tool, Toolset
from actbox.tools.approval import decision_of

from .approvals import ApprovalStyle, RunApproval, check_modes, effective_mode, refused, run_approval
from .approvers import Callback, approver_of
from .review_decision import Advice, advice_on, blocked, checked_rules

if TYPE_CHECKING:
    from actbox.review import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """The tools of an agent's programs, and what comes before a run: a review by `rules`, and approval.

    `approval` is the mode of every run, which tools that require approval can only tighten; `style` says when a person
    is asked.
    """

    tools: Toolset
    rules: Rules | None = None
    approver: Approver | None = None
    approval: Approval = "never_require"
    style: ApprovalStyle = "bundled"

    @classmethod
    def of(
        cls,
        tools: Toolset | Iterable[Tool | Callable[..., Any]] | None,
        *,
        review: Rules | None,
        approval: Approval,
        style: ApprovalStyle,
        approver: Approver | Callback | None,
        language: str = "python",
    ) -> Self:
        """Return the supervision with checked settings.

        Raises `InvalidValue`, also if approval could be required and there is no approver, and `Unsupported` if the
        reader of the language for reviews is not installed.
        """
        check_modes(approval, style)
        toolset = Toolset.of(tools)
        asked = approver_of(approver) or toolset.approver
        if asked is not None:
            toolset = toolset.asking(asked)
        elif effective_mode(toolset, approval) == "always_require":
            why = ", ".join(map(repr, toolset.requiring)) or "approval='always_require'"
            raise InvalidValue(f"approval is required ({why}), but there is no approver: give approver=…")
        cannot_ask = "" if asked is not None else "there is no approver: give approver=…"
        rules = None if review is None else checked_rules(review, language, cannot_ask=cannot_ask)
        return cls(tools=toolset, rules=rules, approver=asked, approval=approval, style=style)

    async def allows_tests(self, source: str) -> bool:
        """Return True if tests that a model wrote may run: nobody is asked about them, and they have no tools."""
        if self.approval == "always_require":
            return False
        if self.rules is None:
            return True
        advice = await advice_on(Program(source), self.rules, Toolset.of(None))
        return advice.error is None and not advice.question

    async def stream(
        self,
        shown: str,
        toolset: Toolset,
        run: Callable[[Toolset], AsyncIterator[Event]],
        *,
        engine: str,
        language: str = "python",
        sources: Sequence[str] = (),
    ) -> AsyncGenerator[Event]:
        """Yield the events of a run if its review and its approver allow it; the last event is `Completed`.

        `shown` is the program's text, which the approver reads. The review reads it too, or `sources`, the files of a
        program that has several. `run` begins the run with the tools that are left to it.
        """
        advice = Advice()
        try:
            if self.rules is not None:
                programs = (Program(source, language) for source in sources or [shown])
                advice = _joined([await advice_on(program, self.rules, toolset) for program in programs])
            async with aclosing(self._advised(shown, toolset, advice, run, engine)) as events:
                async for event in events:
                    yield Completed(advice.warn(event.result)) if isinstance(event, Completed) else event
        except InvalidValue as error:  # the program itself exceeds a bound, which the model can fix
            info = ErrorInfo(kind=ErrorKind.SYNTAX, message=str(error))
            yield Completed(advice.warn(ExecutionResult(exit_code=1, error=info, sandbox=engine)))

    async def _advised(
        self,
        shown: str,
        toolset: Toolset,
        advice: Advice,
        run: Callable[[Toolset], AsyncIterator[Event]],
        engine: str,
    ) -> AsyncGenerator[Event]:
        if advice.error is not None:
            yield Completed(blocked(advice.error, engine))
            return
        approval = run_approval(shown, toolset, default=self.approval, style=self.style)
        approval = replace(approval, findings=advice.question)
        if approval.required:
            async for event in self._ask(shown, approval, engine):
                yield event
                if isinstance(event, Completed):
                    return
        stream = run(approval.toolset)
        async with closing(stream):
            async for event in stream:
                yield event

    async def _ask(self, program: str, approval: RunApproval, engine: str) -> AsyncGenerator[Event]:
        """Ask the approver whether a program may run; if it may not, the last event is `Completed`."""
        assert self.approver is not None
        request = approval.request(program)
        yield ApprovalRequested(request_id=request.id, what="run", reason=request.reason, tools=request.tools)
        asked = time.perf_counter()
        decision = await decision_of(self.approver, request)
        yield ApprovalDecided(
            request_id=request.id,
            what="run",
            decision="approved" if decision.approved else "refused",
            reason=decision.reason,
            by=decision.by,
            cause=decision.cause,
            waited_ms=(time.perf_counter() - asked) * 1000,
        )
        if not decision.approved:
            yield Completed(refused(decision, engine))


def _joined(advice: Sequence[Advice]) -> Advice:
    """Return the decision on a program of several files."""
    if len(advice) == 1:
        return advice[0]
    return Advice(
        error=next((one.error for one in advice if one.error is not None), None),
        question="; ".join(one.question for one in advice if one.question),
        warnings=tuple(warning for one in advice for warning in one.warnings),
    )
