"""Files and network: a folder at /input, one more file below it, results from /output, and one host that is allowed.

The host is a server on this machine, so that the example needs no network; programs reach it by the policy's proxy.
"""

import asyncio
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agent_framework import Agent
from scripted import ScriptedChatClient, program
from showing import show

from actbox import AllowedDomain
from actbox.integrations.agent_framework import FileMount, LinuxCodeActProvider


class Rates(BaseHTTPRequestHandler):
    """Says how many dollars a euro is worth."""

    def do_GET(self) -> None:
        body = b'{"EUR": 1.17}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


CONVERT = """\
import csv, json, urllib.request

rate = json.load(urllib.request.urlopen("http://localhost:{port}/rates"))["EUR"]
names = json.load(open("/input/names.json"))
with open("/output/dollars.csv", "w") as file:
    for row in csv.DictReader(open("/input/sales.csv")):
        print(names[row["city"]], round(float(row["euros"]) * rate, 2), sep=",", file=file)
print(open("/output/dollars.csv").read())
"""
AGAIN = "import os\nos.listdir('/output'), os.listdir('/input')"
ELSEWHERE = "import urllib.request\nurllib.request.urlopen('http://example.com/rates')"
CHANGE = "open('/input/sales.csv', 'a')"


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Rates)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_port

    folder = Path(tempfile.mkdtemp())
    (folder / "project").mkdir()
    (folder / "project" / "sales.csv").write_text("city,euros\nosl,120\nbgo,80.5\n")
    (folder / "cities.json").write_text('{"osl": "Oslo", "bgo": "Bergen"}')

    codeact = LinuxCodeActProvider(
        workspace_root=folder / "project",
        file_mounts=[FileMount(folder / "cities.json", "names.json")],
        # A host of one's own network takes private=True; for a public one, "api.example.com" suffices.
        allowed_domains=[AllowedDomain(f"http://localhost:{port}", ["GET"], private=True)],
    )
    # The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
    client = ScriptedChatClient(
        program(CONVERT.replace("{port}", str(port))),
        program(AGAIN),
        program(ELSEWHERE),
        program(CHANGE),
        "The table is in dollars.csv; I could neither ask another host nor change what I was given.",
    )
    async with codeact:
        agent = Agent(client=client, context_providers=[codeact])
        show(await agent.run("Convert the sales to dollars.", session=agent.create_session()))
    server.shutdown()


asyncio.run(main())
