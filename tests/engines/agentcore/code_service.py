"""The service, faked where it cannot be had: its wire as it is, with a real machine behind each session."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.engines.agentcore import aws_model
from tests.engines.agentcore.code_machine import Machine, said

# What each tool takes of `ToolArguments`.
TOOLS = {
    "executeCode": {"code", "language", "clearContext", "runtime"},
    "executeCommand": {"command"},
    "readFiles": {"paths"},
    "listFiles": {"directoryPath"},
    "removeFiles": {"paths"},
    "writeFiles": {"content"},
    "startCommandExecution": {"command"},
    "getTask": {"taskId"},
    "stopTask": {"taskId"},
}
Send = Callable[[bytes], None]


@dataclass
class Fault:
    """A fault in the next calls of a tool or operation: `times` calls fail, after the first `after` calls."""

    of: str
    code: str = ""
    """An error of the model's, in place of an answer; as `throttlingException` the exception in a stream."""
    times: int = 1
    after: int = 0
    is_error: bool = False
    """Answer with `isError` and no content at all."""
    without: tuple[str, ...] = ()
    """Members that are left out of `result`, or of its `structuredContent` and the blocks of its `content`."""
    result: dict[str, Any] | None = None
    """Answer with this, and do nothing."""
    raw: tuple[str, bytes] | None = None
    """Answer with this type and these bytes, which need not be what the model says, and do nothing."""
    held: threading.Event | None = None
    """The answer's stream stops in its middle until this is set."""


@dataclass
class Session:
    """A session: READY with its machine, or TERMINATED without."""

    id: str
    interpreter: str
    name: str
    seconds: int
    created: datetime
    machine: Machine | None = field(default_factory=Machine)

    @property
    def status(self) -> str:
        return "TERMINATED" if self.machine is None else "READY"


class CodeService:
    """The service, on a port of its own."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """Each operation or tool that was asked for, with its parameters."""
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"service": self}))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> CodeService:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for session in self.sessions:
            self.expire(session)

    @property
    def running(self) -> list[Session]:
        """The sessions that are paid for."""
        return [session for session in self.sessions.values() if session.machine is not None]

    def expire(self, session: str) -> None:
        """End a session, as the service does when its time is over."""
        machine, self.sessions[session].machine = self.sessions[session].machine, None
        if machine is not None:
            machine.close()

    def called(self, *names: str) -> list[dict[str, Any]]:
        """Return the parameters of all calls of these tools."""
        return [parameters for name, parameters in self.calls if name in names]

    def fault_of(self, name: str) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.of == name:
                    if fault.after:
                        fault.after -= 1
                        continue
                    fault.times -= 1
                    if not fault.times:
                        self.faults.remove(fault)
                    return fault
        return None

    # Operations

    def start(self, p: dict[str, Any]) -> dict[str, Any]:
        session = Session(
            uuid.uuid4().hex,
            p["codeInterpreterIdentifier"],
            p.get("name", ""),
            p.get("sessionTimeoutSeconds", 900),
            datetime.now(UTC),
        )
        self.sessions[session.id] = session
        return {
            "codeInterpreterIdentifier": session.interpreter,
            "sessionId": session.id,
            "createdAt": session.created,
        }

    def stop(self, p: dict[str, Any]) -> dict[str, Any]:
        session = self.live(p)
        self.expire(session.id)
        return {
            "codeInterpreterIdentifier": session.interpreter,
            "sessionId": session.id,
            "lastUpdatedAt": datetime.now(UTC),
        }

    def get(self, p: dict[str, Any]) -> dict[str, Any]:
        if p["sessionId"] not in self.sessions:
            raise Refused("ResourceNotFoundException", "Session not found")
        session = self.sessions[p["sessionId"]]
        return {**self._summary(session), "sessionTimeoutSeconds": session.seconds}

    def list(self, p: dict[str, Any]) -> dict[str, Any]:
        found = [s for s in self.sessions.values() if s.interpreter == p["codeInterpreterIdentifier"]]
        return {"items": [self._summary(s) for s in found if s.status == p.get("status", s.status)]}

    def _summary(self, session: Session) -> dict[str, Any]:
        about = {
            "codeInterpreterIdentifier": session.interpreter,
            "sessionId": session.id,
            "createdAt": session.created,
            "status": session.status,
        }
        return about | ({"name": session.name} if session.name else {})

    def live(self, p: dict[str, Any]) -> Session:
        session = self.sessions.get(p.get("sessionId", ""))
        if session is None or session.machine is None:
            raise Refused("ResourceNotFoundException", f"Session {p.get('sessionId')} not found or expired")
        return session

    def invoke(self, p: dict[str, Any]) -> dict[str, Any]:
        """Return the result of one tool."""
        session = self.live(p)
        arguments = p.get("arguments", {})
        if unknown := set(arguments) - TOOLS[p["name"]]:
            raise Refused("ValidationException", f"{p['name']} takes no {min(unknown)}")
        assert session.machine is not None
        try:
            return getattr(session.machine, p["name"])(**arguments)
        except (TypeError, KeyError) as error:
            raise Refused("ValidationException", f"{p['name']}: {error}") from error
        except (OSError, ValueError) as error:
            return said(f"Error executing tool {p['name']}: {error}", is_error=True)


class Refused(Exception):
    """The service answers with an error of its model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class _Handler(BaseHTTPRequestHandler):
    service: CodeService
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_PUT(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            assert self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "), "the request is not signed"
            self._answer(*aws_model.parse_request(self.command, self.path, self.headers, body))
        except aws_model.Invalid as error:
            self._send(*aws_model.error_answer("ValidationException", str(error)))
        except Refused as error:
            self._send(*aws_model.error_answer(error.code, str(error)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, operation: str, parameters: dict[str, Any]) -> None:
        service = self.service
        is_invocation = operation == "InvokeCodeInterpreter"
        name = parameters["name"] if is_invocation else operation
        service.calls.append((name, parameters.get("arguments", {}) if is_invocation else parameters))
        fault = service.fault_of(name)
        if fault is not None and fault.raw is not None:
            self._send(200, {"Content-Type": fault.raw[0]}, fault.raw[1])
            return
        if fault is not None and fault.code[:1].isupper():
            raise Refused(fault.code, "as the test wants it")
        if is_invocation:
            service.live(parameters)
            is_done = fault is None or not (fault.code or fault.result)
            self._stream(service.invoke(parameters) if is_done else {}, parameters, fault)
            return
        if fault is not None and fault.held is not None:
            fault.held.wait(600)
        do = {"Start": service.start, "Stop": service.stop, "Get": service.get, "List": service.list}
        value = do[operation.partition("Code")[0]](parameters)
        self._send(200, *aws_model.answer(operation, value))

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, result: dict[str, Any], parameters: dict[str, Any], fault: Fault | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.amazon.eventstream")
        self.send_header("x-amzn-code-interpreter-session-id", parameters["sessionId"])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in _chunks(result, fault):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def _chunks(result: dict[str, Any], fault: Fault | None) -> Iterator[bytes]:
    if fault is None:
        yield aws_model.result_event(result)
        return
    if fault.code:
        yield aws_model.exception_event(fault.code, "as the test wants it")
        return
    if fault.result is not None:
        result = fault.result
    if fault.is_error:
        result = {"content": [], "isError": True}
    whole = aws_model.result_event(_without(result, fault.without))
    yield whole[: len(whole) // 2]
    if fault.held is not None:
        fault.held.wait(600)
    yield whole[len(whole) // 2 :]


def _without(result: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    kept = {name: value for name, value in result.items() if name not in names}
    if "structuredContent" in kept:
        kept["structuredContent"] = {n: v for n, v in kept["structuredContent"].items() if n not in names}
    kept["content"] = [{n: v for n, v in block.items() if n not in names} for block in kept["content"]]
    return kept
