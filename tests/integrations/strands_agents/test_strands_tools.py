"""The tools of an agent that share its sandbox: `python`, `python_session`, `file_read` and `file_editor`."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

import pytest_asyncio

from actbox import Limits, Policy, open_sandbox
from actbox.integrations.strands import (
    StrandsSandbox,
    file_editor,
    file_read,
    file_write,
    make_file_read,
    make_python,
    make_python_session,
    make_shell,
    python,
    python_session,
    shell,
)
from tests.integrations.strands_agents.conftest import ENGINES
from tests.integrations.strands_agents.places import Foreign, agent_of, answers, sandbox_on, statuses

ALL = (shell, python, python_session, file_read, file_write, file_editor)


async def asked(sandbox: Any, *calls: tuple[str, dict[str, Any]], tools: Any = ALL) -> list[str]:
    """Return what the tools of an agent have answered to one call after the other."""
    agent = agent_of(*calls, tools=tools, sandbox=sandbox)
    await agent.invoke_async("go")
    return answers(agent)


# The sandbox that they share


@pytest.mark.slow
async def test_all_tools_of_an_agent_share_its_sandbox(sandbox: StrandsSandbox) -> None:
    said = await asked(
        sandbox,
        ("shell", {"command": "seq 3 > numbers.txt"}),
        ("python", {"code": "sum(int(line) for line in open('numbers.txt'))"}),
        ("file_editor", {"command": "str_replace", "path": "/workspace/numbers.txt", "old_str": "3", "new_str": "30"}),
        ("python_session", {"code": "numbers = [int(line) for line in open('numbers.txt')]"}),
        ("python_session", {"code": "sum(numbers)"}),
        ("file_write", {"path": "more/text", "content": "Grüße\n"}),
        ("shell", {"command": "cat more/text"}),
        ("file_read", {"path": "numbers.txt"}),
    )
    assert said[1] == "[value]\n6"
    assert "30" in said[2]
    assert said[4] == "[value]\n33"
    assert said[5] == "more/text has been written: 8 bytes"
    assert '"output": "Grüße\\n"' in said[6]
    assert said[7] == "1\n2\n30\n"


async def test_tools_ask_for_the_sandbox_at_each_call() -> None:
    async with sandbox_on("linux") as one, sandbox_on("linux") as other:
        await one.write_file("f", b"one")
        await other.write_file("f", b"other")
        for sandbox, content in ((one, "one"), (other, "other")):
            assert await asked(sandbox, ("file_read", {"path": "f"})) == [content]
        bound = make_file_read(sandbox=one)
        assert await asked(other, ("file_read", {"path": "f"}), tools=[bound]) == ["one"]


@pytest.mark.slow
async def test_cancelling_an_agent_ends_what_its_tool_runs() -> None:
    async with sandbox_on("linux") as sandbox:
        for tool, arguments in (
            ("shell", {"command": "echo on; exec sleep 600"}),
            ("python", {"code": "print('on', flush=True)\nwhile True: pass"}),
            ("python_session", {"code": "import time\nprint('on', flush=True)\nwhile True: time.sleep(1)"}),
        ):
            agent = agent_of((tool, arguments), tools=ALL, sandbox=sandbox)
            stopped = None
            async for event in agent.stream_async("go"):
                if "tool_stream_event" in event:
                    agent.cancel()
                stopped = event.get("result", stopped)
            assert stopped is not None
            assert stopped.stop_reason == "cancelled"


# Python


@pytest.mark.slow
async def test_each_program_of_python_starts_fresh_and_shows_its_value(sandbox: StrandsSandbox) -> None:
    agent = agent_of(
        ("python", {"code": "kept = 1\nprint('out')\nkept + 1"}),
        ("python", {"code": "kept"}),
        ("python", {"code": "import asyncio\nawait asyncio.sleep(0, 'awaited')"}),
        tools=[python],
        sandbox=sandbox,
    )
    await agent.invoke_async("go")
    said = answers(agent)
    assert said[0] == "[stdout]\nout\n\n[value]\n2"
    assert "NameError: name 'kept' is not defined" in said[1]
    assert said[2] == "[value]\n'awaited'"
    assert statuses(agent) == ["success", "error", "success"]


@pytest.mark.slow
async def test_python_calls_the_sandboxs_tools_and_streams() -> None:
    async def shout(text: str) -> str:
        """Return it louder."""
        await asyncio.sleep(0)
        return text.upper()

    async with sandbox_on("linux", code_tools=[shout]) as sandbox:
        for tool in ("python", "python_session"):
            agent = agent_of((tool, {"code": "print(shout('a'))\nshout('b')"}), tools=ALL, sandbox=sandbox)
            seen = [
                event["tool_stream_event"]["data"]
                async for event in agent.stream_async("go")
                if "tool_stream_event" in event
            ]
            assert seen[0] == {"stream": "stdout", "text": "A\n"}
            assert answers(agent) == ["[stdout]\nA\n\n[value]\n'B'"]


async def test_pictures_stay_pictures_unless_they_are_too_large_for_models() -> None:
    program = (
        "for name, size in (('a', 1), ('b', 4_000_000)):\n"
        "    open(f'/output/{name}.png', 'wb').write(b'\\x89PNG' * size)\nNone"
    )
    async with sandbox_on("linux") as sandbox:
        agent = agent_of(("python", {"code": program}), tools=[python], sandbox=sandbox)
        await agent.invoke_async("go")
        (result,) = [
            block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
        ]
        text, *pictures = result["content"]
        assert pictures == [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}]
        assert "pictures larger than 3,750,000 bytes are not shown: 1" in text["text"]


async def test_what_a_model_reads_of_a_program_is_bounded() -> None:
    async with sandbox_on("linux") as sandbox:
        (said,) = await asked(
            sandbox, ("python", {"code": "print('x' * 5_000_000)"}), tools=[make_python(max_chars=2_000)]
        )
        assert len(said) <= 2_000
        assert "characters left out" in said


@pytest_asyncio.fixture
async def awaited(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Wait for the processes that Strands' own sandbox has killed: it does not, and they outlive the event loop."""
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def recorded(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", recorded)
    yield
    assert started
    for process in started:
        await process.communicate()
    while [process for process in started if not cast("Any", process)._transport.is_closing()]:
        await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("awaited")
async def test_python_runs_in_a_sandbox_that_is_none_of_ours() -> None:
    agent = agent_of(
        ("python", {"code": "print(6 * 7)"}),
        ("python", {"code": "print('before', flush=True)\n1 / 0"}),
        ("python", {"code": "print('on', flush=True)\nimport time\ntime.sleep(60)", "timeout": 0.5}),
        ("python_session", {"code": "1"}),
        tools=[python, python_session],
        sandbox=Foreign(),
    )
    await agent.invoke_async("go")
    said = answers(agent)
    assert said[0] == "[stdout]\n42"
    assert "ZeroDivisionError" in said[1]
    assert "timed out" in said[2]
    assert "needs a sandbox that keeps sessions" in said[3]
    assert statuses(agent) == ["success", "error", "error", "error"]


# Sessions


@pytest.mark.slow
async def test_a_session_keeps_its_variables_also_after_errors_until_it_is_reset(sandbox: StrandsSandbox) -> None:
    said = await asked(
        sandbox,
        ("python_session", {"code": "total = 1"}),
        ("python_session", {"code": "total += 1\n1 / 0"}),
        ("python_session", {"code": "total"}),
        ("python_session", {"code": "'total' in globals()", "reset": True}),
        ("python_session", {"code": " ", "reset": True}),
    )
    assert "ZeroDivisionError" in said[1]
    assert said[2:] == ["[value]\n2", "[value]\nFalse", "The session begins anew."]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_all_tools_start_in_the_working_folder(engine: str) -> None:
    async with sandbox_on(engine, working_dir="project") as sandbox:
        said = await asked(
            sandbox,
            ("shell", {"command": "echo yes > there"}),
            ("python", {"code": "open('there').read()"}),
            ("python_session", {"code": "open('there').read()"}),
            ("python_session", {"code": "import os\nos.chdir('..')"}),
            ("python_session", {"code": "os.getcwd()"}),
            ("file_read", {"path": "there"}),
        )
        assert said[1:] == ["[value]\n'yes\\n'"] * 2 + [said[3], "[value]\n'/workspace'", "yes\n"]


async def test_a_session_runs_python_and_nothing_else() -> None:
    async with sandbox_on("node") as sandbox:
        (said,) = await asked(sandbox, ("python_session", {"code": "console.log(1)"}))
    assert "the node engine runs JavaScript" in said


@pytest.mark.slow
async def test_there_is_one_session_for_each_agent_and_sandbox() -> None:
    async with sandbox_on("linux") as one, sandbox_on("linux") as other:
        turns = [("python_session", {"code": "mine = 1"}), "ok", ("python_session", {"code": "mine"})]
        agent = agent_of(*turns, tools=ALL, sandbox=one)
        await agent.invoke_async("go")
        look = ("python_session", {"code": "'mine' in globals()"})
        for sandbox in (one, other):
            assert await asked(sandbox, look) == ["[value]\nFalse"]
        await agent.invoke_async("go on")
        assert answers(agent)[1] == "[value]\n1"


@pytest.mark.slow
def test_a_session_lasts_from_one_call_of_the_agent_to_the_next() -> None:
    sandbox = sandbox_on("linux")
    agent = agent_of(
        ("python_session", {"code": "kept = 1"}),
        "ok",
        ("python_session", {"code": "kept + 1"}),
        tools=ALL,
        sandbox=sandbox,
    )
    agent("one event loop")
    agent("and another")
    assert answers(agent)[1] == "[value]\n2"
    asyncio.run(sandbox.stop())


@pytest.mark.slow
async def test_a_session_that_a_program_has_ended_is_told_and_the_next_call_begins_another() -> None:
    policy = Policy(limits=Limits(memory_mib=128))
    async with sandbox_on("linux", policy=policy) as sandbox:
        said = await asked(
            sandbox,
            ("python_session", {"code": "kept = 1"}),
            ("python_session", {"code": "import os\nos._exit(3)"}),
            ("python_session", {"code": "'kept' in globals()"}),
        )
        assert said[1].endswith("The variables are lost; the next call begins anew.")
        assert "the state of the session is lost" in said[1]
        assert "open a new one" not in said[1]
        assert said[2] == "[value]\nFalse"


@pytest.mark.slow
async def test_the_session_of_an_agent_that_nobody_has_any_more_ends() -> None:
    async with sandbox_on("linux") as sandbox:
        own = make_python_session()
        agent = agent_of(("python_session", {"code": "kept = 1"}), tools=[own], sandbox=sandbox)
        await agent.invoke_async("go")
        assert len(sandbox._sessions) == 1
        del agent
        while sandbox._sessions:
            gc.collect()
            await asyncio.sleep(0.01)


# Files


async def test_a_file_is_read_from_one_line_to_another_and_bounded() -> None:
    async with sandbox_on("linux") as sandbox:
        await sandbox.write_text("lines", "\n".join(map(str, range(1, 10_001))))
        await sandbox.write_file("bytes", b"\xff\x00")
        said = await asked(
            sandbox,
            ("file_read", {"path": "lines", "first_line": 3, "last_line": 5}),
            ("file_read", {"path": "lines", "first_line": 9_999}),
            ("file_read", {"path": "lines"}),
            ("file_read", {"path": "bytes"}),
            ("file_read", {"path": "nope"}),
            ("file_read", {"path": "lines", "first_line": 0}),
        )
        assert said[:2] == ["3\n4\n5", "9999\n10000"]
        assert len(said[2]) <= 20_000
        assert "bytes is no UTF-8 text: it has 2 bytes" in said[3]
        assert "Path not found: nope" in said[4]
        assert "counted from 1" in said[5]


async def test_a_line_that_a_file_does_not_have_is_an_error_that_says_how_many_there_are() -> None:
    async with sandbox_on("linux") as sandbox:
        await sandbox.write_text("ended", "a\nb\nc\n")
        await sandbox.write_text("open", "a\nb\nc")
        await sandbox.write_text("empty", "")
        agent = agent_of(
            ("file_read", {"path": "ended", "first_line": 9}),
            ("file_read", {"path": "ended", "first_line": 4}),
            ("file_read", {"path": "open", "first_line": 4, "last_line": 5}),
            ("file_read", {"path": "empty", "first_line": 2}),
            ("file_read", {"path": "ended", "first_line": 3}),
            ("file_read", {"path": "empty", "last_line": 5}),
            tools=ALL,
            sandbox=sandbox,
        )
        await agent.invoke_async("go")
        said = answers(agent)
        assert statuses(agent) == [*["error"] * 4, "success", "success"]
        assert "there is no line 9 in ended: it has 3 lines" in said[0]
        assert "there is no line 4 in ended: it has 3 lines" in said[1]
        assert "there is no line 4 in open: it has 3 lines" in said[2]
        assert "there is no line 2 in empty: it has 0 lines" in said[3]
        assert said[4].startswith("c")


@pytest.mark.slow
async def test_the_editor_takes_relative_paths_and_tells_nothing_of_the_host(sandbox: StrandsSandbox) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("file_editor", {"command": "create", "path": "more/notes.txt", "file_text": "one\n"}),
        ("file_editor", {"command": "view", "path": "./more/notes.txt"}),
        ("file_editor", {"command": "str_replace", "path": "more/notes.txt", "old_str": "one", "new_str": "two"}),
        ("file_editor", {"command": "view", "path": "."}),
        ("file_read", {"path": "more/notes.txt"}),
        ("file_editor", {"command": "view", "path": "nope.txt"}),
        ("file_editor", {"command": "view", "path": "../../etc/passwd"}),
        ("file_editor", {"command": "view", "path": "/"}),
        ("file_editor", {"command": "view", "path": ""}),
    ]
    said = await asked(sandbox, *calls)
    assert "one" in said[1]
    assert "more/notes.txt" in said[3]
    assert said[4] == "two\n"
    assert "The path /workspace/nope.txt does not exist" in said[5]
    for refused in said[6:]:
        assert refused.startswith("Error: ")
        assert "root:" not in refused
    assert not [answer for answer in said if os.getcwd() in answer]
    assert "does not show the root" in said[7]


async def test_the_editor_tells_nothing_of_the_host_in_a_sandbox_that_is_none_of_ours() -> None:
    (said,) = await asked(Foreign(), ("file_editor", {"command": "view", "path": "nope.txt"}))
    assert "is no absolute path, which this sandbox needs" in said
    assert os.getcwd() not in said


@pytest.mark.slow
async def test_models_are_told_which_files_last() -> None:
    async with sandbox_on("linux") as sandbox:
        said = await asked(
            sandbox,
            ("shell", {"command": "echo 1 > /tmp/f; echo 1 > ~/g; echo 1 > here"}),
            ("shell", {"command": "ls /tmp/f ~/g here"}),
        )
    assert '"output": "here\\n"' in said[1]
    for tool in (shell, file_read, file_write, file_editor):
        description = tool.tool_spec["description"]
        assert "Files below the working directory last" in description
        assert "/tmp" in description


@pytest.mark.parametrize("make", [make_shell, make_python, make_python_session])
def test_the_timeout_that_a_model_is_shown_is_the_sandboxs(make: Any) -> None:
    def shown(**given: Any) -> Any:
        return make(**given).tool_spec["inputSchema"]["json"]["properties"]["timeout"].get("default")

    policy = Policy(limits=Limits(wall_seconds=33))
    assert shown(sandbox=StrandsSandbox("linux", policy=policy)) == 33
    assert shown(sandbox=StrandsSandbox(open_sandbox("linux", policy=policy))) == 33
    assert shown(sandbox=StrandsSandbox("linux")) == Limits().wall_seconds
    assert shown() is None  # that of whichever sandbox the agent has


@pytest.mark.slow
async def test_the_sandboxs_own_limit_ends_a_command_of_which_no_timeout_was_told() -> None:
    async with sandbox_on("linux", policy=Policy(limits=Limits(wall_seconds=0.5))) as short:
        (said,) = await asked(short, ("shell", {"command": "exec sleep 60"}))
    assert "stopped after 0.5 seconds" in said
