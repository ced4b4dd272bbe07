"""Tools that require approval, and helpers that ask for it and answer."""

from __future__ import annotations

from typing import Any

from actbox import ApprovalDecision, ErrorKind, Tool
from actbox.codeact import ApprovalNeeded, CodeActConfig, CodeActOutcome, CodeActRunner, FrozenRun

YES = ApprovalDecision(True)
NO = ApprovalDecision(False, "too much")


class Till:
    """Tools that note what was really done; `pay` and `send-mail` require approval."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.seen = "seen"
        self.tools = [
            Tool.from_function(self.pay, approval="always_require"),
            Tool.from_function(self.send_mail, name="send-mail", approval="always_require"),
            Tool.from_function(self.look),
        ]

    async def pay(self, amount: int) -> str:
        """Pay."""
        self.done.append(amount)
        return f"paid {amount}"

    async def send_mail(self, text: str) -> str:
        """Send a mail."""
        self.done.append(text)
        return "sent"

    async def look(self) -> str:
        """Look."""
        self.done.append("look")
        return self.seen


def frozen(till: Till, style: Any, **given: Any) -> FrozenRun:
    return CodeActConfig(tools=till.tools, approval_style=style, **given).freeze()


async def execute(runner: CodeActRunner, run: FrozenRun, code: str, call_id: str = "c") -> Any:
    return await runner.execute(run, {"code": code}, scope="s", call_id=call_id)


async def asked(runner: CodeActRunner, run: FrozenRun, code: str, call_id: str = "c") -> ApprovalNeeded:
    needed = await execute(runner, run, code, call_id)
    assert isinstance(needed, ApprovalNeeded), needed.text
    assert (needed.scope, needed.call_id) == ("s", call_id)
    assert runner.is_waiting(scope="s", call_id=call_id)
    return needed


async def answer(
    runner: CodeActRunner,
    run: FrozenRun,
    code: str,
    decision: ApprovalDecision,
    call_id: str = "c",
    *,
    edited: bool = False,
) -> Any:
    return await runner.answer(run, {"code": code}, scope="s", call_id=call_id, decision=decision, edited=edited)


def failed(outcome: Any) -> tuple[ErrorKind, str]:
    assert isinstance(outcome, CodeActOutcome)
    assert outcome.result.error is not None, outcome.text
    return outcome.result.error.kind, outcome.result.error.type
