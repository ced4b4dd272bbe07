"""Whoever goes away, or is out of time, is let go of, whatever the service does or does not say."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, Output, Sandbox
from actbox.sandbox.engines.agentcore import AgentCoreSandbox, cancellation, engine, kernel
from actbox.sandbox.engines.agentcore import service as conversation
from tests.clock import Clock
from tests.engines.agentcore.code_service import CodeService, Fault

# Far more than anything here may take: a test that needs it has failed.
MOST_SECONDS = 120
FOR_EVER = 10**9


@pytest.fixture(autouse=True)
def impatient() -> Iterator[pytest.MonkeyPatch]:
    """Have the engine wait briefly for a service that fails; `undo` once it works, as that may take longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentCoreSandbox, "cleanup_seconds", 0.5)
        patch.setattr(cancellation, "LET_GO_SECONDS", 0.2)
        patch.setattr(engine, "_BESIDES_SECONDS", 0.5)
        patch.setattr(kernel, "_STOP_SECONDS", 0.5)
        yield patch


def freeze(service: CodeService) -> None:
    """Have the service say for ever that tasks go on, and that nothing new is there."""
    working = {"content": [], "structuredContent": {"taskId": "t", "taskStatus": "working"}}
    service.faults.append(Fault("getTask", times=FOR_EVER, result=working))
    for tool in ("listFiles", "executeCommand"):
        service.faults.append(Fault(tool, times=FOR_EVER, result={"content": []}))


@pytest_asyncio.fixture
async def box(service: CodeService, impatient: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    service.faults.clear()
    opened = actbox.open_sandbox("agentcore", region="eu-west-1")
    await opened.start()
    yield opened
    service.faults.clear()
    impatient.undo()
    await opened.stop()


async def let_go_of(doing: asyncio.Task[None]) -> None:
    """Wait until it is over; a task that is not in time is left behind, as it may never be."""
    await asyncio.wait([doing], timeout=MOST_SECONDS)
    assert doing.done()


# A service that says nothing new


@pytest.mark.slow
async def test_a_run_is_out_of_time_also_where_the_service_says_nothing_new(
    box: Sandbox, service: CodeService, clock: Clock
) -> None:
    events = box.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)", timeout=30)
    seen = []

    async def follow() -> None:
        async for event in events:
            if isinstance(event, Output):
                freeze(service)
                clock.turn(30)
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_session_whose_program_is_not_said_to_have_ended_is_lost(
    box: Sandbox, service: CodeService, clock: Clock, impatient: pytest.MonkeyPatch
) -> None:
    session = box.session()
    await session.run("x = 1")
    events = session.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)", timeout=30)
    seen = []

    async def follow() -> None:
        async for event in events:
            if isinstance(event, Output):
                freeze(service)
                clock.turn(30)
            seen.append(event)

    await let_go_of(asyncio.create_task(follow()))
    completed = seen[-1]
    assert isinstance(completed, actbox.Completed) and completed.result.error is not None
    assert (completed.result.error.kind, completed.result.state_kept) == (ErrorKind.TIMEOUT, False)
    # What was too late for the run goes on, and ends the program once the service is itself again.
    service.faults.clear()
    impatient.undo()
    await session.close()
    async with box.session() as another:
        assert (await another.run("1")).value == 1


# A service that does not answer


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Answers with this wait until it is set, at the latest when the test is over."""
    released = threading.Event()
    yield released
    released.set()


async def asked(service: CodeService) -> None:
    """Wait until the service was asked for what goes wrong next."""
    while service.faults:
        await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["writeFiles", "startCommandExecution", "getTask", "listFiles"])
async def test_a_run_with_little_time_is_not_begun_for_long(
    box: Sandbox, service: CodeService, held: threading.Event, tool: str
) -> None:
    service.faults.append(Fault(tool, times=FOR_EVER, held=held))
    running = asyncio.create_task(box.run("1", timeout=0.5))
    await asyncio.wait([running], timeout=MOST_SECONDS)
    assert running.done()
    error = running.result().error
    assert error is not None and error.kind is ErrorKind.SANDBOX
    assert "has not begun" in error.message


@pytest.mark.slow
async def test_a_file_is_not_waited_for_by_a_caller_who_goes_away(
    box: Sandbox, service: CodeService, held: threading.Event
) -> None:
    service.faults.append(Fault("startCommandExecution", held=held))
    reading = asyncio.create_task(box.read_text("a"))
    await asked(service)
    reading.cancel()
    await asyncio.wait([reading], timeout=MOST_SECONDS)
    assert reading.cancelled()
    # The command that was started after all is stopped.
    held.set()
    while not service.called("stopTask"):
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_call_that_is_not_answered_fails(
    box: Sandbox, service: CodeService, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_ANSWER_SECONDS", 0.5)
    service.faults.append(Fault("writeFiles", held=held))
    with pytest.raises(actbox.FileError, match="writeFiles: the service has not answered within"):
        async with asyncio.timeout(MOST_SECONDS):
            await box.read_file("a")


@pytest.mark.slow
async def test_a_start_lets_go_of_its_caller_and_stops_what_starts_too_late(
    service: CodeService, held: threading.Event, impatient: pytest.MonkeyPatch
) -> None:
    before = len(service.running)
    service.faults.append(Fault("StartCodeInterpreterSession", held=held))
    opened = actbox.open_sandbox("agentcore", region="eu-west-1")
    starting = asyncio.create_task(opened.start())
    await asked(service)
    starting.cancel()
    await let_go_of(starting)
    assert starting.cancelled()
    impatient.undo()
    async with opened:  # which the session that starts too late does not disturb
        service.calls.clear()
        held.set()
        while not service.called("StopCodeInterpreterSession"):
            await asyncio.sleep(0.01)
        assert (await opened.run("1")).value == 1
        assert len(service.running) == before + 1
    assert len(service.running) == before


async def test_a_start_that_is_not_answered_fails(
    service: CodeService, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_ANSWER_SECONDS", 0.5)
    service.faults.append(Fault("StartCodeInterpreterSession", held=held))
    with pytest.raises(actbox.SandboxUnavailable, match="StartCodeInterpreterSession: the service has not answered"):
        async with asyncio.timeout(MOST_SECONDS):
            await actbox.open_sandbox("agentcore", region="eu-west-1").start()


@pytest.mark.slow
async def test_a_start_that_is_given_up_halfway_lets_go_of_its_caller(
    service: CodeService, held: threading.Event
) -> None:
    before = len(service.running)
    service.calls.clear()
    service.faults.append(Fault("getTask", times=FOR_EVER, held=held))
    service.faults.append(Fault("StopCodeInterpreterSession", held=held))
    starting = asyncio.create_task(actbox.open_sandbox("agentcore", region="eu-west-1").start())
    while not service.called("getTask"):
        await asyncio.sleep(0.01)
    starting.cancel()
    await let_go_of(starting)
    assert starting.cancelled()
    service.faults.clear()
    held.set()
    while len(service.running) != before:
        await asyncio.sleep(0.01)


# What goes on in the background


async def test_what_fails_after_its_caller_was_let_go_of_is_told_by_the_log(caplog: pytest.LogCaptureFixture) -> None:
    answered, told = asyncio.Event(), asyncio.Event()

    async def make() -> str:
        await answered.wait()
        return "made"

    async def undo(made: str) -> None:
        told.set()
        raise RuntimeError(f"what was {made} cannot be ended")

    making = asyncio.create_task(cancellation.whole(make(), undo))
    await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert not caplog.records
    answered.set()
    await told.wait()
    while cancellation._going_on:
        await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == [
        "something of the agentcore engine was not ended as it should be: what was made cannot be ended"
    ]
