"""`StrandsSandbox` as the sandbox of an agent: commands, code, files, and what it vends."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, tool
from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment
from strands.vended_tools import file_editor, python_repl, shell

import actbox
from actbox import InvalidValue, Limits, Policy, Unsupported
from actbox.integrations.strands import CodeActPlugin, StrandsSandbox
from tests.clock import Clock
from tests.integrations.strands_agents.places import agent_of, answers, run_out, sandbox_on, shells
from tests.integrations.strands_agents.scripted import ScriptedModel


def double(number: int) -> int:
    """Return twice the number."""
    return number * 2


async def test_it_is_a_sandbox_of_strands_over_one_of_ours(sandbox: StrandsSandbox) -> None:
    assert isinstance(sandbox, Sandbox)
    assert isinstance(sandbox.box, actbox.Sandbox)
    assert sandbox.traits is sandbox.box.traits
    assert (await sandbox.execute("echo hello")).stdout == "hello\n"


async def test_a_command_streams_its_output_before_its_result(sandbox: StrandsSandbox) -> None:
    items = [item async for item in sandbox.execute_streaming("echo out; echo err >&2; exit 3")]
    assert items[-1] == ExecutionResult(3, "out\n", "err\n")
    assert {(item.stream_type, item.data) for item in items[:-1] if isinstance(item, StreamChunk)} == {
        ("stdout", "out\n"),
        ("stderr", "err\n"),
    }


@pytest.mark.slow
async def test_each_call_starts_where_and_with_what_it_says_and_leaves_nothing_of_it(sandbox: StrandsSandbox) -> None:
    await sandbox.execute("mkdir -p deep/er; cd deep; export A=1")
    assert (await sandbox.execute('pwd; echo "[$A]"')).stdout == "/workspace\n[]\n"
    given = await sandbox.execute('pwd; echo "[$A]"', cwd="deep/er", env={"A": 'it\'s \n "one"'})
    assert given.stdout == '/workspace/deep/er\n[it\'s \n "one"]\n'
    assert (await sandbox.execute("pwd", cwd="/usr")).stdout == "/usr\n"


@pytest.mark.slow
async def test_code_starts_where_and_with_what_it_says_in_a_fresh_interpreter(sandbox: StrandsSandbox) -> None:
    await sandbox.write_file("deep/er/x", b"1")
    code = "import os\nprint(os.getcwd(), os.environ.get('A'), sorted(set(globals()) & {'folder', 'variables', 'sys'}))"
    assert (await sandbox.execute_code(code)).stdout == "/workspace None []\n"
    given = await sandbox.execute_code(code, "python3", cwd="deep/er", env={"A": "1"})
    assert given.stdout == "/workspace/deep/er 1 []\n"
    await sandbox.execute_code("kept = 1", cwd="deep")
    assert "NameError: name 'kept' is not defined" in (await sandbox.execute_code("kept", cwd="deep")).stderr


@pytest.mark.slow
async def test_a_program_that_fails_says_so_as_its_interpreter_would(sandbox: StrandsSandbox) -> None:
    for cwd in (None, "/tmp"):
        result = await sandbox.execute_code("print('before')\n1 / 0", cwd=cwd)
        assert (result.exit_code, result.stdout) == (1, "before\n")
        assert result.stderr.startswith("Traceback (most recent call last):")
        assert "line 2" in result.stderr
        assert result.stderr.endswith("ZeroDivisionError: division by zero\n")
        ended = await sandbox.execute_code("import sys\nsys.exit(3)", cwd=cwd)
        assert (ended.exit_code, ended.stderr) == (3, "")


async def test_what_is_streamed_of_standard_error_is_what_the_result_has(sandbox: StrandsSandbox) -> None:
    chunks, result = [], None
    async for item in sandbox.execute_code_streaming("import sys\nprint('x', file=sys.stderr)\n1/0"):
        if isinstance(item, StreamChunk):
            chunks.append(item.data)
        else:
            result = item
    assert result is not None
    assert "".join(chunks) == result.stderr
    assert result.stderr.startswith("x\nTraceback")


async def test_files_that_a_program_leaves_in_output_come_with_its_result(sandbox: StrandsSandbox) -> None:
    result = await sandbox.execute_code("open('/output/plot.png', 'wb').write(b'\\x89PNG')")
    (file,) = result.output_files
    assert (file.name, file.content, file.mime_type) == ("plot.png", b"\x89PNG", "image/png")


@pytest.mark.slow
async def test_languages_go_by_the_names_of_their_interpreters(sandbox: StrandsSandbox) -> None:
    for name in ("python", "python3", "Python", "py"):
        assert (await sandbox.execute_code("print(6 * 7)", name)).stdout == "42\n"
    assert (await sandbox.execute_code("echo ${BASH_VERSION:+bash}; exit 4", "bash")).exit_code == 4
    assert (await sandbox.execute_code("echo $0", "sh", cwd="/usr")).exit_code == 0


async def test_an_interpreter_that_there_is_not_is_as_in_strands_own_sandboxes(sandbox: StrandsSandbox) -> None:
    for name, said in (("node", "the node engine runs JavaScript"), ("ruby", "no engine runs 'ruby'")):
        ours = await sandbox.execute_code("1", name)
        theirs = await NotASandboxLocalEnvironment().execute_code("1", "no-such-interpreter")
        assert ours.exit_code == theirs.exit_code == 127
        assert "not found" in theirs.stderr
        assert f"not found: {name}" in ours.stderr
        assert said in ours.stderr
        chunks = [chunk async for chunk in sandbox.execute_code_streaming("1", name)]
        assert [type(chunk) for chunk in chunks] == [StreamChunk, ExecutionResult]
    for name in ("python3; rm", "", "a b"):
        with pytest.raises(ValueError, match="name of an interpreter"):
            await sandbox.execute_code("1", name)
        with pytest.raises(ValueError):
            await NotASandboxLocalEnvironment().execute_code("1", name)


@pytest.mark.slow
async def test_a_timeout_is_strands_error_with_what_was_printed(sandbox: StrandsSandbox, clock: Clock) -> None:
    hangs = sandbox.execute("echo out; echo err >&2; echo >/workspace/begun; exec sleep 600", timeout=30)
    with pytest.raises(SandboxTimeoutError, match=r"stopped after 30 seconds") as command:
        await run_out(sandbox, hangs, clock.turn, 30)
    assert (command.value.stdout, command.value.stderr) == ("out\n", "err\n")
    for cwd in (None, "/tmp"):
        await sandbox.remove_file("begun")
        program = "print('out', flush=True)\nopen('/workspace/begun', 'w').close()\nwhile True: pass"
        hangs = sandbox.execute_code(program, timeout=30, cwd=cwd)
        with pytest.raises(SandboxTimeoutError) as code:
            await run_out(sandbox, hangs, clock.turn, 30)
        assert code.value.stdout == "out\n"


async def test_a_timeout_that_the_policy_does_not_allow_says_so() -> None:
    async with sandbox_on("linux", policy=Policy(limits=Limits(wall_seconds=0.5))) as short:
        with pytest.raises(SandboxTimeoutError, match="policy allows no more, though 100 seconds were asked for"):
            await short.execute("exec sleep 60", timeout=100)


async def test_code_tools_are_called_from_code_wherever_it_starts_and_seen_by_no_model() -> None:
    async def triple(number: int) -> int:
        """Return three times the number."""
        await asyncio.sleep(0)
        return number * 3

    async with sandbox_on("linux", code_tools=[double, triple]) as with_tools:
        assert with_tools.code_tools.names == ("double", "triple")
        for cwd in (None, "/tmp"):
            assert (await with_tools.execute_code("print(double(4), triple(3))", cwd=cwd)).stdout == "8 9\n"
        model = ScriptedModel("hi")
        await Agent(model, sandbox=with_tools, callback_handler=None).invoke_async("go")
        (seen,) = model.seen
        assert [spec["name"] for spec in seen["tools"]] == ["shell", "file_editor", "python_repl"]


async def test_code_tools_run_in_the_event_loop_of_whoever_has_code_run() -> None:
    async def is_home() -> bool:
        """Say whether this is the event loop of the test."""
        return asyncio.get_running_loop() is home

    home = asyncio.get_running_loop()
    async with sandbox_on("linux", code_tools=[is_home]) as with_tools:
        for cwd in (None, "/tmp"):
            assert (await with_tools.execute_code("print(is_home())", cwd=cwd)).stdout == "True\n"


async def test_a_code_tool_that_requires_approval_is_refused_until_somebody_is_there_to_be_asked() -> None:
    guarded = actbox.Tool.from_function(double, approval="always_require")
    async with sandbox_on("linux", code_tools=[guarded]) as asking:
        for cwd in (None, "/tmp"):
            with pytest.raises(InvalidValue, match="requires approval"):
                await asking.execute_code("double(1)", cwd=cwd)
    given = actbox.Toolset.of([guarded]).approved()
    async with sandbox_on("linux", code_tools=given) as approved:
        for cwd in (None, "/tmp"):
            assert (await approved.execute_code("print(double(1))", cwd=cwd)).stdout == "2\n"


@pytest.mark.slow
async def test_code_of_other_languages_runs_where_an_engine_has_them() -> None:
    async with sandbox_on("node") as node:
        for name in ("javascript", "js", "node", "NodeJS"):
            assert (await node.execute_code("console.log(6 * 7)", name)).stdout == "42\n"
        for name in ("typescript", "ts"):
            assert (await node.execute_code("const x: number = 42; console.log(x)", name)).stdout == "42\n"
        missing = await node.execute_code("1", "python3")
        assert missing.exit_code == 127
        assert "the node engine runs JavaScript and TypeScript" in missing.stderr
        where = await node.execute_code("console.log(process.cwd(), process.env.A)", "node", cwd="/tmp", env={"A": "1"})
        assert where.stdout == "/tmp 1\n"


async def test_where_code_cannot_start_elsewhere_is_told() -> None:
    async with StrandsSandbox("monty") as monty:
        with pytest.raises(Unsupported, match=r"leave out Program.cwd and Program.env"):
            await monty.execute_code("1", env={"A": "1"})


async def test_code_that_starts_elsewhere_is_a_run_like_any_other(sandbox: StrandsSandbox) -> None:
    code = (
        "import atexit, sys, threading, time, beside\natexit.register(print, 'bye')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()\nprint(beside.where)"
    )
    await sandbox.write_file("project/beside.py", b"where = 'beside it'")
    result = await sandbox.execute_code(code, cwd="project", env={"A": "1"})
    assert (result.stdout, result.exit_code) == ("beside it\nlate\nbye\n", 0)
    killed = await sandbox.execute_code("import os\nos.kill(os.getpid(), 9)", cwd="project")
    assert "session" not in killed.stderr


@pytest.mark.slow
async def test_programs_of_an_agent_that_acts_by_them_start_in_the_working_folder() -> None:
    async with sandbox_on("linux", working_dir="project") as sandbox:
        await sandbox.write_file("there", b"yes")
        model = ScriptedModel("```python\nfinal_answer(open('there').read())\n```")
        agent = Agent(model, sandbox=sandbox, plugins=[CodeActPlugin()], callback_handler=None)
        assert (await agent.invoke_async("go")).state["codeact"]["answer"] == "yes"


async def test_files_come_and_go_as_bytes(sandbox: StrandsSandbox) -> None:
    data = bytes(range(256))
    await sandbox.write_file("new/folder/data.bin", data)
    assert await sandbox.read_file("/workspace/new/folder/data.bin") == data
    assert await sandbox.read_file("new/other/../folder/./data.bin") == data
    assert (await sandbox.execute("cksum < new/folder/data.bin")).stdout.endswith(" 256\n")
    (listed,) = await sandbox.list_files("new/folder")
    assert (listed.name, listed.is_dir, listed.size) == ("data.bin", False, 256)
    await sandbox.remove_file("new/folder/data.bin")
    assert await sandbox.list_files("new/folder") == []
    await sandbox.write_text("text", "Grüße")
    assert await sandbox.read_text("text") == "Grüße"


async def test_what_is_missing_is_told_apart_from_what_fails(sandbox: StrandsSandbox) -> None:
    await sandbox.execute("mkdir folder; touch folder/x; ln -s /etc/passwd link")
    for call in (
        sandbox.read_file("nope"),
        sandbox.remove_file("nope"),
        sandbox.list_files("nope"),
        sandbox.list_files("folder/x"),
    ):
        with pytest.raises(SandboxPathNotFoundError):
            await call
    for failing in (
        sandbox.read_file("folder"),
        sandbox.read_file("link"),
        sandbox.remove_file("folder"),
        sandbox.read_file(""),
    ):
        with pytest.raises(OSError, match=r"folder|link|path") as raised:
            await failing
        assert not isinstance(raised.value, FileNotFoundError)
    for outside in ("/etc/passwd", "../etc/passwd", "/workspace/../etc/passwd"):
        with pytest.raises(OSError, match="outside the workspace"):
            await sandbox.read_file(outside)
        with pytest.raises(OSError, match="outside the workspace"):
            await sandbox.write_file(outside, b"")
    await sandbox.remove_file("folder", recursive=True)
    await sandbox.remove_file("link")
    assert {entry.name for entry in await sandbox.list_files()} == {"input", "output"}


async def test_above_the_workspace_only_the_way_to_it_is_listed(sandbox: StrandsSandbox) -> None:
    assert [(entry.name, entry.is_dir) for entry in await sandbox.list_files("/")] == [
        ("input", True),
        ("output", True),
        ("workspace", True),
    ]


async def test_the_working_folder_is_where_everything_starts() -> None:
    async with sandbox_on("linux", working_dir="project") as sandbox:
        assert sandbox.working_dir == "/workspace/project"
        assert (await sandbox.execute("pwd; echo 1 > file")).stdout == "/workspace/project\n"
        assert (await sandbox.execute_code("print(open('file').read())")).stdout == "1\n\n"
        assert await sandbox.read_file("file") == b"1\n"
        assert [entry.name for entry in await sandbox.list_files()] == ["file"]
    async with sandbox_on("linux", working_dir="/usr") as elsewhere:
        assert (await elsewhere.execute("pwd")).stdout == "/usr\n"


# With agents


@pytest.mark.slow
async def test_the_tools_that_strands_vends_work_in_it(sandbox: StrandsSandbox) -> None:
    agent = agent_of(
        ("shell", {"command": "echo 'x = 1' > a.py"}),
        ("python_repl", {"code": "exec(open('a.py').read()); print(x + 1)"}),
        ("file_editor", {"command": "str_replace", "path": "/workspace/a.py", "old_str": "1", "new_str": "5"}),
        ("file_editor", {"command": "view", "path": "/workspace"}),
        ("shell", {"command": "cat a.py"}),
        tools=[shell, python_repl, file_editor],
        sandbox=sandbox,
    )
    await agent.invoke_async("go")
    said = answers(agent)
    assert '"output": "2\\n"' in said[1]
    assert "a.py" in said[3]
    assert '"output": "x = 5\\n"' in said[4]


async def test_it_vends_its_own_tools_under_strands_names_and_a_users_tool_wins(sandbox: StrandsSandbox) -> None:
    @tool(name="shell")
    def mine(command: str) -> str:
        """Mine."""
        return f"not run: {command}"

    agent = agent_of(
        ("shell", {"command": "echo hi"}),
        ("python_repl", {"code": "print(1)\n2"}),
        ("file_editor", {"command": "create", "path": "/workspace/x", "file_text": "1"}),
        tools=[mine],
        sandbox=sandbox,
    )
    assert sorted(agent.tool_names) == ["file_editor", "python_repl", "shell"]
    await agent.invoke_async("go")
    assert answers(agent)[:2] == ["not run: echo hi", "[stdout]\n1\n\n[value]\n2"]
    assert await sandbox.read_file("x") == b"1"


def test_an_engine_without_commands_or_files_vends_no_tool_for_them() -> None:
    def names(engine: str) -> list[str]:
        return [tool.tool_name for tool in StrandsSandbox(engine).get_tools()]

    assert names("monty") == ["file_editor", "python_repl"]
    assert "python_repl" not in names("node")


@pytest.mark.slow
def test_an_agent_is_called_again_and_again_and_from_a_running_event_loop() -> None:
    sandbox = sandbox_on("linux")
    agent = Agent(
        ScriptedModel(
            ("shell", {"command": "echo 1 > f"}), "ok", ("shell", {"command": "cat f"}), "ok",
            ("shell", {"command": "cat f f"}), "ok",
        ),
        sandbox=sandbox,
        callback_handler=None,
    )  # fmt: skip
    agent("each call has an event loop of its own")
    agent("and so has this one")

    async def as_in_a_notebook() -> None:
        agent("called by code that runs in an event loop")
        assert (await sandbox.execute("cat f")).stdout == "1\n"

    asyncio.run(as_in_a_notebook())
    assert [said["output"] for said in shells(agent)] == ["", "1\n", "1\n1\n"]
    asyncio.run(sandbox.stop())


@pytest.mark.slow
async def test_two_agents_share_one_sandbox_at_once() -> None:
    async with sandbox_on("linux") as sandbox:
        writes = [("shell", {"command": f"echo {number} > file-{number}"}) for number in range(4)]
        agents = [agent_of([*writes[:2]], sandbox=sandbox), agent_of([*writes[2:]], sandbox=sandbox)]
        await asyncio.gather(*(agent.invoke_async("go") for agent in agents))
        assert {entry.name for entry in await sandbox.list_files()} >= {f"file-{number}" for number in range(4)}


def test_a_policy_that_keeps_results_from_the_model_is_refused() -> None:
    with pytest.raises(Unsupported, match="a Strands agent reads what programs print"):
        StrandsSandbox("process", policy=Policy(model_cleared="internal"), allow_unisolated=True)
