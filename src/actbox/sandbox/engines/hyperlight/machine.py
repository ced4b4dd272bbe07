"""The host's end of one worker: a process that is started, asked to run programs, and killed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actbox.core.counted import counted
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest.wire import ENVELOPE_BYTES, ProtocolError
from actbox.sandbox.whole import whole

from .options import GuestOptions
from .output import OutputPipe
from .sources import guest_code, keep_compiled
from .worker import HEADER

START_SECONDS: Final = 60.0
"""How long a machine may take to start: some tenths of a second, and minutes where a processor is emulated."""
_READ_BYTES = 256 * 1024
_MOST_STATE = 64 * 1024
_MOST_COMPILED = 2**20
# Variables that a process needs to be at home on its machine; what a program is told is in none of them.
_VARIABLES = ("HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME")
_SANDBOX = Path(__file__).parents[2]
# Names the folders that the worker's modules lie in as packages without running their `__init__`, so that nothing but
# the worker and what it imports is imported.
_BOOT = """
import importlib, sys, types
for name in ("", ".guest", ".engines", ".engines.hyperlight"):
    package = sys.modules["_actbox" + name] = types.ModuleType("_actbox" + name)
    package.__path__ = [sys.argv[1] + name.replace(".", "/")]
importlib.import_module("_actbox.engines.hyperlight.worker").main(*map(int, sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, by the worker's word: `crash` are the library's words where the machine broke.

    `result` is the message with what the program came to, where that is short; a long one was asked as a question.
    """

    crash: str
    result: bytes
    cpu_ms: float
    max_rss_bytes: int


class MachineLost(Exception):
    """The worker ended by itself. `signal` is what ended it, 0 where nothing did."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"the worker process was ended by signal {signal}" if signal else "the worker process ended")
        self.signal = signal


class Machine:
    """A worker with its virtual machine. One run at a time; each is told by any event loop, one after the other."""

    def __init__(
        self, process: subprocess.Popen[bytes], sock: socket.socket, output: OutputPipe, lifeline: int
    ) -> None:
        self._process = process
        self._output = output
        self._sock = sock
        self._lifeline = lifeline
        self._buffer = bytearray()
        self._is_fresh = True
        self._closed = False
        sock.setblocking(False)

    @classmethod
    async def start(cls, options: GuestOptions, *, seconds: float | None = None) -> Machine:
        """Start a worker and wait until its machine is ready, `START_SECONDS` at most unless told.

        Raises `SandboxUnavailable`.
        """
        most = START_SECONDS if seconds is None else seconds
        machine = await whole(run_blocking(cls._spawn), lambda made: made.end())
        try:
            async with asyncio.timeout(most):
                await machine._send(b"c", _json({**options.to_command(), **guest_code(options)}))
                kind, data = await machine._frame(_MOST_COMPILED)
            state = _state(kind, data)
            if state["t"] != "ready":
                # The library wraps an error in what it says of it, several times over.
                why = ": ".join(dict.fromkeys(str(state.get("why")).split(": ")))
                raise SandboxUnavailable(f"the virtual machine does not start: {why}")
            keep_compiled(options, state["compiled"])
        except TimeoutError:
            await machine.end()
            raise SandboxUnavailable(f"the virtual machine was not ready within {counted(most, 'second')}") from None
        except MachineLost as error:
            await machine.end()
            raise SandboxUnavailable(f"the virtual machine does not start: {error}") from None
        except BaseException:
            await machine.end()
            raise
        return machine

    @classmethod
    def _spawn(cls) -> Machine:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        output, written = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-X",
                    "utf8",
                    "-c",
                    _BOOT,
                    str(_SANDBOX),
                    *map(str, (theirs.fileno(), read, written)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), read, written),
                env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
                start_new_session=True,  # what is typed at our terminal is not for it
            )
        except OSError as error:
            ours.close()
            os.close(write)
            os.close(output)
            raise SandboxUnavailable(f"a worker process cannot be started: {error.strerror or error}") from error
        finally:
            theirs.close()
            os.close(read)
            os.close(written)
        return cls(process, ours, OutputPipe(output), write)

    @property
    def alive(self) -> bool:
        """Whether the worker's process is there, as far as is known."""
        return not self._closed and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The worker's process."""
        return self._process.pid

    async def be_fresh(self) -> bool:
        """Wait until what the last run left is gone; return whether the machine can take another."""
        try:
            if not self._is_fresh:
                kind, data = await self._frame(_MOST_STATE)
                self._is_fresh = _state(kind, data)["t"] == "fresh"
        except (MachineLost, ProtocolError):
            return False
        return self._is_fresh and self.alive

    async def refresh(self) -> None:
        """Have it forget a session, without waiting for that; `be_fresh` does."""
        if self._is_fresh or not self.alive:
            return
        try:
            await self._send(b"c", _json({}))
        except MachineLost:
            await self.end()
        except BaseException:
            await self.end()
            raise

    async def run(
        self,
        program: bytes,
        *,
        cpu_seconds: float,
        most_bytes: int,
        keep: bool,
        answer: Callable[[bytes], Awaitable[bytes]],
        say: Callable[[str, bytes], None],
    ) -> Ended:
        """Run a program, answering what it asks, and handing on what it writes to `o` and `e`.

        With `keep` what it leaves is there for the next one. When this is cancelled or raises, the machine is ended.
        Raises `MachineLost`, and `ProtocolError` for what no worker of ours says.
        """
        self._is_fresh = False
        self._output.begin(say)
        try:
            command = {"keep": keep, "cpu_seconds": cpu_seconds, "most_bytes": most_bytes + ENVELOPE_BYTES}
            await self._send(b"c", _json(command), b"a", program)
            while True:
                kind, data = await self._frame(most_bytes + 2 * ENVELOPE_BYTES)
                self._output.drain()  # what was written before comes before
                if self._output.is_broken:
                    raise ProtocolError("the worker wrote what nobody expected")
                if kind == b"q":
                    await self._send(b"a", await answer(data))
                else:
                    state = _state(kind, data)
                    result = _result_of(str(state["result"]))
                    return Ended(str(state["crash"]), result, float(state["cpu_ms"]), int(state["max_rss_bytes"]))
        except BaseException:
            await self.end()
            raise
        finally:
            self._output.end()

    async def end(self) -> None:
        """Kill the process, and wait until nothing of it is left. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._process.kill()
        waiting = asyncio.ensure_future(run_blocking(self._process.wait))
        cancelled = False
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:  # however often: what calls this must know that nothing runs any more
                cancelled = True
        self._let_go()
        if cancelled:
            raise asyncio.CancelledError

    def kill(self) -> None:
        """Kill the process without waiting, where no event loop is there to wait with."""
        if not self._closed:
            self._closed = True
            self._process.kill()
            self._process.wait()
            self._let_go()

    def _let_go(self) -> None:
        self._output.end()
        self._output.close()
        self._sock.close()
        os.close(self._lifeline)

    async def _send(self, *parts: bytes) -> None:
        frames = [HEADER.pack(kind, len(data)) + data for kind, data in zip(parts[::2], parts[1::2], strict=True)]
        try:
            await asyncio.get_running_loop().sock_sendall(self._sock, b"".join(frames))
        except OSError:
            raise await self._lost() from None

    async def _frame(self, most: int) -> tuple[bytes, bytes]:
        while len(self._buffer) < HEADER.size:
            await self._receive()
        kind, size = HEADER.unpack_from(self._buffer)
        if size > most:
            raise ProtocolError(f"a message of {size} bytes; the limit is {most}")
        while len(self._buffer) < HEADER.size + size:
            await self._receive()
        data = bytes(self._buffer[HEADER.size : HEADER.size + size])
        del self._buffer[: HEADER.size + size]
        return kind, data

    async def _receive(self) -> None:
        try:
            piece = await asyncio.get_running_loop().sock_recv(self._sock, _READ_BYTES)
        except OSError:
            piece = b""
        if not piece:
            raise await self._lost()
        self._buffer += piece

    async def _lost(self) -> MachineLost:
        code = await run_blocking(self._process.wait)
        return MachineLost(-code if code < 0 else 0)


def _json(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def _result_of(said: str) -> bytes:
    try:
        return base64.b64decode(said, validate=True)
    except ValueError:
        raise ProtocolError("the guest said what is no message") from None


def _state(kind: bytes, data: bytes) -> dict[str, Any]:
    if kind != b"s":
        raise ProtocolError("the worker said what nobody expected")
    state: dict[str, Any] = json.loads(data)
    return state
