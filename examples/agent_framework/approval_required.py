"""Approval, bundled: if any tool requires approval, somebody is asked before each program. One is approved, one not."""

import asyncio

from agent_framework import Agent, Message, tool
from scripted import ScriptedChatClient, program
from showing import show, show_question

from actbox.integrations.agent_framework import LinuxCodeActProvider


@tool
def open_invoices() -> dict[str, int]:
    """Return the invoices that are to be paid, with their amounts in euros."""
    return {"A-17": 40, "B-4": 65, "C-9": 9_000}


@tool(approval_mode="always_require")
def pay(invoice: str) -> str:
    """Pay an invoice."""
    print(f"    (the host pays {invoice})\n")
    return f"paid {invoice}"


# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(
    program("[pay(invoice) for invoice, euros in open_invoices().items() if euros < 100]"),
    "The small ones are paid.",
    program("pay('C-9')"),
    "I was not allowed to pay C-9.",
)


async def main() -> None:
    async with LinuxCodeActProvider(tools=[open_invoices, pay]) as codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        session = agent.create_session()  # without one the framework takes no answer
        for task, approved in [("Pay the small invoices.", True), ("Now the large one.", False)]:
            response = await agent.run(task, session=session)
            show(response)
            while response.user_input_requests:
                for request in response.user_input_requests:
                    show_question(request)
                print(f"THE ANSWER IS {'yes' if approved else 'no'}\n")
                answers = [request.to_function_approval_response(approved) for request in response.user_input_requests]
                response = await agent.run(Message("user", answers), session=session)
                show(response)


asyncio.run(main())
