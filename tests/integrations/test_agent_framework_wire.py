"""What models really receive: the requests of the framework's own clients, taken where they leave this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import Agent

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_scripted import run_program


@pytest.fixture(autouse=True)
def clients_are_there() -> None:
    """Import them for the first test, which takes long."""
    pytest.importorskip("agent_framework_openai", reason="agent-framework-openai is not installed")
    pytest.importorskip("agent_framework_anthropic", reason="agent-framework-anthropic is not installed")


Sent = list[dict[str, Any]]
Answers = list[dict[str, Any]]


@contextmanager
def _serving(answers: Answers) -> Iterator[tuple[str, Sent]]:
    """Serve a model's answers on this machine; what it was sent is in the list."""
    sent: Sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = json.dumps(answers[min(len(sent), len(answers)) - 1]).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def responses(arguments: str) -> Answers:
    def answer(*output: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "completed",
            "output": list(output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "execute_code",
        "arguments": arguments,
        "status": "completed",
    }
    text = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "done", "annotations": []}],
    }
    return [answer(call), answer(text)]


def completions(arguments: str) -> Answers:
    def answer(message: dict[str, Any], reason: str) -> dict[str, Any]:
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": None, **message}}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}

    call = {"id": "call_1", "type": "function", "function": {"name": "execute_code", "arguments": arguments}}
    return [answer({"tool_calls": [call]}, "tool_calls"), answer({"content": "done"}, "stop")]


def messages(arguments: str) -> Answers:
    def answer(block: dict[str, Any], reason: str) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    call = {"type": "tool_use", "id": "toolu_1", "name": "execute_code", "input": json.loads(arguments)}
    return [answer(call, "tool_use"), answer({"type": "text", "text": "done"}, "end_turn")]


def _output(body: dict[str, Any]) -> Any:
    """Return what stands where the result of the call stands."""
    for item in body.get("input", []):
        if item.get("type") == "function_call_output":
            return item["output"]
    for message in body.get("messages", []):
        if message["role"] == "tool":
            return message["content"]
        for block in message.get("content") or []:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                return block["content"]
    raise AssertionError(f"no result in {body}")


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return "\n".join(part.get("text", "") for part in output if part["type"] in ("text", "input_text"))


Dialect = Callable[[str], Answers]
CLIENTS: list[Dialect] = [responses, completions, messages]


async def _sent(dialect: Dialect, program: str, codeact: LinuxCodeActProvider) -> Sent:
    from agent_framework_anthropic import AnthropicClient
    from agent_framework_openai import OpenAIChatClient, OpenAIChatCompletionClient
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    with _serving(dialect(json.dumps({"code": program}))) as (url, sent):
        client: Any
        if dialect is messages:
            client = AnthropicClient(model="m", anthropic_client=AsyncAnthropic(api_key="k", base_url=url))
        elif dialect is responses:
            client = OpenAIChatClient(model="m", async_client=AsyncOpenAI(api_key="k", base_url=url))
        else:
            client = OpenAIChatCompletionClient(model="m", async_client=AsyncOpenAI(api_key="k", base_url=url))
        assert (await Agent(client=client, context_providers=[codeact]).run("go")).text == "done"
    assert len(sent) == 2
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_model_receives_the_text_of_a_failure(client: Dialect) -> None:
    async with LinuxCodeActProvider() as codeact:
        sent = await _sent(client, "print('so far')\n1 / 0", codeact)
    text = _text(_output(sent[1]))
    assert "so far" in text
    assert "ZeroDivisionError: division by zero" in text
    assert "line 2" in text


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_model_receives_the_text_of_a_success(client: Dialect) -> None:
    async with LinuxCodeActProvider() as codeact:
        sent = await _sent(client, "print('hello')\n6 * 7", codeact)
    text = _text(_output(sent[1]))
    assert "hello" in text
    assert "42" in text


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_model_receives_the_text_beside_files(client: Dialect) -> None:
    program = "open('/output/a.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\nprint('drawn')"
    async with LinuxCodeActProvider(file_surface=True) as codeact:
        sent = await _sent(client, program, codeact)
    output = _output(sent[1])
    assert "drawn" in _text(output)
    assert "a.png" in _text(output)
    if client is responses:
        assert [part["type"] for part in output] == ["input_text", "input_image"]
    if client is messages:
        assert [part["type"] for part in output] == ["text", "image"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_model_receives_json_where_that_is_asked_for(client: Dialect) -> None:
    async with LinuxCodeActProvider(result_format="json") as codeact:
        sent = await _sent(client, "1 / 0", codeact)
    shape = json.loads(_text(_output(sent[1])))
    assert set(shape) == {"stdout", "stderr", "exit_code", "success"}
    assert "ZeroDivisionError" in shape["stderr"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_model_is_offered_the_schema_of_the_specification(client: Dialect) -> None:
    async with LinuxCodeActProvider() as codeact:
        sent = await _sent(client, "1", codeact)
    (tool,) = sent[0]["tools"]
    function = tool.get("function", tool)
    schema = function.get("parameters") or function.get("input_schema")
    assert function["name"] == "execute_code"
    assert list(schema["properties"]) == ["code"]
    assert schema["required"] == ["code"]


async def test_files_have_their_path_and_their_type() -> None:
    program = "import os\nos.makedirs('/output/b')\nopen('/output/b/a.csv', 'w').write('x')"
    async with LinuxCodeActProvider(file_surface=True, max_output_files=1) as codeact:
        client = await run_program(codeact, program)
        too_many = await run_program(codeact, "for n in 'ab': open(f'/output/{n}.txt', 'w').write(n)")
    text, file = client.results()[0].items or []
    assert text.type == "text"
    assert (file.type, file.media_type) == ("data", "text/csv")
    assert file.additional_properties["path"] == "/output/b/a.csv"
    assert [item.type for item in too_many.results()[0].items or []] == ["text", "data"]
    assert "does not come back" in too_many.read()


@pytest.mark.slow
@pytest.mark.parametrize("result_format", ["content", "json"])
@pytest.mark.parametrize("client", [responses, completions])
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('half \ud83d')", "nothing ran"),
        ("rate()", "half \\ud83d"),
        # One error more that quotes it.
        pytest.param("import sys; sys.exit('half ' + chr(0xd83d))", "half \\ud83d", marks=pytest.mark.long),
    ],
    ids=["in the program", "of a tool", "of sys.exit"],
)
async def test_half_of_an_emoji_does_not_end_the_run(
    client: Dialect, program: str, said: str, result_format: Any
) -> None:
    def rate() -> None:
        """Fail."""
        raise ValueError("half \ud83d")

    async with LinuxCodeActProvider(tools=[rate], result_format=result_format) as codeact:
        sent = await _sent(client, program, codeact)
    text = _text(_output(sent[1]))
    assert said in (text if result_format == "content" else text.replace("\\\\", "\\"))


async def test_half_of_an_emoji_in_the_name_of_an_argument_is_answered_with_how_to_send_a_program() -> None:
    async with LinuxCodeActProvider() as codeact:
        client = await run_program(codeact, {"co\ud83dde": "1"})
    assert "send execute_code one JSON object" in client.read()
    client.read().encode()
