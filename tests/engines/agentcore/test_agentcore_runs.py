"""What a run in the service comes to: a process of its own, told and heard by files."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest

import actbox
from actbox import ErrorKind, FileError, Limits, Policy, Program, Sandbox, ToolFinished
from tests.clock import Clock
from tests.engines.agentcore.code_service import CodeService

LINGERS = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("pids", "w").write(f"{os.getpid()} {child.pid}")
print("begun", flush=True)
while True:
    pass
"""


def is_there(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


async def test_a_program_has_a_value_output_and_its_own_lines(box: Sandbox) -> None:
    good = await box.run("print('hi')\n1 + 1")
    assert (good.stdout, good.value, good.sandbox) == ("hi\n", 2, "agentcore")
    bad = await box.run("x = 1\nx / 0")
    assert bad.error is not None
    assert (bad.error.kind, bad.error.line, bad.error.type) == (ErrorKind.RUNTIME, 2, "ZeroDivisionError")


@pytest.mark.slow
async def test_two_runs_never_see_each_others_variables(box: Sandbox, service: CodeService) -> None:
    assert (await box.run("import builtins\nsecret = builtins.secret = 1")).success
    assert not (await box.run("secret")).success
    assert service.called("executeCode") == []


@pytest.mark.slow
async def test_a_command_has_its_exit_code_and_both_streams(box: Sandbox) -> None:
    result = await box.execute("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)


@pytest.mark.slow
async def test_files_go_both_ways_as_they_are(box: Sandbox) -> None:
    content = bytes(range(256)) * 3000 + b"\r\n\n\r"
    for name in ("-dash", "new\nline", "ünï.bin"):
        await box.write_file(name, content)
        assert await box.read_file(name) == content
    result = await box.run("open('output/made.bin', 'wb').write(open('-dash', 'rb').read())")
    assert [artifact.data for artifact in result.artifacts] == [content]
    with pytest.raises(FileError, match="nothing"):
        await box.read_file("nothing")


@pytest.mark.slow
async def test_much_code_and_much_output_pass(box: Sandbox) -> None:
    lines = "".join(f"x{n} = {n}\n" for n in range(20_000))
    assert len(lines) > 200_000
    result = await box.run(lines + "print('ü' * 3_000_000)\nx19999")
    assert (result.value, len(result.stdout)) == (19999, 3_000_001)


@pytest.mark.slow
async def test_output_beyond_the_limit_ends_the_run(service: CodeService) -> None:
    policy = Policy(limits=Limits(output_bytes=100_000))
    async with actbox.open_sandbox("agentcore", region="eu-west-1", policy=policy) as box:
        result = await box.run("while True:\n    print('x' * 10_000)")
        assert result.error is not None and result.error.kind is ErrorKind.OUTPUT_LIMIT
        assert len(result.stdout) == 100_000


@pytest.mark.slow
async def test_nothing_of_a_caller_is_part_of_a_command_line(box: Sandbox, service: CodeService) -> None:
    await box.write_file("spliced.txt", b"x")
    await box.run(Program("spliced = 1", inputs={"spliced_input": 1}, files={"spliced": b"x"}))
    await box.execute("echo spliced", stdin=b"spliced", cwd="input", env={"SPLICED": "spliced"})
    await box.run("echo(text='spliced')", tools=[echo])
    commands = [p["command"] for p in service.called("startCommandExecution", "executeCommand")]
    assert len(commands) > 4
    assert not [command for command in commands if "splice" in command.lower()]


@pytest.mark.slow
async def test_output_comes_while_the_program_runs(box: Sandbox) -> None:
    await box.write_file("wait.py", b"")
    events = box.stream("import os, time\nprint('now')\nwhile os.path.exists('wait.py'): time.sleep(0.01)")
    seen = []
    async for event in events:
        seen.append(event)
        if isinstance(event, actbox.Output):
            await box.remove_file("wait.py")
    assert isinstance(seen[-1], actbox.Completed) and seen[-1].result.success


@pytest.mark.slow
async def test_a_timeout_ends_all_processes_of_the_run(box: Sandbox, service: CodeService, clock: Clock) -> None:
    result = await clock.run_out(box.stream(LINGERS, timeout=30), 30, after="begun\n")
    assert result.error is not None
    assert (result.error.kind, result.exit_code, result.stdout) == (ErrorKind.TIMEOUT, 124, "begun\n")
    assert len(service.called("stopTask")) == 1
    assert not any(map(is_there, map(int, (await box.read_text("pids")).split())))


@pytest.mark.slow
async def test_a_cancelled_run_leaves_no_process(box: Sandbox, service: CodeService) -> None:
    begun = asyncio.Event()

    async def run() -> None:
        async for event in box.stream(LINGERS):
            if isinstance(event, actbox.Output):
                begun.set()

    task = asyncio.create_task(run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_there, map(int, (await box.read_text("pids")).split())))
    assert (await box.run("1")).value == 1


# Tools


def echo(text: str) -> str:
    """Say it again."""
    return text


def fails() -> None:
    """Fail."""
    raise ValueError("no such thing")


@pytest.mark.slow
async def test_tools_are_plain_functions_or_coroutines(box: Sandbox) -> None:
    assert (await box.run("[echo(text=str(n)) for n in range(3)]", tools=[echo])).value == ["0", "1", "2"]
    code = "import asyncio\nawait asyncio.gather(*(echo(text=str(n)) for n in range(5)))"
    assert (await box.run(code, tools=[echo])).value == ["0", "1", "2", "3", "4"]
    result = await box.run("fails()", tools=[fails])
    assert result.error is not None
    assert (result.error.kind, "no such thing" in result.error.message) == (ErrorKind.TOOL, True)


@pytest.mark.slow
async def test_large_arguments_and_results_pass(box: Sandbox) -> None:
    result = await box.run("len(echo(text='x' * 3_000_000))", tools=[echo])
    assert (result.value, result.usage.tool_calls) == (3_000_000, 1)


@pytest.mark.slow
async def test_a_call_is_waited_for_by_one_command(box: Sandbox, service: CodeService) -> None:
    asked = asyncio.Event()

    async def slow() -> int:
        """Take a while."""
        asked.set()
        return 7

    events = [event async for event in box.stream("slow()", tools=[slow])]
    assert asked.is_set()
    assert [event.value for event in events if isinstance(event, ToolFinished)] == [7]
    assert service.called("getTask", "listFiles", "readFiles") == []
    # How many pieces the output falls into is a matter of time. No command asks for a piece that another asked for.
    pieces = [int(asked["command"].split()[-2]) for asked in service.called("executeCommand")]
    assert pieces == sorted(set(pieces))


# Other languages


@pytest.mark.slow
async def test_javascript_and_typescript_run_with_tools(box: Sandbox) -> None:
    code = "const said: string = await echo({text: 'hi'}); console.log(said); said.length"
    result = await box.run(Program(code, "typescript"), tools=[echo])
    assert (result.stdout, result.value, result.language) == ("hi\n", 2, "typescript")
    failed = await box.run(Program("1\nnull.x", "javascript"))
    assert failed.error is not None
    assert (failed.error.type, failed.error.line) == ("TypeError", 2)
    assert set(box.traits.languages) == {"python", "javascript", "typescript"}


@pytest.mark.slow
async def test_a_machine_without_node_says_so(service: CodeService) -> None:
    async with actbox.open_sandbox("agentcore", region="eu-west-1", node="no-node-here") as box:
        result = await box.run(Program("1", "javascript"))
    assert (result.exit_code, result.stderr) == (127, "no-node-here: command not found\n")
