"""Sends the sandbox's own requests through a shell: always the same command, with the request on standard input.

Nothing that a caller gives is ever part of a command line: no path, no code, no content, no variable. The other end
needs Python and not a shell's usual commands, because only a program can open a directory without following a link,
report an errno, and accept any bytes as a name.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from actbox.core.events import Completed, Output
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox, closing

from .responses import AnswerTooLong, NoShell, ResponseParser, ShellError

LEAST_PYTHON: Final = (3, 9)
# Reads a length and that much source, and runs it. Without quotes and spaces, which a shell could interpret.
_BOOT: Final = "import sys;r=sys.stdin.buffer;exec(r.read(int(r.readline())))"
_LOADER: Final = b"""import importlib, json, types
request = json.loads(r.read(int(r.readline())))
package = types.ModuleType("_actbox")
package.__path__ = [request["code"]]
sys.modules["_actbox"] = package
importlib.import_module("_actbox.guest.shell_requests.main").main(request, r)
"""
_GUEST = Path(__file__).resolve().parents[1] / "guest"
_MOST_OF_A_COMPLAINT = 500
# JSON up to this size is parsed in one step of the event loop.
_MOST_OF_A_REPLY = 512 * 1024
# The most text that is parsed in one step, from a shell that returns all of it at once.
_STEP_CHARACTERS = 2**20


class ControlCommand(tuple[str, ...]):
    """The arguments of a command that a `ShellSandbox` itself runs through its shell.

    The limits on output and time of programs do not apply to it, because files and results are returned through it.
    """


def control_command_of(python: str) -> ControlCommand:
    """Return the command of every request."""
    return ControlCommand((python, "-I", "-X", "utf8", "-c", _BOOT))


def request_stdin(request: Mapping[str, Any], payload: bytes | memoryview = b"") -> bytes:
    """Return the standard input of a command that carries out the request."""
    return _with_source(_LOADER, request, payload)


def install_stdin(request: Mapping[str, Any]) -> bytes:
    """Return the standard input of the first request, which writes the guest's sources for all later ones."""
    sources = {str(path.relative_to(_GUEST)): path.read_text("utf-8") for path in sorted(_GUEST.rglob("*.py"))}
    install = sources["shell_requests/install.py"].encode()
    return _with_source(install, {**request, "least": LEAST_PYTHON}, json.dumps(sources).encode())


def _with_source(source: bytes, request: Mapping[str, Any], payload: bytes | memoryview) -> bytes:
    data = json.dumps(request).encode("ascii")
    return b"%d\n%s%d\n%s%s" % (len(source), source, len(data), data, payload)


async def responses_of(
    sandbox: Sandbox, command: ControlCommand, stdin_for: Callable[[str], bytes]
) -> AsyncGenerator[tuple[str, bytes]]:
    """Send a request and yield its responses, `z` last. `stdin_for` gets the token with which they begin.

    Raises `ShellError` if the shell ends without `z`, or prints something else.
    """
    token = f"actbox-{secrets.token_hex(16)}"
    parser = ResponseParser(token)
    complaint = ""
    result = ExecutionResult()
    is_over = False
    events = sandbox.execute_stream(command, stdin=stdin_for(token), cwd="/")
    try:
        async with closing(events):
            async for event in events:
                if isinstance(event, Output) and event.stream == "stdout":
                    for start in range(0, len(event.text), _STEP_CHARACTERS):
                        if start:
                            await asyncio.sleep(0)
                        for kind, data in parser.feed(event.text[start : start + _STEP_CHARACTERS]):
                            is_over = is_over or kind == "z"
                            yield kind, data
                elif isinstance(event, Output):
                    complaint = (complaint + event.text)[-_MOST_OF_A_COMPLAINT:]
                elif isinstance(event, Completed):
                    result = event.result
    except OSError as error:
        if error.filename == command[0]:
            raise ShellError(f"the shell has no {command[0]!r}") from error
        which = f": {error.filename}" if error.filename else ""
        raise NoShell(f"the shell cannot be had: {error.strerror or error}{which}") from error
    if not is_over:
        raise ShellError(_why(command, result, complaint.strip()))


def _why(command: ControlCommand, result: ExecutionResult, complaint: str) -> str:
    if result.error is not None and not complaint:
        complaint = result.error.message
    said = f", and said: {complaint}" if complaint else ""
    if result.exit_code == 127:  # the code of every shell
        return f"the shell has no {command[0]!r}{said}"
    return f"the shell ended its command with exit code {result.exit_code}{said}"


async def reply_of(responses: AsyncGenerator[tuple[str, bytes]], most: int = 0) -> tuple[dict[str, Any], bytes]:
    """Return the reply to a request, and at most `most` bytes of a file that came with it. Raises `ShellError`.

    The responses are not trusted: a program may have overwritten the guest's sources there.
    """
    reply, content = bytearray(), bytearray()
    async with aclosing(responses):
        async for kind, data in responses:
            if kind in "rb":
                (reply if kind == "r" else content).extend(data)
            if len(reply) > _MOST_OF_A_REPLY or len(content) > most:
                raise AnswerTooLong(f"the shell's answer is longer than what was asked for, at most {most:,} bytes")
    return as_object(reply), bytes(content)


def as_object(data: bytes | bytearray) -> dict[str, Any]:
    """Return a JSON object. Raises `ShellError`."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ShellError("the shell's answer is no JSON object")
    return value
