"""An agent that makes a mistake, reads the error and mends it. The model is a scripted one; the sandbox is real."""

import asyncio

import actbox
from actbox.codeact import Answered, CodeAgent, CodeFinished, CodeStarted, ScriptedModel


@actbox.tool
def sales(region: str) -> list[int]:
    """Return the sales of each quarter."""
    return {"north": [10, 12, 9, 14], "south": [7, 15, 11, 13]}[region]


model = ScriptedModel(
    [
        "```python\nbest = max(sales('North'))\nfinal_answer(best)\n```",
        "Regions are in lower case.\n```python\nbest = max(sales('north') + sales('south'))\nfinal_answer(best)\n```",
    ]
)


async def main() -> None:
    """Ask, and show each program and what came of it."""
    async with actbox.open_sandbox() as box:
        async for event in CodeAgent(model, box, tools=[sales]).stream("What was the best quarter of any region?"):
            match event:
                case CodeStarted(code=code):
                    print("program:", code.strip().replace("\n", "; "))
                case CodeFinished(result=result):
                    print("result: ", "fine" if result.success else result.error and result.error.message)
                case Answered(outcome=outcome):
                    print("answer: ", outcome.answer)


asyncio.run(main())
