"""Manual wiring: `execute_code` as a tool like any other, beside one that the model may only call directly."""

import asyncio

from agent_framework import Agent, tool
from scripted import ScriptedChatClient, call, program
from showing import show

from actbox.integrations.agent_framework import LinuxExecuteCodeTool


@tool
def get_rate(currency: str) -> float:
    """Return how many euros one unit of a currency is worth."""
    return {"NOK": 0.085, "SEK": 0.0875, "DKK": 0.134}[currency]


@tool
def send_email(to: str, text: str) -> str:
    """Send an e-mail."""
    return f"sent to {to}"


PROGRAM = "bills = {'NOK': 1200, 'SEK': 800, 'DKK': 500}\nround(sum(get_rate(c) * n for c, n in bills.items()), 2)"

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(
    program(PROGRAM),
    call("send_email", to="ada@example.com", text="The bills are in."),
    "I have sent it.",
)


async def main() -> None:
    async with LinuxExecuteCodeTool(tools=[get_rate]) as execute_code:
        agent = Agent(
            client=CLIENT,
            # The model is not given get_rate itself, so the instructions spell it out.
            instructions=execute_code.build_instructions(tools_visible_to_model=False),
            tools=[execute_code, send_email],
        )
        show(await agent.run("Add up the bills in euros, and tell Ada when it is done."))


asyncio.run(main())
