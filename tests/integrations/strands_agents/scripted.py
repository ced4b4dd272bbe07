"""A model of Strands' that says what a test has written for it, in the events that a real one streams."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

from strands.models.model import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolSpec

Call = tuple[str, dict[str, Any]]
"""A tool that the model calls: its name, and the arguments."""
Turn = str | Call | Sequence[str | Call] | Callable[[Messages], "Turn"]
"""What the model says in one turn: words, calls, several of them, or what a function makes of the conversation."""


class ScriptedModel(Model):
    """Says one turn after the other; what it was sent in each is in `seen`."""

    def __init__(self, *turns: Turn, stop_reason: str = "") -> None:
        """`stop_reason` is every turn's, where it is not to follow from what the turn has."""
        self._turns = list(turns)
        self._stop_reason = stop_reason
        self._calls = 0
        self.seen: list[dict[str, Any]] = []

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {"context_window_limit": 200_000}

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError
        yield {}

    async def stream(
        self,
        messages: Messages,
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[StreamEvent]:
        self.seen.append(
            {"messages": json.loads(json.dumps(messages, default=str)), "tools": tool_specs, "system": system_prompt}
        )
        assert self._turns, "the model was asked once more than its script has turns"
        turn: Any = self._turns.pop(0) if len(self._turns) > 1 or not callable(self._turns[0]) else self._turns[0]
        said: Any = turn(messages) if callable(turn) else turn
        blocks = [said] if isinstance(said, str) or _is_call(said) else list(said)
        yield {"messageStart": {"role": "assistant"}}
        for block in blocks:
            for event in self._block(block):
                yield event
        reason: Any = self._stop_reason or ("tool_use" if any(map(_is_call, blocks)) else "end_turn")
        yield {"messageStop": {"stopReason": reason}}
        usage: Any = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}

    def _block(self, block: str | Call) -> list[StreamEvent]:
        if isinstance(block, str):
            return [
                {"contentBlockStart": {"start": {}}},
                {"contentBlockDelta": {"delta": {"text": block}}},
                {"contentBlockStop": {}},
            ]
        self._calls += 1
        name, arguments = block
        return [
            {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"call-{self._calls}"}}}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}},
            {"contentBlockStop": {}},
        ]


def _is_call(block: Any) -> bool:
    return isinstance(block, tuple) and len(block) == 2 and isinstance(block[1], dict)
