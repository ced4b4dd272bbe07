"""CodeAct: the model answers with programs, which run in a sandbox, call the agent's tools, and are mended."""

import asyncio

from scripted_model import ScriptedModel
from strands import Agent, tool

from actbox.integrations.strands import CodeActPlugin

ORDERS = {"A-17": ["tea", "tea", "cake"], "B-4": ["cake"], "C-9": ["tea"]}


@tool
def list_orders() -> dict[str, list[str]]:
    """Return the items of each order."""
    return ORDERS


@tool
async def price(item: str) -> int:
    """Return the price of an item in cents."""
    await asyncio.sleep(0.1)
    return {"tea": 450, "cake": 320}[item]


FAILS = """\
I look up what each item costs, all at once:

```python
import asyncio

orders = await list_orders()
items = sorted({item for order in orders for item in order})
prices = dict(zip(items, await asyncio.gather(*(price(item) for item in items))))
```
"""

MENDS = """\
`orders` maps a name to its items, so I need the values. It is still there:

```python
items = sorted({item for order in orders.values() for item in order})
prices = dict(zip(items, await asyncio.gather(*(price(item) for item in items))))
totals = {name: sum(prices[item] for item in order) for name, order in orders.items()}
print(totals)
await final_answer(max(totals, key=totals.get))
```
"""

# The one line to change for a real model, for example to BedrockModel() of strands.models:
MODEL = ScriptedModel(FAILS, MENDS)


async def main() -> None:
    agent = Agent(MODEL, tools=[list_orders, price], plugins=[CodeActPlugin()], callback_handler=None)
    async for event in agent.stream_async("Which order is the dearest?"):
        happened = event.get("codeact", {})
        if "program" in happened:
            print(f"── program {happened['program']['number']}\n{happened['program']['code']}")
        if "tool_use" in happened:
            print(f"calls {happened['tool_use']['name']}({happened['tool_use']['input']})")
        if "printed" in happened:
            print(f"prints {happened['printed']['text']}", end="")
        if "result" in event:
            result = event["result"]
    print("── what the model read of the first program\n" + agent.messages[2]["content"][0]["text"])
    print("── answer:", result.state["codeact"]["answer"], "after", result.state["codeact"]["turns"], "turns")


asyncio.run(main())
