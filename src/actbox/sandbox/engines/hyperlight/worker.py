"""The worker: a process with one virtual machine. The library holds the interpreter's lock while a program runs.

So only the end of the process ends a program that does not end by itself, and the host kills the worker then. The
worker decides nothing: it relays messages between the machine and the host, with which it shares a socket. Each frame
on the socket is a letter, a length and as many bytes:

    host to worker      worker to host
    `c` command, JSON   `s` state, JSON: `ready`, `failed`, `fresh`, `ended`
    `a` answer          `q` request of the program, which gets an answer

The program's standard output and error go through a pipe, in frames `o` and `e`; `output.py` has the reason.

The worker imports only the standard library, the library, and the guests' wire.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False  # importing typing costs each worker memory
if TYPE_CHECKING:
    from typing import Any, NoReturn

HEADER = struct.Struct("!cI")
# The most bytes of an answer in one call, sent as base64: the WebAssembly machine always has room for this many, and
# the JavaScript machine has a buffer of 16 KiB.
PIECE_BYTES = {"wasm": 128 * 1024, "hyperlight-js": 8 * 1024}
_F_SETSIG = 10  # Linux's value; the fcntl module lacks the name
_MOST_WORDS = 4000
# The most bytes of a program's first message that are sent along with the code that starts it. WebAssembly has no
# limit there that matters; JavaScript has that of a call.
_INLINE_BYTES = {"wasm": 64 * 1024, "hyperlight-js": 8 * 1024}
_MOST_RESULT = 64 * 1024


def main(channel: int, lifeline: int, output: int) -> NoReturn:
    """Serve the host until it closes the socket. The kernel kills this process when `lifeline` hangs up."""
    _die_with(lifeline)
    host = Host(socket.socket(fileno=channel), output)
    try:
        machine = Machine(host, host.command())
    except Exception as error:
        host.state(t="failed", why=_message_of(error), type=type(error).__name__)
        os._exit(1)
    host.state(t="ready", compiled=machine.compiled)
    machine.compiled = ""
    while True:
        command = host.command()
        if "keep" in command:
            machine.run(command)
        else:
            machine.be_fresh()


def _die_with(lifeline: int) -> None:
    """Have the kernel kill this process when the other end of a pipe closes, even while the library is busy."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # it was closed before
        os._exit(1)


class Host:
    """The connection to the host. When it closes, the process ends."""

    def __init__(self, sock: socket.socket, output: int) -> None:
        self._sock = sock
        self._output = output

    def send(self, kind: bytes, data: bytes) -> None:
        """Send a frame."""
        try:
            self._sock.sendall(HEADER.pack(kind, len(data)) + data)
        except OSError:
            os._exit(1)

    def say(self, kind: bytes, data: bytes) -> None:
        """Write output of the program. Waits while the pipe is full."""
        frame = memoryview(HEADER.pack(kind, len(data)) + data)
        try:
            while frame:
                frame = frame[os.write(self._output, frame) :]
        except OSError:
            os._exit(1)

    def state(self, **state: Any) -> None:
        """Report the state of the machine, or of its program."""
        self.send(b"s", json.dumps(state).encode())

    def command(self) -> dict[str, Any]:
        """Wait for the next command."""
        command: dict[str, Any] = json.loads(self._frame())
        return command

    def answer(self) -> bytes:
        """Wait for the answer to a request."""
        return self._frame()

    def _frame(self) -> bytes:
        _, size = HEADER.unpack(self._exactly(HEADER.size))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        pieces = []
        while size:
            try:
                piece = self._sock.recv(min(size, 2**20))
            except OSError:
                piece = b""
            if not piece:
                os._exit(0)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


class Machine:
    """A virtual machine with our part of the guest, and the snapshot that each fresh run starts from.

    `compiled` is our part as compiled by this machine, for later ones; "" if the host sent it compiled.
    """

    def __init__(self, host: Host, command: dict[str, Any]) -> None:
        sys.path[:0] = command["path"]  # where the host found the library
        from hyperlight_sandbox import Sandbox

        self._host = host
        self._inline_bytes = _INLINE_BYTES[command["backend"]]
        self._piece_bytes = PIECE_BYTES[command["backend"]]
        self.compiled = ""
        self._asked: list[bytes] = []
        self._asked_bytes = self._most_bytes = 0
        self._answer = json.dumps(command["sources"]).encode()
        sizes = {key: command[key] for key in ("heap_size", "stack_size")}
        module = {"module": command["module"]} if command["module"] else {}
        self._snapshot: Any = None
        self._sandbox = Sandbox(backend=command["backend"], **sizes, **module)
        self._sandbox.register_tool("actbox", self._called)
        self._start = command["start"]
        for code in (command["warm"], command["boot"]):
            done = self._sandbox.run(code)
            if done.exit_code:
                raise RuntimeError(done.stderr or "the guest did not start")
        self._snapshot = self._sandbox.snapshot()  # type: ignore[no-untyped-call]

    def run(self, command: dict[str, Any]) -> None:
        """Run a program, report how it ended, and restore the snapshot unless the command says `keep`."""
        self._answer = self._host.answer()
        given = base64.b64encode(self._answer).decode() if len(self._answer) <= self._inline_bytes else ""
        self._asked, self._asked_bytes, self._most_bytes = [], 0, command["most_bytes"]
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, command["cpu_seconds"])  # then SIGPROF kills the process
        try:
            done = self._sandbox.run(self._start % given)
            result = done.stdout.strip()[:_MOST_RESULT]
            crash = (done.stderr or f"exit code {done.exit_code}") if done.exit_code else ""
        except Exception as error:
            crash, result = _message_of(error), ""
        signal.setitimer(signal.ITIMER_PROF, 0)
        cpu_ms = (time.process_time() - begun) * 1000
        most_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self._host.state(t="ended", crash=crash[:_MOST_WORDS], result=result, cpu_ms=cpu_ms, max_rss_bytes=most_bytes)
        if not command["keep"]:
            self.be_fresh()

    def be_fresh(self) -> None:
        """Restore the snapshot."""
        self._sandbox.restore(self._snapshot)  # if that fails the process ends, and the host starts another
        self._host.state(t="fresh")

    def _called(self, **given: Any) -> Any:
        """Handle a call from the machine.

        `o` and `e` are output; `m` is a part of a request, and `q` its last part; `p` asks for more of the answer from
        that offset. Before the first program, `c` is a part of our compiled code.
        """
        if "o" in given or "e" in given:
            kind = "o" if "o" in given else "e"
            self._host.say(kind.encode(), base64.b64decode(given[kind]))
            return None
        if "c" in given:
            if self._snapshot is None:
                self.compiled += given["c"]
            return None
        if "m" in given or "q" in given:
            self._asked.append(base64.b64decode(given["m"] if "m" in given else given["q"]))
            self._asked_bytes += len(self._asked[-1])
            if self._asked_bytes > self._most_bytes:
                raise ValueError("the question is too long")
        if "m" in given:
            return None
        if "q" in given:
            question = b"".join(self._asked)
            self._asked, self._asked_bytes = [], 0
            self._host.send(b"q", question)
            self._answer = self._host.answer()
        start = given.get("p", 0)
        piece = self._answer[start : start + self._piece_bytes]
        return {"size": len(self._answer), "piece": base64.b64encode(piece).decode()}


def _message_of(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_MOST_WORDS]
