"""What the service's answers may be that are no answers, and what is said of them then: never a client's own error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, FileError, Sandbox, SandboxUnavailable
from tests.engines.agentcore import aws_model
from tests.engines.agentcore.code_service import TOOLS, CodeService, Fault

STREAM = "application/vnd.amazon.eventstream"
FOR_EVER = 10**9


def event(value: Any) -> tuple[str, bytes]:
    return STREAM, frame(json.dumps(value).encode())


def frame(payload: bytes) -> bytes:
    headers = {":message-type": "event", ":event-type": "result", ":content-type": "application/json"}
    return aws_model.frame(headers, payload)


def resource(**about: Any) -> dict[str, Any]:
    return {"content": [{"type": "resource", "resource": about}]}


NONSENSE = {
    "a checksum that is wrong": (STREAM, frame(b"{}")[:-1] + b"?"),
    "JSON that is cut off": (STREAM, frame(b"{nope")),
    "no stream": (STREAM, b"garbage" * 50),
    "an empty stream": (STREAM, b""),
    "a page": ("text/html", b"<html>hi</html>"),
    "another document": ("application/json", b'{"x": 1}'),
    "bytes that are no text": ("application/json", b"\xff\xfe{"),
    "too deep": (STREAM, frame(b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}")),
    "a list for a result": event([1, 2]),
    "nothing for a result": event(None),
    "text for content": event({"content": "abc"}),
    "an object for content": event({"content": {"a": 1}}),
    "a number for a block": event({"content": [7]}),
    "a number for a file": event(resource(uri=5, blob=5)),
    "no base64 for a file": event(resource(uri="file:///x", type="blob", blob="!!!")),
    "a list for what is structured": event({"content": [], "structuredContent": [1]}),
    "numbers for text": event({"content": [], "structuredContent": {"stdout": 5, "stderr": ["x"], "taskId": 7}}),
    "text for a number": event({"content": [], "structuredContent": {"exitCode": "0", "taskId": "t"}}),
}


@pytest.fixture(params=sorted(NONSENSE))
def nonsense(request: pytest.FixtureRequest, service: CodeService) -> Iterator[tuple[str, bytes]]:
    service.faults.clear()
    yield NONSENSE[request.param]
    service.faults.clear()


def say(service: CodeService, said: tuple[str, bytes], *names: str) -> None:
    service.faults += [Fault(name, times=FOR_EVER, raw=said) for name in names]


@pytest.mark.slow
async def test_a_start_that_is_answered_by_nonsense_is_a_sandbox_that_cannot_be_had(
    service: CodeService, nonsense: tuple[str, bytes]
) -> None:
    say(service, nonsense, "StartCodeInterpreterSession")
    with pytest.raises(SandboxUnavailable, match="StartCodeInterpreterSession"):
        await actbox.open_sandbox("agentcore", region="eu-west-1").start()


@pytest.mark.parametrize("named", [7, "", None, ["a"]])
async def test_a_session_without_a_name_is_none(service: CodeService, named: Any) -> None:
    answer = json.dumps({"sessionId": named, "codeInterpreterIdentifier": "aws.codeinterpreter.v1"}).encode()
    say(service, ("application/json", answer), "StartCodeInterpreterSession")
    with pytest.raises(SandboxUnavailable, match="StartCodeInterpreterSession"):
        await actbox.open_sandbox("agentcore", region="eu-west-1").start()
    service.faults.clear()


@pytest.mark.slow
async def test_calls_that_are_answered_by_nonsense_fail(
    box: Sandbox, service: CodeService, nonsense: tuple[str, bytes]
) -> None:
    # Tasks that nothing is said of go on; so does what the sandbox asks for as long as it is waited for.
    say(service, nonsense, *(set(TOOLS) - {"getTask", "listFiles"}))
    session = box.session()
    with pytest.raises(FileError):
        await box.read_file("a")
    for place in (box, session):
        result = await place.run("1")
        assert result.error is not None and result.error.kind is ErrorKind.SANDBOX


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["getTask", "listFiles", "readFiles"])
async def test_output_that_is_nonsense_ends_a_run(box: Sandbox, service: CodeService, tool: str) -> None:
    for said in (NONSENSE["a checksum that is wrong"], NONSENSE["text for content"], NONSENSE["a page"]):
        service.faults.append(Fault(tool, raw=said))
        result = await box.run("1")
        assert result.error is not None and result.error.kind is ErrorKind.SANDBOX
        assert tool in result.error.message
    assert (await box.run("1")).value == 1


async def test_a_stop_that_is_answered_by_nonsense_says_that_the_session_may_go_on(
    service: CodeService,
) -> None:
    opened = actbox.open_sandbox("agentcore", region="eu-west-1")
    await opened.start()
    service.faults.append(Fault("StopCodeInterpreterSession", raw=NONSENSE["bytes that are no text"]))
    with pytest.raises(SandboxUnavailable, match="goes on for up to 900 seconds"):
        await opened.stop()
    await asyncio.to_thread(service.expire, service.running[-1].id)
