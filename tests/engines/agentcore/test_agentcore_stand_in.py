"""The stand-in for the service speaks its wire as botocore's model has it, and does what its tools are for."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import pytest
from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError

from tests.engines.agentcore import aws_model
from tests.engines.agentcore.code_machine import Machine
from tests.engines.agentcore.code_service import TOOLS, CodeService, Fault

INVOKE = "/code-interpreters/aws.codeinterpreter.v1/tools/invoke"


@pytest.fixture
def client(service: CodeService) -> Iterator[CodeInterpreter]:
    """The real client, in a session of its own."""
    made = CodeInterpreter("eu-west-1")
    made.start()
    yield made
    made.stop()
    made.data_plane_client.close()


def results(client: CodeInterpreter, tool: str, **arguments: Any) -> dict[str, Any]:
    with contextlib.closing(client.invoke(tool, arguments)["stream"]) as stream:
        (event,) = stream
    result: dict[str, Any] = event["result"]
    return result


# The model


def test_it_has_all_tools_of_the_model() -> None:
    shape = aws_model.MODEL.operation_model("InvokeCodeInterpreter").input_shape.members["name"]
    assert set(TOOLS) == set(shape.enum)
    known = aws_model.MODEL.operation_model("InvokeCodeInterpreter").input_shape.members["arguments"].members
    # `path` is in the model, and what takes it is not said.
    assert set().union(*TOOLS.values()) == set(known) - {"path"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "executeCode", "arguments": {"source": "1"}}, "no member 'source'"),
        ({"name": "executeCode", "argument": {}}, "has no 'argument'"),
        ({"name": "runCode"}, "none of"),
        ({}, "'name' is missing"),
        ({"name": "executeCode", "arguments": {"code": 1}}, "int in place of"),
        ({"name": "executeCode", "arguments": {"code": "1", "language": "ruby"}}, "none of"),
        ({"name": "executeCode", "arguments": {"clearContext": 1}}, "int in place of"),
        ({"name": "writeFiles", "arguments": {"content": [{"text": "x"}]}}, "'path' is missing"),
        ({"name": "writeFiles", "arguments": {"content": [{"path": "a", "blob": "?"}]}}, "no base64"),
        ({"name": "readFiles", "arguments": {"paths": "a"}}, "str in place of"),
    ],
)
def test_a_request_that_the_model_does_not_know_is_refused(body: dict[str, Any], said: str) -> None:
    with pytest.raises(aws_model.Invalid, match=said):
        aws_model.parse_request("POST", INVOKE, {}, json.dumps(body).encode())


def test_a_path_or_a_query_that_the_model_does_not_know_is_refused() -> None:
    for target in ("/code-interpreters/a/tools/call", f"{INVOKE}?session=1"):
        with pytest.raises(aws_model.Invalid):
            aws_model.parse_request("POST", target, {}, b'{"name": "getTask"}')


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": "text"},
        {"content": [{"text": "no type"}]},
        {"content": [{"type": "video"}]},
        {"content": [], "isError": "no"},
        {"content": [], "structuredContent": {"exit_code": 0}},
        {"content": [], "structuredContent": {"exitCode": "0"}},
        {"content": [], "structuredContent": {"exitCode": True}},
        {"content": [], "structuredContent": {"taskStatus": "running"}},
        {"content": [{"type": "image", "data": "as text"}]},
    ],
)
def test_an_answer_that_the_model_does_not_know_is_never_sent(result: dict[str, Any]) -> None:
    with pytest.raises(aws_model.Invalid):
        aws_model.result_event(result)


def test_an_answer_without_what_the_model_demands_is_never_sent() -> None:
    with pytest.raises(aws_model.Invalid, match="sessionId"):
        aws_model.answer(
            "StartCodeInterpreterSession", {"codeInterpreterIdentifier": "a", "createdAt": datetime.now(UTC)}
        )


# The wire


def test_frames_are_those_that_botocore_reads() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(aws_model.result_event({"content": [{"type": "text", "text": "ü"}]}))
    (message,) = list(buffer)
    assert message.headers[":event-type"] == "result"
    assert json.loads(message.payload) == {"content": [{"type": "text", "text": "ü"}]}


def test_both_checksums_are_there_to_be_checked() -> None:
    whole = aws_model.result_event({"content": []})
    assert struct.unpack("!I", whole[8:12])[0] == crc32(whole[:8])
    for position in (9, len(whole) - 6):
        broken = whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
        buffer = EventStreamBuffer()
        buffer.add_data(broken)
        with pytest.raises(ChecksumMismatch):
            list(buffer)


@pytest.mark.slow
def test_errors_and_exceptions_in_a_stream_are_those_of_the_client(
    client: CodeInterpreter, service: CodeService
) -> None:
    service.faults.append(Fault("executeCommand", code="AccessDeniedException"))
    with pytest.raises(ClientError) as refused:
        results(client, "executeCommand", command="true")
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    service.faults.append(Fault("executeCommand", code="throttlingException"))
    with pytest.raises(EventStreamError) as cut_off:
        results(client, "executeCommand", command="true")
    assert cut_off.value.response["Error"]["Code"] == "throttlingException"


# Sessions and tools


@pytest.mark.slow
def test_sessions_are_started_listed_got_and_stopped(service: CodeService) -> None:
    client = CodeInterpreter("eu-west-1")
    session = client.start(name="mine", session_timeout_seconds=60)
    got = client.get_session()
    assert (got["status"], got["name"], got["sessionTimeoutSeconds"]) == ("READY", "mine", 60)
    assert session in {item["sessionId"] for item in client.list_sessions(status="READY")["items"]}
    identifier = client.identifier
    client.stop()
    assert client.get_session(identifier, session)["status"] == "TERMINATED"
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client.get_session(identifier, "unknown")
    client.data_plane_client.close()


@pytest.mark.slow
def test_an_invocation_in_a_session_that_is_over_is_refused(client: CodeInterpreter, service: CodeService) -> None:
    service.expire(str(client.session_id))
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        results(client, "executeCommand", command="true")
    client.session_id = None


@pytest.mark.slow
def test_code_shares_one_kernel_until_its_context_is_cleared(client: CodeInterpreter) -> None:
    assert results(client, "executeCode", code="x = 41", language="python")["isError"] is False
    assert results(client, "executeCode", code="x + 1", language="python")["structuredContent"]["stdout"] == "42\n"
    failed = results(client, "executeCode", code="x", language="python", clearContext=True)
    assert (failed["isError"], "NameError" in failed["structuredContent"]["stderr"]) == (True, True)


@pytest.mark.slow
def test_files_are_written_read_listed_and_removed(client: CodeInterpreter) -> None:
    content = [{"path": "a/t.txt", "text": "ü"}, {"path": "a/b.bin", "blob": b"\xff\x00"}]
    assert results(client, "writeFiles", content=content)["isError"] is False
    text, blob = (block["resource"] for block in results(client, "readFiles", paths=["a/t.txt", "a/b.bin"])["content"])
    assert (text["type"], text["text"], blob["type"], blob["blob"]) == ("text", "ü", "blob", b"\xff\x00")
    links = results(client, "listFiles", directoryPath="a")["content"]
    assert [(link["type"], link["name"], link["size"]) for link in links] == [
        ("resource_link", "b.bin", 2),
        ("resource_link", "t.txt", 2),
    ]
    assert results(client, "removeFiles", paths=["a/t.txt"])["isError"] is False
    missing = results(client, "readFiles", paths=["a/t.txt"])
    assert (missing["isError"], "structuredContent" in missing) == (True, False)
    assert results(client, "writeFiles", content=[{"path": "/etc/x", "text": ""}])["isError"] is True


@pytest.mark.slow
def test_commands_are_run_or_started_followed_and_stopped(client: CodeInterpreter) -> None:
    done = results(client, "executeCommand", command="echo out; echo err >&2; exit 3")["structuredContent"]
    assert (done["stdout"], done["stderr"], done["exitCode"]) == ("out\n", "err\n", 3)
    started = results(client, "startCommandExecution", command="echo out; exec sleep 600")["structuredContent"]
    assert started["taskStatus"] == "submitted"
    task = started["taskId"]
    assert results(client, "getTask", taskId=task)["structuredContent"]["taskStatus"] == "working"
    assert results(client, "stopTask", taskId=task)["structuredContent"]["taskStatus"] == "canceled"
    assert results(client, "getTask", taskId=task)["structuredContent"]["taskStatus"] == "canceled"


@pytest.mark.slow
def test_an_argument_of_another_tool_is_refused(client: CodeInterpreter) -> None:
    with pytest.raises(ClientError, match="listFiles takes no path"):
        results(client, "listFiles", path="a")


# The machine


def test_its_end_kills_no_process_that_has_the_number_of_a_task_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[int] = []
    kill = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: (killed.append(group), kill(group, number)))
    machine = Machine()
    try:
        ended, goes_on = (
            machine.startCommandExecution(command)["structuredContent"]["taskId"] for command in ("true", "sleep 60")
        )
        while machine.getTask(ended)["structuredContent"]["taskStatus"] == "working":
            time.sleep(0.01)
        machine.executeCode("import os\nos._exit(1)")
    finally:
        machine.close()
    assert killed == [machine._tasks[goes_on].process.pid]
