"""A conversation, streamed: files stay from turn to turn of a session, and another session does not see them."""

import asyncio

from agent_framework import Agent, AgentSession
from scripted import ScriptedChatClient, program
from showing import show

from actbox.integrations.agent_framework import LinuxCodeActProvider

COUNT = "import os\nos.listdir('/output')"

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(
    [
        "I write them to a file. ",
        program("open('/output/squares.txt', 'w').write(' '.join(str(n * n) for n in range(10)))"),
    ],
    "Done.",
    [
        "I read the file again. ",
        program("sum(map(int, open('/output/squares.txt').read().split()))"),
    ],
    "That is their sum.",
    program(COUNT),
    "There is nothing here.",
)


async def ask(agent: Agent, task: str, session: AgentSession) -> None:
    """Stream what the model says, and then show the whole turn."""
    print(f"=== {task}")
    stream = agent.run(task, session=session, stream=True)
    async for update in stream:
        for item in update.contents:
            kind = item.type if item.type != "text" else repr(item.text)
            print("update:", kind)
    print()
    show(await stream.get_final_response())


async def main() -> None:
    async with LinuxCodeActProvider(file_surface=True) as codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        session = agent.create_session()
        await ask(agent, "Write the squares below 100 to a file.", session)
        await ask(agent, "Add them up.", session)
        await ask(agent, "Which files are there?", agent.create_session())


asyncio.run(main())
