"""An agent that may pay, what it really did, and its conversation: for tests of approval."""

from __future__ import annotations

from typing import Any

from agent_framework import AgentSession, FunctionTool

from tests.clock import Clock
from tests.integrations.af_scripted import ScriptedClient, agent_of
from tests.waiting import until

Ledger = list[str]
"""What was really done, in order."""


def payment_tools(ledger: Ledger) -> list[FunctionTool]:
    """Return `pay`, which requires approval, and `look`, which does not."""

    def pay(name: str, amount: int = 1) -> str:
        ledger.append(f"paid {name} {amount}")
        return f"receipt for {name}"

    def look(name: str) -> str:
        ledger.append(f"looked at {name}")
        return f"{name} is fine"

    return [
        FunctionTool(name="pay", description="Pay somebody.", func=pay, approval_mode="always_require"),
        FunctionTool(name="look", description="Look somebody up.", func=look),
    ]


async def until_nothing_waits(provider: Any, clock: Clock) -> None:
    """Let the time of all questions pass, and return when the programs have ended that go on unanswered."""
    clock.turn(provider._runner._approval_timeout)
    await until(lambda: all(each.waits.paused.is_over for each in provider._runner._approvals.open()))


class Conversation:
    """One agent with one session, which streams or does not."""

    def __init__(
        self, provider: Any, *turns: Any, streams: bool = False, with_session: bool = True, keeps_history: bool = False
    ) -> None:
        self.client = ScriptedClient(*turns, keeps_history=keeps_history)
        self.agent = agent_of(self.client, provider)
        self.session = AgentSession() if with_session else None
        self.streams = streams

    async def say(self, message: Any) -> Any:
        if not self.streams:
            return await self.agent.run(message, session=self.session)
        stream = self.agent.run(message, session=self.session, stream=True)
        async for _ in stream:
            pass
        return await stream.get_final_response()
