"""The host's handle on one worker process: starts it, has it run programs, and kills it."""

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
from actbox.sandbox.cancellation import whole
from actbox.sandbox.guest.wire import ENVELOPE_BYTES, ProtocolError

from .options import GuestOptions
from .output import OutputPipe
from .sources import guest_code, keep_compiled
from .worker import HEADER

START_SECONDS: Final = 60.0
"""The most seconds until a machine is ready: usually some tenths, but minutes on an emulated processor."""
_READ_BYTES = 256 * 1024
_MOST_STATE = 64 * 1024
_MOST_COMPILED = 2**20
# The host's variables that a worker inherits; a program's own variables are sent to it instead.
_VARIABLES = ("HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME")
_SANDBOX = Path(__file__).parents[2]
# Registers the directories of the worker's modules as packages without running their `__init__`, so that only the
# worker and its own imports are loaded.
_BOOT = """
import importlib, sys, types
for name in ("", ".guest", ".engines", ".engines.hyperlight"):
    package = sys.modules["_actbox" + name] = types.ModuleType("_actbox" + name)
    package.__path__ = [sys.argv[1] + name.replace(".", "/")]
importlib.import_module("_actbox.engines.hyperlight.worker").main(*map(int, sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker's report on how a program ended; `crash` is the library's message if the machine crashed.

    `result` is the encoded result message if it is short; a long one was sent as a request before.
    """

    crash: str
    result: bytes
    cpu_ms: float
    max_rss_bytes: int


class MachineLost(Exception):
    """The worker process ended. `signal` is the signal that ended it, or 0."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"the worker process was ended by signal {signal}" if signal else "the worker process ended")
        self.signal = signal


class Machine:
    """A worker with its virtual machine. It does one run at a time, each from any event loop."""

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
        """Start a worker and wait until its machine is ready, for at most `seconds`, by default `START_SECONDS`.

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
                # The library repeats parts of its error messages.
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
                start_new_session=True,  # keys such as Ctrl-C at our terminal do not reach it
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
        """True if the worker process is running, as far as is known."""
        return not self._closed and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    async def be_fresh(self) -> bool:
        """Wait until the last run's state is gone; return whether the machine can run another program."""
        try:
            if not self._is_fresh:
                kind, data = await self._frame(_MOST_STATE)
                self._is_fresh = _state(kind, data)["t"] == "fresh"
        except (MachineLost, ProtocolError):
            return False
        return self._is_fresh and self.alive

    async def refresh(self) -> None:
        """Ask the worker to discard a session's state, without waiting for it; `be_fresh` waits."""
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
        """Run a program: answer its requests and report its output (`o` and `e`) until it ends.

        With `keep` its state stays for the next program. If this is cancelled or raises, the worker is killed. Raises
        `MachineLost`, and `ProtocolError` for data that no worker of ours sends.
        """
        self._is_fresh = False
        self._output.begin(say)
        try:
            command = {"keep": keep, "cpu_seconds": cpu_seconds, "most_bytes": most_bytes + ENVELOPE_BYTES}
            await self._send(b"c", _json(command), b"a", program)
            while True:
                kind, data = await self._frame(most_bytes + 2 * ENVELOPE_BYTES)
                self._output.drain()  # report earlier output first
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
        """Kill the worker and wait until it has ended. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._process.kill()
        waiting = asyncio.ensure_future(run_blocking(self._process.wait))
        cancelled = False
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:  # wait on, however often: the caller must know that nothing runs any more
                cancelled = True
        self._let_go()
        if cancelled:
            raise asyncio.CancelledError

    def kill(self) -> None:
        """Kill the worker and wait for it, blocking, for callers without an event loop."""
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
