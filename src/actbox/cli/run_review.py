"""The review that `actbox run --rule` makes before the program runs.

It is advice on top of isolation, never instead of it.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from actbox.codeact.approvals import refused
from actbox.codeact.review_decision import Advice, blocked, decide
from actbox.core.errors import ErrorInfo
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.review import Rules, review
from actbox.tools import ApprovalDecision, ApprovalRequest
from actbox.tools.threads import run_in_thread

from .approver import TerminalApprover


async def advice_on(program: Program, rules: Rules) -> Advice:
    """Return the review's decision about a program under these rules."""
    return decide(await run_in_thread(review, program, rules))  # takes seconds for a large one; Ctrl-C must work


async def result_without_running(program: Program, advice: Advice, engine: str) -> ExecutionResult | None:
    """Return the result of a program that must not run, or `None` if it may; asks at the terminal if a rule says so."""
    if advice.error is not None:
        return blocked(advice.error, engine)
    if not advice.question:
        return None
    request = ApprovalRequest(id=secrets.token_hex(8), what="run", program=program.code, reason=advice.question)
    decision = await TerminalApprover().decide(request)
    if decision.approved:
        return None
    result = refused(decision, engine)
    assert result.error is not None
    return replace(result, error=_for_a_person(result.error, decision, advice))


def _for_a_person(error: ErrorInfo, decision: ApprovalDecision, advice: Advice) -> ErrorInfo:
    if decision.cause == "decided":
        return replace(error, hint="")  # the hint is for the person who just refused
    hint = f"{advice.question}; answer at a terminal, or give the rule another verdict with --rule"
    return replace(error, hint=hint)
