"""A whole task: data from your tools, a first attempt that fails and is mended, a chart, and an approval at the end.

It is the task of `actbox demo`, and needs its data: `pip install '.[agent-framework,demo]'`.
"""

import asyncio
import base64
import tempfile
from pathlib import Path

from agent_framework import Agent, AgentResponse, Message, tool
from scripted import ScriptedChatClient, program
from showing import show, show_question

from actbox.cli.demo_case import QUESTION, demo_tools
from actbox.integrations.agent_framework import LinuxCodeActProvider

PUBLISHED: list[str] = []


@tool(approval_mode="always_require")
def publish(title: str, differences: dict[str, float]) -> str:
    """Publish by how many degrees Fahrenheit Seattle is warmer, by the names of the months."""
    PUBLISHED.append(title)
    return f"published with {len(differences)} months: {title}"


LOOK = """\
import asyncio

names = await list_datasets()
frames = await asyncio.gather(*(load_dataset(name) for name in names))
for name, records in zip(names, frames):
    print(f"{name}: {names[name]}; {len(records)} records, for example {records[0]}")
"""

COMPARE = """\
import pandas as pd

seattle = pd.DataFrame(load_dataset("seattle-temps"))
san_francisco = pd.DataFrame(load_dataset("sf-temps"))
joined = seattle.merge(san_francisco, on="date", suffixes=("_seattle", "_sf"))
joined["month"] = pd.to_datetime(joined["date"]).dt.month
monthly = joined.groupby("month")[["temperature_seattle", "temperature_sf"]].mean()
"""

MENDED = f"""\
import calendar
import matplotlib.pyplot as plt
{COMPARE.replace("temperature_", "temp_")}
monthly.columns = ["Seattle", "San Francisco"]
monthly.plot(marker="o", title="Average temperature by month", ylabel="degrees Fahrenheit")
plt.savefig("/output/temperatures.png", dpi=150)
plt.close()

difference = (monthly["Seattle"] - monthly["San Francisco"]).round(1)
warmer = {{calendar.month_name[month]: value for month, value in difference.items() if value > 0}}
publish("Months in which Seattle is warmer", warmer)
warmer
"""

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(
    ["I look at what there is.", program(LOOK)],
    ["Both have one record an hour: I join them, and average by month.", program(COMPARE)],
    ["The column is called `temp`. Mended, with the chart, and published.", program(MENDED)],
    lambda read: f"Seattle is warmer in these months, by °F: {read.rpartition('[value]')[2].split('[')[0].strip()}",
)


def save_files(response: AgentResponse) -> None:
    """Keep the files that came back, here in a new folder."""
    folder = Path(tempfile.mkdtemp())
    for message in response.messages:
        for result in message.contents:
            for file in result.items or []:
                if file.type == "data" and file.name and file.uri:
                    (folder / file.name).write_bytes(base64.b64decode(file.uri.partition(",")[2]))
                    print(f"saved: {folder / file.name}")


def answers(response: AgentResponse) -> Message:
    """Put the questions to somebody. Here all are approved; see approval_required.py for a refusal."""
    for request in response.user_input_requests:
        show_question(request)
    print("THE ANSWER IS yes\n")
    return Message("user", [request.to_function_approval_response(True) for request in response.user_input_requests])


async def main() -> None:
    codeact = LinuxCodeActProvider(
        tools=[*demo_tools(), publish],
        approval_style="inspected",  # only a program that names `publish` is asked about
        file_surface=True,  # programs are offered /output without a workspace root or a mount
    )
    async with codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        session = agent.create_session()
        response = await agent.run(QUESTION, session=session)
        show(response)
        while response.user_input_requests:
            response = await agent.run(answers(response), session=session)
            show(response)
            save_files(response)
    print("published:", PUBLISHED)


asyncio.run(main())
