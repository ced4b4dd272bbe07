"""Sessions live in the service's kernel."""

from __future__ import annotations

import pytest

from actbox import ErrorKind, Program, Sandbox, Unsupported
from tests.clock import Clock
from tests.engines.agentcore.code_service import CodeService


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.slow
async def test_variables_last_in_the_kernel_and_nowhere_else(box: Sandbox, service: CodeService) -> None:
    async with box.session() as session:
        await session.run("x = 40")
        result = await session.run("print('out')\nx + 2")
        assert (result.value, result.stdout, result.state_kept) == (42, "out\n", True)
        assert not (await box.run("x")).success
    assert len(service.called("executeCode")) == 4  # the beginning, two programs, and one that clears it
    async with box.session() as another:
        assert not (await another.run("x")).success


@pytest.mark.slow
async def test_what_is_awaited_and_tools_work_in_the_kernel(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("import asyncio\nx = 1")
        found = await session.run("await asyncio.gather(add(x, 1), add(x, 2))", tools=[add])
        assert (found.value, found.usage.tool_calls) == ([2, 3], 2)
        assert not (await session.run("add(1, 1)")).success


@pytest.mark.slow
async def test_children_print_into_the_result_too(box: Sandbox) -> None:
    async with box.session() as session:
        result = await session.run("import subprocess\nsubprocess.run(['sh', '-c', 'echo out; echo err >&2'])")
        assert (result.stdout, result.stderr) == ("out\n", "err\n")


@pytest.mark.slow
async def test_shown_images_are_artifacts(box: Sandbox) -> None:
    show = "from IPython.display import Image, display\ndisplay(Image(b'as png'))\nopen('output/a.txt', 'w').write('a')"
    async with box.session() as session:
        result = await session.run(show)
        assert {a.name: (a.data, a.media_type) for a in result.artifacts} == {
            "a.txt": (b"a", "text/plain"),
            "shown-1.png": (b"as png", "image/png"),
        }
        assert (await session.run("1")).artifacts == ()


@pytest.mark.slow
async def test_a_program_out_of_time_is_interrupted_and_the_variables_stay(box: Sandbox, clock: Clock) -> None:
    async with box.session() as session:
        await session.run("x = 7")
        events = session.stream("print('begun', flush=True)\nwhile True:\n    pass", timeout=30)
        result = await clock.run_out(events, 30, after="begun\n")
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, True)
        assert (await session.run("x")).value == 7


@pytest.mark.slow
async def test_a_program_that_cannot_be_interrupted_costs_the_variables(box: Sandbox, clock: Clock) -> None:
    stubborn = (
        "while True:\n    try:\n        print('begun', flush=True)\n        while True:\n            pass\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    async with box.session() as session:
        await session.run("x = 7")
        result = await clock.run_out(session.stream(stubborn, timeout=30), 30, after="begun\n")
        assert result.error is not None
        assert (result.error.kind, result.state_kept, session.alive) == (ErrorKind.TIMEOUT, False, False)
        after = await session.run("x")
        assert after.error is not None and (after.error.kind, after.exit_code) == (ErrorKind.SANDBOX, 125)
    async with box.session() as another:
        assert (await another.run("1")).value == 1


@pytest.mark.slow
async def test_a_kernel_that_was_started_anew_is_noticed(box: Sandbox, service: CodeService) -> None:
    async with box.session() as session:
        await session.run("x = 7")
        machine = service.running[0].machine
        assert machine is not None
        machine.executeCode("None", clearContext=True)  # by somebody else, who has the session's id
        after = await session.run("x")
        assert after.error is not None
        assert (after.error.kind, after.state_kept) == (ErrorKind.SANDBOX, False)
        assert "anew" in after.error.message
        assert not session.alive


@pytest.mark.slow
async def test_there_is_one_at_a_time_and_of_python(box: Sandbox) -> None:
    async with box.session() as session:
        with pytest.raises(Unsupported, match="one session at a time"):
            box.session()
        with pytest.raises(Unsupported, match="Python"):
            await session.run(Program("1", "javascript"))
    with pytest.raises(Unsupported, match="fork"):
        box.session(forkable=True)
