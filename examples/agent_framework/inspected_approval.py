"""Approval, inspected: a program is read before it runs, and somebody is asked if it names a tool that requires it.

With `only_named_tools` a program has no tools but those that it names, so that what is not seen in it cannot be called.
"""

import asyncio

from agent_framework import Agent, Message, tool
from scripted import ScriptedChatClient, program
from showing import show, show_question

from actbox.integrations.agent_framework import LinuxCodeActProvider

STOCK = {"tea": 3, "coffee": 40}


@tool
def stock_of(item: str) -> int:
    """Return how much of an item is in store."""
    return STOCK[item]


@tool
def what_to_do() -> str:
    """Return what the shop's owner noted last."""
    return "order"


@tool(approval_mode="always_require")
def order(item: str, amount: int) -> str:
    """Order more of an item."""
    STOCK[item] += amount
    return f"{amount} of {item} ordered"


LOOK = "{item: stock_of(item) for item in ['tea', 'coffee']}"
ORDER = "if stock_of('tea') < 10:\n    print(order('tea', 20))"
UNNAMED = "call_tool(what_to_do(), item='coffee', amount=1_000)"

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(program(LOOK), program(ORDER), program(UNNAMED), "Tea is ordered, and coffee is not.")


async def main() -> None:
    async with LinuxCodeActProvider(
        tools=[stock_of, what_to_do, order], approval_style="inspected", only_named_tools=True
    ) as codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        session = agent.create_session()  # without one the framework takes no answer
        response = await agent.run("See that there is enough tea and coffee.", session=session)
        show(response)  # the first program names nothing that requires approval, and has run
        while response.user_input_requests:
            answers = []
            for request in response.user_input_requests:
                show_question(request)
                answers.append(request.to_function_approval_response(True))
            print("THE ANSWER IS yes\n")
            response = await agent.run(Message("user", answers), session=session)
            show(response)
    print("in store now:", STOCK)


asyncio.run(main())
