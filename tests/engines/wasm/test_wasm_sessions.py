"""Sessions on WebAssembly: one instance for all programs, as far as it can be kept."""

from __future__ import annotations

import asyncio

import pytest

import actbox
from actbox import ErrorKind, Sandbox
from actbox.sandbox.engines.wasm import engine
from tests.clock import Clock


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a session have as long to end its program, or itself, as a busy machine may need."""
    monkeypatch.setattr(engine, "_GRACE_SECONDS", 60.0)


async def test_state_lasts_and_programs_have_names_of_their_own(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run(
            "def f(x):\n    return 1 / x\nimport os\nos.makedirs('/workspace/d')\nos.chdir('/workspace/d')"
        )
        failed = await session.run("\nf(0)")
        assert failed.error is not None
        assert (failed.error.line, failed.state_kept) == (2, True)
        assert 'File "program.py", line 2, in f' in failed.error.traceback
        assert 'File "program-2.py", line 2' in failed.error.traceback
        assert (await session.run("os.getcwd()")).value == "/workspace/d"


async def test_programs_that_await_share_one_event_loop(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run(
            "import asyncio\nevent = asyncio.Event()\n"
            "task = asyncio.ensure_future(event.wait())\nawait asyncio.sleep(0)"
        )
        assert (await session.run("event.set()\nawait task")).value is True


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
async def test_a_program_that_waits_is_interrupted_and_the_state_kept(box: Sandbox, clock: Clock) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async with box.session() as session:
        await session.run("x = 41")
        for program in ("never()", "await never()", "import asyncio\nawait asyncio.sleep(600)"):
            events = session.stream(f"print('begun')\n{program}", tools=[never], timeout=30)
            ended = await clock.run_out(events, 30, after="begun\n")
            assert ended.error is not None
            assert (ended.error.kind, ended.state_kept) == (ErrorKind.TIMEOUT, True), program
        assert (await session.run("x + 1")).value == 42


@pytest.mark.slow
async def test_a_program_that_computes_takes_the_state_with_it(box: Sandbox) -> None:
    async with box.session() as session:
        ended = await session.run("while True: pass", timeout=0.3)
        assert ended.error is not None
        assert (ended.error.kind, ended.state_kept) == (ErrorKind.TIMEOUT, False)
        assert not session.alive
        after = await session.run("1")
        assert after.error is not None
        assert (after.error.kind, after.exit_code) == (ErrorKind.SANDBOX, 125)


@pytest.mark.usefixtures("patient")
async def test_a_session_ends_as_a_script_does(box: Sandbox) -> None:
    session = box.session()
    await session.run("import atexit\natexit.register(lambda: open('/workspace/end', 'w').write('ended'))")
    await session.run("f = open('/workspace/open', 'w')\nf.write('flushed')")
    await session.close()
    assert await box.read_text("end") == "ended"
    assert await box.read_text("open") == "flushed"


@pytest.mark.slow
async def test_sessions_do_not_see_each_other(box: Sandbox) -> None:
    async with box.session() as one, box.session() as other:
        await one.run("x = 1\nopen('/tmp/x', 'w').close()")
        assert (await other.run("import os\n['x' in globals(), os.listdir('/tmp')]")).value == [False, []]


async def test_a_fork_is_refused(box: Sandbox) -> None:
    refusal = "the wasm engine cannot fork sessions; the linux and monty engines can"
    with pytest.raises(actbox.Unsupported, match=refusal):
        box.session(forkable=True)
    async with box.session() as session:
        with pytest.raises(actbox.Unsupported, match=refusal):
            await session.fork()


@pytest.mark.slow
async def test_the_processor_time_is_the_sessions_as_a_whole() -> None:
    policy = actbox.Policy(limits=actbox.Limits(cpu_seconds=1))
    burn = "import time\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass"
    async with actbox.open_sandbox("wasm", policy=policy) as box, box.session() as session:
        assert (await session.run("x = 1")).success
        ended = await session.run(burn)
        while ended.success:
            ended = await session.run(burn)
        assert ended.error is not None
        assert ended.error.limit == "cpu_seconds"
        assert ended.state_kept is False
