"""What sandboxes of this kind were found to get wrong, tried on ours: commands, code, files, output and time."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands.sandbox import StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError

from actbox import InvalidValue
from actbox.integrations.strands import StrandsSandbox, python, python_session, shell
from tests.integrations.strands_agents.places import agent_of, answers, sandbox_on, shells, statuses


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["touch ran", "false || touch ran", "true; touch ran", "cd /workspace && touch ran"]
)
async def test_in_a_missing_folder_nothing_runs(sandbox: StrandsSandbox, command: str) -> None:
    for folder in ("nope", "/nope", "-x", "a\nb", "$(touch ran)", "' && touch ran; '"):
        result = await sandbox.execute(command, cwd=folder)
        assert result.exit_code == 126
        assert "No such file or directory" in result.stderr
        code = await sandbox.execute_code("open('/workspace/ran', 'w')", cwd=folder)
        assert code.exit_code == 126
        assert "cannot start in" in code.stderr
    assert {entry.name for entry in await sandbox.list_files()} == {"input", "output"}


@pytest.mark.slow
async def test_in_a_folder_that_a_command_has_shut_code_says_why_it_cannot_run(sandbox: StrandsSandbox) -> None:
    await sandbox.execute("chmod 000 /workspace")
    code = await sandbox.execute_code("print(1)")
    assert (code.exit_code, code.stdout) == (1, "")
    assert "Permission denied: '/workspace'" in code.stderr
    agent = agent_of(("python_session", {"code": "print(1)"}), tools=[python_session], sandbox=sandbox)
    await agent.invoke_async("go")
    assert "the session could not begin: [Errno 13] Permission denied: '/workspace'" in answers(agent)[0]
    await sandbox.execute("chmod 700 /workspace", cwd="/")
    assert (await sandbox.execute_code("print(1)")).stdout == "1\n"


@pytest.mark.slow
async def test_a_child_in_the_background_holds_up_nobody_and_does_not_survive(sandbox: StrandsSandbox) -> None:
    for command in (
        "sleep 600 & echo hi",
        "(trap '' HUP TERM; exec sleep 600) & echo hi",
        "setsid sleep 600 & echo hi",
        "setsid sh -c 'sleep 600 & sleep 600' </dev/null >/dev/null 2>&1 & echo hi",
    ):
        result = await sandbox.execute(command, timeout=50)
        assert (result.exit_code, result.stdout) == (0, "hi\n")
    code = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\nprint('hi')"
    assert (await sandbox.execute_code(code, timeout=50)).stdout == "hi\n"
    assert (await sandbox.execute_code(code, timeout=50, cwd="/tmp")).stdout == "hi\n"
    left = await sandbox.execute("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null")
    assert "sleep 600" not in left.stdout


async def test_a_timeout_ends_all_that_a_command_has_begun(sandbox: StrandsSandbox) -> None:
    with pytest.raises(SandboxTimeoutError):
        await sandbox.execute("setsid sh -c 'sleep 600 & sleep 600' & sleep 600", timeout=0.5)
    left = await sandbox.execute("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null")
    assert "sleep 600" not in left.stdout


@pytest.mark.slow
async def test_characters_that_lie_across_two_reads_stay_whole(sandbox: StrandsSandbox) -> None:
    text = "aé€😀" * 40_000
    await sandbox.write_text("text", text)
    for result in (
        await sandbox.execute("cat text"),
        await sandbox.execute_code("import sys\nsys.stdout.write(open('text', encoding='utf-8').read())\nNone"),
    ):
        assert result.stdout == text
    pieces = [item.data async for item in sandbox.execute_streaming("cat text") if isinstance(item, StreamChunk)]
    assert "".join(pieces) == text
    slowly = "printf 'caf\\303'; sleep 0.1; printf '\\251 \\351'"
    assert (await sandbox.execute(slowly)).stdout == "café \ufffd"


@pytest.mark.slow
async def test_code_of_200_kb_and_files_of_2_mb_go_in_whole(sandbox: StrandsSandbox) -> None:
    long = "x = '" + "a" * 200_000 + "'\nprint(len(x))"
    assert (await sandbox.execute_code(long)).stdout == "200000\n"
    assert (await sandbox.execute_code(long, cwd="/tmp")).stdout == "200000\n"
    assert (await sandbox.execute(f"echo {'b' * 200_000} | wc -c")).stdout == "200001\n"
    script = f"x={'c' * 200_000}\necho ${{#x}} $0\n"
    assert (await sandbox.execute_code(script, "bash")).stdout.startswith("200000 ")
    data = bytes(range(256)) * 8_192
    await sandbox.write_file("data", data)
    assert await sandbox.read_file("data") == data


@pytest.mark.parametrize(
    "name",
    ["-rf", "--", "-", "a\nb", 'it\'s "one"', "$(touch ran)", "`x`; y", " ", "*", "ü\u202ex", "caf\udce9", "a\\b", "#"],
)
async def test_names_of_files_are_names_and_nothing_else(sandbox: StrandsSandbox, name: str) -> None:
    await sandbox.write_file(f"folder/{name}", b"1")
    assert [entry.name for entry in await sandbox.list_files("folder")] == [name]
    assert await sandbox.read_file(f"/workspace/folder/{name}") == b"1"
    assert (await sandbox.execute("cat -- ./*", cwd="folder")).stdout == "1"
    await sandbox.write_file(f"{name}/inner", b"2")
    assert await sandbox.read_file(f"{name}/inner") == b"2"
    if name.isprintable():
        assert (await sandbox.execute("cat inner", cwd=name)).stdout == "2"
    await sandbox.remove_file(name, recursive=True)
    await sandbox.remove_file(f"folder/{name}")
    assert await sandbox.list_files("folder") == []
    assert {entry.name for entry in await sandbox.list_files()} == {"folder", "input", "output"}


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), True, "5"])
async def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    async with sandbox_on("linux") as sandbox:
        for call in (
            sandbox.execute("touch ran", timeout=timeout),
            sandbox.execute_code("open('ran', 'w')", timeout=timeout),
            sandbox.execute_code("open('/workspace/ran', 'w')", timeout=timeout, cwd="/tmp"),
        ):
            with pytest.raises(InvalidValue, match="timeout must be a number of seconds above zero"):
                await call
        assert {entry.name for entry in await sandbox.list_files()} == {"input", "output"}


@pytest.mark.slow
async def test_output_without_end_is_bounded_and_said(sandbox: StrandsSandbox) -> None:
    for result in (
        await sandbox.execute("yes 1234567 | head -c 50000000"),
        await sandbox.execute_code("import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)"),
    ):
        assert len(result.stdout) == 10_000_000
        assert result.exit_code != 0
        assert "printed more than 10,000,000 bytes" in result.stderr


@pytest.mark.slow
async def test_the_standard_input_of_code_is_empty_and_not_the_program(sandbox: StrandsSandbox) -> None:
    assert (await sandbox.execute_code("import sys\nprint(repr(sys.stdin.read()))")).stdout == "''\n"
    asked = await sandbox.execute_code("input()")
    assert "EOFError" in asked.stderr
    assert '"program.py", line 1' in asked.stderr
    assert (await sandbox.execute("cat; echo end")).stdout == "end\n"
    given = [item async for item in sandbox.execute_streaming("tr a-z A-Z", stdin=b"given")]
    assert given[-1].stdout == "GIVEN"  # type: ignore[union-attr]


async def test_variables_are_values_and_nothing_else(sandbox: StrandsSandbox) -> None:
    value = "'; touch ran; '\n$(touch ran) ü"
    for result in (
        await sandbox.execute('printf %s "$A"', env={"A": value}),
        await sandbox.execute_code("import os\nprint(os.environ['A'], end='')", env={"A": value}),
    ):
        assert result.stdout == value
    for wrong in ({"A=B": "1"}, {"": "1"}, {"A": "a\0b"}):
        for call in (sandbox.execute("true", env=wrong), sandbox.execute_code("1", env=wrong)):
            with pytest.raises(InvalidValue, match="environment variable"):
                await call
    assert {entry.name for entry in await sandbox.list_files()} == {"input", "output"}


async def test_files_that_a_program_has_replaced_by_links_lead_nowhere(sandbox: StrandsSandbox) -> None:
    await sandbox.execute("ln -s /etc/passwd link; ln -s / root; ln -s ../../etc way")
    for path in ("link", "root/etc/passwd", "way/passwd"):
        with pytest.raises(OSError, match="link") as raised:
            await sandbox.read_file(path)
        assert not isinstance(raised.value, SandboxPathNotFoundError)
    await sandbox.write_file("link", b"mine")
    assert await sandbox.read_file("link") == b"mine"
    assert {entry.name: entry.is_dir for entry in await sandbox.list_files()}["root"] is None


async def test_closing_a_stream_early_ends_the_command() -> None:
    async with sandbox_on("linux") as sandbox:
        stream = sandbox.execute_streaming("echo on; touch begun; exec sleep 600")
        assert await anext(stream) == StreamChunk("on\n", "stdout")
        await stream.aclose()
        task = asyncio.ensure_future(sandbox.execute_code("open('/workspace/here', 'w')\nwhile True: pass", cwd="/tmp"))
        while "here" not in {entry.name for entry in await sandbox.list_files()}:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not sandbox._sessions
        processes = await sandbox.execute("cat /proc/[0-9]*/comm")
        assert "sleep" not in processes.stdout


async def test_one_agents_tools_run_at_once_in_one_sandbox() -> None:
    async with sandbox_on("linux") as sandbox:
        # Each waits for the other's file: neither ends unless both run.
        code = "import os, time\nopen({!r}, 'w')\nwhile not os.path.exists({!r}): time.sleep(0.01)"
        agent = agent_of(
            [("python", {"code": code.format("x", "y")}), ("python", {"code": code.format("y", "x")})],
            tools=[python],
            sandbox=sandbox,
        )
        await agent.invoke_async("go")
        assert statuses(agent) == ["success", "success"]


@pytest.mark.slow
def test_agents_are_called_from_many_threads_at_once() -> None:
    sandbox = sandbox_on("linux")

    async def all_of_them() -> list[list[str]]:
        def one(number: int) -> list[str]:
            agent = agent_of(("shell", {"command": f"echo {number}"}), tools=[shell], sandbox=sandbox)
            agent("go")
            return [said["output"] for said in shells(agent)]

        return await asyncio.gather(*(asyncio.to_thread(one, number) for number in range(4)))

    assert asyncio.run(all_of_them()) == [[f"{number}\n"] for number in range(4)]
    asyncio.run(sandbox.stop())


@pytest.mark.slow
async def test_a_name_that_is_no_utf_8_comes_to_a_model_as_text_that_can_be_sent() -> None:
    async with sandbox_on("linux") as sandbox:
        agent = agent_of(
            ("python", {"code": "open(b'caf\\xe9', 'w').close()\nimport os\nos.listdir()"}),
            ("shell", {"command": "ls"}),
            ("file_editor", {"command": "view", "path": "/workspace"}),
            tools=[shell, python],
            sandbox=sandbox,
        )
        await agent.invoke_async("go")
        for answer in answers(agent):
            answer.encode()
