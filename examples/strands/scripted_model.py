"""A model that asks NO SERVICE: it replays what was written before, so that the examples run offline.

Everything else in the examples is real: the agent, its loop and hooks, the sandbox, the tools. What an answer says
about a result it takes from what the model was sent, never from what its author knew.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from strands.models.model import Model
from strands.types.content import Message, Messages
from strands.types.streaming import StreamEvent

Call = tuple[str, dict[str, Any]]
Answer = str | Call | Callable[[str], str]
"""What the model is played to say: words, a tool that it calls with arguments, or words made of the last message."""

NO_MODEL = (
    "*** NO MODEL IS ASKED: the answers below come from a script. The agent, the tools and the sandbox are real. ***"
)


class ScriptedModel(Model):
    """Gives one answer after the other, however often it is asked; at the end there are none left, and it raises."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self._announced = False

    def update_config(self, **model_config: Any) -> None:
        """Take no notice: there is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        """Return how much it could read, which Strands wants to know."""
        return {"context_window_limit": 200_000}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: it has no answer of that kind."""
        raise NotImplementedError

    async def stream(self, messages: Messages, *args: Any, **kwargs: Any) -> AsyncIterator[StreamEvent]:
        """Give the next answer in the events that a real model streams."""
        if not self._announced:
            self._announced = True
            print(f"{NO_MODEL}\n")
        if not self._answers:
            raise RuntimeError("the script is over: a scripted model has no more answers than it was given")
        answer = self._answers.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(answer, tuple):
            name, arguments = answer
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": uuid.uuid4().hex}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
        else:
            text = answer if isinstance(answer, str) else answer(_text_of(messages[-1]))
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if isinstance(answer, tuple) else "end_turn"}}


def _text_of(message: Message) -> str:
    return "\n".join(block.get("text", "") for block in message["content"])
