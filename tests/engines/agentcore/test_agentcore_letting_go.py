"""Whoever goes away, or is out of time, is let go of, whatever the service does or does not say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, Output, Sandbox
from actbox.sandbox.engines.agentcore import AgentCoreSandbox, kernel, task
from tests.engines.agentcore.code_service import CodeService, Fault

# Far more than anything here may take: a test that needs it has failed.
MOST_SECONDS = 120
FOR_EVER = 10**9


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentCoreSandbox, "aftermath_seconds", 0.5)
    monkeypatch.setattr(task, "LET_GO_SECONDS", 0.2)
    monkeypatch.setattr(kernel, "_STOP_SECONDS", 0.5)


def freeze(service: CodeService) -> None:
    """Have the service say for ever that tasks go on, and that nothing new is there."""
    working = {"content": [], "structuredContent": {"taskId": "t", "taskStatus": "working"}}
    service.faults.append(Fault("getTask", times=FOR_EVER, result=working))
    for tool in ("listFiles", "executeCommand"):
        service.faults.append(Fault(tool, times=FOR_EVER, result={"content": []}))


@pytest_asyncio.fixture
async def box(service: CodeService) -> AsyncIterator[Sandbox]:
    service.faults.clear()
    opened = actbox.open_sandbox("agentcore", region="eu-west-1")
    await opened.start()
    yield opened
    service.faults.clear()
    await opened.stop()


async def let_go_of(doing: asyncio.Task[None]) -> None:
    """Wait until it is over; a task that is not in time is left behind, as it may never be."""
    await asyncio.wait([doing], timeout=MOST_SECONDS)
    assert doing.done()


async def test_a_run_is_out_of_time_also_where_the_service_says_nothing_new(box: Sandbox, service: CodeService) -> None:
    events = box.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)", timeout=1)
    seen = []

    async def follow() -> None:
        async for event in events:
            if isinstance(event, Output):
                freeze(service)
            seen.append(event)

    await let_go_of(asyncio.create_task(follow()))
    completed = seen[-1]
    assert isinstance(completed, actbox.Completed) and completed.result.error is not None
    assert completed.result.error.kind is ErrorKind.TIMEOUT
    assert "has not said within" in completed.result.warnings[0]
    assert service.called("stopTask")


def look(text: str) -> str:
    """Say it again."""
    return text


@pytest.mark.parametrize("tools", [None, [look]])
async def test_a_caller_who_goes_away_is_let_go_of_by_a_service_that_says_nothing_new(
    box: Sandbox, service: CodeService, tools: list[Callable[[str], str]] | None
) -> None:
    begun = asyncio.Event()

    async def follow() -> None:
        program = "print('begun', flush=True)\nimport time\ntime.sleep(600)"
        async for event in box.stream(program, tools=tools):
            if isinstance(event, Output):
                begun.set()

    going_on = asyncio.create_task(follow())
    await begun.wait()
    freeze(service)
    going_on.cancel()
    await let_go_of(going_on)
    assert going_on.cancelled()


async def test_a_session_whose_program_is_not_said_to_have_ended_is_lost(box: Sandbox, service: CodeService) -> None:
    session = box.session()
    await session.run("x = 1")
    events = session.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)", timeout=1)
    seen = []

    async def follow() -> None:
        async for event in events:
            if isinstance(event, Output):
                freeze(service)
            seen.append(event)

    await let_go_of(asyncio.create_task(follow()))
    completed = seen[-1]
    assert isinstance(completed, actbox.Completed) and completed.result.error is not None
    assert (completed.result.error.kind, completed.result.state_kept) == (ErrorKind.TIMEOUT, False)
    # What was too late for the run goes on, and ends the program once the service is itself again.
    service.faults.clear()
    await session.close()
    async with box.session() as another:
        assert (await another.run("1")).value == 1
