"""An agent that lies, floods or breaks the rules: nothing of it is believed, and memory stays bounded."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from actbox import ErrorKind, FileError, SandboxUnavailable
from actbox.sandbox.guest import frames
from actbox.sandbox.guest.agent_boot import own_modules
from actbox.sandbox.guest.frames import FrameError, FrameParser, pack
from actbox.sandbox.remote import Agent, AgentConfig
from actbox.sandbox.remote import agent as agent_module
from actbox.sandbox.remote.agent import agent_arguments
from actbox.sandbox.remote.connection import Connection
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.run_end import Ending
from actbox.sandbox.workspace import Workspace, open_folder

# Says hello, then does as it is told in its arguments when it is asked for the first thing.
_HOSTILE = """
import os, struct, sys, json, zlib
def read(n):
    data = b''
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece: os._exit(0)
        data += piece
    return data
def frame(kind, stream, part=0, payload=b''):
    return struct.pack('!BBII', kind, part, stream, len(payload)) + payload
def say(data):
    while data:
        data = data[os.write(1, data):]
read(*struct.unpack('!I', read(4)))
say(frame(8, 0, 0, json.dumps({'python': [3, 9, 0], 'workspace': '/w', 'platform': 'x', 'warnings': []}).encode()))
kind, part, stream, length = struct.unpack('!BBII', read(10))
read(length)
"""


def hostile(then: str) -> Agent:
    """Return an agent that runs this once it is asked for something; `stream` is what for."""
    source = _HOSTILE + textwrap.dedent(then) + "\nwhile True: os.read(0, 65536) or os._exit(0)\n"
    return Agent.start([sys.executable, "-I", "-c", source], AgentConfig(), seconds=60)


ENDING = {"exit_code": 0, "signal": None, "limit": "", "cpu_ms": 0.0, "max_rss_bytes": 0, "failure": ""}
NONSENSE = {
    "a giant frame": "say(struct.pack('!BBII', 5, 2, stream, 2**31))",
    "an unknown kind": "say(frame(77, stream))",
    "a frame that guests have not": "say(frame(10, stream, 0, b'{}'))",
    "an ending that is no JSON": "say(frame(9, stream, 0, b'nonsense'))",
    "an ending with more fields": f"say(frame(9, stream, 0, {json.dumps({**ENDING, 'x': 1}).encode()!r}))",
    "an ending with fewer fields": "say(frame(9, stream, 0, b'{}'))",
    "an ending with no number": f"say(frame(9, stream, 0, {json.dumps({**ENDING, 'cpu_ms': ''}).encode()!r}))",
    "an ending by no signal": f"say(frame(9, stream, 0, {json.dumps({**ENDING, 'signal': 400}).encode()!r}))",
    "an ending by an unknown limit": f"say(frame(9, stream, 0, {json.dumps({**ENDING, 'limit': 'x'}).encode()!r}))",
    "more output than there is room for": "for _ in range(10): say(frame(5, stream, 2, bytes(131072)))",
    "more room than there is": "say(frame(7, stream, 0, struct.pack('!I', 2**31)))",
    "room that is no number": "say(frame(7, stream, 0, b'xx'))",
    "output of a part that there is not": "say(frame(5, stream, 4, b'x'))",
}


@pytest.mark.parametrize("then", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_ends_the_agent_and_its_guests_by_the_protocol(then: str) -> None:
    agent = await asyncio.to_thread(hostile, then)
    guest = agent.start_guest()
    ending = await asyncio.wait_for(guest.wait(), 60)
    assert isinstance(ending, Ending)
    assert guest.stopped is not None and guest.stopped.kind is ErrorKind.PROTOCOL
    assert not agent.alive
    guest.close()
    await asyncio.to_thread(agent.close)


LIES = {
    "no list": "say(frame(5, stream, 4, b'nonsense')); say(frame(10, stream, 0, b'{\"ok\": null}'))",
    "other values": "say(frame(5, stream, 4, b'[1, 2, 3, 4]')); say(frame(10, stream, 0, b'{\"ok\": null}'))",
    "an answer with other fields": 'say(frame(10, stream, 0, b\'{"ok": 1, "errno": 2}\'))',
    "an end in the middle": "say(frame(5, stream, 4, b'[\"a\"')); os._exit(0)",
}


@pytest.mark.parametrize("then", LIES.values(), ids=LIES.keys())
async def test_a_lie_about_files_is_an_error_of_the_file_method(then: str) -> None:
    agent = await asyncio.to_thread(hostile, then)
    workspace: RemoteWorkspace = agent.workspace("/w", most_mib=1)
    with pytest.raises(OSError):
        await asyncio.to_thread(workspace.list, ".", False)
    await asyncio.to_thread(agent.close)


def told(entry: list[object]) -> str:
    """Return what an agent does that says this of a file."""
    return f"say(frame(10, stream, 0, {json.dumps({'ok': entry}).encode()!r}))"


NO_DESCRIPTIONS: dict[str, list[object]] = {
    "a setuid file": ["f", "file", 3, 0.0, 0o4755, ""],
    "a negative mode": ["f", "file", 3, 0.0, -5, ""],
    "a mode that is true": ["f", "file", 3, 0.0, True, ""],
    "a negative size": ["f", "file", -5, 0.0, 0o644, ""],
    "a size that is true": ["f", "file", True, 0.0, 0o644, ""],
    "a size of no file": ["f", "file", 2**63, 0.0, 0o644, ""],
    "a time that is true": ["f", "file", 3, True, 0o644, ""],
    "a time that is no number": ["f", "file", 3, float("nan"), 0o644, ""],
    "a time that is no float": ["f", "file", 3, 10**400, 0o644, ""],
}


@pytest.mark.parametrize("entry", NO_DESCRIPTIONS.values(), ids=NO_DESCRIPTIONS.keys())
async def test_a_description_that_no_file_has_is_refused(entry: list[object]) -> None:
    agent = await asyncio.to_thread(hostile, told(entry))
    workspace: RemoteWorkspace = agent.workspace("/w", most_mib=1)
    with pytest.raises(FileError, match="makes no sense"):
        await asyncio.to_thread(workspace.stat, "f")
    await asyncio.to_thread(agent.close)


async def test_no_agent_makes_a_setuid_file_in_the_input_folder_of_the_host(tmp_path: Path) -> None:
    agent = await asyncio.to_thread(hostile, told(NO_DESCRIPTIONS["a setuid file"]))
    workspace = agent.workspace(
        "/w", most_mib=1, input_folder=Workspace(open_folder(str(tmp_path)), "/w", at=("input",))
    )
    with pytest.raises(FileError):
        await asyncio.to_thread(workspace.move, "f", "input/f")
    assert list(tmp_path.iterdir()) == []
    workspace.close()
    await asyncio.to_thread(agent.close)


async def test_a_file_without_end_is_not_taken_in() -> None:
    agent = await asyncio.to_thread(hostile, "while True: say(frame(5, stream, 4, bytes(65536)))")
    workspace: RemoteWorkspace = agent.workspace("/w", most_mib=1)
    with pytest.raises(OSError):
        await asyncio.to_thread(workspace.read, "a")
    await asyncio.to_thread(agent.close)


async def test_artifacts_with_paths_that_lead_elsewhere_are_not_asked_for() -> None:
    import actbox

    lie = (
        "say(frame(5, stream, 4, b'[\"../../etc/passwd\", 3]')); say(frame(10, stream, 0, "
        + repr(json.dumps({"ok": {"left_out": [], "end": "", "empty": False}}).encode())
        + "))"
    )
    agent = await asyncio.to_thread(hostile, lie)
    workspace: RemoteWorkspace = agent.workspace("/w", most_mib=1)
    output = workspace.mark_empty_output(actbox.Limits())
    assert output is not None
    with pytest.raises(OSError):
        await output.collect_if_any()
    await asyncio.to_thread(agent.close)


@pytest.mark.parametrize(
    ("command", "seconds", "why"),
    [
        (["/no/such/command"], 30, "No such file"),
        (["false"], 30, "has ended"),
        (["sh", "-c", "echo the reason >&2; exit 3"], 30, "the reason"),
        (["sleep", "60"], 0.5, "did not answer within 0.5 seconds"),
    ],
    ids=lambda given: str(given[0]) if isinstance(given, list) else None,
)
def test_a_command_that_makes_no_agent_says_why(command: list[str], seconds: float, why: str) -> None:
    with pytest.raises(SandboxUnavailable, match=why):
        Agent.start(command, AgentConfig(), seconds=seconds)


def test_an_agent_that_is_quick_to_say_hello_is_heard() -> None:
    """It may have said so before whoever starts it goes on."""
    said, heard = os.pipe(), threading.Event()
    words, taken = os.pipe(), os.pipe()
    os.write(said[1], frames.pack_json(frames.HELLO, 0, {"python": [3, 13, 0]}))
    hellos: list[dict[str, object]] = []

    def begun(hello: dict[str, object]) -> None:
        hellos.append(hello)
        heard.set()

    connection = Connection(said[0], taken[1], words[0], b"", begun, lambda why: None)
    assert heard.wait(60)
    assert hellos == [{"python": [3, 13, 0]}]
    connection.close()
    for descriptor in (said[1], words[1], taken[0]):
        os.close(descriptor)


@pytest.mark.slow
def test_an_agent_runs_on_any_python_that_is_given_nothing_but_its_standard_library() -> None:
    agent = Agent.start([sys.executable, "-I", "-S", "-c", _boot()], AgentConfig())
    assert agent.python == sys.version_info[:3]
    agent.close()


def _boot() -> str:
    from actbox.sandbox.guest.agent_boot import BOOT

    return BOOT


def test_frames_are_put_together_from_any_pieces() -> None:
    data = b"".join(pack(frames.DATA, number, 2, bytes([number]) * number) for number in range(1, 50))
    for size in (1, 7, 1000):
        parser = FrameParser()
        found = [frame for at in range(0, len(data), size) for frame in parser.feed(data[at : at + size])]
        assert [(stream, len(payload)) for _, _, stream, payload in found] == [(n, n) for n in range(1, 50)]


def test_a_giant_frame_is_refused_by_its_header() -> None:
    with pytest.raises(FrameError):
        list(FrameParser().feed(frames.HEADER.pack(frames.DATA, 2, 1, frames.MAX_PAYLOAD + 1)))


@pytest.mark.slow
def test_an_interpreter_that_is_this_one_need_not_compile_the_agents_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    command = agent_arguments(sys.executable)
    unusable = dict.fromkeys(own_modules(), "raise SystemExit('compiled')")
    monkeypatch.setattr(agent_module, "own_modules", lambda: unusable)
    Agent.start(command, AgentConfig(own_interpreter=True)).close()
    with pytest.raises(SandboxUnavailable, match="compiled"):
        Agent.start(command, AgentConfig())
    monkeypatch.setattr(sys, "version", "another")
    with pytest.raises(SandboxUnavailable, match="compiled"):
        Agent.start(command, AgentConfig(own_interpreter=True))


@pytest.mark.slow
def test_the_agents_modules_need_nothing_but_the_standard_library() -> None:
    code = (
        "import sys\nfrom actbox.sandbox.guest.agent_boot import own_modules\n"
        "import ast\nnames = set()\n"
        "for source in own_modules().values():\n"
        "    for node in ast.walk(ast.parse(source)):\n"
        "        if isinstance(node, ast.Import): names |= {alias.name.split('.')[0] for alias in node.names}\n"
        "        if isinstance(node, ast.ImportFrom) and not node.level: names.add(node.module.split('.')[0])\n"
        "print(sorted(names - set(sys.stdlib_module_names)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(said.replace("'", '"')) == []
