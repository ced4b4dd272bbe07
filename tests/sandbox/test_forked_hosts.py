"""A forked child of a process that has a sandbox: it is refused, and what is its parent's goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

import actbox
from actbox import ActboxError, Sandbox
from tests.conftest import engine_check
from tests.sandbox.remote.forked import in_a_child, seen_in_a_child

_REFUSED = "belongs to the parent of this forked process"
_ENGINES = ("linux", "node", "process", "wasm", "monty")
_PRINT_HELD = {"node": "console.log(await hold())"}
_SET, _GET = {"node": "globalThis.x = 41"}, {"node": "globalThis.x + 1"}


@pytest.fixture(params=_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    found = engine_check(request.param)
    if not found.works:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason}. {found.advice}")
    return str(request.param)


@pytest.mark.slow
def test_a_forked_child_is_refused_and_its_parents_runs_and_sessions_go_on(engine: str) -> None:
    loop = asyncio.new_event_loop()
    held, go = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        held.set()
        await go.wait()
        return "held"

    async def begin() -> tuple[actbox.Session, asyncio.Task[actbox.ExecutionResult]]:
        await box.start()
        await box.write_text("x", "parent")
        session = box.session()
        first = await session.run(_SET.get(engine, "x = 41"))
        assert first.success, first.error
        running = asyncio.create_task(box.run(_PRINT_HELD.get(engine, "print(hold())"), tools=[hold]))
        waiting = asyncio.create_task(held.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        assert held.is_set(), running
        return session, running

    async def use() -> dict[str, str]:
        tried: dict[str, Callable[[], Awaitable[object]]] = {
            "run": lambda: box.run("1"),
            "alone": lambda: box.run_alone("1"),
            "start": box.start,
            "read": lambda: box.read_text("x"),
            "write": lambda: box.write_text("x", "child"),
            "session": lambda: session.run("x"),
            "files of the session": lambda: session.write_text("x", "child"),
        }
        seen = {}
        for name, what in tried.items():
            try:
                seen[name] = str(await what())
            except ActboxError as error:
                seen[name] = str(error)
        assert not session.alive
        await session.close()
        await box.stop()
        await box.stop()
        return seen

    async def finish() -> None:
        go.set()
        result = await running
        assert (result.error, result.stdout) == (None, "held\n")
        assert (await session.run(_GET.get(engine, "x + 1"))).value == 42
        await session.close()
        assert await box.read_text("x") == "parent"

    box = actbox.open_sandbox(engine, allow_unisolated=True)
    session, running = loop.run_until_complete(begin())
    try:
        seen = in_a_child(use)
        assert len(seen) == 7 and all(_REFUSED in said for said in seen.values()), seen
        loop.run_until_complete(finish())
    finally:
        loop.run_until_complete(box.stop())
        loop.close()


_FORKS_AMID_A_RUN = """
import asyncio, os, sys, time, actbox
async def main():
    async with actbox.open_sandbox(ENGINE, allow_unisolated=True) as box:
        running = asyncio.create_task(box.run(SLOW))
        await asyncio.sleep(1)
        assert not running.done(), running
        child = os.fork()
        if not child:
            sys.exit(7)
        for _ in range(600):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
            status = os.waitpid(child, 0)[1]
        await asyncio.sleep(0.5)
        print(os.waitstatus_to_exitcode(status), running.done(), flush=True)
        os.killpg(0, 9)  # since the child's event loop has closed what wakes this one
asyncio.run(main())
"""
_SLOW = {"node": "await new Promise(done => setTimeout(done, 600_000))", "monty": "while True: pass"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*_ENGINES, pytest.param("container", marks=pytest.mark.engines)], indirect=True)
def test_a_child_that_is_forked_amid_a_run_ends_when_it_is_cancelled_there(engine: str) -> None:
    """As `sys.exit` in it has `asyncio.run` do; the run, of whose end only its parent hears, is left alone."""
    program = _FORKS_AMID_A_RUN.replace("ENGINE", repr(engine))
    program = program.replace("SLOW", repr(_SLOW.get(engine, "import time\ntime.sleep(600)")))
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, start_new_session=True)
    assert said.stdout == "7 False\n", said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["linux", "process", "wasm"])
def test_a_forked_child_can_have_a_sandbox_anew_that_its_parent_has_open(engine: str) -> None:
    if not (found := engine_check(engine)).works:
        pytest.skip(f"the {engine} engine does not work here: {found.reason}")
    loop = asyncio.new_event_loop()
    box = actbox.open_sandbox(engine, allow_unisolated=True)
    loop.run_until_complete(box.start())
    loop.run_until_complete(box.write_text("x", "parent"))

    class Anew:
        """It lets go of its parent's before it is used."""

        async def run(self, code: str) -> object:
            await box.stop()
            await box.start()
            return await box.run(code)

        write_file, read_file, stop = box.write_file, box.read_file, box.stop

    try:
        assert set(seen_in_a_child(Anew()).values()) == {"done"}  # type: ignore[arg-type]
        assert loop.run_until_complete(box.read_text("x")) == "parent"
        assert loop.run_until_complete(box.run("print(1)")).stdout == "1\n"
    finally:
        loop.run_until_complete(box.stop())
        loop.close()


def test_a_child_of_a_sandbox_that_was_never_started_has_it_for_itself() -> None:
    box: Sandbox = actbox.open_sandbox("process", allow_unisolated=True)

    async def use() -> dict[str, str]:
        async with box:
            return {"said": (await box.run("print('child')")).stdout}

    assert in_a_child(use) == {"said": "child\n"}
