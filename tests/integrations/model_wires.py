"""A server on loopback that answers as a model provider does, over the wire of OpenAI, Anthropic or Google.

Each `Wire` checks what the provider itself would refuse (another path, a wrong key, a tool call without its result) and
reads the requests, so that a test can say the same of every wire.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlsplit

KEY = "the-key"
MODEL = "some-model"


@dataclass(frozen=True)
class Reply:
    """One answer of the model: text, and a program that it passes to `execute_code`.

    `cut` is true if the model ran out of tokens for it.
    """

    text: str = ""
    program: str = ""
    cut: bool = False


class Fault(Enum):
    """A way in which a server gives no answer."""

    DROPS = "the connection ends in the middle of the answer"
    HANGS = "nothing comes until the server ends"


@dataclass(frozen=True)
class Request:
    """A request as it arrived, without its query. The header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class Refused(Exception):
    """A refusal, with the HTTP status and further headers."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers or {}


class Wire:
    """One provider's API. `provider` is its name before the colon of a model's name."""

    provider: ClassVar[str]
    path: ClassVar[str]
    base_path: ClassVar[str] = ""
    """The path of the provider's base URL, which its client puts before the API's own."""
    variable: ClassVar[str]
    """The environment variable of the key."""
    key_header: ClassVar[str]
    key_prefix: ClassVar[str] = ""

    def __init__(self, *, key: str | None = KEY) -> None:
        self.key = key
        """The key that requests must have; `None` admits every key, as a server of one's own does."""

    def check(self, request: Request) -> None:
        """Raise `Refused` for a request that the provider would refuse."""
        if request.path != self.path:
            raise Refused(404, f"there is nothing at {request.path}")
        if self.key is not None and request.headers.get(self.key_header) != self.key_prefix + self.key:
            raise Refused(401, "the key is wrong")
        called, answered = self.calls(request.body), [call for call, _ in self.results(request.body)]
        if called != answered:
            raise Refused(400, f"the calls {called} have results for {answered}")

    def system(self, body: Mapping[str, Any]) -> str:
        """Return the instructions."""
        raise NotImplementedError

    def tools(self, body: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        """Return the name, the description and the JSON schema of each tool."""
        raise NotImplementedError

    def schema(self, body: Mapping[str, Any]) -> Any:
        """Return the JSON schema that the answer has to fit, `None` without one."""
        raise NotImplementedError

    def calls(self, body: Mapping[str, Any]) -> list[str]:
        """Return the ids of the tool calls in the conversation."""
        raise NotImplementedError

    def results(self, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the call's id and the text of each tool result in the conversation."""
        raise NotImplementedError

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        """Return the body of a response, for 7 tokens read and 5 written."""
        raise NotImplementedError

    def encoded(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[str, bytes]:
        """Return the media type and the bytes of the response to a request."""
        return "application/json", json.dumps(answer).encode()

    def error(self, refused: Refused) -> dict[str, Any]:
        """Return the body of a refusal."""
        return {"error": {"message": str(refused), "type": "invalid_request_error", "param": None, "code": None}}


class Responses(Wire):
    """OpenAI's Responses."""

    provider = "openai"
    path = "/v1/responses"
    base_path = "/v1"
    variable = "OPENAI_API_KEY"
    key_header = "authorization"
    key_prefix = "Bearer "

    def __init__(self, *, key: str | None = KEY) -> None:
        super().__init__(key=key)
        self.stored: dict[str, list[str]] = {}
        """The ids of the tool calls in each response, for requests that name it as the previous one."""

    def system(self, body: Mapping[str, Any]) -> str:
        return "".join(item["content"] for item in body["input"] if item.get("role") in ("system", "developer"))

    def tools(self, body: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        assert {tool["type"] for tool in body["tools"]} == {"function"}
        return [(tool["name"], tool["description"], tool["parameters"]) for tool in body["tools"]]

    def schema(self, body: Mapping[str, Any]) -> Any:
        return body.get("text", {}).get("format", {}).get("schema")

    def calls(self, body: Mapping[str, Any]) -> list[str]:
        before = self.stored.get(body.get("previous_response_id") or "", [])
        return [*before, *(item["call_id"] for item in body["input"] if item.get("type") == "function_call")]

    def results(self, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = (item for item in body["input"] if item.get("type") == "function_call_output")
        return [(item["call_id"], item["output"]) for item in found]

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if reply.text:
            content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
            message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
            output.append({"id": f"msg_{number}", **message})
        if reply.program:
            call = {"type": "function_call", "status": "completed", "name": "execute_code"}
            arguments = json.dumps({"code": reply.program})
            output.append({"id": f"fc_{number}", "call_id": f"call_{number}", "arguments": arguments, **call})
        self.stored[f"resp_{number}"] = [item["call_id"] for item in output if item["type"] == "function_call"]
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "model": MODEL,
            "status": "incomplete" if reply.cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if reply.cut else None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 7,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 12,
            },
        }


class ChatCompletions(Wire):
    """OpenAI's Chat Completions, which many other servers serve."""

    provider = "openai-chat"
    path = "/v1/chat/completions"
    base_path = "/v1"
    variable = "OPENAI_API_KEY"
    key_header = "authorization"
    key_prefix = "Bearer "

    def system(self, body: Mapping[str, Any]) -> str:
        return "".join(message["content"] for message in body["messages"] if message["role"] == "system")

    def tools(self, body: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        functions = [tool["function"] for tool in body["tools"] if tool["type"] == "function"]
        return [(function["name"], function["description"], function["parameters"]) for function in functions]

    def schema(self, body: Mapping[str, Any]) -> Any:
        return body.get("response_format", {}).get("json_schema", {}).get("schema")

    def calls(self, body: Mapping[str, Any]) -> list[str]:
        return [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]

    def results(self, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = (message for message in body["messages"] if message["role"] == "tool")
        return [(message["tool_call_id"], message["content"]) for message in found]

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.program:
            function = {"name": "execute_code", "arguments": json.dumps({"code": reply.program})}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        ended = "length" if reply.cut else "tool_calls" if reply.program else "stop"
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": ended, "logprobs": None}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        }


class Messages(Wire):
    """Anthropic's Messages."""

    provider = "anthropic"
    path = "/v1/messages"
    variable = "ANTHROPIC_API_KEY"
    key_header = "x-api-key"

    def check(self, request: Request) -> None:
        super().check(request)
        if request.headers.get("anthropic-version") != "2023-06-01":
            raise Refused(400, "anthropic-version is required")
        if not isinstance(request.body.get("max_tokens"), int):
            raise Refused(400, "max_tokens is required")

    def system(self, body: Mapping[str, Any]) -> str:
        system = body["system"]
        return system if isinstance(system, str) else "".join(block["text"] for block in system)

    def tools(self, body: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        return [(tool["name"], tool["description"], tool["input_schema"]) for tool in body["tools"]]

    def schema(self, body: Mapping[str, Any]) -> Any:
        return body.get("output_config", {}).get("format", {}).get("schema")

    def calls(self, body: Mapping[str, Any]) -> list[str]:
        return [block["id"] for block in self._blocks(body) if block["type"] == "tool_use"]

    def results(self, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = [block for block in self._blocks(body) if block["type"] == "tool_result"]
        return [(block["tool_use_id"], json.dumps(block["content"])) for block in found]

    def _blocks(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        contents = [message["content"] for message in body["messages"]]
        return [block for content in contents if not isinstance(content, str) for block in content]

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text, "citations": None}] if reply.text else []
        if reply.program:
            call = {"type": "tool_use", "name": "execute_code", "input": {"code": reply.program}}
            content.append({"id": f"toolu_{number}", **call})
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": content,
            "stop_reason": "max_tokens" if reply.cut else "tool_use" if reply.program else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 7, "output_tokens": 5},
        }

    def encoded(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[str, bytes]:
        if not body.get("stream"):
            return super().encoded(body, answer)
        stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}},
            *(event for at, block in enumerate(answer["content"]) for event in self._streamed(at, block)),
            {"type": "message_delta", "delta": stop, "usage": answer["usage"]},
            {"type": "message_stop"},
        ]
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return "text/event-stream", "".join(lines).encode()

    def _streamed(self, at: int, block: Mapping[str, Any]) -> list[dict[str, Any]]:
        if block["type"] == "text":
            empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return [
            {"type": "content_block_start", "index": at, "content_block": {**block, **empty}},
            {"type": "content_block_delta", "index": at, "delta": delta},
            {"type": "content_block_stop", "index": at},
        ]

    def error(self, refused: Refused) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": str(refused)}}


class GenerateContent(Wire):
    """Gemini's generateContent."""

    provider = "google"
    path = f"/v1beta/models/{MODEL}:generateContent"
    variable = "GOOGLE_API_KEY"
    key_header = "x-goog-api-key"

    def system(self, body: Mapping[str, Any]) -> str:
        return "".join(part["text"] for part in body["systemInstruction"]["parts"])

    def tools(self, body: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        declared = [function for tool in body["tools"] for function in tool["functionDeclarations"]]
        # The API's JSON is that of protobuf, which takes a field's name in either spelling; the client uses this one.
        return [(each["name"], each["description"], each["parameters_json_schema"]) for each in declared]

    def schema(self, body: Mapping[str, Any]) -> Any:
        return body.get("generationConfig", {}).get("responseJsonSchema")

    def calls(self, body: Mapping[str, Any]) -> list[str]:
        return [part["functionCall"]["id"] for part in self._parts(body) if "functionCall" in part]

    def results(self, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = [part["functionResponse"] for part in self._parts(body) if "functionResponse" in part]
        return [(result["id"], json.dumps(result["response"])) for result in found]

    def _parts(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [part for content in body["contents"] for part in content["parts"]]

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
        if reply.program:
            call = {"id": f"call_{number}", "name": "execute_code", "args": {"code": reply.program}}
            parts.append({"functionCall": call})
        ended = "MAX_TOKENS" if reply.cut else "STOP"
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": ended, "index": 0}],
            "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12},
            "modelVersion": MODEL,
            "responseId": f"response-{number}",
        }

    def error(self, refused: Refused) -> dict[str, Any]:
        return {"error": {"code": refused.status, "message": str(refused), "status": "INVALID_ARGUMENT"}}


WIRES = (Responses(), ChatCompletions(), Messages(), GenerateContent())


@dataclass
class Provider:
    """A running server: its base URL, and the requests so far, including those that it refused."""

    base_url: str
    requests: list[Request] = field(default_factory=list)
    connections: list[object] = field(default_factory=list)
    """The connections that are open now."""
    idle: threading.Condition = field(default_factory=threading.Condition)
    """Notified when a connection ends."""

    async def wait_until_no_connection_is_open(self) -> None:
        """Wait until every client has closed its connections. Fails if one is still open after a minute."""

        def wait() -> bool:
            with self.idle:
                return self.idle.wait_for(lambda: not self.connections, timeout=60)

        # In a thread, because the client may close its side in the event loop's next turn.
        assert await asyncio.to_thread(wait), f"connections are still open: {self.connections}"


@contextmanager
def serving(wire: Wire, replies: Sequence[Reply | Refused | Fault]) -> Iterator[Provider]:
    """Serve a model with these replies, in order, until the block ends."""
    waiting = list(replies)
    ends = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # headers and body leave as one

        def handle(self) -> None:
            with provider.idle:
                provider.connections.append(self)
            try:
                super().handle()
            finally:
                with provider.idle:
                    provider.connections.remove(self)
                    provider.idle.notify_all()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = urlsplit(self.path).path
            request = Request(path, {name.lower(): value for name, value in self.headers.items()}, body)
            provider.requests.append(request)
            try:
                wire.check(request)
                if not waiting:
                    raise Refused(400, "the model has no reply left")
                reply = waiting.pop(0)
                if isinstance(reply, Refused):
                    raise reply
                self.close_connection = isinstance(reply, Fault)
                if reply is Fault.HANGS:
                    ends.wait()
                    return
                is_whole = reply is not Fault.DROPS
                answer = wire.answer(reply if isinstance(reply, Reply) else Reply("Half."), len(provider.requests))
                self.send(200, *wire.encoded(body, answer), is_whole=is_whole)
            except Refused as refused:
                self.send(refused.status, "application/json", json.dumps(wire.error(refused)).encode(), refused.headers)

        def send(
            self,
            status: int,
            media_type: str,
            body: bytes,
            headers: Mapping[str, str] = MappingProxyType({}),
            is_whole: bool = True,
        ) -> None:
            self.send_response(status)
            for name, value in {"content-type": media_type, "content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body if is_whole else body[: len(body) // 2])

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Provider(f"http://127.0.0.1:{server.server_port}{wire.base_path}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield provider
        finally:
            ends.set()
            server.shutdown()
            thread.join()
