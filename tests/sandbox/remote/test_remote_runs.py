"""Runs behind the two pipes of an agent are runs like any other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import actbox
from actbox import ActboxError, Completed, ErrorKind, Limits, Output, Policy
from actbox.sandbox.remote import connection
from tests.clock import Clock
from tests.contract.left_behind import FAMILY, alive_with
from tests.sandbox.remote.forked import in_a_child
from tests.sandbox.remote.remote_box import RemoteBox
from tests.waiting import until


@actbox.tool
def echo(text: str) -> str:
    """Give back a text."""
    return text


@pytest_asyncio.fixture
async def box() -> AsyncIterator[RemoteBox]:
    async with RemoteBox() as opened:
        yield opened


async def eventually_gone(marker: str) -> None:
    """Fail where a process with this in its command line lives on."""
    await until(lambda: not alive_with(marker))


async def test_a_program_has_output_a_value_tools_and_files(box: RemoteBox) -> None:
    await box.write_file("a/b", b"x")
    code = "print('out', echo(open('a/b').read()))\nopen('output/c', 'w').write('y')\n1 + 1"
    result = await box.run(code, tools=[echo])
    assert (result.error, result.stdout, result.value) == (None, "out x\n", 2)
    assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("c", b"y")]


@pytest.mark.slow
async def test_a_command_reads_its_standard_input_to_the_end(box: RemoteBox) -> None:
    given = os.urandom(3 * 2**20)
    result = await box.execute(["sha256sum"], stdin=given)
    import hashlib

    assert result.stdout.split()[0] == hashlib.sha256(given).hexdigest()
    assert (await box.execute(["cat"])).stdout == ""


@pytest.mark.slow
async def test_a_command_that_does_not_read_its_input_ends_all_the_same(box: RemoteBox) -> None:
    assert (await box.execute(["true"], stdin=bytes(8 * 2**20))).exit_code == 0


@pytest.mark.slow
async def test_output_stays_ahead_of_the_call_that_follows_it(box: RemoteBox) -> None:
    seen: list[str] = []

    @actbox.tool
    def note(text: str) -> None:
        """Note a text."""
        seen.append(text)

    order: list[str] = []
    async for event in box.stream(
        "for n in range(50):\n    print('x' * 3000, n, flush=True)\n    note(str(n))", tools=[note]
    ):
        if isinstance(event, Output):
            order += [word for word in event.text.split() if word.isdigit()]
        elif type(event).__name__ == "ToolCallStarted":
            order.append("call")
    numbers = [word for word in order if word != "call"]
    assert numbers == [str(n) for n in range(50)] == seen
    for place, word in enumerate(order):
        if word == "call":
            assert order[:place].count("call") <= sum(other != "call" for other in order[:place])


@pytest.mark.slow
async def test_a_run_that_floods_keeps_no_other_one_waiting() -> None:
    policy = Policy(limits=Limits(output_bytes=2**30, wall_seconds=30))
    async with RemoteBox(policy) as box:
        flood = asyncio.ensure_future(box.run("import sys\nwhile True: sys.stdout.write('x' * 65536)", timeout=50))
        for _ in range(5):
            assert (await box.run("echo('y')", tools=[echo])).value == "y"
        assert not flood.done()
        flood.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flood


@pytest.mark.slow
async def test_a_run_whose_output_nobody_takes_keeps_no_other_one_waiting() -> None:
    async with RemoteBox(Policy(limits=Limits(output_bytes=2**30))) as box:
        stream = box.stream("import sys\nfor _ in range(2000): sys.stdout.write('x' * 65536)\n'done'")
        async for _ in stream:
            break  # and the rest waits in the guest
        guest = next(iter(box._guests))
        assert not guest.ended
        assert (await box.run("1 + 1")).value == 2
        await stream.aclose()


async def test_however_a_run_ends_its_whole_tree_ends(box: RemoteBox) -> None:
    for number, (code, timeout) in enumerate(((FAMILY, 1.0), (FAMILY.replace("time.sleep(60)", "1 / 0"), 30))):
        seconds = f"7{number}{os.getpid()}.5"
        result = await box.run(code.format(seconds=seconds), timeout=timeout)
        assert not result.success
        await eventually_gone(seconds)


@pytest.mark.slow
async def test_a_program_that_kills_its_keeper_ends_itself_and_nobody_else(box: RemoteBox) -> None:
    seconds = f"73{os.getpid()}.5"
    orphan = f"import subprocess\nsubprocess.Popen(['setsid', 'sleep', {seconds!r}])\n"
    other = asyncio.ensure_future(box.run("import time\ntime.sleep(1)\n'other'"))
    result = await box.run(orphan + "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(30)", timeout=50)
    assert result.error is not None and result.error.kind is ErrorKind.CRASH
    await eventually_gone(seconds)
    assert (await other).value == "other"
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="SIGKILL"),
        pytest.param(signal.SIGSTOP, id="SIGSTOP", marks=pytest.mark.long),  # until its time is over
    ],
)
async def test_a_program_that_kills_what_it_is_forked_from_hurts_its_own_sandbox_only(
    box: RemoteBox, number: signal.Signals
) -> None:
    code = (
        "import os, time\nparent = os.getppid()\n"
        "zygote = int(open(f'/proc/{parent}/stat').read().rpartition(')')[2].split()[1])\n"
        f"os.kill(zygote, {int(number)})\ntime.sleep(600)"
    )
    result = await box.run(code, timeout=2 if number == signal.SIGSTOP else None)
    assert result.error is not None
    if number == signal.SIGKILL:
        assert result.error.kind is ErrorKind.SANDBOX, result.error
        assert (await box.run("1 + 1")).value == 2
    await box.stop()


@pytest.mark.slow
async def test_the_agent_cannot_be_looked_into(box: RemoteBox) -> None:
    if os.getuid() == 0:
        pytest.skip("root may look into any process")
    code = "import os\nagent = max(int(n) for n in os.listdir('/proc') if n.isdigit())\n"
    result = await box.run(code + "os.listdir(f'/proc/{os.getppid()}/fd')")
    assert result.error is not None and result.error.type == "PermissionError"


@pytest.mark.slow
async def test_a_session_keeps_its_state_and_can_be_interrupted(box: RemoteBox, clock: Clock) -> None:
    async with box.session() as session:
        await session.run("x = 1")
        events = session.stream("x += 1\nprint('begun', flush=True)\nwhile True: pass", timeout=30)
        stuck = await clock.run_out(events, 30, after="begun\n")
        assert stuck.error is not None and stuck.error.kind is ErrorKind.TIMEOUT
        assert stuck.state_kept
        assert (await session.run("x")).value == 2


@pytest.mark.slow
async def test_what_a_tree_uses_counts_together() -> None:
    tree = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        {do}\ntime.sleep(600)"
    async with RemoteBox(Policy(limits=Limits(memory_mib=128))) as box:
        held = tree.format(do="held = b'x' * (40 * 2**20); time.sleep(600)")
        result = await box.run(held, timeout=50)
        assert result.error is not None and result.error.limit == "memory_mib", result.error
    async with RemoteBox(Policy(limits=Limits(cpu_seconds=2))) as box:
        result = await box.run(tree.format(do="exec('while True: pass')"))
        assert result.error is not None and result.error.limit == "cpu_seconds", result.error


@pytest.mark.long  # tests/engines/shell sends as large a file, by the same pieces
async def test_a_file_of_a_hundred_mib_goes_there_and_back(box: RemoteBox) -> None:
    data = os.urandom(2**20) * 100
    await box.write_file("big", data)
    assert await box.read_file("big") == data


@pytest.mark.slow
async def test_when_the_host_lets_go_everything_ends_and_the_folder_is_removed() -> None:
    seconds = f"74{os.getpid()}.5"
    async with RemoteBox() as box:
        root = Path(box.root)
        running = asyncio.ensure_future(box.run(FAMILY.format(seconds=seconds)))
        while not alive_with(seconds):
            await asyncio.sleep(0.01)
        assert root.is_dir()
        (root / "locked").mkdir()
        (root / "locked").chmod(0)
    assert (await running).error.kind is ErrorKind.CANCELLED
    await eventually_gone(seconds)
    assert not root.exists()


@pytest.mark.slow
async def test_an_agent_that_is_killed_ends_its_runs_and_the_next_run_has_another() -> None:
    async with RemoteBox() as box:
        assert box.agent is not None
        async for event in box.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)"):
            if isinstance(event, Output):
                box.agent._process.kill()
        assert isinstance(event, Completed)
        result = event.result
        assert result.error is not None and result.error.kind is ErrorKind.SANDBOX, result
        assert "agent" in result.error.message
        assert (await box.run("1 + 1")).value == 2


async def test_an_agent_that_is_stopped_holds_up_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_KILLING_SECONDS", 0.2)
    async with RemoteBox() as box:
        assert box.agent is not None
        async for event in box.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)", timeout=1):
            if isinstance(event, Output):
                box.agent._process.send_signal(signal.SIGSTOP)
        assert isinstance(event, Completed)
        assert event.result.error is not None and event.result.error.kind is ErrorKind.TIMEOUT, event.result
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_stopped_sandbox_starts_no_other_agent_for_a_run_that_was_about_to_begin() -> None:
    async with RemoteBox() as box:
        there = box._agent_place
        assert there is not None
    with pytest.raises(actbox.SandboxUnavailable, match="stopped while a run was about to begin"):
        there.agent()
    assert there.live_agent is None


@pytest.mark.slow
async def test_modules_are_imported_ahead_and_those_that_cannot_be_are_named() -> None:
    async with RemoteBox(Policy(preload=("decimal", "no_such_module"))) as box:
        result = await box.run("import sys\n'decimal' in sys.modules")
        assert result.value is True
        assert any("no_such_module" in warning for warning in result.warnings)


@pytest.mark.slow
def test_a_forked_child_is_refused_and_its_parents_agent_left_alone() -> None:
    loop = asyncio.new_event_loop()
    box = RemoteBox()
    loop.run_until_complete(box.start())
    try:
        agent = box.agent
        assert agent is not None

        async def begin() -> asyncio.Task[actbox.ExecutionResult]:
            running = asyncio.create_task(box.run("import time\ntime.sleep(0.5)\nprint('parent')"))
            while not box._guests:
                await asyncio.sleep(0.01)
            return running

        async def use() -> dict[str, str]:
            seen = {"alive": str(agent.alive)}
            for name, what in (("connection", lambda: agent.connection), ("guest", agent.start_guest)):
                try:
                    what()
                except ActboxError as error:
                    seen[name] = str(error)
            await box.stop()  # waits for none of its parent's runs
            return seen

        running = loop.run_until_complete(begin())
        seen = in_a_child(use)
        assert seen["alive"] == "False"
        for name in ("connection", "guest"):
            assert "belongs to the parent of this forked process" in seen[name]
        result = loop.run_until_complete(running)
        assert (result.error, result.stdout) == (None, "parent\n")
        assert box.agent is agent and agent.alive
    finally:
        loop.run_until_complete(box.stop())
        loop.close()
