"""A governed agent makes a chart of personal data: somebody approves on a page, and the chart may not leave.

The model is a scripted one; the registry, its approvals, labels, budget and journal are real, and so is the sandbox.

python examples/governed_chart.py           a script answers on the page, as a person would
python examples/governed_chart.py --ask     prints the page's address, and waits for you
"""

import asyncio
import contextlib
import re
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import uvicorn

import actbox
from actbox.capabilities import Approvals, Budget, CapabilityTools, Journal, Outcome, standard_registry
from actbox.capabilities.approval_page import app, entrance, new_token
from actbox.codeact import Answered, CodeAgent, CodeFinished, ScriptedModel

CUSTOMERS = "name,email,spent\nAnn,ann@example.org,120\nBob,bob@example.org,80\nCleo,cleo@example.org,200\n"
CHART = """
import pandas as pd
import matplotlib.pyplot as plt

frame = pd.read_csv("input/customers.csv")
frame.plot.bar(x="name", y="spent")
plt.savefig("output/spent.png")
"""
PROGRAM = """
done = execute_python(code={chart!r}, input_files={{"customers.csv": {path!r}}})
show(done["files"]["spent.png"])
try:
    network_http_request(url="https://charts.example.com/", method="POST", body=done["files"]["spent.png"])
except ToolError as error:
    print("not sent:", error)
"""


@actbox.tool(cleared="pii")
def show(png: str) -> None:
    """Show a picture, as Base64, to the user."""
    print("shown to the user:", len(png), "characters of a picture")


@contextlib.asynccontextmanager
async def served(approvals: Approvals) -> AsyncIterator[str]:
    """Serve the approvers' page on a free port of this machine; yield its address, with the token in it."""
    token = new_token()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app(approvals, token), log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield entrance(f"http://127.0.0.1:{listening.getsockname()[1]}", token)
        server.should_exit = True
        await serving


async def answer(address: str) -> None:
    """Read the first question on the page, and approve it, as a person would in a browser."""
    async with httpx.AsyncClient(follow_redirects=True) as browser:
        page = await browser.get(address)
        while (question := re.search(r'<td><a href="(/[^"]+)">', page.text)) is None:
            await asyncio.sleep(0.05)
            page = await browser.get(page.url)
        page = await browser.get(page.url.join(question[1]))
        print("the approver reads:", *_facts(page.text), sep="\n  ")
        [form] = re.findall(r'name="form" value="([^"]+)"', page.text)
        said = {"form": form, "by": "ann", "reason": "a chart for the board", "scope": "once"}
        await browser.post(f"{page.url}/approve", data=said)


async def work(agent: CodeAgent) -> None:
    """Ask the agent for a chart, and print what its program prints and what it says."""
    async for event in agent.stream("Make a chart of what our customers spent."):
        match event:
            case CodeFinished(result=result):
                print("the program:", result.stdout.strip() or result.error)
            case Answered(outcome=outcome):
                print("the agent:", outcome.answer)


def _facts(page: str) -> Iterator[str]:
    for name, value in re.findall(r"<th>(capability|caller|data)</th><td>(.*?)</td>", page):
        yield f"{name}: {value}"
    if "read_csv" in page:
        yield "and the code"


async def main() -> None:
    """Let the agent work, then read its journal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        (folder / "data" / "customers.csv").write_text(CUSTOMERS)
        address = f"sqlite:///{folder}/agents.db"
        journal, approvals = Journal.open(address, key=folder / "journal.pem"), Approvals.open(address)
        program = PROGRAM.format(chart=CHART, path=str(folder / "data" / "customers.csv"))
        model = ScriptedModel([f"```python\n{program}```", "The chart is above; sending it was refused."])
        outcomes: list[Outcome] = []
        registry = standard_registry(
            input_roots={folder / "data": "pii"},
            domains=[actbox.AllowedDomain("charts.example.com")],
            egress_max="public",
            journal=journal,
            approvals=approvals,
        )
        async with registry, actbox.open_sandbox("linux") as box, served(approvals) as page:
            tools = CapabilityTools(registry, caller="agent-1", budget=Budget(steps=10), on_outcome=outcomes.append)
            agent = CodeAgent(model, box, tools=[*tools, show])
            if "--ask" in sys.argv:
                print("answer at", page)
                await work(agent)
            else:
                await asyncio.gather(work(agent), answer(page))
        print("labels of the chart:", outcomes[0].labels)
        async for entry in journal.entries():
            said = entry.body
            print(entry.seq, entry.kind, said["capability"], said["labels"], said.get("error", {}).get("step", ""))
        print("the journal verifies:", (await journal.verify()).ok)
        approvals.close()
        journal.close()


asyncio.run(main())
