"""The model of the examples: a scripted one that replays its answers, or the real one that `--model` names.

python examples/codegen/NAME.py                                                          no model is asked
python examples/codegen/NAME.py --model anthropic:claude-sonnet-4-6                      needs ANTHROPIC_API_KEY
python examples/codegen/NAME.py --model openai-chat:qwen3-coder --base-url http://127.0.0.1:11434/v1
"""

import argparse
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from actbox.capabilities import Prices, TokenPrice
from actbox.codeact import ChatModel, Message, ModelReply, ScriptedModel, TokenUsage, ToolSpec

PRICES = Prices(models={"scripted": TokenPrice(input=3, output=15)})
"""The price of the scripted model: US dollars for a million tokens, as a large model costs."""


class Scripted(ScriptedModel):
    """A scripted model whose tokens are counted, four characters each, so that there is a cost to look at."""

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Return the next reply with its tokens."""
        reply = await super().complete(messages, tools)
        read = sum(len(message.text) for message in messages)
        return replace(reply, usage=TokenUsage(read // 4, len(reply.text) // 4))


@contextlib.asynccontextmanager
async def chosen_model(*replies: str) -> AsyncIterator[ChatModel]:
    """Yield the model that the command line names, else a scripted one with these replies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="a real model, such as openai:gpt-5")
    parser.add_argument("--base-url", metavar="URL", help="the address of another server than the provider's")
    options = parser.parse_args()
    if options.model is None:
        print("NO MODEL IS ASKED: a script answers. The agent, the sandbox and the checks are real.\n")
        yield Scripted(replies)
        return
    from actbox.integrations.pydantic_ai import PydanticAIModel

    async with PydanticAIModel(options.model, base_url=options.base_url) as model:
        yield model
