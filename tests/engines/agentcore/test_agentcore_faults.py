"""What the service may do wrong, and what is said of it then."""

from __future__ import annotations

import asyncio
import threading

import pytest

import actbox
from actbox import ErrorKind, Sandbox, SandboxStopped, SandboxUnavailable
from actbox.sandbox.engines.agentcore import service as conversation
from tests.engines.agentcore.code_service import CodeService, Fault


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "_PAUSES", (0.001,) * 5)


async def test_a_session_that_has_expired_is_told_with_what_to_do(box: Sandbox, service: CodeService) -> None:
    service.expire(service.running[-1].id)
    result = await box.run("1")
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == (ErrorKind.SANDBOX, 125)
    assert "session_seconds" in result.error.message
    for call in (lambda: box.run("1"), lambda: box.read_file("a"), lambda: box.execute("true")):
        with pytest.raises(SandboxStopped, match="session_seconds"):
            await call()


@pytest.mark.slow
async def test_files_of_a_session_that_has_expired_are_told_so_at_once(box: Sandbox, service: CodeService) -> None:
    service.expire(service.running[-1].id)
    with pytest.raises(SandboxStopped, match="session_seconds"):
        await box.read_file("a")


@pytest.mark.slow
async def test_a_program_that_runs_when_the_session_expires_is_told_so(box: Sandbox, service: CodeService) -> None:
    async def expire() -> None:
        async for event in events:
            if isinstance(event, actbox.Output):
                service.expire(service.running[-1].id)
            if isinstance(event, actbox.Completed):
                assert event.result.error is not None
                assert event.result.error.kind is ErrorKind.SANDBOX
                assert "session_seconds" in event.result.error.message

    events = box.stream("print('now', flush=True)\nimport time\ntime.sleep(600)")
    await expire()


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["writeFiles", "executeCommand", "executeCode"])
async def test_what_the_end_of_the_services_session_cuts_off_without_a_word_is_told_so(
    box: Sandbox, service: CodeService, tool: str
) -> None:
    async def call() -> None:
        """Have output be waited for."""

    session = box.session()
    await session.run("1")
    released = threading.Event()
    service.faults.append(Fault(tool, is_error=True, held=released))
    running = asyncio.create_task(session.run("call()\nimport time\ntime.sleep(600)", tools=[call]))
    while service.faults:
        await asyncio.sleep(0.01)
    service.expire(service.running[-1].id)
    released.set()
    result = await running
    assert result.error is not None
    assert (result.error.kind, "session_seconds" in result.error.message) == (ErrorKind.SANDBOX, True)
    for place in (session, box):
        with pytest.raises(SandboxStopped, match="session_seconds"):
            await place.run("1")


@pytest.mark.slow
async def test_a_session_that_is_terminated_is_asked_about(box: Sandbox, service: CodeService) -> None:
    service.faults.append(Fault("writeFiles", code="ConflictException"))
    service.expire(service.running[-1].id)
    with pytest.raises(SandboxStopped, match="TERMINATED"):
        await box.read_file("a")


@pytest.mark.slow
async def test_a_conflict_in_a_session_that_goes_on_is_told_as_it_is(box: Sandbox, service: CodeService) -> None:
    service.faults.append(Fault("writeFiles", code="ConflictException"))
    result = await box.run("1")
    assert result.error is not None
    assert (result.error.kind, "ConflictException" in result.error.message) == (ErrorKind.SANDBOX, True)
    assert (await box.run("1")).value == 1


@pytest.mark.slow
@pytest.mark.parametrize("code", ["ThrottlingException", "throttlingException"])
async def test_what_is_throttled_is_tried_again(box: Sandbox, service: CodeService, soon: None, code: str) -> None:
    for tool in ("writeFiles", "startCommandExecution", "getTask", "readFiles"):
        service.faults.append(Fault(tool, code=code, times=2))
    assert (await box.run("6 * 7")).value == 42
    assert service.faults == []


@pytest.mark.slow
async def test_it_is_not_tried_for_ever(box: Sandbox, service: CodeService, soon: None) -> None:
    service.faults.append(Fault("startCommandExecution", code="ThrottlingException", times=1000))
    result = await box.run("1")
    assert result.error is not None and "6 times" in result.error.message
    assert len(service.called("startCommandExecution")) == 6


@pytest.mark.slow
async def test_an_exception_in_the_stream_is_what_it_is(box: Sandbox, service: CodeService) -> None:
    service.faults.append(Fault("startCommandExecution", code="serviceQuotaExceededException"))
    result = await box.run("1")
    assert result.error is not None
    assert "quota" in result.error.message and "ServiceQuotaExceededException" in result.error.message
    assert (await box.run("1")).value == 1


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["writeFiles", "startCommandExecution"])
async def test_an_error_without_content_is_an_error(box: Sandbox, service: CodeService, tool: str) -> None:
    service.faults.append(Fault(tool, is_error=True))
    result = await box.run("1")
    assert result.error is not None
    assert (result.error.kind, tool in result.error.message) == (ErrorKind.SANDBOX, True)


@pytest.mark.slow
async def test_an_error_without_content_ends_a_run_whose_output_cannot_be_had(
    box: Sandbox, service: CodeService
) -> None:
    service.faults.append(Fault("readFiles", is_error=True))
    result = await box.run("1")
    assert result.error is not None and "readFiles" in result.error.message


@pytest.mark.slow
async def test_fields_that_are_missing_are_not_missed(box: Sandbox, service: CodeService) -> None:
    gone = ("stdout", "stderr", "exitCode", "executionTime", "isError", "taskStatus", "size", "name", "description")
    for tool in ("writeFiles", "startCommandExecution", "getTask", "listFiles", "readFiles"):
        service.faults.append(Fault(tool, times=1000, without=gone))
    result = await box.run("print('out')\n6 * 7")
    assert (result.stdout, result.value) == ("out\n", 42)


@pytest.mark.slow
async def test_a_task_that_was_never_named_is_an_error(box: Sandbox, service: CodeService) -> None:
    service.faults.append(Fault("startCommandExecution", without=("structuredContent",)))
    result = await box.run("1")
    assert result.error is not None and "task" in result.error.message


@pytest.mark.slow
async def test_a_slow_stream_holds_up_nobody_else(box: Sandbox, service: CodeService) -> None:
    released = threading.Event()
    service.faults.append(Fault("startCommandExecution", held=released))
    slow = asyncio.create_task(box.run("'slow'"))
    while service.faults:
        await asyncio.sleep(0.01)
    assert (await box.run("'fast'")).value == "fast"
    assert not slow.done()
    released.set()
    assert (await slow).value == "slow"


@pytest.mark.slow
async def test_a_command_that_is_started_while_its_caller_goes_away_is_stopped(
    box: Sandbox, service: CodeService
) -> None:
    released = threading.Event()
    service.faults.append(Fault("startCommandExecution", held=released))
    task = asyncio.create_task(box.run("import time\ntime.sleep(600)"))
    while service.faults:
        await asyncio.sleep(0.01)
    task.cancel()
    asyncio.get_running_loop().call_later(0, released.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(service.called("stopTask")) >= 1


# Beginning and ending


async def test_a_start_that_is_refused_says_why(service: CodeService) -> None:
    service.faults.append(Fault("StartCodeInterpreterSession", code="AccessDeniedException"))
    with pytest.raises(SandboxUnavailable, match="credentials do not allow it"):
        await actbox.open_sandbox("agentcore", region="eu-west-1").start()


@pytest.mark.slow
async def test_a_start_that_nobody_waits_for_any_more_leaves_no_session(service: CodeService) -> None:
    before = len(service.running)
    released = threading.Event()
    service.faults.append(Fault("StartCodeInterpreterSession", held=released))
    task = asyncio.create_task(actbox.open_sandbox("agentcore", region="eu-west-1").start())
    while service.faults:
        await asyncio.sleep(0.01)
    task.cancel()
    asyncio.get_running_loop().call_later(0, released.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(service.running) == before


@pytest.mark.slow
async def test_a_code_interpreter_that_is_not_there_is_told(service: CodeService) -> None:
    service.faults.append(Fault("StartCodeInterpreterSession", code="ResourceNotFoundException"))
    with pytest.raises(SandboxUnavailable, match="no such thing in this region"):
        await actbox.open_sandbox("agentcore", region="eu-west-1", identifier="mine-abc").start()


@pytest.mark.slow
async def test_what_is_missing_in_a_session_that_goes_on_does_not_end_it(box: Sandbox, service: CodeService) -> None:
    service.faults.append(Fault("getTask", code="ResourceNotFoundException"))
    result = await box.run("1")
    assert result.error is not None and result.error.kind is ErrorKind.SANDBOX
    assert (await box.run("1")).value == 1


@pytest.mark.slow
async def test_a_start_that_fails_halfway_leaves_no_session(service: CodeService) -> None:
    before = len(service.running)
    service.faults.append(Fault("writeFiles", code="AccessDeniedException"))
    with pytest.raises(SandboxUnavailable):
        await actbox.open_sandbox("agentcore", region="eu-west-1").start()
    assert len(service.running) == before


@pytest.mark.slow
async def test_a_session_that_cannot_be_stopped_is_said_to_go_on(service: CodeService) -> None:
    box = actbox.open_sandbox("agentcore", region="eu-west-1")
    await box.start()
    service.faults.append(Fault("StopCodeInterpreterSession", code="InternalServerException"))
    with pytest.raises(SandboxUnavailable, match="goes on for up to 900 seconds"):
        await box.stop()
    service.expire(service.running[-1].id)


@pytest.mark.slow
async def test_a_service_that_cannot_be_reached_is_told(service: CodeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", "http://127.0.0.1:9")
    with pytest.raises(SandboxUnavailable, match="cannot be reached"):
        await actbox.open_sandbox("agentcore", region="eu-west-1").start()
