"""What is left when a process of ours is killed: nothing, and callers are told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import actbox
from actbox import ApprovalDecision, ApprovalRequest, ErrorKind, Output, Tool, Toolset
from actbox.codeact import CallbackApprover
from actbox.sandbox.channel.link import Link
from tests.conftest import engine_check
from tests.contract.left_behind import alive_with


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.mark.slow
def test_a_host_that_is_killed_leaves_no_process_behind() -> None:
    seconds = f"63.{os.getpid()}"
    code = (
        "import actbox, os\n"
        "with actbox.sync.open_sandbox('linux') as box:\n"
        f"    for event in box.execute_stream('sleep {seconds} & sleep {seconds} & echo ready; wait'):\n"
        "        print(event.text, flush=True)\n"
    )
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        assert host.stdout.readline() == "ready\n"
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()
        assert alive_with(seconds)
        host.kill()
        host.wait()
    deadline = time.monotonic() + 60
    while alive_with(seconds) or any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_a_run_whose_nursery_dies_is_told_so_and_the_next_one_works_with_the_same_files() -> None:
    from actbox.sandbox.engines.linux import stock

    async with actbox.open_sandbox("linux") as box:
        await box.write_text("kept", "before")
        ready = asyncio.Event()

        async def consume() -> actbox.ExecutionResult:
            async for event in box.stream("print('ready', flush=True)\nimport time\ntime.sleep(60)"):
                if isinstance(event, Output):
                    ready.set()
                if isinstance(event, actbox.Completed):
                    return event.result
            raise AssertionError

        task = asyncio.create_task(consume())
        await asyncio.wait_for(ready.wait(), 60)
        os.kill(stock.acquire().nursery.pid, signal.SIGKILL)
        result = await asyncio.wait_for(task, 60)
        assert result.error is not None
        assert result.error.kind is ErrorKind.SANDBOX
        assert "nursery" in result.error.message
        assert result.exit_code == 125
        after = await box.run("open('kept').read()")
        assert after.value == "before", after.error


async def test_a_guest_that_is_killed_from_outside_is_a_crash() -> None:
    seconds = f"64.{os.getpid()}"
    async with actbox.open_sandbox("linux") as box:
        task = asyncio.create_task(box.execute(["sleep", seconds]))
        while not alive_with(seconds):
            await asyncio.sleep(0.01)
        for process in alive_with(seconds):
            os.kill(process, signal.SIGKILL)
        result = await asyncio.wait_for(task, 60)
        assert result.exit_code == 137
        assert result.error is not None
        assert result.error.kind is ErrorKind.CRASH


async def test_a_call_that_is_approved_after_its_sandbox_was_stopped_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer comes while the last of the channel is still being read."""
    paid: list[int] = []
    asked, answered, drained = asyncio.Event(), asyncio.Event(), asyncio.Event()
    rest: list[Callable[[], None]] = []

    async def pay(amount: int) -> None:
        paid.append(amount)

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.set()
        await answered.wait()
        return ApprovalDecision(True)

    def drain(_link: Link, then: Callable[[], None]) -> None:
        rest.append(then)
        drained.set()

    monkeypatch.setattr(Link, "drain", drain)
    tools = Toolset.of([Tool.from_function(pay, approval="always_require")]).asking(CallbackApprover(approve))
    async with actbox.open_sandbox("linux") as box:
        running = asyncio.create_task(box.run("await pay(1)", tools=tools))
        await asyncio.wait_for(asked.wait(), 60)
        stopping = asyncio.create_task(box.stop())
        await asyncio.wait_for(drained.wait(), 60)
        answered.set()
        for _ in range(100):
            await asyncio.sleep(0)
        rest[0]()
        await stopping
        result = await running
    assert result.error is not None
    assert result.error.kind is ErrorKind.CANCELLED
    assert paid == []
