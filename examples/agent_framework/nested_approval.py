"""Approval, nested: somebody is asked at each call of a tool that requires it, while the program waits inside."""

import asyncio

from agent_framework import Agent, Message, tool
from scripted import ScriptedChatClient, program
from showing import show, show_question

from actbox.integrations.agent_framework import LinuxCodeActProvider


@tool(approval_mode="always_require")
def refund(order: str, euros: int) -> str:
    """Pay money back."""
    return f"{euros} euros paid back for {order}"


PROGRAM = """\
for order, euros in {"A-17": 20, "B-4": 3_000}.items():
    try:
        print(refund(order, euros))
    except ToolError as error:
        print(f"{order}: {error}")
"""

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(program(PROGRAM), lambda read: f"All that I have read is this:\n{read}")


async def main() -> None:
    async with LinuxCodeActProvider(tools=[refund], approval_style="nested") as codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        session = agent.create_session()  # without one the framework takes no answer
        response = await agent.run("Pay back what is owed.", session=session)
        show(response)
        while response.user_input_requests:
            answers = []
            for request in response.user_input_requests:
                show_question(request)
                approved = request.function_call.parse_arguments()["euros"] < 100
                print(f"THE ANSWER IS {'yes' if approved else 'no'}\n")
                answers.append(request.to_function_approval_response(approved))
            response = await agent.run(Message("user", answers), session=session)
            show(response)


asyncio.run(main())
