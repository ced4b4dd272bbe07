"""`StrandsSandbox` from its beginning to its end: in several event loops, threads and agents, and at exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands.sandbox.errors import SandboxPathNotFoundError

import actbox
from actbox import InvalidValue, Policy, SandboxStopped
from actbox.integrations.strands import StrandsSandbox
from tests.integrations.strands_agents.places import sandbox_on


async def test_it_starts_when_it_is_first_used_and_not_again_after_stop() -> None:
    box = sandbox_on("linux")
    assert (await box.execute("echo 1 > f; echo hi")).stdout == "hi\n"
    await box.stop()
    await box.stop()
    for call in (box.execute("true"), box.execute_code("1"), box.read_file("f")):
        with pytest.raises(SandboxStopped, match=r"start\(\) opens it again"):
            await call
    await box.start()
    with pytest.raises(SandboxPathNotFoundError):
        await box.read_file("f")
    await box.stop()


def test_two_event_loops_that_begin_at_once_have_one_sandbox() -> None:
    box = sandbox_on("linux")
    begin = threading.Barrier(4)

    def write(number: int) -> None:
        begin.wait()
        asyncio.run(box.write_file(f"file-{number}", b""))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def names() -> set[str]:
        async with box:
            return {entry.name for entry in await box.list_files()}

    assert asyncio.run(names()) >= {f"file-{number}" for number in range(4)}


async def test_a_sandbox_of_ours_that_is_there_already_is_taken_over() -> None:
    async with actbox.open_sandbox("linux") as ours:
        await ours.write_file("f", b"1")
        async with StrandsSandbox(ours) as box:
            assert await box.read_file("f") == b"1"
        with pytest.raises(SandboxStopped):
            await ours.read_file("f")
    with pytest.raises(InvalidValue, match="already has its own policy"):
        StrandsSandbox(ours, policy=Policy())
    with pytest.raises(InvalidValue, match="name of an engine or a sandbox"):
        StrandsSandbox(5)  # type: ignore[arg-type]


_LEFT_OPEN = """
import asyncio, sys
from actbox.integrations.strands import LocalEnvironment
box = LocalEnvironment()
result = asyncio.run(box.execute("touch here; pwd"))
async def left_in_a_session():
    async for _ in box.session().stream("x = 1"):
        pass
asyncio.run(left_in_a_session())
print(result.stdout, end="")
"""


@pytest.mark.slow
def test_what_nobody_has_stopped_is_stopped_when_the_process_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", _LEFT_OPEN], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stderr == ""
    assert "/actbox-" in ended.stdout
    assert not Path(ended.stdout.strip()).exists()


@pytest.mark.slow
def test_without_strands_a_sentence_says_which_extra_has_it() -> None:
    program = "import sys\nsys.modules['strands'] = None\nimport actbox.integrations.strands"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "strands is not installed: pip install 'actbox[strands]'" in ended.stderr


async def test_stop_ends_sessions_that_another_event_loop_has_begun() -> None:
    box = sandbox_on("linux")

    def elsewhere() -> None:
        async def begin() -> None:
            async for _ in box.session().stream("kept = 1"):
                pass

        asyncio.run(begin())

    await asyncio.to_thread(elsewhere)
    await box.stop()
