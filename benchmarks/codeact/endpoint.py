"""A server on loopback that speaks OpenAI's chat completions, with a script for a model.

An agent's client does not know the difference, so what is counted is the request that a provider would have got: the
conversation, the tools and the form of the answer as the framework and its client wrote them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .counting import request_tokens, said_tokens
from .scripted import Reply, Script

MODEL = "scripted"


@dataclass(frozen=True)
class Exchange:
    """A request as it came, its length in bytes, and the message that it was answered with."""

    request: Mapping[str, Any]
    request_bytes: int
    reply: Mapping[str, Any]


@dataclass
class Endpoint:
    """A server, and what was said to it."""

    base_url: str
    exchanges: list[Exchange] = field(default_factory=list)


@contextmanager
def serve(script: Script) -> Iterator[Endpoint]:
    """Serve a script, until the block ends. Where it knows no answer the server's is status 500, with the reason."""

    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
        Handler.script, Handler.endpoint = script, endpoint
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave as one
    script: Script
    endpoint: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/chat/completions":
            return self._send(404, {"error": {"message": f"there is nothing at {self.path}"}})
        request = json.loads(body)
        try:
            reply = self.script.reply(request)
        except LookupError as error:
            return self._send(500, {"error": {"message": f"the script knows no answer: {error}"}})
        message = _message(reply, len(self.endpoint.exchanges))
        self.endpoint.exchanges.append(Exchange(request, len(body), message))
        return self._send(200, _completion(request, message))

    def _send(self, status: int, content: Mapping[str, Any]) -> None:
        body = json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _message(reply: Reply, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            # As long as OpenAI's own.
            {
                "id": f"call_{number:012d}{position:012d}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.written},
            }
            for position, call in enumerate(reply.calls)
        ]
    return message


def _completion(request: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    read, written = request_tokens(request), said_tokens(message)
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        ],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }
